"""The facts that one file states, by the scenario keys that they fill, before several files are merged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from costmodel.exchange.foreign_keys import ForeignKeys
from costmodel.exchange.import_result import Imported, Loss, OriginValue, StatedKey
from costmodel.exchange.option_rows import NOTHING
from costmodel.exchange.values import as_text
from costmodel.ground.errors import Fault, Place


@dataclass
class Layer:
    """The facts of one file, with its faults and losses.

    Facts are named by scenario keys, such as plan.zero, or by one of accelerators, nodes, accumulation, steps, shards
    (the ranks that share one copy of the weights), copies (how often a manifest runs the command) and image (its
    container image). weak: defaults that other files override. named: other files that this file names, with the place
    of the name. unless: faults that another file, or --set, removes by stating their key. written: the model, if the
    file contains it. keys: the verdict for every key.
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
    keys: list[StatedKey] = field(default_factory=list)

    def fill(self, path: str, value: OriginValue) -> None:
        """Adds a fact unless its value is None; format defaults are weak, so that other files override them."""
        if value.value is not None and value.value != NOTHING:
            (self.weak if value.origin.kind in ("default", "assumed") else self.facts)[path] = value

    def join(self, other: Layer) -> None:
        """Adds facts from another part of the same file; a contradiction is a fault with both places."""
        for path, value in other.facts.items():
            before = self.facts.setdefault(path, value)
            if before.value != value.value:
                place = value.place
                first = f"{place.file}:{place.line}, by {value.origin.text}" if place is not None else "another place"
                sentence = f"{path} is {as_text(before.value)} here and {as_text(value.value)} in {first}"
                self.faults.append(Fault("X004", sentence, before.place, "keep one of the two"))
        self.weak = {**self.weak, **other.weak}
        for name in ("losses", "warnings", "faults", "unless", "named", "keys"):
            getattr(self, name).extend(getattr(other, name))


# Keys that mean something beside a value of another alone; without that a file states them to no effect.
_BESIDE: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "plan.cp_type": ("plan.cp", lambda value: value > 1),
    "plan.schedule": ("plan.pp", lambda value: value > 1),
    "plan.recompute_method": ("plan.recompute", lambda value: value == "full"),
    "plan.recompute_layers": ("plan.recompute", lambda value: value == "full"),
    "plan.recompute_modules": ("plan.recompute", lambda value: value == "selective"),
}


def layer_of_rows(keys: ForeignKeys, title: str) -> Layer:
    """A layer with the facts of all rows that have an effect by themselves."""
    layer = Layer(title)
    fill_rows(keys, layer)
    return layer


def fill_rows(keys: ForeignKeys, layer: Layer, section: str = "") -> None:
    """Fills the facts of rows that state a key alone, of one section if one is named."""
    rows = [row for row in keys.table.values() if row.is_stated_alone and row.option.startswith(section)]
    rows = [row for row in rows if row.beside is None or _matches(row.beside[1], keys[row.beside[0]].value)]
    for row in (row for row in rows if row.key not in _BESIDE):
        layer.fill(row.key, keys[row.option])
    for row in (row for row in rows if row.key in _BESIDE):
        other, has_effect = _BESIDE[row.key]
        beside = layer.facts.get(other) or layer.weak.get(other)
        if beside is not None and has_effect(beside.value):
            layer.fill(row.key, keys[row.option])


def _matches(wanted: Any, value: Any) -> bool:
    return bool(wanted(value)) if callable(wanted) else bool(value == wanted)


def finished_layer(keys: ForeignKeys, layer: Layer) -> Layer:
    """The layer with the losses, warnings, verdicts and faults of its keys."""
    layer.losses += keys.losses
    layer.warnings += [*keys.warnings, *keys.unknown_keys()]
    layer.keys += keys.verdicts()
    layer.faults += keys.faults
    layer.unless += keys.unless
    return layer
