"""Expressions of whole numbers and lists: what they come to, and what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.exchange.values import evaluate_expression


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[0]*3+[1]*58", [0] * 3 + [1] * 58),
        ("([1]*3+[0]*1)*2", [1, 1, 1, 0, 1, 1, 1, 0]),
        ("2*[7]", [7, 7]),
        ("4", 4),
        (" 2 * 3 + 4 ", 10),
        ("-7 / 2", -3),  # a shell divides towards zero
        ("-7 % 3", -1),
        ("+5", 5),
    ],
)
def test_an_expression_comes_to_its_value(text: str, value: object) -> None:
    assert evaluate_expression(text) == value


@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6), st.sampled_from("+-*"))
def test_numbers_by_name_are_as_python_has_them(left: int, right: int, sign: str) -> None:
    assert evaluate_expression(f"A{sign}B", {"A": left, "B": right}) == eval(f"{left}{sign}({right})")


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')", "open('x')", "[0]*10**9", "[[0]*9999]*9999", "9**9", "1/0", "1 % 0", "A",
        "'a'*3", "1.5", "[0]*[1]", "[0]-[1]", "[0]+1", "-[1]", "True", "x" * 2000, "(" * 900, "1 if 1 else 2",
        "lambda: 1", "", "999999999999999 * 999", "{1}", "[x for x in [1]]",
    ],
)  # fmt: skip
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        evaluate_expression(text)
