"""Pages about training plans: one plan, a whole report, several scenarios side by side, a search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from costmodel.documents.schemas.results import OF_RUN, OF_STEP
from costmodel.estimate.evaluate.evaluate_plans import fits_at_p90, verdict
from costmodel.estimate.evaluate.predict import Answer
from costmodel.estimate.shared.reasons import REFUSALS
from costmodel.explore.communication import is_sent
from costmodel.explore.page.plan_facts import PlanFacts
from costmodel.ground.units import gib, percent, show
from costmodel.report.document import Value, Verdict, chance_verdict
from costmodel.report.page.content import Headline, HtmlPage, PageTable, Part
from costmodel.report.page.marks import SvgFigure
from costmodel.report.page.network_part import network_figure, network_part
from costmodel.report.page.pipeline_part import pipeline_part, timeline_figures
from costmodel.report.page.plan_parts import memory_figure, memory_part, time_figure, time_part
from costmodel.report.page.roofline_part import roofline_figure, roofline_part
from costmodel.report.page.shared_parts import inputs_part, kept_limits, remark_findings
from costmodel.report.page.trace import Traces
from costmodel.report.page.values import Figures, seconds
from costmodel.report.terminal.plan.plan_words import plan_words, verdict_words
from costmodel.report.terminal.search.refusals import reason
from costmodel.report.terminal.style.formatting import BAND, TIME_TERMS, between, result
from costmodel.report.terminal.style.head import head_of, title

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


def conclusion(answer: Answer) -> str:
    """The answer in a sentence or two."""
    inputs = answer.inputs
    if answer.refused:
        code = answer.refused[0]
        return f"This plan is not valid: {REFUSALS[code].title}, {reason(answer, code)}. Nothing was computed."
    costs = answer.evaluation.costs.row()
    step = f"a step takes {seconds(costs['step_time'])} at {percent(costs['mfu'])} MFU"
    memory = f"{gib(costs['memory_peak'])} of {gib(inputs.usable)} GiB"
    if costs["memory_share"] > 1:
        return f"This plan does not fit: it needs {memory} on each accelerator. If it did, {step}."
    longest, part = max(((words, costs[name]) for words, name in TIME_TERMS), key=lambda item: item[1])
    room = "the plan just fits" if verdict(costs["memory_share"]) == "tight" else "the plan fits"
    room += "" if fits_at_p90(costs) else f" with a chance of {percent(costs['fit_chance'])}"
    stated = f"{step[0].upper()}{step[1:]}, and {room} ({memory}). "
    stated += f"The largest part of a step is {longest}, {percent(part / costs['step_time'])}."
    if not answer.broken:
        return stated
    words = "; ".join(reason(answer, code) for code in answer.broken)
    return f"This plan breaks a limit: {words}. {stated}"


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
