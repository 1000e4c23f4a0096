"""Quantities as people write them, and SI base units as the equations want them.

Inside the code every number is in B, s, FLOP, J, USD or products of them, without prefix;
"3.35 TB/s" becomes 3.35e12 at the door and "3.35 TB/s" again on the way out.
"""

from __future__ import annotations

import math
import re
from typing import Any

from costmodel.errors import Place

Dimension = tuple[tuple[str, int], ...]

_DECIMAL = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_SMALL = {"m": 1e-3, "u": 1e-6, "µ": 1e-6, "n": 1e-9}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_PREFIXES = {"": 1.0, **_DECIMAL, **_SMALL, **_BINARY}
_WORDS = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_COUNT_SUFFIXES = {"": 1.0, **_DECIMAL, "B": 1e9, **_BINARY, **_WORDS}

_SYMBOLS: dict[str, tuple[float, dict[str, int]]] = {
    "B": (1.0, {"B": 1}),
    "b": (0.125, {"B": 1}),
    "FLOP": (1.0, {"FLOP": 1}),
    "OP": (1.0, {"FLOP": 1}),
    "s": (1.0, {"s": 1}),
    "J": (1.0, {"J": 1}),
    "W": (1.0, {"J": 1, "s": -1}),
    "Hz": (1.0, {"s": -1}),
    "g": (1e-3, {"kg": 1}),
    "USD": (1.0, {"USD": 1}),
    "$": (1.0, {"USD": 1}),
    "GPU": (1.0, {}),
    "token": (1.0, {}),
    "tokens": (1.0, {}),
    "request": (1.0, {}),
    "requests": (1.0, {}),
}
_WHOLE = {
    **dict.fromkeys(("sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
    **dict.fromkeys(("week", "weeks"), 604800.0),
}
# What a quantity may be written in, for who wrote something else.
_SPELLINGS = {
    "s": "a time is written in us, ms, s, min, h, days or weeks",
    "USD": "money is written '3 M USD', '$3M', '3 million USD' or '3e6 USD'; no other currency",
    "USD/s": "a price is written '2.50 USD/GPU/h', '$2.50/h' or '60 USD/day'; no other currency",
    "1": "a number may end in k, M, B, T, Ki, Mi, Gi, million, billion, trillion or %",
}
# Durations below a bound are said in a unit of so many seconds.
_SPANS = ((1e-3, "us", 1e-6), (1.0, "ms", 1e-3), (600.0, "s", 1.0), (5400.0, "min", 60.0), (172800.0, "h", 3600.0))
_NUMBER = re.compile(
    r"\s*([-+]?(?:(?:\d{1,3}(?:,\d{3})+|\d[\d_]*)(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)(?![\d,._])\s*(.*?)\s*\Z",
    re.ASCII,
)
_MONEY = re.compile(r"\s*(?:USD|\$)\s*([-+\d.,_eE]+)\s*([^/]*?)\s*(/.*)?\Z")


class UnitError(ValueError):
    """The text is not a quantity of the unit wanted."""


class Figure(float):
    """A number that remembers where it was written."""

    __slots__ = ("place",)
    place: Place | None

    def __new__(cls, value: float, place: Place | None = None) -> Figure:
        """A float with its place beside it."""
        figure = super().__new__(cls, value)
        figure.place = place
        return figure

    def __reduce__(self) -> tuple[Any, ...]:
        return Figure, (float(self), self.place)

    def __deepcopy__(self, memo: dict[int, object]) -> Figure:
        return self

    def __add__(self, other: object) -> Any:
        return Total("add", self, other) if isinstance(other, float | int) else NotImplemented

    def __radd__(self, other: object) -> Any:
        return Total("add", other, self) if isinstance(other, float | int) else NotImplemented

    def __sub__(self, other: object) -> Any:
        return Total("subtract", self, other) if isinstance(other, float | int) else NotImplemented

    def __rsub__(self, other: object) -> Any:
        return Total("subtract", other, self) if isinstance(other, float | int) else NotImplemented


class Total(Figure):
    """A sum or a difference of figures, which remembers them."""

    __slots__ = ("operation", "parts")
    operation: str
    parts: tuple[float, float]

    def __new__(cls, operation: str, first: float, second: float) -> Total:
        """Adds or subtracts."""
        found = float(first) + float(second) if operation == "add" else float(first) - float(second)
        total = float.__new__(cls, found)
        total.place, total.operation, total.parts = None, operation, (first, second)
        return total

    def __reduce__(self) -> tuple[Any, ...]:
        return Total, (self.operation, *self.parts)


def _factor(symbol: str) -> tuple[float, dict[str, int]]:
    if symbol in _WHOLE:
        return _WHOLE[symbol], {"s": 1}
    for length in (0, 1, 2):
        prefix, base = symbol[:length], symbol[length:]
        if prefix in _PREFIXES and base in _SYMBOLS:
            factor, dimension = _SYMBOLS[base]
            return factor * _PREFIXES[prefix], dimension
    raise UnitError(f"unknown unit '{symbol}'")


def parse_unit(text: str) -> tuple[float, Dimension]:
    """The factor to SI base units and the dimension of a unit such as "TB/s" or "USD/GPU/h"."""
    factor = 1.0
    total: dict[str, int] = {}
    for position, part in enumerate(text.split("/")):
        if not part.strip():
            if position == 0 and text.strip() != "/":
                continue  # "8 /s"
            raise UnitError(f"'{text}' is not a unit")
        sign = 1 if position == 0 else -1
        for symbol in part.replace("·", " ").replace("-", " ").split():
            if symbol == "1":
                continue
            size, dimension = _factor(symbol)
            factor *= size**sign
            for base, power in dimension.items():
                total[base] = total.get(base, 0) + sign * power
    return factor, tuple(sorted((base, power) for base, power in total.items() if power))


def parse(text: str, unit: str) -> float:
    """The SI value of a written quantity whose unit must have the dimension of `unit`.

    >>> parse("3.35 TB/s", "B/s")
    3350000000000.0
    >>> parse("16Ki", "1")
    16384.0
    >>> parse("5 %", "1")
    0.05
    >>> parse("$3M", "USD"), parse("30 days", "s")
    (3000000.0, 2592000.0)
    """
    match = _NUMBER.match(_MONEY.sub(r"\1 \2 USD\3", text))
    if match is None:
        raise UnitError(f"'{text}' does not start with a number")
    multiple, symbol = _multiple(match[2], unit)
    value = float(match[1].replace(",", "").replace("_", "")) * multiple
    if unit == "1":
        if symbol == "%":
            return value / 100
        if symbol in _COUNT_SUFFIXES:
            return value * _COUNT_SUFFIXES[symbol]
    if not symbol:
        raise UnitError(f"a quantity carries its unit, e.g. '{example(unit)}'")
    try:
        factor, dimension = parse_unit(symbol)
    except UnitError as error:
        raise UnitError(f"{error}{_taken(unit)}") from None
    if dimension != parse_unit(unit)[1]:
        raise UnitError(f"'{symbol}' is not a unit of {unit}{_taken(unit)}; write e.g. '{example(unit)}'")
    return value * factor


def _multiple(symbol: str, unit: str) -> tuple[float, str]:
    """What a multiple that stands apart before its unit is, and the unit; B is a billion of money and of counts."""
    first, _, rest = symbol.partition(" ")
    billion = first != "B" or unit == "1" or unit.startswith("USD")
    return (_COUNT_SUFFIXES[first], rest.strip()) if rest and first in _COUNT_SUFFIXES and billion else (1.0, symbol)


def _taken(unit: str) -> str:
    return f": {_SPELLINGS[unit]}" if unit in _SPELLINGS else ""


def example(unit: str) -> str:
    """A quantity of that unit as one would write it."""
    samples = {
        "B": "80 GiB",
        "B/s": "3.35 TB/s",
        "FLOP/s": "989 TFLOP/s",
        "FLOP": "4 GFLOP",
        "s": "4.2 us",
        "J/s": "700 W",
        "USD": "3 M USD",
        "USD/s": "2.50 USD/GPU/h",
        "1/s": "1830 MHz",
        "1": "0.81 or 81 %",
    }
    return samples.get(unit, f"1 {unit}")


def counted(value: float, digits: int = 4) -> str:
    """A number that is mostly whole, thousands separated.

    >>> counted(34640.0), counted(21.333333), counted(2e8)
    ('34,640', '21.33', '200,000,000')
    """
    return f"{value:,.0f}" if float(value).is_integer() else significant(value, digits)


def significant(value: float, digits: int = 3) -> str:
    """A number with so many significant digits, thousands separated, never in powers of ten when it can be avoided.

    >>> significant(16.04), significant(1071.3), significant(0.0001234), significant(39.45, 4)
    ('16.0', '1,071', '0.000123', '39.45')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) < 1e-6:
        return f"{value:.{digits - 1}e}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    if len(text.replace(",", "").replace(".", "").replace("-", "").lstrip("0")) > digits and decimals > 0:
        text = f"{value:,.{decimals - 1}f}"
    return text


def _scaled(value: float, unit: str, digits: int) -> str:
    for prefix, factor in (("E", 1e18), ("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= factor:
            return f"{significant(value / factor, digits)} {prefix}{unit}"
    return f"{significant(value, digits)} {unit}"


def show_time(value: float, digits: int = 3) -> str:
    """A duration in the unit one would say it in.

    >>> show_time(17.14), show_time(4.2e-6), show_time(605), show_time(354 * 86400)
    ('17.1 s', '4.20 us', '10.1 min', '354 days')
    """
    for limit, unit, size in _SPANS:
        if abs(value) < limit:
            return f"{significant(value / size, digits)} {unit}" if value else "0 s"
    return f"{significant(value / 86400, digits)} days"


def gib(value: float, digits: int = 3) -> str:
    """Bytes in GiB, the unit nvidia-smi speaks."""
    return significant(value / 2**30, digits)


def show_memory(value: float, digits: int = 3) -> str:
    """Bytes that lie in memory: GiB from a hundredth on, as a ledger's lines stand beside each other.

    >>> show_memory(42.48e9, 4), show_memory(33554432), show_memory(262144), show_memory(8), show_memory(0)
    ('39.56 GiB', '0.0312 GiB', '256 KiB', '8.00 B', '0 GiB')
    """
    for prefix, least in (("Gi", 0.01), ("Mi", 1.0), ("Ki", 1.0)):
        size = value / _BINARY[prefix]
        if abs(size) >= least or not value:
            return f"{significant(size, digits)} {prefix}B"
    return f"{significant(value, digits)} B"


def _dollars(value: float, digits: int) -> str:
    """Cents, or more digits where a dollar is much and fewer where it is nothing."""
    if abs(value) >= 1e4:
        return _scaled(value, "", digits)
    return f"{value:,.2f}" if abs(value) >= 1 or not value else significant(value, digits)


def show(value: float, unit: str, digits: int = 3) -> str:
    """An SI value with a prefix a person reads easily.

    >>> show(3.35e12, "B/s"), show(134217728, "B"), show(0.5, "1"), show(8192, "1"), show(0.0801, "USD")
    ('3.35 TB/s', '134 MB', '0.500', '8,192', '$0.0801')
    """
    value = float(value)
    if unit == "s":
        return show_time(value, digits)
    if unit == "1":
        return f"{value:,.0f}" if value.is_integer() else significant(value, digits)
    if unit == "J/s":
        return _scaled(value, "W", digits)
    if unit == "USD/s":
        return f"{value * 3600:,.2f} USD/h"
    if unit == "USD":
        return f"${_dollars(value, digits)}"
    return _scaled(value, unit, digits)
