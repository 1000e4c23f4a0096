"""CSV and Markdown: nothing lost, nothing that a cell holds can break the table."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from rich.text import Text

from costmodel.ground.errors import CostModelError
from costmodel.report.data_formats.json_csv_markdown import csv_text, json_text, jsonl_text, markdown_text
from costmodel.report.terminal.layout import HEAD, CellTable, Reply, styled, unwrapped


def read(rows: list[dict[str, Any]], **more: Any) -> list[dict[str, str]]:
    """The rows as CSV, read again."""
    return list(csv.DictReader(io.StringIO(csv_text(Reply(list, lambda: {"rows": rows, **more}, "rows")))))


def test_plain_values() -> None:
    assert read([{"a": 1, "b": 0.1, "c": True, "d": None, "e": 'x,"y"\nz'}]) == [
        {"a": "1", "b": "0.1", "c": "true", "d": "", "e": 'x,"y"\nz'}
    ]


def test_what_is_nested_is_spread_out() -> None:
    rows = [
        {"name": "a", "inner": {"x": 1, "deep": {"y": False}}, "list": [{"k": 1}, {"k": 2}]},
        {"name": "b", "list": []},
    ]
    assert read(rows) == [
        {"name": "a", "inner.x": "1", "inner.deep.y": "false", "k": "1", "list": ""},
        {"name": "a", "inner.x": "1", "inner.deep.y": "false", "k": "2", "list": ""},
        {"name": "b", "inner.x": "", "inner.deep.y": "", "k": "", "list": ""},
    ]


def test_an_empty_list_is_an_empty_cell() -> None:
    assert read([{"a": 1, "codes": []}]) == [{"a": "1", "codes": ""}]
    assert read([{"a": 1, "codes": []}, {"a": 2, "codes": ["x", "y"]}])[1]["codes"] == "[x, y]"


def test_an_empty_table_still_has_its_names() -> None:
    written = csv_text(Reply(list, lambda: {"plans": [], "columns": [{"name": "a_s"}, {"name": "b"}]}, "plans"))
    assert written == "a_s,b\n"


def test_a_table_further_in() -> None:
    assert csv_text(Reply(list, lambda: {"pareto": {"plans": [{"a": 1}]}}, "pareto.plans")) == "a\n1\n"


def test_an_answer_without_a_table() -> None:
    with pytest.raises(CostModelError) as caught:
        csv_text(Reply(list, dict))
    assert caught.value.faults[0].code == "C007"


cells = some.text(some.characters(exclude_categories=("Cs", "Cc", "Cf", "Zl", "Zp", "Zs")), max_size=9)
hostile = some.text(some.characters() | some.sampled_from('=+-@＝\t\r\n\x00\x1b\x85\u202e\u2066\u2028 |`"'), max_size=9)


@given(some.lists(some.fixed_dictionaries({"a": cells, "b": cells}), min_size=1))
def test_text_survives_csv(rows: list[dict[str, str]]) -> None:
    """But for an apostrophe before what a spreadsheet would work out."""
    assert read(rows) == [{key: f"'{text}" if is_formula(text) else text for key, text in row.items()} for row in rows]


def is_formula(text: str) -> bool:
    """Whether a spreadsheet works a cell out: begun so, and no plain number."""
    plain = re.fullmatch(r"[-+]?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?", text, re.IGNORECASE)
    return text.lstrip()[:1] in tuple("=+-@＝＋－＠") and not plain


def is_harmless(text: str) -> bool:
    """Whether a text holds nothing but letters and ends of lines."""
    return not {unicodedata.category(letter) for letter in text.replace("\n", "")} & {"Cc", "Cf", "Cs", "Zl", "Zp"}


@given(some.lists(some.fixed_dictionaries({"a": hostile, "b": hostile}), min_size=1))
def test_no_form_of_an_answer_carries_what_harms(rows: list[dict[str, str]]) -> None:
    reply, result = Reply(list, lambda: {"rows": rows}, "rows"), json_text({"rows": rows})
    markdown = markdown_text([CellTable(("a",), [(rows[0]["a"],)], "l")])
    assert all(map(is_harmless, (csv_text(reply), jsonl_text(reply), result, markdown)))
    for row in csv.reader(io.StringIO(csv_text(reply))):
        assert len(row) == 2
        assert not any(map(is_formula, row))
    read_again = json.loads(result)["rows"]
    assert read_again == [json.loads(line) for line in jsonl_text(reply).splitlines()]
    assert all(is_harmless(text) for row in read_again for text in row.values())


def test_whole_numbers_have_no_point() -> None:
    rows = [{"a": 8.0, "b": -0.0, "c": 0.5, "d": 1e22, "e": True, "f": 2.0**53}]
    assert csv_text(Reply(list, lambda: {"rows": rows}, "rows")) == "a,b,c,d,e,f\n8,0,0.5,1e+22,true,9007199254740992\n"
    assert '"a": 8,' in json_text({"rows": rows})


@given(some.lists(some.tuples(cells, cells), min_size=1, max_size=5))
def test_a_row_of_markdown_has_as_many_cells_as_names(rows: list[tuple[str, str]]) -> None:
    lines = markdown_text([CellTable(("one", "two"), rows, "lr")]).splitlines()
    assert lines[:2] == ["| one | two |", "| --- | ---: |"]
    assert len(lines) == len(rows) + 2
    for line in lines:
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 3


def test_markdown() -> None:
    items = [
        styled("Head of it", HEAD),
        Text(),
        styled("  a line_with *marks*"),
        CellTable(("", "x"), [("<b>", "1")], "lr", headed=False),
        Text(),
        unwrapped("Next: costmodel search x"),
    ]
    assert markdown_text(items) == (
        "**Head of it**\n\na line\\_with \\*marks\\*\n\n|  | x |\n| --- | ---: |\n| \\<b\\> | 1 |\n\n"
        "```\nNext: costmodel search x\n```\n"
    )
    assert markdown_text([]) == "\n"


def test_markdown_has_no_row_for_a_rule(run: Any) -> None:
    written = run("memory", "serve-llama-3.1-70b", "--format", "markdown").out
    assert "| requested |" in written
    assert not re.search(r"^\| ─", written, re.M)
