"""Reasons to refuse a plan, by code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """A reason to refuse a plan, or to remark on it.

    fixes: the keys that can remove it, those first that one would think of first.
    """

    title: str
    meaning: str
    fixes: str = ""


REFUSALS = {
    "L001": Reason(
        "dp × tp × cp × pp ≠ ranks",
        "The degrees multiply to another number than the cluster has accelerators.",
        fixes="plan.dp plan.tp plan.pp plan.cp cluster.nodes",
    ),
    "L002": Reason(
        "layers not divisible by pp × vpp",
        "pp × vpp must divide the layers, or them and the ends that the split counts as a layer; split: spread divides "
        "any, full-chunks any that leave the first chunk a layer, first_stage_layers and last_stage_layers state the "
        "ends. Schedules both ways have no spread, folded ones no stated ends, neither has full-chunks.",
        fixes="plan.pp plan.vpp plan.split plan.first_stage_layers plan.last_stage_layers plan.schedule",
    ),
    "L003": Reason(
        "heads not divisible by tp",
        "Tensor parallelism gives every rank whole query heads, of compressed attention whole groups of them, so tp "
        "must divide their number.",
        fixes="plan.tp",
    ),
    "L004": Reason(
        "kv heads, tp",
        "tp must divide the key and value heads, or be a multiple of them, which repeats them.",
        fixes="plan.tp",
    ),
    "L005": Reason(
        "batch not divisible by dp × micro_batch",
        "The global batch must be a whole number of micro-batches on every replica.",
        fixes="plan.micro_batch plan.dp plan.tp plan.pp workload.global_batch",
    ),
    "L006": Reason(
        "micro-batches, pp",
        "interleaved and chimera need a number of micro-batches that pp divides; zb-h1, looped-bfs at least pp; zb-h2, "
        "zb-v at least 2 pp − 1; v-half, v-min, dualpipev, dualpipe 2 pp, the last an even number.",
        fixes="plan.micro_batch plan.pp plan.schedule workload.global_batch",
    ),
    "L007": Reason(
        "widths not divisible by tp", "tp must divide the MLP's inner width and the hidden width.", fixes="plan.tp"
    ),
    "L008": Reason(
        "sequence not divisible by tp",
        "Sequence parallelism splits a rank's part of the sequence over tp, so tp must divide it.",
        fixes="plan.tp plan.sequence_parallel workload.sequence",
    ),
    "L009": Reason(
        "schedule, pp, vpp",
        "interleaved and looped-bfs need pp ≥ 2 and vpp ≥ 2; zb-v, v-half, v-min and dualpipev vpp = 2; all others "
        "vpp = 1; dualpipe and chimera an even pp.",
        fixes="plan.schedule plan.vpp plan.pp",
    ),
    "L010": Reason(
        "same plan again",
        "At tp = 1 sequence parallelism changes nothing; at pp = 1 all schedules are one; at dp = cp = 1 zero "
        "stages that keep the same; at cp = 1 all cp_type; where layers divide splits even, spread and full-chunks.",
    ),
    "L011": Reason(
        "not in the stack",
        "The training software does not offer this zero stage, recompute mode or schedule.",
        fixes="plan.zero plan.recompute plan.schedule plan.recompute_modules plan.recompute_layers plan.offload "
        "plan.offload_to",
    ),
    "L012": Reason(
        "sequence too long",
        "The sequence has more tokens than the model has learned positions for (max_sequence).",
        fixes="workload.sequence",
    ),
    "L013": Reason(
        "zero, pp",
        "The training software offers this zero stage without a pipeline only; DeepSpeed's takes none from 2 on.",
        fixes="plan.zero plan.pp",
    ),
    "L020": Reason(
        "experts not divisible by ep",
        "Every rank holds whole experts, so ep must divide the experts of a layer.",
        fixes="plan.ep",
    ),
    "L021": Reason(
        "tp × cp × dp not divisible by ep × etp",
        "Experts cut the ranks of a pipeline stage a second way, so ep × etp must divide tp × cp × dp, within each of "
        "dp_replicate replicas; EP adds no ranks.",
        fixes="plan.ep plan.etp plan.tp plan.dp_replicate plan.pp plan.dp",
    ),
    "L022": Reason(
        "expert width not divisible by etp", "etp must divide the inner width of an expert.", fixes="plan.etp"
    ),
    "L023": Reason(
        "experts, whole sequences",
        "With tp ≥ 2 a model with experts needs sequence parallelism: every rank sends its own tokens to the experts.",
        fixes="plan.sequence_parallel plan.tp",
    ),
    "L024": Reason("no experts", "The model has no experts for ep or etp to cut.", fixes="plan.ep plan.etp"),
    "L025": Reason(
        "adapter rank not divisible by tp",
        "Where the training software cuts both matrices of an adapter, tp must divide its inner width, and etp that of "
        "an expert's.",
        fixes="plan.tp plan.etp",
    ),
    "L030": Reason(
        "sequence not divisible by 2 × cp",
        "A ring and gathered keys and values cut the sequence in 2 × cp chunks, an early and a late one for each rank, "
        "so that causal attention is even; all-to-all cuts it in cp.",
        fixes="plan.cp plan.cp_type workload.sequence",
    ),
    "L031": Reason(
        "heads not divisible by tp × cp",
        "All-to-all context parallelism, and any of state-space layers, gives every rank whole heads, so tp × cp must "
        "divide the heads, and cp the key and value heads of a rank.",
        fixes="plan.cp plan.cp_type plan.tp",
    ),
    "L032": Reason(
        "dp_replicate",
        "Replicas of the shards must divide dp, and only zero 1 to 3 shards at all; otherwise it is 1.",
        fixes="plan.dp_replicate plan.zero",
    ),
    "L033": Reason(
        "no such cp_type",
        "The training software does not offer this way of context parallelism.",
        fixes="plan.cp_type plan.cp",
    ),
    "L034": Reason(
        "indexer without all-gather",
        "An indexer picks tokens among all earlier ones. A ring shows a rank one block at a time, and an exchange of "
        "heads splits the heads whose scores it adds up, so only an all-gather of latents and index keys serves it. "
        "Compressed attention has one key for all heads, and entries that all ranks need: it is gathered likewise.",
        fixes="plan.cp_type plan.cp",
    ),
    "L035": Reason(
        "layers tied across stages",
        "Layers read keys and values of an earlier layer, or tables beside the embedding. No training software sends "
        "these from one pipeline stage to another, so pp is 1.",
        fixes="plan.pp",
    ),
    "L036": Reason(
        "selective scan with cp",
        "A selective scan makes the steps of a token from all channels, so an exchange of channels for tokens would "
        "need a second one; no training software does it.",
        fixes="plan.cp",
    ),
    "L040": Reason(
        "recompute keys",
        "recompute_modules belong to selective recompute, recompute_layers and recompute_method to full.",
        fixes="plan.recompute plan.recompute_modules plan.recompute_layers",
    ),
    "L041": Reason(
        "recompute layers",
        "A model chunk has no more layers than that; all of them is recompute: full, and uniform takes at least one.",
        fixes="plan.recompute_layers plan.recompute",
    ),
    "L042": Reason(
        "offload keys",
        "The optimizer leaves the device only sharded, under zero 1 to 3; parameters under zero 3 only, and with the "
        "optimizer unless the training software leaves that on the device; offload_to is for these two, offload_layers "
        "for activations.",
        fixes="plan.zero plan.offload plan.offload_to plan.offload_layers",
    ),
    "L043": Reason(
        "host unknown",
        "Offload needs what the node's document may lack: host, memory, and for nvme drives.",
        fixes="plan.offload plan.offload_to",
    ),
    "L044": Reason(
        "no such precision", "The accelerator lacks the type, or the training software does not train in it."
    ),
    "L045": Reason(
        "no step in backward",
        "An optimizer with in_backward needs zero 0 or 3, its states on the device, and training software that offers "
        "it, such as torchtune.",
        fixes="plan.zero workload.optimizer stack",
    ),
    "L046": Reason(
        "several micro-batches in backward",
        "An optimizer with in_backward updates each layer as soon as its gradients exist: a step is one micro-batch.",
        fixes="plan.micro_batch workload.global_batch",
    ),
    "L047": Reason(
        "projected gradients are cut",
        "An optimizer with a projection needs the whole gradient of each matrix on a device: tp 1, zero 0 or one rank, "
        "and its states on the device.",
        fixes="plan.tp plan.zero plan.offload workload.optimizer",
    ),
    "M001": Reason("does not fit", "Peak memory of the worst stage is over what is usable."),
    "M002": Reason("memory limit", "Peak memory is over the limit the scenario sets, or its chance to fit below."),
    "M003": Reason("host too small", "What is offloaded takes more than the host's memory, or drives, of the node."),
    "R001": Reason(
        "checkpoints overlap",
        "Checkpoints come faster than they can be written: a longer run.checkpoint.interval, or a faster store.",
    ),
    "R002": Reason(
        "copies on hosts",
        "Copies of checkpoints, and what is offloaded, take more than the memory of a node: mode async keeps one copy, "
        "mode memory four, sync none.",
    ),
    "R003": Reason(
        "nothing can leave",
        "run.elastic goes on without a replica, so that others must hold all states: zero 0 with dp over 1, or "
        "dp_replicate over 1.",
        fixes="plan.zero plan.dp_replicate",
    ),
    "R004": Reason(
        "compression, whole gradients",
        "one-bit, top-k and powersgd need all gradients on each rank: zero 0 or 1, without FSDP and dp_replicate. "
        "Sharded gradients are scattered in fp16, or in int8 by an all-to-all.",
        fixes="plan.compression plan.zero plan.dp_replicate",
    ),
    "R005": Reason(
        "groups inside a replica",
        "A replica lies on nodes of one kind, so tp × cp × pp must divide the accelerators of each group, with ep 1. "
        "Replicas that meet in each micro-batch (zero 2 and 3, FSDP), and interleaved stages, need shares: equal. With "
        "shares: stages a pipeline goes over all groups, with a whole number of stages on each.",
        fixes="plan.shares plan.tp plan.pp plan.ep plan.zero",
    ),
    "R006": Reason(
        "asynchronous replicas",
        "async and stale are of whole replicas that hold all states: pp 1, zero 0 and dp over 1. With a critical batch "
        "there would be a law of steps, and none holds for stale gradients: leave out workload.critical_batch.",
        fixes="plan.sync plan.zero plan.pp",
    ),
    "R009": Reason(
        "servers, whole gradients",
        "Servers sum whole gradients of whole replicas: zero 0, compression none, fp16 or int8, and first no more "
        "replicas than there are.",
        fixes="plan.sync plan.zero plan.compression",
    ),
    "R013": Reason(
        "restart on fewer ranks",
        "run.restart.ranks goes on with whole replicas: tp × cp × pp must divide it, and it is less than the ranks.",
    ),
    "T001": Reason("limit of the scenario", "A result other than memory is beyond a limit that the scenario sets."),
}
