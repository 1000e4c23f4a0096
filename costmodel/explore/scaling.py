"""What scaling asks of a workload: the sizes, and what becomes of the job at each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from costmodel.documents.schemas.default_values import Assumption
from costmodel.explore.search.progress import Watcher
from costmodel.explore.search.ranges import doubled, values_of
from costmodel.explore.trial import Trial
from costmodel.explore.workload import Workload
from costmodel.ground.errors import Place, fail
from costmodel.ground.parsing import UnitError, parse
from costmodel.ground.record import record

RANKS = "ranks"


@record
class SizedTrial:
    """One size, and what came of it.

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


class Scaling(Protocol):
    """How a scenario is made larger."""

    @property
    def asked(self) -> Workload:
        """The scenario, stated so that it has a size."""

    @property
    def name(self) -> str:
        """What the sizes are of: accelerators, or a key."""

    @property
    def varied(self) -> Sequence[str]:
        """The keys that differ from size to size."""

    @property
    def words(self) -> str:
        """What grows, and what stays."""

    @property
    def shown(self) -> tuple[str, ...]:
        """The results in a table of sizes."""

    @property
    def figure(self) -> str:
        """The result that is drawn over the sizes."""

    @property
    def work(self) -> str:
        """The result that states what gets done in a second."""

    @property
    def time(self) -> str:
        """The time of which terms are shares; empty where none are looked at."""

    @property
    def terms(self) -> Sequence[str]:
        """The parts of that time."""

    @property
    def count(self) -> int:
        """How many sizes there are."""

    def each(self, costs: Mapping[str, float], size: float) -> float:
        """What each accelerator gets done in a second; not a number where that does not compare."""

    def rows(self, pace: Watcher) -> Iterator[SizedTrial]:
        """The sizes one after the other, until the user asks to stop."""

    def more(self, rows: Sequence[SizedTrial]) -> object:
        """What one workload alone has to state of all sizes."""


def ranks_of(text: str) -> list[float]:
    """Numbers of accelerators: 64..4096 doubles; lists and other steps as --over has them."""
    if not text:
        raise fail("C010", "--ranks is missing", None, "--ranks 64..4096")
    place = Place("command line", 0, 9, "", f"--ranks {text}", max(1, len(text)))
    try:
        values = [parse(value, "GPU") for value in values_of(doubled(text), "--ranks", text)]
    except UnitError as error:
        sentence = str(error) if error.exact else f"'{text}' is not numbers of accelerators"
        raise fail("C010", sentence, place, "for example --ranks 64..4096") from None
    if not all(value >= 1 and value.is_integer() for value in values):
        raise fail("C010", f"'{text}' is not numbers of accelerators", place, "for example --ranks 64..4096")
    return sorted(set(values))


def without(kind: str, given: Mapping[str, bool], instead: str) -> None:
    """A fault for options that scale a workload of another kind."""
    names = [name for name, value in given.items() if value]
    if names:
        raise fail("C030", f"scale of {kind} has no {', '.join(names)}", None, instead)
