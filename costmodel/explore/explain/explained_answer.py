"""An answer with all that its page shows beside its figures: what would fix it, and what its choices are worth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from costmodel.estimate.evaluate.predict import Answer, predict
from costmodel.explore.explain.effects import Effect, effects
from costmodel.ground.record import record

if TYPE_CHECKING:
    from costmodel.documents.reader.resolved_scenario import ResolvedScenario
    from costmodel.explore.explain.run_levers import RunOutlook
    from costmodel.explore.search.changes import Remedy


@record
class ExplainedAnswer(Answer):
    """An evaluated plan with fixes for each reason against it, the effects of its choices, and a run outlook.

    Example: `explained(answer).fixes["M001"]` are the changes after which a plan that needs too much memory fits.
    """

    fixes: dict[str, tuple[Remedy, ...]]
    effects: tuple[Effect, ...]
    outlook: RunOutlook | None


def explained(answer: Answer) -> ExplainedAnswer:
    """Adds fixes, effects and outlook to an answer; imports the search for fixes only if the plan needs some."""
    against, found, of_run = answer.refused or answer.broken, {}, None
    if against:
        from costmodel.explore.explain.fixes import remedies

        found = {code: tuple(remedies(answer, code)) for code in against}
    if answer.inputs.run is not None:
        from costmodel.explore.explain.run_levers import outlook

        of_run = outlook(answer)
    return ExplainedAnswer(**vars(answer), fixes=found, effects=tuple(effects(answer)), outlook=of_run)


def explained_plan(case: ResolvedScenario) -> ExplainedAnswer:
    """The scenario's own plan, evaluated and explained."""
    return explained(predict(case))
