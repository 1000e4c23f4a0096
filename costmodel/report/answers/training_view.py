"""The training plan as answers show it: the terms of its step, effects of choices, roofline, and pipeline."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.text import Text

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.results import OF_RUN, OF_STEP, ResultColumn, machine_name
from costmodel.estimate.machine.price import price_of
from costmodel.estimate.machine.process_groups import Transfer
from costmodel.estimate.shared.results import number
from costmodel.estimate.training_answer.evaluate_training import verdict
from costmodel.estimate.training_answer.predict_training import TOO_LARGE, Answer
from costmodel.explore.explain.plan_choice_effects import ExplainedAnswer
from costmodel.explore.transfer_bandwidth import sent_transfers
from costmodel.ground.counts import EXCHANGING, number_of
from costmodel.ground.record import record
from costmodel.ground.units import gib, percent, show, show_time, significant
from costmodel.report.answers.plan_answer import PlanView, band_words, parts_section, plan_json, result_cell
from costmodel.report.answers.plan_parts import GroupWait, PlanTraffic, SentMessage, TimePart
from costmodel.report.document import Cell, Column, Draw, Headline, Section, Table, chance_verdict, computed, traced
from costmodel.report.terminal.formatting import BAND, ENDS, TIME_TERMS, range_beside, range_of
from costmodel.report.terminal.head import price_lines
from costmodel.report.terminal.layout import DIM, CellTable, Line, short_or_full, styled
from costmodel.report.terminal.plan_lines import memory_band_text, verdict_words

if TYPE_CHECKING:
    from costmodel.estimate.shared.plan_batch import Block
    from costmodel.estimate.training.training_inputs import TrainingInputs
    from costmodel.explore.explain.pipeline_schedules import ForwardBackwardTime, Pipeline
    from costmodel.explore.page.plan_facts import Operation, PlanFacts
    from costmodel.explore.page.report_facts import ReportFacts
    from costmodel.explore.search.search import TrainingSearch
    from costmodel.report.answers.plan_answer import PlanAnalyses
    from costmodel.report.answers.plan_parts import MemoryLedger, PlanRun


# --- results of a step in a terminal, and what changes do to them


def effect_lines(answer: ExplainedAnswer, *, fully: bool = False) -> list[Line]:
    """A line for each choice of the plan with the time that it saves; fully: with further remarks."""
    lines: list[Line] = []
    for each in answer.effects:
        name = each.key.rpartition(".")[2]
        if math.isnan(each.without):
            lines += [styled(f"  {name} {each.value}"), *(styled(f"    {words}") for words in each.words)]
            continue
        saves = f"{'saves' if each.saved >= 0 else 'costs'} {show_time(abs(each.saved))} a step"
        lines.append(styled(f"  {name} {each.value}: {saves}, {show_time(each.without)} without it"))
        lines += [styled(f"    {words}") for words in each.words if fully or each.always]
    return lines


def with_effects(result: dict[str, Any], answer: ExplainedAnswer) -> dict[str, Any]:
    """The plain values of a plan, with the effects of its choices if there are any."""
    if not answer.effects:
        return result
    values = [
        {
            "key": each.key,
            "value": each.value,
            "step_time_s": each.step_time,
            "without_s": None if math.isnan(each.without) else each.without,
            "saved_s": None if math.isnan(each.without) else each.saved,
            "words": list(each.words),
        }
        for each in answer.effects
    ]
    return {**result, "effects": values}


def after_blank(lines: Sequence[Line]) -> list[Line]:
    """The lines after an empty line; empty if there are none."""
    return [Text(), *lines] if lines else []


OF_SOME = ("cp_exposed", "ep_exposed", "offload_exposed")  # shown only where not zero
# Terms that only some plans can have, by the axes of which one must have several ranks.
_OF_AXES = {"tp_exposed": ("tp",), "pp_exposed": ("pp",), "bubble": ("pp",), "dp_exposed": ("dp", "cp")}
_DUST = 1e-8  # share of a step below which a term is none


def estimate_lines(answer: ExplainedAnswer) -> list[Line]:
    """Time, memory and cost of a plan."""
    costs = answer.evaluation.costs.row()
    return [
        *_main_lines(_main_rows(answer, costs)),
        *_cost_lines(answer, costs),
        *_goodput_line(answer, costs),
        *effect_lines(answer),
    ]


def _main_lines(rows: Sequence[Sequence[str]]) -> list[Line]:
    """The table of main results; a short answer has time, memory, throughput and MFU."""
    times, bands, rate, shares, *_ = rows
    short = CellTable([""] * 4, [times, bands, (*rate[:2], *shares[:2])], "llll", headed=False)
    return short_or_full([short], [CellTable([""] * 4, rows, "llll", headed=False)], "rates per GPU")


def bound_by(answer: Answer) -> str:
    """The name of the longest term of the step."""
    costs = answer.evaluation.costs.row()
    return max(TIME_TERMS, key=lambda item: costs[item[1]])[0]


def _goodput_line(answer: ExplainedAnswer, costs: dict[str, float]) -> list[Line]:
    """A line on the goodput of the run, if the scenario has one."""
    if answer.evaluation.run is None:
        return []
    if math.isnan(costs["goodput"]):
        return [styled("  run         —; details: costmodel run")]
    share = range_of(*(percent(costs[f"goodput_{end}"]) for end in ENDS))
    return [styled(f"  run         goodput {percent(costs['goodput'])} ({share}); details: costmodel run")]


def _main_rows(answer: ExplainedAnswer, costs: dict[str, float]) -> list[tuple[str, str, str, str]]:
    """Table rows with the main results of a plan, two in each."""
    usable = costs["memory_peak"] / costs["memory_share"] if answer.inputs.groups else answer.inputs.usable_memory
    peak = f"{gib(costs['memory_peak'])} of {gib(usable)} GiB   {verdict_words(costs)}"
    each = f"{significant(costs['tokens_per_s_per_gpu'], 4)} token/s, {show(costs['flop_rate'], 'FLOP/s')}"
    efficient = f"{percent(costs['communication_efficiency'])} efficient"
    band = range_beside(show_time, *(costs[f"step_time{end}"] for end in ("", "_low", "_high")))
    several = [("scaling", percent(costs["scaling_efficiency"]), "communication", efficient)]
    return [
        ("step time", f"{show_time(costs['step_time'])}{_if_fitted(answer)}", "memory", peak),
        (BAND, band, BAND, memory_band_text(costs)),
        ("throughput", show(costs["tokens_per_s"], "token/s"), "per GPU", each),
        ("MFU", percent(costs["mfu"]), "HFU", percent(costs["hfu"])),
        *(several if answer.inputs.ranks > 1 else []),
    ]


def _if_fitted(answer: ExplainedAnswer) -> str:
    """The phrase `, if it fitted` for the time of a plan that is too large; else empty."""
    return "" if TOO_LARGE.isdisjoint(answer.broken) else ", if it fitted"


def step_parts(answer: Answer) -> list[TimePart]:
    """The terms of the step that this plan can have."""
    block, costs = answer.evaluation.block, answer.evaluation.costs.row()
    return [
        TimePart(
            name,
            costs[key],
            traced(_term_text(costs[key], costs["step_time"]), costs[key], machine_name(key), key),
            f"{costs[key] / costs['step_time'] * 100:.1f} %",
        )
        for name, key in TIME_TERMS
        if costs[key] or _can_have_term(block, key)
    ]


def _can_have_term(block: Block, key: str) -> bool:
    """Whether a plan can have a term of the step, although its time is zero here."""
    if key in _OF_AXES:
        return any(getattr(block, axis)[0] > 1 for axis in _OF_AXES[key])
    return key not in OF_SOME


def _term_text(value: float, step: float) -> str:
    """A term of the step as text; a negligible one as 0."""
    return show_time(value if value > _DUST * step else 0.0)


def _cost_lines(answer: ExplainedAnswer, costs: dict[str, float]) -> list[Text]:
    """Lines with the cost, its price, and the origin of the price."""
    price, indent = price_of(answer.inputs.case), " " * len("  cost        ")
    if price.known and math.isnan(costs["cost_per_mtoken"]):
        return [styled("  cost        —")]
    stated = styled(f"  cost        {_cost_words(answer.inputs, costs)}")
    return [stated, *price_lines(price, indent)[not price.known :]]


def _cost_words(inputs: TrainingInputs, costs: dict[str, float]) -> str:
    """The cost per million tokens and of the whole run in USD as text, or which price is missing."""
    budget, words = inputs.case.scenario.workload.tokens, f"{show(costs['cost_per_mtoken'], 'USD')} per Mtoken"
    lasting = ""
    if budget is not None and not math.isnan(costs["run_time"]):
        lasting = f"{show_time(costs['run_time'])} for {show(budget, '')} tokens"
    if math.isnan(costs["cost_per_mtoken"]):
        missing = f"no price known for {inputs.case.node.name}; --price 2.50USD/GPU/h sets one"
        return f"{lasting}; {missing}" if lasting else missing
    return f"{words}, {show(costs['run_cost'], 'USD')} and {lasting}" if lasting else words


# --- A training plan as answers show it


LOSSES = {"ideal": "ideal: model FLOP at peak", "recomputed": "recomputed", "kernels": "kernels below peak"}

_LARGE = 5  # terms of a short answer


@record
class TrainingView(PlanView):
    """A training plan with the parts of the answers about it."""

    answer: ExplainedAnswer
    asked: ResolvedScenario | None = None  # as it was asked about, where that states no plan
    searched: TrainingSearch | None = None  # whose best plan it is, where that states none

    @property
    def case(self) -> ResolvedScenario:
        """The scenario with its documents."""
        return self.answer.inputs.case

    @property
    def columns(self) -> Mapping[str, ResultColumn]:
        """The columns of results of a step, and of a run if the scenario asks about one."""
        return OF_STEP if self.answer.inputs.run is None else OF_RUN

    @functools.cached_property
    def facts(self) -> PlanFacts:
        """Facts that a page computes about the plan."""
        from costmodel.explore.page.plan_facts import PlanFacts

        return PlanFacts(self.answer)

    @property
    def nexts(self) -> Mapping[str, Sequence[Sequence[str]]]:
        """The commands that may follow each answer."""
        step, goodput = ("explain", "step_time"), ("explain", "goodput")
        waits = {name: self.answer.costs[name] for name in OF_STEP if name.endswith("_exposed")}
        longest = max(waits, key=lambda name: waits[name])
        sent = ("explain", longest) if waits[longest] > 0 else ("memory",)
        return {
            "estimate": [("search",), ("explain", "plan"), step],
            "memory": [("explain", "memory_peak")],
            "comm": [sent],
            "run": [("estimate",), goodput],
            "pipeline": [("explain", "bubble")],
        }

    def plain(self) -> dict[str, Any]:
        """The plan and its results as plain values for JSON."""
        from costmodel.report.data_formats.training_json import answer_fields_of, remedy_fields_of

        row, against = partial(answer_fields_of, self.answer), partial(remedy_fields_of, self.answer)
        return with_effects(plan_json(self, row, against, convention=self.answer.inputs.convention), self.answer)

    def lines(self) -> list[Line]:
        """The main results as lines: time, memory and cost."""

        return estimate_lines(self.answer)

    def bound(self) -> Line:
        """The longest term of the step, and the host's time for each expert where launch is a large term."""
        costs, experts = self.answer.costs, self.answer.inputs.experts
        largest = sorted(TIME_TERMS, key=lambda item: -costs[item[1]])[:_LARGE]
        each = 0.0 if experts is None else experts.host
        looped = each > 0 and any(name == "launch" for _, name in largest)
        issued = f" In launch, the host takes {show_time(each)} to issue each expert (assume.experts.host)."
        host = issued if looped else ""
        return styled(f"Bound by {largest[0][0]}.{host}")

    def headlines(self) -> list[Headline]:
        """The main figures, for the head of a page."""

        costs, cell = self.answer.costs, partial(result_cell, self)
        room = verdict(costs["memory_share"])
        step = "Step time, if it fitted" if room == "does not fit" else "Step time"
        usable = f"of {gib(self.answer.inputs.usable_memory)} GiB: {verdict_words(costs)}"
        whole = [("Cost of the job", "run_cost"), ("Time of the job", "run_time")]
        known = [each for each in whole if room != "does not fit" and math.isfinite(costs[each[1]])]
        failures = "" if math.isfinite(costs.get("goodput", math.nan)) else "; without failures"
        step_note = f"{percent(costs['mfu'])} MFU; {band_words(self, 'step_time')}"
        rate = [Headline("Cost per Mtoken", "—" if room == "does not fit" else cell("cost_per_mtoken"), "of training")]
        return [
            *(Headline(words, cell(name), f"{band_words(self, name)}{failures}") for words, name in known),
            Headline(
                "Memory",
                cell("memory_peak"),
                usable,
                chance_verdict(costs["fit_chance"]) if room == "fits" else "warn" if room == "tight" else "bad",
            ),
            Headline(step, cell("step_time"), step_note),
            *([] if len(known) == len(whole) else rate),
        ]

    def time(self) -> list[Section]:
        """Sections on the terms of the step; on a page, from the ideal time to the predicted one."""

        words = "Where the time goes", "where the step goes"
        terms = parts_section(words, "", step_parts(self.answer), "of the step", wide=32, face="terminal")
        ideal = percent(self.answer.costs["mfu"])
        lead = f"At peak FLOP/s the step would take {ideal} of this time; each bar is a loss."
        table, figure = partial(_losses_table, self), partial(_draw_time, self)
        return [terms, Section("time", words[0], lead, [figure], table=table, folded=True, face="page")]

    def ledger(self) -> MemoryLedger:
        """The memory breakdown of its stages."""
        from costmodel.report.terminal.training_memory import training_ledger

        return training_ledger(self.answer)

    def traffic(self) -> PlanTraffic:
        """The communication of a step."""

        return training_traffic(self.answer, effect_lines(self.answer, fully=True))

    def further(self) -> list[Section]:
        """A roofline of its matrix products, and a timeline of its stages."""
        return [*_roofline_section(self.facts.operations), *_pipeline_section(self.facts)]

    def whole_run(self) -> PlanRun | None:
        """The whole run; None if the scenario asks about no run."""
        from costmodel.report.terminal.training_run import training_run

        return None if self.answer.evaluation.run is None else training_run(self.answer)

    @functools.cached_property
    def around(self) -> ReportFacts:
        """Facts that a report computes about the plan."""
        from costmodel.explore.page.report_facts import ReportFacts

        return ReportFacts(self.asked or self.case, self.answer, self.searched)

    def beside(self, notify: Callable[[str], None]) -> PlanAnalyses:
        """The search with plans to choose from, the sensitivity of the step, and published runs."""
        from costmodel.explore.page.report_facts import RankedFacts
        from costmodel.report.answers.plan_neighbours import analyses_beside_plan as beside_plan
        from costmodel.report.answers.search_training import TrainingWords
        from costmodel.report.answers.validate import measured_section
        from costmodel.report.page.training_page import choices_data

        notify("search")
        around, found = self.around, self.around.found
        notify("sensitivity")
        sensitive = around.sensitive
        notify("measured runs")
        evidence = [measured_section(around.measured, self.case.accelerator)]
        if found is None:
            return beside_plan(self, None, sensitive, evidence)
        nodes = RankedFacts(found).nodes if found.best else {}
        choices = choices_data(found, around.choices) if around.choices else None
        return beside_plan(self, TrainingWords(found), sensitive, evidence, nodes=nodes, choices=choices)


_CAPTION = "The ideal, what is lost to kernels, then every term of the step as costmodel estimate has them"


def _losses_table(view: TrainingView) -> Table:
    """A table that adds up the step time: the ideal time, losses of kernels, and the other terms."""
    costs = view.answer.costs
    step = costs["step_time"]
    lost = [(LOSSES[loss.name], f"{loss.name}_s", loss.seconds) for loss in view.facts.losses if loss.name in LOSSES]
    terms = [(words, name, costs[name]) for words, name in TIME_TERMS if costs[name]]
    rows = list[list[Cell]]()
    for words, name, value in (*lost, *terms):
        share = computed("part", percent(value / step), value / step, " / ", [name, "step_time"])
        own = name if name.endswith("_s") else f"{name}_s"
        rows.append([words, traced(show_time(value), value, own, name), share])
    return Table([Column("term", "l"), Column("time"), Column("of the step")], rows, caption=_CAPTION)


def _draw_time(view: TrainingView) -> Draw:
    """A waterfall from the ideal time to the predicted step."""
    from costmodel.report.page.figures import FigureEntry, waterfall_bars
    from costmodel.report.page.plots import term_role

    words, losses = {name: each for each, name in TIME_TERMS} | LOSSES, view.facts.losses
    entries = [
        FigureEntry(words[loss.name], loss.seconds, loss.name if loss.name in LOSSES else term_role(loss.name),
                    f"{loss.name}_s")
        for loss in losses
        if loss.seconds or loss.name == "ideal"
    ]  # fmt: skip
    total = FigureEntry("predicted step", view.answer.costs["step_time"], "total", "step_time_s")
    stated = f"A step takes {show_time(total.value)}, of which {show_time(losses[0].seconds)} is the ideal."
    return waterfall_bars("time", "From the ideal to the predicted step", stated, entries, total, show_time)


def _roofline_section(operations: Sequence[Operation]) -> list[Section]:
    """The matrix products under the roofs of the accelerator."""
    from costmodel.explore.page.plan_facts import rooflines
    from costmodel.report.page.training_page import roofline_figure

    if not operations:
        return []
    rows: list[list[Cell]] = [
        [
            item.name,
            *(traced(text, value, f"operations.{place}.{name}") for name, (value, text) in _matmul_words(item).items()),
        ]
        for place, item in enumerate(operations)
    ]
    limits = " and ".join(
        f"{show(roof.peak, 'FLOP/s')} from {show(roof.ridge, '')} FLOP/B" for roof in rooflines([*operations])
    )
    lead = f"Each dot is one matrix product of a micro-batch, larger where it takes longer. The roof: {limits}."
    heads = [Column("operation", "l"), *map(Column, ("FLOP/B", "attained", "time", "of the peak"))]
    figure = lambda: roofline_figure(operations)  # noqa: E731
    return [Section("roofline", "Roofline", lead, [figure], table=Table(heads, rows), folded=True, face="page")]


def _matmul_words(item: Operation) -> dict[str, tuple[float, str]]:
    """The figures of a matrix product by name, each as a number in SI units and as text."""
    part = item.attained / item.peak
    return {
        "intensity": (item.intensity, show(item.intensity, "")),
        "attained": (item.attained, show(item.attained, "FLOP/s")),
        "seconds": (item.seconds, show_time(item.seconds)),
        "of_peak": (part, percent(part)),
    }


def named_stages(clock: Pipeline) -> list[tuple[str, ForwardBackwardTime]]:
    """The stages with different times, by name: first, middle and last, or only."""
    if clock.ranks == 1:
        return [("only", clock.first)]
    middle = [("middle", clock.middle)] if clock.ranks > 2 else []
    return [("first", clock.first), *middle, ("last", clock.last)]


def stage_cells(stage: str, part: ForwardBackwardTime) -> list[Cell]:
    """Table cells with the name of a stage and its seconds forward, backward, and both."""
    times = {"forward": part.forward, "backward": part.backward, "both": part.forward + part.backward}
    return [stage, *(traced(show_time(time), time, f"stages.{stage}.{name}") for name, time in times.items())]


def _pipeline_section(facts: PlanFacts) -> list[Section]:
    """The section with the timeline of the pipeline stages; empty for one stage."""
    from costmodel.report.page.training_page import timeline_figures

    clock = facts.pipeline
    if clock is None:
        return []
    whole = "" if len(facts.windows) == 1 else ": its beginning and its end"
    counts = f"{clock.micro_batches:,} micro-batches through {clock.ranks} stages, {clock.schedule}{whole}."
    shown = len({event.rank for event in facts.windows[0].events})
    less = "" if shown == clock.ranks else f" The first {shown} stages are drawn."
    rows = [stage_cells(name, part) for name, part in named_stages(clock)]
    lead = f"{percent(facts.costs['bubble_share'])} of the step is the bubble. {counts}{less}"
    columns = [Column("stage", "l"), *map(Column, ("forward", "backward", "both"))]
    table, figures = Table(columns, rows, caption="Time of a micro-batch"), timeline_figures(facts)
    drawn = [lambda figure=figure: figure for figure in figures]
    return [Section("pipeline", "Pipeline", lead, drawn, table=table, folded=True, zoom=True, face="page")]


# --- collectives of a step


def training_traffic(answer: Answer, effects: Sequence[Line] = ()) -> PlanTraffic:
    """The collectives of a step, the exposed time of each process group, and the effects of choices."""
    sent = [
        SentMessage(
            "step", item.transfer, link_name(answer, item.transfer), item.algorithms, item.busbw, item.alone_busbw
        )
        for item in sent_transfers(answer)
    ]
    groups = [_group_wait(answer, sent, name) for name in EXCHANGING]
    step = answer.evaluation.costs.row()["step_time"]
    beneath = [*_rack_line(answer), *after_blank(effects)]
    return PlanTraffic(
        "Per GPU and step; columns as in nccl-tests", sent, groups, ("step_time", step, "of the step"), beneath=beneath
    )


def _group_wait(answer: Answer, sent: Sequence[SentMessage], name: str) -> GroupWait:
    """The wait of one process group: the bytes it sends, and its exposed time."""
    costs = answer.evaluation.costs.row()
    own = [(place, item) for place, item in enumerate(sent) if item.transfer.axis == name]
    exposed, total = costs[f"{name}_exposed"], sum(number(item.transfer.total_time) for _, item in own)
    compressed = name == "dp" and answer.evaluation.block.structure.compression != "none"
    note = "with waits for other ranks' sends" if exposed > total and not compressed else ""
    note = "with compression" if compressed else note
    return GroupWait(name, exposed, volume=costs[f"{name}_volume"], sent=own, note=note)


def _rack_line(answer: Answer) -> Iterator[Text]:
    """A line on the links of a rack that joins several nodes into one domain; none for a usual node."""
    case, joined = answer.inputs.case, number(answer.inputs.domain)
    if joined > case.node.accelerators:
        nodes = joined / case.node.accelerators
        yield styled(
            f"  {case.scale_up.name} joins {number_of(joined, 'accelerator')} of {number_of(nodes, 'node')}", DIM
        )


def link_name(answer: Answer, transfer: Transfer) -> str:
    """The name of the link that a transfer uses: inside a domain, between nodes, or between sites."""
    case = answer.inputs.case
    if transfer.group.name == "sites":
        return "sites"
    return case.scale_up.name if number(transfer.group.domains) == 1 else case.scale_out.name
