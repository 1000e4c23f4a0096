"""Keys that can remove a reason against a plan, and the values of each that are worth a try, the nearest first."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, get_args

from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.shared.reasons import REFUSALS
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.failed_node import nearest_ranks
from costmodel.ground.choices import ContextParallel, Recompute, Schedule, Split, Zero
from costmodel.ground.plan_sizes import SIZES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from costmodel.estimate.evaluate.predict import Answer
    from costmodel.estimate.training.training_inputs import TrainingInputs

_FAR = 64
# Keys of the plan that make it smaller or faster.
_LAYOUT = "zero micro_batch recompute tp pp vpp schedule sequence_parallel cp ep offload offload_to"
LAYOUT = [f"plan.{key}" for key in _LAYOUT.split()]
# What removes a reason against the whole run.
OF_RUN: dict[str, tuple[tuple[str, ...], ...]] = {
    "R001": (("run.checkpoint.interval=best",), ("run.checkpoint.steps=null",)),
    "R002": (("run.checkpoint.mode=async",), ("run.checkpoint.mode=sync",)),
    "R007": (
        *((f"run.{key}=null",) for key in ("checkpoint.block", "checkpoint.storage.read", "restart.start", "planned")),
        ("run.evaluation=0",),
        ("run.checkpoint.mode=memory",),
    ),
}
_FIXES = " ".join(reason.fixes for reason in REFUSALS.values()).split()
_EVERY = tuple(dict.fromkeys([*_FIXES, *LAYOUT, "cluster.node.accelerators"]))
OTHERS = [path for path in _EVERY if path.startswith("plan.") and path not in LAYOUT]
_CHOICES: dict[str, tuple[Any, ...]] = {
    "zero": get_args(Zero),
    "recompute": get_args(Recompute),
    "schedule": get_args(Schedule),
    "cp_type": get_args(ContextParallel),
    "split": get_args(Split),
    "sequence_parallel": (True, False),
    "offload_to": ("cpu",),
    "shares": ("equal", "proportional", "stages"),
    "sync": ("all-reduce",),
    "compression": ("int8", "fp16", "none"),
    **dict.fromkeys(("offload_layers", "recompute_layers", "first_stage_layers", "last_stage_layers"), (None,)),
}


def paths(code: str) -> tuple[list[str], list[str]]:
    """Keys to try first against a reason, and all others."""
    first = REFUSALS[code].fixes.split() if code in REFUSALS else []
    return first, [path for path in _EVERY if path not in first]


def values(answer: Answer, path: str) -> Iterable[Any]:
    """Values to try, the nearest first; what stands there is none of them."""
    key = path.rpartition(".")[2]
    if key in _NUMBERS:
        return _NUMBERS[key](answer)
    plan, structure = answer.plan, answer.evaluation.block.structure
    if key in SIZES:
        return _near(_size(answer, key), _degrees(answer.inputs))
    if key == "offload":
        return _fewer(plan.offload) if plan.offload else _more(answer.inputs)
    if key == "recompute_modules":
        offered = answer.inputs.stack.recompute_modules
        kept = [name for name in plan.recompute_modules or () if name in offered]
        return (None, kept) if kept else (None,)
    layers = int(number(layer_count(answer.inputs.model)))
    counts: Iterable[Any] = ()
    if key.endswith("_layers") and (held := getattr(plan, key)) is not None:
        counts = _near(float(held), range(1, layers))
    return (*counts, *(value for value in _CHOICES.get(key, ()) if value != getattr(structure, key)))


def _size(answer: Answer, name: str) -> float:
    return float(getattr(answer.evaluation.block, name)[0])


def _near(now: float, values: Iterable[int]) -> list[int]:
    """Values by how far they are from what stands there, which is left out."""
    return sorted((value for value in {*values} if value != now), key=lambda value: (abs(value - now), value))[:_FAR]


def _degrees(inputs: TrainingInputs) -> set[int]:
    """Small numbers, and what divides the ranks or the batch."""
    ranks, batch = int(number(inputs.ranks)), int(number(inputs.global_batch))
    most = min(max(ranks, batch), 1 << 16)
    return {*range(1, _FAR + 1), *(value for value in range(1, most + 1) if ranks % value == 0 or batch % value == 0)}


def _fewer(offload: Iterable[str]) -> Iterator[list[str]]:
    """Less of what is offloaded, as much as can be first; and what goes with the parameters."""
    named = list(offload)
    if "parameters" in named and "optimizer" not in named:
        yield [*named, "optimizer"]
    for count in range(len(named) - 1, -1, -1):
        yield from map(list, itertools.combinations(named, count))


def _more(inputs: TrainingInputs) -> Iterator[list[str]]:
    """What the stack can put on the host, the least first."""
    offered = inputs.stack.offload.of if inputs.stack.offload is not None else []
    for count in range(1, len(offered) + 1):
        yield from map(list, itertools.combinations(offered, count))


def _multiples(now: float, units: Iterable[float]) -> list[int]:
    """The multiples of each unit next below and above."""
    whole = [int(unit) for unit in units if unit >= 1 and float(unit).is_integer()]
    return _near(now, [unit * max(1, int(now) // unit + more) for unit in whole for more in (0, 1)])


def _batches(answer: Answer) -> list[int]:
    pp, unit = _size(answer, "pp"), _size(answer, "dp") * _size(answer, "micro_batch")
    return _multiples(number(answer.inputs.global_batch), (unit, unit * 2, unit * pp, unit * 2 * pp))


def _sequences(answer: Answer) -> list[int]:
    tp, cp, inputs = _size(answer, "tp"), _size(answer, "cp"), answer.inputs
    most = [int(inputs.model.max_sequence)]
    return [*_multiples(number(inputs.sequence), (tp * cp, 2 * cp, 2 * cp * tp)), *most]


def _nodes(answer: Answer) -> list[int]:
    """Nodes whose accelerators the degrees make use of, all of them."""
    inputs = answer.inputs
    each = number(inputs.case.node.accelerators)
    inner = math.prod(_size(answer, name) for name in ("tp", "cp", "pp"))
    wanted = inner * answer.plan.dp if answer.plan.dp is not None else inner
    unit = wanted / math.gcd(int(wanted), int(each))
    ranks = wanted if answer.plan.dp is not None else number(inputs.ranks)
    nodes = {int(ranks // each), *_multiples(ranks / each, (unit,))}
    return _near(number(inputs.case.scenario.cluster.nodes), (count for count in nodes if count > 0))


def _replica_counts(answer: Answer) -> list[int]:
    """Where dp is written, that which the ranks leave, and others."""
    inner = math.prod(_size(answer, name) for name in ("tp", "cp", "pp"))
    dp = number(answer.inputs.ranks) / inner
    if answer.plan.dp is None:
        return []
    of_all = [int(dp)] if dp.is_integer() and dp != answer.plan.dp else []
    return list(dict.fromkeys([*of_all, *_near(answer.plan.dp, _degrees(answer.inputs))]))


def _ranks_left(answer: Answer) -> list[int]:
    """Ranks on which a job continues after an interruption, where those that it states are not possible."""
    run, block = answer.inputs.run, answer.evaluation.block
    if run is None or run.restart.ranks is None:
        return []
    return [int(ranks) for ranks in nearest_ranks(answer.inputs, block, float(run.restart.ranks))]


def _accelerators(answer: Answer) -> list[int]:
    """Other numbers of accelerators in a node, up to twice as many."""
    now = number(answer.inputs.case.node.accelerators)
    return _near(now, range(1, int(2 * now) + 1))


_NUMBERS: dict[str, Callable[[Answer], list[int]]] = {
    "accelerators": _accelerators,
    "dp": _replica_counts,
    "global_batch": _batches,
    "sequence": _sequences,
    "nodes": _nodes,
    "ranks": _ranks_left,
}
