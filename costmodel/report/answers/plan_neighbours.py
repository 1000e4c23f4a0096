"""The analyses that a report shows beside a plan, and the table of neighbouring plans with their results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from costmodel.documents.keys.overrides import path_of
from costmodel.documents.schemas.default_values import SAFE
from costmodel.documents.schemas.results import is_money, machine_name
from costmodel.explore.search.rank import Plan
from costmodel.explore.search.scenario_variants import Inputs
from costmodel.explore.vary.neighbours import Neighbour
from costmodel.explore.workload_interface import Workload
from costmodel.explore.workloads import workload_of
from costmodel.ground.counts import ordinal
from costmodel.ground.units import chance_words, show_time
from costmodel.report.answers.plan_answer import PlanAnalyses, PlanView, next_command, plan_document, works
from costmodel.report.answers.search import (
    SAME_AS_BEST,
    SearchWords,
    front_section,
    plans_section,
    reasons_section,
    search_document,
)
from costmodel.report.answers.sensitivity import sensitivity_document, tornado_section
from costmodel.report.data_formats.answer_fields import finite
from costmodel.report.document import AnswerDocument, Cell, Column, Section, Table, Value
from costmodel.report.terminal.document_lines import document_lines
from costmodel.report.terminal.head import price_lines
from costmodel.report.terminal.layout import Abridged, Line, styled
from costmodel.report.trials import result_heads, trial_settings
from costmodel.report.workload_words import words_of

if TYPE_CHECKING:
    from costmodel.explore.explain.equation_trees import ExplainedFigure
    from costmodel.explore.vary.sensitivity import Sensitivity

_PLANS, _FIGURES = 10, 10  # of a text
Texts = Sequence[tuple[str, Callable[[], Sequence[Line]]]]


def analyses_beside_plan(
    view: PlanView,
    words: SearchWords[Inputs, Plan] | None,
    sensitive: Sensitivity | None,
    evidence: Sequence[Section],
    *,
    brief: SearchWords[Inputs, Plan] | None = None,
    ahead: Sequence[Section] = (),
    first: Texts = (),
    further: Texts = (),
    nodes: Mapping[str, ExplainedFigure] | None = None,
    choices: Mapping[str, Any] | None = None,
) -> PlanAnalyses:
    """Collects the analyses that a report shows beside a plan.

    brief: words of the search for a text, if it shows less. ahead: sections before the search; evidence: sections at
    the end. first, further: parts of a text before the search and after it
    """
    texts, ranked = [*first], brief or words
    if ranked is not None:
        texts.append(("The best plans", lambda: document_lines(search_document(ranked, _PLANS, why_not=True))))
    texts += further
    sections = [*ahead, *_search_sections(words)]
    if sensitive is not None and sensitive.knobs:
        sections.append(tornado_section(sensitive))
        texts.append(
            (f"What moves {sensitive.result}", lambda: document_lines(sensitivity_document(sensitive, _FIGURES)))
        )
    return PlanAnalyses([*sections, *evidence], texts, _rank_sentence(view, words), nodes or {}, choices)


def _rank_sentence(view: PlanView, words: SearchWords[Inputs, Plan] | None) -> str:
    """A sentence on the rank of a working plan in its search, and on the gain of the best plan."""
    if words is None or not works(view) or not words.found.works or (rank := words.found.your_rank) is None:
        return ""
    best, name = words.found.best[0], words.objective
    own, column = view.answer.costs[name], words.columns[name]
    ratio = best.costs[name] / own if column.better == "higher" else own / best.costs[name]
    if rank == 1 or 1 <= ratio <= SAME_AS_BEST:
        return " No plan of the search is better."
    gain = f"is {ratio:.2f} × as fast" if words.is_speed(name) else f"has {best.costs[name] / own:.2f} × the {name}"
    chance, yours = (words.sure(costs[words.found.chance]) for costs in (best.costs, view.answer.costs))
    if not ratio > SAME_AS_BEST:  # plans with the chance that the search prefers come first
        gain = f"{words.works} with a chance of {chance}, yours with {yours}"
    elif words.found.is_risky(best):
        gain += f", and {words.works} with a chance of {chance}"
    return f" It ranks {ordinal(rank)}: the best {gain} ({words.line(best)})."


def _search_sections(words: SearchWords[Inputs, Plan] | None) -> Iterator[Section]:
    """The sections about a search: the Pareto front, the best plans, and the reasons against the others."""
    if words is None:
        return
    if words.found.best:
        front = words.found.front
        if front is not None and front.rows:
            yield front_section(words, front, len(front.rows))
        yield plans_section(words)
    if any(words.found.tally.refused.values()):
        yield reasons_section(words)


_IGNORED_CHANGE = 0.002  # share of the time below which a change of one of its terms is ignored


def neighbours_document(view: PlanView, found: Sequence[Neighbour]) -> AnswerDocument:
    """The table of the scenario's plan and its neighbours, grouped by the choice that is changed."""
    asked = workload_of(view.case)
    words, costs, time = words_of(view.case.kind), view.answer.costs, asked.usual_result
    shown = [name for name in dict.fromkeys((time, *asked.watched_results)) if math.isfinite(costs[name])]
    heads = {name: head for head, name in words.compared.heads}
    columns = [Column("instead", "k")]
    for name, head in zip(shown, result_heads(asked, shown), strict=True):
        columns += [Column(heads.get(name, head), result=name), *([Column("")] if name == time else [])]
    columns.append(Column("what changes, or why it is rejected", "l"))
    rows: list[list[Cell]] = [["this plan", *_cells(asked, costs, costs, shown), ""]]
    settings, last = [dict[str, str]()], ""
    for each in found:
        if each.asked != last:
            rows.append([each.asked, *[""] * (len(columns) - 1)])
            settings.append({})
        last = each.asked
        figures = [""] * (len(columns) - 2) if each.trial.refused else _cells(asked, costs, each.trial.costs, shown)
        rows.append([f"  {each.words}", *figures, _change_words(asked, costs, each)])
        settings.append(trial_settings(each.trial, searched=False))
    prices = price_lines(asked.facts.price) if any(map(is_money, shown)) else []
    table = Table(columns, rows, settings=settings, rest="all neighbours, more results")
    beneath = [Abridged(f"  {line.plain.strip()}", short="", added="the price") for line in prices]
    lead = "Each plan differs from this one in one choice."
    short = _short_table(asked, costs, found, shown[:2])
    section = Section("neighbours", "Its neighbours", lead, table=table, beneath=beneath, short=short)
    return plan_document(view, "explain", lambda: [section], closing=_closing_lines(view, asked, found))


def _short_table(asked: Workload, own: Mapping[str, float], found: Sequence[Neighbour], shown: Sequence[str]) -> Table:
    """A short table: for each choice the fastest neighbour that works, or else the first one."""
    rows: list[list[Cell]] = [["", "this plan", *_cells(asked, own, own, shown), ""]]
    for question in dict.fromkeys(each.asked for each in found):
        tried = [each for each in found if each.asked == question]
        sure = [each for each in tried if each.trial.works and not _risk_words(asked, own, each)]
        works = sure or [each for each in tried if each.trial.works]
        best = min(works, key=lambda each: each.trial.costs[asked.usual_result]) if works else tried[0]
        figures = [""] * (len(shown) + 1) if best.trial.refused else _cells(asked, own, best.trial.costs, shown)
        risk = "" if best.trial.refused else _risk_words(asked, own, best)
        rows.append([question, best.words, *figures, f"✗ {best.trial.codes[0]}" if best.trial.codes else risk])
    heads = {name: head for head, name in words_of(asked.case.kind).compared.heads}
    time, *others = (
        Column(heads.get(name, head)) for name, head in zip(shown, result_heads(asked, shown), strict=True)
    )
    return Table(
        [Column("question", "k", drop=1), Column("best instead", "l"), time, Column(""), *others, Column("", "k")], rows
    )


def _cells(asked: Workload, own: Mapping[str, float], costs: Mapping[str, float], shown: Sequence[str]) -> list[Cell]:
    """Table cells with a plan's results (`shown`), and its time relative to the scenario's plan in percent."""
    words, cells = words_of(asked.case.kind), list[Cell]()
    for name in shown:
        value = costs.get(name, math.nan)
        cells.append(Value(words.result(name, value), value, machine_name(name)) if math.isfinite(value) else "—")
        if name == asked.usual_result:
            change = "" if costs is own else f"{(value / own[name] - 1) * 100:+.1f} %".replace("-", "−")
            cells.append(change)
    return cells


def _change_words(asked: Workload, own: Mapping[str, float], each: Neighbour) -> str:
    """Why a neighbouring plan is rejected, and which term of its time changes most."""
    reasons = [f"{code} {asked.reasons[code].title}" for code in each.trial.codes[:1]]
    if each.trial.refused:
        return reasons[0]
    name, by = _largest_change(asked, own, each)
    moved = f"{words_of(asked.case.kind).terms[name]} {'+' if by > 0 else '−'}{show_time(abs(by))}" if name else ""
    reasons += [risk] if (risk := _risk_words(asked, own, each)) else []
    return "; ".join([*reasons, moved or "nothing much"])


def _largest_change(asked: Workload, own: Mapping[str, float], each: Neighbour) -> tuple[str, float]:
    """The term of a neighbour's time that changes most, and its change in seconds; ("", 0) if none does."""
    costs = each.trial.costs
    apart = {name: costs[name] - own[name] for name in words_of(asked.case.kind).terms if name in costs}
    apart = {name: by for name, by in apart.items() if math.isfinite(by)}
    name = max(apart, key=lambda term: abs(apart[term]), default="")
    return (name, apart[name]) if name and abs(apart[name]) > _IGNORED_CHANGE * own[asked.usual_result] else ("", 0.0)


def _closing_lines(view: PlanView, asked: Workload, found: Sequence[Neighbour]) -> list[Line]:
    """The last lines: the fastest neighbour that works, how risky it is, and the next command.

    The command sets every key of the plan that a search chose; keys that it left out would take other defaults.
    """
    own, name = view.answer.costs[asked.usual_result], asked.usual_result
    works = [each for each in found if each.trial.works and own > SAME_AS_BEST * each.trial.costs[name]]
    sure = [each for each in works if not _risk_words(asked, view.answer.costs, each)]
    if not works:
        return [styled("No neighbour that works is faster."), next_command(view.case, "search")]
    best = min(sure or works, key=lambda each: each.trial.costs[name])
    faster = f"{best.words} is {(1 - best.trial.costs[name] / own) * 100:.1f} % faster"
    if not sure:
        risk = _risk_words(asked, view.answer.costs, best)
        return [styled(f"{faster}, but has a chance of only {risk}."), next_command(view.case, "search")]
    stated = dict(each.split("=", 1) for each in (*_settings_chosen_by_search(view), *best.trial.settings))
    settings = [word for path, value in stated.items() for word in ("--set", f"{path}={value}")]
    return [styled(f"{faster} and works."), next_command(view.case, "explain", "plan", *settings)]


def _settings_chosen_by_search(view: PlanView) -> list[str]:
    """Settings of the plan that the search chose, such as plan.tp=8; without those of the command line."""
    stated = {*map(path_of, view.case.assignments)}
    changes = (each for each in view.case.changes if isinstance(each, str))
    return [each for each in changes if each.startswith("plan.") and path_of(each) not in stated]


def _risk_words(asked: Workload, own: Mapping[str, float], each: Neighbour) -> str:
    """The chance that a neighbour works, in words; empty if it is as high as searches prefer, or as this plan's."""
    chance = each.trial.costs.get(asked.chance, math.nan)
    least = min(SAFE, own.get(asked.chance, 1.0))
    return f"{chance_words(chance)} {asked.chance_event}" if each.trial.works and chance < least else ""


def neighbours_json(view: PlanView, found: Sequence[Neighbour]) -> dict[str, Any]:
    """The plan and its neighbours as plain values."""
    asked = workload_of(view.case)
    return {**view.plain(), "neighbours": [_neighbour_fields(asked, view.answer.costs, each) for each in found]}


def _neighbour_fields(asked: Workload, own: Mapping[str, float], each: Neighbour) -> dict[str, Any]:
    """A neighbouring plan as plain values: what is changed, its results, and the term that changes most."""
    trial = each.trial
    base = {"asked": each.asked, "set": dict(each.values), "refused": [*trial.refused], "broken": [*trial.broken]}
    if trial.refused:
        return base
    results = {
        machine_name(name): finite(trial.costs.get(name, math.nan))
        for name in dict.fromkeys((asked.usual_result, *asked.watched_results))
    }
    name, by = _largest_change(asked, own, each)
    return {**base, **results, "moves": name or None, "by_s": by}
