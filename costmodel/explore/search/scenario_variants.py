"""The variants of a scenario: one for every combination of values of the varied keys."""

from __future__ import annotations

import functools
import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from functools import partial
from typing import Generic, Protocol, TypeVar

from costmodel.documents.reader.load_scenario import vary_any
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.explore.search.value_ranges import OF_A_VALUE, Axis, at_option, cells_at, count_combinations, values_at
from costmodel.ground.errors import COMMAND_LINE, CostModelError, Fault, Place, fail
from costmodel.ground.record import record

MOST_HELD = 32  # variants
MOST_CHECKED = 256  # before any is searched


class OfScenario(Protocol):
    """The inputs of equations, made from a scenario."""

    @property
    def case(self) -> LoadedScenario:
        """The scenario."""


Inputs = TypeVar("Inputs", bound=OfScenario)


@record
class Variants(Generic[Inputs]):
    """The inputs of a scenario at every combination of varied values; without varied keys, only the scenario itself.

    make: turns a scenario into inputs
    """

    inputs: Inputs
    make: Callable[[LoadedScenario], Inputs]
    over: tuple[Axis, ...] = ()
    made: dict[int, Inputs] = field(default_factory=dict, init=False, repr=False, compare=False)

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
        """The values of one variant for tables: numbers if all values of a key are whole numbers."""
        return cells_at(self.over, number)

    def of(self, number: int) -> Inputs:
        """The inputs of one variant, or a fault; recently used ones are cached."""
        if not self.over:
            return self.inputs
        if number not in self.made:
            while len(self.made) >= MOST_HELD:
                self.made.pop(next(iter(self.made)))
            self.made[number] = self._with(self.values(number))
        return self.made[number]

    def _with(self, values: Mapping[str, str]) -> Inputs:
        return self.make(vary_any(self.inputs.case, [f"{path}={value}" for path, value in values.items()]))

    @functools.cached_property
    def packed(self) -> bytes:
        """All variants as bytes for other processes."""
        return pickle.dumps((self.inputs.case, self.make, self.over))

    def checked(self, most: int | None) -> None:
        """Raises a fault for an invalid value before the search starts, or for more than `most` combinations.

        A value that only lacks a machine or an engine is none: others may have them. Of very many combinations each
        value is looked at alone.
        """
        if most is not None:
            count_combinations(self.over, most)
        tried: Iterable[Callable[[], Inputs]] = (partial(self.of, number) for number in range(len(self)))
        if len(self.over) > 1 and len(self) > MOST_CHECKED:
            tried = (partial(self._with, {axis.path: value}) for axis in self.over for value in axis.values)
        for number, make in enumerate(tried):
            try:
                make()
            except CostModelError as error:
                self.fault(error, number)

    def fault(self, error: CostModelError, number: int) -> Fault:
        """The reason why a combination has no plans; raises the error if its value is invalid or no key varies."""
        if self.over and (error.faults[0].code in OF_A_VALUE or self._contradicts_itself(number)):
            return error.faults[0]
        raise self.at_over(error) from None

    def _contradicts_itself(self, number: int) -> bool:
        """Whether each value of a combination is valid in another one, such as partial rollouts with staleness."""
        own = self.values(number).items()
        return bool(self._valid) and all(any(each[path] == value for each in self._valid) for path, value in own)

    @functools.cached_property
    def _valid(self) -> list[dict[str, str]]:
        """The combinations of several keys that have inputs; none where there are very many."""
        found = []
        for number in range(len(self)) if len(self.over) > 1 and len(self) <= MOST_CHECKED else ():
            try:
                self.of(number)
            except CostModelError:
                continue
            found.append(self.values(number))
        return found

    def possible(self) -> Iterator[Inputs]:
        """The inputs of every variant that is valid."""
        for number in range(len(self)):
            try:
                found = self.of(number)
            except CostModelError:
                continue
            yield found

    def at_over(self, error: CostModelError) -> CostModelError:
        """The fault placed at the option that gave the values."""
        return at_option("--over", self.paths, error)


def fail_if_listed(over: Iterable[Axis], listed: Callable[[str], str]) -> None:
    """Raises a fault for a varied key whose values cannot be ranked together.

    listed: returns the key of the search that lists values of a key; empty if none does
    """
    for axis in over:
        if axis.path == "objective":
            sentence, hint = "plans of several objectives make no one ranking", f"--set objective={axis.values[0]}"
        elif fault := not_to_vary(axis.path, listed):
            sentence, hint = fault
        else:
            continue
        written = f"--over {axis.path}={','.join(axis.values)}"
        place = Place(COMMAND_LINE, 0, len("--over ") + 1, "", written, len(axis.path))
        raise fail("C010", sentence, place, hint)


def not_to_vary(path: str, listed: Callable[[str], str]) -> tuple[str, str] | None:
    """The reason why a search cannot take values of a key, and what to do instead; None where it can."""
    if path == "plan":
        return "a search takes values of one key of the plan", "for example plan.tp"
    if key := listed(path):
        return f"search.{key} lists values of {path} already", "leave one of the two out"
    return None
