"""The plans around one, and what moves it, as reports of every workload have them beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from costmodel.explore.search.rank import Plan
from costmodel.explore.search.variants import Inputs
from costmodel.ground.counts import ordinal
from costmodel.report.answers.plan_answer import PlanBeside, PlanView, works
from costmodel.report.answers.search import (
    SAME_AS_BEST,
    SearchWords,
    front_section,
    plans_section,
    search,
    why_section,
)
from costmodel.report.answers.sensitivity import sensitivity, tornado
from costmodel.report.terminal.style.document_lines import document_lines

if TYPE_CHECKING:
    from costmodel.explore.explain.explain import ExplainedFigure
    from costmodel.explore.vary.sensitivity import Sensitivity
    from costmodel.report.document import Section
    from costmodel.report.terminal.style.layout import Line

_PLANS, _FIGURES = 10, 10  # of a text
Texts = Sequence[tuple[str, Callable[[], Sequence["Line"]]]]


def around(
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
) -> PlanBeside:
    """The analyses that a report shows next to a plan.

    brief: words of the search for a text, if it shows less. ahead: sections before the search; evidence: sections at
    the end. first, further: parts of a text before the search and after it
    """
    texts, ranked = [*first], brief or words
    if ranked is not None:
        texts.append(("The best plans", lambda: document_lines(search(ranked, _PLANS, why_not=True))))
    texts += further
    sections = [*ahead, *_of_search(words)]
    if sensitive is not None and sensitive.knobs:
        sections.append(tornado(sensitive))
        texts.append((f"What moves {sensitive.result}", lambda: document_lines(sensitivity(sensitive, _FIGURES))))
    return PlanBeside([*sections, *evidence], texts, _rank_words(view, words), nodes or {}, choices)


def _rank_words(view: PlanView, words: SearchWords[Inputs, Plan] | None) -> str:
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


def _of_search(words: SearchWords[Inputs, Plan] | None) -> Iterator[Section]:
    """The sections of a search: the Pareto front, the best plans, and why not the others."""
    if words is None:
        return
    if words.found.best:
        front = words.found.front
        if front is not None and front.rows:
            yield front_section(words, front, len(front.rows))
        yield plans_section(words)
    if any(words.found.tally.refused.values()):
        yield why_section(words)
