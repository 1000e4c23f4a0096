"""Sentences on why a training plan is rejected, with its numbers, and the table of changes that would fix it."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from costmodel.documents.reader.library import DocumentReader
from costmodel.documents.schemas.default_values import SAFE
from costmodel.documents.schemas.stack import Axis
from costmodel.equations.parallelism.counts import kv_heads_per_rank
from costmodel.estimate.model.feed_forward_kinds import dense_inner_widths
from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.shared.results import Limit, number, stated_limits
from costmodel.estimate.training.failed_node import (
    most_replicas_lost,
    nearest_ranks,
    replica_ranks,
    replicas_with_all_states,
    whole_replicas,
)
from costmodel.estimate.training.parallelism.pipeline import (
    BOTH_WAYS,
    FOLDED,
    FORMS,
    LOOPED,
    SLOTS,
    fewest_micro_batches,
    is_later_schedule,
    stage_layers,
)
from costmodel.estimate.training.plan_constraints import PLAIN, micro_batches
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.estimate.training_answer.evaluate_training import memory_of_one_kind, missing_input
from costmodel.estimate.training_answer.predict_training import NOT_SAFE, Answer
from costmodel.ground.counts import number_of
from costmodel.ground.units import chance_words, counted, gib, gib_beside, percent, show, show_time
from costmodel.report.terminal.formatting import MISSES, and_list, or_list, result
from costmodel.report.terminal.layout import CellTable, Detail, Line, styled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from costmodel.explore.search.cheapest_changes import Remedy


# --- what speaks against a plan for the whole run, in its own figures


_HOST_PROPERTIES = {"link": "its host link", "capacity": "the host's memory", "bandwidth": "the rate of that memory"}
_DRIVE_PROPERTIES = {"drives": "drives", "read": "how fast they read", "write": "how fast they write"}


def _no_replica_can_leave(inputs: TrainingInputs, block: Block) -> str:
    """Why no replica can leave the job after a failure without a loss of training states."""
    dp, together = float(block.dp[0]), number(replicas_with_all_states(block))
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


def _gradients_not_whole(inputs: TrainingInputs, block: Block) -> str:
    """Why this compression of gradients does not work: ranks do not have whole gradients."""
    structure = block.structure
    sharded = f"zero {structure.zero} shards them" if structure.zero else ""
    if not sharded or block.dp_replicate[0] > 1:
        sharded = f"dp_replicate {counted(float(block.dp_replicate[0]))} sums shards of them"
    return f"{structure.compression} needs whole gradients on each rank, and {sharded}"


def _unsuitable_node_kinds(inputs: TrainingInputs, block: Block) -> str:
    """Why a plan does not suit nodes of several kinds."""
    structure = block.structure
    if structure.shares == "stages":
        return _stages_unlike_node_groups(inputs, block)
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


def _stages_unlike_node_groups(inputs: TrainingInputs, block: Block) -> str:
    """Why the pipeline stages do not match the groups of nodes of one kind."""
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


def _dependent_replicas(inputs: TrainingInputs, block: Block) -> str:
    """Why replicas cannot train asynchronously: which settings make them depend on each other."""
    structure, stated = block.structure, []
    stated += [f"pp {counted(float(block.pp[0]))} ties stages together"] if block.pp[0] > 1 else []
    stated += [f"zero {structure.zero} shards the states over them"] if structure.zero else []
    stated += ["dp is 1"] if block.dp[0] == 1 else []
    if inputs.case.scenario.workload.critical_batch is not None:
        stated.append("workload.critical_batch needs a law for the number of steps, and none holds for stale gradients")
    return f"sync {structure.sync} needs independent replicas, but {', and '.join(stated)}"


def _unsuitable_for_parameter_servers(inputs: TrainingInputs, block: Block) -> str:
    """Why parameter servers cannot sum these gradients."""
    structure, stated = block.structure, []
    stated += [f"zero {structure.zero} shards them"] if structure.zero else []
    if structure.compression.split()[0] not in ("none", "fp16", "int8"):
        stated.append(f"{structure.compression} is summed by the ranks themselves")
    if structure.sync.startswith("first") and float(structure.sync.split()[1]) > block.dp[0]:
        stated.append(f"there are {counted(float(block.dp[0]))} replicas")
    return f"sync {structure.sync} sums whole gradients of replicas, but {', and '.join(stated)}"


def _unsuitable_restart_ranks(inputs: TrainingInputs, block: Block) -> str:
    """Why a job cannot continue with the stated number of ranks after a failure."""
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


def _slow_checkpoint(inputs: TrainingInputs, costs: dict[str, float]) -> str:
    """Why the checkpoint interval is too short: writing one takes longer."""
    every, write = costs["checkpoint_interval"], costs["checkpoint_write"]
    needed = show(costs["checkpoint_size"] / (every + costs["checkpoint_blocking"]), "B/s")
    return f"a checkpoint every {show_time(every)} takes {show_time(write)} to write; use {needed}"


def _checkpoints_exceed_host(inputs: TrainingInputs, costs: dict[str, float]) -> str:
    """Why checkpoints in host memory do not fit there."""
    taken, holds = costs["checkpoint_host"] + costs["host_memory"], float(inputs.host.capacity)
    mode = inputs.run.checkpoint.mode if inputs.run is not None else ""
    over = f"{gib_beside(taken - holds, taken)} GiB over the {gib(holds)} GiB it has"
    return f"mode {mode} takes {gib(taken)} GiB on each host, {over}"


def _endless_run(inputs: TrainingInputs, costs: dict[str, float]) -> str:
    """Why the run never ends: failures come sooner than it makes progress."""
    apart, restart, stop = (show_time(costs[name]) for name in ("mtbf", "restart_time", "checkpoint_blocking"))
    said = f"failures are {apart} apart, a restart takes {restart} and a checkpoint stops it for {stop}"
    asked = inputs.run
    assert asked is not None
    taken = {"run.planned": asked.planned.stop / asked.planned.every if asked.planned else 0.0}
    taken["run.evaluation"] = asked.evaluation
    most = max(taken, key=lambda name: taken[name])
    return f"{said}; {most} takes {percent(taken[most])} of the time" if taken[most] > 0.5 else said


def _no_update_in_backward(inputs: TrainingInputs, block: Block) -> str:
    """Why the optimizer cannot update each layer during backward."""
    if not inputs.stack.states.in_backward:
        return f"{inputs.stack.name} does not offer in_backward; torchtune does"
    if "optimizer" in block.structure.offload:
        return "the optimizer is on the host"
    return f"zero {block.structure.zero} shards the optimizer but not the weights"


def _several_micro_batches(inputs: TrainingInputs, block: Block) -> str:
    """Why an update during backward needs a single micro-batch."""
    batches = float(inputs.global_batch) / float(block.dp[0] * block.micro_batch[0])
    size = counted(float(block.micro_batch[0]))
    return f"micro_batch {size} makes {counted(batches)} micro-batches, whose gradients are summed before a step"


def _layers_read_earlier_ones(inputs: TrainingInputs, block: Block) -> str:
    """Why layers that read the outputs of earlier layers cannot be split over pipeline stages."""
    stages = counted(float(block.pp[0]))
    return (
        f"layers of {inputs.model.name} read the outputs of earlier layers, which would be on other stages "
        f"with pp {stages}"
    )


def _context_parallel_scan(inputs: TrainingInputs, block: Block) -> str:
    """Why context parallelism cannot split a selective scan."""
    return f"cp {counted(float(block.cp[0]))} would split the sequence of the selective scans of {inputs.model.name}"


def _matrices_not_whole(inputs: TrainingInputs, block: Block) -> str:
    """Why gradients cannot be projected (GaLore, Muon): ranks do not have whole matrices."""
    structure = block.structure
    stated = [f"tp {counted(float(block.tp[0]))} cuts matrices"] if block.tp[0] > 1 else []
    stated += [f"zero {structure.zero} shards states"] if structure.zero else []
    stated += ["the optimizer is on the host"] if "optimizer" in structure.offload else []
    return f"{inputs.optimizer.name} projects whole gradients, but {', and '.join(stated)}"


def _unknown_host(inputs: TrainingInputs, block: Block) -> str:
    """Which properties of the host that offload needs are stated by no document."""
    wanted = {**_HOST_PROPERTIES, **(_DRIVE_PROPERTIES if block.structure.offload_to == "nvme" else {})}
    lacking = and_list(said for name, said in wanted.items() if math.isnan(getattr(inputs.host, name)))
    offload = f"[{', '.join(block.structure.offload)}] to {block.structure.offload_to}"
    return f"offload of {offload}, and the node {inputs.case.node.name} does not state {lacking}"


_RUN_CONSTRAINTS: dict[str, Callable[[TrainingInputs, Block], str]] = {
    "L043": _unknown_host,
    "L035": _layers_read_earlier_ones,
    "L036": _context_parallel_scan,
    "L045": _no_update_in_backward,
    "L046": _several_micro_batches,
    "L047": _matrices_not_whole,
    "R003": _no_replica_can_leave,
    "R004": _gradients_not_whole,
    "R005": _unsuitable_node_kinds,
    "R006": _dependent_replicas,
    "R009": _unsuitable_for_parameter_servers,
    "R013": _unsuitable_restart_ranks,
}
_RUN_RESULTS: dict[str, Callable[[TrainingInputs, dict[str, float]], str]] = {
    "R001": _slow_checkpoint,
    "R002": _checkpoints_exceed_host,
    "R007": _endless_run,
}


# --- what is wrong with one plan, in the figures of its own case; and what would fix it


def reason(answer: Answer, code: str) -> str:
    """The reason behind a code against a plan, as a sentence with the plan's numbers."""
    return reason_of(answer.inputs, answer.evaluation.block, answer.evaluation.costs.row(), code)


def reason_of(inputs: TrainingInputs, block: Block, costs: dict[str, float], code: str) -> str:
    """The reason behind a code against a plan of a search, as a sentence; costs: the plan's results by name."""
    if code in _SENTENCES:
        return _SENTENCES[code](inputs, block)
    if code == "M001":
        peak, usable = costs["memory_peak"], float(inputs.usable_memory)
        usable = peak / costs["memory_share"] if inputs.groups else usable
        over = f"{gib_beside(peak - usable, peak)} GiB over the {gib(usable)} GiB usable"
        return f"{gib(peak)} GiB on the worst stage, {over}{largest_line_words(inputs, block)}"
    if code == NOT_SAFE:
        chance = chance_words(costs["fit_chance"])
        return f"{gib(costs['memory_peak'])} of {gib(inputs.usable_memory)} GiB fit with a chance of {chance}"
    if code == "M003":
        taken, holds = costs["host_memory"], float(inputs.host.capacity)
        if block.structure.offload_to == "cpu":
            over = f"{gib_beside(taken - holds, taken)} GiB over the {gib(holds)} GiB of a node"
            return f"{gib(taken)} GiB on the host, {over}"
        return f"{gib(taken)} GiB on the host, memory or drives {percent(costs['host_share'] - 1)} too full"
    if code in _RUN_RESULTS:
        return _RUN_RESULTS[code](inputs, costs)
    broken = _broken_limits(inputs, costs, code)
    return "; ".join(_missed_limit(inputs, limit, costs.get(limit.column, math.nan)) for limit in broken)


def largest_line_words(inputs: TrainingInputs, block: Block) -> str:
    """The largest line of the memory breakdown on the worst stage, in words; empty for several kinds of nodes."""
    if inputs.groups:
        return ""
    ledger = memory_of_one_kind(inputs, block)
    peaks = [number(peak) for peak in ledger.peaks]
    lines = {name: number(stages[peaks.index(max(peaks))]) for name, stages in ledger.lines.items()}
    name = max(lines, key=lambda each: lines[each])
    return f"; the largest part: {name.replace('_', ' ')} {gib(lines[name])} GiB"


def _broken_limits(inputs: TrainingInputs, costs: dict[str, float], code: str) -> Iterator[Limit]:
    """The limits that the costs break, of the kind that the code stands for."""
    for limit in stated_limits(inputs.case.scenario.limits):
        if limit.of_memory == (code == "M002") and not limit.holds(costs.get(limit.column, math.nan)):
            yield limit


def _missed_limit(inputs: TrainingInputs, limit: Limit, value: float) -> str:
    """A sentence on a missed limit: the result, the difference, and the limit."""
    name, bound = limit.column, float(limit.value)
    if math.isnan(value):
        return f"the limit on {limit.key} cannot be checked: {missing_input(inputs, name)}"
    if name == "memory_share":
        name, value, bound = "memory_peak", value * float(inputs.usable_memory), bound * float(inputs.usable_memory)
    off = result(name, abs(value - bound))
    off = f"{off.removesuffix(' %')} points" if off.endswith("%") else off
    missed = f"{limit.key} {result(name, value)} {MISSES[limit.kind]}"
    around = f" ± {percent(limit.within)}" if limit.kind == "target" else ""
    share = f" ({percent(float(limit.value))} of usable memory)" if limit.column == "memory_share" else ""
    return f"{missed} {result(name, bound)}{around}{share} by {off}"


def _size(block: Block, name: str) -> float:
    """The size of an axis in a block with a single plan, such as that of "tp"."""
    return float(getattr(block, name)[0])


def _product(block: Block, names: str, *, ahead: float = 1.0) -> str:
    """The product of a plan's sizes as text with its value, such as "tp 8 × pp 4 = 32"."""
    sizes = [(name, _size(block, name)) for name in names.split()]
    said = [f"{name} {counted(size)}" for name, size in sizes if size != 1] or [f"{sizes[0][0]} 1"]
    said = [counted(ahead), *said] if ahead != 1 else said
    product = math.prod(size for _, size in sizes) * ahead
    return " × ".join(said) + (f" = {counted(product)}" if len(said) > 1 else "")


def _ranks_unlike_cluster(inputs: TrainingInputs, block: Block) -> str:
    """Why the degrees do not multiply to the number of accelerators."""
    ranks = counted(number(inputs.ranks))
    if not _size(block, "dp").is_integer():
        return f"{ranks} accelerators are not divisible by {_product(block, 'tp pp cp')}"
    return f"{_product(block, 'tp pp cp dp')}, the cluster has {ranks} accelerators"


def _indivisible_layers(inputs: TrainingInputs, block: Block) -> str:
    """Why the layers do not divide over the pipeline."""
    structure, layers = block.structure, number(layer_count(inputs.model))
    over = _product(block, "pp vpp")
    if structure.split == "stated":
        stated = {"first": structure.first_stage_layers, "last": structure.last_stage_layers}
        said = and_list(f"{counted(held)} on the {name} stage" for name, held in stated.items() if held is not None)
        return f"{counted(layers)} layers, {said}, do not make whole chunks of layers over {over}"
    if structure.split in ("spread", "full-chunks"):
        empty = f"leaves a chunk without any of {counted(layers)} layers"
        return f"split {structure.split} under {structure.schedule} {empty}, {over}"
    if structure.split == "fitting":
        ends = f"{counted(layers + 1)} or {counted(layers + 2)}"
        return f"{counted(layers)} layers do not split over {over}, nor do {ends} if one end or both count as a layer"
    added = sum(SLOTS[structure.split])
    more = f" and {counted(added)} for the ends make {counted(layers + added)}, which" if added else ""
    return f"split {structure.split}: {counted(layers)} layers{more} do not split over {over}"


def _indivisible_heads(inputs: TrainingInputs, block: Block) -> str:
    """Why the heads do not divide over tp."""
    tp = _size(block, "tp")
    wrong = {heads for kind in inputs.model.kinds for heads in kind.head_counts if heads % tp}
    grouped = any(kind.compressed is not None for kind in inputs.model.kinds)
    what = "groups of heads" if grouped else "heads"
    return f"{and_list(map(counted, sorted(wrong)))} {what} are not divisible by tp {counted(tp)}"


def _indivisible_kv_heads(inputs: TrainingInputs, block: Block) -> str:
    """Why the key-value heads do not divide over tp."""
    tp = _size(block, "tp")
    held = {kind.attention.kv_heads for kind in inputs.model.kinds if kind.attention is not None}
    wrong = sorted(count for count in held if count % tp and tp % count)
    return f"{and_list(map(counted, wrong))} key-value heads are neither divisible by tp {counted(tp)} nor divide it"


def _indivisible_widths(inputs: TrainingInputs, block: Block) -> str:
    """Which inner widths of layers do not divide over tp."""
    tp, inner = _size(block, "tp"), {*dense_inner_widths(inputs.model.kinds)}
    widths = [("hidden", inputs.model.hidden), *(("ffn_hidden", width) for width in sorted(inner))]
    said = [f"{name} {counted(width)}" for name, width in widths if width % tp]
    return f"{and_list(said)} {'is' if len(said) == 1 else 'are'} not divisible by tp {counted(tp)}"


def _indivisible_sequence(inputs: TrainingInputs, block: Block) -> str:
    """Why the sequence does not divide over tp and cp."""
    return f"a sequence of {counted(number(inputs.sequence))} tokens is not divisible by {_product(block, 'tp cp')}"


def _indivisible_batch(inputs: TrainingInputs, block: Block) -> str:
    """Why the global batch does not divide over replicas and micro-batches."""
    return f"global batch {counted(number(inputs.global_batch))} is no multiple of {_product(block, 'dp micro_batch')}"


def _unsuitable_micro_batches(inputs: TrainingInputs, block: Block) -> str:
    """Why the number of micro-batches does not suit the schedule."""
    schedule, pp = block.structure.schedule, _size(block, "pp")
    form, least = FORMS[schedule], number(fewest_micro_batches(schedule, pp))
    wanted = {"one": "", "two": "an even number of them", "as many as stages": f"a multiple of pp {counted(pp)}"}
    needs = [f"at least {counted(least)}"] if least > 0 else []
    needs += [wanted[form.unit]] if wanted[form.unit] else []
    has = f"{counted(number(micro_batches(inputs, block)))} micro-batches"
    made = f"global batch {counted(number(inputs.global_batch))} over {_product(block, 'dp micro_batch')}"
    return f"{schedule} on pp {counted(pp)} needs {and_list(needs)}, not {has}: {made}"


def _unsuitable_chunks(inputs: TrainingInputs, block: Block) -> str:
    """Why pp and vpp do not suit the schedule."""
    schedule = block.structure.schedule
    stages = (
        "an even pp" if schedule in BOTH_WAYS else "pp ≥ 2" if is_later_schedule(schedule) or schedule in LOOPED else ""
    )
    chunks = "vpp ≥ 2" if schedule in LOOPED else "vpp 2" if schedule in FOLDED else "vpp 1"
    has = f"pp {counted(_size(block, 'pp'))} and vpp {counted(_size(block, 'vpp'))}"
    return f"{schedule} needs {and_list([*([stages] if stages else []), chunks])}, not {has}"


def _choices_not_offered(inputs: TrainingInputs, block: Block) -> str:
    """Which choices of the plan the stack does not offer, and what it offers."""
    structure, stack = block.structure, inputs.stack
    offload = stack.offload
    asked: list[tuple[str, Iterable[object], Iterable[object]]] = [
        ("zero", [structure.zero], stack.zero),
        ("recompute", [structure.recompute], stack.recompute),
        ("schedule", [structure.schedule], stack.schedules),
        ("recompute_modules", structure.recompute_modules or (), stack.recompute_modules),
        ("offload", structure.offload, offload.of if offload else ()),
        ("offload_to", [structure.offload_to] if structure.offload and offload else (), offload.to if offload else ()),
    ]
    if structure.recompute_layers is not None:
        key = f"recompute_method for recompute_layers {counted(structure.recompute_layers)}"
        asked.append((key, [structure.recompute_method], stack.recompute_methods))
    said = []
    for key, wanted, offered in asked:
        lacking = [str(value) for value in wanted if value not in [*offered]]
        there = [str(value) for value in offered]
        if lacking:
            said.append(f"{f'{key} {or_list(there)}' if there else f'no {key}'}, not {or_list(lacking)}")
    return f"{stack.name} offers {'; '.join(said)}"


def _too_long_sequence(inputs: TrainingInputs, block: Block) -> str:
    """Why a sequence is longer than the positions that the model has learned."""
    sequence, known = number(inputs.sequence), number(inputs.model.max_sequence)
    return f"{counted(sequence)} tokens, and {inputs.model.name} has learned {counted(known)} positions"


def _sharded_too_far(inputs: TrainingInputs, block: Block) -> str:
    """Why the software does not offer this ZeRO stage in a pipeline."""
    offered = or_list([str(zero) for zero in sorted(inputs.stack.pipelined_zero or inputs.stack.zero)])
    pp = counted(_size(block, "pp"))
    return f"{inputs.stack.name} takes zero {offered} in a pipeline of pp {pp}, not {block.structure.zero}"


def _indivisible_experts(inputs: TrainingInputs, block: Block) -> str:
    """Why the experts do not divide over ep."""
    counts = {kind.experts.count for kind in inputs.model.kinds if kind.experts is not None}
    wrong = sorted(count for count in counts if count % _size(block, "ep"))
    return f"{and_list(map(counted, wrong))} experts are not divisible by ep {counted(_size(block, 'ep'))}"


def _indivisible_expert_ranks(inputs: TrainingInputs, block: Block) -> str:
    """Why the ranks of a stage do not divide into groups of experts."""
    groups = "ep etp dp_replicate" if inputs.experts is not None else "ep etp"
    return f"{_product(block, 'tp cp dp')} ranks of a stage are not divisible by {_product(block, groups)}"


def _indivisible_expert_widths(inputs: TrainingInputs, block: Block) -> str:
    """Why the width of experts does not divide over etp."""
    widths = {kind.experts.ffn_hidden for kind in inputs.model.kinds if kind.experts is not None}
    wrong = sorted(width for width in widths if width % _size(block, "etp"))
    etp = f"etp {counted(_size(block, 'etp'))}"
    return f"an expert's inner width {and_list(map(counted, wrong))} is not divisible by {etp}"


def _indivisible_adapters(inputs: TrainingInputs, block: Block) -> str:
    """Why the rank of adapters does not divide over tp or etp."""
    rank = 0.0 if inputs.tuning is None else float(inputs.tuning.rank)
    name = "tp" if rank % _size(block, "tp") else "etp"
    return f"adapters of rank {counted(rank)} are not divisible by {name} {counted(_size(block, name))}"


def _missing_sequence_parallel(inputs: TrainingInputs, block: Block) -> str:
    """Why experts with tp need sequence parallelism."""
    tp = f"tp {counted(_size(block, 'tp'))}"
    return f"all of {tp} would send the same tokens to the experts, because sequence_parallel is false"


def _no_experts(inputs: TrainingInputs, block: Block) -> str:
    """Why ep and etp do not suit a model without experts."""
    cut = [f"{name} {counted(size)}" for name in ("ep", "etp") if (size := _size(block, name)) > 1]
    return f"{and_list(cut)}, but {inputs.model.name} has no experts"


def _indivisible_context_chunks(inputs: TrainingInputs, block: Block) -> str:
    """Why the sequence does not divide into the chunks of context parallelism."""
    chunks = 1.0 if block.structure.cp_type == "a2a" else 2.0
    sequence = counted(number(inputs.sequence))
    cut = _product(block, "cp", ahead=chunks)
    return f"a sequence of {sequence} tokens is not divisible by {cut} chunks of cp_type {block.structure.cp_type}"


def _indivisible_exchanged_heads(inputs: TrainingInputs, block: Block) -> str:
    """Why an all-to-all of heads for tokens would split heads."""
    ranks, cp, said = _size(block, "tp") * _size(block, "cp"), _size(block, "cp"), dict[str, None]()
    for kind in inputs.model.layers:
        every = block.structure.cp_type == "a2a"
        for heads in kind.head_counts if every else kind.scan_heads:
            if heads % ranks:
                said[f"{counted(heads)} heads are not divisible by {_product(block, 'tp cp')}"] = None
        cached = kind.attention if every else None
        held = 0.0 if cached is None else number(kv_heads_per_rank(cached.kv_heads, block.tp))
        if held % cp:
            said[f"{counted(held)} key and value heads of a rank are not divisible by cp {counted(cp)}"] = None
    return and_list(said)


def _indivisible_replicas(inputs: TrainingInputs, block: Block) -> str:
    """Why shard replicas do not divide dp."""
    replicas = counted(_size(block, "dp_replicate"))
    if block.structure.zero == 0:
        return f"zero 0 shards nothing of which there could be dp_replicate {replicas}"
    return f"dp {counted(_size(block, 'dp'))} is not divisible by dp_replicate {replicas}"


def _missing_context_parallel(inputs: TrainingInputs, block: Block) -> str:
    """Why the software does not offer this context parallelism."""
    offered = inputs.stack.context_parallel if inputs.stack.has("cp") else []
    cp = counted(_size(block, "cp"))
    has = f"{or_list(offered)} alone" if offered else f"no context parallelism{_stacks_with(inputs, 'cp')}"
    return f"cp {cp} by {block.structure.cp_type}, and {inputs.stack.name} has {has}"


def _missing_axes(inputs: TrainingInputs, block: Block) -> str:
    """Which axes of parallelism the software lacks."""
    said = (
        f"{axis} {counted(_size(block, axis))}, but {inputs.stack.name} has no {name}{_stacks_with(inputs, axis)}"
        for axis, name in _AXES.items()
        if _size(block, axis) > 1 and not inputs.stack.has(axis)
    )
    return "; ".join(said)


_AXES: dict[Axis, str] = {
    "tp": "tensor parallelism",
    "pp": "pipeline parallelism",
    "ep": "expert parallelism",
    "etp": "expert-tensor parallelism",
}
_SUGGESTED_STACKS = (  # the first two that run on the accelerators and have the axis
    *("fsdp2", "megatron-core", "transformers-deepspeed", "deepspeed"),
    *("maxtext-tpu", "neuronx-distributed", "megatron-deepspeed-gaudi"),
)


def _stacks_with(inputs: TrainingInputs, axis: Axis) -> str:
    """Up to two usual stacks on these accelerators whose software offers an axis, in words."""
    reader, found = DocumentReader(), []
    for name in _SUGGESTED_STACKS:
        stack = reader.document("stack", name)
        if inputs.case.accelerator.vendor in stack.makers and stack.layouts is not None and stack.has(axis):
            found.append(f"{name} (since {getattr(stack.layouts, axis)})")
    return f"; {or_list(found[:2])} have it" if found else ""


def _tokens_not_gathered(inputs: TrainingInputs, block: Block) -> str:
    """Why sparse attention would not see all tokens with context parallelism."""
    ranks, kind = counted(_size(block, "cp")), block.structure.cp_type
    name = inputs.model.name
    if any(kind.compressed is not None for kind in inputs.model.layers):
        return f"heads of {name} read one vector of a token or a run, which cp {ranks} by {kind} does not send to all"
    return f"the indexer of {name} selects among all tokens, but no rank of cp {ranks} by {kind} has all of them"


def _unsuitable_recompute_keys(inputs: TrainingInputs, block: Block) -> str:
    """Which recompute keys do not suit the recompute mode."""
    structure, said = block.structure, []
    if structure.recompute_modules is not None and structure.recompute != "selective":
        said.append(f"recompute_modules [{', '.join(structure.recompute_modules)}] need recompute selective")
    if structure.recompute_layers is not None and structure.recompute != "full":
        said.append(f"recompute_layers {counted(structure.recompute_layers)} need recompute full")
    return f"{and_list(said)}, not {structure.recompute}"


def _unsuitable_recompute_layers(inputs: TrainingInputs, block: Block) -> str:
    """Why the number of recomputed layers is impossible."""
    if not block.structure.recompute_layers:
        return "recompute_layers 0, but recompute_method uniform recomputes at least 1 at once"
    chunk = math.ceil(number(stage_layers(inputs.model, block).fullest) / _size(block, "vpp"))
    asked = counted(block.structure.recompute_layers or 0.0)
    return f"recompute_layers {asked}, and the most loaded chunk of {_product(block, 'pp vpp')} has {chunk}"


def _contradicting_offload(inputs: TrainingInputs, block: Block) -> str:
    """Which offload keys contradict each other or the ZeRO stage."""
    structure, kept = block.structure, set(block.structure.offload)
    said = []
    if "optimizer" in kept and structure.zero == 0:
        said.append("offload of the optimizer needs zero 1, 2 or 3, not 0")
    if "parameters" in kept and structure.zero != 3:
        said.append(f"offload of parameters needs zero 3, not {structure.zero}")
    alone = inputs.stack.offload is not None and inputs.stack.offload.parameters_alone
    if "parameters" in kept and "optimizer" not in kept and not alone:
        said.append("offload of parameters needs offload of the optimizer too")
    if structure.offload_to == "nvme" and not kept & {"optimizer", "parameters"}:
        said.append("offload_to nvme needs offload of the optimizer or of parameters")
    if structure.offload_layers is not None and "activations" not in kept:
        said.append(f"offload_layers {counted(structure.offload_layers)} needs offload of activations")
    return "; ".join(said)


_SENTENCES: dict[str, Callable[[TrainingInputs, Block], str]] = {
    "L001": _ranks_unlike_cluster,
    "L002": _indivisible_layers,
    "L003": _indivisible_heads,
    "L004": _indivisible_kv_heads,
    "L005": _indivisible_batch,
    "L006": _unsuitable_micro_batches,
    "L007": _indivisible_widths,
    "L008": _indivisible_sequence,
    "L009": _unsuitable_chunks,
    "L010": lambda inputs, block: "an equal plan is in the search too, and counted there",
    "L011": _choices_not_offered,
    "L012": _too_long_sequence,
    "L013": _sharded_too_far,
    "L020": _indivisible_experts,
    "L021": _indivisible_expert_ranks,
    "L022": _indivisible_expert_widths,
    "L023": _missing_sequence_parallel,
    "L024": _no_experts,
    "L025": _indivisible_adapters,
    "L030": _indivisible_context_chunks,
    "L031": _indivisible_exchanged_heads,
    "L032": _indivisible_replicas,
    "L033": _missing_context_parallel,
    "L034": _tokens_not_gathered,
    "L040": _unsuitable_recompute_keys,
    "L041": _unsuitable_recompute_layers,
    "L042": _contradicting_offload,
    "L048": _missing_axes,
    **_RUN_CONSTRAINTS,
}


NONE_ALONE = "no single key is enough; these together are"


def remedy_lines(found: Sequence[Remedy], *, indent: str) -> list[Line]:
    """Lines with a table of changes that fix a plan; a short answer leaves out remarks and the last changes first."""
    if not found:
        return []
    priced = any(remedy.price for remedy in found)
    own = [remedy for remedy in found if remedy.price not in ("money", "job")]
    together = bool(own) and all(len(remedy.settings) > 1 and not remedy.note for remedy in own)
    rows = [_remedy_row(remedy, first=not place, priced=priced) for place, remedy in enumerate(found)]
    names = ("cost in" if priced else "", "what to set", "memory", "step", "")
    grid = CellTable(names, rows, "llrrl", headed=priced, indent=indent)
    small = [(mark, memory, step, words) for mark, words, memory, step, _ in rows]
    heads = (names[0], "memory", "step", "what to set")
    shown: Line = CellTable(heads, small[:1], "lrrl", headed=priced, indent=indent)
    for count, spare in ((2, 1), (len(found), 3)) if len(found) > 1 else ():
        table = CellTable(heads, small[:count], "lrrl", headed=priced, indent=indent)
        shown = Detail([table], "further changes", spare=spare, instead=[shown])
    remarks = "remarks on changes" * any(remark for *_, remark in rows)
    return [*([styled(f"{indent}{NONE_ALONE}")] if together else []), Detail([grid], remarks, spare=5, instead=[shown])]


def _remedy_row(remedy: Remedy, *, first: bool, priced: bool) -> tuple[str, ...]:
    """The table row of a remedy."""
    mark = remedy.price if priced else "try" if first else ""
    memory = "" if remedy.memory_peak is None else f"{gib(remedy.memory_peak)} GiB"
    step = "" if remedy.step_time is None else show_time(remedy.step_time)
    return mark, settings_text(remedy), memory, step, _remedy_remark(remedy)


def settings_text(remedy: Remedy) -> str:
    """The settings of a remedy as options to type, and the values of its alternatives."""
    text = " ".join(f"--set {shlex.quote(setting)}" for setting in remedy.settings)
    others = [settings[0].partition("=")[2] for settings in remedy.alternatives[1:]]
    return f"{text} (or {or_list(others)})" if others else text


def _remedy_remark(remedy: Remedy) -> str:
    """The remark on a remedy: what it leaves, how many plans are valid, its chance to fit."""
    if remedy.left:
        return f"leaves {', '.join(remedy.left)}"
    too_large = remedy.memory_share is not None and remedy.memory_share > 1
    words = [f"{number_of(remedy.valid, 'plan')} valid"] if remedy.valid else []
    if remedy.chance is not None and not too_large and remedy.chance < SAFE:
        words.append(f"fits with a chance of {chance_words(remedy.chance)}")
    return " · ".join([*words, *(["does not fit"] if too_large else []), *([remedy.note] if remedy.note else [])])


def remedies_json(found: Sequence[Remedy]) -> list[dict[str, Any]]:
    """The remedies as plain values: the settings of every alternative, and the figures of the first."""
    return [
        {
            "set": list(settings),
            "costs": remedy.price or None,
            "memory_peak_bytes": remedy.memory_peak if place == 0 else None,
            "step_time_s": remedy.step_time if place == 0 else None,
            "fit_chance": remedy.chance if place == 0 else None,
            "left": list(remedy.left) if place == 0 else None,
        }
        for remedy in found
        for place, settings in enumerate(remedy.alternatives)
    ]
