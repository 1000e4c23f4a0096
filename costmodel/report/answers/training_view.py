"""A training plan as answers show it: where its step goes, its products under the roofs, and its pipeline."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.text import Text

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.results import OF_RUN, OF_STEP, ResultColumn
from costmodel.estimate.machine.process_groups import Transfer
from costmodel.estimate.shared.results import number
from costmodel.estimate.training_answer.evaluate_training import verdict
from costmodel.estimate.training_answer.predict_training import Answer
from costmodel.explore.communication import sent_transfers
from costmodel.explore.explain.effects import ExplainedAnswer
from costmodel.ground.counts import EXCHANGING, number_of
from costmodel.ground.record import record
from costmodel.ground.units import gib, percent, show, show_time
from costmodel.report.answers.plan_answer import band_words, parts_section, plan_json, result_cell
from costmodel.report.answers.plan_parts import GroupWait, PlanTraffic, SentMessage
from costmodel.report.document import (
    Cell,
    Column,
    Draw,
    Headline,
    Section,
    Table,
    chance_verdict,
    made_of,
    traced,
)
from costmodel.report.terminal.plan.step_results import blank
from costmodel.report.terminal.style.formatting import TIME_TERMS, result
from costmodel.report.terminal.style.layout import DIM, Line, styled

if TYPE_CHECKING:
    from costmodel.explore.explain.explain import ExplainedFigure
    from costmodel.explore.page.plan_facts import Operation, PlanFacts
    from costmodel.explore.page.report_facts import ReportFacts
    from costmodel.report.answers.plan_answer import PlanBeside
    from costmodel.report.answers.plan_parts import MemoryLedger, PlanRun, PlanTraffic

LOSSES = {"ideal": "ideal: model FLOP at peak", "recomputed": "computed again", "kernels": "kernels below peak"}

_LARGE = 5  # terms of a short answer


@record
class TrainingView:
    """A training plan and the parts of answers about it."""

    answer: ExplainedAnswer
    asked: ResolvedScenario | None = None  # as it was asked about, where that states no plan

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
    def nodes(self) -> Mapping[str, ExplainedFigure]:
        """The traced equations behind the figures of the plan."""
        return self.facts.nodes

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
        """The plan's results as plain values."""
        from costmodel.report.data_formats.json_answer import answered, fixes
        from costmodel.report.terminal.plan.step_results import with_effects

        row, against = partial(answered, self.answer), partial(fixes, self.answer)
        return with_effects(plan_json(self, row, against, convention=self.answer.inputs.convention), self.answer)

    def lines(self) -> list[Line]:
        """The main results as lines: time, memory and cost."""
        from costmodel.report.terminal.plan.step_results import estimate_lines

        return estimate_lines(self.answer)

    def bound(self) -> Line:
        """The longest term of the step, and the host's time for each expert where launch is a large term."""
        costs, experts = self.answer.costs, self.answer.inputs.experts
        largest = sorted(TIME_TERMS, key=lambda item: -costs[item[1]])[:_LARGE]
        each = 0.0 if experts is None else experts.host
        looped = each > 0 and any(name == "launch" for _, name in largest)
        host = f" Launch: {show_time(each)} to issue each expert (assume.experts.host)." if looped else ""
        return styled(f"Bound by {largest[0][0]}.{host}")

    def headlines(self) -> list[Headline]:
        """The main figures, for the head of a page."""
        from costmodel.report.terminal.plan.plan_lines import verdict_words

        costs, cell = self.answer.costs, partial(result_cell, self)
        room = verdict(costs["memory_share"])
        run = f"{result('run_cost', costs['run_cost'])} and {result('run_time', costs['run_time'])} for all tokens"
        cost_note = run if costs["run_cost"] == costs["run_cost"] else "for a million tokens"
        step = "Step time, if it fitted" if room == "does not fit" else "Step time"
        usable = f"of {gib(self.answer.inputs.usable)} GiB: {verdict_words(costs)}"
        return [
            Headline(step, cell("step_time"), band_words(self, "step_time")),
            Headline("MFU", cell("mfu"), f"{show(costs['flop_rate'], 'FLOP/s')} for each accelerator"),
            Headline(
                "Memory",
                cell("memory_peak"),
                usable,
                chance_verdict(costs["fit_chance"]) if room == "fits" else "warn" if room == "tight" else "bad",
            ),
            Headline("Cost per Mtoken", "—" if room == "does not fit" else cell("cost_per_mtoken"), cost_note),
        ]

    def time(self) -> list[Section]:
        """Sections on the terms of the step; on a page, from the ideal time to the predicted one."""
        from costmodel.report.terminal.plan.step_results import step_parts

        words = "Where the time goes", "where the step goes"
        terms = parts_section(words, "", step_parts(self.answer), "of the step", wide=32, face="terminal")
        lead = f"{percent(self.answer.costs['mfu'])} of the step is the ideal, all model FLOP at the peak; each bar "
        lead += "comes on top."
        table, figure = partial(_losses, self), partial(_time_figure, self)
        return [terms, Section("time", words[0], lead, [figure], table=table, folded=True, face="page")]

    def ledger(self) -> MemoryLedger:
        """The memory breakdown of its stages."""
        from costmodel.report.terminal.plan.memory_breakdown import training_ledger

        return training_ledger(self.answer)

    def traffic(self) -> PlanTraffic:
        """The communication of a step."""
        from costmodel.report.terminal.plan.step_results import effect_lines

        return training_traffic(self.answer, effect_lines(self.answer, fully=True))

    def further(self) -> list[Section]:
        """A roofline of its matrix products, and a timeline of its stages."""
        return [*_roofline(self.facts.operations), *_pipeline(self.facts)]

    def whole_run(self) -> PlanRun | None:
        """The run, where one is asked about."""
        from costmodel.report.terminal.plan.training_run import training_run

        return None if self.answer.evaluation.run is None else training_run(self.answer)

    @functools.cached_property
    def around(self) -> ReportFacts:
        """Facts that a report computes about the plan."""
        from costmodel.explore.page.report_facts import ReportFacts

        return ReportFacts(self.asked or self.case, self.answer)

    def beside(self, notify: Callable[[str], None]) -> PlanBeside:
        """The search with plans to choose from, the sensitivity of the step, and published runs."""
        from costmodel.explore.page.report_facts import RankedFacts
        from costmodel.report.answers.around_plan import around as beside_plan
        from costmodel.report.answers.search_training import TrainingWords
        from costmodel.report.answers.validate import measured_section
        from costmodel.report.page.plan_choices import choices_data

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


def _losses(view: TrainingView) -> Table:
    """A table that adds up the step's time: losses of kernels, then the other terms."""
    costs = view.answer.costs
    step = costs["step_time"]
    lost = [(LOSSES[loss.name], f"{loss.name}_s", loss.seconds) for loss in view.facts.losses if loss.name in LOSSES]
    terms = [(words, name, costs[name]) for words, name in TIME_TERMS if costs[name]]
    rows = list[list[Cell]]()
    for words, name, value in (*lost, *terms):
        share = made_of("part", percent(value / step), value / step, " / ", [name, "step_time"])
        own = name if name.endswith("_s") else f"{name}_s"
        rows.append([words, traced(show_time(value), value, own, name), share])
    return Table([Column("term", "l"), Column("time"), Column("of the step")], rows, caption=_CAPTION)


def _time_figure(view: TrainingView) -> Draw:
    """A waterfall from the ideal time to the predicted step."""
    from costmodel.report.page.figures import FigureEntry, waterfall
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
    return waterfall("time", "From the ideal to the predicted step", stated, entries, total, show_time)


def _roofline(operations: Sequence[Operation]) -> list[Section]:
    """The matrix products under the roofs of the accelerator."""
    from costmodel.explore.page.plan_facts import roofs
    from costmodel.report.page.training_figures import roofline_figure

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
        f"{show(roof.peak, 'FLOP/s')} from {show(roof.ridge, '')} FLOP/B" for roof in roofs([*operations])
    )
    lead = f"Each dot is one matrix product of a micro-batch, larger where it takes longer. The roof: {limits}."
    heads = [Column("operation", "l"), *map(Column, ("FLOP/B", "attained", "time", "of the peak"))]
    figure = lambda: roofline_figure(operations)  # noqa: E731
    return [Section("roofline", "Roofline", lead, [figure], table=Table(heads, rows), folded=True, face="page")]


def _matmul_words(item: Operation) -> dict[str, tuple[float, str]]:
    """A matrix product in words: FLOP per byte, FLOP per second, time, and share of the peak."""
    part = item.attained / item.peak
    return {
        "intensity": (item.intensity, show(item.intensity, "")),
        "attained": (item.attained, show(item.attained, "FLOP/s")),
        "seconds": (item.seconds, show_time(item.seconds)),
        "of_peak": (part, percent(part)),
    }


def _pipeline(facts: PlanFacts) -> list[Section]:
    """The timeline of the pipeline stages; empty for one stage."""
    from costmodel.report.page.training_figures import timeline_figures

    clock = facts.pipeline
    if clock is None:
        return []
    whole = "" if len(facts.windows) == 1 else ": its beginning and its end"
    counts = f"{clock.micro_batches:,} micro-batches through {clock.ranks} stages, {clock.schedule}{whole}."
    shown = len({event.rank for event in facts.windows[0].events})
    less = "" if shown == clock.ranks else f" The first {shown} stages are drawn."
    rows = list[list[Cell]]()
    for stage, part in (("first", clock.first), ("middle", clock.middle), ("last", clock.last)):
        if clock.ranks > 2 or stage != "middle":
            times = {"forward": part.forward, "backward": part.backward, "both": part.forward + part.backward}
            cells = (traced(show_time(time), time, f"stages.{stage}.{name}") for name, time in times.items())
            rows.append([stage, *cells])
    lead = f"{percent(facts.costs['bubble_share'])} of the step is the bubble. {counts}{less}"
    columns = [Column("stage", "l"), *map(Column, ("forward", "backward", "both"))]
    table, figures = Table(columns, rows, caption="Time of a micro-batch"), timeline_figures(facts)
    drawn = [lambda figure=figure: figure for figure in figures]
    return [Section("pipeline", "Pipeline", lead, drawn, table=table, folded=True, zoom=True, face="page")]


# --- collectives of a step


def training_traffic(answer: Answer, effects: Sequence[Line] = ()) -> PlanTraffic:
    """The collectives of a step, the exposed time of each axis, and the effects of choices."""
    sent = [
        SentMessage(
            "step", item.transfer, link_name(answer, item.transfer), item.algorithms, item.busbw, item.alone_busbw
        )
        for item in sent_transfers(answer)
    ]
    groups = [_group(answer, sent, name) for name in EXCHANGING]
    step = answer.evaluation.costs.row()["step_time"]
    beneath = [*_rack(answer), *blank(effects)]
    return PlanTraffic(
        "Per GPU and step, columns as nccl-tests", sent, groups, ("step_time", step, "of the step"), beneath=beneath
    )


def _group(answer: Answer, sent: Sequence[SentMessage], name: str) -> GroupWait:
    """The wait of one process group: the bytes it sends, and its exposed time."""
    costs = answer.evaluation.costs.row()
    own = [(place, item) for place, item in enumerate(sent) if item.transfer.axis == name]
    exposed, total = costs[f"{name}_exposed"], sum(number(item.transfer.total_time) for _, item in own)
    compressed = name == "dp" and answer.evaluation.block.structure.compression != "none"
    note = "with waits for other ranks' sends" if exposed > total and not compressed else ""
    note = "with compression" if compressed else note
    return GroupWait(name, exposed, volume=costs[f"{name}_volume"], sent=own, note=note)


def _rack(answer: Answer) -> Iterator[Text]:
    """A line on the links of a rack-scale domain that joins several nodes."""
    case, joined = answer.inputs.case, number(answer.inputs.domain)
    if joined > case.node.accelerators:
        nodes = joined / case.node.accelerators
        yield styled(
            f"  {case.scale_up.name} joins {number_of(joined, 'accelerator')} of {number_of(nodes, 'node')}", DIM
        )


def link_name(answer: Answer, transfer: Transfer) -> str:
    """The technology that a transfer goes over: inside a domain or between nodes."""
    case = answer.inputs.case
    if transfer.group.name == "sites":
        return "sites"
    return case.scale_up.name if number(transfer.group.domains) == 1 else case.scale_out.name
