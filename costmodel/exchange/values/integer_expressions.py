"""Whole numbers and lists written as an expression: `[0]*3+[1]*58`, or the inside of `$((…))`.

The text is parsed and its tree is walked; nothing of it runs. What the walk does not know is a ValueError.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

LONGEST = 1_000  # letters
_LARGEST = 10**15
_LONGEST_LIST = 10_000


def _towards_zero(dividend: int, divisor: int) -> int:
    """Integer division rounded towards zero, as in a shell."""
    if divisor == 0:
        raise ValueError("an integer expression divides by 0")
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def _remainder(dividend: int, divisor: int) -> int:
    return dividend - divisor * _towards_zero(dividend, divisor)


_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _towards_zero,
    ast.FloorDiv: _towards_zero,
    ast.Mod: _remainder,
}


def evaluated(text: str, names: Mapping[str, int] | None = None) -> Any:
    """The whole number, or the list of them, that an expression evaluates to; `names` give values of names."""
    if len(text) > LONGEST:
        raise ValueError(f"over {LONGEST:,} letters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        return _evaluate(tree, names or {})
    except (SyntaxError, RecursionError, MemoryError, OverflowError):
        raise ValueError("not an expression of whole numbers and lists") from None


def _evaluate(node: ast.expr, names: Mapping[str, int]) -> Any:
    """The integer or list of integers that a parsed expression stands for."""
    if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) <= _LARGEST:
        return node.value
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id]
    if isinstance(node, ast.List):
        return [_as_integer(_evaluate(item, names)) for item in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        number = _as_integer(_evaluate(node.operand, names))
        return -number if isinstance(node.op, ast.USub) else number
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _apply_operator(type(node.op), _evaluate(node.left, names), _evaluate(node.right, names))
    raise ValueError("not an expression of whole numbers and lists")


def _apply_operator(kind: type[ast.operator], left: Any, right: Any) -> Any:
    """The result of an operator on integers, or on lists that are joined or repeated."""
    lists = [side for side in (left, right) if isinstance(side, list)]
    if lists:
        wanted = {1: ast.Mult, 2: ast.Add}[len(lists)]
        factors = [len(side) if isinstance(side, list) else side for side in (left, right)]
        length = factors[0] * factors[1] if wanted is ast.Mult else sum(factors)
        if kind is not wanted or length > _LONGEST_LIST:
            raise ValueError(f"lists are joined and repeated, to at most {_LONGEST_LIST:,} entries")
    found = _OPERATORS[kind](left, right)
    return found if isinstance(found, list) else _as_integer(found)


def _as_integer(value: Any) -> int:
    if not isinstance(value, int) or abs(value) > _LARGEST:
        raise ValueError(f"a number over {_LARGEST:,}, or none")
    return value
