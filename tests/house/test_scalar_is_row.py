"""A scalar call is a row of the array call; results are finite, and monotone where the docstring says so."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from each import each, share_of

from costmodel.documents.reader.sources import argument_meaning
from costmodel.ground.equation import Argument, Equation

from .catalogue import choices, numbers, registered
from .test_docstrings import monotone_names

ROWS = 3
TABLES = 25
RTOL = 1e-12

# A pure number is a count unless its name or the first word of its meaning says otherwise; else the unit decides.
PURE = {
    (0.01, 0.99): {"share", "fraction", "probability", "efficiency", "utilisation", "overlap", "bubble", "mfu", "hfu"},
    (0.001, 0.5): {"residual", "error", "tolerance", "uncertainty"},
    (1.0, 6.0): {"exponent", "sharpness"},
    (0.5, 4.0): {"factor", "ratio", "multiplier", "softness", "slow-down"},
    (1.0, 2.0): {"ends"},
}
UNITS = {
    "B": (1.0, 1e12),
    "B/s": (1e9, 1e15),
    "FLOP": (1.0, 1e18),
    "FLOP/s": (1e9, 1e15),
    "FLOP/B": (1e-2, 1e4),
    "s": (1e-7, 10.0),
    "1/s": (1e-3, 1e10),
    "J/s": (1.0, 1e5),
    "J": (1.0, 1e9),
    "USD": (1e-2, 1e9),
    "USD/s": (1e-6, 1.0),
    "USD/J": (1e-9, 1e-6),
}
DEFAULT = (1e-2, 1e4)
ENDS, MIDDLE = (
    (1.0, 3.0),
    (0.2, 1.0),
)  # seconds of ranks, for equations that hold where no end is shorter
OF_LONGER_ENDS = {"interleaved_time", "pipeline_time"}
COUNT = (1, 10_000)


def drawn_values(argument: Argument, equation: str, generator: np.random.Generator) -> list[list[float]]:
    """Sensible positive values of an argument, a row of which is for one table."""
    if argument.unit == "s" and equation in OF_LONGER_ENDS:
        return _spread(MIDDLE if argument.name.endswith("_middle") else ENDS, generator).tolist()
    if argument.unit == "1":
        words = {*argument.name.split("_"), argument_meaning(argument).split()[0].lower().strip(",;:")}
        for span, hints in PURE.items():
            if words & hints:
                return _spread(span, generator).tolist()
        return np.rint(_spread(COUNT, generator)).tolist()
    return _spread(UNITS.get(argument.unit or "", DEFAULT), generator).tolist()


def _spread(span: tuple[float, float], generator: np.random.Generator) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Values from end to end of a span: half of them even on its logarithm, some even, near the ends or at them."""
    low, high = span
    size = (TABLES, ROWS)
    even, share = generator.uniform(low, high, size), generator.uniform(size=size)
    kind = generator.uniform(size=size)
    values = np.where(kind < 0.5, low * (high / low) ** share, even)
    values = np.where(kind > 0.65, np.minimum(low * (1 + np.floor(3 * share)), high), values)
    return np.clip(np.where(kind > 0.85, np.where(share < 0.5, low, high), values), low, high)


def _array(values: list[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
    array = np.array(values, dtype=np.float64)
    array.flags.writeable = False  # an equation that writes into its argument is caught here
    return array


def check_rows(function: Callable[..., Any], drawn: tuple[list[float], ...], picked: dict[str, Any]) -> None:
    """The table's rows are the scalar calls, all finite."""
    table = np.broadcast_to(function(*map(_array, drawn), **picked), ROWS)
    rows = [function(*row, **picked) for row in zip(*drawn, strict=True)]
    assert all(np.ndim(row) == 0 for row in rows), "a scalar call answers with an array"
    assert np.all(np.isfinite(table)), f"{picked}: not finite: {table}"
    np.testing.assert_allclose(np.array(rows, dtype=np.float64), table, rtol=RTOL, atol=0.0, err_msg=str(picked))


def check_monotone(
    function: Callable[..., Any], drawn: tuple[list[float], ...], picked: dict[str, Any], position: int, direction: str
) -> None:
    """Moving one argument up moves the result the way the tag says, or leaves it."""
    moved: list[Any] = [column[0] for column in drawn]
    moved[position] = _array(sorted(drawn[position]))
    result = np.broadcast_to(function(*moved, **picked), ROWS)
    slack = 1e-9 * np.max(np.abs(result))
    steps = np.diff(result) if direction == "increasing" else -np.diff(result)
    assert np.all(steps >= -slack), f"{picked}: not {direction}: {moved[position]} gives {result}"


@each("equation", registered())
def test_scalar_is_row(equation: Equation) -> None:
    """On a share of the tables of each equation, unless --whole asks for all."""
    arguments, combinations = numbers(equation), choices(equation)
    positions = {argument.name: position for position, argument in enumerate(arguments)}
    monotone = [(positions[name], direction) for name, direction in monotone_names(equation.contract.monotone)]

    generator = np.random.default_rng(zlib.crc32(equation.name.encode()))  # an equation sees the same on every machine
    tables = zip(*(drawn_values(argument, equation.name, generator) for argument in arguments), strict=True)
    for drawn in share_of(tables, 4):
        for picked in combinations:
            check_rows(equation.function, drawn, picked)
            for position, direction in monotone:
                check_monotone(equation.function, drawn, picked, position, direction)


def _write_in_place(x: Any) -> Any:
    x *= 2
    return x


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.where(x > 2, x / (x - 3), 1.0),  # divides by zero in the row it does not take
        lambda x: x - np.mean(x),  # looks at the other rows
        lambda x: np.where(x > 2, np.nan, x),
        lambda x: np.atleast_1d(x),
        lambda x: x if x > 2 else 0.0,
        _write_in_place,
    ],
)
def test_a_planted_fault_is_caught(function: Callable[..., Any]) -> None:
    with pytest.raises((AssertionError, ValueError, ZeroDivisionError, RuntimeWarning)):
        check_rows(function, ([1.0, 2.0, 3.0],), {})


def test_a_planted_direction_is_caught() -> None:
    check_monotone(lambda x: 1 / x, ([3.0, 1.0, 2.0],), {}, 0, "decreasing")
    with pytest.raises(AssertionError, match="not increasing"):
        check_monotone(lambda x: 1 / x, ([3.0, 1.0, 2.0],), {}, 0, "increasing")
