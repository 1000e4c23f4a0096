"""Plans a second, where a plan's time goes, and the physical bound of it: `python tests/speed/plans.py [workers]`.

Evaluated in full means time, memory and communication of each; candidates refused by name are counted apart. Seconds
are of the clock, CPU seconds those of all processes, which a busy machine distorts less.

The bound is what the element operations of a plan's evaluation take at the rate that bare NumPy reaches on this machine
in the same run, operation by operation on arrays in cache. It is counted twice: for the operations that are done, on
what plans share, and for all that a plan has when it is alone. Beside it stands what the bytes of all operands and
results would take, did they go through memory.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from costmodel.documents.reader.load_scenario import load
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.estimate.training_answer import evaluate_training as evaluation
from costmodel.explore.search import training_space as searching
from costmodel.explore.search.search import inputs_of_case, search
from costmodel.explore.search.training_candidates import stem, valid_blocks
from costmodel.explore.search.training_space import GridPart, TrainingSpace, grid_parts
from costmodel.ground.counts import SIZES

NATURAL = ("llama-3-70b-512", "gpt-3-175b-1024", "deepseek-v3-2048")
ELEMENTS = 16_384  # of the bare operations: a few such arrays lie in a core's own cache
LARGE = 1 << 25  # elements of what does not


class Counted(np.ndarray):
    """An array whose operations are counted: elements of results and bytes of operands and results, by operation."""

    elements: ClassVar[Counter[str]] = Counter()
    nbytes_moved: ClassVar[int] = 0

    @classmethod
    def saw(cls, name: str, result: Any, *inputs: Any) -> Any:
        """Count an operation and hand on its result."""
        bare = np.asarray(result)
        cls.elements[name] += bare.size
        cls.nbytes_moved += bare.nbytes + sum(item.nbytes for item in inputs if isinstance(item, np.ndarray))
        return bare.view(cls)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        bare = [_bare(item) for item in inputs]
        return self.saw(ufunc.__name__, getattr(ufunc, method)(*bare, **kwargs), *bare)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        bare = [_bare(item) for item in args]
        result = function(*bare, **kwargs)
        return self.saw(function.__name__, result, *bare) if function is np.where else result

    def take(self, places: Any) -> Any:
        return self.saw("take", _bare(self).take(places), _bare(self), places)


def _bare(item: Any) -> Any:
    return item.view(np.ndarray) if isinstance(item, Counted) else item


def counted(blocks: Iterator[Block], inputs: TrainingInputs) -> tuple[Counter[str], int]:
    """Elements by operation, and bytes, of evaluating blocks."""
    Counted.elements, Counted.nbytes_moved = Counter(), 0
    for block in blocks:
        evaluation.evaluate(inputs, block)
    return Counted.elements, Counted.nbytes_moved


def watched(block: Block) -> Block:
    """The block with its columns counted; what blocks share stays shared."""
    for name in SIZES:
        column: Any = getattr(block, name)
        if not isinstance(column.values, Counted):
            column.values = column.values.view(Counted)
    return block


def alone(block: Block) -> Block:
    """The same plans, each with figures of its own."""
    return Block(block.structure, *(np.asarray(getattr(block, name)).view(Counted) for name in SIZES))


def bare_rates(names: Iterator[str]) -> dict[str, float]:
    """Seconds an element of each operation on arrays in cache."""
    left, right = np.random.default_rng(1).uniform(1.0, 9.0, (2, ELEMENTS))
    places = np.sort(np.random.default_rng(2).integers(0, ELEMENTS, ELEMENTS))
    special = {"take": lambda: left.take(places), "where": lambda mask=left > right: np.where(mask, left, right)}
    masks = {"bitwise_or", "bitwise_and", "invert", "logical_or", "logical_and"}

    def work(name: str) -> Callable[[], Any]:
        ufunc = getattr(np, name, None)
        if name in special:
            return special[name]
        inputs = (left > right, left < right) if name in masks else (left, right)
        return lambda: ufunc(*inputs[: ufunc.nin])

    return {name: _best(work(name), 200) / ELEMENTS for name in names}


def _best(work: Callable[[], Any], times: int) -> float:
    """The least processor time of a call, in runs of so many."""
    least = float("inf")
    for _ in range(5):
        began = time.process_time()
        for _ in range(times):
            work()
        least = min(least, (time.process_time() - began) / times)
    return least


def memory_bandwidth() -> float:
    """Bytes a second of adding two arrays that lie in no cache."""
    one, other, result = np.ones(LARGE), np.ones(LARGE), np.ones(LARGE)
    return 3 * result.nbytes / _best(lambda: np.add(one, other, out=result), 1)


@contextmanager
def timed(spent: Counter[str], *names: tuple[Any, str, str]) -> Iterator[None]:
    """Processor time of functions, by what they do."""
    kept = [getattr(module, name) for module, name, _ in names]

    def clocked(function: Callable[..., Any], label: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            began = time.process_time()
            try:
                return function(*args)
            finally:
                spent[label] += time.process_time() - began

        return call

    for (module, name, label), function in zip(names, kept, strict=True):
        setattr(module, name, clocked(function, label))
    try:
        yield
    finally:
        for (module, name, _), function in zip(names, kept, strict=True):
            setattr(module, name, function)


def profile(inputs: TrainingInputs) -> tuple[Counter[str], list[GridPart], int]:
    """CPU seconds of a search on one process, by what they are spent on; its pieces; plans evaluated."""
    spent: Counter[str] = Counter()
    found = list(grid_parts(inputs))
    space, evaluated = TrainingSpace(10, inputs.case.scenario.objective), 0
    parts = ((evaluation, "stage_parameters", "parameters"), (evaluation, "ledger", "memory"))
    steps = ((evaluation, "training_step", "time and communication"), (searching, "evaluate", "evaluate"))
    stems = (searching, "stem", "candidates thinned by degrees and chunks")
    began = time.process_time()
    with timed(spent, stems, *parts, *steps):
        evaluated = sum(space.searched(inputs, piece, None).evaluated for piece in found)
    rest = time.process_time() - began - spent["evaluate"] - spent[stems[2]]
    spent["other results"] = spent.pop("evaluate") - sum(spent[label] for *_, label in (*parts, steps[0]))
    spent["micro-batches, ranking"] = rest
    return spent, found, evaluated


def bound(name: str) -> None:
    """Print where the time of a scenario's plans goes and how near that is to what the machine can do."""
    inputs = inputs_of_case(load(name))
    runs = [profile(inputs) for _ in range(3)]
    spent, found, plans = min(runs, key=lambda run: run[0].total())
    print(f"\n{name} on one process: CPU nanoseconds a plan, of {plans:,} plans")
    for label, seconds in spent.items():
        print(f"  {label:44} {seconds / plans * 1e9:6.0f}")
    print(f"  {'all':44} {spent.total() / plans * 1e9:6.0f}")
    stems = [(piece.grid, stem(inputs, piece.grid, Counter(), piece.start, piece.stop)) for piece in found]
    blocks = [block for grid, rows in stems for block, _ in valid_blocks(inputs, grid, rows, Counter())]
    few = [alone(block) for block in blocks[:: max(1, len(blocks) // 8)]]
    on_their_own = counted(iter(few), inputs)
    shared = counted(map(watched, blocks), inputs)
    rates = bare_rates(iter({*shared[0], *on_their_own[0]}))
    through_memory = memory_bandwidth()
    print(f"  bare NumPy: an addition {rates['add'] * 1e9:.2f} ns an element; memory {through_memory / 1e9:.1f} GB/s")
    for label, (elements, nbytes), count in (
        ("as done, on what plans share", shared, plans),
        ("all that a plan has alone", on_their_own, sum(map(len, few))),
    ):
        least = sum(amount * rates[operation] for operation, amount in elements.items()) / count
        moved = nbytes / count / through_memory
        print(
            f"  {label:28} {elements.total() / count:5.0f} element operations: at least {least * 1e9:4.0f} ns a plan,"
            f" ours is {spent.total() / plans / least:.1f} × that"
            f"   ({nbytes / count:,.0f} B, {moved * 1e9:.0f} ns through memory)"
        )


def main() -> None:
    workers = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    heads = ("candidates", "evaluated", "seconds", "CPU s", "plans/s", "plans/CPU s")
    print("{:18} {:>11} {:>10} {:>8} {:>7} {:>10} {:>11}".format("", *heads))
    for name in (*NATURAL, "speed"):
        for processes in [1, workers] if name == "speed" else [1]:
            before = os.times()
            found = search(load(name), workers=processes)
            used = sum(os.times()[:4]) - sum(before[:4])
            tally = found.tally
            print(
                f"{name:18} {tally.candidates:11,} {tally.evaluated:10,} {found.elapsed:8.2f} {used:7.2f}"
                f" {tally.evaluated / found.elapsed:10,.0f} {tally.evaluated / used:11,.0f}  {processes} process(es)"
            )
    bound("speed")


if __name__ == "__main__":
    main()
