"""What a search asks of a workload: its plans in parts of bounded size, and what comes of each part."""

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
    """The plans that a search evaluates, and the options of the search; it is copied to worker processes.

    size: how many are ranked. axes: two results that are traded off. safe: the chance to work that is preferred
    """

    size: int
    axes: Axes | None
    safe: float | None
    most: ClassVar[int | None] = None  # combinations of values

    @property
    def grain(self) -> int:
        """The size of its parts: a search with others does not continue."""
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
        """A plan of which the fields were written as JSON."""

    def facts(self, inputs: Inputs) -> Mapping[str, int | float | str]:
        """The facts of the scenario that a table of every plan contains."""
        return {}

    @abstractmethod
    def columns(self, inputs: Inputs) -> Mapping[str, ResultColumn]:
        """The results in that table."""
