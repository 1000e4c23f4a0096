"""The interface of a search space: its plans in parts of bounded size, and the result of each part."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from costmodel.documents.schemas.results import ResultColumn
from costmodel.explore.search.rank import Axes, Plan, Tally
from costmodel.explore.search.scenario_variants import Inputs

Piece = TypeVar("Piece")
Row = Mapping[str, Any]  # of a table: a column's name, and its values or the one that all rows have

Keep = Callable[[int, Row], None]  # takes in so many plans, as columns of a table


class Space(ABC, Generic[Inputs, Plan, Piece]):
    """The plans that a search evaluates, and the options of the search; copied to worker processes.

    size: number of ranked plans. axes: two results to trade off. safe: the preferred chance to work
    """

    size: int
    axes: Axes | None
    safe: float | None
    most: ClassVar[int | None] = None  # combinations of values

    @property
    def grain(self) -> int:
        """The size of the parts; a search with another size is not resumed."""
        return 1

    @abstractmethod
    def pieces(self, inputs: Inputs) -> Iterator[tuple[Piece, int]]:
        """Parts of bounded size in a fixed order, each with its work; a million units take a quarter of a second."""

    @abstractmethod
    def empty(self) -> Tally[Plan]:
        """The result of no plans."""

    @abstractmethod
    def searched(self, inputs: Inputs, piece: Piece, keep: Keep | None) -> Tally[Plan]:
        """The result of a part; `keep` receives every valid plan."""

    @abstractmethod
    def read(self, written: dict[str, Any]) -> Plan:
        """A plan from the JSON values of its fields."""

    def facts(self, inputs: Inputs) -> Mapping[str, int | float | str]:
        """Facts of the scenario that a table of all plans contains."""
        return {}

    @abstractmethod
    def columns(self, inputs: Inputs) -> Mapping[str, ResultColumn]:
        """The results in that table."""
