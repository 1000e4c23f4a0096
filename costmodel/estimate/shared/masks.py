"""Boolean masks of refused rows, and helpers to build them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from costmodel.equations.parallelism.counts import remainder
from costmodel.estimate.shared.plan_batch import Block
from costmodel.ground.equation import Number

Mask = NDArray[np.bool_]


def none(block: Block) -> Mask:
    """A mask that is false in every row."""
    return np.zeros(len(block), dtype=bool)


def all_if(block: Block, wrong: bool) -> Mask:
    """A mask with one value for every row, for a rule that depends only on the structure."""
    return np.full(len(block), wrong)


def any_of(masks: Iterable[Mask]) -> Mask:
    """A mask that is true where any of several masks is."""
    found: Mask = np.asarray(False)
    for mask in masks:
        found = found | mask
    return found


def leaves_rest(amount: Number, parts: Number) -> Mask:
    """Rows where an amount is not divisible by a number of parts."""
    return np.asarray(remainder(amount, parts) != 0)
