"""Reasons to refuse a serving plan, by code."""

from __future__ import annotations

from costmodel.estimate.shared.reasons import REFUSALS as TRAINING
from costmodel.estimate.shared.reasons import Reason

INVALID = {
    "L050": Reason("too many GPUs", "The replicas need more accelerators than the cluster has."),
    "L051": Reason("heads % tp", "Tensor parallelism gives every rank whole query heads, so tp must divide the heads."),
    "L052": Reason(
        "kv heads, tp", "tp must divide the key and value heads, or be a multiple of them; they then repeat."
    ),
    "L053": Reason("vocabulary % tp", "Engines cut the padded vocabulary evenly, so tp must divide it."),
    "L054": Reason("widths % tp", "tp must divide the inner width of an MLP."),
    "L055": Reason("stages, layers", "A pipeline has at most as many stages as the model has layers."),
    "L056": Reason(
        "ep, tp dp_attention",
        "Experts cut the ranks of a stage a second way: ep must divide tp · dp_attention, and the experts of a layer "
        "with their copies, and what is left the inner width of an expert.",
    ),
    "L057": Reason(
        "no experts", "Without experts there is nothing for ep to cut or to copy, and dp_attention is replicas."
    ),
    "L059": Reason(
        "layers tied across stages",
        "Layers read keys and values of an earlier layer, or tables beside the embedding, which engines hold on one "
        "pipeline stage: pp is 1.",
    ),
    "L058": Reason("drafts, stages", "Engines draft tokens for one pipeline stage alone: speculation takes pp 1."),
    "L061": Reason(
        "cache on the host", "The ranks of a node keep more cache on its host than the host has memory for."
    ),
    "L060": Reason(
        "copies, no ep", "Copies of experts stand on ranks that hold whole experts: redundant_experts takes ep above 1."
    ),
}
LIMITS = {
    "M001": Reason(
        "does not fit", "Weights, a step and one request take more than the engine may use of an accelerator."
    ),
    "M002": TRAINING["M002"],
    "S001": Reason("time per token", "The time per output token is over its limit at this load."),
    "S002": Reason("first token", "The time to the first token is over its limit at this load."),
    "S003": Reason("cache full", "The requests in flight at this load need more cache than the pool holds."),
    "S004": Reason("token budget", "Steps are full: their budget of tokens passes fewer requests than arrive."),
    "S005": Reason("above saturation", "Requests take more time than there is, so that queues grow without end."),
    "S006": Reason(
        "limits at risk",
        "The chance that the plan fits, answers its load and keeps every limit, by the bands, is under what is asked.",
    ),
    "T001": Reason("limit of the scenario", "Another result is beyond a limit that the scenario sets."),
}
REFUSALS = {**INVALID, **LIMITS}
