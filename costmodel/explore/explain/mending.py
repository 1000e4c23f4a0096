"""What would mend a plan that is refused: values of one key, each tried before it is said."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, get_args

from pydantic import ValidationError

from costmodel.choices import ContextParallel, Recompute, Schedule, Split, Zero
from costmodel.documents.paths import changed
from costmodel.documents.plan import Plan
from costmodel.errors import CostModelError
from costmodel.estimate.block import SIZES
from costmodel.estimate.costs import number
from costmodel.estimate.evaluate import evaluate
from costmodel.estimate.legality.checks import refusals
from costmodel.estimate.limits import unacceptable
from costmodel.estimate.plan import Answer, plan_block
from costmodel.estimate.setting import Setting, setting_of
from costmodel.estimate.shapes.split import layer_count

_MOST_VALUES, _MOST_PATHS, _FAR, _DOUBLINGS = 3, 3, 64, 6
_SLOWEST, _NODES = math.inf, "cluster.nodes"
_LAYOUT = (
    "plan.micro_batch plan.recompute plan.zero plan.tp plan.pp plan.vpp plan.schedule plan.sequence_parallel "
    "cluster.nodes"
)
# The keys that can mend each reason, those first that one would think of first.
_PATHS = {
    "L001": "plan.dp plan.tp plan.pp plan.cp cluster.nodes",
    "L002": "plan.pp plan.vpp plan.split plan.first_stage_layers plan.last_stage_layers plan.schedule",
    "L003": "plan.tp",
    "L004": "plan.tp",
    "L005": "plan.micro_batch plan.dp plan.tp plan.pp workload.global_batch",
    "L006": "plan.micro_batch plan.pp plan.schedule workload.global_batch",
    "L007": "plan.tp",
    "L008": "plan.tp plan.sequence_parallel workload.sequence",
    "L009": "plan.schedule plan.vpp plan.pp",
    "L011": "plan.zero plan.recompute plan.schedule plan.recompute_modules plan.recompute_layers plan.offload "
    "plan.offload_to",
    "L012": "workload.sequence",
    "L013": "plan.zero plan.pp",
    "L020": "plan.ep",
    "L021": "plan.ep plan.etp plan.tp plan.dp_replicate plan.pp plan.dp",
    "L022": "plan.etp",
    "L023": "plan.sequence_parallel plan.tp",
    "L024": "plan.ep plan.etp",
    "L025": "plan.tp plan.etp",
    "L030": "plan.cp plan.cp_type workload.sequence",
    "L031": "plan.cp plan.cp_type plan.tp",
    "L032": "plan.dp_replicate plan.zero",
    "L033": "plan.cp_type plan.cp",
    "L040": "plan.recompute plan.recompute_modules plan.recompute_layers",
    "L041": "plan.recompute_layers plan.recompute",
    "L042": "plan.zero plan.offload plan.offload_to plan.offload_layers",
    "L043": "plan.offload plan.offload_to",
    "M001": _LAYOUT,
    "M002": _LAYOUT,
    "M003": "plan.offload plan.zero cluster.nodes",
    "R001": "run.checkpoint.interval run.checkpoint.steps",
    "R002": "run.checkpoint.mode",
    "R003": "plan.zero plan.dp_replicate run.elastic",
    "T001": _LAYOUT,
}
_CHOICES: dict[str, tuple[Any, ...]] = {
    "zero": get_args(Zero),
    "recompute": get_args(Recompute),
    "schedule": get_args(Schedule),
    "cp_type": get_args(ContextParallel),
    "split": get_args(Split),
    "sequence_parallel": (True, False),
    "offload_to": ("cpu",),
    **dict.fromkeys(("offload_layers", "recompute_layers", "first_stage_layers", "last_stage_layers"), (None,)),
}


_OF_RUN: dict[str, tuple[Any, ...]] = {
    "run.checkpoint.interval": ("best",),
    "run.checkpoint.steps": (None,),
    "run.checkpoint.mode": ("async", "sync"),
    "run.elastic": (None,),
}


@dataclass(frozen=True)
class Remedy:
    """A key, and values of it of which each mends the plan; the one next to what stands there first."""

    path: str
    values: tuple[str, ...]

    @property
    def assignments(self) -> tuple[str, ...]:
        """Each as --set takes it."""
        return tuple(f"{self.path}={value}" for value in self.values)


def remedies(answer: Answer, code: str) -> list[Remedy]:
    """Keys of which another value takes this reason away, those only that leave the fewest others."""
    tried = [
        (path, value, left, score)
        for path in _PATHS.get(code, "").split()
        for value in _values(answer, path)
        for left, score in _asked(answer, path, value)
        if code not in left
    ]
    fewest = min((len(left) for _, _, left, _ in tried), default=0)
    if not answer.refused and fewest:  # a limit is no better kept where another, or legality, is broken instead
        return []
    kept = [each for each in tried if len(each[2]) == fewest]
    if not answer.refused:
        kept.sort(key=lambda each: (each[0] == _NODES, each[1] if each[0] == _NODES else each[3]))
    paths = list(dict.fromkeys(path for path, *_ in kept))[:_MOST_PATHS]
    most = _MOST_VALUES if answer.refused else 1
    return [Remedy(path, tuple(_written(value) for named, value, *_ in kept if named == path)[:most]) for path in paths]


def _asked(answer: Answer, path: str, value: Any) -> Iterator[tuple[tuple[str, ...], float]]:
    """The reasons that are left with another value of a key, and how long a step takes; nothing where none can be."""
    setting, plan = answer.setting, answer.plan
    holder, _, key = path.partition(".")
    try:
        if holder == "plan":
            written = {name: getattr(plan, name) for name in plan.model_fields_set}
            plan = Plan.model_validate({**written, key: value})
        else:
            case = setting.case
            setting = setting_of(replace(case, scenario=changed(case.scenario, path, value)))
    except (CostModelError, ValidationError):
        return
    block, _ = plan_block(setting, plan)
    left = refusals(setting, block)
    if left or answer.refused:
        yield left, _SLOWEST
        return
    costs = evaluate(setting, block).costs
    yield tuple(code for code, mask in unacceptable(setting, costs) if mask.any()), costs.row()["step_time"]


def _values(answer: Answer, path: str) -> Iterable[Any]:
    """Values to try, the nearest first; what stands there is none of them."""
    key = path.rpartition(".")[2]
    if key in _NUMBERS:
        return _NUMBERS[key](answer)
    if path in _OF_RUN:
        return _OF_RUN[path]
    plan, structure = answer.plan, answer.evaluation.block.structure
    if key in SIZES:
        return _near(_size(answer, key), _degrees(answer.setting))
    if key == "offload":
        return _fewer(plan.offload)
    if key == "recompute_modules":
        offered = answer.setting.stack.recompute_modules
        kept = [name for name in plan.recompute_modules or () if name in offered]
        return (None, kept) if kept else (None,)
    layers = int(number(layer_count(answer.setting.model)))
    counts: Iterable[Any] = ()
    if key.endswith("_layers") and (held := getattr(plan, key)) is not None:
        counts = _near(float(held), range(1, layers))
    return (*counts, *(value for value in _CHOICES.get(key, ()) if value != getattr(structure, key)))


def _size(answer: Answer, name: str) -> float:
    return float(getattr(answer.evaluation.block, name)[0])


def _near(now: float, values: Iterable[int]) -> list[int]:
    """Values by how far they are from what stands there, which is left out."""
    return sorted((value for value in {*values} if value != now), key=lambda value: (abs(value - now), value))[:_FAR]


def _degrees(setting: Setting) -> set[int]:
    """Small numbers, and what divides the ranks or the batch."""
    ranks, batch = int(number(setting.ranks)), int(number(setting.global_batch))
    most = min(max(ranks, batch), 1 << 16)
    return {*range(1, _FAR + 1), *(value for value in range(1, most + 1) if ranks % value == 0 or batch % value == 0)}


def _fewer(offload: Iterable[str]) -> Iterator[list[str]]:
    """Less of what is offloaded, as much as can be first; and what goes with the parameters."""
    named = list(offload)
    if "parameters" in named and "optimizer" not in named:
        yield [*named, "optimizer"]
    for count in range(len(named) - 1, -1, -1):
        yield from map(list, itertools.combinations(named, count))


def _multiples(now: float, units: Iterable[float]) -> list[int]:
    """The multiples of each unit next below and above."""
    whole = [int(unit) for unit in units if unit >= 1 and float(unit).is_integer()]
    return _near(now, [unit * max(1, int(now) // unit + more) for unit in whole for more in (0, 1)])


def _batches(answer: Answer) -> list[int]:
    pp, unit = _size(answer, "pp"), _size(answer, "dp") * _size(answer, "micro_batch")
    return _multiples(number(answer.setting.global_batch), (unit, unit * 2, unit * pp, unit * 2 * pp))


def _sequences(answer: Answer) -> list[int]:
    tp, cp, setting = _size(answer, "tp"), _size(answer, "cp"), answer.setting
    most = [int(setting.model.max_sequence)]
    return [*_multiples(number(setting.sequence), (tp * cp, 2 * cp, 2 * cp * tp)), *most]


def _nodes(answer: Answer) -> list[int]:
    """Nodes whose accelerators the degrees make use of, all of them; where only room is lacking, more and more."""
    setting = answer.setting
    if not answer.refused:
        return [int(number(setting.case.scenario.cluster.nodes)) << power for power in range(1, _DOUBLINGS + 1)]
    each = number(setting.case.node.accelerators)
    inner = math.prod(_size(answer, name) for name in ("tp", "cp", "pp"))
    wanted = inner * answer.plan.dp if answer.plan.dp is not None else inner
    unit = wanted / math.gcd(int(wanted), int(each))
    ranks = wanted if answer.plan.dp is not None else number(setting.ranks)
    nodes = {int(ranks // each), *_multiples(ranks / each, (unit,))}
    return _near(number(setting.case.scenario.cluster.nodes), (count for count in nodes if count > 0))


def _replica_counts(answer: Answer) -> list[int]:
    """Where dp is written, that which the ranks leave, and others."""
    inner = math.prod(_size(answer, name) for name in ("tp", "cp", "pp"))
    dp = number(answer.setting.ranks) / inner
    if answer.plan.dp is None:
        return []
    of_all = [int(dp)] if dp.is_integer() and dp != answer.plan.dp else []
    return list(dict.fromkeys([*of_all, *_near(answer.plan.dp, _degrees(answer.setting))]))


_NUMBERS: dict[str, Callable[[Answer], list[int]]] = {
    "dp": _replica_counts,
    "global_batch": _batches,
    "sequence": _sequences,
    "nodes": _nodes,
}


def _written(value: Any) -> str:
    """A value as --set takes it."""
    if isinstance(value, list):
        return f"[{', '.join(value)}]"
    return "null" if value is None else str(value).lower()
