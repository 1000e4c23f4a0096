"""The interface through which questions use any workload: training, serving or reinforcement learning."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

from pydantic import ValidationError

from costmodel.documents.keys.overrides import short
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.schemas.results import ResultColumn, machine_name, without_money
from costmodel.estimate.answer_facts import subject_of
from costmodel.explore.search.required_chance import Safety, safety_of
from costmodel.ground.errors import CostModelError, Fault
from costmodel.ground.record import record

if TYPE_CHECKING:
    from costmodel.documents.schemas.baseline import EquationFingerprint
    from costmodel.documents.schemas.default_values import Assumption
    from costmodel.estimate.answer_facts import Subject
    from costmodel.estimate.shared.reasons import Reason
    from costmodel.explore.compare.compare import Side
    from costmodel.explore.compare.input_paths import Variant
    from costmodel.explore.explain.equation_trees import ExplainedFigure
    from costmodel.explore.search.rank import Watcher


# --- what a question asks of a scenario, whatever its workload


RANKS = "ranks"  # what sizes are of, where no key states them
_NO_RESULTS: Mapping[str, float] = {}


class PlanAnswer(Protocol):
    """One evaluated plan, with codes of the reasons against it."""

    @property
    def costs(self) -> Mapping[str, float]:
        """The results of the plan by name; meaningless if the plan is invalid."""

    @property
    def refused(self) -> tuple[str, ...]:
        """The reason codes why the plan is invalid."""

    @property
    def broken(self) -> tuple[str, ...]:
        """The codes of the limits that a valid plan breaks."""

    @property
    def remarked(self) -> tuple[str, ...]:
        """The codes of the remarks on the plan."""

    @property
    def assumed(self) -> tuple[Assumption, ...]:
        """The values that the user did not state."""


@record
class AnswerSummary:
    """An answer reduced to its results and its plan, for tables of many answers."""

    costs: Mapping[str, float]
    verdict: str  # whether it fits
    words: str  # the plan in a line
    keys: Mapping[str, object]  # of the plan, as plain values
    settings: Mapping[str, str]  # that make it the plan of the scenario
    texts: Mapping[str, str] = field(default_factory=dict)  # results that one number does not state
    beside: str = ""  # what stands behind the codes against it
    asides: Mapping[str, str] = field(default_factory=dict)  # sentences by the result they are about; "" of any


@record
class ChosenFigure:
    """An input that users choose and may vary, and its smallest useful step."""

    path: str
    text: str
    value: float
    step: float
    kind: Literal["workload", "plan"]


@record
class Trial:
    """A scenario with some settings changed, and its answer or the reason why there is none."""

    settings: tuple[str, ...]
    fault: Fault | None = None
    refused: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    remarked: tuple[str, ...] = ()
    kept: AnswerSummary | None = None
    about: Subject | None = None  # what was computed, where it could be
    answer: PlanAnswer | None = None  # all of it, where it is explained later
    values: Mapping[str, float | str | bool | None] = field(default_factory=dict)  # of the keys asked for

    @property
    def costs(self) -> Mapping[str, float]:
        """The results to compare; empty for an invalid plan, and without rents if a limit is broken."""
        if self.kept is None or self.refused:
            return _NO_RESULTS
        return without_money(self.kept.costs) if self.broken else self.kept.costs

    @property
    def works(self) -> bool:
        """Whether the plan is valid and meets all limits."""
        return not (self.fault or self.refused or self.broken)

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the reasons against the trial."""
        return (self.fault.code,) if self.fault is not None else self.refused or self.broken

    @property
    def verdict(self) -> str:
        """ "fits", or the code of what is wrong."""
        return self.codes[0] if self.kept is None or self.refused else self.kept.verdict

    @property
    def written(self) -> tuple[str, ...]:
        """The values that were set, as typed."""
        return tuple(setting.partition("=")[2] for setting in self.settings)

    def result(self, name: str) -> float:
        """A result of a working plan; NaN for other plans."""
        return self.costs.get(name, math.nan) if self.works else math.nan


# By the number of nodes: the price of an accelerator at which it was searched, and the best plan.
KnownPlans = dict[float, tuple[float, Trial]]


@record
class SizedTrial:
    """The trial at one size.

    waves: micro-batches of a replica per pipeline stage. steps: steps over the fewest that reach a loss
    more: data of one workload only
    """

    size: float
    point: Trial
    text: str = ""  # the size as it was written
    assumed: tuple[Assumption, ...] = ()
    waves: float = float("nan")
    steps: float = float("nan")
    more: object = None


@record
class SmallestPlan:
    """The plan on the fewest accelerators, as scenario settings.

    binds: what limits its rate, as text
    """

    settings: tuple[str, ...]
    gpus: float
    chance: float
    binds: str = ""


@record
class MissedLimit:
    """An upper limit, and the result of the nearest fitting plan.

    gpus: of that plan; NaN for a service. likely: the P90 of the result
    """

    column: str
    limit: float
    value: float
    gpus: float = math.nan
    likely: float = math.nan


@record
class SmallestPlans:
    """The plans on the fewest accelerators that meet every limit.

    expected: by expected figures. safe: with the required chance. surest: the highest chance of any number of
    accelerators. codes: reasons against the nearest plan if none meets the limits. missed: limits that the nearest
    fitting plan misses. count: the number of layouts or job sizes that were evaluated. below: the time of a job on the
    next smaller number of nodes that has a plan
    """

    expected: SmallestPlan | None = None
    safe: SmallestPlan | None = None
    surest: float = math.nan
    codes: tuple[str, ...] = ()
    fault: Fault | None = None
    missed: tuple[MissedLimit, ...] = ()
    count: int = 0
    below: MissedLimit | None = None

    def with_settings(self, settings: tuple[str, ...]) -> SmallestPlans:
        """A copy with these settings put before those of each plan."""
        expected, safe = (
            None if plan is None else replace(plan, settings=(*settings, *plan.settings))
            for plan in (self.expected, self.safe)
        )
        return replace(self, expected=expected, safe=safe)


@record
class RequestTokens:
    """The average tokens of one request: computed in its prompt, taken from the cache, and generated."""

    prompt: float
    cached: float
    output: float


class Scaling(Protocol):
    """How a scenario is made larger: the sizes, and the results to show for them."""

    @property
    def asked(self) -> Workload:
        """The scenario that has these sizes."""

    @property
    def name(self) -> str:
        """What a size counts: accelerators, or a scenario key."""

    @property
    def varied(self) -> Sequence[str]:
        """The keys that differ from size to size."""

    @property
    def words(self) -> str:
        """A description of what grows and what stays the same."""

    @property
    def shown_results(self) -> tuple[str, ...]:
        """The results in a table of sizes."""

    @property
    def drawn_result(self) -> str:
        """The result to draw over the sizes."""

    @property
    def throughput_result(self) -> str:
        """The result that states the throughput."""

    @property
    def time_result(self) -> str:
        """The time result whose terms are shown as shares; empty if none is shown."""

    @property
    def terms(self) -> Sequence[str]:
        """The terms of that time."""

    @property
    def count(self) -> int:
        """The number of sizes to evaluate."""

    def throughput_per_accelerator(self, costs: Mapping[str, float], size: float) -> float:
        """The throughput per accelerator; NaN if it is not comparable."""

    def rows(self, pace: Watcher) -> Iterator[SizedTrial]:
        """Evaluates one size after the other until the user stops."""

    def further_results(self, rows: Sequence[SizedTrial]) -> object:
        """Further results over all sizes that only one workload has."""


class Workload(ABC):
    """A scenario with the equations of its workload.

    columns: the results that an answer may have. shown: the default results in a table of answers. watched: results
    that may not become worse than in a baseline. chance: the result that is the chance of a plan to work
    """

    case: LoadedScenario
    columns: ClassVar[Mapping[str, ResultColumn]]
    shown_results: ClassVar[tuple[str, ...]]
    watched_results: ClassVar[tuple[str, ...]]
    chance: ClassVar[str]

    @property
    @abstractmethod
    def usual_result(self) -> str:
        """The default result of questions."""

    @property
    def chance_event(self) -> str:
        """What this chance is for, as text."""
        return "to fit"

    @property
    def within_limits(self) -> Collection[str]:
        """Results that are computed within the limits, and with their chance if limits include one."""
        return ()

    @property
    def trains_few_parameters(self) -> bool:
        """Whether most parameters are frozen, so that far fewer GPUs fit than a full training needs."""
        return False

    @property
    @abstractmethod
    def reasons(self) -> Mapping[str, Reason]:
        """The possible reasons against a plan, by code."""

    @property
    def facts(self) -> Subject:
        """A summary of the scenario: model, machine, software and price."""
        return subject_of(self.case)

    @abstractmethod
    def for_case(self, case: LoadedScenario) -> Workload:
        """The same workload for another scenario; may share what both have in common."""

    @abstractmethod
    def with_plan(self) -> Workload:
        """The workload with its own plan, or else the best plan of a search if one exists."""

    @abstractmethod
    def by_search(self, paths: Sequence[str], *, best: bool, alone: bool = False) -> bool:
        """Whether each variant along these paths has the best plan of its own search.

        alone: flags are given without a scenario

        Raises:
            CostModelError: a search cannot vary a path
        """

    def fixed_plan_keys(self, varied: Sequence[str]) -> tuple[Mapping[str, object], tuple[str, ...]]:
        """The plan keys that --set fixes in a search, and those that it cannot fix."""
        return {}, ()

    @abstractmethod
    def answer(self, results: Collection[str] = (), *, best: bool = False) -> PlanAnswer:
        """The answer for its plan, or for its best one.

        results: the results that are needed; others may be left out

        Raises:
            CostModelError: the scenario has no plan, or is not modelled
        """

    def results_of(self, variants: Sequence[Variant], result: str) -> Iterator[float | None]:
        """A result of the plan in each variant, evaluated together where possible; None without an answer."""
        return (self._result_in(variant, result) for variant in variants)

    def _result_in(self, variant: Variant, result: str) -> float | None:
        """A result of the plan in one variant; None without an answer."""
        try:
            return float(self.for_case(variant.case).answer([result]).costs[result])
        except (ValidationError, CostModelError):
            return None

    def _fill_results(
        self, variants: Sequence[Variant], result: str, rows: Sequence[float | None]
    ) -> Iterator[float | None]:
        """A result in each variant: from `rows`, or else from a separate evaluation."""
        for variant, found in zip(variants, rows, strict=True):
            yield self._result_in(variant, result) if found is None else found

    @abstractmethod
    def summary(self, answer: PlanAnswer) -> AnswerSummary:
        """The answer reduced to what tables need."""

    @abstractmethod
    def failure_kind(self, code: str) -> Literal["fits", "valid", "load"] | None:
        """The kind of failure that a code means: does not fit, invalid, or endless queues; None for a limit."""

    def figures(self, answer: PlanAnswer) -> dict[str, float]:
        """Every known figure by its name with unit, as a baseline stores it."""
        found = ((name, value) for name, value in answer.costs.items() if not name.endswith(("_low", "_high")))
        return {machine_name(name): value for name, value in found if math.isfinite(value)}

    @abstractmethod
    def plan_entry(self, answer: PlanAnswer) -> Mapping[str, str | float | bool]:
        """The plan as a baseline stores it."""

    def equation_fingerprints(self, answer: PlanAnswer) -> Mapping[str, EquationFingerprint]:
        """Fingerprints of the equations behind an answer; empty if baselines of this workload store none."""
        return {}

    def called_equations(self, answer: PlanAnswer) -> Mapping[str, set[str]]:
        """For each equation, the equations that it calls itself."""
        return {}

    @abstractmethod
    def side(self, name: str, rank: int | None, *, changed: bool) -> Side:
        """One side of a comparison: the plan, an unchanged stored result, or the plan at a rank of a search.

        rank: counted from 1; 0 is the scenario's own plan
        """

    def varied_key(self, path: str) -> str:
        """The key that is varied if the user names this one without values."""
        return path

    def values_to_try(self, path: str) -> str:
        """Default values to try for a key; empty if values around the current one are good."""
        return ""

    def safety(self, path: str) -> Safety:
        """The required chance of answers when this key is varied."""
        return safety_of(self.case, path)

    @abstractmethod
    def scaling(self, ranks: str, rate: str, *, weak: bool, best: bool) -> Scaling:
        """How the scenario is made larger: by numbers of accelerators or by request rates.

        Raises:
            CostModelError: the sizes are missing, or this workload does not scale that way
        """

    def as_whole_job(self) -> Workload:
        """The whole job that money is spent on, with default assumptions."""
        return self

    @abstractmethod
    def smallest_plans(
        self, safe: float, most: float, *, full: bool = False, known: KnownPlans | None = None
    ) -> SmallestPlans:
        """The plans on the fewest accelerators, at most `most`, that meet every limit.

        safe: the chance that one of them should have. full: whether a job that no time bounds takes as many as it may
        known: plans of a search on the same machine at another price, to which new ones are added
        """

    @property
    def tokens(self) -> float | None:
        """The tokens to train on, if stated; None for other jobs."""
        return None

    @property
    def engine_share(self) -> float | None:
        """The share of a GPU's memory that an engine takes; None for jobs that take whole GPUs."""
        return None

    @property
    def request_tokens(self) -> RequestTokens | None:
        """The tokens of a request to a service; None for other jobs."""
        return None

    @property
    def measured_runs(self) -> float:
        """The number of published runs on its accelerator."""
        held = self.case.accelerator.held_against
        return 0.0 if held is None else float(held.runs)

    @property
    def smaller_type(self) -> str:
        """A number type smaller than the default, if the default is used; else empty."""
        return ""

    @property
    def quantities(self) -> Mapping[str, str]:
        """The figures of a plan that can be explained, with their meanings."""
        return {name: column.meaning for name, column in self.columns.items()}

    @property
    def labels(self) -> Mapping[str, tuple[str, ...]]:
        """The figures that each printed label stands for, if it is not the figure's name."""
        return {}

    @abstractmethod
    def explain(self, answer: PlanAnswer, *quantities: str) -> list[ExplainedFigure]:
        """The equation trees of figures of an answer."""

    def explain_prices(self, answers: Sequence[PlanAnswer], *names: str) -> list[list[ExplainedFigure]]:
        """The equation trees of one plan at the price of each answer."""
        return [self.explain(answer, *names) for answer in answers]

    def explain_light(self, answer: PlanAnswer, *names: str) -> list[ExplainedFigure]:
        """The equation trees of the chance and of ends of bands, without steps that need further evaluations."""
        return self.explain(answer, *names)

    @abstractmethod
    def neighbours(self, answer: PlanAnswer) -> Iterator[tuple[str, Mapping[str, object]]]:
        """Changes of its plan in one choice: the question that each answers, and the changed keys."""

    @abstractmethod
    def missing_input(self, result: str) -> str:
        """The input to state so that a result becomes known; empty if none would help."""

    def choices(self) -> tuple[ChosenFigure, ...]:
        """Inputs that users choose and may vary, besides hardware and assumptions."""
        return ()


# --- one input of an answer, turned down and up


TENTH = 0.10


@record
class Knob:
    """An input turned down and up by its spread, and the relative changes of the result."""

    path: str
    text: str
    kind: Literal["hardware", "assumption", "fitted", "workload", "plan"]
    spread: float
    low: float
    high: float
    turned: tuple[str, str] = ("", "")  # down and up, as they would be written

    @property
    def swing(self) -> float:
        """The whole range of the change of the result."""
        return max(self.low, self.high, 0.0) - min(self.low, self.high, 0.0)

    @property
    def settable(self) -> str:
        """The path for --set; for a fitted constant, its name in the fit."""
        return f"fit.{self.path.partition('.efficiency.')[2]}" if self.kind == "fitted" else short(self.path)


def scaled_text(text: str, factor: float) -> str:
    """A quantity as text, multiplied by a factor: "3.35 TB/s" and 0.9 give "3.015 TB/s"."""
    number, unit = re.fullmatch(r"([\d.,eE+-]*)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    return f"{float(number.replace(',', '')) * factor:.12g}{unit}" if number else ""
