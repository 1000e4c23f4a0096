"""Remarks on valid plans, by code."""

from __future__ import annotations

from costmodel.estimate.shared.reasons import Reason

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
        "not calibrated for this GPU",
        "No kernels of this accelerator were measured, or their fit has no residual. costmodel uses generic "
        "efficiencies and a wider range.",
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
        "The predicted peak is within usable memory, but its P90 is not, or that of the host. Searches prefer other "
        "plans; --safe 90% leaves this one out.",
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
        "outside a fit",
        "A kernel or collective that takes 1 % of the time or more, or attention to prompts 1 % of a first token, has "
        "sizes outside those its fit was made on; the assumptions name them. Its error counts once more for each "
        "doubling of the ranks, and up to twice more for other sizes, so the band is wider.",
    ),
    "N056": Reason(
        "never measured",
        "No measured run on this maker's accelerators had this kind of layer (training), or this engine (serving), or "
        "none of any engine had tensor parallelism over several domains, or experts on the host; the assumptions name "
        "it. When they were first measured, such layers took 1.9 to 13 times as long as predicted and such engines "
        "1.2 to 2.7 times, so P90 is far above the prediction.",
    ),
    "N057": Reason(
        "prompts that are dropped",
        "dapo drops prompts whose answers all have the same reward and draws others, and the scenario does not state "
        "which share that is. None is counted; P90 allows for three times as many prompts as are kept. State "
        "workload.filtered, and workload.wave if more are drawn at a time.",
    ),
}
