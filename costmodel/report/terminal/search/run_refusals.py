"""What speaks against a plan for the whole run, in its own figures."""

from __future__ import annotations

from collections.abc import Callable

from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.units import counted, gib, show, show_time


def nothing_leaves(inputs: TrainingInputs, block: Block) -> str:
    """Why no replica can leave."""
    if block.structure.zero >= 1:
        said = f"zero {block.structure.zero} cuts the states over all of dp {counted(float(block.dp[0]))}"
        return f"{said}, with dp_replicate {counted(float(block.dp_replicate[0]))}, so that no replica holds them whole"
    return f"dp is {counted(float(block.dp[0]))}, so that no other replica holds the states"


def _overlapping(inputs: TrainingInputs, costs: dict[str, float]) -> str:
    every, write = costs["checkpoint_interval"], costs["checkpoint_write"]
    needed = show(costs["checkpoint_size"] / (every + costs["checkpoint_blocking"]), "B/s")
    return f"checkpoints each {show_time(every)} take {show_time(write)} to write; {needed} would do"


def _copies(inputs: TrainingInputs, costs: dict[str, float]) -> str:
    taken, holds = costs["checkpoint_host"] + costs["host_memory"], float(inputs.host.capacity)
    mode = inputs.run.checkpoint.mode if inputs.run is not None else ""
    return f"mode {mode} takes {gib(taken)} GiB on each host, {gib(taken - holds)} GiB over the {gib(holds)} GiB it has"


RUN_SENTENCES: dict[str, Callable[[TrainingInputs, dict[str, float]], str]] = {"R001": _overlapping, "R002": _copies}
