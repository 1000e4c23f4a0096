"""Numbers in SI base units that remember their place in a file, and their formatting for people.

Inside the code every number is in B, s, FLOP, J, USD or products of them, without prefix. `parsing` makes 3.35e12 from
"3.35 TB/s", and this module makes "3.35 TB/s" from 3.35e12.
"""

from __future__ import annotations

import math
import operator
from typing import Any

from costmodel.ground.errors import Place

# Durations below a bound are written in a unit of so many seconds.
_SPANS = ((1e-3, "us", 1e-6), (1.0, "ms", 1e-3), (600.0, "s", 1.0), (5400.0, "min", 60.0), (172800.0, "h", 3600.0))
_DAY, _YEAR, _CENTURY = 86400.0, 31_557_600.0, 100 * 31_557_600.0
_UNITS = {**{size: words for _, words, size in _SPANS}, _DAY: "days", _YEAR: "years"}  # of durations, in seconds
_LONG = 1e15  # from here on numbers are in powers of ten
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_HARDLY_ANY, _NEXT_TO_NOTHING = 1e-3, 1e-5  # of a chance, and of a share
ALMOST_ALL = 0.9995  # a share or a probability from which 99.9 % rounds to 100 %
_FINEST = 9  # digits of a percentage that is nearly the whole
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30}


_OPERATIONS = {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv}


class Figure(float):
    """A float that remembers where it was written."""

    __slots__ = ("place",)
    place: Place | None

    def __new__(cls, value: float, place: Place | None = None) -> Figure:
        """A float with a place."""
        figure = super().__new__(cls, value)
        figure.place = place
        return figure

    def __reduce__(self) -> tuple[Any, ...]:
        return Figure, (float(self), self.place)

    def __deepcopy__(self, memo: dict[int, object]) -> Figure:
        return self

    def __add__(self, other: object) -> Any:
        return _total("add", float.__add__(self, other), self, other)  # type: ignore[operator]

    def __radd__(self, other: object) -> Any:
        return _total("add", float.__radd__(self, other), other, self)  # type: ignore[operator]

    def __sub__(self, other: object) -> Any:
        return _total("subtract", float.__sub__(self, other), self, other)  # type: ignore[operator]

    def __rsub__(self, other: object) -> Any:
        return _total("subtract", float.__rsub__(self, other), other, self)  # type: ignore[operator]

    def __mul__(self, other: object) -> Any:
        return _total("multiply", float.__mul__(self, other), self, other)  # type: ignore[operator]

    def __rmul__(self, other: object) -> Any:
        return _total("multiply", float.__rmul__(self, other), other, self)  # type: ignore[operator]

    def __truediv__(self, other: object) -> Any:
        return _total("divide", float.__truediv__(self, other), self, other)  # type: ignore[operator]

    def __rtruediv__(self, other: object) -> Any:
        return _total("divide", float.__rtruediv__(self, other), other, self)  # type: ignore[operator]


class Total(Figure):
    """A float computed from figures, which remembers the operation and its operands."""

    __slots__ = ("operation", "parts")
    operation: str
    parts: tuple[float, float]

    def __new__(cls, operation: str, first: float, second: float) -> Total:
        """Applies an operation, given by NumPy's name, to two operands."""
        total: Total = _total(operation, _OPERATIONS[operation](float(first), float(second)), first, second)
        return total

    def __reduce__(self) -> tuple[Any, ...]:
        return Total, (self.operation, *self.parts)


def _total(operation: str, value: Any, first: Any, second: Any) -> Any:
    """A result as a Total; NotImplemented is passed on, so that the other operand's operation is used."""
    if value is NotImplemented:
        return value
    total = float.__new__(Total, value)
    total.place, total.operation, total.parts = None, operation, (first, second)
    return total


def counted(value: float, digits: int = 4) -> str:
    """A number, usually whole, with thousands separators.

    >>> counted(34640.0), counted(21.333333), counted(2e8)
    ('34,640', '21.33', '200,000,000')
    """
    return f"{value:,.0f}" if float(value).is_integer() else significant(value, digits)


def significant(value: float, digits: int = 3) -> str:
    """A number rounded to significant digits, with thousands separators and without powers of ten if possible.

    >>> significant(16.04), significant(1071.3), significant(0.0001234), significant(39.45, 4), significant(1.657e75)
    ('16.0', '1,071', '0.000123', '39.45', '1.66 × 10⁷⁵')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) < 1e-6:
        return f"{value:.{digits - 1}e}"
    if abs(value) >= _LONG:
        size, power = f"{value:.{digits - 1}e}".split("e+")
        return f"{size} × 10{power.translate(_SUPERSCRIPTS)}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    if len(text.replace(",", "").replace(".", "").replace("-", "").lstrip("0")) > digits and decimals > 0:
        text = f"{value:,.{decimals - 1}f}"
    return text


def percent(value: float, digits: int = 3) -> str:
    """A fraction as a percentage; a fraction below 1 is never rounded up to 100 %.

    >>> percent(0.4), percent(0.99986), percent(1.0), percent(3e-25)
    ('40.0 %', '99.99 %', '100 %', '<0.001 %')
    """
    if 0 < value < _NEXT_TO_NOTHING:
        return "<0.001 %"
    shown = (significant(value * 100, more) for more in range(digits, _FINEST))
    text = next((each for each in shown if value < 1 and not each.startswith("100")), significant(value * 100, digits))
    return f"{text} %"


def chance_words(value: float, decimals: int = 0) -> str:
    """A probability as a percentage: no prediction is certain, and rounding reaches neither 90 % nor 100 %.

    >>> chance_words(0.789), chance_words(0.9997), chance_words(0.997), chance_words(1.0, 1)
    ('79 %', '>99.9 %', '99.7 %', '>99.9 %')
    >>> chance_words(0.8996), chance_words(0.9), chance_words(0.95, 1)
    ('89.96 %', '90 %', '95.0 %')
    >>> chance_words(3e-25), chance_words(0.0)
    ('<0.1 %', '0 %')
    """
    if 0 < value < _HARDLY_ANY:
        return "<0.1 %"
    if value >= ALMOST_ALL:
        return ">99.9 %"
    below = next((bound for bound in (0.9, 1.0) if value < bound), math.inf)
    shown = (f"{value * 100:.{more}f}" for more in range(decimals, _FINEST))
    return f"{next((each for each in shown if float(each) < 100 * below), f'{value * 100:.{decimals}f}')} %"


def _with_prefix(value: float, unit: str, digits: int) -> str:
    for prefix, factor in (("E", 1e18), ("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= factor:
            return f"{significant(value / factor, digits)} {prefix}{unit}"
    return f"{significant(value, digits)} {unit}"


def show_time(value: float, digits: int = 3, *, unit: float | None = None) -> str:
    """A duration in its usual unit, or in one that `time_unit` has for another.

    >>> show_time(17.14), show_time(4.2e-6), show_time(605), show_time(354 * 86400)
    ('17.1 s', '4.20 us', '10.1 min', '354 days')
    >>> show_time(math.inf), show_time(4e9), show_time(4e22)
    ('∞', '127 years', '1.27 × 10¹⁵ years')
    >>> show_time(0.567, unit=1.0), show_time(150.0, unit=60.0), show_time(216000.0, unit=86400.0)
    ('0.567 s', '2.50 min', '2.50 days')
    """
    if math.isinf(value):
        return "∞"
    if not value:
        return "0 s"
    words, size = _usual_unit(value) if unit is None else (_UNITS[unit], unit)
    return f"{significant(value / size, digits)} {words}"


def _usual_unit(value: float) -> tuple[str, float]:
    """The unit of a duration in words, and in seconds."""
    days = ("days", _DAY) if abs(value) < _CENTURY else ("years", _YEAR)
    return next(((words, size) for limit, words, size in _SPANS if abs(value) < limit), days)


def time_unit(value: float) -> float:
    """The unit in which `show_time` shows a duration, in seconds.

    >>> time_unit(17.14), time_unit(0.02), time_unit(605)
    (1.0, 0.001, 60.0)
    """
    return _usual_unit(value)[1]


def gib(value: float, digits: int = 3) -> str:
    """Bytes in GiB, the unit of nvidia-smi."""
    return significant(value / 2**30, digits)


def gib_beside(value: float, whole: float) -> str:
    """Bytes in GiB that a reader can add to or take from `whole`: with no more decimals than `gib` gives that.

    >>> gib_beside(21.6 * 2**30, 101.6 * 2**30), gib_beside(3.06 * 2**30, 76.54 * 2**30), gib_beside(2**20, 2**36)
    ('22', '3.1', '0.000977')
    """
    decimals = min(len(gib(each).partition(".")[2]) for each in (value, whole))
    text = f"{value / 2**30:,.{decimals}f}"
    return text if float(text.replace(",", "")) else gib(value)


def show_memory(value: float, digits: int = 3) -> str:
    """An amount of memory in GiB if it is large enough, so that the lines of a breakdown align.

    >>> show_memory(42.48e9, 4), show_memory(33554432), show_memory(262144), show_memory(8), show_memory(0)
    ('39.56 GiB', '0.0312 GiB', '256 KiB', '8.00 B', '0 GiB')
    """
    for prefix, least in (("Gi", 0.01), ("Mi", 1.0), ("Ki", 1.0)):
        size = value / _BINARY[prefix]
        if abs(size) >= least or not value:
            return f"{significant(size, digits)} {prefix}B"
    return f"{significant(value, digits)} B"


def _dollars(value: float, digits: int) -> str:
    """A format for an amount of money: cents below 100 dollars, more digits for small amounts, none for large ones."""
    if abs(value) >= 1e4:
        return _with_prefix(value, "", digits)
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:,.2f}" if abs(value) >= 1 or not value else significant(value, digits)


def rounded_dollars(value: float) -> str:
    """A predicted amount of money to three digits, as its error band does not support more.

    >>> rounded_dollars(6226.36), rounded_dollars(15.57), rounded_dollars(62263.6)
    ('$6,230', '$15.6', '$62.3 k')
    """
    return f"${value:,.0f}" if not value else f"${_whole_or_scaled(float(f'{value:.3g}'))}"


def _whole_or_scaled(value: float) -> str:
    if abs(value) >= 1e4:
        return _with_prefix(value, "", 3)
    return f"{value:,.0f}" if abs(value) >= 100 else significant(value)


_RATES = {
    "kg/J": ("g/kWh", 3.6e9),
    "USD/J": ("USD/kWh", 3.6e6),
    "1/node/s": ("/1000 node-days", 86.4e6),
    "run/s": ("/day", 86400.0),
}


def show(value: float, unit: str, digits: int = 3) -> str:
    """An SI value in a readable unit with a prefix.

    >>> show(3.35e12, "B/s"), show(134217728, "B"), show(0.5, "1"), show(8192, "1"), show(0.0801, "USD")
    ('3.35 TB/s', '134 MB', '0.500', '8,192', '$0.0801')
    >>> show(1.728e13, "J"), show(3.49, "J"), show(1.847e6, "kg"), show(3.8e-3 / 86400, "1/node/s")
    ('4.80 GWh', '3.49 J', '1,847 t', '3.80 /1000 node-days')
    """
    value = float(value)
    if unit == "s":
        return show_time(value, digits)
    if math.isinf(value):
        return "∞"
    if unit == "1":
        return f"{value:,.0f}" if value.is_integer() else significant(value, digits)
    if unit == "J/s":
        return _with_prefix(value, "W", digits)
    if unit == "J":
        return f"{significant(value, digits)} J" if abs(value) < 3600 else _with_prefix(value / 3600, "Wh", digits)
    if unit == "kg":
        return f"{significant(value / 1e3, digits)} t" if abs(value) >= 1e3 else f"{significant(value, digits)} kg"
    if unit in _RATES:
        written, factor = _RATES[unit]
        return f"{significant(value * factor, digits)} {written}"
    if unit == "USD/s":
        return f"{value * 3600:,.2f} USD/h"
    if unit == "USD":
        return f"${_dollars(value, digits)}"
    return _with_prefix(value, unit, digits)
