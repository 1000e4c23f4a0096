"""Rows of serving runs that differ in layout and load alone are evaluated together."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.reader.serving_scenario import ServingCase, serving_case_of
from costmodel.documents.reader.validation_errors import validate
from costmodel.documents.schemas.serving.serving_schema import ServingScenario
from costmodel.equations.run.uncertainty import TENTH
from costmodel.estimate.serving.benchmark import Benchmark, benchmark
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import ServingInputs, inputs_of
from costmodel.evidence.validate.serving.serving_rows import ServingRow
from costmodel.evidence.validate.skip_reasons import CannotModel
from costmodel.ground.errors import CostModelError

Figures = Mapping[str, float]  # by the columns of results
Predicted = Figures | CannotModel


def predictions(rows: Sequence[ServingRow], shelf: CachedReader) -> list[Predicted]:
    """What is predicted for each row, or why there is nothing."""
    found: dict[int, Predicted] = {}
    for members in groups(rows):
        scenario = rows[members[0]].scenario
        most = max(rows[index].scenario["cluster"]["nodes"] for index in members)
        try:
            inputs = group_inputs({**scenario, "cluster": {**scenario["cluster"], "nodes": most}}, shelf)
        except CostModelError as error:
            fault = error.faults[0]
            reason = CannotModel("V004" if fault.code == "D016" else "V006", fault.sentence)
            found |= dict.fromkeys(members, reason)
            continue
        found |= dict(zip(members, of_group(inputs, [rows[index] for index in members]), strict=True))
    return [found[index] for index in range(len(rows))]


def groups(rows: Iterable[ServingRow]) -> list[list[int]]:
    """The rows that ask the same but for layout, load and number of nodes."""
    alike: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        workload = {name: value for name, value in row.scenario["workload"].items() if name != "concurrency"}
        cluster = row.scenario["cluster"]["node"]
        key = json.dumps({**row.scenario, "workload": workload, "cluster": cluster}, sort_keys=True)
        alike.setdefault(key, []).append(index)
    return list(alike.values())


def group_inputs(scenario: dict[str, Any], shelf: CachedReader) -> ServingInputs:
    """The numbers of a scenario, through the door every scenario goes through."""
    case: ServingCase = serving_case_of(validate(ServingScenario, scenario, "row"), shelf, scenario)
    return inputs_of(case)


def of_group(inputs: ServingInputs, rows: Sequence[ServingRow]) -> list[Predicted]:
    """What is predicted for rows of one scenario."""
    tp, pp, ep, apart = (np.array(column) for column in zip(*(row.layout for row in rows), strict=True))
    ones = np.ones(len(rows))
    layout = PlanColumns(tp, pp, ep, apart, ones, inputs.budget * ones)
    users = np.array([row.users for row in rows])
    burst = inputs.case.scenario.workload.traffic == "burst"
    found = benchmark(inputs, layout, users, burst=burst)
    spread = inputs.engine.spread
    token = spread.experts if inputs.model.has_experts else spread.tpot
    widths = {"ttft": spread.ttft, "tpot": token, "tokens_per_s_per_gpu": token}
    return [_row(found, widths, index) for index in range(len(rows))]


def _row(found: Benchmark, widths: Mapping[str, float], index: int) -> Predicted:
    if code := found.refused[index]:
        return CannotModel("V007", code)
    state = found.state
    columns = {"ttft": state.ttft, "tpot": state.tpot, "tokens_per_s_per_gpu": found.tokens_per_gpu}
    figures = {name: float(np.asarray(values)[index]) for name, values in columns.items()}
    for name, width in widths.items():
        far = math.exp(TENTH * width)
        figures |= {f"{name}_low": figures[name] / far, f"{name}_high": figures[name] * far}
    return figures | {"floor": float(found.floor[index])}
