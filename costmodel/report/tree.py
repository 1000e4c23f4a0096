"""Explanations as trees of lines, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from rich.text import Text

from costmodel.explore.explain.explain import Node, quantities
from costmodel.explore.explain.pages import Page, all_words
from costmodel.report.theme import DIM, HEAD, WARN, styled
from costmodel.units import show

_KNOWN = "from general knowledge, page not re-read"


def tree(node: Node, depth: int) -> list[Text]:
    """The root with its equation, and what lies beneath it down to a depth."""
    lines = [styled(f"{node.name} {_value(node)}", HEAD)]
    lines += [styled(f"  {text}", DIM) for text in _how(node)]
    seen: dict[tuple[str, float, str], int] = {}
    for position, inner in enumerate(node.beneath):
        lines += _branch(inner, "", position == len(node.beneath) - 1, depth - 1, seen)
    return lines


def _branch(node: Node, indent: str, last: bool, depth: int, seen: dict[tuple[str, float, str], int]) -> Iterator[Text]:
    mark = "└── " if last else "├── "
    rest = indent + ("    " if last else "│   ")
    labels = [label for label in node.labels[-2:] if label != node.name]
    label = f" ({', '.join(labels)})" if labels else ""
    line = Text(f"{indent}{mark}{node.name}  {_value(node)}{label}")
    key = (node.name, node.value, node.equation.name if node.equation else node.operation)
    if node.written is not None:
        line.append(f"  ← {_written(node)}", style=WARN if node.written.check == "known" else DIM)
        yield line
        return
    again = key in seen and bool(node.beneath)
    if again:
        line.append("  as above", style=DIM)
        yield line
        return
    yield line
    seen[key] = 1
    for text in _how(node):
        yield styled(f"{rest}{'│  ' if node.beneath and depth > 0 else '   '}{text}", DIM)
    if depth <= 0:
        if node.beneath:
            yield styled(f"{rest}… --depth goes further", DIM)
        return
    for position, inner in enumerate(node.beneath):
        yield from _branch(inner, rest, position == len(node.beneath) - 1, depth - 1, seen)


def _value(node: Node) -> str:
    return "unknown" if math.isnan(node.value) else show(node.value, node.unit, 4)


def _how(node: Node) -> list[str]:
    """How a figure was made, in a line or two; counting needs no more than its figures."""
    inner = node.beneath
    if node.equation is not None and node.equation.name in _COUNTING:
        return [f"= {_COUNTING[node.equation.name].join(_value(item) for item in inner)}"]
    if node.equation is not None:
        contract = node.equation.contract
        formula = [line for line in contract.formula.splitlines() if line.strip()]
        choices = ", ".join(f"{name} {value}" for name, value in node.choices.items())
        title = contract.title.rstrip(".")
        said = f"{node.equation.name}: {title}{f' ({choices})' if choices else ''}"
        if formula and " = " not in formula[0]:
            formula = [f"= {formula[0]}", *(f"  {line}" for line in formula[1:])]
        return [said, *formula, f"source: {contract.source}"]
    if node.operation in ("+", "−"):
        return [f"= {f' {node.operation} '.join(_value(item) for item in inner)}"]
    return [f"= {node.operation} {', '.join(_value(item) for item in inner)}"] if node.operation else []


_COUNTING = {"repeated": " × ", "divided": " / ", "share": " / "}


def _written(node: Node) -> str:
    written = node.written
    assert written is not None
    words = [str(written.place)]
    if written.source:
        words.append(f"{written.source}: {written.title}" if written.title else written.source)
    if written.check == "known":
        words.append(_KNOWN)
    return " · ".join(words)


def words() -> list[Text]:
    """Everything that can be explained."""
    return [styled(f"quantities: {', '.join(quantities())}"), Text(), styled(f"words: {', '.join(all_words())}")]


def words_json() -> dict[str, Any]:
    """Everything that can be explained, as plain values."""
    return {"schema": "costmodel/words/v1", "quantities": quantities(), "words": all_words()}


def tree_json(node: Node) -> dict[str, Any]:
    """The tree as a document."""
    return {"schema": "costmodel/explanation/v1", **as_json(node)}


def as_json(node: Node) -> dict[str, Any]:
    """The same tree as plain values."""
    result: dict[str, Any] = {
        "name": node.name,
        "value": None if math.isnan(node.value) else node.value,
        "unit": node.unit,
    }
    if node.equation is not None:
        contract = node.equation.contract
        result |= {"equation": node.equation.name, "formula": contract.formula, "source": contract.source}
        result["choices"] = {name: str(value) for name, value in node.choices.items()}
        result["label"] = list(node.labels)
    if node.operation:
        result["operation"] = node.operation
    if node.written is not None:
        written = node.written
        result["written"] = {
            "place": str(written.place),
            "source": written.source,
            "title": written.title,
            "check": written.check,
        }
    if node.beneath:
        result["inputs"] = [as_json(inner) for inner in node.beneath]
    return result


def page(about: Page) -> list[Text]:
    """The page of a word."""
    lines = [Text.assemble((about.word, HEAD), f"  {about.title}"), Text()]
    lines += [styled(f"  {line}") for line in about.text.splitlines() if line.strip()]
    if about.equation is not None:
        contract = about.equation.contract
        lines.append(Text())
        lines += [
            styled(f"  {item.name}: {item.meaning}{f' [{item.unit}]' if item.unit else ''}")
            for item in contract.arguments
        ]
        lines.append(styled(f"  gives {contract.meaning} [{contract.unit}]"))
        if contract.holds:
            lines.append(styled(f"  holds: {contract.holds}"))
        if contract.pitfall:
            lines.append(styled(f"  pitfall: {contract.pitfall}", WARN))
        lines += [Text(), styled(f"  source: {contract.source}", DIM)]
    for formula in about.formulas:
        lines += [Text(), Text.assemble(("  " + formula.name, HEAD), f"  {formula.contract.title}")]
        lines += [styled(f"    {line}") for line in formula.contract.formula.splitlines() if line.strip()]
    if about.formulas:
        lines += [Text(), styled("  sources", DIM)]
    lines += [styled(f"    {key}: {title}", DIM) for key, title in about.sources]
    if about.equation is not None:
        lines.append(styled(f"  in costmodel/{about.equation.room.replace('.', '/')}.py", DIM))
    return lines


def page_json(about: Page) -> dict[str, Any]:
    """The page of a word as plain values."""
    result: dict[str, Any] = {
        "schema": "costmodel/page/v1",
        "word": about.word,
        "title": about.title,
        "text": about.text,
    }
    if about.formulas:
        result["equations"] = {formula.name: formula.contract.formula for formula in about.formulas}
    if about.equation is not None:
        contract = about.equation.contract
        result["arguments"] = [
            {"name": item.name, "meaning": item.meaning, "unit": item.unit} for item in contract.arguments
        ]
        result["source"] = contract.source
        result["pitfall"] = contract.pitfall
    return result
