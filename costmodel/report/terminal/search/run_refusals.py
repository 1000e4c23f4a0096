"""What speaks against a plan for the whole run, in its own figures."""

from __future__ import annotations

import math
from collections.abc import Callable

from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.failed_node import (
    most_replicas_lost,
    nearest_ranks,
    replica_ranks,
    replicas_together,
    whole_replicas,
)
from costmodel.estimate.training.plan_constraints import PLAIN
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.units import counted, gib, percent, show, show_time
from costmodel.report.terminal.style.formatting import joined

_HOST = {"link": "its host link", "capacity": "the host's memory", "bandwidth": "the rate of that memory"}
_DRIVES = {"drives": "drives", "read": "how fast they read", "write": "how fast they write"}


def nothing_leaves(inputs: TrainingInputs, block: Block) -> str:
    """Why no replica can leave the job without loss of states."""
    dp, together = float(block.dp[0]), number(replicas_together(block))
    if block.structure.zero >= 1 and block.dp_replicate[0] == 1:
        stated = f"zero {block.structure.zero} cuts the states over all of dp {counted(dp)}"
        return f"{stated}, with dp_replicate 1, so no replica holds them whole"
    if dp == 1:
        return "dp is 1, so no other replica holds the states"
    lost = counted(number(most_replicas_lost(inputs, block)))
    node = f"a node of {counted(float(inputs.case.node.accelerators))}"
    if together == 1:
        return f"{node} has ranks of {lost} replicas of dp {counted(dp)}, so its failure leaves none whole"
    held = f"{counted(together)} replicas hold the states only together, so dp {counted(dp)} has "
    return f"{held}{counted(number(whole_replicas(block)))} that can leave, and {node} has ranks of {lost}"


def not_scattered(inputs: TrainingInputs, block: Block) -> str:
    """Why this compression of gradients does not work: ranks do not have whole gradients."""
    structure = block.structure
    sharded = f"zero {structure.zero} shards them" if structure.zero else ""
    if not sharded or block.dp_replicate[0] > 1:
        sharded = f"dp_replicate {counted(float(block.dp_replicate[0]))} sums shards of them"
    return f"{structure.compression} needs whole gradients on each rank, and {sharded}"


def spans_kinds(inputs: TrainingInputs, block: Block) -> str:
    """Why a plan does not suit nodes of several kinds."""
    structure = block.structure
    if structure.shares == "stages":
        return _not_over_groups(inputs, block)
    inner = float(block.tp[0] * block.cp[0] * block.pp[0])
    each = float(inputs.case.node.accelerators)
    for nodes, kind in inputs.groups:
        if nodes * each % inner:
            sizes = " × ".join(f"{name} {counted(float(getattr(block, name)[0]))}" for name in ("tp", "cp", "pp"))
            held = f"{counted(nodes * each)} accelerators of {kind.case.node.name}"
            return f"{sizes} = {counted(inner)} does not divide the {held}"
    if block.ep[0] > 1:
        return f"ep {counted(float(block.ep[0]))} makes replicas of several kinds communicate in each layer"
    if structure.order == "tp-cp-pp-dp":
        return "order tp-cp-pp-dp lays each stage over nodes of several kinds"
    if structure.zero >= 2 or inputs.stack.states.sharded_master:
        return (
            f"zero {structure.zero} communicates in each micro-batch, but proportional shares give replicas "
            f"different numbers of micro-batches"
        )
    return f"{structure.schedule} needs the same number of micro-batches on each replica"


def _not_over_groups(inputs: TrainingInputs, block: Block) -> str:
    """Why pipeline stages do not match the groups of nodes."""
    structure, pp = block.structure, float(block.pp[0])
    for nodes, kind in inputs.groups:
        part = float(nodes / inputs.case.cluster.nodes)
        if pp * part % 1:
            return (
                f"pp {counted(pp)} leaves {kind.case.node.name}, {part:.3g} of the nodes, not a whole number of stages"
            )
    if structure.order == "tp-cp-pp-dp":
        return "order tp-cp-pp-dp lays each stage over nodes of several kinds"
    if structure.schedule not in PLAIN:
        return f"schedule {structure.schedule} needs equal stages; use 1f1b"
    if inputs.model.layers[0].leading:
        return "the first layers of the model are of another kind, so that no stage has the time of its layers alone"
    return f"split {structure.split} states the layers of stages, which follow from the speeds of the groups"


def not_asynchronous(inputs: TrainingInputs, block: Block) -> str:
    """Why replicas cannot continue without each other."""
    structure, stated = block.structure, []
    stated += [f"pp {counted(float(block.pp[0]))} ties stages together"] if block.pp[0] > 1 else []
    stated += [f"zero {structure.zero} shards the states over them"] if structure.zero else []
    stated += ["dp is 1"] if block.dp[0] == 1 else []
    if inputs.case.scenario.workload.critical_batch is not None:
        stated.append("workload.critical_batch needs a law for the number of steps, and none holds for stale gradients")
    return f"sync {structure.sync} needs independent replicas, but {', and '.join(stated)}"


def not_served(inputs: TrainingInputs, block: Block) -> str:
    """Why parameter servers cannot sum these gradients."""
    structure, stated = block.structure, []
    stated += [f"zero {structure.zero} shards them"] if structure.zero else []
    if structure.compression.split()[0] not in ("none", "fp16", "int8"):
        stated.append(f"{structure.compression} is summed by the ranks themselves")
    if structure.sync.startswith("first") and float(structure.sync.split()[1]) > block.dp[0]:
        stated.append(f"there are {counted(float(block.dp[0]))} replicas")
    return f"sync {structure.sync} sums whole gradients of replicas, but {', and '.join(stated)}"


def not_resharded(inputs: TrainingInputs, block: Block) -> str:
    """Why a job cannot continue with this number of ranks."""
    assert inputs.run is not None
    left, each = inputs.run.restart.ranks, float(inputs.case.node.accelerators)
    assert left is not None
    nodes, inner = float(inputs.ranks) / each, number(replica_ranks(block))
    if nodes == 1:
        return f"a failed node takes its {counted(each)} ranks away, and the job has no other node"
    values = " or ".join(counted(ranks) for ranks in nearest_ranks(inputs, block, float(left)))
    rule = (
        f"{counted(left)} ranks are not whole replicas of {counted(inner)} on whole nodes of {counted(each)}, of which "
    )
    remedy = f"use {values}" if values else "no replica fits on them"
    return f"{rule}{counted(nodes - 1)} are left when one fails; {remedy}"


def _overlap_reason(inputs: TrainingInputs, costs: dict[str, float]) -> str:
    every, write = costs["checkpoint_interval"], costs["checkpoint_write"]
    needed = show(costs["checkpoint_size"] / (every + costs["checkpoint_blocking"]), "B/s")
    return f"a checkpoint every {show_time(every)} takes {show_time(write)} to write; use {needed}"


def _copies_reason(inputs: TrainingInputs, costs: dict[str, float]) -> str:
    taken, holds = costs["checkpoint_host"] + costs["host_memory"], float(inputs.host.capacity)
    mode = inputs.run.checkpoint.mode if inputs.run is not None else ""
    return f"mode {mode} takes {gib(taken)} GiB on each host, {gib(taken - holds)} GiB over the {gib(holds)} GiB it has"


def _endless_reason(inputs: TrainingInputs, costs: dict[str, float]) -> str:
    """Why the run never ends: failures come sooner than it makes progress."""
    apart, restart, stop = (show_time(costs[name]) for name in ("mtbf", "restart_time", "checkpoint_blocking"))
    said = f"failures are {apart} apart, a restart takes {restart} and a checkpoint stops it for {stop}"
    asked = inputs.run
    assert asked is not None
    taken = {"run.planned": asked.planned.stop / asked.planned.every if asked.planned else 0.0}
    taken["run.evaluation"] = asked.evaluation
    most = max(taken, key=lambda name: taken[name])
    return f"{said}; {most} takes {percent(taken[most])} of the time" if taken[most] > 0.5 else said


def no_step_in_backward(inputs: TrainingInputs, block: Block) -> str:
    """Why backward cannot update each layer."""
    if not inputs.stack.states.in_backward:
        return f"{inputs.stack.name} does not offer in_backward; torchtune does"
    if "optimizer" in block.structure.offload:
        return "the optimizer is on the host"
    return f"zero {block.structure.zero} shards the optimizer but not the weights"


def adds_up(inputs: TrainingInputs, block: Block) -> str:
    """Why an update during backward needs a single micro-batch."""
    batches = float(inputs.global_batch) / float(block.dp[0] * block.micro_batch[0])
    size = counted(float(block.micro_batch[0]))
    return f"micro_batch {size} makes {counted(batches)} micro-batches, whose gradients are summed before a step"


def tied_layers(inputs: TrainingInputs, block: Block) -> str:
    """Why layers that share outputs cannot be split over stages."""
    stages = counted(float(block.pp[0]))
    return (
        f"layers of {inputs.model.name} read the outputs of earlier layers, which would be on other stages "
        f"with pp {stages}"
    )


def scans_cut(inputs: TrainingInputs, block: Block) -> str:
    """Why cp cannot split a selective scan."""
    return f"cp {counted(float(block.cp[0]))} would split the sequence of the selective scans of {inputs.model.name}"


def cuts(inputs: TrainingInputs, block: Block) -> str:
    """Why gradients cannot be projected (GaLore, Muon): a rank does not have whole matrices."""
    structure = block.structure
    stated = [f"tp {counted(float(block.tp[0]))} cuts matrices"] if block.tp[0] > 1 else []
    stated += [f"zero {structure.zero} shards states"] if structure.zero else []
    stated += ["the optimizer is on the host"] if "optimizer" in structure.offload else []
    return f"{inputs.optimizer.name} projects whole gradients, but {', and '.join(stated)}"


def unknown_host(inputs: TrainingInputs, block: Block) -> str:
    """The properties of the host that no document states."""
    wanted = {**_HOST, **(_DRIVES if block.structure.offload_to == "nvme" else {})}
    lacking = joined(said for name, said in wanted.items() if math.isnan(getattr(inputs.host, name)))
    offload = f"[{', '.join(block.structure.offload)}] to {block.structure.offload_to}"
    return f"offload of {offload}, and the node {inputs.case.node.name} does not state {lacking}"


PLAN_SENTENCES: dict[str, Callable[[TrainingInputs, Block], str]] = {
    "L043": unknown_host,
    "L035": tied_layers,
    "L036": scans_cut,
    "L045": no_step_in_backward,
    "L046": adds_up,
    "L047": cuts,
    "R003": nothing_leaves,
    "R004": not_scattered,
    "R005": spans_kinds,
    "R006": not_asynchronous,
    "R009": not_served,
    "R013": not_resharded,
}
RUN_SENTENCES: dict[str, Callable[[TrainingInputs, dict[str, float]], str]] = {
    "R001": _overlap_reason,
    "R002": _copies_reason,
    "R007": _endless_reason,
}
