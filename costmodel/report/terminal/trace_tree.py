"""The equations behind a result as a tree of lines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.text import Text

from costmodel.documents.reader.sources import Provenance
from costmodel.explore.explain.equation_trees import ExplainedFigure
from costmodel.ground.record import record
from costmodel.ground.units import significant
from costmodel.report.terminal.formatting import TIME_TERMS, figure_text, is_memory
from costmodel.report.terminal.layout import DIM, HEAD, WARN, styled

_KNOWN = "from general knowledge, page not re-read"


class TreeDrawing:
    """A tree as lines; a subtree is drawn once. Bytes are of memory or of traffic, as in the root."""

    def __init__(self, root: ExplainedFigure) -> None:
        self.root, self.held = root, root.unit in ("B", "1") and is_memory(root.name)
        self.told: set[tuple[str, float, str]] = set()

    def lines(self, depth: int, stated: str = "", meaning: str = "") -> Iterator[Text]:
        """The root, then its branches; stated: the root as answers have it."""
        yield from self.top(stated, meaning)
        yield from self.branches(self.root, "", depth)

    def first_level(self, stated: str, meaning: str) -> Iterator[Text]:
        """The root, and for each of its inputs a line with the value and the equation."""
        yield from self.top(stated, meaning, brief=True)
        for position, node in enumerate(self.root.beneath, 1):
            mark = "└── " if position == len(self.root.beneath) else "├── "
            line = Text(f"{mark}{_title(node)}  {self.value(node)}")
            by = "" if node.equation is None or combination_of(node) is not None else f"  {node.equation.name}"
            how = by or "  ".join(["", *self.how(node)[:1]])
            line.append(f"  ← {node.written.place}" if node.written is not None else how, style=DIM)
            yield line
        yield from self._first_equation()

    def _first_equation(self) -> Iterator[Text]:
        """The equation of the largest figure that counts, such as layers, multiply; nothing for other figures."""
        node: ExplainedFigure | None = self.root if self.root.operation == "product" else None
        while node is not None and (node.equation is None or combination_of(node) is not None):
            largest = [each for each in node.beneath if each.written is None and each.unit == self.root.unit]
            node = max(largest, key=lambda each: each.value, default=None)
        if node is not None and node is not self.root and node not in self.root.beneath:
            yield Text(f"  largest part  {self.value(node)}{_label_and_place(node)}")
            yield from (styled(f"    {text}", DIM) for text in self.how(node))

    def top(self, stated: str, meaning: str, *, brief: bool = False) -> Iterator[Text]:
        """The root with its value, meaning and formula; `brief` cuts a long formula."""
        root = self.root
        yield styled(f"{root.name} {stated or self.value(root)}", HEAD)
        if meaning:
            yield styled(f"  {meaning}")
        if root.written is not None:  # a figure that is a line of a document
            yield styled(f"  ← {_value_as_written(root)}", DIM)
        how = self.how(root)
        yield from (styled(f"  {text}", DIM) for text in ([*how[:2], how[-1]] if brief and len(how) > 3 else how))

    def branches(self, node: ExplainedFigure, indent: str, depth: int) -> Iterator[Text]:
        """The inputs of a node, as branches."""
        for position, inner in enumerate(node.beneath, 1):
            ends = position == len(node.beneath)
            yield from self.branch(inner, indent, "└── " if ends else "├── ", "    " if ends else "│   ", depth - 1)

    def branch(self, node: ExplainedFigure, indent: str, mark: str, rest: str, depth: int) -> Iterator[Text]:
        """A node with its formula and inputs; repeated nodes are not expanded again."""
        line = Text(f"{indent}{mark}{_title(node)}  {self.value(node)}{_label_and_place(node)}")
        key = (node.name, node.value, node.equation.name if node.equation else node.operation)
        if node.written is not None:
            line.append(f"  ← {_value_as_written(node)}", style=WARN if node.written.check == "known" else DIM)
        elif key in self.told and node.beneath:
            line.append("  as above", style=DIM)
        else:
            self.told.add(key)
            yield line
            yield from self.below(node, indent + rest, depth)
            return
        yield line

    def below(self, node: ExplainedFigure, indent: str, depth: int) -> Iterator[Text]:
        """The formula of a figure, and its inputs down to a depth."""
        bar = "│  " if node.beneath and depth > 0 else "   "
        yield from (styled(f"{indent}{bar}{text}", DIM) for text in self.how(node))
        if depth > 0:
            yield from self.branches(node, indent, depth)
        elif node.beneath:
            yield styled(f"{indent}… more with --depth", DIM)

    def value(self, node: ExplainedFigure) -> str:
        """A figure in the unit of the other answers; a rate is of tokens where its name states so."""
        if math.isinf(node.value):
            return "∞"
        if node.unit == "1/s" and "token" not in node.name:
            return f"{significant(node.value, 4)} /s"
        return figure_text(node.value, node.unit, 4, held=self.held)

    def title(self, node: ExplainedFigure) -> str:
        """The title of a figure, with the word that `explain` takes for it and its place in the plan."""
        return f"{_title(node)}{_label_and_place(node)}"

    def place(self, node: ExplainedFigure) -> str:
        """The file and line where an input is written, and its source."""
        return _value_as_written(node)

    def how(self, node: ExplainedFigure) -> list[str]:
        """The formula of a figure in one or more lines; for counts, their numbers."""
        joined = combination_of(node)
        if joined is not None:
            names = _part_names(node)
            return [joined.of([f"{name}{self.value(inner)}" for name, inner in zip(names, node.beneath, strict=True)])]
        if node.equation is None:
            return []
        contract = node.equation.contract
        formula = [line for line in contract.formula.splitlines() if line.strip()]
        choices = ", ".join(f"{name} {value}" for name, value in node.choices.items())
        title = contract.title.rstrip(".")
        stated = f"{node.equation.name}: {title}{f' ({choices})' if choices else ''}"
        if formula and " = " not in formula[0]:
            formula = [f"= {formula[0]}", *(f"  {line}" for line in formula[1:])]
        return [stated, *formula, f"source: {contract.source}"]


_COUNTING = {"share": " / "}
_BETWEEN = {"sum": " + ", "difference": " − ", "product": " × ", "quotient": " / "}
_BEFORE = {"maximum": "max", "minimum": "min"}
_TERMS = {key: title for title, key in TIME_TERMS}


@record
class Combination:
    """Text before, between and after the figures of a combination, such as a sum."""

    before: str
    between: str
    after: str = ""

    def of(self, values: Sequence[str]) -> str:
        """The combination of figures in a line."""
        return f"{self.before}{self.between.join(values)}{self.after}"


def combination_of(node: ExplainedFigure) -> Combination | None:
    """How to write a figure that sums or multiplies its inputs; None for an equation."""
    if node.equation is not None:
        return Combination("= ", _COUNTING[node.equation.name]) if node.equation.name in _COUNTING else None
    if not node.operation or node.operation in _BETWEEN:
        return Combination("= ", _BETWEEN[node.operation]) if node.operation else None
    if node.operation.startswith("sum of"):
        return Combination(f"= {node.operation} ", " + ")
    return Combination(f"= {_BEFORE.get(node.operation, node.operation)}(", ", ", ")")


def _part_names(node: ExplainedFigure) -> list[str]:
    """The names before the figures of which the largest or smallest counts, where no two are alike."""
    named = [each.labels[-1] if each.equation is not None and each.labels else _title(each) for each in node.beneath]
    apart = node.operation in _BEFORE and len({*named}) == len(named)
    return [f"{name} " if apart else "" for name in named]


def _title(node: ExplainedFigure) -> str:
    """The title of a figure; terms of the step have their titles from `estimate`."""
    return _TERMS.get(node.quantity, node.name) if node.name == node.quantity else node.name


def _label_and_place(node: ExplainedFigure) -> str:
    """The label that `explain` takes for a figure, and its place in the plan; empty if the title has both."""
    stated = [node.quantity, *node.labels[-2:]] if node.quantity else node.labels[-2:]
    stated = [word for word in stated if word != _title(node)]
    return f" ({', '.join(stated)})" if stated else ""


def _value_as_written(node: ExplainedFigure) -> str:
    """The value of an input as the document states it."""
    assert node.written is not None
    return written_place(node.written)


def written_place(written: Provenance) -> str:
    """The place where an input is written, and its source."""
    words = [str(written.place)]
    if written.source:
        words.append(f"{written.source}: {written.title}" if written.title else written.source)
    if written.check == "known":
        words.append(_KNOWN)
    return " · ".join(words)
