"""What a question asks of a scenario, whatever its workload: training, serving or reinforcement learning."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Literal, Protocol

from costmodel.documents.keys.overrides import short
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.schemas.results import ResultColumn, without_money
from costmodel.ground.errors import Fault, Place, fail
from costmodel.ground.record import record

if TYPE_CHECKING:
    from costmodel.documents.schemas.baseline import EquationFingerprint
    from costmodel.documents.schemas.default_values import Assumption
    from costmodel.estimate.answer_facts import Subject
    from costmodel.estimate.shared.reasons import Reason
    from costmodel.explore.compare.compare import Side
    from costmodel.explore.compare.input_paths import Variant
    from costmodel.explore.explain.explain import ExplainedFigure
    from costmodel.explore.search.rank import Watcher
    from costmodel.explore.search.required_chance import Safety


# --- what a question asks of a scenario, whatever its workload


RANKS = "ranks"  # what sizes are of, where no key states them
_NO_RESULTS: Mapping[str, float] = {}


class PlanAnswer(Protocol):
    """One evaluated plan, with codes of the reasons against it."""

    @property
    def costs(self) -> Mapping[str, float]:
        """The results of the plan; meaningless where it is refused."""

    @property
    def refused(self) -> tuple[str, ...]:
        """The codes of the reasons why the plan is invalid."""

    @property
    def broken(self) -> tuple[str, ...]:
        """The codes of the limits that a valid plan breaks."""

    @property
    def remarked(self) -> tuple[str, ...]:
        """The codes of the remarks on the plan."""

    @property
    def assumed(self) -> tuple[Assumption, ...]:
        """The values that the user did not state."""


def check_exportable(answer: PlanAnswer, file: str) -> None:
    """A fault for a plan that is invalid or does not fit."""
    if answer.refused:
        hint = "costmodel estimate SCENARIO shows what to change"
        raise fail("C004", f"the plan is invalid: {answer.refused[0]}", Place(file), hint)
    if "M001" in answer.broken:
        hint = "costmodel memory SCENARIO shows where the memory goes; costmodel search SCENARIO finds plans that fit,"
        raise fail("C004", "the plan does not fit: M001", Place(file), f"{hint} and --rank 1 exports the best")


@record
class KeptAnswer:
    """An answer reduced to its results and its plan, without the documents; used where there are many."""

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
    """One variant: its settings, and its answer or the reason why there is none."""

    settings: tuple[str, ...]
    fault: Fault | None = None
    refused: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    remarked: tuple[str, ...] = ()
    kept: KeptAnswer | None = None
    about: Subject | None = None  # what was computed, where it could be
    answer: PlanAnswer | None = None  # all of it, where it is explained later
    values: Mapping[str, float | str | bool | None] = field(default_factory=dict)  # of the keys asked for

    @property
    def costs(self) -> Mapping[str, float]:
        """The results to compare; empty for an invalid plan, and without rents for one that breaks a limit."""
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
        """Whether it fits; the code of what is wrong where that is not known."""
        return self.codes[0] if self.kept is None or self.refused else self.kept.verdict

    @property
    def written(self) -> tuple[str, ...]:
        """The values that were set, as they were written."""
        return tuple(setting.partition("=")[2] for setting in self.settings)

    def result(self, name: str) -> float:
        """A result of a plan that works; not a number where it does not."""
        return self.costs.get(name, math.nan) if self.works else math.nan


# By the number of nodes: the price of an accelerator at which it was searched, and the best plan.
KnownPlans = dict[float, tuple[float, Trial]]


@record
class SizedTrial:
    """One size, and the trial at this size.

    waves: micro-batches of a replica for each pipeline stage. steps: steps over the least that a loss takes
    more: what one workload alone has to state of a size
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
    """The plan on the fewest accelerators, by the settings that make a scenario that plan.

    binds: what bounds its rate, in a word
    """

    settings: tuple[str, ...]
    gpus: float
    chance: float
    binds: str = ""


@record
class MissedLimit:
    """A limit at most, and the result of the plan nearest to it that fits.

    gpus: of that plan; not a number of one of a service. likely: the end of the band of the result, P90
    """

    column: str
    limit: float
    value: float
    gpus: float = math.nan
    likely: float = math.nan


@record
class SmallestPlans:
    """The plans on the fewest accelerators that meet every limit.

    expected: by expected figures. safe: with the chance that is asked for. surest: the highest chance that was seen, of
    any number of accelerators. codes: what speaks against the nearest plan where none meets the limits. missed: limits
    of the nearest plan that fits. count: the number of layouts, or of sizes of a job, that were looked at. below: the
    time of a job on the next smaller number of nodes that has a plan
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
        """A copy with settings ahead of those of each plan."""
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
    """How a scenario is made larger."""

    @property
    def asked(self) -> Workload:
        """The scenario, stated so that it has a size."""

    @property
    def name(self) -> str:
        """The quantity that the sizes count: accelerators, or a key."""

    @property
    def varied(self) -> Sequence[str]:
        """The keys that differ from size to size."""

    @property
    def words(self) -> str:
        """A description of what grows and what stays."""

    @property
    def shown(self) -> tuple[str, ...]:
        """The results in a table of sizes."""

    @property
    def figure(self) -> str:
        """The result that is drawn over the sizes."""

    @property
    def work(self) -> str:
        """The result that states the throughput."""

    @property
    def time(self) -> str:
        """The result whose terms are shown as shares; empty where no terms are shown."""

    @property
    def terms(self) -> Sequence[str]:
        """The parts of that time."""

    @property
    def count(self) -> int:
        """The number of sizes that will be evaluated."""

    def each(self, costs: Mapping[str, float], size: float) -> float:
        """The throughput per accelerator; not a number where it does not compare."""

    def rows(self, pace: Watcher) -> Iterator[SizedTrial]:
        """The sizes one after the other, until the user asks to stop."""

    def more(self, rows: Sequence[SizedTrial]) -> object:
        """Further results over all sizes, which only one workload has."""


class Workload(Protocol):
    """A scenario with the equations of its workload."""

    @property
    def case(self) -> LoadedScenario:
        """The scenario with its documents."""

    @property
    def columns(self) -> Mapping[str, ResultColumn]:
        """The results that an answer may have."""

    @property
    def usual(self) -> str:
        """The result that answers look at unless another is asked for."""

    @property
    def shown(self) -> tuple[str, ...]:
        """The results that a table of answers shows unless others are asked for."""

    @property
    def chance(self) -> str:
        """The result that is the chance of a plan to work."""

    @property
    def aim(self) -> str:
        """The event that this chance is for, in words: `to fit`."""

    @property
    def within_limits(self) -> Collection[str]:
        """Results that are counted within the limits, and with their chance where they include one."""

    @property
    def watched(self) -> tuple[str, ...]:
        """Results that may not get worse than in a baseline."""

    @property
    def reasons(self) -> Mapping[str, Reason]:
        """The possible reasons against a plan, by code."""

    @property
    def facts(self) -> Subject:
        """A summary of the scenario: model, machine, software, price."""

    def of(self, case: LoadedScenario) -> Workload:
        """Another scenario of the same workload; what both have in common may be shared."""

    def planned(self) -> Workload:
        """The workload with the best plan of a search, where it has no plan and a search can find one."""

    def by_search(self, paths: Sequence[str], *, best: bool, alone: bool = False) -> bool:
        """Whether each variant along these paths has the best plan of its own: if asked for, or if it states none.

        alone: whether flags are given without a scenario

        Raises:
            CostModelError: a path that no search can take a value of
        """

    def held(self, varied: Sequence[str]) -> tuple[Mapping[str, object], tuple[str, ...]]:
        """Keys of the plan that a search holds because --set gave them, and what it could not hold."""

    def answer(self, results: Collection[str] = (), *, best: bool = False) -> PlanAnswer:
        """The answer about its plan, or about its best one.

        results: those that are looked at, where others may be left out

        Raises:
            CostModelError: the scenario has no plan, or asks for what is not modelled
        """

    def results_of(self, variants: Sequence[Variant], result: str) -> Iterator[float | None]:
        """A result of the plan in each variant, evaluated together where possible; None without an answer."""

    def kept(self, answer: PlanAnswer) -> KeptAnswer:
        """The answer reduced to what tables need."""

    def stops(self, code: str) -> Literal["fits", "valid", "load"] | None:
        """The kind of failure that a code means if it is no limit: does not fit, invalid, or without end."""

    def figures(self, answer: PlanAnswer) -> dict[str, float]:
        """Every known figure, by its name with unit, as a baseline stores it."""

    def plan_entry(self, answer: PlanAnswer) -> Mapping[str, str | float | bool]:
        """The plan as a baseline stores it."""

    def marks(self, answer: PlanAnswer) -> Mapping[str, EquationFingerprint]:
        """Fingerprints of the equations behind an answer; none where a baseline holds none."""

    def called(self, answer: PlanAnswer) -> Mapping[str, set[str]]:
        """The equations that each of these calls itself."""

    def side(self, name: str, rank: int | None, *, changed: bool) -> Side:
        """A side of a comparison: the plan, a stored result if nothing is changed, or the plan at a rank of a search.

        rank: counted from 1; 0 is the scenario's own plan
        """

    def varied_key(self, path: str) -> str:
        """The key that is varied where this one is named without values."""

    def values_of(self, path: str) -> str:
        """Values to try for a key if none are stated; empty where values around the current one will do."""

    def safety(self, path: str) -> Safety:
        """The chance that an answer along a key should have."""

    def scaling(self, ranks: str, rate: str, *, weak: bool, best: bool) -> Scaling:
        """How the scenario is made larger, by numbers of accelerators or by rates of requests.

        Raises:
            CostModelError: sizes of another kind than those of the workload, or none
        """

    def whole(self) -> Workload:
        """The whole job that money is spent on, with its assumptions."""

    def smallest(
        self, safe: float, most: float, *, full: bool = False, known: KnownPlans | None = None
    ) -> SmallestPlans:
        """The plans on the fewest accelerators, at most `most`, that meet every limit.

        safe: the chance that one of them should have. full: whether a job that no time bounds takes as many as it may
        known: plans of a search on the same machine at another price, to which new ones are added
        """

    @property
    def tokens(self) -> float | None:
        """The tokens that it trains on, where the scenario states them; none of other jobs."""

    @property
    def engine_share(self) -> float | None:
        """The share of a GPU's memory that its engine takes; none of jobs that take whole GPUs."""

    @property
    def request_tokens(self) -> RequestTokens | None:
        """Tokens of a request to a service; none of other jobs."""

    @property
    def measured_runs(self) -> float:
        """Published runs on its accelerator that predictions are compared with."""

    @property
    def smaller_type(self) -> str:
        """A number format of fewer bytes than the default, where that is used; else empty."""

    @property
    def quantities(self) -> Mapping[str, str]:
        """The figures of a plan that can be explained, with their meanings."""

    @property
    def labels(self) -> Mapping[str, tuple[str, ...]]:
        """Figures by labels of answers that are not their names."""

    def explain(self, answer: PlanAnswer, *quantities: str) -> list[ExplainedFigure]:
        """The trees of figures, from the calls that one evaluation made."""

    def explain_prices(self, answers: Sequence[PlanAnswer], *names: str) -> list[list[ExplainedFigure]]:
        """The trees of one plan at the price of each answer."""

    def explain_light(self, answer: PlanAnswer, *names: str) -> list[ExplainedFigure]:
        """The trees of the chance and of ends of bands, without steps that take more evaluations."""

    def neighbours(self, answer: PlanAnswer) -> Iterator[tuple[str, Mapping[str, object]]]:
        """Changes of its plan in one choice: the question that each answers, and keys with their values."""

    def missing(self, result: str) -> str:
        """The input to state so that a result becomes known; empty where nothing would help."""

    def choices(self) -> tuple[ChosenFigure, ...]:
        """Inputs that users choose and may vary, besides hardware and assumptions."""


# --- one input of an answer, turned down and up


TENTH = 0.10


@record
class Knob:
    """One input turned down and up by its spread, and the relative changes of the result."""

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
        """The path that --set takes; for a fitted constant, its name in the fit."""
        return f"fit.{self.path.partition('.efficiency.')[2]}" if self.kind == "fitted" else short(self.path)


def scaled(text: str, factor: float) -> str:
    """A figure as text, multiplied by a factor: 3.35 TB/s by 0.9 is 3.015 TB/s."""
    number, unit = re.fullmatch(r"([\d.,eE+-]*)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    return f"{float(number.replace(',', '')) * factor:.12g}{unit}" if number else ""
