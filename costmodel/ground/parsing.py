"""Quantities as people write them, to numbers in SI base units.

"3.35 TB/s" becomes 3.35e12 if B/s are expected, and a fault if bytes are. A counted thing is a unit too (`counts`):
"4M tokens" is a number if tokens are expected, and a fault if nodes are; a plain number counts what is expected.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable
from typing import Any, cast

from costmodel.ground.counts import KINDS, kind_of, plural

# Patterns that few questions use.


class _LatePattern:
    """A regular expression that is compiled when one of its functions is first used."""

    def __init__(self, written: str, flags: int) -> None:
        self.written, self.flags = written, flags

    def __getattr__(self, name: str) -> Any:
        attribute = self.__dict__[name] = getattr(re.compile(self.written, self.flags), name)
        return attribute


def late_pattern(written: str, flags: int = 0) -> re.Pattern[str]:
    """A regular expression as re.compile gives it, compiled when it is first used.

    >>> late_pattern("a+").sub("b", "caat")
    'cbt'
    """
    return cast("re.Pattern[str]", _LatePattern(written, flags))


# Units and their multiples as people write them, with an example of each for messages.

DECIMAL = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
SMALL = {"m": 1e-3, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "n": 1e-9}  # the micro sign, and the Greek letter
BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
LARGE = {"": 1.0, **DECIMAL, **BINARY}
NAMES = {"k": "kilo", "M": "mega", "G": "giga", "T": "tera"}
WORDS = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
MULTIPLES = {**DECIMAL, **BINARY, **WORDS}
COUNT_SUFFIXES = {"": 1.0, "B": 1e9, **MULTIPLES}
TENS = {"100": 100.0, "1000": 1e3}  # a rate for each so many

SYMBOLS: dict[str, tuple[float, dict[str, int]]] = {
    "B": (1.0, {"B": 1}),
    "b": (0.125, {"B": 1}),
    **dict.fromkeys(("byte", "bytes", "Byte", "Bytes"), (1.0, {"B": 1})),
    **dict.fromkeys(("bit", "bits"), (0.125, {"B": 1})),
    "Bps": (1.0, {"B": 1, "s": -1}),
    "bps": (0.125, {"B": 1, "s": -1}),
    "FLOP": (1.0, {"FLOP": 1}),
    "OP": (1.0, {"FLOP": 1}),
    "s": (1.0, {"s": 1}),
    "J": (1.0, {"J": 1}),
    **dict.fromkeys(("W", "watt", "watts"), (1.0, {"J": 1, "s": -1})),
    "Wh": (3600.0, {"J": 1}),
    "Hz": (1.0, {"s": -1}),
    **dict.fromkeys(("rps", "RPS", "qps", "QPS"), (1.0, {"request": 1, "s": -1})),
    "g": (1e-3, {"kg": 1}),
    "t": (1e3, {"kg": 1}),
    "USD": (1.0, {"USD": 1}),
    "$": (1.0, {"USD": 1}),
}
WHOLE = {
    **dict.fromkeys(("sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
    **dict.fromkeys(("week", "weeks"), 604800.0),
}
# How quantities of a unit are written, for messages.
SPELLINGS = {
    "s": "a time is written in us, ms, s, min, h, days or weeks",
    "USD": "money is written '3 M USD', '$3M', '3 million USD' or '3e6 USD'; no other currency",
    "USD/s": "a price is written '2.50 USD/GPU/h', '$2.50/h' or '60 USD/day'; no other currency",
    "1": "a number may end in k, M, B, T, Ki, Mi, Gi, million, billion, trillion or %",
}
EXAMPLES = {
    "B": "80 GiB",
    "B/s": "3.35 TB/s",
    "FLOP/s": "989 TFLOP/s",
    "FLOP": "4 GFLOP",
    "s": "4.2 us",
    "J/s": "700 W",
    "USD": "3 M USD",
    "USD/s": "2.50 USD/GPU/h",
    "1/s": "1830 MHz",
    "J": "5 GWh",
    "kg": "1800 t",
    "kg/J": "380 g/kWh",
    "1": "0.81 or 81 %",
}
OWN_EXAMPLES = {
    "token/s": "300,000 token/s",
    "token/GPU/s": "9,000 token/s",
    "USD/node/s": "98.32 USD/h",
    "USD/J": "0.08 USD/kWh",
    "1/node/s": "3.8 /1000 node-days",
    "run/s": "2.2 /day",
    "request/s": "8 requests/s",
}
# In which a number may stand without its unit, since there is no other one in use.
PLAIN = frozenset({"request/s"})
# How what was counted leads to what is counted there.
RELATED = {
    ("GPU", "node"): "nodes are GPUs over those of a node; write e.g. '4 nodes'",
    ("node", "GPU"): "GPUs are nodes times those of a node; write e.g. '8 GPUs'",
    ("sequence", "token"): "tokens are sequences times the length of one; write e.g. '8192 tokens'",
    ("step", "token"): "tokens are steps times those of a batch; write e.g. '15 T tokens'",
}


Dimension = tuple[tuple[str, int], ...]

_NUMBER = re.compile(
    r"\s*([-+]?(?:(?:\d{1,3}(?:,\d{3})+|\d[\d_]*)(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)(?![\d,._])\s*(.*?)\s*\Z",
    re.ASCII,
)
_MONEY = late_pattern(r"\s*(?:USD|\$)\s*([-+\d.,_eE]+)\s*([^/]*?)\s*(/.*)?\Z")
_PER = late_pattern(r"\s+per\s+")
_FLOPS = late_pattern(r"(?i)([kmgtpe]?)(fl)?ops?(/s|/sec)?\Z")  # a count or a rate: ambiguous, so refused


class UnitError(ValueError):
    """The text is not a quantity of the expected unit; an exact error already contains the hint."""

    def __init__(self, sentence: str, *, exact: bool = False) -> None:
        super().__init__(sentence)
        self.exact = exact


def _unit_factor(symbol: str) -> tuple[float, dict[str, int]]:
    """The SI factor and dimension of a unit symbol such as "GiB"; an error for an unknown one."""
    if symbol in WHOLE:
        return WHOLE[symbol], {"s": 1}
    for length in (0, 1, 2):
        prefix, base = symbol[:length], symbol[length:]
        if prefix in LARGE | SMALL and base in SYMBOLS:
            factor, dimension = SYMBOLS[base]
            return factor * (LARGE | SMALL)[prefix], dimension
        if prefix in LARGE and (kind := kind_of(base)):
            return LARGE[prefix], {kind: 1}
    raise UnitError(f"unknown unit '{symbol}'")


@functools.lru_cache(maxsize=512)
def parse_unit(text: str) -> tuple[float, Dimension]:
    """The factor to SI base units and the dimension of a unit such as "TB/s", "USD/GPU/h" or "/1000 node-days"."""
    factor = 1.0
    total: dict[str, int] = {}
    parts = text.split("/")
    for position, part in enumerate(parts):
        if not part.strip():
            if position == 0 and len(parts) > 1 and text.strip() != "/":
                continue  # "8 /s", "/1000 node-days"
            raise UnitError(f"'{text}' is not a unit")
        sign = 1 if position == 0 else -1
        for symbol in _symbols(part):
            whole = TENS.get(symbol) if position > 0 else None
            size, dimension = (whole or MULTIPLES[symbol], {}) if whole or symbol in MULTIPLES else _unit_factor(symbol)
            factor *= size**sign
            for base, power in dimension.items():
                total[base] = total.get(base, 0) + sign * power
    return factor, tuple(sorted((base, power) for base, power in total.items() if power))


def _symbols(part: str) -> list[str]:
    """The unit symbols of a product, without separators and without the 1 in "USD/1M tokens"."""
    return [symbol for symbol in re.sub(r"·|-(?!(?i:batch))|\b1(?=[A-Za-z ])", " ", part).split() if symbol != "1"]


def _split_dimension(dimension: Dimension) -> tuple[Dimension, Dimension]:
    """Splits a unit's dimension into measured dimensions and counted things."""
    counted = tuple((base, power) for base, power in dimension if base in KINDS)
    return tuple(item for item in dimension if item not in counted), counted


def is_measured(unit: str) -> bool:
    """Whether a text is a unit of something measured, such as bytes or time, rather than of a count.

    >>> is_measured("Gb/s"), is_measured("k tokens"), is_measured("%")
    (True, False, False)
    """
    try:
        return bool(_split_dimension(parse_unit(unit)[1])[0])
    except UnitError:
        return False


@functools.cache
def measured(unit: str) -> str:
    """A unit without counted things, for messages.

    >>> measured("USD/GPU/s"), measured("token/s"), measured("token")
    ('USD/s', '1/s', '1')
    """
    first, *rest = ("1" if _split_dimension(parse_unit(part)[1])[1] else part for part in unit.split("/"))
    return "/".join([first, *(part for part in rest if part != "1")])


def counted_in(text: str) -> str:
    """The countable thing in a written quantity; empty if it names none.

    >>> counted_in("4M tokens"), counted_in("4 M"), counted_in("4 GB")
    ('token', '', '')
    """
    match = _NUMBER.match(text)
    try:
        dimension = parse_unit(_multiple(match[2], "1")[1])[1] if match else ()
    except UnitError:
        return ""
    return dimension[0][0] if len(dimension) == 1 and dimension[0][0] in KINDS and dimension[0][1] == 1 else ""


def in_ones(unit: str) -> tuple[float, str] | None:
    """A multiple and the counted word in a unit; None if the unit is not a count.

    >>> in_ones("M tokens"), in_ones("Ki"), in_ones(""), in_ones("GB/s")
    ((1000000.0, 'tokens'), (1024.0, ''), (1.0, ''), None)
    """
    first, _, rest = unit.partition(" ")
    multiple, word = (COUNT_SUFFIXES[first], rest.strip()) if first in COUNT_SUFFIXES else (1.0, unit)
    return (multiple, word) if not word or kind_of(word) else None


def parse(text: str, unit: str) -> float:
    """The SI value of a written quantity whose unit must have the dimension of `unit`.

    >>> parse("3.35 TB/s", "B/s"), parse("400 Gbps", "B/s")
    (3350000000000.0, 50000000000.0)
    >>> parse("16Ki", "1"), parse("16k tokens", "token")
    (16384.0, 16000.0)
    >>> parse("8 /s", "request/s"), parse("8", "request/s")
    (8.0, 8.0)
    >>> parse("5 %", "1")
    0.05
    >>> parse("$3M", "USD"), parse("30 days", "s")
    (3000000.0, 2592000.0)
    >>> parse("1 kWh", "J"), round(parse("3.8 /1000 node-days", "1/node/s") * 86400, 6)
    (3600000.0, 0.0038)
    """
    match = _NUMBER.match(_MONEY.sub(r"\1 \2 USD\3", _PER.sub("/", text)))
    if match is None:
        raise UnitError(f"'{text}' does not start with a number")
    wanted = measured(unit)
    multiple, symbol = _multiple(match[2], wanted)
    if _says_twice(symbol, 1 if symbol != match[2] else 0, wanted):
        raise UnitError(f"'{match[2]}' has the same twice; write e.g. '{example(unit)}'", exact=True)
    value = float(match[1].replace(",", "").replace("_", "")) * multiple
    if wanted == "1" and symbol == "%" and unit == "1":
        return value / 100
    if wanted == "1" and symbol in COUNT_SUFFIXES:
        return value * COUNT_SUFFIXES[symbol]
    if not symbol and unit in PLAIN:
        return value
    if not symbol:
        raise UnitError(f"a quantity carries its unit: {with_unit(match[1], unit)}")
    try:
        factor, dimension = parse_unit(symbol)
    except UnitError as error:
        raise _unknown_unit(str(error), match, unit) from None
    there, counted = _split_dimension(dimension)
    if not dimension and symbol in LARGE and (meant := _meant_prefix(symbol, wanted)):
        raise UnitError(f"'{symbol}' is no unit; did you mean {_alternatives(match[1], meant)}?", exact=True)
    if there != parse_unit(wanted)[1]:
        sentence = f"'{symbol}' is not a unit of {_of_messages(unit)}{_spelling_hint(wanted)}"
        raise UnitError(f"{sentence}; write e.g. '{example(unit)}'")
    strange = [item for item in counted if item not in parse_unit(unit)[1]]
    if strange:
        raise _other_count(match, unit, *strange[0])
    return value * factor / parse_unit(unit if counted else wanted)[0]


@functools.lru_cache(maxsize=512)
def _says_twice(unit: str, multiples: int, wanted: str) -> bool:
    """Whether a unit repeats a multiple, as "M M", or a thing, as "B/B"; `multiples`: how many come before it."""
    kinds = []
    for part in unit.split("/"):
        for symbol in _symbols(part):
            if symbol in MULTIPLES or (wanted == "1" and symbol == "B"):
                multiples += 1
                continue
            try:
                kinds.append(_unit_factor(symbol)[1])
            except UnitError:
                return False
        if multiples > 1:
            return True
        multiples = 0
    return any(kind in kinds[:place] for place, kind in enumerate(kinds))


def _unknown_unit(reason: str, match: re.Match[str], unit: str) -> UnitError:
    """An error for an unknown unit, with a likely spelling or an example."""
    number, wanted = match[1], measured(unit)
    if match[2] == "%" and (kinds := _counted_things(unit, 1)):
        sentence = f"'{number} %' is a share, and here {plural(kinds[0])} are counted"
        return UnitError(f"{sentence}; write e.g. '{number} {_unit_name(kinds[0], number)}'", exact=True)
    meant = _meant_multiple(match[2]) if wanted == "1" else _units_meant(match[2], wanted)
    if meant:
        return UnitError(f"{reason}; did you mean {_alternatives(number, meant)}?", exact=True)
    return UnitError(f"{reason}{_spelling_hint(wanted)}")


def _alternatives(number: str, units: Iterable[str]) -> str:
    return " or ".join(f"'{number} {unit}'" for unit in units)


def kinds_of(unit: str) -> list[str]:
    """The things that a number in a unit may count."""
    return _counted_things(unit, 1)


def _counted_things(unit: str, sign: int) -> list[str]:
    """The things that a unit counts, or is per."""
    return [kind for kind, power in _split_dimension(parse_unit(unit)[1])[1] if power * sign > 0]


def _unit_name(kind: str, number: str) -> str:
    return kind if number.strip("+0") == "1" else plural(kind)


def _other_count(match: re.Match[str], unit: str, kind: str, power: int) -> UnitError:
    """An error for a quantity that counts, or is per, another thing than expected."""
    number, symbol, wanted = match[1], match[2], _counted_things(unit, power)
    if power < 0:
        here = f"this is for each {' or '.join(wanted)}" if wanted else "this is for the whole"
        return UnitError(f"'{symbol}' is for each {kind}, and {here}; write e.g. '{example(unit)}'")
    here = f"here {' or '.join(map(plural, wanted))} are counted" if wanted else "nothing is counted here"
    if measured(unit) != "1" or not wanted:
        return UnitError(f"'{symbol}' counts {plural(kind)}, and {here}; write e.g. '{example(unit)}'")
    if related := RELATED.get((kind, wanted[0])):
        return UnitError(f"'{match[0].strip()}' counts {plural(kind)}, and {here}: {related}", exact=True)
    *multiple, _ = symbol.split()
    instead = " ".join((number, *multiple, _unit_name(wanted[0], number)))
    return UnitError(f"'{match[0].strip()}' counts {plural(kind)}, and {here}; write e.g. '{instead}'", exact=True)


def _multiple(symbol: str, unit: str) -> tuple[float, str]:
    """The factor of a separate multiple before a unit, and the unit; B is a billion only for money and counts."""
    first, _, rest = symbol.partition(" ")
    billion = first != "B" or unit == "1" or unit.startswith("USD")
    return (COUNT_SUFFIXES[first], rest.strip()) if rest and first in COUNT_SUFFIXES and billion else (1.0, symbol)


@functools.cache
def _symbols_by_lower_case() -> dict[str, list[str]]:
    """All unit symbols with prefixes, by their lower-case form."""
    known: dict[str, list[str]] = {}
    for prefix, base in itertools.product((*LARGE, *SMALL), SYMBOLS):
        known.setdefault(f"{prefix}{base}".casefold(), []).append(f"{prefix}{base}")
    for spelling in WHOLE:
        known.setdefault(spelling.casefold(), []).append(spelling)
    for (letter, name), (short, long) in itertools.product(NAMES.items(), (("b", "bit"), ("B", "byte"))):
        for spelling in (f"{name}{long}", f"{name}{long}s"):
            known[spelling] = [f"{letter}{short}"]
        known[f"{letter}{short}E".casefold()] = [f"{letter}b/s"]  # as Ethernet is called
    return known


def _units_meant(symbol: str, wanted: str) -> list[str]:
    """Units of the expected dimension that an unknown spelling may stand for, the largest first."""
    if match := _FLOPS.match(symbol):
        per = "/s" if wanted.endswith("/s") else ""
        parts = [[f"{match[1].upper()}{'FLOP' if match[2] else 'OP'}{per}"]]
    else:
        parts = [_symbols_by_lower_case().get(part.strip().casefold(), []) for part in symbol.split("/")]
    fitting: dict[float, str] = {}
    for chosen in itertools.islice(itertools.product(*parts), 64):
        factor, dimension = parse_unit("/".join(chosen))
        if dimension == parse_unit(wanted)[1]:
            fitting.setdefault(factor, "/".join(chosen))
    large = [factor for factor in fitting if factor >= 1] or fitting  # of MB and millibytes the former
    return [fitting[factor] for factor in sorted(large, reverse=True)]


def _meant_prefix(prefix: str, wanted: str) -> list[str]:
    """Units of the expected dimension that a bare prefix may stand for."""
    bases = {"B": ("B",), "B/s": ("b/s", "B/s"), "FLOP/s": ("FLOP/s",), "J/s": ("W",)}
    return [f"{prefix}{base}" for base in bases.get(wanted, ())]


def _meant_multiple(symbol: str) -> list[str]:
    """Counts with the multiples that an unknown spelling may stand for."""
    first, *rest = symbol.split() or [""]
    return [" ".join((multiple, *rest)) for multiple in ("k", "M", *BINARY) if multiple.casefold() == first.casefold()]


def _spelling_hint(unit: str) -> str:
    return f": {SPELLINGS[unit]}" if unit in SPELLINGS else ""


def with_unit(number: str, unit: str) -> str:
    """Suggestions for a number without a unit: for times each common unit, else the usual unit or an example.

    >>> with_unit("20", "s"), with_unit("3", "USD/GPU/h"), with_unit("20", "token/s")
    ("'20 s', '20 ms' or '20 us'", "'3 USD/GPU/h'", "'20 token/s'")
    """
    if unit.startswith("USD/GPU"):
        return f"'{number} USD/GPU/h'"
    if unit == "token/s":
        return f"'{number} {unit}'"
    if measured(unit) != "s":
        return f"e.g. '{example(unit)}'"
    return f"'{number} s', '{number} ms' or '{number} us'"


def written_unit(text: str, unit: str) -> tuple[float, str]:
    """The unit of a written price or rate: its size in SI units and its name; for other quantities the SI unit.

    >>> written_unit("1e30 USD/h", "USD/GPU/s")[1], written_unit("1e30 TB", "B")
    ('USD/h', (1.0, 'B'))
    >>> written_unit("0.5 ktoken/s", "token/s")
    (1000.0, 'ktoken/s')
    """
    own = measured(unit) in ("USD/s", "1/s")
    match = _NUMBER.match(_MONEY.sub(r"\1 \2 USD\3", _PER.sub("/", text))) if own else None
    if match is None or not match[2]:
        return 1.0, measured(unit)
    name = match[2].strip()
    return parse(f"1 {name}", unit), name


def _of_messages(unit: str) -> str:
    """A unit for messages; rents are per hour."""
    return example(unit).split(" ", 1)[1] if measured(unit) == "USD/s" else measured(unit)


def example(unit: str) -> str:
    """An example quantity in a unit."""
    whole = unit != "1" and measured(unit) == "1"
    return "8" if whole else OWN_EXAMPLES.get(unit) or EXAMPLES.get(measured(unit), f"1 {unit}")
