"""What one file states: facts by the keys of costmodel they fill, before several files become one scenario."""

from __future__ import annotations

from dataclasses import dataclass, field

from costmodel.exchange.imported import Imported, Loss, OriginValue
from costmodel.exchange.values.foreign_keys import ForeignKeys
from costmodel.ground.errors import Fault, Place


@dataclass
class Layer:
    """The facts of one file.

    Keys of facts are paths of keys, such as plan.zero, or one of accelerators, nodes, accumulation, steps and shards,
    the ranks that share one copy of the weights, copies, how often a manifest runs the command, and image, what its
    container is made of.
    weak: defaults that other files override. named: other files that
    this one names, with the place of the name. unless: faults that another file, or --set, takes away where it states
    their key. written: the model, where the file writes it out.
    """

    format: str
    facts: dict[str, OriginValue] = field(default_factory=dict)
    weak: dict[str, OriginValue] = field(default_factory=dict)
    losses: list[Loss] = field(default_factory=list)
    warnings: list[Fault] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    unless: list[tuple[str, Fault]] = field(default_factory=list)
    named: list[tuple[str, Place]] = field(default_factory=list)
    written: Imported | None = None

    def fill(self, path: str, value: OriginValue) -> None:
        """A fact, unless the value is none; a default of the format gives way to what another file states."""
        if value.value is not None:
            (self.weak if value.origin.kind in ("default", "assumed") else self.facts)[path] = value


def layer_of(keys: ForeignKeys, format: str, layer: Layer) -> Layer:
    """A layer with what the keys of its file brought with them."""
    layer.format = format
    layer.losses += keys.losses
    layer.warnings += keys.warnings
    layer.faults += keys.faults
    layer.unless += keys.unless
    return layer
