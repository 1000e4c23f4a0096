"""Yields the valid plans of a part of a grid in batches; plans of a batch share common results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from costmodel.estimate.shared.plan_batch import Block, Mask
from costmodel.estimate.training.plan_constraints import CHECKS
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.explore.search.search_space import PartialPlans, SubSpace, crossed
from costmodel.ground.counts import deciding
from costmodel.ground.shared_columns import BATCH, CUT, LAYOUT, STAGE, Factored, Places, Plans

BLOCK_ROWS = 32_768  # columns of so many plans lie in a core's cache
WORTH_FACTORING = 512  # plans; of fewer a figure for each takes no longer than to see which they share
OF_CUT = deciding("layer")
OF_STAGE = deciding("layer", "stage")
LATE = tuple(check for check in CHECKS if "micro_batch" in check.needs)


def valid_blocks(
    inputs: TrainingInputs, grid: SubSpace, rows: PartialPlans, refused: Counter[str]
) -> Iterator[tuple[Block, Mask]]:
    """Yield the valid plans that extend some partial plans, with their counts, and count the refused ones.

    Batches that repeat the same plans under another structure follow each other and share common results.
    """
    mask = _valid(inputs, grid, rows, refused)
    grown = np.any(mask, axis=1)
    rows, pairs = rows.where(grown), np.flatnonzero(mask[grown])
    for start in range(0, len(pairs), BLOCK_ROWS):
        layout, micro_batch = np.divmod(pairs[start : start + BLOCK_ROWS], len(grid.sizes["micro_batch"]))
        low, high = int(layout[0]), int(layout[-1]) + 1
        block = _block(rows.block.cut(low, high), layout - low, micro_batch, np.asarray(grid.sizes["micro_batch"]))
        for standing, same in zip(rows.standing, grid.under_each(block), strict=True):
            counts = (standing > 0)[layout]
            if counts.any():
                yield same, counts


def _valid(inputs: TrainingInputs, grid: SubSpace, rows: PartialPlans, refused: Counter[str]) -> Mask:
    """The valid micro-batches of each layout; layouts that a check cannot distinguish are tested once."""
    standing = rows.standing.sum(axis=0) // len(grid.sizes["micro_batch"])
    keep = np.ones((len(rows), len(grid.sizes["micro_batch"])), dtype=bool)
    for check in LATE:
        alike = _alike(rows.block, sorted(check.needs - {"micro_batch"}))
        examples = rows.block.at(np.unique(alike, return_index=True)[1])
        pairs = crossed(examples, "micro_batch", grid.sizes["micro_batch"])
        passes = ~check.refused(inputs, pairs).reshape(len(examples), len(grid.sizes["micro_batch"]))[alike]
        count = int((standing * np.count_nonzero(keep & ~passes, axis=1)).sum())
        refused.update({check.code: count} if count else {})
        keep &= passes
    return keep


def _block(layouts: Block, layout: Places, micro_batch: Places, micro_batches: NDArray[np.float64]) -> Block:
    """A block of layouts combined with micro-batches."""
    whole = replace(layouts.at(layout), micro_batch=micro_batches[micro_batch])
    return whole if len(whole) < WORTH_FACTORING else _factored(whole, layouts, layout, micro_batch)


def _factored(whole: Block, layouts: Block, layout: Places, micro_batch: Places) -> Block:
    """A block whose columns store shared figures once, with the layout and micro-batch of each plan."""
    of_layout = {CUT: _alike(layouts, OF_CUT), STAGE: _alike(layouts, OF_STAGE), LAYOUT: np.arange(len(layouts))}
    batches = int(micro_batch.max()) + 1
    chunked = LAYOUT if len(layouts) > of_layout[STAGE].max() + 1 else STAGE
    batched = BATCH if batches > 1 else CUT
    of_plan = {level: which[layout] for level, which in of_layout.items() if level <= chunked}
    if batched:
        numbers = {level: which * batches + micro_batch for level, which in of_plan.items() if level < chunked}
        of_plan |= {level | BATCH: _occurring(number) for level, number in numbers.items()}
    plans = Plans(of_plan, chunked | batched)
    levels = dict.fromkeys(OF_STAGE, STAGE) | dict.fromkeys(OF_CUT, CUT) | {"vpp": chunked, "micro_batch": batched}
    examples = {level: plans.examples(level) for level in set(levels.values())}
    columns = {name: Factored(getattr(whole, name)[examples[level]], level, plans) for name, level in levels.items()}
    return replace(whole, known={}, **cast(dict[str, Any], columns))


def _alike(rows: Block, names: Iterable[str]) -> Places:
    """Index of the distinct combination of these sizes, per row."""
    numbers = np.zeros(len(rows), dtype=np.intp)
    for name in names:
        values, which = np.unique(getattr(rows, name), return_inverse=True)
        numbers = numbers * len(values) + which
    return np.unique(numbers, return_inverse=True)[1]


def _occurring(numbers: Places) -> Places:
    """The index of each number among the distinct numbers."""
    occurs = np.zeros(numbers.max() + 1, dtype=bool)
    occurs[numbers] = True
    return (np.cumsum(occurs) - 1)[numbers]
