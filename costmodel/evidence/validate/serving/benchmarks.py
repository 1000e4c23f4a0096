"""Rows of serving runs that differ in layout and load alone are evaluated together."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.reader.serving_scenario import ServingCase, serving_case_of
from costmodel.documents.reader.validation_errors import validate
from costmodel.documents.schemas.serving.serving_schema import ServingScenario
from costmodel.equations.run.uncertainty import TENTH, combined_error
from costmodel.estimate.serving.benchmark import Benchmark, benchmark
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_band import spreads
from costmodel.estimate.serving.serving_inputs import ServingInputs, inputs_of
from costmodel.evidence.validate.serving.serving_rows import ServingRow
from costmodel.evidence.validate.skip_reasons import CannotModel
from costmodel.ground.errors import CostModelError

LENGTHS = ("prompt", "output")
Figures = Mapping[str, float]  # by the columns of results
Predicted = Figures | CannotModel


def predictions(
    rows: Sequence[ServingRow], shelf: CachedReader, count: Callable[[int, int], None] = lambda done, rows: None
) -> list[Predicted]:
    """What is predicted for each row, or why there is nothing; count: is given the rows that are done, and all."""
    found: dict[int, Predicted] = {}
    for members in groups(rows):
        count(len(found), len(rows))
        asked = [rows[index] for index in members]
        try:
            inputs = inputs_of(case_of_group(asked, shelf))
        except CannotModel as reason:
            found |= dict.fromkeys(members, reason)
            continue
        found |= dict(zip(members, of_group(inputs, asked), strict=True))
    return [found[index] for index in range(len(rows))]


def case_of_group(rows: Sequence[ServingRow], shelf: CachedReader) -> ServingCase:
    """The scenario of rows that differ in layout and load alone, on as many nodes as the largest of them."""
    scenario, most = rows[0].scenario, max(row.scenario["cluster"]["nodes"] for row in rows)
    tree = {**scenario, "cluster": {**scenario["cluster"], "nodes": most}}
    try:
        case = serving_case_of(validate(ServingScenario, tree, "row"), shelf, tree)
        case = replace(case, stack=case.stack.model_copy(update=rows[0].launched)) if rows[0].launched else case
        inputs_of(case)
    except CostModelError as error:
        fault = error.faults[0]
        raise CannotModel("V004" if fault.code == "D016" else "V006", fault.sentence) from None
    return case


def groups(rows: Iterable[ServingRow]) -> list[list[int]]:
    """The rows that ask the same but for layout, load and number of nodes; learned positions bound the lengths."""
    alike: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        columns = ("concurrency",) if row.learned_positions else (*LENGTHS, "concurrency")
        workload = {name: value for name, value in row.scenario["workload"].items() if name not in columns}
        cluster = row.scenario["cluster"]["node"]
        key = json.dumps(
            {**row.scenario, "workload": workload, "cluster": cluster, "launched": row.launched}, sort_keys=True
        )
        alike.setdefault(key, []).append(index)
    return list(alike.values())


def of_group(inputs: ServingInputs, rows: Sequence[ServingRow]) -> list[Predicted]:
    """What is predicted for rows of one scenario."""
    tp, pp, ep, apart = (np.array(column) for column in zip(*(row.layout for row in rows), strict=True))
    ones = np.ones(len(rows))
    layout = PlanColumns(tp, pp, ep, apart, ones, inputs.budget * ones)
    users = np.array([row.users for row in rows])
    burst = inputs.case.scenario.workload.traffic == "burst"
    prompt, output = (np.array([row.scenario["workload"][name] for row in rows]) for name in LENGTHS)
    load = inputs.load
    if np.any((prompt != load.prompt) | (output != load.output)):
        load = replace(load, prompt=prompt, output=output, longest=prompt + output)
    found = benchmark(replace(inputs, load=load), layout, users, burst=burst)
    width = spreads(inputs)
    token, later, first = (float(np.asarray(each)) for each in (width.token, width.later, width.first))
    late = float(combined_error(later, width.first_beside_steps))
    widths = {"ttft": (first, late), "tpot": (token, later), "tokens_per_s_per_gpu": (later, token)}
    return [_row(found, widths, index) for index in range(len(rows))]


def _row(found: Benchmark, widths: Mapping[str, tuple[float, float]], index: int) -> Predicted:
    if code := found.refused[index]:
        return CannotModel("V007", code)
    state = found.state
    columns = {"ttft": state.ttft, "tpot": state.tpot, "tokens_per_s_per_gpu": found.tokens_per_gpu}
    figures = {name: float(np.asarray(values)[index]) for name, values in columns.items()}
    for name, spread in widths.items():
        low, high = (math.exp(sign * TENTH * each) for sign, each in zip((-1, 1), spread, strict=True))
        figures |= {f"{name}_low": figures[name] * low, f"{name}_high": figures[name] * high}
        figures[f"{name}_spread"] = min(spread)
    return figures | {"floor": float(found.floor[index])}
