"""Remarks on valid plans, by code."""

from __future__ import annotations

from costmodel.estimate.shared.reasons import Reason

REMARKS = {
    "N001": Reason(
        "tp leaves the domain",
        "Tensor parallelism reaches across nodes, some of its groups at least, where its many small collectives are "
        "slow.",
    ),
    "N002": Reason("kv heads repeat", "tp exceeds the key and value heads; they repeat on several ranks."),
    "N003": Reason("tight", "Peak memory is between 90 and 100 % of what is usable; a small change may not fit."),
    "N004": Reason("outside the fit", "A matmul has a side under 256, where the efficiency was not fitted."),
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
    "N031": Reason(
        "compression not in the stack",
        "The training software does not offer this compression, so that it takes a hook of your own.",
    ),
    "N032": Reason(
        "speed alone",
        "Convergence of stale gradients, and of samples that are left out, has no law here: steps are those stated.",
    ),
    "N033": Reason(
        "shares of one kind", "All nodes are of one kind, so that plan.shares has no effect: all shares are equal."
    ),
    "N034": Reason(
        "sites, more samples",
        "At equal tokens the loss rises with the number of sites and with the steps between exchanges. No law here "
        "states by how much: what is computed is speed, traffic and memory.",
    ),
    "N035": Reason(
        "over the critical batch",
        "The batch is over twice workload.critical_batch: twice as large a one saves under a sixth of the steps. The "
        "critical batch grows during training, and differs two to three times with data and tokenizer.",
    ),
    "N036": Reason(
        "power cap",
        "The cap is at or over the rating of the accelerator, so that it has no effect.",
    ),
    "N037": Reason(
        "half of the run is lost",
        "Goodput is under 50 %: the job is interrupted about as often as it saves its work. Ends of the band are then "
        "without meaning; costmodel run lists what helps.",
    ),
    "N038": Reason(
        "longer than the time-out",
        "A checkpoint stops training longer than the 10 minutes after which NCCL's process groups give up by default, "
        "so that ranks that wait in a collective fail: mode async, a faster store or writer, or a longer timeout.",
    ),
    "N040": Reason(
        "software of other accelerators",
        "The training software, or the engine, is not described on accelerators of this maker: what it overlaps, saves "
        "and launches there may differ. --stack names another.",
    ),
    "N041": Reason(
        "fewer tokens than a step",
        "workload.tokens is less than the tokens of one step. They are counted one by one: 15 trillion is written 15T.",
    ),
    "N042": Reason(
        "unusual price",
        "The shipped nodes rent for 0.97 to 17.80 USD/GPU/h by their list prices. This price is under a twentieth "
        "of the least, or over ten times the largest.",
    ),
    "N043": Reason(
        "price of no server", "The plan has no parameter server, so that assume.server_price has no effect."
    ),
    "N044": Reason(
        "power cap under its law",
        "The cap is under 70 % of the rating of the accelerator: the voltage cannot fall further, and steps take "
        "longer than computed.",
    ),
}
