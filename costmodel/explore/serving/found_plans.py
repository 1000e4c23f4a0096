"""What a search of a serving scenario finds: the best plans, and what became of all at each value that varies."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from costmodel.documents.reader.override_case import vary_any
from costmodel.documents.reader.serving_scenario import serving
from costmodel.documents.schemas.results import SERVING_RESULTS, without_money
from costmodel.estimate.machine.price import price_of
from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.estimate.serving.serving_inputs import ServingInputs, inputs_of
from costmodel.explore.search.combinations import OF_A_VALUE, cells_at, count_combinations, values_at
from costmodel.explore.search.progress import Watcher
from costmodel.explore.search.ranges import Axis, at_option
from costmodel.ground.errors import COMMAND_LINE, CostModelError, Fault, Place, fail
from costmodel.ground.record import record

Result = TypeVar("Result")

MOST_SEARCHES, MOST_HELD = 2_000, 32


@record
class RankedPlan:
    """A plan with its results, what it breaks, and what binds its rate."""

    sizes: dict[str, float]
    costs: dict[str, float]
    broken: tuple[str, ...]
    binding: str
    prefill: dict[str, float] | None = None  # its instances for prompts, where these are apart; sizes are of decode
    variant: int = 0

    def without_money(self) -> RankedPlan:
        """The same; of a plan that breaks a limit without its rents, which compare with nothing that answers."""
        if not self.broken:
            return self
        return replace(self, costs=without_money(self.costs))


@dataclass
class VariantPlans:
    """What became of the plans of one scenario: the one as it is written, or with one value of each key that varies."""

    number: int = 0
    candidates: int = 0
    valid: int = 0
    fit: int = 0
    kept: int = 0
    risky: int = 0  # those that keep every limit but that on the chance to do so
    alike: int = 0  # of those that fit, left out for another with less ep and the same figures
    fewest: float = math.inf  # accelerators that the rate needs, of the plans that keep every limit
    refused: Counter[str] = field(default_factory=Counter)
    examples: dict[str, dict[str, float]] = field(default_factory=dict)
    fastest: float = 0.0  # tokens a second of one user that no plan exceeds
    best: RankedPlan | None = None
    fault: Fault | None = None  # why there is no plan to evaluate


@record
class ServingVariants:
    """A serving scenario at every combination of values of some keys; without keys, the scenario itself."""

    inputs: ServingInputs
    over: tuple[Axis, ...] = ()
    made: dict[int, ServingInputs] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __len__(self) -> int:
        return math.prod(len(axis.values) for axis in self.over)

    @property
    def paths(self) -> list[str]:
        """The keys that vary."""
        return [axis.path for axis in self.over]

    def values(self, number: int) -> dict[str, str]:
        """The values of the keys in one variant; the last key changes fastest."""
        return values_at(self.over, number)

    def cells(self, number: int) -> dict[str, int | str]:
        """The same for tables."""
        return cells_at(self.over, number)

    def of(self, number: int) -> ServingInputs:
        """The inputs of one variant, or a fault; the latest ones are cached, because they are used repeatedly."""
        if not self.over:
            return self.inputs
        if number not in self.made:
            settings = [f"{path}={value}" for path, value in self.values(number).items()]
            while len(self.made) >= MOST_HELD:
                self.made.pop(next(iter(self.made)))
            self.made[number] = inputs_of(serving(vary_any(self.inputs.case, settings)))
        return self.made[number]

    def each(self, work: Callable[[int, ServingInputs], Result], watcher: Watcher) -> Iterator[Result | Fault]:
        """The result of some work for every variant, or why there is none.

        Raises:
            CostModelError: a value is wrong, or no variant has a result
        """
        total = count_combinations(self.over, MOST_SEARCHES)
        faults = 0
        for number in watcher.taken(range(total), total):
            try:
                yield work(number, self.of(number))
            except CostModelError as error:
                faults += 1
                if error.faults[0].code not in OF_A_VALUE or faults == total:
                    raise at_option("--over", self.paths, error) from None
                yield error.faults[0]


@record
class SearchRemedy:
    """Settings under which a search finds a plan that keeps every limit, and that plan."""

    settings: tuple[str, ...]
    best: RankedPlan
    plan: tuple[str, ...] = ()  # what makes the scenario's own plan that one, beside the settings


class OverVariants:
    """What a search of several scenarios has in common."""

    variants: ServingVariants
    parts: Sequence[Any]

    @property
    def inputs(self) -> ServingInputs:
        """The scenario as it is written."""
        return self.variants.inputs

    @property
    def stopped(self) -> bool:
        """Whether it ended before the last value."""
        return len(self.parts) < len(self.variants)


@dataclass
class FoundPlans(OverVariants):
    """What a search of a serving scenario found; if stopped, at the values so far.

    remedies: where no plan keeps every limit, at the values of the nearest one; see `with_search_remedies`
    """

    variants: ServingVariants
    parts: list[VariantPlans] = field(default_factory=list)
    elapsed: float = 0.0
    best: list[RankedPlan] = field(default_factory=list)
    yours: ServingAnswer | None = None
    your_rank: int = 0
    remedies: tuple[SearchRemedy, ...] = ()
    alone: RankedPlan | None = None  # nearest to limits that no plan keeps, even of requests one at a time
    fleet: RankedPlan | None = None  # the best plan with as many replicas as the rate needs, where it has others
    smaller: RankedPlan | None = None  # another one that answers the rate with fewer accelerators, on more than these
    safe_cluster: RankedPlan | None = None  # of a remedy, the plan on the smallest cluster with the preferred chance
    expected_cluster: RankedPlan | None = None  # the same by expected figures, where it takes fewer accelerators
    safe: float | None = None  # the chance to meet all limits that the search prefers, and ranks and sizes by
    expected_rates: bool = False  # whether rates are expected ones all the same: plans are safe at their load
    unruled: float | None = None  # the same where its band is that of other accelerators: expected figures rule
    other: RankedPlan | None = None  # the best plan by the other rule, with as many replicas as that needs

    @property
    def works(self) -> bool:
        """Whether a plan keeps every limit; where none is safe, at its expected figures."""
        return self.kept > 0 or (self.safe is not None and self.risky > 0)

    @property
    def is_safe(self) -> bool:
        """Whether the best plan has the chance that the search prefers."""
        return self.safe is None or self.kept > 0

    @property
    def risky(self) -> int:
        """Plans that keep every limit but that on the chance to do so."""
        return sum(part.risky for part in self.parts)

    @property
    def nearest(self) -> int:
        """The variant of the best plan, or the first one that has plans."""
        with_plans = (part.number for part in self.parts if part.fault is None)
        return self.best[0].variant if self.best else next(with_plans, 0)

    @property
    def candidates(self) -> int:
        """Plans in all."""
        return sum(part.candidates for part in self.parts)

    @property
    def valid(self) -> int:
        """Those that make sense."""
        return sum(part.valid for part in self.parts)

    @property
    def fit(self) -> int:
        """Those that fit into memory."""
        return sum(part.fit for part in self.parts)

    @property
    def kept(self) -> int:
        """Those that keep every limit."""
        return sum(part.kept for part in self.parts)

    @property
    def refused(self) -> Counter[str]:
        """How many plans each reason refuses."""
        return sum((part.refused for part in self.parts), Counter())


def varied(inputs: ServingInputs, over: Sequence[Axis]) -> ServingVariants:
    """The scenarios that are searched together; a fault for a key whose values make no one ranking."""
    space = inputs.case.scenario.search
    for axis in over:
        key = axis.path.removeprefix("plan.").replace("stack.budget", "budget")
        if axis.path == "objective":
            sentence, hint = "plans of several objectives make no one ranking", f"--set objective={axis.values[0]}"
        elif axis.path == "plan":
            sentence, hint = "a search takes values of one key of the plan", "for example plan.tp"
        elif key != axis.path and getattr(space, key, None) is not None:
            sentence, hint = f"search.{key} lists values of {axis.path} already", "leave one of the two out"
        else:
            continue
        written = f"--over {axis.path}={','.join(axis.values)}"
        raise fail("C010", sentence, Place(COMMAND_LINE, 0, len("--over ") + 1, "", written, len(axis.path)), hint)
    return ServingVariants(inputs, tuple(over))


def compared(inputs: ServingInputs) -> str:
    """The result that plans are compared by: the objective; of rents at a rate, that of the GPUs which it needs."""
    scenario = inputs.case.scenario
    rented = scenario.objective == "rent_per_month" and scenario.workload.rate is not None
    return "rent_needed" if rented else scenario.objective


def lacks_figure(inputs: ServingInputs, name: str) -> bool:
    """Whether a result rests on a price or a power that is not known."""
    if SERVING_RESULTS[name].unit == "USD":
        return not price_of(inputs.case).known
    return name == "energy_per_token" and math.isnan(float(inputs.power.drawn))


def comparable(name: str, unknown: Iterable[str]) -> None:
    """A fault where plans are compared by a cost or an energy, and no price or power is known of some nodes."""
    nodes = ", ".join(dict.fromkeys(unknown))
    if nodes and SERVING_RESULTS[name].unit == "USD":
        sentence = f"plans are compared by {name}, but no price is known for {nodes}"
        hint = "--price 2.50USD/GPU/h sets one for all; costmodel list nodes shows those with a list price"
        raise fail("C004", sentence, None, hint)
    if nodes:
        sentence = f"plans are compared by {name}, but no power is known for {nodes}"
        hint = "--set 'assume.power=900 W' sets that of an accelerator and its share of the node"
        raise fail("C004", sentence, None, hint)


def reasons(found: FoundPlans | VariantPlans) -> Iterator[tuple[str, int]]:
    """Reasons with how many plans each refuses, the most frequent first."""
    return ((code, count) for code, count in found.refused.most_common() if count)


def share_of(found: FoundPlans | VariantPlans, code: str) -> float:
    """Share of all plans that a reason refuses."""
    return found.refused[code] / found.candidates
