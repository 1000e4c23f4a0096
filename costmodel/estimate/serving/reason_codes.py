"""Reasons to refuse a serving plan, by code."""

from __future__ import annotations

from costmodel.estimate.shared.reasons import REFUSALS as TRAINING
from costmodel.estimate.shared.reasons import Reason

INVALID = {
    "L050": Reason("too many GPUs", "The replicas need more accelerators than the cluster has."),
    "L051": Reason(
        "heads not divisible by tp",
        "Tensor parallelism gives every rank whole query heads, so tp must divide the number of heads.",
    ),
    "L052": Reason(
        "kv heads not divisible by tp",
        "tp must divide the number of key-value heads, or be a multiple of it; the heads are then replicated.",
    ),
    "L053": Reason(
        "vocabulary not divisible by tp", "Engines split the padded vocabulary evenly, so tp must divide it."
    ),
    "L054": Reason("widths not divisible by tp", "tp must divide the inner width of an MLP."),
    "L055": Reason("more stages than layers", "A pipeline has at most as many stages as the model has layers."),
    "L056": Reason(
        "experts not divisible by ep",
        "Expert parallelism divides the ranks of a stage a second time. So ep must divide tp · dp_attention and the "
        "experts of a layer, copies included; tp · dp_attention / ep must divide the inner width of an expert.",
    ),
    "L067": Reason(
        "ep of some ranks",
        "The engine places whole experts on all ranks of a stage, or cuts each over all (stack.expert_ranks: all). So "
        "ep must be 1 or tp · dp_attention.",
    ),
    "L057": Reason(
        "no experts",
        "The model has no experts, so ep and copies of experts have no effect, and dp_attention would be the same "
        "as replicas.",
    ),
    "L059": Reason(
        "layers depend on other stages",
        "Some layers read the keys and values of an earlier layer, or tables next to the embedding. Engines hold "
        "these on one pipeline stage, so pp must be 1.",
    ),
    "L058": Reason(
        "speculation with a pipeline", "Engines draft tokens only without a pipeline: speculation needs pp 1."
    ),
    "L062": Reason(
        "prompt longer than a step",
        "The engine computes each prompt in one step (stack.chunked: false), so the token budget of a step must hold "
        "99 % of the prompts: it refuses longer ones, and their p99 would have no end.",
    ),
    "L061": Reason(
        "memory of the host",
        "The cache and the experts that ranks of a node keep on the host exceed its memory, or the cache its drives.",
    ),
    "L060": Reason(
        "expert copies without ep",
        "Copies of experts are placed on ranks that hold whole experts, so redundant_experts needs ep above 1.",
    ),
    "L063": Reason(
        "tp not divisible by dcp",
        "Decode context parallelism groups the ranks of tensor parallelism, so dcp must divide tp.",
    ),
    "L064": Reason(
        "dcp above copies of kv heads",
        "Ranks that divide a cache by tokens hold the same key-value heads. So dcp times these heads must not exceed "
        "tp, and dcp must divide the query heads of each.",
    ),
    "L065": Reason(
        "cache not divided by tokens",
        "The engine divides only some caches by tokens, or none (stack.decode_context); windows, states and indexers "
        "never. So dcp must be 1.",
    ),
}
LIMITS = {
    "M001": Reason(
        "does not fit",
        "The weights, one step and one request need more memory than the engine may use on an accelerator.",
    ),
    "M002": TRAINING["M002"],
    "S001": Reason("time per token", "The time per output token exceeds its limit at this load."),
    "S002": Reason("first token", "The time to first token exceeds its limit at this load."),
    "S003": Reason("cache full", "The requests in flight at this load need more cache than the pool has."),
    "S004": Reason("token budget", "Steps are full: their token budget serves fewer requests than arrive."),
    "S005": Reason(
        "above saturation", "Requests arrive faster than the engine can serve them, so queues grow without bound."
    ),
    "S006": Reason(
        "limits at risk",
        "The chance that the plan fits, serves its load and meets every limit is below the required chance.",
    ),
    "T001": Reason("limit of the scenario", "Another result breaks a limit of the scenario."),
}
OVERLOAD = frozenset({"S003", "S004", "S005"})  # more arrives than the plan answers
REFUSALS = {**INVALID, **LIMITS}
