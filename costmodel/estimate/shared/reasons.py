"""Reasons why a plan is invalid, and remarks on an answer, with their texts."""

from __future__ import annotations

from costmodel.ground.record import record


@record
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
        "The cluster does not have as many accelerators as the product of the degrees.",
        fixes="plan.dp plan.tp plan.pp plan.cp cluster.nodes",
    ),
    "L002": Reason(
        "layers not divisible by pp × vpp",
        "pp × vpp must divide the layers, or the layers plus the embedding and the head if the split counts these. "
        "split: spread allows any number of layers; full-chunks allows any number that leaves the first chunk at "
        "least one layer; first_stage_layers and last_stage_layers state the end stages. Bidirectional schedules do "
        "not allow spread, folded schedules do not allow first_stage_layers and last_stage_layers, and neither "
        "allows full-chunks.",
        fixes="plan.pp plan.vpp plan.split plan.first_stage_layers plan.last_stage_layers plan.schedule",
    ),
    "L003": Reason(
        "heads not divisible by tp",
        "Tensor parallelism gives every rank whole query heads, or whole groups of them with compressed attention. So "
        "tp must divide the number of heads or groups.",
        fixes="plan.tp",
    ),
    "L004": Reason(
        "kv heads not divisible by tp",
        "tp must divide the number of key-value heads, or be a multiple of it; the heads are then replicated.",
        fixes="plan.tp",
    ),
    "L005": Reason(
        "batch not divisible by dp × micro_batch",
        "The global batch must be a whole number of micro-batches on every replica.",
        fixes="plan.micro_batch plan.dp plan.tp plan.pp workload.global_batch",
    ),
    "L006": Reason(
        "micro-batches do not suit the schedule",
        "interleaved and chimera need a number of micro-batches that is a multiple of pp. zb-h1 and looped-bfs need "
        "at least pp, zb-h2 and zb-v at least 2 pp − 1, v-half, v-min, dualpipev and dualpipe at least 2 pp; "
        "dualpipe also needs an even number.",
        fixes="plan.micro_batch plan.pp plan.schedule workload.global_batch",
    ),
    "L007": Reason(
        "widths not divisible by tp", "tp must divide the inner width of the MLP and the hidden width.", fixes="plan.tp"
    ),
    "L008": Reason(
        "sequence not divisible by tp",
        "Sequence parallelism splits a rank's part of the sequence over tp, so tp must divide that part.",
        fixes="plan.tp plan.sequence_parallel workload.sequence",
    ),
    "L009": Reason(
        "pp, vpp do not suit the schedule",
        "interleaved and looped-bfs need pp ≥ 2 and vpp ≥ 2. zb-v, v-half, v-min and dualpipev need vpp = 2; all "
        "others need vpp = 1. dualpipe and chimera need an even pp.",
        fixes="plan.schedule plan.vpp plan.pp",
    ),
    "L010": Reason(
        "duplicate plan",
        "The plan equals another one. At tp = 1, sequence parallelism has no effect; at pp = 1, all schedules are "
        "the same; at dp = cp = 1, so are zero stages that keep the same states; at cp = 1, so are all cp_type. If "
        "the layers divide evenly, so are the splits even, spread and full-chunks.",
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
        "zero stage with a pipeline",
        "The training software offers this zero stage only without a pipeline. DeepSpeed allows no pipeline from "
        "zero 2 on.",
        fixes="plan.zero plan.pp",
    ),
    "L020": Reason(
        "experts not divisible by ep",
        "Every rank holds whole experts, so ep must divide the number of experts in a layer.",
        fixes="plan.ep",
    ),
    "L021": Reason(
        "tp × cp × dp not divisible by ep × etp",
        "Expert parallelism divides the ranks of a pipeline stage a second time. So ep × etp must divide tp × cp × "
        "dp, or the part of it in each of the dp_replicate replicas; ep adds no ranks.",
        fixes="plan.ep plan.etp plan.tp plan.dp_replicate plan.pp plan.dp",
    ),
    "L022": Reason(
        "expert width not divisible by etp", "etp must divide the inner width of an expert.", fixes="plan.etp"
    ),
    "L023": Reason(
        "experts need sequence parallelism",
        "With tp ≥ 2, a model with experts needs sequence parallelism: every rank sends its own tokens to the experts.",
        fixes="plan.sequence_parallel plan.tp",
    ),
    "L024": Reason("no experts", "The model has no experts, so ep and etp cannot shard any.", fixes="plan.ep plan.etp"),
    "L025": Reason(
        "adapter rank not divisible by tp",
        "If the training software shards both matrices of an adapter, tp must divide the adapter's rank, and etp "
        "the rank of an expert's adapter.",
        fixes="plan.tp plan.etp",
    ),
    "L030": Reason(
        "sequence not divisible by 2 × cp",
        "Ring attention and gathered keys and values split the sequence into 2 × cp chunks: each rank gets an early "
        "and a late one, so that causal attention is balanced. All-to-all splits it into cp chunks.",
        fixes="plan.cp plan.cp_type workload.sequence",
    ),
    "L031": Reason(
        "heads not divisible by tp × cp",
        "All-to-all context parallelism gives every rank whole heads, and so does any context parallelism of "
        "state-space layers. So tp × cp must divide the number of heads, and cp the key-value heads of a rank.",
        fixes="plan.cp plan.cp_type plan.tp",
    ),
    "L032": Reason(
        "dp_replicate",
        "dp_replicate must divide dp. It needs zero 1 to 3, because otherwise nothing is sharded and it must be 1.",
        fixes="plan.dp_replicate plan.zero",
    ),
    "L033": Reason(
        "cp_type not offered",
        "The training software does not offer this kind of context parallelism.",
        fixes="plan.cp_type plan.cp",
    ),
    "L034": Reason(
        "indexer needs an all-gather",
        "An indexer selects tokens among all earlier ones. A ring shows a rank only one block at a time, and an "
        "exchange of heads splits the heads whose scores the indexer sums. So only an all-gather of latents and "
        "index keys works. The same holds for compressed attention: it has one key for all heads, and all ranks need "
        "its entries.",
        fixes="plan.cp_type plan.cp",
    ),
    "L035": Reason(
        "layers depend on other stages",
        "Some layers read the keys and values of an earlier layer, or tables next to the embedding. No training "
        "software sends these between pipeline stages, so pp must be 1.",
        fixes="plan.pp",
    ),
    "L036": Reason(
        "context parallelism of a selective scan",
        "A selective scan computes the step sizes of a token from all channels. So exchanging channels for tokens "
        "would need a second exchange, which no training software has.",
        fixes="plan.cp",
    ),
    "L040": Reason(
        "recompute keys do not match",
        "recompute_modules needs recompute: selective; recompute_layers and recompute_method need recompute: full.",
        fixes="plan.recompute plan.recompute_modules plan.recompute_layers",
    ),
    "L041": Reason(
        "recompute layers",
        "recompute_layers exceeds the layers of a model chunk. To recompute all layers use recompute: full; with "
        "recompute_method: uniform at least one layer is needed.",
        fixes="plan.recompute_layers plan.recompute",
    ),
    "L042": Reason(
        "offload keys do not match",
        "The optimizer can be offloaded only if it is sharded, with zero 1 to 3. Parameters can be offloaded only "
        "with zero 3, and together with the optimizer unless the training software keeps that on the device. "
        "offload_to applies to these two, offload_layers to activations.",
        fixes="plan.zero plan.offload plan.offload_to plan.offload_layers",
    ),
    "L043": Reason(
        "host unknown",
        "Offload needs facts that the node's document does not state: host, memory, and drives for nvme.",
        fixes="plan.offload plan.offload_to",
    ),
    "L044": Reason(
        "precision not offered",
        "The accelerator does not support this data type, or the training software does not train in it.",
    ),
    "L045": Reason(
        "in_backward not possible",
        "An optimizer with in_backward needs zero 0 or 3, its states on the device, and training software that "
        "offers it, such as torchtune.",
        fixes="plan.zero workload.optimizer stack",
    ),
    "L046": Reason(
        "in_backward with several micro-batches",
        "An optimizer with in_backward updates each layer as soon as its gradients exist, so a step can have only "
        "one micro-batch.",
        fixes="plan.micro_batch workload.global_batch",
    ),
    "L047": Reason(
        "projected gradients must be whole",
        "An optimizer with a projection needs the whole gradient of each matrix on one device: tp 1, zero 0 or one "
        "rank, and its states on the device.",
        fixes="plan.tp plan.zero plan.offload workload.optimizer",
    ),
    "L048": Reason(
        "axis not in the software",
        "The training software does not have this axis of parallelism: layouts of its stack lists those it has, with "
        "the release that brought each. If yours has it, state it: --set stack.layouts.tp=RELEASE.",
        fixes="plan.tp plan.pp plan.ep plan.etp stack",
    ),
    "M001": Reason(
        "does not fit",
        "The peak memory of the worst stage exceeds the usable memory. costmodel memory shows the largest part: states "
        "shrink with plan.zero, tp, pp or ep; activations with plan.recompute, a smaller micro_batch, cp or a shorter "
        "sequence; plan.offload moves parts to the host.",
    ),
    "M002": Reason(
        "memory limit", "The peak memory exceeds the limit of the scenario, or the chance to fit is below its limit."
    ),
    "M004": Reason(
        "may not fit",
        "The expected peak is within the usable memory, but the chance that it fits is below the one that the search "
        "prefers: 90 %, or as --safe states. --safe off ranks these plans too.",
    ),
    "M003": Reason("host too small", "The offloaded states exceed the memory or the drives of the node's host."),
    "R001": Reason(
        "checkpoints overlap",
        "Checkpoints start faster than they can be written. Use a longer run.checkpoint.interval, or faster storage.",
    ),
    "R002": Reason(
        "copies do not fit on hosts",
        "Copies of checkpoints and offloaded states exceed the host memory of a node. Mode async keeps one copy, "
        "mode memory four, mode sync none.",
    ),
    "R003": Reason(
        "no replica can leave",
        "run.elastic continues without the replicas that have a rank on the failed node, so a replica elsewhere must "
        "hold all states: zero 0 or dp_replicate, with more replicas than one node has ranks of.",
        fixes="plan.zero plan.dp_replicate plan.order",
    ),
    "R004": Reason(
        "compression needs whole gradients",
        "one-bit, top-k and powersgd need all gradients on each rank: zero 0 or 1, without FSDP and dp_replicate. "
        "Sharded gradients can be compressed only to fp16, or to int8 with an all-to-all.",
        fixes="plan.compression plan.zero plan.dp_replicate",
    ),
    "R005": Reason(
        "replica across groups",
        "A replica must use nodes of one kind, so tp × cp × pp must divide the accelerators of each group, with ep "
        "1. Replicas that communicate in each micro-batch (zero 2 and 3, FSDP), and interleaved stages, need "
        "shares: equal. With shares: stages, a pipeline spans all groups, with a whole number of stages on each.",
        fixes="plan.shares plan.tp plan.pp plan.ep plan.zero",
    ),
    "R006": Reason(
        "asynchronous replicas",
        "async and stale need whole replicas that hold all states: pp 1, zero 0 and dp over 1. The law of "
        "workload.critical_batch does not hold for stale gradients, so leave that key out.",
        fixes="plan.sync plan.zero plan.pp",
    ),
    "R007": Reason(
        "the run never ends",
        "Failures with their restarts, checkpoints, planned stops and evaluation leave less than a millionth of the "
        "time for steps. Change run.failures, run.restart, run.checkpoint, run.planned or run.evaluation.",
    ),
    "R009": Reason(
        "servers need whole gradients",
        "Parameter servers sum whole gradients of whole replicas. They need zero 0 and compression none, fp16 or "
        "int8; first must not exceed the number of replicas.",
        fixes="plan.sync plan.zero plan.compression",
    ),
    "R013": Reason(
        "restart on fewer ranks",
        "A failed node takes all its ranks away, and the job continues with whole replicas. So run.restart.ranks must "
        "be the ranks of as many replicas as fit on some of the other nodes.",
        fixes="run.restart.ranks",
    ),
    "T001": Reason("limit of the scenario", "A result other than memory breaks a limit of the scenario."),
}


REMARKS = {
    "N001": Reason(
        "tp leaves the domain",
        "Some tensor-parallel groups span several nodes, where their many small collectives are slow.",
    ),
    "N002": Reason(
        "kv heads are replicated", "tp exceeds the number of key-value heads, so several ranks hold the same heads."
    ),
    "N003": Reason(
        "tight", "Peak memory is between 90 and 100 % of the usable memory; a small change may no longer fit."
    ),
    "N004": Reason("outside the fit", "A matmul has a side under 256, where the efficiency was not fitted."),
    "N005": Reason(
        "no kernels measured on this GPU",
        "Its constants are fitted to published runs of it, where there are any (costmodel list gpus states how many, "
        "and their error), and else are generic. The range is wider.",
    ),
    "N006": Reason(
        "longer than trained",
        "The sequence is longer than the model's max_sequence; rotary positions may need scaling.",
    ),
    "N007": Reason(
        "convention for GPT blocks",
        "This FLOP convention counts multi-head attention and an MLP with an inner width of four times hidden.",
    ),
    "N008": Reason(
        "no experts to assume for", "The model has no experts, so assume.experts and assume.overlap.ep have no effect."
    ),
    "N009": Reason(
        "heads without tensor cores",
        "Head width times element size is not a multiple of 16 bytes, so unfused attention cannot use the tensor "
        "cores. Use heads of a multiple of 8 elements, or fused attention (costmodel explain peak_of_heads).",
    ),
    "N010": Reason(
        "unequal chunks",
        "Ranks hold chunks with different numbers of layers, which wait for each other. The prediction uses the "
        "mean chunk: with chunks of one to four layers the pipeline can take up to a third longer, or a seventh "
        "less. A search tries this only if asked.",
    ),
    "N011": Reason(
        "over the peak",
        "MFU or HFU is over 100 %. Either an assumption makes the accelerator faster than it can be "
        "(assume.sustained well below 1), or the share refers to another peak or convention than the matrix "
        "products use (assume.mfu_peak, assume.flop_convention).",
    ),
    "N014": Reason(
        "over the host link",
        "The network interfaces of an accelerator together are faster than its link to the host, so it sends at the "
        "speed of that link.",
    ),
    "N020": Reason(
        "batch in tokens",
        "The tokens of a batch are not a whole number of sequences, so the number of sequences is rounded.",
    ),
    "N021": Reason(
        "unusual sequence",
        "k is 1,000 and Ki is 1,024: 16k is 16,000 tokens, 16Ki the 16,384 that most models are trained on. If "
        "there are fewer than 32 tokens, thousands may have been meant.",
    ),
    "N022": Reason(
        "unusual batch",
        "global_batch counts sequences, and such a step has over 256 million tokens, twice the largest published "
        "batch (MiniMax-01, 2025: 128 million). Write a batch in tokens with its unit: '4M tokens'.",
    ),
    "N023": Reason(
        "may run out of memory",
        "The average prediction fits, but P90 exceeds the memory of the GPU or the host. Searches prefer other plans; "
        "--safe 90% leaves such plans out.",
    ),
    "N024": Reason(
        "plan and search disagree",
        "A search keeps a plan value given with --set, unless search: lists values for that key or for a key that "
        "determines it. Then the search tries the listed values.",
    ),
    "N025": Reason(
        "host assumed",
        "The node does not state its host's memory. costmodel assumes the smallest memory per accelerator among "
        "shipped nodes with the same link. State yours as cluster.node.memory.",
    ),
    "N026": Reason(
        "lower memory is possible",
        "An optimizer step in the backward pass keeps the gradients of only one layer, and a paged optimizer moves "
        "its states to the host when the accelerator is full: --set stack=torchtune --set "
        "workload.optimizer=paged-adam-8bit --set workload.optimizer.in_backward=true.",
    ),
    "N027": Reason(
        "decomposition not timed",
        "An optimizer with a projection computes a new subspace from time to time, by a singular value "
        "decomposition of every gradient. This takes seconds to minutes and is not in the step time.",
    ),
    "N030": Reason(
        "nothing to compress",
        "plan.compression has no effect: one rank holds all gradients, or the stack already sends them in as few bits.",
    ),
    "N031": Reason(
        "compression not in the stack",
        "The training software does not offer this compression; you need your own communication hook.",
    ),
    "N032": Reason(
        "speed only",
        "No law gives the convergence with stale gradients or dropped samples, so costmodel uses the stated number "
        "of steps.",
    ),
    "N033": Reason(
        "only one kind of nodes", "All nodes are of one kind, so plan.shares has no effect: all shares are equal."
    ),
    "N034": Reason(
        "sites need more samples",
        "At equal tokens, the loss rises with the number of sites and with the steps between exchanges. costmodel "
        "does not model by how much: it predicts only speed, traffic and memory.",
    ),
    "N035": Reason(
        "over the critical batch",
        "The batch is over twice workload.critical_batch; doubling it again saves less than a sixth of the steps. "
        "The critical batch grows during training, and varies two to three times with data and tokenizer.",
    ),
    "N036": Reason(
        "power cap has no effect",
        "The power cap is not below the rated power of the accelerator, so it has no effect.",
    ),
    "N037": Reason(
        "half of the run is lost",
        "Goodput is under 50 %: the job is interrupted about as often as it saves its work. The band is then not "
        "meaningful; costmodel run lists what helps.",
    ),
    "N038": Reason(
        "longer than the NCCL timeout",
        "A checkpoint stops training for longer than 10 minutes, the default timeout of NCCL's process groups, so "
        "ranks that wait in a collective fail. Use mode async, faster storage, or a longer timeout.",
    ),
    "N040": Reason(
        "software not described for this vendor",
        "The document of the training software or engine does not cover accelerators of this vendor. Overlap, saved "
        "activations and kernel launches may differ there. --stack selects another.",
    ),
    "N041": Reason(
        "fewer tokens than a step",
        "workload.tokens is less than the tokens of one step. The key counts single tokens: write 15 trillion as 15T.",
    ),
    "N042": Reason(
        "unusual price",
        "The list prices of the shipped nodes are 0.97 to 17.80 USD/GPU/h. This price is under a twentieth of the "
        "lowest, or over ten times the highest.",
    ),
    "N043": Reason("no parameter server", "The plan has no parameter server, so assume.server_price has no effect."),
    "N044": Reason(
        "power cap below the model's range",
        "The power cap is under 70 % of the rated power. The voltage cannot fall further, so real steps take longer "
        "than predicted.",
    ),
    "N045": Reason(
        "a narrower cache is no faster",
        "Absorbed latent attention with so many heads on a rank is bound by compute, and costmodel counts its products "
        "in 16 bits whatever the cache is kept in. The narrower cache holds more tokens; a step takes as long.",
    ),
    "N046": Reason(
        "prompts wait for answers",
        "The engine computes each prompt in one step. For over 1 % of the time a long prompt waits until enough "
        "answers end for it to fit, and all prompts behind it wait too. stack.chunked=true or a larger "
        "stack.budget avoids it.",
    ),
    "N047": Reason(
        "prompts longer than a step",
        "The engine computes each prompt in one step. By the stated spread over 0.1 % of the prompts are longer, and "
        "it refuses them. Figures count them as served. stack.chunked=true or a larger stack.budget admits them.",
    ),
    "N048": Reason(
        "near the budget of a step",
        "The engine computes each prompt in one step, and one 5 % longer would not fit into it beside the sequences in "
        "flight. The longer a prompt then is, the fewer sequences are in flight, down to one, and longer ones are "
        "refused. stack.chunked=true or a larger stack.budget avoids it.",
    ),
    "N050": Reason(
        "another checkpoint",
        "The workload states another type than the published checkpoint has, so the figures are of a converted one. "
        "Without --dtype, and without types of weights, they are of the published one.",
    ),
    "N051": Reason(
        "keys without effect",
        "The scenario states keys that change no figure of this plan. costmodel estimate lists each with its reason, "
        "as 'without effect' among what is assumed.",
    ),
    "N053": Reason(
        "engines straddle domains",
        "The scale-up domains have no room for every engine whole in one. Some engines then lie on two domains and "
        "their collectives go over the network; all times are those of such an engine. Fewer replicas, or another "
        "number of ranks, stay inside.",
    ),
    "N054": Reason(
        "sizes beyond those measured",
        "A kernel or collective that takes 1 % of the time or more, or attention to prompts 1 % of a first token, has "
        "sizes outside those its fit was made on; the lines *assumed* of `estimate` name them. Its error counts once "
        "more for each doubling of the ranks, and up to twice more for other sizes, so the band is wider.",
    ),
    "N056": Reason(
        "never measured",
        "Nothing like this was measured: this kind of layer (training) or this engine (serving) on this maker's "
        "accelerators; or, in serving, tensor parallelism over several domains, experts on the host, batches whose "
        "answers differ in length, or latent attention whose heads are no power of two. The lines *assumed* of "
        "`estimate` name it. At their first measurement, such layers took 1.9 to 13 × the prediction and such engines "
        "1.2 to 2.7 ×, so P90 is far above the prediction.",
    ),
    "N057": Reason(
        "prompts that are dropped",
        "dapo drops prompts whose answers all have the same reward and draws others, and the scenario does not state "
        "which share that is. None is counted; P90 allows for three times as many prompts as are kept. State "
        "workload.filtered, and workload.wave if more are drawn at a time.",
    ),
    "N058": Reason(
        "network faster than the host link",
        "The network interface of an accelerator is faster than the link of the accelerator to its host, such as 800 "
        "Gb/s behind 63 GB/s of PCIe 5 x16, and is taken at its own rate. If its traffic goes over that link, it is "
        "slower; state cluster.node.host for a newer link.",
    ),
}
