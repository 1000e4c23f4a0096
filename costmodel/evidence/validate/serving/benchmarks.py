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
from costmodel.equations.kernels.roofline import stream_time
from costmodel.equations.run.economics import share
from costmodel.equations.run.uncertainty import TENTH, combined_error
from costmodel.equations.serving.closed_loop import loop_tokens_per_gpu
from costmodel.equations.serving.engine_step import experts_read
from costmodel.estimate.serving.concurrency import closed_loop
from costmodel.estimate.serving.constraints import invalid
from costmodel.estimate.serving.engine_memory import layer_weights, memory_use
from costmodel.estimate.serving.engine_placement import crosses_domains
from costmodel.estimate.serving.engine_step import STEP_TERMS, StepTime
from costmodel.estimate.serving.load import bounds_of, with_preemption
from costmodel.estimate.serving.measured_spreads import spreads
from costmodel.estimate.serving.offline import offline_batch, offline_state
from costmodel.estimate.serving.operating_point import ExactSteps, micro_batch, operating_point
from costmodel.estimate.serving.plan_columns import PlanColumns, Rows
from costmodel.estimate.serving.serving_inputs import ServingInputs, inputs_of
from costmodel.estimate.serving.steady_state import SteadyState
from costmodel.evidence.validate.serving.serving_rows import ServingRow
from costmodel.evidence.validate.spelling import CannotModel
from costmodel.ground.equation import Number
from costmodel.ground.errors import CostModelError
from costmodel.ground.record import record

LENGTHS = ("prompt", "output")
Figures = Mapping[str, float]  # by the columns of results
Predicted = Figures | CannotModel
PART = "part of a token: "  # ahead of each term of a time per token among the figures, as a share
PROMPTS = "prompts"  # steps with prompts of others between two tokens


def predictions(
    rows: Sequence[ServingRow], shelf: CachedReader, count: Callable[[int, int], None] = lambda done, rows: None
) -> list[Predicted]:
    """The predicted figures of each row, or the reason for none; `count` gets the rows done and the total."""
    predicted_rows: dict[int, Predicted] = {}
    for members in groups(rows):
        count(len(predicted_rows), len(rows))
        asked = [rows[index] for index in members]
        try:
            inputs = inputs_of(case_of_group(asked, shelf))
        except CannotModel as reason:
            predicted_rows |= dict.fromkeys(members, reason)
            continue
        predicted_rows |= dict(zip(members, of_group(inputs, asked), strict=True))
    return [predicted_rows[index] for index in range(len(rows))]


def case_of_group(rows: Sequence[ServingRow], shelf: CachedReader) -> ServingCase:
    """The scenario of rows that differ only in layout and load, on as many nodes as the largest row needs."""
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
    """Lists of row numbers whose scenarios differ only in layout, load and number of nodes."""
    alike: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        columns = ("concurrency",) if row.learned_positions else (*LENGTHS, "concurrency")
        workload = {name: value for name, value in row.scenario["workload"].items() if name not in columns}
        workload |= {"spread": row.scenario["workload"]["output"]["spread"]}
        cluster = row.scenario["cluster"]["node"]
        key = json.dumps(
            {**row.scenario, "workload": workload, "cluster": cluster, "launched": row.launched}, sort_keys=True
        )
        alike.setdefault(key, []).append(index)
    return list(alike.values())


def of_group(inputs: ServingInputs, rows: Sequence[ServingRow]) -> list[Predicted]:
    """The predicted figures of rows that differ in layout and load only."""
    tp, pp, ep, apart = (np.array(column) for column in zip(*(row.layout for row in rows), strict=True))
    ones = np.ones(len(rows))
    layout = PlanColumns(tp, pp, ep, apart, ones, inputs.budget * ones)
    users = np.array([row.users for row in rows])
    prompt, output = (np.array(column) for column in zip(*(row.lengths for row in rows), strict=True))
    load = inputs.load
    if np.any((prompt != load.prompt) | (output != load.output)):
        load = replace(load, prompt=prompt, output=output, longest=prompt + output)
    if np.any(cached := np.array([row.cached_share for row in rows])):
        load = replace(load, hit=np.minimum(cached * prompt, prompt - 1.0))  # the last token is computed
    results = benchmark(replace(inputs, load=load), layout, users)
    widths = {crosses: _widths(replace(inputs, crosses=crosses)) for crosses in (False, True)}
    crossing = map(bool, crosses_domains(inputs, layout))
    return [_predicted_row(results, widths[each], index) for index, each in enumerate(crossing)]


def _widths(inputs: ServingInputs) -> dict[str, tuple[float, float]]:
    """Relative spread of each figure below and above its prediction."""
    width = spreads(inputs)
    ends = [float(np.asarray(end)) for end in (width.earlier, width.later)]
    early, late = (float(combined_error(end, width.first_beside_steps)) for end in ends)
    return {"ttft": (early, late), "tpot": (ends[0], ends[1]), "tokens_per_s_per_gpu": (ends[1], ends[0])}


def _predicted_row(results: Benchmark, widths: Mapping[str, tuple[float, float]], index: int) -> Predicted:
    """The predicted figures of one row with their bands, or the reason why there are none."""
    if code := results.refused[index]:
        return CannotModel("V007", code)
    state = results.state
    columns = {"ttft": state.ttft, "tpot": state.tpot, "tokens_per_s_per_gpu": results.tokens_per_gpu}
    figures = {name: float(np.asarray(values)[index]) for name, values in columns.items()}
    for name, spread in widths.items():
        low, high = (math.exp(sign * TENTH * relative) for sign, relative in zip((-1, 1), spread, strict=True))
        figures |= {f"{name}_low": figures[name] * low, f"{name}_high": figures[name] * high}
        figures[f"{name}_spread"] = min(spread)
    parts = {f"{PART}{name}": float(shares[index]) for name, shares in results.parts.items()}
    return figures | parts | {"floor": float(results.floor[index])}


# --- closed loops of one model, engine and pair of lengths over many layouts at once


@record
class Benchmark:
    """The figures of each layout with so many users in a closed loop, and why some layouts are invalid."""

    state: SteadyState
    tokens_per_gpu: Rows
    floor: Rows  # time per token that memory bandwidth allows at best, without speculation
    refused: list[str]  # the first code of each row; empty where it is valid
    parts: Mapping[str, Rows]  # share of each term of a time per token


def benchmark(inputs: ServingInputs, layout: PlanColumns, users: Rows) -> Benchmark:
    """Evaluates each layout with `users` users in a closed loop, or with so many requests at once."""
    workload = inputs.case.scenario.workload
    memory = memory_use(inputs, layout)
    refused = [""] * len(layout)
    for code, mask in (("M001", np.broadcast_to(np.asarray(memory.pool <= 0), len(layout))), *invalid(inputs, layout)):
        for row in np.flatnonzero(mask):
            refused[row] = refused[row] or code
    with np.errstate(all="ignore"):  # rows that are refused
        bounds = bounds_of(inputs, layout, memory)
        many = np.minimum(users, bounds.least)
        exact = ExactSteps(inputs, layout)
        decode = exact.breakdown(micro_batch(layout, many))
        point = operating_point(inputs, layout, many, exact, decode.total)
        crowded = with_preemption(inputs, bounds, users)
        if workload.requests is None:
            burst = workload.traffic == "burst"
            state = closed_loop(crowded, layout, point, users, bounds.admitted, burst=burst)
            tokens = loop_tokens_per_gpu(users, inputs.load.output, state.ttft, state.tpot, layout.ranks)
        else:
            state = offline_state(crowded, layout, point, offline_batch(crowded, layout, point, exact))
            tokens = share(state.rate * inputs.load.output, layout.ranks)
        floor = np.broadcast_to(np.asarray(shortest_step(inputs, layout, many)), len(layout))
        parts = _parts(decode, state.tpot, len(layout))
    return Benchmark(state, np.asarray(tokens), floor, refused, parts)


def _parts(decode: StepTime, token: Number, rows: int) -> dict[str, Rows]:
    """Share of each term in the time per token."""
    times = {name: getattr(decode, name) for name in STEP_TERMS}
    times[PROMPTS] = np.maximum(token - decode.total, 0.0)
    whole = sum(times.values(), start=np.zeros(rows))
    return {name: np.broadcast_to(np.asarray(share(time, whole)), rows) for name, time in times.items()}


def shortest_step(inputs: ServingInputs, layout: PlanColumns, decodes: Number) -> Number:
    """Time to read the weights that a step of `decodes` sequences uses, at the datasheet's memory bandwidth."""
    nbytes: Number = 0.0
    for kind in inputs.model.layers:
        maps, routed = layer_weights(inputs, layout, kind)
        if kind.experts is not None:
            read = experts_read(decodes, kind.experts.top_k, kind.experts.count)
            routed = routed * (read / kind.experts.count)
        nbytes = nbytes + kind.count * (maps + routed)
    return stream_time(nbytes, inputs.memory_bandwidth, 1.0)
