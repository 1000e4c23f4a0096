"""Reasons to refuse a plan and remarks on a plan, by code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """A reason to refuse a plan, or to remark on it."""

    title: str
    meaning: str


REFUSALS = {
    "L001": Reason(
        "dp × tp × cp × pp ≠ ranks", "The degrees multiply to another number than the cluster has accelerators."
    ),
    "L002": Reason(
        "layers not divisible by pp × vpp",
        "pp × vpp must divide the layers, or them and the ends that the split counts as a layer; split: spread divides "
        "any, full-chunks any that leave the first chunk a layer, first_stage_layers and last_stage_layers state the "
        "ends. Schedules both ways have no spread, folded ones no stated ends, neither has full-chunks.",
    ),
    "L003": Reason(
        "heads not divisible by tp",
        "Tensor parallelism gives every rank whole query heads, so tp must divide the heads.",
    ),
    "L004": Reason(
        "kv heads, tp", "tp must divide the key and value heads, or be a multiple of them, which repeats them."
    ),
    "L005": Reason(
        "batch not divisible by dp × micro_batch",
        "The global batch must be a whole number of micro-batches on every replica.",
    ),
    "L006": Reason(
        "micro-batches, pp",
        "interleaved and chimera need a number of micro-batches that pp divides; zb-h1, looped-bfs at least pp; zb-h2, "
        "zb-v at least 2 pp − 1; v-half, v-min, dualpipev, dualpipe 2 pp, the last an even number.",
    ),
    "L007": Reason("widths not divisible by tp", "tp must divide the MLP's inner width and the hidden width."),
    "L008": Reason(
        "sequence not divisible by tp",
        "Sequence parallelism splits a rank's part of the sequence over tp, so tp must divide it.",
    ),
    "L009": Reason(
        "schedule, pp, vpp",
        "interleaved and looped-bfs need pp ≥ 2 and vpp ≥ 2; zb-v, v-half, v-min and dualpipev vpp = 2; all others "
        "vpp = 1; dualpipe and chimera an even pp.",
    ),
    "L010": Reason(
        "same plan again",
        "At tp = 1 sequence parallelism changes nothing; at pp = 1 all schedules are one; at dp = cp = 1 zero "
        "stages that keep the same; at cp = 1 all cp_type; where layers divide splits even, spread and full-chunks.",
    ),
    "L011": Reason(
        "not in the stack", "The training software does not offer this zero stage, recompute mode or schedule."
    ),
    "L012": Reason(
        "sequence too long", "The sequence has more tokens than the model has learned positions for (max_sequence)."
    ),
    "L013": Reason(
        "zero, pp",
        "The training software offers this zero stage without a pipeline only; DeepSpeed's takes none from 2 on.",
    ),
    "L020": Reason(
        "experts not divisible by ep", "Every rank holds whole experts, so ep must divide the experts of a layer."
    ),
    "L021": Reason(
        "tp × cp × dp not divisible by ep × etp",
        "Experts cut the ranks of a pipeline stage a second way, so ep × etp must divide tp × cp × dp, within each of "
        "dp_replicate replicas; EP adds no ranks.",
    ),
    "L022": Reason("expert width not divisible by etp", "etp must divide the inner width of an expert."),
    "L023": Reason(
        "experts, whole sequences",
        "With tp ≥ 2 a model with experts needs sequence parallelism: every rank sends its own tokens to the experts.",
    ),
    "L024": Reason("no experts", "The model has no experts for ep or etp to cut."),
    "L025": Reason(
        "adapter rank not divisible by tp",
        "Where the training software cuts both matrices of an adapter, tp must divide its inner width, and etp that of "
        "an expert's.",
    ),
    "L030": Reason(
        "sequence not divisible by 2 × cp",
        "A ring and gathered keys and values cut the sequence in 2 × cp chunks, an early and a late one for each rank, "
        "so that causal attention is even; all-to-all cuts it in cp.",
    ),
    "L031": Reason(
        "heads not divisible by tp × cp",
        "All-to-all context parallelism, and any of state-space layers, gives every rank whole heads, so tp × cp must "
        "divide the heads, and cp the key and value heads of a rank.",
    ),
    "L032": Reason(
        "dp_replicate", "Replicas of the shards must divide dp, and only zero 1 to 3 shards at all; otherwise it is 1."
    ),
    "L033": Reason("no such cp_type", "The training software does not offer this way of context parallelism."),
    "L034": Reason(
        "indexer without all-gather",
        "An indexer picks tokens among all earlier ones. A ring shows a rank one block at a time, and an exchange of "
        "heads splits the heads whose scores it adds up, so only an all-gather of latents and index keys serves it.",
    ),
    "L035": Reason(
        "layers tied across stages",
        "Layers read keys and values of an earlier layer, or tables beside the embedding. No training software sends "
        "these from one pipeline stage to another, so pp is 1.",
    ),
    "L036": Reason(
        "selective scan with cp",
        "A selective scan makes the steps of a token from all channels, so an exchange of channels for tokens would "
        "need a second one; no training software does it.",
    ),
    "L040": Reason(
        "recompute keys",
        "recompute_modules belong to selective recompute, recompute_layers and recompute_method to full.",
    ),
    "L041": Reason(
        "recompute layers",
        "A model chunk has no more layers than that; all of them is recompute: full, and uniform takes at least one.",
    ),
    "L042": Reason(
        "offload keys",
        "The optimizer leaves the device only sharded, under zero 1 to 3; parameters under zero 3 only, and with the "
        "optimizer unless the training software leaves that on the device; offload_to is for these two, offload_layers "
        "for activations.",
    ),
    "L043": Reason(
        "host unknown", "Offload needs what the node's document may lack: host, memory, and for nvme drives."
    ),
    "L044": Reason(
        "no such precision", "The accelerator lacks the type, or the training software does not train in it."
    ),
    "L045": Reason(
        "no step in backward",
        "An optimizer with in_backward needs zero 0 or 3, its states on the device, and training software that offers "
        "it, such as torchtune.",
    ),
    "L046": Reason(
        "several micro-batches in backward",
        "An optimizer with in_backward updates each layer as soon as its gradients exist: a step is one micro-batch.",
    ),
    "L047": Reason(
        "projected gradients are cut",
        "An optimizer with a projection needs the whole gradient of each matrix on a device: tp 1, zero 0 or one rank, "
        "and its states on the device.",
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
    ),
    "R004": Reason(
        "compression, whole gradients",
        "one-bit, top-k and powersgd need all gradients on each rank: zero 0 or 1, without FSDP and dp_replicate. "
        "Sharded gradients are scattered in fp16, or in int8 by an all-to-all.",
    ),
    "R005": Reason(
        "groups inside a replica",
        "A replica lies on nodes of one kind, so tp × cp × pp must divide the accelerators of each group, with ep 1. "
        "Replicas that meet in each micro-batch (zero 2 and 3, FSDP), and interleaved stages, need shares: equal.",
    ),
    "R006": Reason(
        "asynchronous replicas",
        "async and stale are of whole replicas that hold all states: pp 1, zero 0 and dp over 1. With a critical batch "
        "there would be a law of steps, and none holds for stale gradients: leave out workload.critical_batch.",
    ),
    "R009": Reason(
        "servers, whole gradients",
        "Servers sum whole gradients of whole replicas: zero 0, compression none, fp16 or int8, and first no more "
        "replicas than there are.",
    ),
    "R013": Reason(
        "restart on fewer ranks",
        "run.restart.ranks goes on with whole replicas: tp × cp × pp must divide it, and it is less than the ranks.",
    ),
    "T001": Reason("limit of the scenario", "A result other than memory is beyond a limit that the scenario sets."),
}

REMARKS = {
    "N001": Reason(
        "tp leaves the domain",
        "Tensor parallelism reaches across nodes, some of its groups at least, where its many small collectives are "
        "slow.",
    ),
    "N002": Reason("kv heads repeat", "tp exceeds the key and value heads; they repeat on several ranks."),
    "N003": Reason("tight", "Peak memory is between 90 and 100 % of what is usable; a small change may not fit."),
    "N005": Reason(
        "never fitted",
        "No measured kernels of this accelerator were fitted, or their fit has no residual; constants or residuals "
        "common to all are used, and bands are wider.",
    ),
    "N006": Reason(
        "longer than trained",
        "The sequence is longer than the model's max_sequence; rotary positions may need scaling.",
    ),
    "N007": Reason(
        "convention of GPT blocks", "That FLOP convention counts multi-head attention and an MLP of four times hidden."
    ),
    "N008": Reason(
        "assumed of no experts", "The model has no experts, so assume.experts and assume.overlap.ep change nothing."
    ),
    "N009": Reason(
        "heads without tensor cores",
        "Head width times element size is no multiple of 16 bytes, so unfused attention misses the tensor cores; take "
        "heads of a multiple of 8 elements, or fused attention (costmodel explain peak_of_heads).",
    ),
    "N010": Reason(
        "unequal chunks",
        "Ranks hold chunks of unequal layers, which wait for each other. The mean chunk stands for all: where chunks "
        "are of one to four layers the pipeline takes up to a third longer, or a seventh less. A search does not try "
        "it unasked.",
    ),
    "N011": Reason(
        "over the peak",
        "MFU or HFU is over 100 %. Either something assumed lets the accelerator run faster than it can "
        "(assume.sustained well below 1), or the share is of another peak or convention than the products' own "
        "(assume.mfu_peak, assume.flop_convention).",
    ),
    "N014": Reason(
        "over the host link",
        "The interfaces of an accelerator together carry more than its link to the host; it sends no faster than that.",
    ),
    "N020": Reason(
        "batch in tokens",
        "The tokens of a batch are no whole number of sequences; the nearest number of sequences is taken.",
    ),
    "N021": Reason(
        "unusual sequence",
        "k is 1,000 and Ki is 1,024: 16k is 16,000 tokens, 16Ki the 16,384 that most models are trained on. Fewer than "
        "32 tokens may have been meant in thousands.",
    ),
    "N022": Reason(
        "unusual batch",
        "global_batch counts sequences, and a step of these takes over 256 million tokens, twice the largest published "
        "(MiniMax-01, 2025: 128 million). A batch in tokens is written with its unit: '4M tokens'.",
    ),
    "N023": Reason(
        "at risk",
        "The peak is within usable memory, but its P90 is not: one run in ten or more is expected to need more. "
        "Rankings show the chance to fit; --safe 90% asks for it.",
    ),
    "N024": Reason(
        "plan and search disagree",
        "A key of the plan that --set gives is held in a search, unless search lists values of that key or of one "
        "that decides it; then the search tries what it lists.",
    ),
    "N025": Reason(
        "host assumed",
        "The node does not state its host's memory; the least that shipped nodes with the same link have for each "
        "accelerator is assumed. cluster.node.memory states your own.",
    ),
    "N026": Reason(
        "leaner steps",
        "A step in backward keeps the gradients of one layer, and a paged optimizer moves its states to the host where "
        "the accelerator is full: --set stack=torchtune --set workload.optimizer=paged-adam-8bit --set "
        "workload.optimizer.in_backward=true.",
    ),
    "N027": Reason(
        "decomposition not timed",
        "An optimizer with a projection finds a new subspace now and then, by a singular value decomposition of every "
        "gradient, which takes seconds to minutes. It is not in the step time.",
    ),
    "N030": Reason(
        "nothing to compress",
        "plan.compression has no effect: one rank holds all gradients, or the stack sends them as narrow already.",
    ),
    "N036": Reason(
        "power cap",
        "A cap at or over the rating of the accelerator changes nothing. Under 70 % of it the voltage cannot fall "
        "further, and steps take longer than computed.",
    ),
    "N037": Reason(
        "half of the run is lost",
        "Goodput is under 50 %: the job is interrupted about as often as it saves its work. Ends of the band are then "
        "without meaning; costmodel run lists what helps.",
    ),
    "N035": Reason(
        "over the critical batch",
        "The batch is over twice workload.critical_batch: twice as large a one saves under a sixth of the steps. The "
        "critical batch grows during training, and differs two to three times with data and tokenizer.",
    ),
    "N034": Reason(
        "sites, more samples",
        "At equal tokens the loss rises with the number of sites and with the steps between exchanges. No law here "
        "states by how much: what is computed is speed, traffic and memory.",
    ),
    "N033": Reason(
        "shares of one kind", "All nodes are of one kind, so that plan.shares has no effect: all shares are equal."
    ),
    "N032": Reason(
        "speed alone",
        "Convergence of stale gradients, and of samples that are left out, has no law here: steps are those stated.",
    ),
    "N031": Reason(
        "compression not in the stack",
        "The training software does not offer this compression, so that it takes a hook of your own.",
    ),
    "N004": Reason("outside the fit", "A matmul has a side under 256, where the efficiency was not fitted."),
}
