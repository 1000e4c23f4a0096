"""Keys of the software, the plan and the assumptions of training that other keys switch off, each with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from costmodel.documents.schemas.precision import RECIPES
from costmodel.estimate.shared.plan_batch import Block, single_rank
from costmodel.estimate.training.stack_in_use import uses_fallback_attention
from costmodel.estimate.training.training_inputs import TrainingInputs


class Switch(NamedTuple):
    """The reason in words, a test whether it applies to a plan, and the keys that then have no effect."""

    reason: str
    holds: Callable[[TrainingInputs, Block], bool]
    keys: str


_SENT = "dispatch inside_share across_share start overlap overlap_in shared_overlap occupied deduplicated"
SWITCHES = (
    Switch(
        "plan.pp is 1",
        lambda _, block: single_rank(block.pp),
        "stack.pipelined_zero stack.overlap.pp stack.post_validation stack.split_sends plan.split assume.overlap.pp",
    ),
    Switch(
        "plan.schedule is none of zero bubbles",
        lambda _, block: not block.structure.schedule.startswith("zb-"),
        "stack.post_validation",
    ),
    Switch(
        "plan.tp is 1",
        lambda _, block: single_rank(block.tp),
        "stack.overlap.tp stack.sequence_parallel stack.kernels.inputs stack.kernels.copied stack.kernels.head_norms "
        "stack.split_sends stack.split_adapters stack.experts.tp_overlap stack.experts.cut_as_tp "
        "plan.sequence_parallel assume.overlap.tp",
    ),
    Switch(
        "plan.cp is 1",
        lambda _, block: single_rank(block.cp),
        "stack.overlap.cp stack.context_parallel plan.cp_type assume.overlap.cp",
    ),
    Switch(
        "plan.dp and plan.cp are 1",
        lambda _, block: single_rank(block.dp * block.cp),
        "stack.overlap.dp stack.overlap.weights stack.whole_sums assume.overlap.dp assume.overlap.weights",
    ),
    Switch(
        "plan.pp and plan.cp are 1, and all nodes are alike",
        lambda inputs, block: single_rank(block.pp * block.cp) and not inputs.groups,
        "plan.order",
    ),
    Switch(
        "the model has no experts",
        lambda inputs, _: inputs.experts is None,
        "stack.experts stack.spread.experts",
    ),
    Switch(
        "plan.ep and plan.etp are 1",
        lambda inputs, block: inputs.experts is not None and single_rank(block.ep * block.etp),
        " ".join(("assume.overlap.ep", *(f"stack.experts.{key}" for key in _SENT.split()))),
    ),
    Switch(
        "the model has experts",
        lambda inputs, _: inputs.experts is not None,
        "stack.overlap.tp",
    ),
    Switch(
        "experts have no padded capacity",
        lambda inputs, _: inputs.experts is not None and inputs.experts.dropless,
        "stack.experts.masked",
    ),
    Switch("plan.etp is stated", lambda inputs, _: _is_stated(inputs, "etp"), "stack.experts.cut_as_tp"),
    Switch("stack.loss is not chunked", lambda inputs, _: inputs.stack.loss != "chunked", "stack.loss_limit"),
    Switch("plan.offload is empty", lambda _, block: not block.structure.offload, "stack.offload"),
    Switch(
        "plan.offload has no parameters",
        lambda _, block: "parameters" not in block.structure.offload,
        "stack.offload.parameters_alone",
    ),
    Switch(
        "plan.offload has no optimizer",
        lambda _, block: "optimizer" not in block.structure.offload,
        "assume.host_update stack.offload.returned stack.offload.early",
    ),
    Switch("plan.zero is 3", lambda _, block: block.structure.zero > 2, "stack.offload.returned"),
    Switch(
        "nothing is copied to the host",
        lambda inputs, block: inputs.run is None and not block.structure.offload and not inputs.optimizer.paged,
        "assume.host_share",
    ),
    Switch(
        "one domain has all ranks",
        lambda inputs, _: bool(inputs.all_ranks <= inputs.domain),
        "assume.network_share assume.stragglers.slow_link",
    ),
    Switch(
        "assume.stragglers.jitter is not stated",
        lambda inputs, _: inputs.case.scenario.assume.stragglers.jitter is None,
        "assume.stragglers.each",
    ),
    Switch(
        "plan.sequence_parallel is true",
        lambda _, block: block.structure.sequence_parallel,
        "stack.split_sends",
    ),
    Switch(
        "stack.kernels.attention runs",
        lambda inputs, _: not uses_fallback_attention(inputs.case),
        "stack.kernels.fallback",
    ),
    Switch(
        "workload.precision is not narrow",
        lambda inputs, _: inputs.narrow is None,
        "stack.low_precision",
    ),
    Switch(
        "workload.precision has no 32 bits",
        lambda inputs, _: not RECIPES[inputs.case.scenario.workload.precision].full,
        "stack.full_precision",
    ),
    Switch(
        "plan.recompute is not selective",
        lambda _, block: block.structure.recompute != "selective",
        "stack.recompute_modules stack.kernels.selective",
    ),
    Switch(
        "plan.recompute_modules is stated",
        lambda _, block: block.structure.recompute_modules is not None,
        "stack.kernels.selective",
    ),
    Switch(
        "plan.recompute is not full",
        lambda _, block: block.structure.recompute != "full",
        "stack.kernels.full",
    ),
    Switch(
        "plan.recompute_layers is not stated",
        lambda _, block: block.structure.recompute_layers is None,
        "stack.recompute_methods plan.recompute_method",
    ),
    Switch(
        "plan.compression is none",
        lambda _, block: block.structure.compression == "none",
        "stack.compression assume.compression",
    ),
    Switch("workload.tuning is full", lambda inputs, _: inputs.tuning is None, "stack.split_adapters"),
    Switch(
        "workload.optimizer.in_backward is false",
        lambda inputs, _: not inputs.optimizer.in_backward,
        "stack.states.in_backward",
    ),
    Switch(
        "plan.zero is not 3",
        lambda _, block: block.structure.zero != 3,
        "stack.overlap.ahead stack.buckets.prefetch stack.buckets.gathered",
    ),
    Switch("plan.zero is 0 or 1", lambda _, block: block.structure.zero < 2, "stack.states.sharded_gradient"),
    Switch(
        "plan.zero is neither 1 nor 2",
        lambda _, block: block.structure.zero in (0, 3),
        "stack.whole_sums stack.overlap.weights assume.overlap.weights",
    ),
)
_AXES = ("tp", "dp", "weights", "pp", "cp")  # whose shares that can hide a scenario may state


def unused_training_keys(inputs: TrainingInputs, block: Block) -> Iterator[tuple[str, str]]:
    """Paths without effect on a plan of one row, with reasons; a path includes all keys under it."""
    for switch in SWITCHES:
        if switch.holds(inputs, block):
            yield from ((path, switch.reason) for path in switch.keys.split())
    assumed = inputs.case.scenario.assume.overlap
    for axis in _AXES:
        if getattr(assumed, axis) is not None:
            yield f"stack.overlap.{axis}", f"assume.overlap.{axis} is stated"


def _is_stated(inputs: TrainingInputs, key: str) -> bool:
    """Whether the plan of the scenario states a key."""
    plan = inputs.case.scenario.plan
    return plan is not None and getattr(plan, key) is not None
