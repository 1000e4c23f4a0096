"""Evaluates plans that differ from a scenario's own in one choice, to show why each choice is as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, get_args

from costmodel.explore.purchase.smallest_size import evaluate_trial
from costmodel.explore.workload_interface import PlanAnswer, Trial, Workload
from costmodel.ground.counts import SIZES, Recompute, Zero
from costmodel.ground.errors import value_text
from costmodel.ground.record import record

if TYPE_CHECKING:
    from costmodel.documents.schemas.scenario import Plan
    from costmodel.estimate.rl.predict_rl import RlAnswer
    from costmodel.estimate.serving.predict_serving import ServingAnswer
    from costmodel.estimate.shared.plan_batch import Block
    from costmodel.estimate.training.training_inputs import TrainingInputs

Change = tuple[str, Mapping[str, Any]]  # a question, and the keys of the plan with the values that it asks about
_HALF, _DOUBLE = 0.5, 2.0
_APART = 4  # separate engines get one in so many accelerators


@record
class Neighbour:
    """A plan that differs from the scenario's own in one choice, and the question that it answers."""

    asked: str
    values: Mapping[str, Any]  # of the keys that make it
    trial: Trial

    @property
    def words(self) -> str:
        """The settings that lead to this plan, as text."""
        parts = (setting.partition("=") for setting in self.trial.settings)
        return " · ".join(f"{path.rpartition('plan.')[2]} {value}" for path, _, value in parts)


def neighbours(workload: Workload, answer: PlanAnswer) -> list[Neighbour]:
    """Every neighbouring plan that software and model allow, each once, in the order of their questions."""
    nearby = dict[tuple[str, ...], Neighbour]()
    for question, values in workload.neighbours(answer):
        settings = tuple(f"{path}={value_text(value)}" for path, value in values.items())
        if settings not in nearby:
            nearby[settings] = Neighbour(question, values, evaluate_trial(workload, settings))
    return [neighbour for neighbour in nearby.values() if neighbour.trial.fault is None]


def training_neighbours(plan: Plan, block: Block, inputs: TrainingInputs) -> Iterator[Change]:
    """Changes of a training plan; dp follows from the other degrees unless the plan states it.

    Experts that are whole on a rank stay whole with another tp, as in a search.
    """
    size, stack = {name: float(getattr(block, name)[0]) for name in SIZES}, inputs.stack

    def traded(**changed: float) -> dict[str, float]:
        """Settings that change some degrees and keep the number of ranks by adapting dp."""
        inner = {name: changed.get(name, size[name]) for name in ("tp", "pp", "cp")}
        whole = size["dp"] * size["tp"] * size["pp"] * size["cp"]
        dp = {} if plan.dp is None else {"dp": whole / (inner["tp"] * inner["pp"] * inner["cp"])}
        etp = {"etp": 1.0} if "tp" in changed and inputs.experts is not None and size["etp"] == 1 else {}
        return {
            f"plan.{name}": value for name, value in (changed | etp | _chunks_for_stages(size, changed) | dp).items()
        }

    for zero in get_args(Zero):
        if zero != block.structure.zero and size["dp"] > 1:
            yield "DDP or FSDP (zero)", {"plan.zero": zero}
    for tp, pp in ((_HALF, _DOUBLE), (_DOUBLE, _HALF)):
        if size["tp"] * tp >= 1 and size["pp"] * pp >= 1 and stack.has("pp" if pp > 1 else "tp"):
            yield "tp or pp", traded(tp=size["tp"] * tp, pp=size["pp"] * pp)
    for name in ("tp", "pp", "cp"):
        offered = bool(stack.context_parallel) if name == "cp" else stack.has("tp" if name == "tp" else "pp")
        for factor in (_HALF, _DOUBLE):
            if size[name] * factor >= 1 and (factor < 1 or (size["dp"] > 1 and offered)):
                yield f"{name} or dp", traded(**{name: size[name] * factor})
    if inputs.experts is not None:
        for factor in (_HALF, _DOUBLE):
            if size["ep"] * factor >= 1 and (factor < 1 or stack.has("ep")):
                yield "more or fewer experts a rank", {"plan.ep": size["ep"] * factor}
        if size["etp"] > 1:
            yield "experts whole or divided", {"plan.etp": 1.0}
    for recompute in get_args(Recompute):
        if recompute != block.structure.recompute and recompute in stack.recompute:
            yield "recompute", {"plan.recompute": recompute}
    for factor in (_HALF, _DOUBLE):
        if size["micro_batch"] * factor >= 1:
            yield "micro-batch", {"plan.micro_batch": size["micro_batch"] * factor}
    for vpp in (1.0, 2.0):
        if size["pp"] > 1 and vpp != size["vpp"]:
            yield "chunks a stage", {"plan.vpp": vpp}


def _chunks_for_stages(size: Mapping[str, float], changed: Mapping[str, float]) -> dict[str, float]:
    """The chunks of a rank with another number of stages: as many layers per chunk, one chunk on a single stage.

    >>> [_chunks_for_stages({"pp": 2.0, "vpp": vpp}, {"pp": pp}) for vpp, pp in ((8, 4), (8, 1), (8, 2), (1, 4))]
    [{'vpp': 4.0}, {'vpp': 1.0}, {}, {}]
    """
    pp = changed.get("pp", size["pp"])
    if size["vpp"] == 1 or pp == size["pp"]:
        return {}
    return {"vpp": 1.0 if pp == 1 else max(1.0, size["vpp"] * size["pp"] // pp)}


def serving_neighbours(answer: ServingAnswer) -> Iterator[Change]:
    """Changes of a replica that keep its accelerators, or of the numbers of prefill and decode instances."""
    plan, layout = answer.plan, answer.evaluation.layout
    if plan.prefill is not None and plan.decode is not None:
        for name, half in (("prefill", plan.prefill), ("decode", plan.decode)):
            for factor in (_HALF, _DOUBLE):
                tp, replicas = float(half.tp) * factor, float(half.replicas) / factor
                if tp >= 1 and replicas >= 1 and replicas.is_integer():
                    values = {f"plan.{name}.tp": tp, f"plan.{name}.replicas": replicas}
                    yield f"tp or instances for {'prompts' if name == 'prefill' else 'tokens'}", values
        return
    size = {name: float(getattr(layout, name)[0]) for name in ("tp", "pp", "ep", "dp_attention", "dcp", "replicas")}
    of_replica = size["tp"] * size["pp"] * size["dp_attention"]

    def traded(**changed: float) -> dict[str, float]:
        """Settings that change some degrees and keep the number of GPUs by adapting the replicas."""
        made = size | changed
        whole = made["tp"] * made["pp"] * made["dp_attention"]
        stated = {} if plan.replicas is None else {"replicas": size["replicas"] * of_replica / whole}
        return {f"plan.{name}": value for name, value in (changed | stated).items()}

    axes = ("tp", "pp", "dp_attention") if answer.inputs.model.has_experts else ("tp", "pp")
    for name in axes:
        for factor in (_HALF, _DOUBLE):
            if size[name] * factor >= 1 and (factor < 1 or size["replicas"] > 1):
                yield f"{name} or replicas", traded(**{name: size[name] * factor})
    for other in axes[1:]:
        for tp, more in ((_HALF, _DOUBLE), (_DOUBLE, _HALF)):
            if size["tp"] * tp >= 1 and size[other] * more >= 1:
                yield f"tp or {other}", traded(**{"tp": size["tp"] * tp, other: size[other] * more})
    if answer.inputs.model.has_experts:
        for ep in (1.0, size["tp"] * size["dp_attention"]):
            if ep != size["ep"]:
                yield "experts whole or divided", {"plan.ep": ep}
    if size["dcp"] > 1:
        yield "context divided or not", {"plan.dcp": size["dcp"] / 2}
    budget = float(layout.budget[0])
    for factor in (_HALF, _DOUBLE):
        yield "tokens of a step", {"stack.budget": budget * factor}
    if plan.speculation is not None:
        yield "drafts or none", {"plan.speculation": None}


def rl_neighbours(answer: RlAnswer) -> Iterator[Change]:
    """Changes of the trainer's plan, of the engines' plan, and of how both share the accelerators."""
    inputs = answer.inputs
    trainer, plan = inputs.trainer, inputs.plan
    for question, values in training_neighbours(plan, trainer.evaluation.block, trainer.inputs):
        if "plan.vpp" not in values:
            yield f"trainer: {question}", values
    if inputs.engines is None:
        return
    for factor in (_HALF, _DOUBLE):
        if plan.rollout.tp * factor >= 1:
            yield "engine: tp or replicas", {"plan.rollout.tp": float(plan.rollout.tp) * factor}
    tp, per_node, nodes = float(plan.rollout.tp), float(inputs.case.node.accelerators), float(inputs.case.cluster.nodes)
    grain = per_node if nodes > 1 else 1.0
    apart = max(grain, grain * round(per_node * nodes / _APART / grain))
    if not inputs.split.colocated:
        yield "on the same GPUs or apart", {"plan.rollout": {"tp": tp}}
    elif inputs.case.stack.apart and apart < per_node * nodes:
        yield "on the same GPUs or apart", {"plan.rollout": {"tp": tp, "colocated": False, "ranks": apart}}
