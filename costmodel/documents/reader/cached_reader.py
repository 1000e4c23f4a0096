"""A reader for many scenarios: every named document is read and checked once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from costmodel.documents.reader.accelerator_aliases import accelerator_meant
from costmodel.documents.reader.library import DocumentReader, names
from costmodel.ground.errors import Place


@dataclass
class CachedReader(DocumentReader):
    """A document reader that caches named documents for its lifetime."""

    kept: dict[tuple[str, str], Any] = field(default_factory=dict)
    known: dict[str, frozenset[str]] = field(default_factory=dict)
    spelled: dict[tuple[str, float | None], str] = field(default_factory=dict)  # accelerators by spelling and GB
    launched: dict[tuple[str, ...], str] = field(default_factory=dict)  # cells of launch scripts by what matches them

    def document(self, kind: str, reference: Any, place: Place | None = None) -> Any:
        """A document by name (cached), or the given document if it is written out in place."""
        if not isinstance(reference, str):
            return reference
        if (kind, reference) not in self.kept:
            self.kept[kind, reference] = super().document(kind, reference, place)
        return self.kept[kind, reference]

    def has(self, kind: str, name: str) -> bool:
        """Whether a document of that kind and name can be found."""
        return name in self.names(kind)

    def names(self, kind: str) -> frozenset[str]:
        """The names of all documents of a kind that can be found."""
        if kind not in self.known:
            self.known[kind] = frozenset(names(kind))
        return self.known[kind]


def accelerator_named(spelling: str, memory: float | None = None, shelf: CachedReader | None = None) -> str:
    """The accelerator that a spelling stands for; its memory in GB decides between variants. Empty if none fits."""
    shelf = shelf or CachedReader()

    def capacity(name: str) -> float:
        return float(shelf.document("accelerator", name).memory.capacity)

    if (spelling, memory) not in shelf.spelled:
        shelf.spelled[spelling, memory] = accelerator_meant(spelling, memory, shelf.names("accelerator"), capacity)
    return shelf.spelled[spelling, memory]
