"""Why a figure is what it is: the traced tree of one plan."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from costmodel.documents.library import Provenance, provenance
from costmodel.documents.plan import Plan
from costmodel.equation import Equation, Leaf, Origin, Step, Sum, leaf, origin_of, trace
from costmodel.equations.counting import data_parallel_degree
from costmodel.errors import fail
from costmodel.estimate.band import banded
from costmodel.estimate.block import SIZES, Block
from costmodel.estimate.costs import COLUMNS, number
from costmodel.estimate.evaluate import Evaluation, evaluate
from costmodel.estimate.memory.ledger import LINES
from costmodel.estimate.plan import plan_block
from costmodel.estimate.setting import Setting
from costmodel.units import Figure

_SIGNS = {
    "add": "+",
    "subtract": "−",
    "maximum": "the larger of",
    "minimum": "the smaller of",
    "where": "whichever applies of",
}


@dataclass
class Node:
    """One figure of an explanation and what it was made of."""

    name: str
    value: float
    unit: str
    equation: Equation | None = None
    labels: tuple[str, ...] = ()
    choices: dict[str, Any] = field(default_factory=dict)
    operation: str = ""
    written: Provenance | None = None
    beneath: list[Node] = field(default_factory=list)


_Made = dict[tuple[int, str, str], Node]  # by origin, name and unit


def quantities() -> list[str]:
    """Everything a plan's explanation can start from."""
    return [*COLUMNS, *LINES]


def explain(setting: Setting, plan: Plan, quantity: str) -> Node:
    """The tree of one figure of one plan, from the calls that were really made."""
    if quantity not in quantities():
        raise unknown(quantity, quantities())
    with trace():
        evaluation = banded(setting, evaluate(setting, _traced(setting, plan)))
        origin, unit = _origin(evaluation, quantity)
    return _node(setting, quantity, unit, origin, {})


def _traced(setting: Setting, plan: Plan) -> Block:
    """The plan's block with columns that know where they were written, or what they follow from."""
    block, _ = plan_block(setting, plan)
    columns: dict[str, Any] = {
        name: leaf(getattr(block, name), f"plan.{name}", value if isinstance(value, Figure) else None)
        for name in SIZES
        for value in [getattr(plan, name)]
    }
    if plan.dp is None:
        ranks = setting.ranks
        columns["dp"] = np.asanyarray(data_parallel_degree(ranks, columns["tp"], columns["cp"], columns["pp"]))
    return Block(block.structure, **columns)


def _origin(evaluation: Evaluation, quantity: str) -> tuple[Origin, str]:
    if quantity in COLUMNS:
        return origin_of(evaluation.costs.columns[quantity], quantity), COLUMNS[quantity].unit
    peaks = [number(peak) for peak in evaluation.ledger.peaks]
    return origin_of(evaluation.ledger.line(quantity, peaks.index(max(peaks))), quantity), "B"


def _node(setting: Setting, name: str, unit: str, origin: Origin, made: _Made) -> Node:
    """The node of an origin: a tree meets most of them many times."""
    key = (id(origin), name, unit)
    if key not in made:
        made[key] = _fresh(setting, name, unit, origin, made)
    return made[key]


def _fresh(setting: Setting, name: str, unit: str, origin: Origin, made: _Made) -> Node:
    value = number(origin.value)
    if isinstance(origin, Leaf):
        place = origin.figure.place if origin.figure is not None else None
        shown = origin.name if origin.name.startswith("plan.") else name
        return Node(shown, value, unit, written=provenance(setting.case.trees, place) if place else None)
    if isinstance(origin, Sum):
        parts = [part for part in _parts(origin) if origin.operation in _WHOLE or number(part.value) != 0]
        if len(parts) == 1:
            return _node(setting, name, unit, parts[0], made)
        beneath = [_node(setting, _name(part), unit, part, made) for part in parts]
        return Node(name, value, unit, operation=_SIGNS.get(origin.operation, origin.operation), beneath=beneath)
    units = {argument.name: argument.unit or "1" for argument in origin.equation.contract.arguments}
    inner = [
        _node(setting, key, unit if units.get(key) == "u" else units.get(key, "1"), part, made)
        for key, part in origin.inputs.items()
    ]
    return Node(name, value, unit, origin.equation, origin.labels, origin.choices, beneath=inner)


def _name(origin: Origin) -> str:
    """What to call a part that no argument names: its label, else its equation."""
    if isinstance(origin, Leaf):
        return origin.name or "number"
    if origin.labels and (isinstance(origin, Sum) or origin.equation.name in _PLAIN):
        return origin.labels[-1]
    return origin.equation.name if isinstance(origin, Step) else "sum"


_PLAIN = ("repeated", "divided")
_WHOLE = ("where", "minimum")  # of these a part that is nothing matters


def _parts(origin: Sum) -> Iterator[Origin]:
    """What a sum was made of: nested additions opened; of a choice, the values and not the question."""
    parts = origin.parts[1:] if origin.operation == "where" else origin.parts
    if origin.operation == "where":
        chosen = [part for part in parts if number(part.value) == number(origin.value)]
        parts = chosen[:1] or parts
    for part in parts:
        if isinstance(part, Sum) and part.operation == origin.operation == "add":
            yield from _parts(part)
        else:
            yield part


def unknown(word: str, known: list[str]) -> Exception:
    """A fault for a word that cannot be explained, with the nearest that can."""
    close = difflib.get_close_matches(word, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else "costmodel explain alone lists what can be explained"
    return fail("C003", f"'{word}' is not known", None, hint)
