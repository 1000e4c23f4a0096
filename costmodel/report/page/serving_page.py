"""Pages about serving: one plan with its loads, the search around it, sweeps and sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from costmodel.documents.schemas.results import SERVING_RESULTS, machine_name
from costmodel.estimate.evaluate.answer_facts import subject_of
from costmodel.estimate.serving.limits_chance import OWN
from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.estimate.serving.reason_codes import REFUSALS
from costmodel.estimate.shared.results import number
from costmodel.explore.page.serving_facts import ServingFacts
from costmodel.explore.workloads import workload_of
from costmodel.ground.units import gib, show_memory, time_unit
from costmodel.report.document import Cell, Headline, Value, Verdict, chance_verdict
from costmodel.report.machine import serving_json
from costmodel.report.page.content import CellOf, HtmlPage, PageTable, Part
from costmodel.report.page.figures import BarRow, Bars, FigureEntry, Piece, amounts
from costmodel.report.page.network_part import transfer_value
from costmodel.report.page.plots import Plot, PlotAxis, PlotLine, PlotPoint
from costmodel.report.page.row_commands import row_commands
from costmodel.report.page.scenarios_page import ScenarioEntry, ScenarioKind
from costmodel.report.page.shared_parts import inputs_part, kept_limits, remark_findings
from costmodel.report.page.trace import Traces
from costmodel.report.page.values import memory_role, seconds, term_role
from costmodel.report.terminal.serving.serving_communication import sent
from costmodel.report.terminal.serving.serving_estimate import bound_words, conclusion
from costmodel.report.terminal.serving.serving_formatting import TERMS, plan_words, result
from costmodel.report.terminal.serving.serving_reasons import reason
from costmodel.report.terminal.serving.serving_tree import ServingDrawing
from costmodel.report.terminal.style.formatting import BAND, between
from costmodel.report.terminal.style.head import subject_words, title
from costmodel.report.trials import result_cells, trial_settings

COMPARED_BY = ScenarioKind(
    "serving",
    (("within limits", "rate_within_slo_per_s"), ("first token, p99", "ttft_p99"), ("per token", "tpot"),
     ("tok/s/GPU", "tokens_per_s_per_gpu"), ("memory", "memory_peak"), ("cost per M generated", "cost_per_moutput")),
    "tokens_per_gpu_within_limits", "generates most for each accelerator within limits",
    "for each accelerator within limits", result,
)  # fmt: skip


def serving_page(facts: ServingFacts, commands: Sequence[str], known: Traces | None = None) -> HtmlPage:
    """One plan under its load."""
    answer = facts.answer
    subtitle = [subject_words(subject_of(facts.case)), plan_words(answer)]
    verdict: Verdict = "warn" if answer.remarked else chance_verdict(answer.costs[OWN])
    verdict = "bad" if answer.refused or answer.broken else verdict
    if answer.refused:
        held = inputs_part(facts.case, answer.assumed)
        return HtmlPage(facts.case.title, subtitle, conclusion(answer), verdict, [], [held],
                        list(findings(answer)), commands)  # fmt: skip
    traces = known or traces_of(facts)
    cell_of = partial(value_of, answer.costs, traces)
    parts = [token_part(answer, cell_of)] if facts.settled else []
    parts += [load_part(facts)] if len(facts.loads) > 1 else []
    parts += [
        memory_part(answer, traces),
        network_part(answer, traces),
        _results(answer, cell_of),
        inputs_part(facts.case, answer.assumed),
    ]
    loads = row_commands(facts.case, [trial_settings(each, searched=False) for each in facts.loads])
    data = {"trace": traces.data(), "loads": loads}
    return HtmlPage(facts.case.title, subtitle, conclusion(answer), verdict, _headlines(answer, cell_of), parts,
                list(findings(answer)), commands, data)  # fmt: skip


def traces_of(facts: ServingFacts) -> Traces:
    """The traces of a valid plan."""
    return Traces(facts.nodes, ServingDrawing)


def value_of(costs: dict[str, float], traces: Traces, name: str) -> Value:
    """A result as people read it, with its trace."""
    value = costs[name]
    trace = traces.of(name) if math.isfinite(value) else None
    return Value(result(name, value), value if math.isfinite(value) else None, machine_name(name), trace)


def _headlines(answer: ServingAnswer, cell_of: CellOf) -> list[Headline]:
    costs = answer.costs

    def band(name: str) -> str:
        return f"{BAND}: {between(*(result(name, costs[f'{name}_{end}']) for end in ('low', 'high')))}"

    total = gib(float(answer.evaluation.memory.total))
    most = result("saturation_per_s", costs["saturation_per_s"])
    chance = result(OWN, costs[OWN])
    return [
        Headline("First token, p99", cell_of("ttft_p99"), band("ttft_p99")),
        Headline("Time per token", cell_of("tpot"), band("tpot")),
        Headline("Within limits", cell_of("rate_within_slo_per_s"), f"of {most} at most; {chance} to meet limits",
                 chance_verdict(costs[OWN])),
        *_timed(costs, cell_of),
        Headline("Memory", cell_of("memory_peak"), f"of {total} GiB"),
        Headline("Cost per M generated", cell_of("cost_per_moutput"), "at this load"),
    ]  # fmt: skip


def _timed(costs: dict[str, float], cell_of: CellOf) -> list[Headline]:
    """Requests within the limits on their own times; nothing where none bounds them."""
    if math.isnan(costs["in_time_share"]):
        return []
    share = result("in_time_share", costs["in_time_share"])
    return [Headline("Goodput", cell_of("in_time_per_s"), f"{share} of requests in time at this load")]


def findings(answer: ServingAnswer) -> Iterator[tuple[Verdict, str]]:
    """What speaks against a plan, the limits that it keeps, and what there is to remark."""
    for code in answer.refused or answer.broken:
        yield "bad", f"{code} {REFUSALS[code].title}: {reason(answer, code)}"
    if not answer.refused:
        yield from kept_limits(answer.inputs.case, answer.costs, result)
    yield from remark_findings(() if answer.refused else answer.remarked)


def token_part(answer: ServingAnswer, cell_of: CellOf) -> Part:
    """Where a token's time goes."""
    rows = [(words, cell_of(name)) for words, name in TERMS if answer.costs[name]]
    return Part("token", "Where a token's time goes", bound_words(answer), [token_figure(answer)],
                figures_as_table=PageTable(("term", "time"), rows, "lr"))  # fmt: skip


def token_figure(answer: ServingAnswer) -> Bars:
    """The terms of the time per token, longest first."""
    terms = sorted(((words, name, answer.costs[name]) for words, name in TERMS), key=lambda item: -item[2])
    entries = [FigureEntry(words, value, term_role(name), machine_name(name)) for words, name, value in terms if value]
    stated = f"A token takes {result('tpot', answer.costs['tpot'])}; most of it is {entries[0].label}."
    return amounts("token", "Where a token's time goes", stated, entries, "time", seconds, time_unit(entries[0].value))


def load_part(facts: ServingFacts) -> Part:
    """Throughput against latency, and what each load gives."""
    names = ("requests_per_s", "tpot", "ttft", "ttft_p99", "tokens_per_s_per_gpu", "saturation_share")
    heads = ("rate", "per token", "first token", "its p99", "tok/s/GPU", "load", "limits")
    asked = workload_of(facts.case)
    rows = [[*result_cells(asked, trial, names), f"✗ {' '.join(trial.codes)}" if trial.codes else "kept"]
            for trial in facts.loads]  # fmt: skip
    lead = "The same plan under lighter and heavier load: what each accelerator generates, and what a user waits for."
    table = PageTable(heads, rows, "rrrrrrl", rows_data="loads", figures=[*names, ""])
    return Part("load", "Throughput against latency", lead, [load_figure(facts)], figures_as_table=table)


def load_figure(facts: ServingFacts) -> Plot:
    """Tokens a second of each accelerator against the time per token, a point for each load."""
    trials = facts.loads
    points = [
        PlotPoint(answer.costs["tpot"], answer.costs["tokens_per_s_per_gpu"], "second" if answer.broken else "first",
                  _load_words(answer.costs),
                  f"load {answer.costs['requests_per_s']:g}")
        for answer in trials
    ]  # fmt: skip
    own = facts.answer.costs
    if math.isfinite(own["tpot"]):
        points.append(PlotPoint(own["tpot"], own["tokens_per_s_per_gpu"], "third", "this load", "own", "this load", 7))
    line = PlotLine([(point.x, point.y) for point in points[: len(trials)]], "quiet")
    legend = [("first", "keeps the limits"), ("second", "breaks a limit"), ("third", "this load")]
    seen = {point.role for point in points}
    return Plot(
        "load",
        "Throughput against latency",
        f"{len(trials)} loads from {points[0].tip}; up and left is better.",
        PlotAxis("time per token", seconds, unit=time_unit(max(point.x for point in points))),
        PlotAxis("token/s for each accelerator", lambda value: result("tokens_per_s_per_gpu", value)),
        points,
        [line],
        [entry for entry in legend if entry[0] in seen],
    )


def _load_words(costs: Mapping[str, float]) -> str:
    rate, time, each = (result(name, costs[name]) for name in ("requests_per_s", "tpot", "tokens_per_s_per_gpu"))
    return f"{rate}: {time}, {each}"


def memory_part(answer: ServingAnswer, traces: Traces) -> Part:
    """What the fullest accelerator holds."""
    held = _ledger(answer)
    rows = [(name, traces.value(f"{name}_bytes", value, show_memory(value))) for name, value in held.items()]
    return Part("memory", "Where the memory goes", f"The cache has {show_memory(held['cache'])}.",
                [memory_figure(answer)],
                figures_as_table=PageTable(("line", "bytes"), rows, "lr"))  # fmt: skip


def _ledger(answer: ServingAnswer) -> dict[str, float]:
    use = answer.evaluation.memory
    lines = {"weights": use.weights, "activations": use.activations, "runtime": use.runtime, "cache": use.pool}
    return {name: number(value) for name, value in lines.items()}


def memory_figure(answer: ServingAnswer) -> Bars:
    """Its ledger as one bar, and the capacity."""
    held, at, pieces = _ledger(answer), 0.0, list[Piece]()
    for name, value in held.items():
        pieces.append(Piece(at, at + value, memory_role(name), f"{name}: {show_memory(value)}", f"{name}_bytes", value))
        at += value
    total = float(answer.evaluation.memory.total)
    return Bars("memory", "Memory of the fullest accelerator", f"{show_memory(at)} of {show_memory(total)}.",
                [BarRow("fullest", pieces, f"{gib(at)} GiB")], "memory, GiB", gib,
                (total, f"{gib(total)} GiB"), [(memory_role(name), name) for name in held], 2.0**30)  # fmt: skip


def network_part(answer: ServingAnswer, traces: Traces) -> Part:
    """Who sends what in a step of an engine, and for a prompt."""
    names = ("message", "count", "time", "total_time")
    rows: list[Sequence[Cell]] = [
        (item.moment, item.transfer.group.name, f"{number(item.transfer.group.ranks):.0f}",
         item.transfer.operation.replace("_", "-"),
         *(transfer_value(item.transfer, place, name, traces.value) for name in names))
        for place, item in enumerate(sent(answer))
    ]  # fmt: skip
    heads = ("in", "group", "ranks", "operation", "size", "count", "time of one", "in all")
    words = "One accelerator in every group: nothing is sent."
    if rows:
        words = "Transfers of one accelerator in a step of decoding, and for a prompt that is alone."
    return Part("network", "Communication", words, tables=[PageTable(heads, rows, "llrlrrrr")] if rows else [])


def _results(answer: ServingAnswer, cell_of: CellOf) -> Part:
    rows = [(name, cell_of(name), SERVING_RESULTS[name].meaning) for name in SERVING_RESULTS if name in answer.costs]
    return Part("results", "Every figure", "Each figure opens its equation, its inputs and their sources.",
                tables=[PageTable(("result", "value", "meaning"), rows, "lrl")], screen_only=True)  # fmt: skip


def scenario_entry(facts: ServingFacts) -> ScenarioEntry:
    """A plan among several scenarios."""
    answer = facts.answer

    def sections(traces: Traces) -> list[Part]:
        token = [token_part(answer, partial(value_of, answer.costs, traces))] if facts.settled else []
        return [*token, memory_part(answer, traces)]

    return ScenarioEntry(
        COMPARED_BY, title(facts.case), plan_words(answer), conclusion(answer),
        not answer.refused, not (answer.refused or answer.broken), {} if answer.refused else answer.costs,
        lambda: facts.nodes, ServingDrawing, lambda traces: partial(value_of, answer.costs, traces),
        sections, lambda: findings(answer), lambda: serving_json.estimate(answer)["plans"],
    )  # fmt: skip
