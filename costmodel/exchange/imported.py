"""What came of reading a foreign text: the document, the origin of every value, and what was lost on the way."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal, NamedTuple

from costmodel.ground.errors import Fault, Place
from costmodel.ground.record import record

OriginKind = Literal["file", "derived", "default", "class", "assumed"]
LossKind = Literal["ignored", "approximated", "not expressible"]
Verdict = Literal["read", "no effect", "approximated", "not expressible"]
VERDICTS: dict[LossKind, Verdict] = {
    "ignored": "no effect",
    "approximated": "approximated",
    "not expressible": "not expressible",
}


class Origin(NamedTuple):
    """The source of a value in an imported document.

    file: written at `place`. derived: computed from values written there. default: the default of the format. class:
    fixed by the code that the format configures. assumed: an assumption, because nothing states it.
    """

    kind: OriginKind
    text: str
    place: Place | None = None

    def __str__(self) -> str:
        spot = f"{self.place.file}:{self.place.line}" if self.place is not None and self.place.line else ""
        return f"{spot}  {self.text}".strip()


class OriginValue(NamedTuple):
    """A value for a document, with its origin."""

    value: Any
    origin: Origin

    @property
    def place(self) -> Place | None:
        """The place in the file; None where the file does not state it."""
        return self.origin.place

    def derived(self, value: Any, text: str) -> OriginValue:
        """A value computed from this value."""
        return OriginValue(value, Origin("derived", text, self.place))


@record
class Loss:
    """An option of the foreign text that the costmodel document cannot express, or not exactly.

    ignored: no effect on cost. approximated: nearly expressed. not expressible: left out although it has a cost.
    `parameters`: how many more parameters the real model has than the document (negative if fewer).
    """

    kind: LossKind
    sentence: str
    place: Place | None = None
    parameters: float = 0.0


class StatedKey(NamedTuple):
    """A key or option of a foreign text, with its verdict; an unknown key is "not expressible"."""

    name: str
    verdict: Verdict
    place: Place | None = None


@record
class Imported:
    """A document, or a part of one, read from a foreign format.

    Keys and values remember their place in the foreign text, so that faults can show it. facts: values that are no
    document keys, such as accelerators. missing: values that are needed and not stated, each with another way to state
    it; keys that depend on them are left out. keys: every stated key with its verdict.
    """

    format: str
    document: dict[Any, Any]
    origins: dict[str, Origin]
    losses: tuple[Loss, ...] = ()
    warnings: tuple[Fault, ...] = ()
    facts: dict[str, OriginValue] = field(default_factory=dict)
    missing: tuple[Fault, ...] = ()
    keys: tuple[StatedKey, ...] = ()
