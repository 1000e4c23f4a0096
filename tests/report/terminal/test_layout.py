"""Tables and lines keep within a terminal, and are left as they are where there is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some
from rich.cells import cell_len
from rich.text import Text

from costmodel.report.terminal.layout import DIM, HEAD, NARROWEST, CellTable, laid_out, unwrapped

ROWS = [("a", "1", "22", "some words that go on"), ("bb", "333", "4", "few")]
GRID = CellTable(("name", "figure", "rate", "what it means"), ROWS, "lrrl", drop=("rate", "figure"))


def plain(lines: list[Text]) -> list[str]:
    return [line.plain for line in lines]


def test_without_a_terminal_nothing_is_cut() -> None:
    assert plain(GRID.lines()) == [
        "  name  figure  rate  what it means",
        "  a          1    22  some words that go on",
        "  bb       333     4  few",
    ]


def test_columns_go_in_the_order_stated() -> None:
    rows = [("a", "1", "22", "4"), ("bb", "333", "4", "5")]
    grid = CellTable(("name", "figure", "rate", "sum"), rows, "lrrr", drop=("rate", "figure"))
    heads = [plain(grid.lines(width))[0].split() for width in (80, 25, 24, 19, 18, 3)]
    whole, without = ["name", "figure", "rate", "sum"], ["name", "figure", "sum"]
    assert heads == [whole, whole, without, without, ["name", "sum"], ["name"]]
    assert [grid.names[index] for index in grid.kept(3)] == ["name", "sum"], "in lines of their own"


def test_words_wrap_before_columns_go() -> None:
    assert plain(GRID.lines(45)) == plain(GRID.lines())
    lines = plain(CellTable(GRID.names, [("a", "1", "22", "word " * 20)], "lrrl", drop=GRID.drop).lines(45))
    assert lines[0].split()[:3] == ["name", "figure", "rate"]
    assert max(map(cell_len, lines)) <= 45
    assert "rate" not in plain(GRID.lines(36))[0]


def test_the_last_column_wraps_when_no_other_can_go() -> None:
    grid = CellTable(("name", "title"), [("a", "some words that go on and on"), ("b", "few")], "ll", headed=False)
    assert plain(grid.lines(27)) == ["  a  some words that go on", "     and on", "  b  few"]


def test_an_empty_table() -> None:
    assert plain(CellTable(("a", "b"), [], "ll").lines(80)) == ["  a  b"]
    assert CellTable(("a", "b"), [], "ll", headed=False).lines(80) == []


def test_a_style_holds_for_every_line() -> None:
    assert {line.style for line in CellTable(("a",), [("b",)], "l", style=DIM).lines()} == {DIM}


words = some.text("abc é語·│", max_size=12)


@given(some.lists(words, max_size=30).map(" ".join), some.integers(NARROWEST, 100))
def test_a_line_is_broken_at_words_only(text: str, width: int) -> None:
    parts = plain(list(laid_out([Text(text)], width)))
    assert " ".join(parts).replace("│", " ").split() == text.replace("│", " ").split()
    longest = max((cell_len(word) for word in text.split()), default=0)
    assert all(cell_len(part.rstrip()) <= max(width, longest + 14) for part in parts)


@given(some.lists(some.tuples(words, words), min_size=1, max_size=9), some.integers(NARROWEST, 60))
def test_cells_of_a_table_line_up(rows: list[tuple[str, str]], width: int) -> None:
    lines = plain(CellTable(("a", "b"), rows, "rl", headed=False).lines(width))
    assert len(lines) >= sum(any(cell.strip() for cell in row) for row in rows)
    assert all(line == line.rstrip() for line in lines)


def test_what_follows_is_set_in() -> None:
    lines = plain(list(laid_out([Text("  ✗ L002 one two three four five six seven eight nine ten")], 30)))
    assert len(lines) == 3
    assert all(line.startswith("    ") for line in lines[1:])


def test_the_rails_of_a_tree_go_on() -> None:
    branch = "│   ├── bandwidth  3.350 TB/s of the accelerator and more"
    last = "│   └── bandwidth  3.350 TB/s of the accelerator and more"
    assert plain(list(laid_out([Text(branch)], 40)))[1].startswith("│   │   ")
    assert plain(list(laid_out([Text(last)], 40)))[1].startswith("│       ")


def test_a_command_is_never_broken() -> None:
    line = unwrapped(f"Next: costmodel estimate x {'--set plan.tp=4 ' * 20}")
    assert list(laid_out([line], 40)) == [line]


def test_styles_survive_a_break() -> None:
    text = Text.assemble(("head", HEAD), " " + "word " * 20)
    first, *_ = laid_out([text], 30)
    assert [str(span.style) for span in first.spans] == [HEAD]


@pytest.mark.parametrize("width", [1, 10, NARROWEST])
def test_a_very_narrow_terminal(width: int) -> None:
    assert list(laid_out([Text("word " * 20), GRID], width))


@pytest.mark.parametrize("width", [80, None], ids=["terminal", "pipe"])
def test_nothing_of_a_document_moves_the_cursor(width: int | None) -> None:
    hostile = "a\x1b[31mb\x07\u202e"
    shown = plain(list(laid_out([Text(hostile), unwrapped(hostile), CellTable(("x",), [(hostile,)], "l")], width)))
    assert all(line.isprintable() for line in shown)
