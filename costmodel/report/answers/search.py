"""The answer of `search` for every workload: the best plans or a Pareto front, counts, and reasons against others."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from rich.text import Text

from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.schemas.default_values import Assumption
from costmodel.documents.schemas.results import COLUMNS, ResultColumn, is_money, machine_name
from costmodel.estimate.machine.price import price_of
from costmodel.estimate.shared.reasons import Reason
from costmodel.estimate.shared.results import stated_limits
from costmodel.explore.search.rank import Front, Plan, PlanCounts
from costmodel.explore.search.scenario_variants import Inputs
from costmodel.explore.search.stream import SearchResult
from costmodel.explore.workloads import workload_of
from costmodel.ground.counts import number_of
from costmodel.ground.units import chance_words, percent
from costmodel.report.data_formats.answer_fields import remark_fields, without_places
from costmodel.report.document import (
    AnswerDocument,
    Cell,
    Column,
    Draw,
    Face,
    Headline,
    Section,
    Table,
    TraceWriter,
    Value,
    Verdict,
    chance_verdict,
)
from costmodel.report.terminal.charts import ScatterPoint, scatter
from costmodel.report.terminal.formatting import readable, time_beside
from costmodel.report.terminal.head import case_title, command, price_lines_of_all, price_varies
from costmodel.report.terminal.layout import (
    BAD,
    DIM,
    HEAD,
    WARN,
    Abridged,
    CellTable,
    Detail,
    Line,
    cut_list,
    shell_line,
    short_or_full,
    styled,
)
from costmodel.report.trials import plan_sides, range_figures, short_heads, values_in_brief
from costmodel.report.workload_words import fixed_key_lines, varied_head, words_of

if TYPE_CHECKING:
    from costmodel.explore.explain.equation_trees import ExplainedFigure

MOST_VALUES = 24  # shown of keys that vary
_MOST_REASONS = 4  # reasons of a value
_DOTS, _FEW_DOTS = 200, 50  # plans of a ranking that are drawn beside a front, and alone
SAME_AS_BEST = 1.0005  # times the figure of the best plan, up to which another is as good

PlanColumn = tuple[Column, Callable[[Plan], Cell]]


class SearchWords(ABC, Generic[Inputs, Plan]):
    """The words and columns with which the answer of a search shows the plans of one workload."""

    found: SearchResult[Inputs, Plan]
    drawn: tuple[str, str]  # results by which the best plans are drawn on a page
    gap = "  "  # between columns of plans
    brief = 5  # plans of a short answer
    speeds: frozenset[str] = frozenset()  # results that are faster where they are higher
    face_of_ends: Face = "all"  # where a front shows the ends of bands
    shown_anyway: frozenset[str] = frozenset()  # keys that have columns of their own in every table of plans

    @property
    def case(self) -> LoadedScenario:
        """The scenario."""
        return self.found.inputs.case

    @property
    def objective(self) -> str:
        """The result that plans are ranked by."""
        objective: str = self.case.scenario.objective
        return objective

    @property
    def columns(self) -> Mapping[str, ResultColumn]:
        """The columns of all results of this workload."""
        return COLUMNS[self.case.kind]

    @property
    def reasons(self) -> Mapping[str, Reason]:
        """Possible reasons against a plan, by code."""
        return workload_of(self.case).reasons

    @property
    def paths(self) -> list[str]:
        """The keys that vary."""
        return self.found.variants.paths

    @property
    def own_paths(self) -> list[str]:
        """Varied keys without a column in every table of plans."""
        return [path for path in self.paths if path not in self.shown_anyway]

    @property
    def is_limited(self) -> bool:
        """Whether the scenario states any limit."""
        return any(True for _ in stated_limits(self.case.scenario.limits))

    @property
    def works(self) -> str:
        """The verb for a plan that works, such as `fits`."""
        return "fits"

    @property
    def keeps(self) -> str:
        """The words for plans that meet the limits; empty without limits."""
        return "meet all limits" if self.is_limited else ""

    @property
    def drawn_results(self) -> Sequence[str]:
        """The results of each plan that a page has."""
        return tuple(self.columns)

    @property
    def priced(self) -> bool:
        """Whether the answer shows costs."""
        return True

    @property
    def own_costs(self) -> Mapping[str, float] | None:
        """Results of the scenario's own plan, if it was ranked."""
        return None if self.found.yours is None or self.found.your_rank is None else self.found.yours.costs

    def sure(self, chance: float) -> str:
        """A chance from 0 to 1 as text."""
        return chance_words(chance)

    def result(self, name: str, value: float) -> str:
        """A result as text with its unit."""
        return words_of(self.case.kind).result(name, value)

    def is_speed(self, name: str) -> bool:
        """Whether better means faster for a result."""
        return self.columns[name].unit == "s" or name in self.speeds

    def cell(
        self, name: str, text: Callable[[float], str] | None = None, *, of_units: bool = True, **look: Any
    ) -> PlanColumn[Plan]:
        """A column with one result, and the function that makes its cell.

        text: formats the result. of_units: whether units differ between rows, so that pages sort by value. look:
        attributes of the column
        """
        write = text or partial(self.result, name)
        base = name.removesuffix("_high") if self.columns[name].unit == "s" else name  # beside which an end stands

        def made(plan: Plan) -> Cell:
            if not math.isfinite(value := plan.costs[name]):
                return "—"
            stated = write(value) if base == name else time_beside(value, plan.costs[base])
            return Value(stated, _seven_digits(value)) if of_units else stated

        return Column(look.pop("head", name), result=name, **look), made

    def about(self) -> list[Line]:
        """The head of a search: the scenario without varied keys, and the plan keys that --set fixes."""
        asked = workload_of(self.case)
        return [*varied_head(asked, self.paths, priced=self.priced), *fixed_key_lines(asked, self.paths)]

    @abstractmethod
    def plan_columns(self, plans: Sequence[Plan]) -> list[PlanColumn[Plan]]:
        """Columns that identify a plan."""

    @abstractmethod
    def figures(self, plans: Sequence[Plan]) -> list[PlanColumn[Plan]]:
        """Columns with the results of plans and remarks on them."""

    @abstractmethod
    def line(self, plan: Plan) -> str:
        """A plan in one line of words."""

    @abstractmethod
    def settings(self, plan: Plan) -> dict[str, str]:
        """The settings that turn the scenario into that of a plan, value by key."""

    @abstractmethod
    def fields(self, plan: Plan) -> dict[str, Any]:
        """A plan as plain values."""

    @abstractmethod
    def yours(self) -> list[Line]:
        """Lines on the rank of the scenario's own plan."""

    @abstractmethod
    def own_fields(self) -> dict[str, Any] | None:
        """The scenario's own plan as plain values."""

    @abstractmethod
    def conclusion(self) -> str:
        """A sentence on the best plan, for a search that found one."""

    @abstractmethod
    def notes(self, plan: Plan) -> list[str]:
        """Sentences on the limits that a plan breaks, and on its loss against the best plan."""

    def example(self, plan: Plan, code: str) -> tuple[str, str]:
        """The name of a rejected plan, and the reason in its own numbers."""
        return self.line(plan), ""

    def beneath(self, plans: Sequence[Plan]) -> list[Line]:
        """Lines below a table of plans."""
        return []

    def needs(self) -> list[Line]:
        """Lines on what the load needs, shown first."""
        return []

    def nearest(self) -> list[Line]:
        """Lines on the nearest plan, for a search in which no plan works."""
        return []

    def remedies(self) -> list[Line]:
        """Lines on settings under which a plan works, for a search in which none does."""
        return []

    def remedy_fields(self) -> list[dict[str, Any]]:
        """The remedies as plain values."""
        return []

    def closing(self) -> list[Line]:
        """The commands for the best plan."""
        named = "Next:" if self.found.is_safe else "Next, the surest plan:"
        return [shell_line(named, command(self.case, "estimate", settings=self.settings(self.found.best[0])))]

    def front_closing(self) -> list[Line]:
        """The command for the knee of a front, or for its first plan."""
        assert self.found.front is not None
        plan = self.found.knee or self.found.front.rows[0]
        label = "Next, the knee" if self.found.knee else "Next, row 1"
        broken = f" (✗ {' '.join(plan.broken)})" if plan.broken else " (at risk)" if self.found.is_risky(plan) else ""
        return [shell_line(f"{label}{broken}:", command(self.case, "estimate", settings=self.settings(plan)))]

    def after_none(self) -> list[Line]:
        """The command of the next search, for a search in which no plan works."""
        return []

    def headlines(self) -> list[Headline]:
        """Figures at the head of a page."""
        return []

    def nodes(self) -> Mapping[str, ExplainedFigure]:
        """Explained figures of ranked plans, by their names on a page."""
        return {}

    def row_traces(self, traces: TraceWriter) -> dict[str, Any]:
        """The places of the traces of each row on a page."""
        return {}

    def value_figures(self, parts: Sequence[PlanCounts[Plan]]) -> list[PlanColumn[Plan]]:
        """Columns with results of the best plan at each value of the varied keys."""
        return [self.cell(self.objective)]

    def other_rule(self) -> str:
        """A sentence on the best plan without the preferred chance; empty if that is the first plan."""
        other = self.found.expected
        return "" if other is None or not self.found.best else plan_without_safety(self, other)

    def remarked(self) -> list[str]:
        """The codes of remarks, for a page."""
        return []

    @property
    def json_columns(self) -> Mapping[str, ResultColumn]:
        """The columns of results in plain values."""
        return self.columns

    @abstractmethod
    def keys(self, plan: Plan) -> Mapping[str, Any]:
        """The keys that identify a plan, as plain values."""

    def assumed(self) -> Sequence[Assumption]:
        """The assumptions common to all plans."""
        return ()

    def convention(self) -> str | None:
        """How FLOP are counted; None for workloads that do not count them."""
        return None

    def held(self) -> dict[str, Any]:
        """Keys of the plan that the search fixes because --set gave them."""
        return {
            key: without_places(value) for key, value in workload_of(self.case).fixed_plan_keys(self.paths)[0].items()
        }

    def missed_by_least(self) -> list[Plan]:
        """The plans that miss a limit or exceed memory by the least, for a search in which none works."""
        return []

    def tried(self) -> list[str]:
        """Single settings under which a plan works."""
        return [entry["set"][0] for entry in self.remedy_fields() if len(entry["set"]) == 1]

    def rule(self) -> tuple[float | None, Plan | None]:
        """The preferred chance to work, and the best plan if that chance is ignored."""
        return self.found.safe, self.found.expected

    def note_fields(self) -> list[dict[str, str]]:
        """Remarks as plain values."""
        return remark_fields([self.remarked()])

    def row_facts(self) -> dict[str, Any]:
        """Identifying columns of rows that are not plans."""
        return {}

    def aside(self, code: str) -> str:
        """A remark on a reason that rejects no single plan; empty for any other reason."""
        return ""

    def price_rows(self, plans: Sequence[Plan]) -> Sequence[Plan]:
        """Plans whose prices are shown."""
        return plans


def plan_without_safety(words: SearchWords[Inputs, Plan], other: Plan) -> str:
    """A sentence on the best plan if its risk is ignored: the gain over the first row, and its chance."""
    chance = words.sure(other.costs[words.found.chance])
    gained = _gain_words(words, other.costs[words.objective], words.found.best[0].costs[words.objective])
    return f"Without --safe: {words.line(other)}: {gained}, {words.works} with a chance of {chance} (--safe off)"


def _gain_words(words: SearchWords[Inputs, Plan], value: float, best: float) -> str:
    """The gain of a value over the first row's: a percentage, or both values if one of them is not known."""
    name, column = words.objective, words.columns[words.objective]
    if not (0 < value < math.inf and 0 < best < math.inf):
        return f"{name} {words.result(name, value)}, {words.result(name, best)} in row 1"
    higher = column.better == "higher"
    share = percent(abs((value / best if higher else best / value) - 1), 2)
    return f"{share} faster" if words.is_speed(name) else f"{share} {'more' if higher else 'less'} {name}"


def no_safe_plan_sentence(words: SearchWords[Inputs, Plan]) -> str:
    """A sentence that no plan has the preferred chance, and on the surest plan; empty if one has it."""
    found = words.found
    if found.is_safe or found.safe is None or not found.best or not found.works:
        return ""
    first = found.best[0].costs[found.chance]
    none = f"No plan {words.works} with a chance of {percent(found.safe, 2)}"
    if first >= max(plan.costs[found.chance] for plan in found.best):
        return f"{none}. Plan 1 is the surest: {words.sure(first)}"
    return f"{none}. The surest first, of about equal chance by {words.objective}: plan 1 has {words.sure(first)}"


def search_document(
    words: SearchWords[Inputs, Plan],
    shown: int,
    *,
    brief: int | None = None,
    why_not: bool = False,
    more: Sequence[Section] = (),
    closing: Sequence[Line] = (),
) -> AnswerDocument:
    """The answer of a search: best plans or a Pareto front, your own plan, counts, and reasons against others.

    brief: the number of plans in a short answer. more: sections after the best plans. closing: commands that replace
    the command for the first plan
    """
    found = words.found
    sections: list[Section] = []
    if found.front is not None and (found.front.rows or found.best):
        drawn, none = front_section(words, found.front, shown), no_safe_plan_sentence(words)
        sections.append(replace(drawn, ahead=[styled(none, WARN), *drawn.ahead]) if none else drawn)
        if other := words.other_rule():
            beneath = [_other_line(other)]
            sections.append(Section("other-rule", "Without --safe", beneath=beneath, apart=False, face="terminal"))
        sections += [replace(plans_section(words), face="page")] if found.best else []
    elif found.best:
        sections.append(plans_section(words, shown))
    else:
        sections.append(Section("none", "No plan works", ahead=[*_no_plan_lines(words)], face="terminal"))
    if isinstance(table := sections[0].table, Table):
        sections[0] = replace(sections[0], table=replace(table, brief=brief), asked=not brief)
    sections += more
    sections[:0] = [Section("needs", "What the load needs", beneath=lines)] if (lines := words.needs()) else []
    if own := words.yours():
        own = own if why_not else [Detail(own, "the rank of yours", spare=1)]
        sections.append(Section("yours", "Your plan", beneath=own, apart=bool(found.best)))
    sections += [values_section(words)] if words.paths and found.parts else []
    full = why_not or (any(part.examples for part in found.parts) and not found.best and found.front is None)
    reasons = reason_sections(words, full=full, apart=full or sections[-1].key != "yours")
    sections += [replace(section, asked=why_not) for section in reasons]
    if lines := words.remedies() if found.best else []:
        sections.append(Section("remedies", "What would work", beneath=lines))
    counted = f"{counts_words(words)} · {found.elapsed:.2f} s"
    over = [styled(f"over {axis.path}: {values_in_brief(axis.values)}", HEAD) for axis in found.variants.over]
    return AnswerDocument(
        words.case,
        case_title(words.case),
        [*words.about(), *over, styled(counted), *_stopped_line(words)],
        _conclusion_sentence(words),
        _verdict(words),
        sections,
        remarked=words.remarked(),
        closing=closing or _closing_lines(words),
        headlines=words.headlines() if found.best else [],
        nodes=words.nodes,
    )


def _other_line(words: str) -> Line:
    """A line on the best plan without the preferred chance, for -v only."""
    return Abridged(f"  {words}", DIM, short="", added="the best plan if its chance is ignored")


def counts_words(words: SearchWords[Inputs, Plan]) -> str:
    """The numbers of plans: all, valid, fitting, within the limits, and with the preferred chance, as text."""
    tally, safe = words.found.tally, words.found.safe
    parts = [number_of(tally.candidates, "plan"), f"{tally.evaluated:,} valid"]
    parts += [f"{tally.fit:,} fit"] if words.found.front is None or tally.fit else []
    if words.keeps and tally.fit:
        first, _, rest = words.keeps.partition(" ")
        parts.append(f"{tally.kept:,} {first}{'s' if tally.kept == 1 else ''} {rest}")
    if safe is not None and tally.kept:
        parts[-1] += f", {tally.safe:,} with {percent(safe, 2)} chance"
    return " · ".join(parts)


def _stopped_line(words: SearchWords[Inputs, Plan]) -> list[Line]:
    """A line on how far a stopped search got; empty for a complete one."""
    found = words.found
    share = found.tally.work / found.total if found.total else 1.0
    return [styled(f"Stopped after {percent(share)} of the search.", BAD)] if found.stopped else []


def _no_plan_lines(words: SearchWords[Inputs, Plan]) -> Iterator[Line]:
    """Lines for a search in which no plan works: the nearest plan, and what to change."""
    found = words.found
    if found.stopped:
        yield Text("None of those seen so far fits.")
        return
    yield from words.nearest() or [styled("No plan fits." if found.tally.evaluated else "No plan is valid.", BAD)]
    yield from words.remedies()


def _closing_lines(words: SearchWords[Inputs, Plan]) -> list[Line]:
    """The last lines: the commands for the best plan, its neighbours, and the next search."""
    found = words.found
    if found.front is not None and found.front.rows:
        return words.front_closing()
    after = words.after_none()
    settings = words.settings(found.best[0]) if found.best else {}
    beside = Detail([shell_line("Neighbours:", command(words.case, "explain", "plan", settings=settings))])
    return [*words.closing(), beside, *after] if found.best else after


def _verdict(words: SearchWords[Inputs, Plan]) -> Verdict:
    """The colour of the answer: good, warn for a low chance, bad if no plan works."""
    found = words.found
    if not (found.works if found.best else found.front and found.front.rows):
        return "bad"
    if not found.is_safe:
        return "warn"
    first = found.best[0] if found.best else found.knee
    return "good" if first is None else chance_verdict(first.costs.get(found.chance, math.nan))


def _conclusion_sentence(words: SearchWords[Inputs, Plan]) -> str:
    """The main result in a sentence or two."""
    found = words.found
    if found.front is not None and not found.best:
        return f"{number_of(len(found.front.rows), 'plan')} are beaten by no other in both results."
    if not found.best:
        return _no_plan_sentence(words)
    stated = words.conclusion()
    stated = f"{none}. {stated}" if (none := no_safe_plan_sentence(words)) else stated
    return f"{stated} {other}." if (other := words.other_rule()) else stated


def _no_plan_sentence(words: SearchWords[Inputs, Plan]) -> str:
    """A sentence on why there is no plan: the reason that rejects most of them."""
    found, whole = words.found, words.found.tally.whole
    if found.stopped:
        return f"Stopped after {whole.candidates:,} plans; none of those fits."
    code, count = next(whole.against(), ("", 0))
    most = f" {code} {words.reasons[code].title} rejects {count:,} of {whole.candidates:,}." if code else ""
    return f"{'No plan fits.' if whole.evaluated else 'No plan is valid.'}{most}"


def plans_section(words: SearchWords[Inputs, Plan], shown: int | None = None) -> Section:
    """A section with the best plans in order."""
    plans = words.found.best
    none, other = no_safe_plan_sentence(words), words.other_rule()
    beneath = [*words.beneath(plans), *price_lines(words, plans)]
    beneath += [_other_line(other)] if other else []
    columns = [*words.plan_columns(plans), *words.figures(plans)]
    lead = f"{counts_words(words)}. Click a heading to sort, or a plan to see all of it beside the first."
    return Section(
        "plans",
        "The best plans",
        lead,
        [partial(draw_ranking, words), *range_figures(words.case.kind, "plans", plan_sides(plans))],
        [styled(none, WARN)] if none else [],
        _plan_table(words, list(enumerate(plans, 1)), columns, shown),
        beneath,
    )


def _plan_table(
    words: SearchWords[Inputs, Plan],
    placed: Sequence[tuple[int, Plan]],
    columns: Sequence[PlanColumn[Plan]],
    most: int | None = None,
) -> Table:
    """A table of plans with their ranks, the values of varied keys, and the given columns."""
    over = [Column(head, "k") for head in short_heads(words.own_paths)]
    rows: list[list[Cell]] = []
    for place, plan in placed:
        values = words.found.values(plan.variant)
        varied = [readable(values[path]) for path in words.own_paths]
        rows.append([str(place), *varied, *(cell(plan) for _, cell in columns)])
    return Table(
        [Column("#"), *over, *(column for column, _ in columns)],
        rows,
        gap=words.gap,
        sortable=True,
        whole=True,
        most=most,
        rest="plan",
        data=partial(rows_data, words, [plan for _, plan in placed]),
    )


def price_lines(words: SearchWords[Inputs, Plan], plans: Sequence[Plan]) -> list[Line]:
    """One line for each distinct price, if the varied keys change the price."""
    if not words.priced or not price_varies(words.paths):
        return []
    numbers = dict.fromkeys(plan.variant for plan in words.price_rows(plans))
    cases = [words.found.inputs_of(number).case for number in numbers]
    if is_money(words.objective) and words.own_costs is not None:
        cases.append(words.case)  # by whose price your own plan is ranked
    return [*price_lines_of_all(map(price_of, cases))]


def rows_data(words: SearchWords[Inputs, Plan], plans: Sequence[Plan], traces: TraceWriter) -> dict[str, Any]:
    """The data of plans for a page: keys, results, commands and losses."""
    from costmodel.report.page.document_page import row_commands

    keys = [words.keys(plan) for plan in plans]
    plain = (int, float, str)
    sizes = [name for name in (keys[0] if keys else ()) if all(isinstance(each.get(name), plain) for each in keys)]
    names = [name for name in words.drawn_results if plans and all(name in plan.costs for plan in plans)]
    known = [name for name in names if any(math.isfinite(plan.costs[name]) for plan in plans)]
    labels = words_of(words.case.kind).terms
    columns = [{"name": name, "label": name, "unit": "", "values": [each[name] for each in keys]} for name in sizes]
    for name in known:
        values = [_seven_digits(plan.costs[name]) for plan in plans]
        facts = {"name": machine_name(name), "label": labels.get(name, name), "unit": words.columns[name].unit}
        columns.append({**facts, "values": values, "figure": name})
    return {
        "columns": columns,
        **row_commands(words.case, map(words.settings, plans)),
        "notes": [words.notes(plan) for plan in plans],
        **(words.row_traces(traces) if plans == words.found.best else {}),
    }


def _seven_digits(value: float) -> float | None:
    """The figure rounded to seven digits for a page; None if it is not finite."""
    return float(f"{value:.7g}") if math.isfinite(value) else None


def front_section(words: SearchWords[Inputs, Plan], front: Front[Plan], shown: int) -> Section:
    """The Pareto front of two results as a figure, and as a table sorted by the first result."""
    x, y = front.axes.x, front.axes.y
    if not front.rows:
        wanted = dict.fromkeys(workload_of(words.case).missing_input(name) for name in (x, y))
        nothing = "; ".join(["No plan has both results", *filter(None, wanted)])
        return Section("front", f"{x} against {y}", ahead=[styled(f"{nothing}.", BAD)])
    listed = list(_evenly_chosen(front.rows, shown))
    plans = [plan for _, plan in listed]
    figures = [words.cell(name) for axis in (x, y) for name in _with_worse_end(words, axis, front.rows)]
    columns = [*words.plan_columns(plans), *(_band_column(words, each) for each in figures), _limits_column(words)]
    titles = [f"{name} ({words.columns[name].better} is better)" for name in (x, y)]
    points, legend = _marks_and_legend(words, front)
    beneath = [*words.beneath(plans), *price_lines(words, plans), *_values_off_front(words, front)]
    if any(words.found.is_risky(plan) and not plan.broken for plan in plans):
        share = percent(words.found.safe or 0.0, 2)
        beneath.append(styled(f"  at risk: the chance {workload_of(words.case).chance_event} is below {share}", DIM))
    cut = []
    if len(plans) < len(front.rows):
        text = f"  {len(plans)} of {len(front.rows):,} on the front, spread evenly; --json has all"
        cut = [styled(text, DIM)]
    text_of = (partial(words.result, x), partial(words.result, y))
    drawing = scatter(points, (titles[0], titles[1]), text_of)
    return Section(
        "front",
        "Memory against time" if (x, y) == ("memory_peak", "step_time") else f"{x} against {y}",
        f"{number_of(len(front.rows), 'plan')} on the Pareto front: no other plan beats them in both.",
        [partial(draw_front, words)],
        [drawing, styled(f"  {legend}", DIM), Text()],
        _plan_table(words, listed, columns),
        beneath,
        cut,
    )


def _band_column(words: SearchWords[Inputs, Plan], column: PlanColumn[Plan]) -> PlanColumn[Plan]:
    """A column with an end of a band, titled P10 or P90; a page shows it even if a terminal has no room."""
    about, cell = column
    end = {"low": "P10", "high": "P90"}.get(about.head.rpartition("_")[2])
    return (Column(end, result=about.result, face=words.face_of_ends), cell) if end else column


def _limits_column(words: SearchWords[Inputs, Plan]) -> PlanColumn[Plan]:
    """A column with the limits that each plan breaks, or the words `at risk`."""

    def made(plan: Plan) -> Cell:
        return f"✗ {' '.join(plan.broken)}" if plan.broken else "at risk" if words.found.is_risky(plan) else ""

    return Column("", "l"), made


def _with_worse_end(words: SearchWords[Inputs, Plan], name: str, plans: Sequence[Plan]) -> tuple[str, ...]:
    """A result and the worse end of its P10–P90 band, as names of columns."""
    end = f"{name}_{'high' if words.columns[name].better == 'lower' else 'low'}"
    return (name, end) if all(end in plan.costs for plan in plans) else (name,)


def _marks_and_legend(words: SearchWords[Inputs, Plan], front: Front[Plan]) -> tuple[list[ScatterPoint], str]:
    """Marks for the front, its knee, your own and the best plan if both results are known; and their legend."""
    found, axes = words.found, front.axes
    marks: list[tuple[str, str, Mapping[str, float]]] = [("●", "on the front", plan.costs) for plan in front.rows]
    if (own := words.own_costs) is not None:
        marks.append(("○", "yours", own))
    if found.best:
        marks.append(("◆", f"best by {words.objective}", found.best[0].costs))
    elif found.knee is not None:
        marks.append(("◆", "its knee", found.knee.costs))
    known = [
        (ScatterPoint(costs[axes.x], costs[axes.y], mark), f"{mark} {text}")
        for mark, text, costs in marks
        if math.isfinite(costs[axes.x]) and math.isfinite(costs[axes.y])
    ]
    return [point for point, _ in known], " · ".join(dict.fromkeys(text for _, text in known))


def _evenly_chosen(plans: Sequence[Plan], count: int) -> Iterator[tuple[int, Plan]]:
    """At most `count` plans with their ranks, evenly spaced from the first to the last."""
    last, steps = len(plans) - 1, min(count, len(plans)) - 1
    for step in range(steps + 1):
        place = round(step * last / max(1, steps))
        yield place + 1, plans[place]


def _values_off_front(words: SearchWords[Inputs, Plan], front: Front[Plan]) -> Iterator[Line]:
    """Lines on values of the varied keys without a plan on the front, and the reason."""
    on_front = {plan.variant for plan in front.rows}
    for part in words.found.parts if words.paths else ():
        if part.number not in on_front:
            value = " · ".join(map(readable, words.found.values(part.number).values()))
            why = "others beat all its plans" if part.best else "no plan works"
            fault = f"✗ {part.fault.code} {part.fault.sentence}" if part.fault else why
            yield styled(f"  {value}: {fault}", DIM)


def draw_front(words: SearchWords[Inputs, Plan]) -> Draw:
    """A plot of the front, the best plans and the scenario's own plan."""
    from costmodel.report.page.plots import DrawnPlan, plans_plot

    found, front = words.found, words.found.front
    assert front is not None
    plans = [DrawnPlan(plan.costs, f"plan {at}", "quiet") for at, plan in enumerate(found.best[:_DOTS], 1)]
    plans += [DrawnPlan(plan.costs, "on the front", "first") for plan in front.rows]
    plans += [DrawnPlan(found.best[0].costs, "best", "third", "best")] if found.best else []
    plans += [] if words.own_costs is None else [DrawnPlan(words.own_costs, "yours", "second", "yours")]
    return plans_plot((front.axes.x, front.axes.y), plans, words.columns, words.result, front=True)


def draw_ranking(words: SearchWords[Inputs, Plan]) -> Draw:
    """A plot of the best plans by two results."""
    from costmodel.report.page.plots import DrawnPlan, plans_plot

    drawn = []
    for place, plan in enumerate(words.found.best[:_FEW_DOTS], 1):
        values = zip(short_heads(words.paths), words.found.values(plan.variant).values(), strict=True)
        named = " · ".join([f"plan {place}", *(f"{head} {readable(value)}" for head, value in values)])
        role = "second" if plan.broken or words.found.is_risky(plan) else "first"
        drawn.append(DrawnPlan(plan.costs, named, role, "best" if place == 1 else ""))
    return plans_plot(words.drawn, drawn, words.columns, words.result, front=False)


def values_section(words: SearchWords[Inputs, Plan]) -> Section:
    """A section with the counts of plans and the best plan at each value of the varied keys."""
    parts = words.found.parts
    figures = words.value_figures(parts)
    faulty = any(part.fault for part in parts)
    columns = [
        *(Column(head, "k") for head in short_heads(words.paths)),
        Column("plans", drop=1),
        Column("fit", drop=2),
    ]
    columns += [Column("meet limits" if words.found.safe is None else "sure"), Column("best plan", "l")]
    columns += [*(column for column, _ in figures), Column("rejected because", "l", drop=0 if faulty else 3)]
    rows = [_value_row(words, part, figures) for part in parts]
    more = len(parts) - MOST_VALUES
    cut = [styled(f"  {more:,} more: --json has all", DIM)] if more > 0 else []
    lead = "The best plan at each value, and how many plans there are valid, fit and meet the limits."
    return Section("values", "At each value", lead, table=Table(columns, rows, most=MOST_VALUES), cut=cut)


def _value_row(
    words: SearchWords[Inputs, Plan], part: PlanCounts[Plan], figures: Sequence[PlanColumn[Plan]]
) -> list[Cell]:
    """The table row of one value of the varied keys: counts, best plan, or the fault."""
    values: list[Cell] = [readable(value) for value in words.found.values(part.number).values()]
    if part.fault is not None:
        return [*values, *["—"] * (4 + len(figures)), f"✗ {part.fault.code} {part.fault.sentence}"]
    kept = part.safe if words.found.safe is not None else part.kept
    counts = [f"{count:,}" for count in (part.candidates, part.fit, kept)]
    best = part.best
    stated = "none fits" if best is None else words.line(best)
    stated = f"{stated} ✗ {' '.join(best.broken)}" if best is not None and best.broken else stated
    cells = ["—" if best is None else cell(best) for _, cell in figures]
    against = (f"{code} {percent(part.share(code), 2)}" for code, _ in itertools.islice(part.against(), _MOST_REASONS))
    return [*values, *counts, stated, *cells, " · ".join(against)]


def reason_sections(words: SearchWords[Inputs, Plan], *, full: bool, apart: bool) -> list[Section]:
    """Sections on the reasons against plans.

    full: whether a terminal shows each meaning with an example, not only shares
    """
    counts = list(words.found.tally.whole.against())
    if not counts:
        return []
    made: list[Line] = [*(reason_lines(words) if full else _reason_shares(words, counts))]
    spared = ("", 0) if full else ("reasons against plans", 2)
    shares = Section("why-not", "Why not the others", ahead=made, face="terminal", apart=apart)
    return [replace(shares, detail=spared[0], spare=spared[1]), reasons_section(words)]


def _reason_shares(words: SearchWords[Inputs, Plan], counts: Sequence[tuple[str, int]]) -> Iterator[Line]:
    """Lines with each reason against plans and the share of plans that it rejects."""
    total = words.found.tally.candidates
    rows = [(percent(count / total, 2), f"{code} {words.reasons[code].title}") for code, count in counts]
    table = CellTable(("", ""), rows, "rl", False, indent="    ", style=DIM)
    first = cut_list("  Why not (--why-not): ", [f"{title} {share}" for share, title in rows], " · ")
    whole: list[Line] = [styled("  why not (--why-not explains)", DIM), table]
    yield from short_or_full([styled(first, DIM)], whole, "reasons against plans")


def reason_lines(words: SearchWords[Inputs, Plan]) -> Iterator[Line]:
    """Lines on every reason against plans: its meaning, how many plans it rejects, and an example."""
    whole = words.found.tally.whole
    refused = sum(count for _, count in whole.against())
    yield styled(f"Why not: {refused:,} of {whole.candidates:,} plans are rejected", HEAD)
    yield styled("  each is counted under the first reason that applies", DIM)
    for code, count in whole.against():
        reason = words.reasons[code]
        yield styled(f"  {code}  {reason.title}: {number_of(count, 'plan')}, {percent(count / whole.candidates, 2)}")
        yield styled(f"        {reason.meaning}")
        plan, stated = rejected_example(words, code)
        if plan:
            yield styled(f"        e.g. {plan}", DIM)
        if stated:
            yield styled(f"             {stated}", DIM)
        if aside := words.aside(code):
            yield styled(f"        {aside}", DIM)


def rejected_example(words: SearchWords[Inputs, Plan], code: str) -> tuple[str, str]:
    """A plan that a reason rejects, and the reason with its numbers; both empty if none is known."""
    plan = next((part.examples[code] for part in words.found.tally.parts.values() if code in part.examples), None)
    return ("", "") if plan is None else words.example(plan, code)


def reasons_section(words: SearchWords[Inputs, Plan]) -> Section:
    """The section of a page with every reason: how many plans it rejects, an example, and its meaning."""
    whole = words.found.tally.whole
    columns = [Column("code", "l"), Column("why", "l"), Column("plans"), Column("of all"), Column("for example", "l"),
               Column("what it means", "l")]  # fmt: skip
    rows: list[list[Cell]] = []
    for code, count in whole.against():
        reason, example = words.reasons[code], ": ".join(filter(None, rejected_example(words, code)))
        share = percent(count / whole.candidates)
        rows.append([code, reason.title, f"{count:,}", share, example, reason.meaning])
    if not any(row[4] for row in rows):
        columns, rows = [*columns[:4], columns[5]], [[*row[:4], row[5]] for row in rows]
    lead = "Each rejected plan counts under the first reason that applies."
    return Section("why-not", "Why not the others", lead, table=Table(columns, rows), face="page")
