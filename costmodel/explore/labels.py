"""What the labels of answers mean: heads of columns, names of rows and lines, and labels that are put together.

Each label has a meaning, and where a page explains more, the word of that page.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from costmodel.explore.serving_labels import SERVING_LABELS
from costmodel.ground.plan_sizes import SIZES

if TYPE_CHECKING:
    from collections.abc import Iterator


FIELD_LABELS: dict[str, tuple[str, str]] = {
    "gqa": (
        "grouped-query attention: several query heads share one key-value head, which makes the cache and the "
        "projections smaller: in model.layers, attention.kv_heads is less than attention.heads",
        "cache_pool",
    ),
    "grouped-query attention": (
        "several query heads share one key-value head: attention.kv_heads of model.layers",
        "cache_pool",
    ),
    "mha": (
        "multi-head attention: as many key-value heads as query heads: attention.kv_heads of model.layers",
        "cache_pool",
    ),
    "arithmetic intensity": (
        "FLOP of a kernel over the bytes it moves; above the ridge the kernel is compute-bound",
        "ridge",
    ),
    "gradient accumulation": (
        "micro-batches of a rank before an optimizer step: workload.global_batch over plan.micro_batch and dp",
        "micro_batches",
    ),
    "mixed precision": (
        "matrix products in 16 or 8 bits, with master weights and optimizer states in fp32: workload.precision",
        "precision",
    ),
    "loss scaling": (
        "a factor on the loss that keeps small fp16 gradients from underflowing; bf16 needs none. costmodel ignores "
        "the multiplication and the overflow check that it adds to a step",
        "",
    ),
    "infiniband": (
        "a network between nodes with RDMA, for example NDR with 400 Gb/s a port; costmodel list fabrics lists its "
        "generations, and costmodel explain hop-or-collective states how long a hop takes",
        "",
    ),
    "roce": (
        "RDMA over Ethernet, for example 400GbE. Without congestion it is as fast as InfiniBand; costmodel list "
        "fabrics lists these fabrics",
        "",
    ),
    "numa": (
        "host memory is attached to sockets, and an accelerator reaches the memory of its own socket faster. "
        "costmodel uses the node's stated host link and assumes that processes are bound to their socket",
        "",
    ),
    "critical batch size": ("", "critical_batch"),
}


_SHORTER = "P10: one run in ten is below; P90: one in ten is above"
# Labels by the words of their page, all in small letters; a label that is a word of its own need not be here.
LABELS: dict[str, tuple[str, str]] = {
    **FIELD_LABELS,
    **SERVING_LABELS,
    # estimate
    "step time": ("", "step_time"),
    "where the step goes": ("the parts of the step time, the largest first", "step_time"),
    "p10 – p90": (
        f"the band of a figure. {_SHORTER}. The ends of the band of a result are results too: tpot_low, tpot_high",
        "",
    ),
    "p10": ("one run in ten is below", "step_time_low"),
    "p90": ("of a plan: one run in ten takes longer; of errors: one in ten is larger", "step_time_high"),
    "throughput": (
        "in serving, tokens generated per second by all replicas: output_tokens_per_s; in training, of the whole job",
        "tokens_per_s",
    ),
    "per gpu": (
        "in serving, tokens generated per second by each accelerator; in training, tokens trained",
        "tokens_per_s_per_gpu",
    ),
    "scaling": ("", "scaling_efficiency"),
    "communication": ("of an estimate, how much of the time is compute", "communication_efficiency"),
    "cost": (
        "rent for a million tokens, and for all tokens of the workload if it states them; in serving, also the rent "
        "of a month: costmodel explain rent",
        "cost_per_mtoken",
    ),
    "matrix multiply": ("", "matmul"),
    "memory-bound ops": ("", "memory_bound"),
    "tp exposed": ("", "tp_exposed"),
    "cp exposed": ("", "cp_exposed"),
    "ep exposed": ("", "ep_exposed"),
    "pp exposed": ("", "pp_exposed"),
    "dp exposed": ("", "dp_exposed"),
    "pipeline bubble": ("", "bubble"),
    "offload exposed": ("", "offload_exposed"),
    "assumed": ("values that the scenario does not state, with the default that was used and its origin", ""),
    "gradients on the network": ("data type in which the stack reduces gradients over the network", ""),
    "attention and matmul": (
        "the attention kernel, and the fitted share of the peak that large matrix products reach alone",
        "",
    ),
    # a plan
    "mb": ("sequences in a forward pass of one replica: plan.micro_batch", "micro_batch"),
    "sp": ("whether norms and dropout are sharded over tp along the sequence", "sequence_parallel"),
    "rep": ("replicas of the shards", "dp_replicate"),
    "layers": ("of a plan: layers of each stage, if they differ", ""),
    # memory
    "allocated": ("the most that tensors hold: torch.cuda.max_memory_allocated", "memory_peak"),
    "reserved": (
        "memory that the caching allocator holds, including fragmentation: torch.cuda.max_memory_reserved",
        "",
    ),
    "peak": ("of a memory breakdown: the sum of all lines, as nvidia-smi shows it", "memory_peak"),
    "gib": (
        "memory in units of 2³⁰ bytes, as in nvidia-smi; in a search, memory of the worst stage",
        "memory_peak",
    ),
    "gib a rank": ("memory of a rank for the model alone: weights, and all states under a sharding stage", ""),
    "bf16, fp32 gradients": ("2 B a weight, 4 B a gradient, 4 B a master copy and 8 B of AdamW's states", ""),
    "mixed (zero paper)": ("2 B a weight, 2 B a gradient, 4 B a master copy and 8 B of AdamW's states", ""),
    "fp32": (
        "4 B a weight, 4 B a gradient and 8 B of AdamW's states; matrix products in fp32 are not modelled",
        "",
    ),
    "by stage": ("memory of the first pipeline stage, one in the middle and the last", "memory_peak"),
    "on the host": ("memory or drives of a node that offload takes", "host_memory"),
    "line": ("of a memory breakdown: what the bytes are used for", ""),
    # comm
    "in all": ("of a group: the time of all its transfers in a step, hidden ones too; of memory: the sum of lines", ""),
    "share": ("the part of the whole that stands beside it", ""),
    "sent": ("of a group: bytes that a rank sends in a step", ""),
    "alone": ("of a collective: its busbw outside a step, as nccl-tests measures it", ""),
    "group": ("of transfers: the ranks that communicate, named by their parallel strategy", ""),
    "ends": (
        "transfers at both ends of the model (the embedding, and the head with its loss) over the ranks of tp",
        "",
    ),
    "edp": ("ranks that hold the same routed experts and reduce their gradients", ""),
    "link": ("of transfers: the network they use, inside a domain or between nodes; costmodel show NAME", ""),
    "op": ("the operation: of transfers, its name in nccl-tests; of measured kernels, what was timed", ""),
    "size": ("bytes of one message, as nccl-tests counts them; of measured kernels, their shape", ""),
    "count": ("of transfers: how often in a step", ""),
    "algorithm": ("of transfers: the algorithm inside a domain, and between domains", ""),
    "busbw_bytes_per_s": ("of transfers: bus bandwidth in the step, as nccl-tests defines it", ""),
    "alone_busbw_bytes_per_s": ("of transfers: bus bandwidth that nccl-tests reaches outside a step", ""),
    "time": ("of transfers: the time of one transfer", ""),
    "all-gather": ("every rank gets the parts of all ranks", "ring_time"),
    "reduce-scatter": ("every rank gets the sum of one part", "ring_time"),
    "all-reduce": ("every rank gets the sum of all buffers", "ring_time"),
    "all-to-all": ("every rank sends a different part to each other rank", "wire_bytes"),
    "send": ("one rank sends to the next", ""),
    "broadcast": ("one rank sends the same buffer to all", ""),
    "reduce": ("one rank gets the sum of all buffers", ""),
    # pipeline
    "in flight": (
        "in serving, requests that are being answered at once: concurrency; in a pipeline, micro-batches whose "
        "activations a rank holds at once",
        "in_flight",
    ),
    "step": ("time of a step, or of training: forward, backward and optimizer", "step_time"),
    "stage": ("of a pipeline: the first, one in the middle, or the last", ""),
    "middle": ("a pipeline stage between the first and the last", ""),
    "last": ("of pipeline stages: the one with the head and the loss", ""),
    "only": ("the single stage of a plan without a pipeline", ""),
    "both": ("forward and backward together", ""),
    "rank": ("of a timeline: the rank of a pipeline stage, from the first", ""),
    # search
    "#": ("rank by the objective; 0 is the scenario's own plan", ""),
    "tok/s/gpu": ("", "tokens_per_s_per_gpu"),
    "fits": ("whether the plan fits into memory; if it is at risk, the chance that it fits", "fit_chance"),
    "first_faster": ("chance that the best plan of the search is faster than this one", ""),
    "yours": ("the scenario's own plan", ""),
    "best": ("the best plan of the search", ""),
    "change": ("from the first to the second: relative for results, absolute for their terms", ""),
    "memory": (
        "memory of the worst stage, as the driver shows it; limits apply to its share of the usable memory",
        "memory_peak",
    ),
    "nearest": ("the closest value, if none reaches the target", ""),
    "misses": ("by how much the nearest plan breaks a limit", ""),
    "try": ("a setting that removes the reason", ""),
    # sweep, scale, solve, sensitivity
    "verdict": (
        "fits: up to 90 % of usable memory; tight: up to 100 %; otherwise the code of the reason",
        "",
    ),
    "best plan": ("the best plan of a search at these values", ""),
    "network bandwidth": ("cluster.node.scale_out.fabric.bandwidth", ""),
    "scale-up bandwidth": ("cluster.node.scale_up.fabric.bandwidth", ""),
    "memory bandwidth": ("cluster.node.accelerator.memory.bandwidth", ""),
    "efficiency": ("of scaling: tokens per second and accelerator, relative to the smallest size", ""),
    "works": ("whether a plan is valid, fits and meets its limits", "verdict"),
    "time_to_loss": ("the time to a loss over that of the smallest size", "critical_batch"),
    "to the loss": ("the time to a loss over that of the smallest size", "critical_batch"),
    "what grows, of the time": (
        "terms that need more accelerator time per token than at the smallest size",
        "",
    ),
    "figure": ("an input of the answer, by its --set path; paths that start with fit. were fitted", ""),
    "is": ("the value as it is written", ""),
    "turned": ("how far a figure is lowered and raised: the spread of its fit, otherwise 10 %", ""),
    "down": ("change of the result if the figure is lower", ""),
    "up": ("change of the result if the figure is higher", ""),
    # diff and check
    "tokens per gpu": ("", "tokens_per_s_per_gpu"),
    "cost per mtoken": ("", "cost_per_mtoken"),
    "baseline": ("stored figures that check compares with", ""),
    # validate
    "run": ("a measured run by its name, or by the line of its table", ""),
    "measured": ("the measured value; for several rows, the median", ""),
    "predicted": ("the predicted value; for several rows, the median", ""),
    "error": ("predicted / measured − 1: positive if the prediction is too large", ""),
    "source": ("origin of a figure: a key of the sources of its document, or of the bibliography", ""),
    "source_family": ("sources of the same authors, which are left out together", ""),
    "gpu": ("the accelerator, as written in the table", ""),
    "accelerator": ("the accelerator by the name of its document: costmodel list accelerators", ""),
    "model": ("the model by name: costmodel list models", ""),
    "framework": ("the training software, as written in the table", ""),
    "arch": ("dense, or a mixture of experts", ""),
    "reason": ("why a run is not modelled", ""),
    "rows": ("how many figures or rows there are", ""),
    "modelled": ("how many of these rows can be predicted", ""),
    "median": ("half of the errors are smaller", ""),
    "bias": ("the median of the signed errors: positive if predictions are too large", ""),
    "in band": ("the share of measured values between P10 and P90", "step_time_low"),
    "together": ("all groups combined", ""),
    "furthest off": ("runs with the largest errors", ""),
    "filled by rule": ("cells that are empty in the table, with the values used instead", "v006"),
    "layouts": ("measured layouts of one model, batch and cluster", ""),
    "regret": ("how much slower the layout with the fastest prediction ran than the fastest layout", ""),
    "picked": ("the layout with the fastest prediction, with its measured time", ""),
    "correlation": ("rank correlation of predicted and measured times over the layouts", ""),
    # calibrate and measure
    "fit": (
        "constants of a closed form that are fitted to measured times, by section and entry of the document",
        "",
    ),
    "points": ("number of measured times in a fit", ""),
    "in sample": ("errors on the rows that were fitted", ""),
    "held out": ("errors on one half of the shapes with constants fitted on the other half", ""),
    "in use": ("errors with the current constants of the documents", ""),
    "not fitted": ("why rows were left out", ""),
    "constant": ("a constant fitted to training runs, and the document it belongs to", ""),
    "prior": ("value of a constant before any run", ""),
    "fitted": ("value of a constant after fitting these runs", ""),
    "known to": ("one standard deviation to either side of a fitted constant", ""),
    "runs": ("number of runs, or of runs that inform a constant", ""),
    "families": ("families of sources that inform a constant", ""),
    "errors": ("predicted / measured step time − 1", ""),
    "as in use": ("errors with the current constants of the documents", ""),
    "at the priors": ("errors with the constants before any run", ""),
    "left out": ("errors on the runs of a group with constants fitted without it", ""),
    "models": ("dense models and mixtures of experts, separately", ""),
    "sustained": ("slowdown of tensor cores in a real step, caused by power and clocks", "sustained"),
    "network": ("share of the interface rate that collectives reach between nodes", ""),
    "launch": ("", "launch"),
    # documents and pages
    "name": ("a document by its name: costmodel show NAME", ""),
    "path": ("a key of the scenario, as --set takes it", ""),
    "value": ("the value of a key or of a result", ""),
    "from": ("the document or the rule that a value comes from", ""),
    "note": ("a hint for the reader", ""),
    "point": ("the settings of one combination", ""),
    "notes": ("codes of remarks on a plan", ""),
    "fits_p90": ("whether the P90 of the peak is within usable memory too", "N023"),
    "price_usd_per_gpu_h": ("price of one accelerator hour in this answer", "cost_per_mtoken"),
    "price_source": ("origin of that price: the scenario, or the list price of the node's document", ""),
    "price_date": ("date of that list price", ""),
    "price_assumed": ("whether the machine has no price of its own, and that of another offer is assumed", ""),
    "price_others_usd_per_gpu_h": ("lowest and highest price of other offers of the same accelerator", ""),
    "fault": ("why there is no answer", ""),
    # machine output
    "grew": ("terms that need more accelerator time per token than at the smallest size", ""),
    "text": ("a value as it is written, or a sentence", ""),
    "low": ("of a band: P10; of a sensitivity: the result with the lower figure", "step_time_low"),
    "high": ("of a band: P90; of a sensitivity: the result with the higher figure", "step_time_high"),
    "refused": ("the codes of the reasons against a plan or a run", ""),
    "fastest": ("whether it is the fastest of those compared", ""),
    "before": ("value of the first of the two that are compared", ""),
    "after": ("value of the second of the two that are compared", ""),
    "id": ("a row by its name, or by the line of its table", ""),
    "quantity": ("which result was measured", ""),
    "why": ("the reason in words", ""),
    "why_not": ("why a fit is not written", ""),
    "filled": ("cells that are empty in the table, with the values used instead", "v006"),
    "within": ("whether an error is inside the tolerance of its table", ""),
    "entry": ("of a fit: the precision, the kernel or the operation", ""),
    "detail": ("of a fit: how it was measured", ""),
    "form": ("of a fit: the closed form", ""),
    "range": ("of a fit: the smallest and the largest value of every size", ""),
    "message": ("bytes of one rank in a transfer", ""),
    "volume": ("bytes a rank sends in a step", ""),
    "what to set": ("settings that fix a plan, each evaluated before it is offered", ""),
    "digest": ("a checksum of the text of a document: equal texts have equal digests", ""),
}
_GROUPS = (*SIZES, "edp", "ends")
_TRANSFER = re.compile(rf"({'|'.join(_GROUPS)}) ([a-z][a-z-]*) (time|volume)")
_STATES = re.compile(r"zero (\d), dp (\d+)")
_OUTSIDE = re.compile(r"(.+) outside its fit")
_WITH_CHANCE = re.compile(r"(.+) with a chance of [\d.]+ %")
_LEFT_OUT = re.compile(r"(\w+) left out")
_ERROR = re.compile(r"(in_sample|held_out|in_use)(?:_(median|p90|bias))?")
_SIDE = re.compile(r"(before|after)_(name|model|cluster|nodes|gpus|sequence|global_batch)")
_UNIT = re.compile(r"(.+)_(?:bytes|s|usd|us)")


def meaning_of(label: str) -> tuple[str, str] | None:
    """The meaning of a label, and the word of its page."""
    label = label.casefold().strip()
    if label in LABELS:
        return LABELS[label]
    return next(_put_together(label), None)


def _put_together(label: str) -> Iterator[tuple[str, str]]:
    """The meaning of a label that is made of others, or has a number behind it."""
    if found := _TRANSFER.fullmatch(label):
        group, operation, what = found.groups()
        whole = "seconds" if what == "time" else "bytes a rank sends"
        yield f"{whole} of the {operation}s of the {group} group in a step", group
    if found := _STATES.fullmatch(label):
        yield f"all states of a rank under ZeRO stage {found[1]} over {found[2]} data-parallel ranks, in GiB", "zero"
    if found := _OUTSIDE.fullmatch(label):
        yield f"a size of {found[1]} for which its fit has no measurement, and the range that it was made on", "N054"
    if (found := _WITH_CHANCE.fullmatch(label)) and (meant := LABELS.get(found[1])):
        yield f"{meant[0]}; by the bands, with at least that chance", meant[1]
    if found := _LEFT_OUT.fullmatch(label):
        yield f"errors on the runs of each {found[1]} with constants fitted without it", found[1]
    if (bare := label.rstrip("0123456789,").strip()) in LABELS and label[-1:].isdigit():
        yield LABELS[bare]
    if found := _SIDE.fullmatch(label):
        yield f"the {found[2]} of {'A' if found[1] == 'before' else 'B'}, the two that are compared", found[2]
    if found := _ERROR.fullmatch(label):
        meaning, see = LABELS[found[2] or found[1].replace("_", " ")]
        yield f"{LABELS[found[1].replace('_', ' ')][0]}: {meaning}" if found[2] else meaning, see
    if (found := _UNIT.fullmatch(label)) and (meant := LABELS.get(found[1])):
        yield meant
    first, _, rest = label.partition(", ")
    if rest and first in ("sustained", "network", "launch"):
        meaning, see = LABELS[first]
        yield f"{meaning or 'host time to issue an operation'}; of {rest}", see


_PARTS = {
    "collectives": "collectives inside a scale-up domain",
    "network": "collectives between nodes",
    "matmul": "matrix products",
    "attention": "attention cores",
    "memory": "kernels bound by memory bandwidth",
    "decode": "attention of one new token",
    "experts": "fused layers of experts",
}


def fit_page(title: str) -> str:
    """What the title of a fit means, such as "collectives all_reduce"; nothing for any other words.

    >>> fit_page("collectives all_reduce")
    'times of collectives inside a scale-up domain, of all_reduce'
    """
    part, _, rest = title.partition(" ")
    return f"times of {_PARTS[part]}, of {rest}" if part in _PARTS and rest and " " not in rest else ""
