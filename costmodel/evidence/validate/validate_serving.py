"""Predicted against measured of serving: times and throughput of benchmarks, and the pool of the cache."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast, get_args

import numpy as np

from costmodel.documents.reader.library import CachedReader
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.reader.serving_scenario import ServingCase, serving, serving_case_of
from costmodel.documents.reader.validation_errors import validate
from costmodel.documents.schemas.engine import Engine
from costmodel.documents.schemas.serving import ServingScenario
from costmodel.equations.kernels.roofline import stream_time
from costmodel.equations.run.economics import share
from costmodel.equations.run.uncertainty import TENTH, combined_error
from costmodel.equations.serving.closed_loop import loop_tokens_per_gpu
from costmodel.equations.serving.engine_step import experts_read
from costmodel.estimate.serving.closed_loop import closed_loop, offline_batch, offline_state
from costmodel.estimate.serving.constraints import invalid as invalid_layouts
from costmodel.estimate.serving.engine_memory import layer_weights, memory_use
from costmodel.estimate.serving.engine_step import STEP_TERMS, StepTime
from costmodel.estimate.serving.load import bounds_of, with_preemption
from costmodel.estimate.serving.measured_spreads import spreads
from costmodel.estimate.serving.operating_point import ExactSteps, micro_batch, operating_point
from costmodel.estimate.serving.plan_columns import PlanColumns, Rows, crosses_domains
from costmodel.estimate.serving.predict_serving import predict
from costmodel.estimate.serving.serving_inputs import ServingInputs, inputs_of
from costmodel.estimate.serving.steady_state import SteadyState
from costmodel.evidence.validate.modelled_rows import RowCount
from costmodel.evidence.validate.outcomes import (
    Compared,
    Quantity,
    ServingQuantity,
    Validated,
    Where,
    chosen_rows,
    groups_of_row,
)
from costmodel.evidence.validate.serving_rows import (
    RULES,
    ServingRow,
    engine_of,
    machine_of,
    model_of,
    readable,
    serving_row,
)
from costmodel.evidence.validate.spelling import CannotModel, invalid, needed
from costmodel.exchange.tables.csv_cells import CsvRow
from costmodel.exchange.tables.serving_table import LOGGED, ServingTable
from costmodel.ground.equation import Number
from costmodel.ground.errors import CostModelError, Place, fail
from costmodel.ground.record import record

# --- rows of serving runs that differ in layout and load alone are evaluated together


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
    widths = {crosses: _figure_spreads(replace(inputs, crosses=crosses)) for crosses in (False, True)}
    crossing = map(bool, crosses_domains(inputs, layout))
    return [_predicted_row(results, widths[each], index) for index, each in enumerate(crossing)]


def _figure_spreads(inputs: ServingInputs) -> dict[str, tuple[float, float]]:
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
    for code, mask in (
        ("M001", np.broadcast_to(np.asarray(memory.pool <= 0), len(layout))),
        *invalid_layouts(inputs, layout),
    ):
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
        parts = _term_shares(decode, state.tpot, len(layout))
    return Benchmark(state, np.asarray(tokens), floor, refused, parts)


def _term_shares(decode: StepTime, token: Number, rows: int) -> dict[str, Rows]:
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


# --- predicted against measured of serving: times and throughput of benchmarks, and the pool of the cache


COLUMN: dict[str, str] = {
    "tpot": "tpot",
    "ttft": "ttft",
    "throughput": "tokens_per_s_per_gpu",
    "cache": "cache_pool",
}
MOST_APART = 0.2  # of requests in flight by Little's law over those stated
Answer = tuple[float | None, Mapping[str, float], Mapping[str, str], CannotModel | None]


def serving_answers(
    rows: Sequence[CsvRow],
    quantity: ServingQuantity,
    shelf: CachedReader,
    count: Callable[[int, int], None] = lambda done, rows: None,
) -> Iterator[Answer]:
    """For each row the measured value, the predictions, the imputed cells, and the reason if nothing is predicted.

    count: is given the rows that are done, and all of them
    """
    if quantity == "cache":
        for done, row in enumerate(rows):
            count(done, len(rows))
            yield _pool_answer(row, shelf)
        return
    asked = [_row_input(row, shelf) for row in rows]
    predicted_rows = iter(predictions([row for row in asked if isinstance(row, ServingRow)], shelf, count))
    for row, question in zip(rows, asked, strict=True):
        if isinstance(question, CannotModel):
            yield stated(row, quantity), {}, {}, question
            continue
        predicted = next(predicted_rows)
        yield _row_answer(question, quantity, predicted)


def _row_input(row: CsvRow, shelf: CachedReader) -> ServingRow | CannotModel:
    """The row as input of a prediction, or the reason why it is skipped."""
    try:
        return serving_row(row, shelf)
    except CannotModel as refused:
        return refused


def _pool_answer(row: CsvRow, shelf: CachedReader) -> Answer:
    """The KV-cache pool of a start-up log, measured and predicted.

    Of a log that states tokens alone, the bytes that these take as predicted: its error is that of the tokens.
    """
    value, tokens = logged_pool(row), row.number("log_kv_tokens")
    try:
        if value is None and not tokens:
            raise CannotModel("V005", "log_kv_gib and log_kv_tokens empty")
        predicted, filled = predicted_pool(row, shelf)
        token_bytes = predicted.pop("bytes_per_token")
        if value is None and tokens:
            value, filled["log_kv_gib"] = tokens * token_bytes, "of log_kv_tokens"
    except CannotModel as refused:
        return value, {}, {}, refused
    return value, predicted, filled, None


def _row_answer(question: ServingRow, quantity: ServingQuantity, predicted: Predicted) -> Answer:
    """The measured value of a row with its predictions; refused if the row is implausible or lacks the quantity."""
    value = measured(question, quantity)
    try:
        if isinstance(predicted, CannotModel):
            raise predicted
        if value is None:
            raise CannotModel("V005", f"nothing measured of {quantity}")
        plausible(question, predicted)
    except CannotModel as refused:
        return value, {}, {}, refused
    return value, predicted, question.filled, None


def plausible(question: ServingRow, predicted: Mapping[str, float]) -> None:
    """Skips a row whose figures cannot all be true."""
    _check_possible(question.row, predicted["floor"])
    _check_consistent(question)


def stated(row: CsvRow, quantity: ServingQuantity) -> float | None:
    """The measured cell of a quantity."""
    cells = {"tpot": "tpot_s", "ttft": "ttft_s", "throughput": "tokens_per_s_per_gpu"}
    return row.number(cells[quantity]) if quantity in cells else None


def measured(question: ServingRow, quantity: ServingQuantity) -> float | None:
    """The measured figure; tokens a second of a closed loop follow from its times where no cell states them."""
    row = question.row
    value = stated(row, quantity)
    first, token = row.number("ttft_s"), row.number("tpot_s")
    if quantity != "throughput" or value is not None or first is None or token is None or question.at_once:
        return value
    return float(loop_tokens_per_gpu(question.users, question.lengths[1], first, token, question.gpus))


def _check_possible(row: CsvRow, floor: float) -> None:
    """Skips a row whose tokens come faster than weights can be read, which looks like a typo."""
    for name in ("tpot_s", "ttft_s"):
        value = row.number(name)
        if value is not None and value < floor:
            sentence = f"{name} {value:.3g} is less than {floor:.3g} s, in which the weights are read once"
            raise CannotModel("V014", f"{sentence}: tokens drafted beside, or another layout")


def _check_consistent(question: ServingRow) -> None:
    """Skips a row whose concurrency, rate and latency contradict Little's law."""
    row, output = question.row, question.lengths[1]
    first, token, rate = row.number("ttft_s"), row.number("tpot_s"), row.number("requests_per_s")
    tokens = row.number("tokens_per_s_per_gpu")
    if question.at_once or first is None or token is None or (rate is None and tokens is None):
        return
    with np.errstate(all="ignore"):
        closed = float(loop_tokens_per_gpu(question.users, output, first, token, question.gpus))
    given = tokens if tokens is not None else (rate or 0.0) * output / question.gpus
    flying = question.users * float(share(given, closed))
    if abs(flying / question.users - 1) > MOST_APART:
        words = f"rate and latency keep {flying:.3g} requests in flight, and concurrency is {question.users:g}"
        raise CannotModel("V015", f"{words}: is the rate a second's, and of one replica?")


GIB = 2.0**30
# Types by bytes of a number; a checkpoint differs by less, since some of its tensors have another type
_TYPES = {2.0: "bf16", 1.0: "fp8", 34 / 32: "q8_0"}
_APART = 0.03


def logged_pool(row: CsvRow) -> float | None:
    """The KV-cache pool of one device that a log states, in bytes."""
    value = row.number("log_kv_gib")
    return None if value is None else value * GIB


def predicted_pool(row: CsvRow, shelf: CachedReader) -> tuple[dict[str, float], dict[str, str]]:
    """The predicted KV-cache pool of one device with P10 and P90, bytes of a token in it, and the imputed cells."""
    filled: dict[str, str] = {}
    readable(row)
    scenario = _scenario(row, shelf, filled)
    try:
        case: ServingCase = serving_case_of(validate(ServingScenario, scenario, "row"), shelf, scenario)
        inputs = inputs_of(replace(case, stack=_engine_as_logged(row, case, filled)))
    except CostModelError as error:
        fault = error.faults[0]
        raise CannotModel("V004" if fault.code == "D016" else "V006", fault.sentence) from None
    one = np.ones(1)
    tp, pp = next(needed(row, "tp")) * one, (row.number("pp") or 1.0) * one
    use = memory_use(inputs, PlanColumns(tp, pp, one, one, one, inputs.budget * one))
    pool = float(np.asarray(use.pool).reshape(-1)[0])
    if pool <= 0:
        raise CannotModel("V007", "M001: no memory is left for a cache")
    far = math.exp(TENTH * inputs.engine.spread.pool)
    token_bytes = pool / float(np.asarray(use.logged).reshape(-1)[0])
    ends = {"cache_pool_low": pool / far, "cache_pool_high": pool * far}
    return {"cache_pool": pool, **ends, "bytes_per_token": token_bytes}, filled


def _scenario(row: CsvRow, shelf: CachedReader, filled: dict[str, str]) -> dict[str, Any]:
    """The scenario of an engine's start-up log: machine, engine and layout, with a nominal load."""
    _, node, per_node = _machine(row, shelf, filled)
    tp, pp = next(needed(row, "tp")), row.number("pp") or 1.0
    longest = row.number("max_model_len") or (filled.setdefault("max_model_len", "4096") and 4096.0)
    half = float(max(int(longest) // 2, 1))
    return {
        "schema": "costmodel/scenario/v1",
        "title": "row",
        "model": model_of(row, shelf).name,
        "cluster": {"node": node, "nodes": float(math.ceil(tp * pp / per_node))},
        "workload": {
            "kind": "serving",
            "prompt": half,
            "output": half,
            "concurrency": 1.0,
            "context": longest,
            "precision": "bf16",
            **_weights(row),
            "cache": _type(row, "kv_bytes"),
        },
        "stack": engine_of(row, filled),
        "plan": {},
    }


def _machine(row: CsvRow, shelf: CachedReader, filled: dict[str, str]) -> tuple[str, str | dict[str, Any], float]:
    """GPU, node and GPUs per node of a log; an undocumented GPU is replaced by one with its memory."""
    try:
        return machine_of(row, shelf)
    except CannotModel:
        total, stack = (row.number("total_gib") or math.inf) * GIB, shelf.document("stack", engine_of(row, {}))
        documents = (shelf.document("accelerator", name) for name in sorted(shelf.names("accelerator")))
        made = (document for document in documents if document.vendor in stack.runs_on[:1] and document.peak.bf16)
        holding = [each for each in made if each.memory.usable >= total]
        nearest = min(holding, key=lambda each: each.memory.usable, default=None)
        if nearest is None:
            raise
        filled["gpu"] = f"{nearest.name}, by its memory"
        return machine_of(replace(row, written={**row.written, "gpu": nearest.name}), shelf)


def _weights(row: CsvRow) -> dict[str, str]:
    said = row.text("weight_bytes_per_param")
    if said.startswith("mx"):
        return {"expert_weights": "mxfp4"}
    return {"weights": said if said == "nvfp4" else _type(row, "weight_bytes_per_param")}


def _type(row: CsvRow, name: str) -> str:
    """The type of a cell that states bytes; bf16 where it is empty."""
    said = row.text(name) or "2"
    size = float(said) if re.fullmatch(r"\d+(\.\d+)?", said) else math.inf
    nearest = min(_TYPES, key=lambda each: abs(size - each))
    if abs(size / nearest - 1) > _APART:
        raise CannotModel("V004", f"{name} {row.text(name)}")
    return _TYPES[nearest]


def _engine_as_logged(row: CsvRow, case: ServingCase, filled: dict[str, str]) -> Engine:
    """The engine with the settings that the log states."""
    engine, stated = case.stack, {}
    for column in ("u", "max_num_batched_tokens", "max_num_seqs"):
        if row.number(column) is None:
            filled[column] = f"of {engine.name}"
    if share := row.number("u"):
        stated["share"] = share
    if total := row.number("total_gib"):
        stated["driver"] = max(case.accelerator.memory.usable - total * GIB, 0.0)
    picked = {"budget": row.number("max_num_batched_tokens"), "sequences": row.number("max_num_seqs")}
    memory = engine.memory.model_copy(update=stated)
    return engine.model_copy(update={"memory": memory} | {key: value for key, value in picked.items() if value})


# Rows of tables and runs of documents that serve, as figures that validate reports.

FIRST = "first token"  # the only term of the time to it
Ends = tuple[float, float | None, float | None]


def compared_serving(
    table: ServingTable, quantity: Quantity | None, where: Where, shelf: CachedReader, count: RowCount
) -> Validated:
    """Compares the rows of a serving table with predictions, all evaluated together."""
    asked = serving_quantity(table, quantity)
    rows = chosen_rows(table, where, shelf)
    answers = zip(rows, serving_answers(rows, asked, shelf, count), strict=True)
    return Validated(table, [_compared_row(row, COLUMN[asked], answer, shelf) for row, answer in answers], RULES)


def _compared_row(row: CsvRow, name: str, answer: Answer, shelf: CachedReader) -> Compared:
    """Compares the measured figure of one row with the predicted one."""
    value, predicted, filled, refused = answer
    ours, low, high = (predicted.get(each) for each in (name, f"{name}_low", f"{name}_high"))
    groups = groups_of_row(row, refused.code if refused else "modelled", shelf)
    groups["stack"] = groups["framework"]
    parts = {each.removeprefix(PART): share for each, share in predicted.items() if each.startswith(PART)}
    parts = {FIRST: 1.0} if name == "ttft" else parts if name == "tpot" else {}
    compared_figure = Compared(
        row.id, name, value, ours, low=low, high=high, filled=filled, groups=groups, subject=row, parts=parts
    )
    return replace(compared_figure, refused=refused.code, why=refused.why) if refused else compared_figure


def serving_quantity(table: ServingTable, quantity: Quantity | None) -> ServingQuantity:
    """The quantity to compare: as asked, else time per token, or the cache for start-up logs."""
    logs = LOGGED in table.columns
    asked = quantity or ("cache" if logs else "tpot")
    if asked not in get_args(ServingQuantity):
        hint = f"one of {', '.join(get_args(ServingQuantity))}"
        raise fail("C005", f"{table.file} is about serving, and has no {asked}", Place("command line"), hint)
    if logs != (asked == "cache"):
        what = "start-up logs, which have cache alone" if logs else "runs; cache is of start-up logs, with log_kv_gib"
        raise fail("C005", f"{table.file} holds {what}", Place("command line"), "leave --quantity out")
    return cast(ServingQuantity, asked)


def predicted_figures(case: LoadedScenario, names: Iterable[str]) -> dict[str, Ends] | CannotModel:
    """Results of the plan of a scenario with their P10 and P90, where they have a band; or why there are none."""
    predicted = predict(serving(case))
    if predicted.refused:
        return invalid(predicted.refused[0])
    if "M001" in predicted.broken:
        return CannotModel("V007", "M001: no memory is left for a cache")
    costs = predicted.costs
    return {name: (costs[name], costs.get(f"{name}_low"), costs.get(f"{name}_high")) for name in names}
