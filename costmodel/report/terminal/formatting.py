"""Words that many answers share: results, shares, bands and lists as text."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from costmodel.documents.schemas.results import COLUMNS, TRAINING_COLUMNS, column_of
from costmodel.ground.parsing import parse
from costmodel.ground.units import chance_words, percent, show, show_memory, show_time, significant, time_unit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


TIME_TERMS = (
    ("matrix multiply", "matmul"),
    ("attention", "attention"),
    ("memory-bound ops", "memory_bound"),
    ("launch", "launch"),
    ("tp exposed", "tp_exposed"),
    ("cp exposed", "cp_exposed"),
    ("ep exposed", "ep_exposed"),
    ("pp exposed", "pp_exposed"),
    ("dp exposed", "dp_exposed"),
    ("pipeline bubble", "bubble"),
    ("offload exposed", "offload_exposed"),
    ("optimizer", "optimizer"),
)
_DIGITS = re.compile(r"(\d{4,})(\.\d+)?( .*)?\Z", re.ASCII)
_SURELY = 0.995  # a chance that rounds to 99 % and more
_MULTIPLES = ((1e12, "T"), (1e9, "G"), (1e6, "M"))
BAND, ENDS = "P10 – P90", ("low", "high")
MISSES = {  # what a result does that breaks a limit, by the kind of limit
    "at_most": "exceeds its limit of",
    "at_least": "falls below its limit of",
    "target": "misses its target of",
}


def fit_words(chance: float) -> str:
    """The chance that a plan fits in memory, as text for a column.

    >>> fit_words(0.9), fit_words(0.99999)
    ('90%', '>99%')
    """
    return chance_words(chance).replace(" ", "") if chance < _SURELY else ">99%"


def signed_percent(value: float) -> str:
    """A fraction with its sign, as errors are read.

    >>> signed_percent(-0.0312)
    '−3.1 %'
    """
    return f"{value * 100:+.1f} %".replace("-", "−")


def is_memory(name: str) -> bool:
    """Whether a figure's bytes are memory, such as a line of the memory breakdown; other bytes are traffic."""
    if any(name in columns for columns in COLUMNS.values()):
        return name.startswith(("memory_", "host_", "cache_", "kv_")) and column_of(name).unit in ("B", "1")
    return not name.endswith("volume")


def figure_text(value: float, unit: str, digits: int = 3, *, held: bool = False) -> str:
    """A figure as text with its unit: memory in GiB, traffic in GB, rates in token/s; held: of memory."""
    if math.isnan(value):
        return "unknown"
    if unit == "B" and held:
        return show_memory(value, digits)
    return show(value, "token/s" if unit == "1/s" else unit, digits)


def result(name: str, value: float | None, unit: str = "", digits: int = 3, *, bare: bool = False) -> str:
    """A result as text; shares in percent; bare: a rate without its unit, if the name of its column has it."""
    unit = unit or TRAINING_COLUMNS[name].unit
    if value is None:
        return "—"
    if math.isnan(value):
        return "unknown"
    if unit == "1":
        return percent(value, digits)
    if unit == "1/s" and bare:
        return significant(value, 4)
    return figure_text(value, unit, digits, held=is_memory(name))


def readable(text: str) -> str:
    """A value with thousands separated; large pure numbers get a letter if that loses no digit.

    >>> readable("34640"), readable("25600 Gb/s"), readable("1319000000000"), readable("1234567")
    ('34,640', '25,600 Gb/s', '1.319 T', '1.234567 M')
    """
    match = _DIGITS.match(text)
    if match is None:
        return text
    whole, rest, unit = match[1], match[2] or "", match[3] or ""
    for factor, letter in () if unit else _MULTIPLES:
        stated = f"{float(text) / factor:.7g} {letter}"
        if float(text) >= factor and parse(stated, "1") == float(text):
            return stated
    return f"{int(whole):,}{rest}{unit}"


def or_list(words: Iterable[str]) -> str:
    """Words joined by commas and `or`.

    >>> or_list(["2,048"]), or_list(["1", "2", "4"])
    ('2,048', '1, 2 or 4')
    """
    return _joined_with(words, "or")


def and_list(words: Iterable[str]) -> str:
    """Words joined by commas and `and`.

    >>> and_list(["2,048"]), and_list(["1", "2", "4"])
    ('2,048', '1, 2 and 4')
    """
    return _joined_with(words, "and")


def _joined_with(words: Iterable[str], before_last: str) -> str:
    *ahead, last = words
    return f"{', '.join(ahead)} {before_last} {last}" if ahead else last


def range_of(low: str, high: str) -> str:
    """A range with one unit, which of times is that of the high end unless the low one is far below it.

    >>> range_of("287 s", "14.1 min"), range_of("16.5 us", "1.02 s")
    ('4.78 – 14.1 min', '16.5 us – 1.02 s')
    """
    number, _, unit = low.partition(" ")
    other = high.partition(" ")[2]
    if unit in _TIMES and other in _TIMES and unit != other:
        share = parse(low, "s") / parse(f"1 {other}", "s")
        number, unit = (significant(share) if share else "0", other) if share >= _FAR or not share else (number, unit)
    return f"{number} – {high}" if unit == other else f"{low} – {high}"


def range_beside(text: Callable[[float], str], value: float, low: float, high: float) -> str:
    """A range in the unit of the time beside it; in its own unit if it is no time, or far from the value.

    text: writes the value, and the ends if they need another unit

    >>> range_beside(show_time, 493.0, 287.0, 846.0), range_beside(show_time, 7.8e-3, 435e-6, 645e-6)
    ('287 – 846 s', '0.435 – 0.645 ms')
    """
    if math.isfinite(value) and math.isfinite(low + high) and text(value).rpartition(" ")[2] in _TIMES:
        unit = time_unit(value)
        if low >= _FAR * unit and high < _LARGE * unit:
            return range_of(show_time(low, unit=unit), show_time(high, unit=unit))
    return range_of(text(low), text(high))


def time_beside(value: float, beside: float) -> str:
    """A time in the unit of another one that stands beside it, unless it is far from it.

    >>> time_beside(0.796, 0.516), time_beside(846.0, 493.0), time_beside(0.0001, 3.0)
    ('796 ms', '846 s', '100 us')
    """
    unit = time_unit(beside) if beside and math.isfinite(beside) else 0.0
    return show_time(value, unit=unit) if unit and _FAR * unit <= value < _LARGE * unit else show_time(value)


_LARGE = 1e4  # judged: of a number before a unit, from which a larger unit reads better
_TIMES, _FAR = ("us", "ms", "s", "min", "h", "days"), 0.05
