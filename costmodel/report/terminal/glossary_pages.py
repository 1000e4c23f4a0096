"""What words and codes mean: the list of all words that `explain` knows, and a page for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from costmodel.documents.reader.sources import argument_meaning
from costmodel.explore.explain.equation_trees import quantities
from costmodel.explore.explain.page_search import AnsweredQuestion
from costmodel.explore.explain.word_explanations import Page, all_words, words_by_kind
from costmodel.report.terminal.layout import (
    DIM,
    HEAD,
    MORE,
    WARN,
    CellTable,
    Detail,
    Line,
    cut_list,
    schema_head,
    short_or_full,
    styled,
)

_WIDE, _EQUATIONS, _NEXT = 35, "equations.", "Next: costmodel explain llama-3-70b-512 step_time"
KeyValues = Sequence[tuple[str, str, str]]  # paths of a scenario with their values, and where these are from


def words_lines() -> list[Line]:
    """Words that `explain` knows, by kind; a short answer has a line for each kind, and one for all equations."""
    groups = words_by_kind()
    brief = {kind: known for kind, known in groups.items() if not kind.startswith(_EQUATIONS)}
    brief["equations"] = [name for kind, known in groups.items() if kind not in brief for name in known]
    lines = [styled(cut_list(f"{kind:<{_WIDE}}", known, ", ")) for kind, known in brief.items()]
    rows = [(kind, ", ".join(known)) for kind, known in groups.items()]
    more = "Inputs of equations, ends of bands, other names of strategies and keys of a scenario have pages too."
    grid = CellTable(("", ""), rows, "kl", headed=False, indent="")
    short = [*lines, Text(), styled("A group by its name: costmodel explain strategies")]
    return [*short_or_full(short, [grid], "every word"), Text(), styled(more), MORE, styled(_NEXT)]


def words_json() -> dict[str, Any]:
    """All words that `explain` knows, as plain values."""
    return {**schema_head("costmodel/words/v1"), "quantities": quantities(), "words": all_words()}


def word_page(about: Page, values: KeyValues = ()) -> list[Line]:
    """The page of a word, with the values that a scenario states for it."""
    stated = [styled(f"  {path} is {value}, from {origin}") for path, value, origin in values]
    return [*_page_lines(about), *([Text(), *stated] if stated else [])]


def _page_lines(about: Page) -> list[Line]:
    """The page of a word as lines."""
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
    return lines if about.asked is None else [*lines, *_question_and_answer(about.asked, apart=bool(about.text))]


def _question_and_answer(asked: AnsweredQuestion, *, apart: bool) -> Iterator[Line]:
    """A question with its answer, after an empty line if `apart`."""
    yield from [Text()] if apart else []
    yield styled(f"  {asked.question}", HEAD)
    for text, is_code in asked.parts():
        ahead = [] if text.startswith("- ") else [Text()]
        words = [styled(f"  {line}", DIM if is_code else "") for line in text.splitlines()]
        shown: list[Line] = [*ahead, *([_markdown_table(text)] if text.startswith("|") else words)]
        yield from [Detail(shown, "an example", spare=1)] if is_code else shown


def _markdown_table(text: str) -> CellTable:
    """A Markdown table, a row a line, whose second line is the alignment: columns that end with a colon are right."""
    names, marks, *rows = ([cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines())
    return CellTable(names, rows, "".join("r" if mark.endswith(":") else "l" for mark in marks))


def page_json(about: Page, values: KeyValues = ()) -> dict[str, Any]:
    """The page of a word as plain values."""
    result: dict[str, Any] = {
        **schema_head("costmodel/page/v1"),
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
    return {**result, "values": [{"path": path, "value": value, "from": origin} for path, value, origin in values]}
