"""Parses lists and ranges of values for a scenario key, and samples ranges to find where a target is reached."""

from __future__ import annotations

import itertools
import math
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from costmodel.documents.keys.overrides import full
from costmodel.documents.reader.library import accelerator_named
from costmodel.explore.default_node import values_of_gpus
from costmodel.ground.errors import COMMAND_LINE, CostModelError, Fault, Place, fail
from costmodel.ground.parsing import is_measured
from costmodel.ground.record import record

# Parses the values of `--over`: 1,2,4 or 1..8 or 25..400 GB/s*2 or 8..64+8.

MOST_VALUES = 10_000
_SET = "--set"
_ACCELERATOR = "cluster.node.accelerator"
_OF_NODES = ("gpu", "accelerator")  # words for what changes with the node
_SIZES = {"--ranks": "64..4096", "--rate": "10..160"}  # options whose ranges double, with an example
_NUMBER = r"[-+]?\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?"
_PLAIN = re.compile(_NUMBER)
_WITHOUT_UNIT = re.compile(rf"{_NUMBER}\s*[kKM]?")
_WITH_UNIT = re.compile(rf"{_NUMBER}\s*(\D\S*)")
_UNITS = {"workload.rate": "/s"}  # of keys whose numbers may stand without one
_RANGE = re.compile(
    rf"\s*({_NUMBER})\s*([^\d.*+,\s][^.*+,]*?)?\s*\.\.\s*({_NUMBER})\s*([^*+,]*?)\s*(?:([*+])\s*({_NUMBER})\s*([^*+,]*))?\s*\Z"
)


@record
class Span:
    """A range in one unit, with a stated step (a factor or an increment) or none; its numbers are multiples of `of`."""

    low: float
    high: float
    unit: str
    step: str = ""
    by: float = 0.0
    of: float = 1.0

    def text(self, value: float, digits: int = 12) -> str:
        """A number of the range with its unit."""
        return set_text(value * self.of, self.unit, digits)

    def in_multiples(self, of: float) -> Span:
        """The multiples of a whole number in a range; the range itself for 1."""
        return self if of == 1 else replace(self, low=math.ceil(self.low / of), high=math.floor(self.high / of), of=of)


@record
class Axis:
    """A scenario key with the values to try."""

    path: str
    values: tuple[str, ...]


def at_option(option: str, paths: Iterable[str], error: CostModelError) -> CostModelError:
    """The error, with faults of values placed at the option that gave them instead of at --set."""
    return CostModelError(*(_fault_at(option, paths, fault) for fault in error.faults))


def _fault_at(option: str, paths: Iterable[str], fault: Fault) -> Fault:
    """The fault, placed at the option that gave the value instead of at --set."""
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
    """The key and values in an option such as "plan.tp=1,2,4"."""
    path, separator, values = text.partition("=")
    path = full(path.strip())
    if not separator or not path or not values.strip():
        raise _option_fault(option, text, f"'{text}' is not KEY=VALUES")
    found = values_of(values, option, text)
    if path in _OF_NODES and (varied := values_of_gpus(found)):
        place = Place(COMMAND_LINE, 0, len(option) + 2, "", f"{option} {text}", len(path))
        sentence = f"unknown key '{path}'; a GPU is one of a node"
        raise fail("D003", sentence, place, f"{option} {varied}")
    if unit := _UNITS.get(path):
        found = tuple(f"{value} {unit}" if _PLAIN.fullmatch(value) else value for value in found)
    found = with_last_unit(found)
    if path == _ACCELERATOR:  # by any spelling, as for --gpu
        found = tuple(dict.fromkeys(accelerator_named(value) or value for value in found))
    return Axis(path, found)


def with_last_unit(values: tuple[str, ...]) -> tuple[str, ...]:
    """The values of a list, where numbers without a unit get the unit of the last value; a multiple is no unit.

    >>> with_last_unit(("100", "0.4 Tb/s", "800 Gb/s")), with_last_unit(("512", "4Mi-tokens"))
    (('100 Gb/s', '0.4 Tb/s', '800 Gb/s'), ('512', '4Mi-tokens'))
    """
    last = _WITH_UNIT.fullmatch(values[-1])
    if last is None or not is_measured(last[1]):
        return values
    return tuple(f"{value} {last[1]}" if _PLAIN.fullmatch(value) else value for value in values)


def axes(texts: Iterable[str], option: str = "--over") -> list[Axis]:
    """The keys and values of several options, each of another key."""
    found: dict[str, Axis] = {}
    for text in texts:
        taken = axis(text, option)
        if taken.path in found:
            raise _option_fault(option, text, f"{taken.path} is varied already")
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
    parts = _split_at_commas(values)
    if any(not part.strip() for part in parts):
        raise _option_fault(option, text, "a value is missing between two commas")
    found = [value for part in parts for value in _values_of_part(option, text, part)]
    if len(found) > MOST_VALUES:
        raise _option_fault(option, text, f"{len(found):,} values; at most {MOST_VALUES:,} are allowed")
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


def _split_at_commas(values: str) -> list[str]:
    """Split at commas outside brackets."""
    parts, depth = [""], 0
    for letter in values:
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _values_of_part(option: str, text: str, part: str) -> list[str]:
    """The values in one part of a list, such as "4" or "1..64*2"."""
    if ".." not in part:
        return [part.strip()]
    found = span(part)
    if found is None:
        raise _option_fault(option, text, f"'{part.strip()}' is not a range: it must rise and have one unit, as 1..8")
    low, high, step, by = found.low, found.high, found.step, found.by
    if not step and low.is_integer() and high.is_integer() and not found.unit:
        step, by = "+", 1.0
    if (step == "*" and (by <= 1 or low <= 0)) or (step == "+" and by <= 0) or not step:
        plain = part[: part.rindex(step)] if step else part
        stepped = f"{plain}*2" if low > 0 else f"{plain}+{found.text((high - low) / 8, 3)}"
        sentence = f"'{part.strip()}' needs a step that leads from {found.text(low)} to {found.text(high)}"
        raise _option_fault(option, text, sentence, text.replace(part, stepped))
    count = math.log(high / low) / math.log(by) if step == "*" else (high - low) / by
    if count >= MOST_VALUES:
        raise _option_fault(option, text, f"{count + 1:,.0f} values; at most {MOST_VALUES:,} are allowed")
    steps = range(math.floor(count + 1e-9) + 1)
    return [found.text(low * by**index if step == "*" else low + by * index) for index in steps]


def _option_fault(option: str, text: str, sentence: str, meant: str = "") -> CostModelError:
    """A fault of an option with an example of it: what was meant, if that is known."""
    place = Place("command line", 0, len(option) + 2, "", f"{option} {text}", max(1, len(text)))
    examples = {"--over": "plan.tp=1,2,4,8"} | _SIZES
    example = shlex.join([option, meant or examples[option]])
    return fail("C010", sentence, place, f"for example {example}; costmodel explain C010")


SAMPLES = 33
EVERY_WHOLE = 512  # whole numbers, of which none is left out
_HALVINGS, _NARROWINGS, _LOOKS = 40, 12, 60
_GOLDEN = (math.sqrt(5) - 1) / 2
_SAME = 1e-6  # of a number, between which nothing is looked for
_DOUBLINGS = 12  # at most, of either end of a range that was not stated
_SEEN = 3  # octaves that show a trend
_ROOM = 2.0  # times what a trend has left, beyond which a target is out of reach


def samples(searched: Span, *, whole: bool, every: int = EVERY_WHOLE) -> list[float]:
    """Numbers over a range, in equal ratios if it has no zero; every number of a short range of whole numbers."""
    low, high = searched.low, searched.high
    if whole and high - low < every:
        return [low + step for step in range(int(high - low) + 1)]
    shares = [step / (SAMPLES - 1) for step in range(SAMPLES)]
    numbers = [low * (high / low) ** part if low > 0 else low + (high - low) * part for part in shares]
    numbers[-1] = high
    if whole:
        powers = [2.0**power for power in range(64) if low <= 2.0**power <= high]
        return sorted({float(round(number)) for number in numbers} | set(powers))
    return numbers


def octaves(searched: Span) -> list[float]:
    """The ends of a range of whole numbers, and the powers of two between them."""
    low, high = searched.low, searched.high
    return sorted({low, high, *(2.0**power for power in range(64) if low < 2.0**power < high)})


def is_steady(values: Sequence[float]) -> bool:
    """Whether values only rise or only fall, and those that are no number stand at one end.

    >>> is_steady([1, 2, 2, math.nan]), is_steady([1, 3, 2]), is_steady([3, math.nan, 1])
    (True, False, False)
    """
    known = [value for value in values if not math.isnan(value)]
    ends = len({math.isnan(value) for value in (values[0], values[-1])}) if values else 0
    changes = sum(math.isnan(one) != math.isnan(other) for one, other in itertools.pairwise(values))
    rising = all(one <= other for one, other in itertools.pairwise(known))
    falling = all(one >= other for one, other in itertools.pairwise(known))
    return bool(known) and changes == ends - 1 and (rising or falling)


_IN_A_ROW = 3  # multiples on one side of a valid number that show a common step
_DIVISORS = 24  # of a number that are tried at most


def common_step(number: float, is_valid: Callable[[float], bool]) -> float | None:
    """The least divisor of a valid number of which a key takes all multiples; None where it takes others too, such as
    powers of two.

    >>> common_step(8192.0, lambda tokens: tokens % 4 == 0), common_step(4.0, lambda degree: degree in (1, 2, 4, 8))
    (4.0, None)
    """
    if not (number >= 1 and number.is_integer() and is_valid(number)):
        return None
    whole = int(number)
    divisors = sorted(
        {each for low in range(1, math.isqrt(whole) + 1) if not whole % low for each in (low, whole // low)}
    )
    for step in divisors[:_DIVISORS]:
        sides = ([number + sign * times * step for times in range(1, _IN_A_ROW + 1)] for sign in (1, -1))
        if any(all(each >= 1 and is_valid(each) for each in side) for side in sides):
            parts = (whole // part for part in (2, 3) if not whole % part)
            return None if any(part % step and is_valid(float(part)) for part in parts) else float(step)
    return None


def samples_between(numbers: Sequence[float], excess: Callable[[float], float], *, whole: bool) -> list[float]:
    """Numbers between neighbours that both miss a target: the last that works, and the one with the least excess.

    excess: what a number has too much, 0 or less where it reaches the target; not a number where it does not work

    >>> samples_between([1.0, 10.0, 100.0], lambda number: abs(number - 30) - 1, whole=True)
    [31.0]
    """
    known = [excess(number) for number in numbers]
    found = [
        _last_working(*((one, two) if not math.isnan(left) else (two, one)), excess, whole=whole)
        for (one, left), (two, right) in itertools.pairwise(zip(numbers, known, strict=True))
        if math.isnan(left) != math.isnan(right) and not (left <= 0 or right <= 0)
    ]
    for place, value in enumerate(known):
        sides = [side for side in (place - 1, place + 1) if 0 <= side < len(known)]
        worse = [math.isnan(known[side]) or known[side] > value for side in sides]
        equal = [known[side] == value for side in sides]
        if value > 0 and any(worse) and all(map(max, worse, equal)):
            low, high = numbers[max(place - 1, 0)], numbers[min(place + 1, len(numbers) - 1)]
            found.append(_least_excess(low, numbers[place], high, excess, whole=whole))
    return sorted({number for number in found if number not in numbers})


def _last_working(inside: float, outside: float, excess: Callable[[float], float], *, whole: bool) -> float:
    """The number nearest to one that does not work, or the first one on the way that reaches the target."""
    for _ in range(_HALVINGS):
        middle = _value_between(inside, outside, 0.5, whole=whole)
        if middle in (inside, outside) or abs(outside - inside) < _SAME * abs(inside):
            break
        value = excess(middle)
        if value <= 0:
            return middle
        inside, outside = (inside, middle) if math.isnan(value) else (middle, outside)
    return inside


def last_reaching(
    reaching: tuple[float, float],
    missing: tuple[float, float],
    excess: Callable[[float], float],
    digits: int,
    *,
    whole: bool,
) -> float:
    """The last number with so many digits that reaches a target, between one that does and one that does not; the first
    where none does.

    It is looked for where a straight line through the excess of both reaches the target; in the middle between whole
    numbers, where a number does not work, and where the last look left more than half of the range.

    reaching, missing: both numbers with their excess
    excess: what a number has too much, 0 or less where it reaches the target; not a number where it does not work

    >>> last_reaching((1.0, -6.12345), (10.0, 2.87655), lambda number: number - 7.12345, 4, whole=False)
    7.123
    """
    (inside, under), (outside, over), halve = reaching, missing, False

    def beside(number: float, other: float) -> float:
        step = math.copysign(1.0, other - number)
        return number + step if whole else next_number(number, digits, upward=step > 0)

    for _ in range(_LOOKS):
        width, halve = abs(outside - inside), whole or halve or not math.isfinite(under - over)
        number = inside + (0.5 if halve else under / (under - over)) * (outside - inside)
        number = float(math.floor(number)) if whole else rounded(number, digits)
        if abs(number - outside) >= width:
            number = beside(inside, outside)
        elif abs(number - inside) >= width:
            number = beside(outside, inside)
        if not min(inside, outside) < number < max(inside, outside):
            break
        value = excess(number)
        if value <= 0:
            inside, under = number, value
        else:
            outside, over = number, value
        halve = not halve and abs(outside - inside) > width / 2
    return inside


def rounded(number: float, digits: int) -> float:
    """The number rounded to `digits` significant digits."""
    return float(f"{number:.{digits}g}")


def next_number(number: float, digits: int, *, upward: bool) -> float:
    """The next number with `digits` significant digits, upward or downward.

    >>> next_number(1.23456, 4, upward=True), next_number(1000.0, 4, upward=False)
    (1.235, 999.9)
    """
    nearest = rounded(number, digits)
    if not number or (nearest != number and (nearest > number) is upward):
        return nearest
    beyond = abs(number) * (1 + 1e-12 if (number > 0) is upward else 1 - 1e-12)
    last = 10.0 ** (math.floor(math.log10(beyond)) + 1 - digits)
    return rounded(nearest + (last if upward else -last), digits)


def _least_excess(low: float, middle: float, high: float, excess: Callable[[float], float], *, whole: bool) -> float:
    """The number with the least excess between two, by golden section; or the first one that reaches the target."""
    best, least = middle, excess(middle)
    for _ in range(_NARROWINGS):
        side = low if best - low > high - best else high
        tried = _value_between(best, side, 1 - _GOLDEN, whole=whole)
        if tried in (best, side) or abs(high - low) < _SAME * abs(best):
            break
        value = excess(tried)
        if value <= 0:
            return tried
        if value < least:
            low, high = (low, best) if tried < best else (best, high)
            best, least = tried, value
        else:
            low, high = (tried, high) if tried < best else (low, tried)
    return best


def _value_between(one: float, other: float, part: float, *, whole: bool) -> float:
    number = one + part * (other - one)
    return float(round(number)) if whole else float(f"{number:.6g}")


def samples_beyond(numbers: Sequence[float], excess: Callable[[float], float], *, whole: bool) -> list[float]:
    """Numbers beyond the ends of a range that misses a target, as long as the trend leads towards the target.

    Each step doubles the upper end or halves the lower one. It stops when the target is reached, when two octaves in a
    row have no working value, when values do not come nearer, or when the trend levels off short of the target.

    >>> samples_beyond([1.0, 2.0, 4.0, 8.0], lambda number: 100 / number - 4, whole=True)
    [12.0, 16.0, 24.0, 32.0]
    >>> samples_beyond([1.0, 2.0, 4.0, 8.0], lambda number: 100 / number + 5, whole=True)
    [12.0, 16.0, 24.0, 32.0]
    """
    known = {number: excess(number) for number in numbers}
    for upward in (True, False):
        for _ in range(_DOUBLINGS):
            if not _approaches(known, upward=upward):
                break
            end = max(known) if upward else min(known)
            new = _octave(end, upward=upward, whole=whole)
            known |= {number: excess(number) for number in new}
            if not new:
                break
    return sorted(known.keys() - {*numbers})


def _octave(end: float, *, upward: bool, whole: bool) -> list[float]:
    """The numbers of the next octave; for whole numbers with its power of two, and none below one."""
    found = {end * 1.5, end * 2} if upward else {end / 1.5, end / 2}
    if not whole:
        return [float(f"{number:.6g}") for number in sorted(found)]
    power = 2.0 ** (math.floor(math.log2(end)) + 1 if upward else math.ceil(math.log2(end)) - 1)
    return sorted({float(round(number)) for number in (*found, power) if round(number) >= 1} - {end})


def end_to_pass(known: Mapping[float, float], *, whole: bool) -> float | None:
    """The end of the known numbers beyond which a target may be reached; None where the trend leads to neither.

    Whole numbers count something, so they end at one.

    known: the excess of each number; not a number where it does not work

    >>> end_to_pass({1.0: 95, 2.0: 45, 4.0: 20}, whole=True), end_to_pass({1.0: 3, 2.0: 1, 4.0: 5}, whole=True)
    (4.0, None)
    """
    ends = [(max(known), True), *([] if whole and min(known) <= 1 else [(min(known), False)])]
    return next((end for end, upward in ends if _approaches(known, upward=upward)), None)


def _approaches(known: Mapping[float, float], *, upward: bool) -> bool:
    """Whether the last octaves at one end lead towards a target that no number reaches."""
    if min(known) <= 0 or any(value <= 0 for value in known.values()):
        return False
    end = max(known) if upward else 1 / min(known)
    found = [(number if upward else 1 / number, value) for number, value in known.items() if not math.isnan(value)]
    least = [
        min((value for number, value in found if end / 2 ** (back + 1) < number <= end / 2**back), default=math.inf)
        for back in range(_SEEN)
    ]
    if all(map(math.isinf, least[:2])):
        return not found
    working = [value for value in least if math.isfinite(value)]
    nearest = min(value for _, value in found)
    if working[0] > nearest or (len(working) > 1 and working[0] >= working[1]):
        return False
    if len(working) < _SEEN:
        return True
    last, before = working[1] - working[0], working[2] - working[1]
    return last >= before or working[0] <= _ROOM * last * last / (before - last)


MISTYPED = ("D006", "D007", "D009", "D010")  # faults of a value that its key takes in no scenario
OF_A_VALUE = ("D016", "C004")  # faults of a machine, an engine or a size, which other values need not have
_WHOLE = re.compile(r"[-+]?\d{1,18}", re.ASCII)


def count_combinations(axes: Sequence[Axis], most: int) -> int:
    """The number of combinations; raises a fault for more than `most`."""
    total = math.prod(len(axis.values) for axis in axes)
    if total > most:
        raise fail("C010", f"{total:,} combinations are more than {most:,}", None, "take wider steps")
    return total


def combinations(axes: Sequence[Axis]) -> Iterator[tuple[str, ...]]:
    """The settings of each combination, the last axis changing fastest."""
    for values in itertools.product(*(axis.values for axis in axes)):
        yield tuple(f"{axis.path}={value}" for axis, value in zip(axes, values, strict=True))


def fail_without_answers(axes: Sequence[Axis], faults: Sequence[Fault | None]) -> None:
    """Raises the first fault if every combination has one."""
    found = [fault for fault in faults if fault is not None]
    if found and len(found) == len(faults):
        raise at_option("--over", [axis.path for axis in axes], CostModelError(found[0]))


def values_at(axes: Sequence[Axis], number: int) -> dict[str, str]:
    """The values of one combination; the last axis changes fastest."""
    values: dict[str, str] = {}
    for axis in reversed(axes):
        number, place = divmod(number, len(axis.values))
        values[axis.path] = axis.values[place]
    return {axis.path: values[axis.path] for axis in axes}


def cells_at(axes: Sequence[Axis], number: int) -> dict[str, int | str]:
    """The values of one combination for tables: numbers if all values of a key are whole numbers."""
    whole = {axis.path for axis in axes if all(map(_WHOLE.fullmatch, axis.values))}
    return {path: int(value) if path in whole else value for path, value in values_at(axes, number).items()}
