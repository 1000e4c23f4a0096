"""A serving scenario with other values, with its whole answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from costmodel.documents.reader.override_case import vary_any
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.reader.serving_scenario import ServingCase, serving
from costmodel.documents.schemas.results import without_money
from costmodel.estimate.serving.predict_serving import ServingAnswer, predict
from costmodel.estimate.serving.predict_serving import answer as answer_of
from costmodel.estimate.serving.serving_inputs import inputs_of
from costmodel.explore.serving.best_layout import with_best_layout
from costmodel.explore.serving.search_layouts import UNSTABLE
from costmodel.ground.errors import CostModelError, Fault
from costmodel.ground.record import record

_RARE = 1e-6  # requests a second of an engine that is empty when one comes


@record
class ServingTrial:
    """A scenario with some settings: its results, or what is wrong with it."""

    settings: tuple[str, ...]
    answer: ServingAnswer | None = None
    fault: Fault | None = None
    alone: ServingAnswer | None = None  # of requests one at a time, where no number of replicas keeps the limits
    one: ServingAnswer | None = None  # by which replicas are counted: up to its rates limits are kept as is preferred
    expected: ServingAnswer | None = None  # with as many replicas as expected figures need, where it has more

    @property
    def stands(self) -> bool:
        """Whether it is valid, fits and answers its load, whatever the limits."""
        return self.answer is not None and not self.answer.refused and not UNSTABLE & {*self.answer.broken}

    @property
    def works(self) -> bool:
        """Whether it keeps every limit besides."""
        return self.stands and self.answer is not None and not self.answer.broken

    def result(self, name: str) -> float:
        """A result of a plan that keeps every limit; not a number where it breaks one."""
        return math.nan if self.answer is None or not self.works else self.answer.costs.get(name, math.nan)

    @property
    def costs(self) -> dict[str, float]:
        """Its results, to compare; nothing of a plan that is not valid, and no rent of one that fails."""
        if self.answer is None or self.answer.refused:
            return {}
        return self.answer.costs if self.works and self.alone is None else without_money(self.answer.costs)

    @property
    def codes(self) -> tuple[str, ...]:
        """What speaks against it."""
        if self.fault is not None:
            return (self.fault.code,)
        if self.alone is not None:
            return self.alone.broken
        return () if self.answer is None else self.answer.refused or self.answer.broken


def tried(case: LoadedScenario, settings: Sequence[str], *, best: bool = False, bands: bool = True) -> ServingTrial:
    """The answer with some settings and, if asked for, the best plan there; or the first thing wrong with them."""
    try:
        varied = vary_any(case, settings)
        held = serving(with_best_layout(varied) if best else varied)
        return ServingTrial(tuple(settings), predict(held, bands=bands))
    except CostModelError as error:
        return ServingTrial(tuple(settings), fault=error.faults[0])


def without_load(found: ServingAnswer) -> ServingAnswer:
    """The same plan where hardly any request meets another."""
    return answer_of(inputs_of(unloaded(found.inputs.case)), found.plan)


def unloaded(case: ServingCase) -> ServingCase:
    """The same scenario where hardly any request meets another."""
    workload = case.scenario.workload.model_copy(update={"rate": _RARE})
    return replace(case, scenario=case.scenario.model_copy(update={"workload": workload}))
