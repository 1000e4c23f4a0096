"""An answer with all that its page shows beside its figures: what would fix it, and what its choices are worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.estimate.evaluate.predict import Answer, predict
from costmodel.explore.explain.effects import Effect, effects

if TYPE_CHECKING:
    from costmodel.explore.search.changes import Remedy


@dataclass(frozen=True)
class ExplainedAnswer(Answer):
    """One evaluated plan, with the remedies for each reason against it and the effects of its choices.

    Example: `explained(answer).fixes["M001"]` are the changes after which a plan that needs too much memory fits.
    """

    fixes: dict[str, tuple[Remedy, ...]]
    effects: tuple[Effect, ...]


def explained(answer: Answer) -> ExplainedAnswer:
    """The same answer with them; the search for fixes is imported where something speaks against the plan."""
    against, found = answer.refused or answer.broken, {}
    if against:
        from costmodel.explore.explain.fixes import remedies

        found = {code: tuple(remedies(answer, code)) for code in against}
    return ExplainedAnswer(**vars(answer), fixes=found, effects=tuple(effects(answer)))


def explained_plan(case: ResolvedScenario) -> ExplainedAnswer:
    """The scenario's own plan, evaluated and explained."""
    return explained(predict(case))
