"""The plans around one, and what moves it, as reports of every workload have them beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from costmodel.explore.search.rank import Plan
from costmodel.explore.search.variants import Inputs
from costmodel.report.answers.plan_view import PlanBeside
from costmodel.report.answers.search import SearchWords, front_section, plans_section, search, why_section
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
    words: SearchWords[Inputs, Plan] | None,
    sensitive: Sensitivity | None,
    evidence: Sequence[Section],
    more: str = "",
    *,
    brief: SearchWords[Inputs, Plan] | None = None,
    ahead: Sequence[Section] = (),
    first: Texts = (),
    further: Texts = (),
    nodes: Mapping[str, ExplainedFigure] | None = None,
    choices: Mapping[str, Any] | None = None,
) -> PlanBeside:
    """What a report has beside a plan.

    brief: what a text has of the search, where that is less. ahead: sections ahead of the search; evidence: behind all.
    first, further: parts of a text ahead of the search and behind it
    """
    texts, ranked = [*first], brief or words
    if ranked is not None:
        texts.append(("The best plans", lambda: document_lines(search(ranked, _PLANS, why_not=True))))
    texts += further
    sections = [*ahead, *_of_search(words)]
    if sensitive is not None and sensitive.knobs:
        sections.append(tornado(sensitive))
        texts.append((f"What moves {sensitive.result}", lambda: document_lines(sensitivity(sensitive, _FIGURES))))
    return PlanBeside([*sections, *evidence], texts, more, nodes or {}, choices)


def _of_search(words: SearchWords[Inputs, Plan] | None) -> Iterator[Section]:
    """The front and the best plans, and why not the others."""
    if words is None:
        return
    if words.found.best:
        front = words.found.front
        if front is not None and front.rows:
            yield front_section(words, front, len(front.rows))
        yield plans_section(words)
    if any(words.found.tally.refused.values()):
        yield why_section(words)
