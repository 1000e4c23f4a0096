"""Generates the training plans that a search evaluates, in batches."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.schemas.scenario import Space
from costmodel.equations.parallelism.counts import data_parallel_degree
from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.shared.plan_batch import Block, Mask, Structure
from costmodel.estimate.shared.plan_batch import Split as Named
from costmodel.estimate.training.parallelism.pipeline import LOOPED, chunks_fit
from costmodel.estimate.training.plan_constraints import CHECKS, valid
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.counts import (
    BEHIND_PLACES,
    OF_ITSELF_ONE,
    PLACED,
    SIZES,
    ContextParallel,
    Method,
    Module,
    Offloaded,
    Order,
    Recompute,
    Schedule,
    Where,
    sizes_deciding,
)
from costmodel.ground.record import record
from costmodel.ground.shared_columns import BATCH, CUT, LAYOUT, STAGE, Factored, Places, Plans

V = TypeVar("V")

DEFAULT_MICRO_BATCHES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
LARGEST_DEFAULT_VPP = 8
LARGEST_DEGREE = 1 << 17
STRUCTURES_AT_ONCE = 128
DEFAULT_ORDER: Order = "tp-cp-dp-pp"
DEFAULT_SPLIT: Named = "fitting"
# Tokens of a sequence that a search leaves each rank unasked: NVIDIA's NeMo recipes of Llama 3 8B and 70B train
# sequences of 8,192 with cp 2, so 4,096 each; 4,000 gives 8k the degrees of 8Ki. (Their Llama 3.1 405B has cp 4.)
LEAST_LOCAL_SEQUENCE = 4_000


@record
class SubSpace:
    """Structures (choices other than sizes) that allow almost the same plans, and the sizes to combine with each.

    sizes has no dp where it follows from the number of ranks.
    """

    structures: tuple[Structure, ...]
    ranks: float
    sizes: Mapping[str, tuple[float, ...]]

    def __len__(self) -> int:
        return self.placements * self.behind * len(self.structures)

    @property
    def placements(self) -> int:
        """The number of combinations of sizes that place ranks."""
        return math.prod(len(self.sizes[name]) for name in PLACED if name in self.sizes)

    @property
    def behind(self) -> int:
        """The number of plans for each placement under each structure."""
        return math.prod(len(self.sizes[name]) for name in SIZES if name not in PLACED)

    def under_each(self, rows: Block) -> tuple[Block, ...]:
        """These rows once under every structure."""
        return tuple(map(rows.under, self.structures))


@record
class PartialPlans:
    """Rows of sizes without micro-batches, and the number of candidates of each row per structure.

    Duplicates of another row, and rows that a structure does not allow, count as 0.
    """

    block: Block
    standing: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.block)

    def crossed(self, name: str, values: tuple[float, ...]) -> PartialPlans:
        """Every row combined with every value of another size."""
        return PartialPlans(
            crossed(self.block, name, values), np.repeat(self.standing // len(values), len(values), axis=1)
        )

    def where(self, keep: NDArray[np.bool_]) -> PartialPlans:
        """The rows that a mask keeps."""
        return PartialPlans(self.block.at(keep), self.standing[:, keep])


def stem(
    inputs: TrainingInputs, grid: SubSpace, refused: Counter[str], start: int = 0, stop: int | None = None
) -> PartialPlans:
    """Combinations of degrees and chunks in a range of placements, without those that no micro-batch can make valid."""
    degrees = _block_of_degrees(grid).cut(start, grid.placements if stop is None else stop)
    rows = PartialPlans(degrees, np.full((len(grid.structures), len(degrees)), grid.behind))
    known: set[str] = set()
    for names in (PLACED, BEHIND_PLACES, ("vpp",)):
        for name in names if known else ():
            rows = rows.crossed(name, grid.sizes[name])
        rows = _rows_that_pass(inputs, grid, rows, known | {*names}, known, refused)
        known |= {*names}
    return rows


def candidates(grid: SubSpace, at_once: int = 1 << 14) -> Iterator[Block]:
    """Every plan of a sub-space, valid or not, in blocks."""
    degrees = _block_of_degrees(grid)
    for name in BEHIND_PLACES:
        degrees = crossed(degrees, name, grid.sizes[name])
    vpp, micro_batch = grid.sizes["vpp"], grid.sizes["micro_batch"]
    step = max(1, at_once // (len(vpp) * len(micro_batch)))
    for placed in grid.under_each(degrees):
        for start in range(0, len(degrees), step):
            yield crossed(crossed(placed.cut(start, start + step), "vpp", vpp), "micro_batch", micro_batch)


def _block_of_degrees(grid: SubSpace) -> Block:
    """Every combination of the degrees of a sub-space, as a block."""
    listed = np.meshgrid(*(grid.sizes.get(name, (0.0,)) for name in PLACED), indexing="ij")
    columns = dict(zip(PLACED, (values.ravel() for values in listed), strict=True))
    if "dp" not in grid.sizes:
        columns["dp"] = np.asarray(data_parallel_degree(grid.ranks, columns["tp"], columns["cp"], columns["pp"]))
    ones = np.ones_like(columns["tp"])
    return Block(grid.structures[0], *(columns.get(name, ones) for name in SIZES))


def crossed(rows: Block, name: str, values: tuple[float, ...]) -> Block:
    """Every row combined with every value of another size."""
    columns: dict[str, Any] = {size: np.repeat(getattr(rows, size), len(values)) for size in SIZES}
    columns[name] = np.tile(np.asarray(values), len(rows))
    return Block(rows.structure, **columns)


def _rows_that_pass(
    inputs: TrainingInputs,
    grid: SubSpace,
    rows: PartialPlans,
    known: set[str],
    before: set[str],
    refused: Counter[str],
) -> PartialPlans:
    """The rows that pass the checks that can be made with the sizes known so far."""
    checks = [check for check in CHECKS if check.needs <= known and not (before and check.needs <= before)]
    standing, counts = valid(inputs, grid.under_each(rows.block), checks, rows.standing)
    refused.update(counts)
    return PartialPlans(rows.block, standing).where(np.any(standing, axis=0))


def divisors(number: float, largest: float) -> tuple[float, ...]:
    """The divisors of a whole number, ascending, up to `largest`."""
    bound = int(min(number, largest, LARGEST_DEGREE))
    return tuple(float(value) for value in range(1, bound + 1) if number % value == 0)


def chunk_counts(layers: float, pp: tuple[float, ...]) -> tuple[float, ...]:
    """Numbers of chunks that divide the layers (alone, or with head and embedding) for some pp."""
    with_ends = [
        value
        for value in range(2, LARGEST_DEFAULT_VPP + 1)
        for ends in (1, 2)
        if any(stages > 1 and (layers + ends) % (value * stages) == 0 for stages in pp)
    ]
    return tuple(sorted({*divisors(layers, LARGEST_DEFAULT_VPP), *map(float, with_ends)}))


def default_splits(layers: float, pp: tuple[float, ...], schedule: Schedule) -> list[Named]:
    """The splits of layers to search: even ones; uneven ones too if few values of pp divide the layers.

    Uneven splits are left out where a rank's chunks would be unequal: no closed form models how they wait for each
    other (N010).
    """
    fit = [stages for stages in pp if any((layers + ends) % stages == 0 for ends in (0, 1, 2))]
    return [DEFAULT_SPLIT] if schedule in LOOPED or 2 * len(fit) >= len(pp) else [DEFAULT_SPLIT, "spread"]


def grids(inputs: TrainingInputs) -> Iterator[SubSpace]:
    """Every structure of the scenario's space with its sizes; structures with the same plans share a sub-space."""
    space, stack = inputs.case.space, inputs.stack
    ranks = float(inputs.ranks)
    layers = float(layer_count(inputs.model))
    tp = distinct(space.tp or (divisors(ranks, float(inputs.domain)) if stack.has("tp") else (1.0,)))
    pp = distinct(space.pp or (divisors(ranks, layers) if stack.has("pp") else (1.0,)))
    vpp = distinct(space.vpp or chunk_counts(layers, pp))
    micro_batch = distinct(space.micro_batch or DEFAULT_MICRO_BATCHES)
    cp = distinct(space.cp or context_degrees(inputs))
    sizes = {name: distinct(getattr(space, name) or (1.0,)) for name in OF_ITSELF_ONE}
    sizes |= {"tp": tp, "pp": pp, "cp": cp, "ep": distinct(_expert_degrees(inputs, space)), "micro_batch": micro_batch}
    sizes |= {"dp": distinct(space.dp)} if space.dp else {}
    schedules: list[Schedule] = space.schedule or [name for name in stack.schedules if name != "gpipe"]
    ways: tuple[ContextParallel, ...] = distinct(space.cp_type or stack.context_parallel or ["p2p"])
    families = itertools.product(
        [(each, split) for each in distinct(schedules) for split in _splits(space, default_splits(layers, pp, each))],
        distinct(space.sequence_parallel or [stack.sequence_parallel]),
        ways if max(cp) > 1 else ways[:1],  # the first stands for all where no sequence is shared
    )
    for (schedule, splits), sequence_parallel, cp_type in families:
        chunks = tuple(value for value in vpp if chunks_fit(schedule, value)) or vpp
        first = Structure(1, "none", schedule, sequence_parallel, DEFAULT_ORDER, cp_type)
        structures = _alike(inputs, space, first, splits)
        shared = cp if cp_type == ways[0] else tuple(degree for degree in cp if degree > 1)
        while few := tuple(itertools.islice(structures, STRUCTURES_AT_ONCE)):
            yield SubSpace(few, ranks, {**sizes, "vpp": chunks, "cp": shared})


Split = tuple[Named, float | None, float | None]


def _alike(inputs: TrainingInputs, space: Space, first: Structure, splits: Sequence[Split]) -> Iterator[Structure]:
    """Structures that differ only in choices that hardly affect which sizes are valid."""
    zeros, orders = distinct(space.zero or inputs.stack.zero), distinct(space.order or [DEFAULT_ORDER])
    lists = (list(_recomputes(inputs, space)), list(_offloads(space)), splits, zeros, orders, list(_sums(space)))
    for recomputed, offloaded, (split, ahead, behind), zero, order, summed in itertools.product(*lists):
        (recompute, modules, count, method), (offload, where, layers) = recomputed, offloaded
        yield replace(
            first,
            recompute=recompute,
            recompute_modules=modules,
            recompute_layers=count,
            recompute_method=method,
            offload=offload or inputs.stack.offloaded_by_itself(recompute),
            offload_to=where,
            offload_layers=layers,
            split=split,
            first_stage_layers=ahead,
            last_stage_layers=behind,
            zero=zero,
            order=order,
            **summed,
        )


def _sums(space: Space) -> Iterator[dict[str, Any]]:
    """Choices of gradient compression, synchronisation and replica shares; the defaults if none are listed."""
    listed = {"compression": space.compression, "sync": space.sync, "shares": space.shares}
    named = {key: distinct(" ".join(text.split()) for text in texts) for key, texts in listed.items() if texts}
    yield from (dict(zip(named, values, strict=True)) for values in itertools.product(*named.values()))


def _splits(space: Space, default: Sequence[Named]) -> Iterator[Sequence[Split]]:
    """The splits of layers: each named one, and all listed pairs of first and last stage."""
    stated = space.first_stage_layers or space.last_stage_layers
    usual = [DEFAULT_SPLIT] if stated else default
    yield from ([(split, None, None)] for split in distinct(usual if space.split is None else space.split))
    if stated:
        firsts: Sequence[float | None] = space.first_stage_layers or [None]
        lasts: Sequence[float | None] = space.last_stage_layers or [None]
        yield distinct(("stated", first, last) for first in firsts for last in lasts)


def _expert_degrees(inputs: TrainingInputs, space: Space) -> tuple[float, ...]:
    """The degrees of ep that divide the experts of every layer; 1 without experts."""
    counts = [kind.experts.count for kind in inputs.model.layers if kind.experts is not None]
    if space.ep is not None or not counts or not inputs.stack.has("ep"):
        return tuple(space.ep or (1.0,))
    return divisors(float(math.gcd(*map(int, counts))), float(inputs.ranks))


def context_degrees(inputs: TrainingInputs) -> tuple[float, ...]:
    """The default degrees of context parallelism: 1, and those that leave each rank enough of a sequence."""
    if not (inputs.stack.context_parallel and inputs.stack.has("cp")):
        return (1.0,)
    return divisors(float(inputs.ranks), float(inputs.sequence) / LEAST_LOCAL_SEQUENCE) or (1.0,)


def distinct(values: Iterable[V]) -> tuple[V, ...]:
    """Values without duplicates."""
    return tuple(dict.fromkeys(values))


def _sets(values: Iterable[Sequence[V]]) -> Iterable[tuple[V, ...]]:
    """Collections without duplicates, ignoring order."""
    found: dict[frozenset[V], tuple[V, ...]] = {}
    for each in values:
        found.setdefault(frozenset(each), tuple(each))
    return found.values()


def _offloads(space: Space) -> Iterator[tuple[tuple[Offloaded, ...], Where, float | None]]:
    """Offload choices: the states, where they go, and for how many layers activations are offloaded."""
    layers: Sequence[float | None] = space.offload_layers or [None]
    yield from itertools.product(_sets(space.offload or [[]]), distinct(space.offload_to or ["cpu"]), distinct(layers))


Again = tuple[Recompute, tuple[Module, ...] | None, float | None, Method]


def _recomputes(inputs: TrainingInputs, space: Space) -> Iterator[Again]:
    """Recompute choices: each mode, selective with each listed set of modules, full with each number of layers."""
    modes = [*distinct(space.recompute or _recompute(inputs))]
    methods: Sequence[Method] = distinct(space.recompute_method or ["block"])
    if space.recompute_modules and "selective" not in modes:
        modes.append("selective")
    for mode in modes:
        if mode == "selective" and space.recompute_modules:
            yield from ((mode, modules, None, methods[0]) for modules in _sets(space.recompute_modules))
        elif mode == "full" and space.recompute_layers:
            counted = itertools.product(distinct(space.recompute_layers), methods)
            yield from ((mode, None, count, method) for count, method in counted)
        else:
            yield mode, None, None, methods[0]


def _recompute(inputs: TrainingInputs) -> list[Recompute]:
    """The stack's recompute modes that drop something."""
    return [mode for mode in inputs.stack.recompute if mode == "none" or inputs.dropped(mode) != "nothing"]


BLOCK_ROWS = 32_768  # columns of so many plans lie in a core's cache
WORTH_FACTORING = 512  # plans; of fewer a figure for each takes no longer than to see which they share
OF_CUT = sizes_deciding("layer")
OF_STAGE = sizes_deciding("layer", "stage")
LATE = tuple(check for check in CHECKS if "micro_batch" in check.needs)


def valid_blocks(
    inputs: TrainingInputs, grid: SubSpace, rows: PartialPlans, refused: Counter[str]
) -> Iterator[tuple[Block, Mask]]:
    """Yields the valid plans that extend partial plans, with a mask; counts the refused ones by reason.

    Batches that repeat the same plans under another structure follow each other and share common results.
    """
    mask = _valid_micro_batches(inputs, grid, rows, refused)
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


def _valid_micro_batches(inputs: TrainingInputs, grid: SubSpace, rows: PartialPlans, refused: Counter[str]) -> Mask:
    """For each layout, the mask of its valid micro-batches; equivalent layouts are tested once."""
    standing = rows.standing.sum(axis=0) // len(grid.sizes["micro_batch"])
    keep = np.ones((len(rows), len(grid.sizes["micro_batch"])), dtype=bool)
    for check in LATE:
        alike = _combination_index(rows.block, sorted(check.needs - {"micro_batch"}))
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
    return whole if len(whole) < WORTH_FACTORING else _factored_block(whole, layouts, layout, micro_batch)


def _factored_block(whole: Block, layouts: Block, layout: Places, micro_batch: Places) -> Block:
    """A block whose columns store shared values once, with the layout and micro-batch of each plan."""
    of_layout = {
        CUT: _combination_index(layouts, OF_CUT),
        STAGE: _combination_index(layouts, OF_STAGE),
        LAYOUT: np.arange(len(layouts)),
    }
    batches = int(micro_batch.max()) + 1
    chunked = LAYOUT if len(layouts) > of_layout[STAGE].max() + 1 else STAGE
    batched = BATCH if batches > 1 else CUT
    of_plan = {level: which[layout] for level, which in of_layout.items() if level <= chunked}
    if batched:
        numbers = {level: which * batches + micro_batch for level, which in of_plan.items() if level < chunked}
        of_plan |= {level | BATCH: _distinct_index(number) for level, number in numbers.items()}
    plans = Plans(of_plan, chunked | batched)
    levels = dict.fromkeys(OF_STAGE, STAGE) | dict.fromkeys(OF_CUT, CUT) | {"vpp": chunked, "micro_batch": batched}
    examples = {level: plans.examples(level) for level in set(levels.values())}
    columns = {name: Factored(getattr(whole, name)[examples[level]], level, plans) for name, level in levels.items()}
    return replace(whole, known={}, **cast(dict[str, Any], columns))


def _combination_index(rows: Block, names: Iterable[str]) -> Places:
    """For each row, the index of its distinct combination of these sizes."""
    numbers = np.zeros(len(rows), dtype=np.intp)
    for name in names:
        values, which = np.unique(getattr(rows, name), return_inverse=True)
        numbers = numbers * len(values) + which
    return np.unique(numbers, return_inverse=True)[1]


def _distinct_index(numbers: Places) -> Places:
    """The index of each number among the distinct numbers."""
    occurs = np.zeros(numbers.max() + 1, dtype=bool)
    occurs[numbers] = True
    return (np.cumsum(occurs) - 1)[numbers]
