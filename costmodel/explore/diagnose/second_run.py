"""A second measured run of the same job with one setting changed: which causes would explain both."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.equations.run.diagnosis import cause_distance
from costmodel.estimate.evaluate.predict import Answer
from costmodel.explore.diagnose.causes import Cause, causes
from costmodel.explore.diagnose.diagnose import Diagnosis, Explanation
from costmodel.explore.diagnose.measured import step_of
from costmodel.explore.diagnose.prediction import PredictedTerms, of_evaluation, with_figure
from costmodel.explore.explain.explained_answer import explained_plan
from costmodel.ground.errors import fail
from costmodel.ground.record import record

RATIO_SPREAD = 0.02  # of two steps of one job, mean over many: what is wrong with both predictions cancels
_DOCUMENTS = (
    "scenario", "model", "node", "accelerator", "scale_up", "scale_out", "host", "efficiency", "network", "stack",
    "optimizer", "groups",
)  # fmt: skip
SHORT = {
    "nodes": "cluster.nodes",
    "micro_batch": "plan.micro_batch",
    "global_batch": "workload.global_batch",
    "sequence": "workload.sequence",
}


@record
class SecondRun:
    """A run with one setting changed: its measured step, and what is predicted of it."""

    setting: str
    measured: float
    answer: Answer
    base: PredictedTerms
    causes: Mapping[str, Cause]

    def with_cause(self, one: Explanation) -> float:
        """Its step if the cause that explains the first run holds in it too."""
        cause, value = one.cause, one.value or 0.0
        own = self.causes.get(cause.name)
        if own is None:
            return self.base.step
        if cause.way != "added":
            found = with_figure(self.answer.inputs.case, self.answer.plan, cause.path, value)
            return math.nan if found is None else found.step
        added = value if cause.unit == "s" else (value - 1) * own.part
        return self.base.step + added


def second_runs(
    first: ResolvedScenario, with_setting: Callable[[str], ResolvedScenario], stated: Sequence[str]
) -> tuple[SecondRun, ...]:
    """Runs beside the first, as stated: setting=value:figure, whose figure is a time or an MFU."""
    return tuple(_second_run(first, with_setting, text) for text in stated)


def _second_run(first: ResolvedScenario, with_setting: Callable[[str], ResolvedScenario], text: str) -> SecondRun:
    setting, _, figure = text.rpartition(":")
    path, separator, value = (part.strip() for part in setting.partition("="))
    if not figure.strip() or not separator or not value:
        raise fail("C023", f"'{text[:80]}' is not setting=value:time", None, "for example --also global_batch=2048:35s")
    full = f"{SHORT.get(path, path)}={value}"
    changed = with_setting(full)
    if all(getattr(changed, name) == getattr(first, name) for name in _DOCUMENTS):
        raise fail("C023", f"{setting} is what the first run has", None, "state a run with another value")
    answer = explained_plan(changed)
    if answer.refused:
        hint = f"costmodel estimate with --set {full} states the reason"
        raise fail("C023", f"with {setting} the plan is invalid: {answer.refused[0]}", None, hint)
    base = of_evaluation(answer.evaluation)
    measured = step_of(answer.inputs, base, figure.strip(), "--also")
    return SecondRun(setting, measured, answer, base, {cause.name: cause for cause in causes(answer, base)})


def beside(found: Diagnosis, runs: tuple[SecondRun, ...]) -> Diagnosis:
    """The causes anew, ranked by how well each explains the other runs too."""
    if not runs or not found.explained:
        return replace(found, runs=runs)
    ranked = sorted((_beside(one, runs) for one in found.explained), key=lambda one: (one.score, one.cause.name))
    return replace(found, explained=tuple(ranked), runs=runs)


def _beside(one: Explanation, runs: tuple[SecondRun, ...]) -> Explanation:
    """A cause with the run that speaks most against it."""
    misfit, worst, against = one.misfit, 0.0, one.against
    for run in runs:
        should = run.with_cause(one)
        off = math.inf if math.isnan(should) else float(cause_distance(run.measured, should, RATIO_SPREAD))
        misfit = math.hypot(misfit, off)
        if off > max(worst, 1.0):
            worst, against = off, (run.setting, run.measured, should)
    return replace(one, misfit=misfit, against=against)
