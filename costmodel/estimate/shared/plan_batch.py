"""Batches of plans: columns of sizes, and numbers by stage and by direction."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, fields, replace
from typing import Any, Concatenate, Generic, Literal, NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from costmodel.equations.parallelism.counts import remainder, shard_degree
from costmodel.equations.parallelism.recompute import mixed
from costmodel.ground.counts import (
    OF_ITSELF_ONE,
    SIZES,
    ContextParallel,
    Method,
    Module,
    Offloaded,
    Order,
    Recompute,
    Schedule,
    Where,
    Zero,
)
from costmodel.ground.counts import Split as Written
from costmodel.ground.equation import Number, known_as, term, tracing
from costmodel.ground.record import record

Rows = NDArray[np.float64]
Split = Written | Literal["fitting", "stated"]  # fitting: as few ends lighter as divide; stated: by the counts


@record
class Structure:
    """The choices that all rows of a block share."""

    zero: Zero = 1
    recompute: Recompute = "none"
    schedule: Schedule = "1f1b"
    sequence_parallel: bool = True
    order: Order = "tp-cp-dp-pp"
    cp_type: ContextParallel = "p2p"
    split: Split = "fitting"
    first_stage_layers: float | None = None
    last_stage_layers: float | None = None
    recompute_modules: tuple[Module, ...] | None = None
    recompute_layers: float | None = None
    recompute_method: Method = "block"
    offload: tuple[Offloaded, ...] = ()
    offload_to: Where = "cpu"
    offload_layers: float | None = None
    compression: str = "none"
    sync: str = "all-reduce"
    shares: str = "proportional"


# Defaults for a plan: splits that follow from the other sizes, and the choices of a plan that does not state them.
_UNWRITTEN = (
    ("split", "fitting"),
    ("split", "stated"),
    ("recompute_method", "block"),
    ("offload", ()),
    ("offload_to", "cpu"),
    ("compression", "none"),
    ("sync", "all-reduce"),
    ("shares", "proportional"),
)


def plan_to_mapping(structure: Structure) -> dict[str, Any]:
    """The keys and values of a plan with these choices."""
    made = {name: value for name, value in vars(structure).items() if value is not None}
    stated = {name: value for name, value in made.items() if (name, value) not in _UNWRITTEN}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in stated.items()}


@record
class Block:
    """A batch of plans: columns of sizes with one row per plan, and one structure of choices for all.

    Example: two plans with ZeRO 1, one with dp 8 and tp 2, one with dp 4 and tp 4, are a block with `structure.zero ==
    1`, `dp == [8, 4]` and `tp == [2, 4]`. An equation called with `block.tp` returns one result per plan. Plans with
    ZeRO 3 need another block. `known` stores memoised results, see `memoized`.
    """

    structure: Structure
    dp: Rows
    tp: Rows
    pp: Rows
    vpp: Rows
    micro_batch: Rows
    ep: Rows
    etp: Rows
    cp: Rows
    dp_replicate: Rows
    known: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False, kw_only=True)  # see once

    def __len__(self) -> int:
        return len(self.tp)

    def cut(self, start: int, stop: int) -> Block:
        """The rows from `start` to `stop`."""
        return self.at(slice(start, stop))

    def at(self, places: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Block:
        """The rows at these places, or where a mask is true."""
        return Block(self.structure, *(getattr(self, name)[places] for name in SIZES))

    def chosen(self, choices: tuple[str, ...]) -> Structure:
        """The structure with only these choices; all others have their defaults, so that plans share cached results."""
        return _structure_of_choices(self.structure, choices)

    def under(self, structure: Structure) -> Block:
        """The same plans with another structure of choices."""
        return Block(structure, *(getattr(self, name) for name in SIZES), known=self.known)

    @functools.cached_property
    def shards(self) -> Number:
        """Ranks that shard the states of the same weights under ZeRO: dp and cp, without HSDP replicas."""
        return shard_degree(self.dp, self.cp, self.dp_replicate)

    @property
    def sequence_ranks(self) -> Number:
        """Ranks over which norms and residuals are sharded: tp with sequence parallelism, else 1."""
        return self.tp if self.structure.sequence_parallel else 1.0


@functools.lru_cache(maxsize=1024)
def _structure_of_choices(structure: Structure, choices: tuple[str, ...]) -> Structure:
    return Structure(**{name: getattr(structure, name) for name in choices})


PIPELINE_INSIDE: Order = "tp-cp-pp-dp"


def one_row(structure: Structure, **sizes: float) -> Block:
    """A block of a single plan; sizes of rare kinds of parallelism default to 1."""
    values = {**dict.fromkeys(OF_ITSELF_ONE, 1.0), **sizes}
    return Block(structure, *(np.array([values[name]], dtype=np.float64) for name in SIZES))


def rows_of(blocks: Sequence[Block]) -> Block:
    """The plans of blocks that share a structure, as one block."""
    return Block(blocks[0].structure, *(np.concatenate([getattr(block, name) for block in blocks]) for name in SIZES))


def local_sequence(sequence: Number, block: Block) -> Number:
    """Tokens of a sequence on one rank of the context-parallel group."""
    return sequence / block.cp


def single_rank(ranks: Number) -> bool:
    """Whether the group has only one rank in every row of the block."""
    return bool(np.all(ranks == 1))


# Seconds of one micro-batch, forward and backward, by category.


@record
class TimeByCategory:
    """Seconds of one micro-batch in one direction, by category."""

    matmul: Number = 0.0
    attention: Number = 0.0
    memory_bound: Number = 0.0
    launch: Number = 0.0
    tp: Number = 0.0
    cp: Number = 0.0
    ep: Number = 0.0
    dp: Number = 0.0

    def __add__(self, other: TimeByCategory) -> TimeByCategory:
        return TimeByCategory(*(summed(getattr(self, name), getattr(other, name)) for name in PASS_TERMS))

    def each(self, change: Callable[[Number], Number]) -> TimeByCategory:
        """Apply a function to every category."""
        return TimeByCategory(*(_labelled_change(name, change, getattr(self, name)) for name in PASS_TERMS))

    def computing(self, slowdown: Number) -> TimeByCategory:
        """The times with compute multiplied by a slowdown."""
        names = ("matmul", "attention", "memory_bound")
        longer = {name: _labelled_change(name, lambda time: slowdown * time, getattr(self, name)) for name in names}
        return replace(self, **longer)

    @functools.cached_property
    def device(self) -> Number:
        """Time of compute on the device."""
        return summed(self.matmul, self.attention, self.memory_bound)

    @functools.cached_property
    def total(self) -> Number:
        """The sum of all categories."""
        return summed(self.device, self.launch, self.tp, self.cp, self.ep, self.dp)


def nothing(value: Number) -> bool:
    """Whether a category was never set; arithmetic on unset columns is skipped to save time."""
    return isinstance(value, float) and value == 0


def summed(first: Number, *others: Number) -> Number:
    """The sum of the categories that were set."""
    total = first
    for other in others:
        if not (isinstance(other, float) and other == 0):
            total = other if isinstance(total, float) and total == 0 else total + other
    return total


def largest(first: Number, *others: Number) -> Number:
    """The largest of several values, row by row."""
    for other in others:
        first = np.maximum(first, other)
    return first


def added(parts: Mapping[str, Number], names: Sequence[str]) -> Number:
    """The sum of the named parts; the trace shows each by its name."""
    return summed(*(known_as(name, parts[name]) for name in names))


def _labelled_change(label: str, change: Callable[[Number], Number], value: Number) -> Number:
    """The changed value, in a trace under this label; an unset value stays unset."""
    if nothing(value):
        return value
    with term(label):
        return change(value)


PASS_TERMS = tuple(field.name for field in fields(TimeByCategory))


@record
class ForwardBackward:
    """Times of the forward and the backward pass."""

    forward: TimeByCategory
    backward: TimeByCategory
    weight: TimeByCategory | None = None  # gradients of the weights, where a schedule defers them

    def __add__(self, other: ForwardBackward) -> ForwardBackward:
        weight = other.weight if self.weight is None else self.weight
        if self.weight is not None and other.weight is not None:
            weight = self.weight + other.weight
        return ForwardBackward(self.forward + other.forward, self.backward + other.backward, weight)

    @property
    def undeferred(self) -> ForwardBackward:
        """The times without separate weight gradients."""
        return ForwardBackward(self.forward, self.backward)

    @property
    def deferred(self) -> Number:
        """The part of backward that a schedule can defer."""
        return 0.0 if self.weight is None else self.weight.device

    def each(self, change: Callable[[Number], Number]) -> ForwardBackward:
        """Apply a function to every category of both passes."""
        with term("forward"):
            forward = self.forward.each(change)
        with term("backward"):
            backward = self.backward.each(change)
        with term("weight gradient"):
            weight = None if self.weight is None else self.weight.each(change)
        return ForwardBackward(forward, backward, weight)

    def computing(self, slowdown: Number) -> ForwardBackward:
        """The times with compute multiplied by a slowdown."""
        with term("forward"):
            forward = self.forward.computing(slowdown)
        with term("backward"):
            backward = self.backward.computing(slowdown)
        with term("weight gradient"):
            weight = None if self.weight is None else self.weight.computing(slowdown)
        return ForwardBackward(forward, backward, weight)

    def mixed(self, other: ForwardBackward, share: Number) -> ForwardBackward:
        """The mean of two layers, weighted by a share; the weight gradient is taken from this layer."""
        forward, backward = (
            TimeByCategory(*(mixed(share, getattr(one, name), getattr(rest, name)) for name in PASS_TERMS))
            for one, rest in ((self.forward, other.forward), (self.backward, other.backward))
        )
        return ForwardBackward(forward, backward, self.weight)

    @functools.cached_property
    def total(self) -> Number:
        """Time of forward and backward together."""
        return self.forward.total + self.backward.total


# Boolean masks of refused rows, and helpers to build them.

Mask = NDArray[np.bool_]


def none(block: Block) -> Mask:
    """A mask that is false in every row."""
    return np.zeros(len(block), dtype=bool)


def all_if(block: Block, wrong: bool) -> Mask:
    """A mask with one value for every row, for a rule that depends only on the structure."""
    return np.full(len(block), wrong)


def any_of(masks: Iterable[Mask]) -> Mask:
    """A mask that is true where any of several masks is."""
    union: Mask = np.asarray(False)
    for mask in masks:
        union = union | mask
    return union


def leaves_rest(amount: Number, parts: Number) -> Mask:
    """Rows where an amount is not divisible by a number of parts."""
    return np.asarray(remainder(amount, parts) != 0)


# Memoises work shared by structures that differ only in irrelevant choices.

P = ParamSpec("P")
S = TypeVar("S")
R = TypeVar("R")
Work = Callable[Concatenate[S, Block, P], R]

RECOMPUTE = ("recompute", "recompute_modules", "recompute_layers", "recompute_method")
OFFLOAD = ("offload", "offload_to", "offload_layers")
SPLIT = ("split", "first_stage_layers", "last_stage_layers", "schedule")


def memoized(*choices: str) -> Callable[[Work[S, P, R]], Work[S, P, R]]:
    """Decorator: evaluate work on a block once for all structures with the same plans and the same values of `choices`.

    Example: `@memoized("recompute", "recompute_modules")` on `layer_time(inputs, block)` evaluates it once for each
    recompute mode. A block with another `schedule` but the same recompute mode gets the stored result. All other
    choices are reset to their defaults before the call, so that the result cannot depend on them. Further arguments are
    compared by identity, numbers by value.
    """

    def decorate(work: Work[S, P, R]) -> Work[S, P, R]:
        """The function with its cache."""

        @functools.wraps(work)
        def call(inputs: S, block: Block, /, *others: P.args, **named: P.kwargs) -> R:
            """The cached result for this block and these choices, computed at the first call."""
            chosen = block.chosen(choices)
            if tracing():
                return work(inputs, block.under(chosen), *others, **named)
            key = (work, chosen, id(inputs), *named, *map(_identity, (*others, *named.values())))
            if key not in block.known:
                held = (inputs, others, named)  # so that no other objects come to have their identities
                block.known[key] = work(inputs, block.under(chosen), *others, **named), held
            result: R = block.known[key][0]
            return result

        return call

    return decorate


def _identity(item: object) -> object:
    """The identity of an input: a number by its value, any other object by its id."""
    return (item,) if type(item) is float else id(item)


T = TypeVar("T")
U = TypeVar("U")


class PerStage(NamedTuple, Generic[T]):
    """A value for the first, a middle and the last rank of a pipeline.

    Example: a pipeline of 8 stages has the embedding on the first rank and the head on the last. So its parameters are
    `PerStage(first=layers + embedding, middle=layers, last=layers + head)`, and six ranks share `middle`. If all ranks
    are alike, the three fields are the same object, and `each` evaluates it once.
    """

    first: T
    middle: T
    last: T

    def each(self, change: Callable[[T], U]) -> PerStage[U]:
        """Apply a function to each of the three; once if all are the same object."""
        middle = change(self.middle)
        if self.first is self.middle is self.last:
            return PerStage(middle, middle, middle)
        return PerStage(change(self.first), middle, change(self.last))


STAGES = PerStage._fields


def stages_of(pp: float) -> tuple[int, ...]:
    """Indices into STAGES that exist in a pipeline with the given number of ranks."""
    return {1: (0,), 2: (0, 2)}.get(int(pp), (0, 1, 2))


def same_on_all_stages(value: T) -> PerStage[T]:
    """One value for all stages."""
    return PerStage(value, value, value)


def value_of_largest(most: PerStage[Number], of: PerStage[Number]) -> Number:
    """The value of `of` on the rank with the largest `most`; the middle rank if equal."""
    if of.first is of.middle is of.last:
        return of.middle
    last = np.where(most.last >= most.first, of.last, of.first)
    return np.where(most.middle >= np.maximum(most.first, most.last), of.middle, last)
