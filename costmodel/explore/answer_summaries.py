"""Short forms of answers for tables of many plans: results, the plan in one line, and its keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING

from costmodel.estimate.shared.plan_batch import Structure
from costmodel.explore.workload_interface import AnswerSummary
from costmodel.ground.counts import OF_ITSELF_ONE, SIZES, WAYS
from costmodel.ground.errors import value_text
from costmodel.ground.units import counted, significant

if TYPE_CHECKING:
    from costmodel.documents.schemas.serving import ServingPlan
    from costmodel.estimate.rl.predict_rl import RlAnswer
    from costmodel.estimate.serving.predict_serving import ServingAnswer
    from costmodel.estimate.shared.plan_batch import Block
    from costmodel.estimate.training_answer.predict_training import Answer


_ADDED = frozenset({"compression", "sync", "shares"})  # keys that a plan without them does not show
_OVERLOADED = "✗ at …: its highest rate; more requests arrive"
_RENTED = "a month: rent of all replicas' GPUs; of a node with a price of its own, of all its GPUs"


# ── training ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def training_summary(answer: Answer) -> AnswerSummary:
    """The short form of a training answer."""
    from costmodel.estimate.training_answer.evaluate_training import verdict
    from costmodel.explore.compare.compare import plan_choices

    block, costs = answer.evaluation.block, answer.costs
    made = plan_choices(block)
    whole = verdict(costs["memory_share"])
    return AnswerSummary(costs, whole, brief_plan_text(block), complete_plan(made), {"plan": value_text(made)})


def brief_plan_text(block: Block) -> str:
    """A training plan as text, short enough for a table cell."""
    from costmodel.explore.plan_choice_text import short_recompute_and_offload, split_texts

    again = short_recompute_and_offload(block.structure)
    again = "" if again == "none" else f"recompute {again}"
    words = [*degree_texts(block), *split_texts(block.structure), *schedule_texts(block), again]
    return " · ".join(filter(None, words))


def degree_texts(block: Block) -> list[str]:
    """The parallel degrees above 1, one text each."""
    structure = block.structure
    sizes = [f"{name} {_degree_text(float(getattr(block, name)[0]))}" for name in ("tp", "pp", "dp")]
    for name in (*OF_ITSELF_ONE, "vpp"):
        if (degree := float(getattr(block, name)[0])) > 1:
            way = f" {getattr(structure, WAYS[name])}" if name in WAYS else ""
            sizes.append(f"{name} {degree:.0f}{way}")
    return sizes


def _degree_text(degree: float) -> str:
    """A degree as text; a dash for one that is no whole number, as tp and pp do not divide the number of ranks.

    >>> _degree_text(1024.0), _degree_text(42.67)
    ('1,024', '—')
    """
    return counted(degree) if degree.is_integer() else "—"


def schedule_texts(block: Block) -> list[str]:
    """Schedule (if vpp does not imply it), micro-batch and ZeRO stage, one text each."""
    schedule = block.structure.schedule
    named = [] if schedule in ("1f1b", "interleaved") else [str(schedule)]
    return [*named, f"mb {float(block.micro_batch[0]):.0f}", f"zero {block.structure.zero}"]


def complete_plan(stated: Mapping[str, object]) -> dict[str, object]:
    """Every key of a plan, null if it is not set."""
    counts = {name: _count(stated[name]) for name in SIZES if name in stated}
    named = (choice.name for choice in fields(Structure) if choice.name in stated or choice.name not in _ADDED)
    return {name: counts.get(name, stated.get(name)) for name in (*SIZES, *named)}


def _count(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


# ── serving ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def serving_summary(answer: ServingAnswer) -> AnswerSummary:
    """The short form of a serving answer."""
    from costmodel.estimate.serving.plan_columns import sizes_of
    from costmodel.estimate.serving.predict_serving import known_costs
    from costmodel.estimate.serving.replicas_for_load import fleet_of
    from costmodel.explore.serving.fleet_size import counts_of

    plan, costs, asides = answer.plan, known_costs(answer.costs), dict[str, str]()
    texts = {}
    if plan.prefill is not None:
        texts["replicas"] = " → ".join(counted(count) for count in counts_of(plan, costs).values())
    if answer.overload:
        asides[""] = _OVERLOADED
    fleet = fleet_of(answer.inputs, costs["gpus"])
    if fleet.paid != fleet.gpus and not (answer.refused or answer.broken):
        asides["rent_per_month"] = _RENTED
    degrees = {name: _count(size) for name, size in sizes_of(answer.evaluation.layout).items()}
    return AnswerSummary(
        costs,
        "does not fit" if "M001" in answer.broken else "fits",
        serving_plan_text(answer),
        {**degrees, **halves(plan)},
        {"plan": value_text(plan.model_dump(exclude_unset=True))},
        texts,
        f" at {significant(costs['saturation_per_s'])} /s" if answer.overload else "",
        asides,
    )


def serving_plan_text(answer: ServingAnswer) -> str:
    """A serving plan as one line of text."""
    if answer.groups:
        return f"{len(answer.groups)} kinds of nodes"
    layout = answer.evaluation.layout
    parts = [(name, half) for name, half in (("prefill", answer.plan.prefill), ("decode", answer.plan.decode)) if half]
    sizes = [f"{name} {half.replicas:.0f} × {instance_text(half)}" for name, half in parts] or [instance_text(layout)]
    drafts = answer.plan.speculation
    if drafts is not None:
        tree = f" in {drafts.levels:.0f} levels" if drafts.width > 1 else ""
        sizes.append(f"{drafts.tokens:.0f} drafted by {drafts.draft}{tree}")
    hosted = answer.plan.host_experts
    sizes += [f"{100 * hosted:.3g} % of experts on the host"] if hosted else []
    copies = float(layout.redundant_experts[0])
    sizes += [f"{copies:.0f} cop{'ies' if copies > 1 else 'y'} of experts"] if copies else []
    replicas = float(layout.replicas[0])
    sizes += [] if parts else [f"{replicas:.0f} replica{'s' if replicas > 1 else ''}"]
    return " · ".join(sizes)


def instance_text(layout: object) -> str:
    """The degrees of one replica, or of one prefill or decode instance, as text."""
    degrees = {name: scalar(getattr(layout, name, 1.0)) for name in ("tp", "pp", "ep", "dp_attention", "dcp")}
    return " · ".join(f"{name} {degree:.0f}" for name, degree in degrees.items() if degree > 1 or name == "tp")


def scalar(value: object) -> float:
    """The value of a single plan as a plain number."""
    import numpy as np

    return float(np.asarray(value).flat[0])


def halves(plan: ServingPlan) -> dict[str, dict[str, int]]:
    """The prefill and decode layouts of a disaggregated plan as plain values; empty for other plans."""
    from costmodel.estimate.serving.plan_columns import RARE

    found = (("prefill", plan.prefill), ("decode", plan.decode))
    return {
        name: {key: int(value) for key, value in half.model_dump().items() if value != RARE.get(key)}
        for name, half in found
        if half
    }


# ── reinforcement learning ───────────────────────────────────────────────────────────────────────────────────────────


def rl_summary(answer: RlAnswer) -> AnswerSummary:
    """The short form of an RL answer."""
    from costmodel.estimate.training_answer.evaluate_training import verdict

    whole = verdict(answer.costs["memory_share"])
    return AnswerSummary(answer.costs, whole, rl_plan_text(answer), rl_degrees(answer), rl_settings(answer))


def rl_plan_text(answer: RlAnswer) -> str:
    """The plans of trainer and engines as one line of text."""
    inputs, plan = answer.inputs, answer.inputs.plan
    structure = inputs.trainer.evaluation.block.structure
    sizes = [f"{name} {float(getattr(plan, name)):.0f}" for name in ("tp", "pp", "cp", "ep") if getattr(plan, name) > 1]
    trained = " ".join([inputs.case.trainer.name, *sizes, f"dp {inputs.packing.dp:g}", f"zero {structure.zero}"])
    if inputs.engines is None:
        return trained
    rollout, engines = plan.rollout, inputs.engines
    of_engine = [
        f"tp {rollout.tp:g}",
        *(f"{key} {getattr(rollout, key):g}" for key in ("ep", "dp_attention") if getattr(rollout, key) > 1),
    ]
    apart = "".join(f" · {name} on {ranks:.0f}" for name, ranks in inputs.apart.items())
    many = f"{engines.layout.replicas[0]:.0f} × {inputs.case.rollout.name} {' '.join(of_engine)}"
    if inputs.split.colocated:
        return f"{trained} · {many}, colocated{' on the others' if apart else ''}{apart}"
    return f"{trained} on {inputs.split.trainer.ranks:.0f}{apart} · {many} on {inputs.split.rollout.ranks:.0f} GPUs"


def rl_degrees(answer: RlAnswer) -> dict[str, float | bool]:
    """The degrees of trainer and engines by name."""
    written, split = answer.inputs.plan, answer.inputs.split
    keys = {name: int(getattr(written, name)) for name in ("tp", "pp", "cp", "ep")}
    rollout = {"colocated": split.colocated, "rollout_tp": int(written.rollout.tp)}
    zero = answer.inputs.trainer.evaluation.block.structure.zero
    return {**keys, "dp": answer.inputs.packing.dp, "zero": zero, **rollout}


def rl_settings(answer: RlAnswer) -> dict[str, str]:
    """Settings that turn the scenario's own plan into the plan of the answer."""
    from costmodel.documents.schemas.rl import RlPlan

    plan, split = answer.inputs.plan, answer.inputs.split
    wanted = {"plan.tp": f"{float(plan.tp):.0f}", "plan.cp": f"{float(plan.cp):.0f}"}
    wanted |= {f"plan.{name}": f"{float(getattr(plan, name)):.0f}" for name in ("pp", "ep") if getattr(plan, name) > 1}
    own = answer.inputs.case.scenario.plan
    for name in ("split", "zero", "recompute", "etp"):
        value = getattr(plan, name)
        if value is not None and (own is None or getattr(own, name) != value):
            wanted[f"plan.{name}"] = value if isinstance(value, str) else f"{float(value):.0f}"
    if float(plan.micro_batch) != float((own or RlPlan()).micro_batch):
        wanted["plan.micro_batch"] = f"{float(plan.micro_batch):.0f}"
    if answer.inputs.engines is None:
        return wanted
    wanted["plan.rollout.tp"] = f"{float(plan.rollout.tp):.0f}"
    if not split.colocated:
        wanted |= {"plan.rollout.colocated": "false", "plan.rollout.ranks": f"{split.rollout.ranks:.0f}"}
    elif own is not None and not own.rollout.colocated:
        wanted = {key: value for key, value in wanted.items() if not key.startswith("plan.rollout")}
        wanted["plan.rollout"] = f"{{tp: {float(plan.rollout.tp):.0f}}}"
    return wanted
