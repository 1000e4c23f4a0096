"""Parses the values of `--over`: 1,2,4 or 1..8 or 25..400 GB/s*2 or 8..64+8."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal

from costmodel.documents.keys.overrides import full
from costmodel.documents.reader.cached_reader import accelerator_named
from costmodel.explore.node_of_gpu import values_of_gpus
from costmodel.ground.errors import COMMAND_LINE, CostModelError, Fault, Place, fail
from costmodel.ground.record import record

MOST_VALUES = 10_000
_SET = "--set"
_ACCELERATOR = "cluster.node.accelerator"
_OF_NODES = ("gpu", "accelerator")  # words for what changes with the node
_SIZES = {"--ranks": "64..4096", "--rate": "10..160"}  # options whose ranges double, with an example
_NUMBER = r"[-+]?\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?"
_PLAIN = re.compile(_NUMBER)
_WITHOUT_UNIT = re.compile(rf"{_NUMBER}\s*[kKM]?")
_UNITS = {"workload.rate": "/s"}  # of keys whose numbers may stand without one
_RANGE = re.compile(
    rf"\s*({_NUMBER})\s*([^\d.*+,\s][^.*+,]*?)?\s*\.\.\s*({_NUMBER})\s*([^*+,]*?)\s*(?:([*+])\s*({_NUMBER})\s*([^*+,]*))?\s*\Z"
)


@record
class Span:
    """A range in one unit, with a factor, an increment or no stated step."""

    low: float
    high: float
    unit: str
    step: str = ""
    by: float = 0.0

    def text(self, value: float, digits: int = 12) -> str:
        """A number of the range with its unit."""
        return set_text(value, self.unit, digits)


@record
class Axis:
    """A key and its values."""

    path: str
    values: tuple[str, ...]


def at_option(option: str, paths: Iterable[str], error: CostModelError) -> CostModelError:
    """Report faults of swept values at the option that gave them rather than at --set."""
    return CostModelError(*(_fault_at(option, paths, fault) for fault in error.faults))


def _fault_at(option: str, paths: Iterable[str], fault: Fault) -> Fault:
    place = fault.place
    if place is None or not any(place.text.startswith(f"{_SET} {path}=") for path in paths):
        return fault
    text, further = option + place.text.removeprefix(_SET), len(option) - len(_SET)
    return replace(fault, place=replace(place, text=text, column=place.column + further))


def set_text(value: float, unit: str, digits: int = 12) -> str:
    """A number with its unit, in the form of --set; in powers of ten only if it would be long otherwise."""
    number = f"{value:.{digits}g}"
    number = f"{Decimal(number):f}" if value and 1e-6 <= abs(value) < 1e15 else number
    return f"{number} {unit}" if unit else number


def axis(text: str, option: str = "--over") -> Axis:
    """Parse `path=values`."""
    path, separator, values = text.partition("=")
    path = full(path.strip())
    if not separator or not path or not values.strip():
        raise _fault(option, text, f"'{text}' is not path=values")
    found = values_of(values, option, text)
    if path in _OF_NODES and (varied := values_of_gpus(found)):
        place = Place(COMMAND_LINE, 0, len(option) + 2, "", f"{option} {text}", len(path))
        sentence = f"unknown key '{path}'; a GPU is one of a node"
        raise fail("D003", sentence, place, f"{option} {varied}")
    if unit := _UNITS.get(path):
        found = tuple(f"{value} {unit}" if _PLAIN.fullmatch(value) else value for value in found)
    if path == _ACCELERATOR:  # by any spelling, as for --gpu
        found = tuple(dict.fromkeys(accelerator_named(value) or value for value in found))
    return Axis(path, found)


def axes(texts: Iterable[str], option: str = "--over") -> list[Axis]:
    """Parse several, each for another key."""
    found: dict[str, Axis] = {}
    for text in texts:
        taken = axis(text, option)
        if taken.path in found:
            raise _fault(option, text, f"{taken.path} is varied already")
        found[taken.path] = taken
    return list(found.values())


def doubled(values: str) -> str:
    """Values of a size: a range without a step doubles.

    >>> doubled("64..4096"), doubled("8..64+8"), doubled("1,2")
    ('64..4096*2', '8..64+8', '1,2')
    """
    plain = values.strip()
    return f"{plain}*2" if ".." in plain and not any(mark in plain for mark in "*+,") else plain


def doubled_to_end(values: str) -> str:
    """Values of a size that need not be a power of two: a doubling range, and the end of the range.

    >>> doubled_to_end("10..200"), doubled_to_end("1,2")
    ('10..200*2,200', '1,2')
    """
    stepped, found = doubled(values), span(values)
    return stepped if found is None or found.step else f"{stepped},{found.text(found.high)}"


def rates_of(values: Iterable[str]) -> list[str]:
    """Rates of requests with their unit, which is /s where none is written.

    >>> rates_of(("10", "2k", "10 rps", "3/min"))
    ['10 /s', '2k /s', '10 rps', '3/min']
    """
    return [f"{value} /s" if _WITHOUT_UNIT.fullmatch(value) else value for value in values]


def values_of(values: str, option: str, text: str) -> tuple[str, ...]:
    """Lists and ranges as values, each once; `text` is the value of the option."""
    parts = _split(values)
    if any(not part.strip() for part in parts):
        raise _fault(option, text, "a value is missing between two commas")
    found = [value for part in parts for value in _values(option, text, part)]
    if len(found) > MOST_VALUES:
        raise _fault(option, text, f"{len(found):,} values; at most {MOST_VALUES:,} are allowed")
    return tuple(dict.fromkeys(found))


def span(text: str, path: str = "") -> Span | None:
    """Parse a range of a key; None where the text is not a range."""
    match = _RANGE.match(text)
    if match is None or (match[2] and match[2].strip() != match[4].strip()):
        return None
    low, high = float(match[1]), float(match[3])
    by = float(match[6]) if match[6] else 0.0
    sensible = low < high and all(map(math.isfinite, (low, high, by))) and (not match[7] or match[7] == match[4])
    return Span(low, high, match[4].strip() or _UNITS.get(path, ""), match[5] or "", by) if sensible else None


def _split(values: str) -> list[str]:
    """Split at commas outside brackets."""
    parts, depth = [""], 0
    for letter in values:
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _values(option: str, text: str, part: str) -> list[str]:
    if ".." not in part:
        return [part.strip()]
    found = span(part)
    if found is None:
        raise _fault(option, text, f"'{part.strip()}' is not a range: it must rise and have one unit, as 1..8")
    low, high, step, by = found.low, found.high, found.step, found.by
    if not step and low.is_integer() and high.is_integer() and not found.unit:
        step, by = "+", 1.0
    if (step == "*" and (by <= 1 or low <= 0)) or (step == "+" and by <= 0) or not step:
        raise _fault(option, text, f"'{part.strip()}' needs a step that leads from {low:g} to {high:g}: *2, or +8")
    count = math.log(high / low) / math.log(by) if step == "*" else (high - low) / by
    if count >= MOST_VALUES:
        raise _fault(option, text, f"{count + 1:,.0f} values; at most {MOST_VALUES:,} are allowed")
    steps = range(math.floor(count + 1e-9) + 1)
    return [found.text(low * by**index if step == "*" else low + by * index) for index in steps]


def _fault(option: str, text: str, sentence: str) -> CostModelError:
    code = "C012" if option == "--vary" else "C010"
    place = Place("command line", 0, len(option) + 2, "", f"{option} {text}", max(1, len(text)))
    examples = {"--over": "plan.tp=1,2,4,8", "--vary": "plan.micro_batch=1..16"} | _SIZES
    return fail(code, sentence, place, f"for example {option} {examples[option]}; costmodel explain {code}")
