"""Explanations as trees of lines, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from costmodel.documents.reader.answered_questions import AnsweredQuestion
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.reader.sources import Provenance, argument_meaning
from costmodel.documents.schemas.results import is_money
from costmodel.estimate.evaluate.answer_facts import facts_of
from costmodel.explore.explain.explain import ExplainedFigure, quantities
from costmodel.explore.explain.pages import Page, all_words, worth_asking
from costmodel.ground.record import record
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.formatting import TIME_TERMS, figure, is_held, result
from costmodel.report.terminal.style.head import fact_fields, head_of, title
from costmodel.report.terminal.style.layout import CellTable, Line
from costmodel.report.terminal.style.theme import DIM, HEAD, WARN, styled

_KNOWN = "from general knowledge, page not re-read"


def tree(case: ResolvedScenario, node: ExplainedFigure, depth: int) -> list[Text]:
    """What was computed; the root with its equation, and what lies beneath it down to a depth."""
    return [*head_of(case, priced=is_money(node.name)), Text(), *TreeDrawing(node).lines(depth)]


class TreeDrawing:
    """A tree as lines; a subtree is drawn once. Bytes are of memory or of traffic, as in the root."""

    def __init__(self, root: ExplainedFigure) -> None:
        self.root, self.held = root, is_held(root.name)
        self.told: set[tuple[str, float, str]] = set()

    def lines(self, depth: int) -> Iterator[Text]:
        """The root, then its branches."""
        root = self.root
        yield styled(f"{root.name} {self.result()}", HEAD)
        if root.written is not None:  # a figure that is a line of a document
            yield styled(f"  ← {_written(root)}", DIM)
        yield from (styled(f"  {text}", DIM) for text in self.how(root))
        yield from self.branches(root, "", depth)

    def branches(self, node: ExplainedFigure, indent: str, depth: int) -> Iterator[Text]:
        """What lies beneath a node."""
        for position, inner in enumerate(node.beneath, 1):
            ends = position == len(node.beneath)
            yield from self.branch(inner, indent, "└── " if ends else "├── ", "    " if ends else "│   ", depth - 1)

    def branch(self, node: ExplainedFigure, indent: str, mark: str, rest: str, depth: int) -> Iterator[Text]:
        """A node, how it was made and what lies beneath it; but once only."""
        line = Text(f"{indent}{mark}{_title(node)}  {self.value(node)}{_aside(node)}")
        key = (node.name, node.value, node.equation.name if node.equation else node.operation)
        if node.written is not None:
            line.append(f"  ← {_written(node)}", style=WARN if node.written.check == "known" else DIM)
        elif key in self.told and node.beneath:
            line.append("  as above", style=DIM)
        else:
            self.told.add(key)
            yield line
            yield from self.below(node, indent + rest, depth)
            return
        yield line

    def below(self, node: ExplainedFigure, indent: str, depth: int) -> Iterator[Text]:
        """How a figure was made, and its branches as far as they go."""
        bar = "│  " if node.beneath and depth > 0 else "   "
        yield from (styled(f"{indent}{bar}{text}", DIM) for text in self.how(node))
        if depth > 0:
            yield from self.branches(node, indent, depth)
        elif node.beneath:
            yield styled(f"{indent}… --depth goes further", DIM)

    def result(self) -> str:
        """The root as answers have it."""
        return result(self.root.name, self.root.value, self.root.unit, 4)

    def value(self, node: ExplainedFigure) -> str:
        """A figure in the unit of the other answers."""
        return figure(node.value, node.unit, 4, held=self.held)

    def title(self, node: ExplainedFigure) -> str:
        """What a figure is called, with the word by which it can be asked for and where in the plan it is."""
        return f"{_title(node)}{_aside(node)}"

    def place(self, node: ExplainedFigure) -> str:
        """Where a figure is written, and its source."""
        return _written(node)

    def how(self, node: ExplainedFigure) -> list[str]:
        """How a figure was made, in a line or two; counting needs no more than its figures."""
        joined = joining(node)
        if joined is not None:
            return [joined.of([self.value(inner) for inner in node.beneath])]
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
class Joining:
    """What stands before, between and after figures where they are combined, as equations are written."""

    before: str
    between: str
    after: str = ""

    def of(self, values: Sequence[str]) -> str:
        """The combination of figures in a line."""
        return f"{self.before}{self.between.join(values)}{self.after}"


def joining(node: ExplainedFigure) -> Joining | None:
    """How the line of a figure is written that is a combination of those beneath it; None for an equation."""
    if node.equation is not None:
        return Joining("= ", _COUNTING[node.equation.name]) if node.equation.name in _COUNTING else None
    if not node.operation or node.operation in _BETWEEN:
        return Joining("= ", _BETWEEN[node.operation]) if node.operation else None
    if node.operation.startswith("sum of"):
        return Joining(f"= {node.operation} ", " + ")
    return Joining(f"= {_BEFORE.get(node.operation, node.operation)}(", ", ", ")")


def _title(node: ExplainedFigure) -> str:
    """What a figure is called: a term of the step as `estimate` calls it."""
    return _TERMS.get(node.quantity, node.name) if node.name == node.quantity else node.name


def _aside(node: ExplainedFigure) -> str:
    """The word to ask for a figure, and its place in the plan, unless its title states it."""
    stated = [node.quantity, *node.labels[-2:]] if node.quantity else node.labels[-2:]
    stated = [word for word in stated if word != _title(node)]
    return f" ({', '.join(stated)})" if stated else ""


def _written(node: ExplainedFigure) -> str:
    assert node.written is not None
    return written_words(node.written)


def written_words(written: Provenance) -> str:
    """Where a figure is written, and its source."""
    words = [str(written.place)]
    if written.source:
        words.append(f"{written.source}: {written.title}" if written.title else written.source)
    if written.check == "known":
        words.append(_KNOWN)
    return " · ".join(words)


def words() -> list[Line]:
    """What can be explained, by kind."""
    rows = [(kind, ", ".join(known)) for kind, known in worth_asking().items()]
    more = "Inputs of equations, ends of bands, other names of strategies and keys of a scenario have pages too."
    grid = CellTable(("", ""), rows, "kl", headed=False, indent="")
    return [grid, Text(), styled(more), styled("Next: costmodel explain llama-3-70b-512 step_time")]


def words_json() -> dict[str, Any]:
    """Everything that can be explained, as plain values."""
    return {**head("costmodel/words/v1"), "quantities": quantities(), "words": all_words()}


def tree_json(case: ResolvedScenario, node: ExplainedFigure) -> dict[str, Any]:
    """The tree as a document."""
    facts = {"title": title(case), "facts": fact_fields(facts_of(case))}
    return {**head("costmodel/explanation/v1"), **facts, **as_json(node)}


def as_json(node: ExplainedFigure, shown: set[int] | None = None) -> dict[str, Any]:
    """The same tree as plain values; a figure with inputs that stands further up has `shown` instead of them."""
    shown = set() if shown is None else shown
    result: dict[str, Any] = {
        "name": node.name,
        "value": None if math.isnan(node.value) else node.value,
        "unit": node.unit,
    }
    if node.quantity:
        result["quantity"] = node.quantity
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
    if node.beneath and id(node) in shown:
        result["shown"] = True
    elif node.beneath:
        shown.add(id(node))
        result["inputs"] = [as_json(inner, shown) for inner in node.beneath]
    return result


def page(about: Page) -> list[Line]:
    """The page of a word."""
    lines: list[Line] = [Text.assemble((about.word, HEAD), f"  {about.title}"), Text()]
    if about.nearest_to:
        others = f"; also {', '.join(each.word for each in about.others)}" if about.others else ""
        lines.insert(0, styled(f"No page is named '{about.nearest_to}'; this one has most of its words{others}", DIM))
    lines += [styled(f"  {line}") for line in about.text.splitlines() if line.strip()]
    if about.equation is not None:
        contract = about.equation.contract
        lines.append(Text())
        lines += [
            styled(f"  {item.name}: {argument_meaning(item)}{f' [{item.unit}]' if item.unit else ''}")
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
    return lines if about.asked is None else [*lines, *_answered(about.asked, apart=bool(about.text))]


def _answered(asked: AnsweredQuestion, *, apart: bool) -> Iterator[Line]:
    """A question with its answer, apart from what stands above it."""
    yield from [Text()] if apart else []
    yield styled(f"  {asked.question}", HEAD)
    for text, is_code in asked.parts():
        yield from [] if text.startswith("- ") else [Text()]
        if text.startswith("|"):
            yield _table(text)
        else:
            yield from (styled(f"  {line}", DIM if is_code else "") for line in text.splitlines())


def _table(text: str) -> CellTable:
    """A Markdown table, a row a line, whose second line is the alignment: columns that end with a colon are right."""
    names, marks, *rows = ([cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines())
    return CellTable(names, rows, "".join("r" if mark.endswith(":") else "l" for mark in marks))


def page_json(about: Page) -> dict[str, Any]:
    """The page of a word as plain values."""
    result: dict[str, Any] = {
        **head("costmodel/page/v1"),
        "word": about.word,
        "title": about.title,
        "text": about.text,
    }
    if about.nearest_to:
        result |= {"nearest_to": about.nearest_to, "others": [each.word for each in about.others]}
    if about.asked is not None:
        result["question"] = {"question": about.asked.question, "answer": about.asked.text}
    if about.formulas:
        result["equations"] = {formula.name: formula.contract.formula for formula in about.formulas}
    if about.equation is not None:
        contract = about.equation.contract
        result["arguments"] = [
            {"name": item.name, "meaning": argument_meaning(item), "unit": item.unit} for item in contract.arguments
        ]
        result["source"] = contract.source
        result["pitfall"] = contract.pitfall
    return result
