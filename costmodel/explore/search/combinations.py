"""The combinations of the values of a sweep's axes."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence

from costmodel.explore.search.range_samples import Axis, at_option
from costmodel.ground.errors import CostModelError, Fault, fail

OF_A_VALUE = ("D016", "C004")  # faults of a machine, an engine or a size, which other values need not have
_WHOLE = re.compile(r"[-+]?\d{1,18}", re.ASCII)


def count_combinations(axes: Sequence[Axis], most: int) -> int:
    """The number of combinations; a fault where there are more than `most`."""
    total = math.prod(len(axis.values) for axis in axes)
    if total > most:
        raise fail("C010", f"{total:,} combinations are more than {most:,}", None, "take wider steps")
    return total


def combinations(axes: Sequence[Axis]) -> Iterator[tuple[str, ...]]:
    """The settings of each combination, the last axis changing fastest."""
    for values in itertools.product(*(axis.values for axis in axes)):
        yield tuple(f"{axis.path}={value}" for axis, value in zip(axes, values, strict=True))


def fail_without_answers(axes: Sequence[Axis], faults: Sequence[Fault | None]) -> None:
    """The first fault, where every combination has one."""
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
