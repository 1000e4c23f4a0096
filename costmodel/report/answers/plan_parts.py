"""Records for answers about one plan: parts of its time, its memory breakdown, its communication, and its run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from costmodel.equations.network.collectives import bus_bandwidth
from costmodel.estimate.shared.results import number
from costmodel.ground.record import record

if TYPE_CHECKING:
    from rich.text import Text

    from costmodel.estimate.machine.process_groups import Transfer
    from costmodel.report.document import Cell, Section
    from costmodel.report.terminal.layout import Line


@record
class TimePart:
    """A part of a total time: its name, its seconds, and cells with its time and share."""

    words: str
    value: float
    time: Cell
    share: Cell
    band: str = ""


@record
class LedgerLine:
    """A line of a memory breakdown: its name, the bytes of each holder, a note, and its colour."""

    name: str
    held: Sequence[float]
    note: str = ""
    role: str = "buffers"
    words: str = ""  # where they are not its name


@record
class LedgerSum:
    """The sum of a breakdown's first lines; total: the result that equals the sum of the most loaded holder."""

    name: str
    lines: int
    note: str = ""
    total: str = ""


@record
class MemoryLedger:
    """A memory breakdown: the bytes of each holder and the memory that it may use.

    where: what the holders are. holders: names of stages or phases. room: a line on whether the memory suffices, as
    fits states too. band: the range of the sum, in words. beneath: further lines; further: lines that are shown on
    demand. plain: further plain values
    """

    where: str
    holders: Sequence[str]
    lines: Sequence[LedgerLine]
    sums: Sequence[LedgerSum]
    usable: float
    limit: str
    room: Line
    beneath: Sequence[Line] = ()
    further: Sequence[Line] = ()
    plain: Mapping[str, Any] = field(default_factory=dict)
    fits: bool = True
    band: str = ""

    def __post_init__(self) -> None:
        assert all(len(line.held) == len(self.holders) for line in self.lines)

    def of(self, holder: int, lines: int | None = None) -> float:
        """The bytes of a holder (a stage or a phase) in the first `lines` lines, or in all."""
        return sum(line.held[holder] for line in self.lines[:lines])

    @property
    def fullest(self) -> int:
        """The index of the holder (a stage or a phase) with the most memory."""
        return max(range(len(self.holders)), key=self.of)

    def trace(self, holder: int, name: str) -> str:
        """The name of the trace of a holder's line."""
        return f"{self.holders[holder]}.{name}_bytes" if len(self.holders) > 1 else f"{name}_bytes"


@record
class SentMessage:
    """A collective of a plan: when it is sent, over which link, and by which algorithms.

    rate: its bus bandwidth in bytes per second, if it differs from that of its operation. alone: the same outside a
    step
    """

    of: str
    transfer: Transfer
    link: str
    algorithms: Sequence[str] = ()
    rate: float | None = None
    alone: float | None = None

    @property
    def busbw(self) -> float:
        """The bus bandwidth in bytes per second, as nccl-tests counts it."""
        if self.rate is not None:
            return self.rate
        size, ranks, time = (number(each) for each in (self.transfer.message, self.ranks, self.transfer.time))
        return number(bus_bandwidth(size, ranks, time, operation=self.transfer.operation))

    @property
    def ranks(self) -> Any:
        """The number of ranks in the group."""
        return self.transfer.group.ranks


@record
class GroupWait:
    """The time that a process group waits for its collectives, in seconds.

    name: the start of the names of its results. volume: its bytes. sent: its collectives with their places, if they are
    known
    """

    name: str
    exposed: float
    words: str = ""
    volume: float = math.nan
    sent: Sequence[tuple[int, SentMessage]] = ()
    note: str = ""

    @property
    def total(self) -> float:
        """The seconds of all collectives of the group, with those hidden behind compute."""
        return sum(number(each.transfer.total_time) for _, each in self.sent) if self.sent else math.nan


@record
class PlanTraffic:
    """All communication of a plan.

    where: the title of the table. whole: the result that contains the waits, its value and its words. plain: further
    plain values
    """

    where: str
    sent: Sequence[SentMessage]
    groups: Sequence[GroupWait]
    whole: tuple[str, float, str]
    ahead: Sequence[Section] = ()
    beneath: Sequence[Line] = ()
    plain: Mapping[str, Any] = field(default_factory=dict)

    @property
    def longest(self) -> str:
        """The name of the result with the longest exposed time of a group; empty if no group waits."""
        most = max(self.waits, key=lambda group: group.exposed, default=None)
        return f"{most.name}_exposed" if most is not None and most.exposed > 0 else ""

    @property
    def waits(self) -> list[GroupWait]:
        """The groups that send anything or wait."""
        return [group for group in self.groups if group.exposed > 0 or group.volume > 0]


@record
class RunFigure:
    """A result of the run: its words, its column, its text, and its band or the setting that makes it known."""

    words: str
    name: str
    text: str
    band: str


@record
class RunChange:
    """A change that raises the goodput: its words, the goodput, and what to set."""

    words: str
    goodput: float
    settings: Sequence[str]


@record
class PlanRun:
    """A run around the steps of a plan.

    price: lines on the price of its cost. shares: parts of the wall time. steps: the name of the part that is useful
    work. facts: interruptions and their words. largest: the largest of the other parts. plain: the run as plain values
    """

    figures: Sequence[RunFigure]
    shares: Mapping[str, float]
    steps: str
    facts: Sequence[tuple[str, str]]
    price: Sequence[Text] = ()
    helping: Sequence[RunChange] = ()
    largest: str = ""
    plain: Mapping[str, Any] = field(default_factory=dict)
