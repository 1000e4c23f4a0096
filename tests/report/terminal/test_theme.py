"""Bars, columns, and how a fault is drawn."""

from __future__ import annotations

import doctest
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from rich.cells import cell_len

from costmodel.ground.errors import Fault, Place
from costmodel.report.data_formats.answer_fields import without_places
from costmodel.report.data_formats.json_csv_markdown import json_text as text
from costmodel.report.terminal import layout as theme
from costmodel.report.terminal.faults import fault_lines
from costmodel.report.terminal.layout import aligned_columns, bar


@given(share=some.floats(allow_nan=False), width=some.integers(1, 80))
def test_a_bar_never_leaves_its_room(share: float, width: int) -> None:
    drawn = bar(share, width)
    assert len(drawn) <= width
    assert set(drawn) <= set("▏▎▍▌▋▊▉█")


@given(first=some.floats(0, 1), second=some.floats(0, 1))
def test_a_longer_share_is_no_shorter_bar(first: float, second: float) -> None:
    low, high = sorted((first, second))
    assert len(bar(low, 40)) <= len(bar(high, 40))


@pytest.mark.parametrize(("share", "drawn"), [(0, ""), (1, "████"), (2, "████"), (-1, ""), (0.5, "██"), (0.3, "█▎")])
def test_bars(share: float, drawn: str) -> None:
    assert bar(share, 4) == drawn


@given(some.lists(some.tuples(some.text("abc", max_size=9), some.text("123", max_size=9)), min_size=1))
def test_columns_line_up(rows: list[tuple[str, str]]) -> None:
    lines = aligned_columns(rows, right=[False, True])
    assert len(lines) == len(rows)
    assert all(line == line.rstrip() for line in lines)
    ends = {len(line) for line, row in zip(lines, rows, strict=True) if row[1]}
    assert len(ends) <= 1


def test_examples_run() -> None:
    assert doctest.testmod(theme).failed == 0


def drawn(source: str, column: int, width: int) -> tuple[str, str]:
    """The source line of a fault and the line with the caret."""
    place = Place("s.yaml", 7, column, "a.b", source, width)
    lines = [line.plain for line in fault_lines(Fault("D003", "x", place, "y"))]
    assert lines[0] == "error[D003]: x"
    assert lines[1] == "  --> s.yaml:7:%d  (a.b)" % column  # noqa: UP031
    assert lines[-1] == "help: y"
    return lines[3], lines[4]


@pytest.mark.parametrize(
    ("source", "column", "width", "marked"),
    [
        ("  tp: 8", 3, 2, "tp"),
        ("\ttp: 8", 2, 2, "tp"),
        ("a\tb: 8", 3, 1, "b"),
        ("日本: 8", 1, 2, "日本"),
        ("日本: 語", 5, 1, "語"),
        ("é: 8", 4, 1, "8"),
        ("x" * 5000 + " y: 8", 5002, 1, "y"),
        ("tp:", 4, 1, ""),
    ],
)
def test_the_caret_stands_under_the_word(source: str, column: int, width: int, marked: str) -> None:
    line, caret = drawn(source, column, width)
    start = len(caret) - len(caret.lstrip(" |"))
    assert cell_len(line[: line.rindex(marked)] if marked else line) == start
    assert caret.count("^") == max(1, cell_len(marked))
    assert len(line) < 260


@pytest.mark.parametrize("letter", ["\x1b", "\x07", "\r", "\x9b", "\u202e", "\u200b", "\0"])
def test_nothing_of_a_file_moves_the_cursor(letter: str) -> None:
    hostile = f"a{letter}[31mb"
    fault = Fault("D003", hostile, Place(hostile, 1, 1, hostile, hostile, 1), hostile)
    printed = "".join(line.plain for line in fault_lines(fault))
    assert letter not in printed


words = some.text(some.characters(min_codepoint=33, max_codepoint=126) | some.sampled_from("é日😀"), max_size=6)


@settings(max_examples=30)
@given(
    some.recursive(
        some.booleans() | some.integers() | words,
        lambda inner: some.lists(inner, max_size=3) | some.dictionaries(words, inner, max_size=3),
        max_leaves=8,
    )
)
def test_a_tree_survives_json(tree: object) -> None:
    result = {"tree": without_places(tree)}
    assert json.loads(text(result)) == result


def test_json_refuses_what_is_no_number() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        text({"x": float("nan")})
