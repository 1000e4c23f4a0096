"""Pages about training plans: one plan, a whole report, several scenarios side by side, a search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from costmodel.documents.schemas.results import OF_RUN, OF_STEP
from costmodel.estimate.evaluate.evaluate_plans import verdict
from costmodel.estimate.evaluate.predict import Answer
from costmodel.estimate.shared.reasons import REFUSALS
from costmodel.explore.communication import is_sent
from costmodel.explore.page.operations import Operation, roofs
from costmodel.explore.page.plan_facts import PlanFacts
from costmodel.ground.units import gib, percent, show, show_memory, show_time, significant
from costmodel.report.document import Cell, Headline, Value, Verdict, chance_verdict
from costmodel.report.machine.json_answer import plan_rows
from costmodel.report.page.content import HtmlPage, PageTable, Part
from costmodel.report.page.figures import BarRow, Bars, FigureEntry, Piece, waterfall
from costmodel.report.page.marks import SvgFigure
from costmodel.report.page.network_part import network_figure, network_part
from costmodel.report.page.pipeline_part import pipeline_part, timeline_figures
from costmodel.report.page.plots import Plot, PlotAxis, PlotLine, PlotPoint
from costmodel.report.page.scenarios_page import ScenarioEntry, ScenarioKind
from costmodel.report.page.shared_parts import inputs_part, kept_limits, remark_findings
from costmodel.report.page.trace import Traces
from costmodel.report.page.values import TERM_WORDS, Figures, memory_role, seconds, term_role
from costmodel.report.terminal.documents.tree import TreeDrawing
from costmodel.report.terminal.plan.memory_breakdown import ledger_label, ledger_note
from costmodel.report.terminal.plan.plan_lines import conclusion
from costmodel.report.terminal.plan.plan_words import plan_words, verdict_words
from costmodel.report.terminal.search.refusals import reason
from costmodel.report.terminal.style.formatting import BAND, between, result
from costmodel.report.terminal.style.head import head_of, title

COMPARED_BY = ScenarioKind(
    "training",
    (("step time", "step_time"), ("MFU", "mfu"), ("tok/s/GPU", "tokens_per_s_per_gpu"), ("memory", "memory_peak"),
     ("cost per Mtoken", "cost_per_mtoken")),
    "mfu", "has the highest MFU", "MFU", result,
)  # fmt: skip
_LOSSES = {"ideal": "ideal: model FLOP at peak", "recomputed": "computed again", "kernels": "kernels below peak"}


def time_part(facts: PlanFacts, figures: Figures) -> Part:
    """From the ideal to the predicted step."""
    costs, step = facts.costs, facts.costs["step_time"]
    return Part(
        "time",
        "Where the time goes",
        f"{percent(costs['mfu'])} of the step is the ideal, all model FLOP at the peak; each bar comes on top.",
        [time_figure(facts)],
        figures_as_table=PageTable(
            ("term", "time", "of the step"),
            [
                *(
                    (_LOSSES[loss.name], figures.other(f"{loss.name}_s", loss.seconds, seconds(loss.seconds)),
                     figures.share(f"{loss.name}_s", "step_time", loss.seconds / step))
                    for loss in facts.losses
                    if loss.name in _LOSSES
                ),
                *((TERM_WORDS[name], figures(name), figures.share(name, "step_time", costs[name] / step))
                  for name in TERM_WORDS if costs[name]),
            ],
            "lrr",
            "The ideal, what is lost to kernels, then every term of the step as costmodel estimate has them",
        ),
    )  # fmt: skip


def time_figure(facts: PlanFacts) -> Bars:
    """The way from the ideal to the step."""
    entries = [
        FigureEntry(
            _LOSSES.get(loss.name) or TERM_WORDS[loss.name], loss.seconds, _loss_role(loss.name), f"{loss.name}_s"
        )
        for loss in facts.losses
        if loss.seconds or loss.name == "ideal"
    ]
    total = FigureEntry("predicted step", facts.costs["step_time"], "total", "step_time_s")
    words = f"A step takes {seconds(total.value)}, of which {seconds(facts.losses[0].seconds)} is the ideal."
    return waterfall("time", "From the ideal to the predicted step", words, entries, total, seconds)


def _loss_role(name: str) -> str:
    return name if name in _LOSSES else term_role(name)


def memory_part(facts: PlanFacts, figures: Figures) -> Part:
    """The memory of each stage against what the accelerator has."""
    worst = max(facts.stages, key=lambda stage: stage.peak)
    rows = [
        (ledger_label(facts.answer, name), figures.other(f"{name}_bytes", value, show_memory(value)),
         ledger_note(facts.answer, name))
        for name, value in worst.lines.items()
        if value
    ]  # fmt: skip
    peak = ("peak", figures("memory_peak"), f"of {show_memory(float(facts.answer.inputs.usable))} usable")
    where = f"the {worst.stage} stage" if facts.pipelined else "the only stage"
    return Part(
        "memory",
        "Where the memory goes",
        f"The fullest accelerator is on {where}: {show_memory(worst.peak)}.",
        [memory_figure(facts)],
        figures_as_table=PageTable(("line", "bytes", "note"), [*rows, peak], "lrl", f"Memory of {where}, line by line"),
    )


def memory_figure(facts: PlanFacts) -> Bars:
    """Stages stacked by the lines of their ledger, and the capacity."""
    held = [name for name in facts.stages[0].lines if any(stage.lines[name] for stage in facts.stages)]
    rows = []
    for stage in facts.stages:
        at, pieces = 0.0, []
        for name in held:
            value = stage.lines[name]
            tip = f"{ledger_label(facts.answer, name)}: {show_memory(value)}"
            pieces.append(Piece(at, at + value, memory_role(name), tip, f"{stage.stage}.{name}_bytes", value))
            at += value
        rows.append(BarRow(f"{stage.stage} stage" if facts.pipelined else "each", pieces, f"{gib(stage.peak)} GiB"))
    usable = float(facts.answer.inputs.usable)
    roles: dict[str, list[str]] = {}
    for name in held:
        roles.setdefault(memory_role(name), []).append(ledger_label(facts.answer, name))
    return Bars(
        "memory",
        "Memory of a stage against the capacity",
        f"The fullest stage needs {show_memory(max(stage.peak for stage in facts.stages))} of {show_memory(usable)}.",
        rows,
        "memory, GiB",
        gib,
        (usable, f"usable {gib(usable)} GiB"),
        [(role, ", ".join(names)) for role, names in roles.items()],
        2.0**30,
    )


_ROOM: dict[str, Verdict] = {"fits": "good", "tight": "warn", "does not fit": "bad"}


def plan_page(facts: PlanFacts, commands: Sequence[str], known: Traces | None = None) -> HtmlPage:
    """One plan: its conclusion, where time and memory go, and how every figure was made."""
    answer = facts.answer
    if not facts.valid:
        words = title(answer.inputs.case), subtitle(answer), conclusion(answer)
        return HtmlPage(
            *words, "bad", [], [inputs_part(answer.inputs.case, answer.assumed)], list(findings(answer)), commands
        )
    traces = known or Traces(facts.nodes)
    figures = Figures(facts.costs, traces)
    return HtmlPage(
        title(answer.inputs.case),
        subtitle(answer),
        conclusion(answer),
        standing(answer),
        headlines(answer, figures),
        [*plan_sections(facts, figures), results_part(facts, figures), inputs_part(answer.inputs.case, answer.assumed)],
        list(findings(answer)),
        commands,
        {"trace": traces.data()},
    )


def plan_figure(facts: PlanFacts, name: str) -> Callable[[float], SvgFigure] | None:
    """One figure of a plan by its name; none where the plan has none of it."""
    if not facts.valid:
        return None
    draw = FIGURES[name]
    return draw(facts)


def _roofline(facts: PlanFacts) -> Callable[[float], SvgFigure] | None:
    return roofline_figure(facts.operations) if facts.operations else None


def _network(facts: PlanFacts) -> Callable[[float], SvgFigure] | None:
    return network_figure(facts) if any(map(is_sent, facts.answer.evaluation.step.transfers)) else None


def _timeline(facts: PlanFacts) -> Callable[[float], SvgFigure] | None:
    return timeline_figures(facts)[0] if facts.pipeline is not None else None


FIGURES: dict[str, Callable[[PlanFacts], Callable[[float], SvgFigure] | None]] = {
    "time": time_figure,
    "memory": memory_figure,
    "network": _network,
    "roofline": _roofline,
    "pipeline": _timeline,
}


def plan_sections(facts: PlanFacts, figures: Figures) -> list[Part]:
    """The parts that draw a plan."""
    draw = (time_part, memory_part, network_part, roofline_part, pipeline_part)
    made = [each(facts, figures) for each in draw]
    return [part for part in made if part is not None]


def subtitle(answer: Answer) -> list[str]:
    """What was computed, and the plan."""
    return [*(line.plain for line in head_of(answer.inputs.case)), plan_words(answer)]


def standing(answer: Answer) -> Verdict:
    """Whether the conclusion is good news."""
    if answer.refused or answer.broken:
        return "bad"
    return "warn" if answer.remarked else chance_verdict(answer.evaluation.costs.row()["fit_chance"])


def headlines(answer: Answer, figures: Figures) -> list[Headline]:
    """The numbers one asks for first."""
    costs = figures.costs
    room = verdict(costs["memory_share"])
    run = f"{result('run_cost', costs['run_cost'])} and {result('run_time', costs['run_time'])} for all tokens"
    cost_note = run if costs["run_cost"] == costs["run_cost"] else "for a million tokens"
    return [
        Headline("Step time, if it fitted" if room == "does not fit" else "Step time", figures("step_time"),
                 f"{BAND}: {_band(costs, 'step_time')}"),
        Headline("MFU", figures("mfu"), f"{show(costs['flop_rate'], 'FLOP/s')} for each accelerator"),
        Headline("Memory", figures("memory_peak"),
                 f"of {gib(answer.inputs.usable)} GiB: {verdict_words(costs)}",
                 chance_verdict(costs["fit_chance"]) if room == "fits" else _ROOM[room]),
        Headline("Cost per Mtoken", Value("—") if room == "does not fit" else figures("cost_per_mtoken"), cost_note),
    ]  # fmt: skip


def _band(costs: Mapping[str, float], name: str) -> str:
    return between(*(result(name, costs[f"{name}_{end}"]) for end in ("low", "high")))


def findings(answer: Answer) -> Iterator[tuple[Verdict, str]]:
    """What speaks against a plan, limits that it keeps, and what there is to remark."""
    for code in answer.refused or answer.broken:
        yield "bad", f"{code} {REFUSALS[code].title}: {reason(answer, code)}"
    if answer.refused:
        return
    costs = answer.evaluation.costs.row()
    yield from kept_limits(answer.inputs.case, costs, result)
    yield from remark_findings(answer.remarked)


def results_part(facts: PlanFacts, figures: Figures) -> Part:
    """Every result of the plan, each of which opens its trace."""
    columns = facts.answer.evaluation.costs.columns
    meanings = results_of(facts.answer)
    rows = [(name, figures(name), meanings[name]) for name in columns if figures.costs[name] == figures.costs[name]]
    lead = "Each figure opens its equation, its inputs and their sources."
    return Part("results", "Every figure", lead, tables=[PageTable(("result", "value", "meaning"), rows, "lrl")],
                screen_only=True)  # fmt: skip


def results_of(answer: Answer) -> dict[str, str]:
    """What each result means."""
    return {name: column.meaning for name, column in (OF_STEP if answer.inputs.run is None else OF_RUN).items()}


def roofline_part(facts: PlanFacts, figures: Figures) -> Part | None:
    """The matrix products under the roofs of the accelerator."""
    if not facts.operations:
        return None
    limits = roofs(facts.operations)
    rows: list[Sequence[Cell]] = [
        (item.name, *(figures.other(f"operations.{place}.{name}", value, text) for name, (value, text) in
                      _figures_of(item).items()))
        for place, item in enumerate(facts.operations)
    ]  # fmt: skip
    stated = " and ".join(f"{show(roof.peak, 'FLOP/s')} from {show(roof.ridge, '')} FLOP/B" for roof in limits)
    return Part(
        "roofline",
        "Roofline",
        f"Each dot is one matrix product of a micro-batch, larger where it takes longer. The roof: {stated}.",
        [roofline_figure(facts.operations)],
        figures_as_table=PageTable(("operation", "FLOP/B", "attained", "time", "of the peak"), rows, "lrrrr"),
    )


def _figures_of(item: Operation) -> dict[str, tuple[float, str]]:
    """FLOP for each byte, FLOP a second, time, and the share of the peak."""
    part = item.attained / item.peak
    return {
        "intensity": (item.intensity, show(item.intensity, "")),
        "attained": (item.attained, show(item.attained, "FLOP/s")),
        "seconds": (item.seconds, show_time(item.seconds)),
        "of_peak": (part, percent(part)),
    }


def roofline_figure(found: Sequence[Operation]) -> Plot:
    """Work for each byte against work a second, both logarithmic."""
    limits, longest = roofs(list(found)), max(item.seconds for item in found)
    intensities = [item.intensity for item in found] + [roof.ridge for roof in limits]
    low, high = min(intensities) / 3, max(intensities) * 2.5
    lines = []
    for roof in limits:
        corners = [(low, low * roof.bandwidth), (roof.ridge, roof.peak), (high, roof.peak)]
        lines.append(PlotLine([corner for corner in corners if low <= corner[0] <= high], "fourth",
                              f"peak {show(roof.peak, 'FLOP/s')}"))  # fmt: skip
    points = [
        PlotPoint(item.intensity, item.attained, _direction(item.name),
                  f"{item.name}: {show(item.attained, 'FLOP/s')}, {show_time(item.seconds)}", item.name,
                  radius=3 + 8 * (item.seconds / longest) ** 0.5)
        for item in found
    ]  # fmt: skip
    bottom = min([item.attained for item in found] + [low * limits[-1].bandwidth]) / 1.5
    seen = dict.fromkeys(point.role for point in points)
    return Plot(
        "roofline",
        "Roofline of the matrix products",
        f"{len(found)} matrix products; the fastest reaches {show(max(item.attained for item in found), 'FLOP/s')}.",
        PlotAxis("FLOP for each byte", lambda value: significant(value, 3).removesuffix(".0"), True, (low, high)),
        PlotAxis("FLOP/s", lambda value: show(value, ""), True, (bottom, limits[0].peak * 1.5)),
        points,
        lines,
        [(role, _DIRECTIONS[role]) for role in _DIRECTIONS if role in seen],
    )


_DIRECTIONS = {"first": "forward", "second": "input gradient", "third": "weight gradient"}


def _direction(name: str) -> str:
    return next((role for role, words in _DIRECTIONS.items() if name.endswith(words)), "first")


def scenario_entry(facts: PlanFacts) -> ScenarioEntry:
    """A plan among several scenarios."""
    answer = facts.answer
    return ScenarioEntry(
        COMPARED_BY, title(answer.inputs.case), plan_words(answer), conclusion(answer), facts.valid,
        not (answer.refused or answer.broken), facts.costs if facts.valid else {}, lambda: facts.nodes, TreeDrawing,
        lambda traces: Figures(facts.costs, traces),
        lambda traces: plan_sections(facts, Figures(facts.costs, traces))[:2],
        lambda: findings(answer), lambda: plan_rows(answer),
    )  # fmt: skip
