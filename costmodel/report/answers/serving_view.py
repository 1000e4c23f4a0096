"""The serving plan as answers show it: the time of a token, results at other loads, and communication."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.results import SERVING_COLUMNS, SERVING_RESULTS, ResultColumn, machine_name
from costmodel.estimate.serving.evaluate_disaggregated import DisaggregatedEvaluation
from costmodel.estimate.serving.operating_point import micro_batch
from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.estimate.serving.replica_capacity import transfers
from costmodel.estimate.serving.service_limits import OWN
from costmodel.estimate.shared.results import stated_limits
from costmodel.explore.answer_summaries import scalar
from costmodel.ground.record import record
from costmodel.ground.units import gib, percent, show, show_time, significant, time_unit
from costmodel.report.answers.plan_answer import (
    PlanView,
    band_words,
    bands_section,
    parts_section,
    plan_json,
    result_cell,
)
from costmodel.report.answers.plan_parts import GroupWait, PlanTraffic, SentMessage
from costmodel.report.document import Cell, Column, Draw, Headline, Section, Table, chance_verdict
from costmodel.report.terminal import serving_estimate
from costmodel.report.terminal.layout import CellTable, Line, styled
from costmodel.report.terminal.serving_formatting import TERMS, band_text, limit_verdicts, result

if TYPE_CHECKING:
    from costmodel.explore.page.serving_facts import ServingFacts
    from costmodel.explore.serving.remedy_trials import CacheLever
    from costmodel.report.answers.plan_answer import PlanAnalyses
    from costmodel.report.answers.plan_neighbours import Texts
    from costmodel.report.answers.plan_parts import MemoryLedger, PlanTraffic

_OF_LOADS = ("tpot", "ttft", "ttft_p99", "tokens_per_s_per_gpu", "saturation_share")
_BANDS = "from the errors of kernel fits; for prefill from engine benchmarks"


@record
class ServingView(PlanView):
    """A serving plan with the parts of the answers about it; tried: changes of its KV cache, if known."""

    answer: ServingAnswer
    tried: Sequence[CacheLever] | None = None

    @property
    def case(self) -> ServingCase:
        """The scenario with its documents."""
        return self.answer.inputs.case

    @property
    def columns(self) -> Mapping[str, ResultColumn]:
        """The columns of results of a service."""
        return SERVING_RESULTS

    @functools.cached_property
    def facts(self) -> ServingFacts:
        """Facts that a page computes about the plan."""
        from costmodel.explore.page.serving_facts import ServingFacts

        return ServingFacts(self.case, self.answer)

    @property
    def nexts(self) -> Mapping[str, Sequence[Sequence[str]]]:
        """The commands that may follow each answer."""
        if self.answer.groups:
            return {"estimate": [("search",)]}
        figure = "ttft" if self.case.scenario.workload.single_token else "tpot"
        waits = {name: self.answer.costs[f"{name}_exposed"] for name in ("tp", "dcp", "ep", "pp")}
        longest = max(waits, key=lambda name: waits[name])
        unfit = "M001" in self.answer.broken
        return {
            "estimate": [("memory",)] if unfit else [("explain", figure), ("memory",)],
            "memory": [("explain", "cache_pool")],
            "comm": [("explain", f"{longest}_exposed" if waits[longest] > 0 else "tpot")],
        }

    def plain(self) -> dict[str, Any]:
        """The plan and its results as plain values for JSON."""
        from costmodel.report.answers.search_service import fix_fields, own_plan_fields
        from costmodel.report.data_formats.answer_fields import finite

        row, against = partial(own_plan_fields, self.answer), fix_fields(self.answer)
        found = plan_json(self, row, lambda code: against, columns=SERVING_COLUMNS)
        if (printed := self.answer.benchmark) is not None:
            found["benchmark"] = {machine_name(name): finite(printed[name]) for name in ("ttft", "tpot")}
        return found

    def lines(self) -> list[Line]:
        """The lines on times, rates, memory and cost under the scenario's load."""
        return serving_estimate.estimate_lines(self.answer, self.answer.benchmark)

    def bound(self) -> Line:
        """A line on the bottlenecks of the times and of the rate."""
        return serving_estimate.bound_line(self.answer)

    def headlines(self) -> list[Headline]:
        """The main figures, for the head of a page."""
        costs, cell = self.answer.costs, partial(result_cell, self)
        most, chance = (result(name, costs[name]) for name in ("saturation_per_s", OWN))
        within = f"of {most} at most; {chance} to meet limits"
        timed = []
        if not math.isnan(costs["in_time_share"]):
            share = f"{result('in_time_share', costs['in_time_share'])} of requests in time at this load"
            timed.append(Headline("Goodput", cell("in_time_per_s"), share))
        return [
            Headline("First token, p99", cell("ttft_p99"), band_words(self, "ttft_p99")),
            Headline("Time per token", cell("tpot"), band_words(self, "tpot")),
            Headline("Within limits", cell("rate_within_slo_per_s"), within, chance_verdict(costs[OWN])),
            *timed,
            Headline("Memory", cell("memory_peak"), f"of {gib(float(self.answer.evaluation.memory.total))} GiB"),
            Headline("Cost per M generated", cell("cost_per_moutput"), "at this load"),
        ]

    def time(self) -> list[Section]:
        """Sections on the terms of the time per token."""
        if self.answer.groups or not serving_estimate.has_tokens(self.answer):
            return []
        title = "Where a token's time goes", "where a token's time goes"
        lead = serving_estimate.bound_words(self.answer)
        parts = serving_estimate.token_parts(self.answer)
        beneath, figures = serving_estimate.terms_without_band(self.answer), [partial(_draw_token_time, self.answer)]
        return [
            parts_section(
                title,
                lead,
                parts,
                "of the token",
                figures,
                key="time",
                wide=20,
                banded=_BANDS,
                beneath=beneath,
                brief=2,
            )
        ]

    def ledger(self) -> MemoryLedger:
        """The memory breakdown of the most loaded accelerator."""
        from costmodel.report.page.trace import is_light
        from costmodel.report.terminal.serving_memory import serving_ledger

        return serving_ledger(self.answer, self.tried or (() if is_light() else self.facts.levers))

    def traffic(self) -> PlanTraffic:
        """The communication of a decode step and of a prompt."""

        return serving_traffic(self.answer)

    def further(self) -> list[Section]:
        """Further sections of the page: throughput against latency."""
        return [_load_section(self.facts)] if len(self.facts.loads) > 1 else []

    def beside(self, notify: Callable[[str], None]) -> PlanAnalyses:
        """Analyses next to the plan: replicas for other rates, a search, sensitivity, and errors of its engine."""
        from costmodel.report.answers.plan_neighbours import analyses_beside_plan
        from costmodel.report.answers.scale import sizes_section
        from costmodel.report.answers.search_service import ServiceWords

        notify("sizes")
        facts = self.facts
        ahead = [] if facts.sizes is None else [sizes_section(facts.sizes)]
        notify("search")
        words, brief = (None if found is None else ServiceWords(found) for found in (facts.found, facts.ranked))
        notify("sensitivity")
        engine = self.answer.inputs.engine
        time = engine.spread.experts if self.case.model.has_experts else engine.spread.tpot
        lead = f"Standard deviation of errors for models that are not in the fit of {engine.name}: "
        lead += f"{percent(float(time))} (time per token), {percent(float(engine.spread.ttft))} (first token)."
        return analyses_beside_plan(
            self,
            words,
            facts.sensitive,
            bands_section(self, lead),
            brief=brief,
            ahead=ahead,
            first=_limits_text(facts),
            further=_other_loads_texts(facts),
        )


def _limits_text(facts: ServingFacts) -> Texts:
    """A text with a table of limited results: the value, its band, and whether the limit is met."""
    if facts.answer.refused:
        return []
    costs = facts.answer.costs
    columns = dict.fromkeys(limit.column for limit in stated_limits(facts.case.scenario.limits))
    rows = [
        (name, result(name, costs[name]), band_text(costs, name), limit_verdicts(facts.answer, name))
        for name in columns
        if name in costs
    ]
    table = CellTable(("result", "value", "P10 – P90", "limit"), rows, "krll")
    return [("Limits", lambda: [table])] if rows else []


def _other_loads_texts(facts: ServingFacts) -> Texts:
    """Texts on the plan under lighter and heavier load, and on replicas for other rates."""
    from costmodel.explore.search.value_ranges import Axis
    from costmodel.explore.vary.sweep import SweepResult
    from costmodel.explore.workloads import workload_of
    from costmodel.report.answers.scale import scale_document
    from costmodel.report.answers.sweep import sweep_document
    from costmodel.report.terminal.document_lines import document_lines

    def loads() -> list[Line]:
        """Lines on the plan under lighter and heavier load."""
        axis = Axis(facts.loads[0].settings[0].partition("=")[0], tuple(trial.written[0] for trial in facts.loads))
        return document_lines(
            sweep_document(SweepResult(workload_of(facts.case), (axis,), _OF_LOADS, tuple(facts.loads)))
        )

    sizes = facts.sizes
    others = [("What if the load changes", loads)] if facts.loads else []
    return [
        *others,
        *([] if sizes is None else [("Replicas for other rates", lambda: document_lines(scale_document(sizes)))]),
    ]


def _draw_token_time(answer: ServingAnswer) -> Draw:
    """A bar for each term of the time per token, the longest first."""
    from costmodel.report.page.figures import FigureEntry, amount_bars
    from costmodel.report.page.plots import term_role

    terms = sorted(((words, name, answer.costs[name]) for words, name in TERMS), key=lambda item: -item[2])
    entries = [FigureEntry(words, value, term_role(name), machine_name(name)) for words, name, value in terms if value]
    stated = f"A token takes {result('tpot', answer.costs['tpot'])}; most of it is {entries[0].label}."
    unit = time_unit(entries[0].value)
    return amount_bars("token", "Where a token's time goes", stated, entries, "time", show_time, unit)


def _load_section(facts: ServingFacts) -> Section:
    """The section of a page with a table and a plot of results at each load."""
    from costmodel.explore.workloads import workload_of
    from costmodel.report.trials import result_cells, trial_settings

    names = ("requests_per_s", "tpot", "ttft", "ttft_p99", "tokens_per_s_per_gpu", "saturation_share")
    heads = ("rate", "per token", "first token", "its p99", "tok/s/GPU", "load")
    asked = workload_of(facts.case)
    rows: list[list[Cell]] = [
        [*result_cells(asked, trial, names), f"✗ {' '.join(trial.codes)}" if trial.codes else "kept"]
        for trial in facts.loads
    ]
    lead = "The same plan under lighter and heavier load: what each accelerator generates, and what a user waits for."
    columns = [Column(head, result=name) for head, name in zip(heads, names, strict=True)]
    settings = [trial_settings(load, searched=False) for load in facts.loads]
    table = Table([*columns, Column("limits", "l")], rows, settings=settings)
    figures = [partial(_draw_loads, facts)]
    return Section("load", "Throughput against latency", lead, figures, table=table, folded=True, face="page")


def _draw_loads(facts: ServingFacts) -> Draw:
    """A plot of throughput per accelerator against time per token, with a point for each load."""
    from costmodel.report.page.plots import Plot, PlotAxis, PlotLine, PlotPoint

    trials = facts.loads
    points = [
        PlotPoint(answer.costs["tpot"], answer.costs["tokens_per_s_per_gpu"], "second" if answer.broken else "first",
                  _load_tip(answer.costs),
                  f"load {answer.costs['requests_per_s']:g}")
        for answer in trials
    ]  # fmt: skip
    own = facts.answer.costs
    if math.isfinite(own["tpot"]):
        points.append(PlotPoint(own["tpot"], own["tokens_per_s_per_gpu"], "third", "this load", "own", "this load", 7))
    line = PlotLine([(point.x, point.y) for point in points[: len(trials)]], "quiet")
    legend = [("first", "meets the limits"), ("second", "breaks a limit"), ("third", "this load")]
    seen = {point.role for point in points}
    return Plot(
        "load",
        "Throughput against latency",
        f"{len(trials)} loads from {points[0].tip}; up and left is better.",
        PlotAxis("time per token", show_time, unit=time_unit(max(point.x for point in points))),
        PlotAxis("token/s for each accelerator", lambda value: result("tokens_per_s_per_gpu", value)),
        points,
        [line],
        [entry for entry in legend if entry[0] in seen],
    )


def _load_tip(costs: Mapping[str, float]) -> str:
    """The rate, time per token and throughput at a load, in words."""
    rate, time, throughput = (result(name, costs[name]) for name in ("requests_per_s", "tpot", "tokens_per_s_per_gpu"))
    return f"{rate}: {time}, {throughput}"


# --- collectives of a step


_GROUPS = ("tp", "dcp", "ep", "pp")


def serving_traffic(answer: ServingAnswer) -> PlanTraffic:
    """The communication of a decode step at the scenario's load, and of a single prompt."""
    evaluation, costs, case = answer.evaluation, answer.costs, answer.inputs.case
    sent = []
    for item in transfers(answer.inputs, evaluation.layout, evaluation.in_flight):
        inside = scalar(item.transfer.group.domains) == 1
        link = case.scale_up.name if inside else case.scale_out.name
        sent.append(SentMessage(item.moment, item.transfer, link))
    experts = {"ep": "ep" if scalar(evaluation.layout.ep) > 1 else "experts"}
    waits = [GroupWait(name, costs[f"{name}_exposed"], experts.get(name, "")) for name in _GROUPS]
    own, lines = answer.inputs.engine.kernels.own_all_reduce, list[Line]()
    if own and costs["tp_exposed"] and answer.inputs.kernels.all_reduce is not None:
        own_words = f"The engine's own all-reduce handles up to {show(own, 'B')} in a node"
        lines.append(styled(f"{own_words}; NCCL does the rest."))
    lines += [*_cache_transfer_lines(answer), *([styled(_cache_split_sentence(answer))] if sent else [])]
    return PlanTraffic(
        f"{_step_requests_words(answer)}; prompt: one prompt alone",
        sent,
        waits,
        ("tpot", costs["tpot"], "of a token's time"),
        beneath=lines,
    )


def _step_requests_words(answer: ServingAnswer) -> str:
    """How many requests a step computes, in words; with a pipeline those of one micro-batch."""
    layout = answer.evaluation.layout
    decodes = significant(scalar(micro_batch(layout, answer.evaluation.in_flight)))
    if scalar(layout.pp) == 1:
        return f"Sent per GPU. step: {decodes} requests, one token each"
    return f"Sent per GPU. step: {decodes} requests, one token each, a micro-batch of {scalar(layout.pp):.0f}"


def _cache_split_sentence(answer: ServingAnswer) -> str:
    """A sentence on how the ranks divide the KV cache."""
    if answer.costs["dcp_exposed"]:
        return "Ranks of dcp divide keys and values by tokens, and exchange queries and results by NCCL."
    if scalar(answer.evaluation.layout.dp_attention) > 1:
        return "Each attention group keeps the cache of its own requests, which needs no communication."
    if any(kind.latent is not None for kind in answer.inputs.model.layers):
        return "Every rank of a tp group keeps the whole latent cache, which needs no communication."
    return "Keys and values are split by heads and need no communication."


def _cache_transfer_lines(answer: ServingAnswer) -> list[Line]:
    """A line on the transfer of the KV cache from prefill to decode; empty without separate instances."""
    evaluation = answer.evaluation
    if not isinstance(evaluation, DisaggregatedEvaluation):
        return []
    way, carried = evaluation.transfer, significant(scalar(evaluation.transfer.most))
    time, exposed = show_time(scalar(way.time)), show_time(scalar(way.exposed))
    words = f"{show(scalar(way.nbytes), 'B')} a prompt, {time}, {exposed} exposed"
    return [styled(f"  kv  prefill to decode: {words}; the links carry {carried} prompts/s")]
