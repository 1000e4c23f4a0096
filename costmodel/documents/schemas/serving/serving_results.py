"""The results of a serving plan: each with its unit, its meaning and which direction is better."""

from costmodel.documents.schemas.results import ResultColumn

RESULTS: dict[str, ResultColumn] = {
    "ttft": ResultColumn("s", "mean time to first token: the wait, and the steps of the prompt", "lower"),
    "ttft_p99": ResultColumn("s", "time to first token that one request in a hundred exceeds", "lower"),
    "tpot": ResultColumn("s", "mean time per output token after the first", "lower"),
    "tpot_p99": ResultColumn("s", "mean time per token that one request in a hundred exceeds", "lower"),
    "worst_gap": ResultColumn("s", "longest step that a user sees: one filled with prompts of other users", "lower"),
    "latency": ResultColumn("s", "time to the last token of a mean answer", "lower"),
    "requests_per_s": ResultColumn("1/s", "requests answered per second by all replicas", "higher", "request/s"),
    "output_tokens_per_s": ResultColumn("1/s", "tokens generated per second by all replicas", "higher", "token/s"),
    "total_tokens_per_s": ResultColumn(
        "1/s", "tokens of prompts and answers per second, all replicas", "higher", "token/s"
    ),
    "tokens_per_s_per_user": ResultColumn("1/s", "tokens per second that one user sees, 1 / tpot", "higher", "token/s"),
    "bandwidth_bound": ResultColumn(
        "1/s", "tokens per second of one user that no engine exceeds: each reads the weights once", "higher", "token/s"
    ),
    "tokens_per_s_per_gpu": ResultColumn(
        "1/s", "tokens generated a second by each accelerator", "higher", "token/GPU/s"
    ),
    "concurrency": ResultColumn("1", "requests being decoded at a time, of one replica, by Little's law", "neither"),
    "saturation_share": ResultColumn("1", "requests answered per second, relative to saturation", "neither"),
    "saturation_per_s": ResultColumn(
        "1/s", "requests per second beyond which queues grow without bound, all replicas", "higher", "request/s"
    ),
    "rate_within_slo_per_s": ResultColumn(
        "1/s", "highest requests per second that meet every limit, all replicas", "higher", "request/s"
    ),
    "limits_chance": ResultColumn(
        "1", "chance that a request fits, the load is served and every limit is met, from their bands", "higher"
    ),
    "in_time_share": ResultColumn(
        "1", "share of requests within the limits on the first token and on the time per token, at this load", "higher"
    ),
    "in_time_per_s": ResultColumn(
        "1/s", "goodput: requests per second within these limits, at this load, all replicas", "higher", "request/s"
    ),
    "tokens_per_gpu_within_limits": ResultColumn(
        "1/s",
        "tokens generated per second by each accelerator at the highest rate that meets the limits",
        "higher",
        "token/GPU/s",
    ),
    "cost_within_limits": ResultColumn(
        "USD", "all rent per million generated tokens at that rate", "lower", "USD/Mtoken"
    ),
    "replicas_needed": ResultColumn("1", "replicas needed to meet every limit at the rate and its headroom", "lower"),
    "prefill_needed": ResultColumn("1", "of these the prefill instances, if prefill and decode are apart", "lower"),
    "decode_needed": ResultColumn("1", "of these the decode instances, if prefill and decode are apart", "lower"),
    "gpus_needed": ResultColumn("1", "accelerators of these replicas", "lower"),
    "replicas": ResultColumn("1", "copies of the engine; apart, its prefill and decode instances", "neither"),
    "gpus": ResultColumn("1", "accelerators of all replicas", "lower"),
    "nodes": ResultColumn("1", "nodes that these accelerators are in, the last one perhaps in part", "lower"),
    "interference_share": ResultColumn("1", "share of the time per token that waits for other users' prompts", "lower"),
    "prefix_hit": ResultColumn("1", "share of prompt tokens that are already in the cache", "higher"),
    "prefix_residency": ResultColumn("s", "time that an unused prefix stays in the cache of a replica", "higher"),
    "host_hit": ResultColumn("1", "share of prompt tokens whose cache comes back from the host", "higher"),
    "host_residency": ResultColumn(
        "s", "time that an unused beginning stays on the devices or hosts of a replica", "higher"
    ),
    "host_cache_tokens": ResultColumn("1", "tokens that the hosts of one replica keep", "higher"),
    "host_load_exposed": ResultColumn("s", "of the time to the first token: cache on its way from the host", "lower"),
    "host_load_gain": ResultColumn(
        "1", "time to compute what returns over that to load it from the host; under 1 loading slows down", "higher"
    ),
    "host_link_utilisation": ResultColumn("1", "share of time that the link to the host carries cache", "neither"),
    "matmul": ResultColumn("s", "of the time per token: matrix products of a step without prompts", "lower"),
    "attention": ResultColumn("s", "of the time per token: reading the cache", "lower"),
    "memory_bound": ResultColumn("s", "of the time per token: norms, activations, rotations", "lower"),
    "tp_exposed": ResultColumn("s", "of the time per token: tensor-parallel all-reduces", "lower"),
    "ep_exposed": ResultColumn("s", "of the time per token: dispatch of tokens to experts and back", "lower"),
    "dcp_exposed": ResultColumn("s", "of the time per token: what ranks of dcp exchange in attention", "lower"),
    "pp_exposed": ResultColumn("s", "of the time per token: sends between stages", "lower"),
    "host_time": ResultColumn("s", "of the time per token: host and launches", "lower"),
    "draft_time": ResultColumn("s", "of the time per token: passes of a draft, in speculative decoding", "lower"),
    "prompts_between": ResultColumn("s", "of the time per token: prompts of other requests in its steps", "lower"),
    "accepted_tokens": ResultColumn("1", "tokens that a step adds to a sequence; 1 without speculation", "higher"),
    "speculation_gain": ResultColumn(
        "1", "time per token without drafts over that with drafts, at this load; below 1 drafts slow it down", "higher"
    ),
    "speculation_break_even": ResultColumn(
        "1", "sequences in flight, of one replica, above which drafts slow tokens down", "higher"
    ),
    "transfer_time": ResultColumn("s", "time to send the cache of a mean prompt from prefill to decode", "lower"),
    "transfer_exposed": ResultColumn("s", "part of that time after the prompt's last step", "lower"),
    "prefill_utilisation": ResultColumn("1", "share of time that instances for prompts are busy", "neither"),
    "prefill_per_decode": ResultColumn(
        "1", "prefill instances per decode instance at which neither waits for the other", "neither"
    ),
    "disaggregation_gain": ResultColumn(
        "1", "rate within the limits, relative to the best replicas that do both, on the same number of GPUs", "higher"
    ),
    "makespan": ResultColumn("s", "time until the last answer of an offline batch", "lower"),
    "tail_share": ResultColumn(
        "1", "share of that time in which no request waits and only the last answers still run", "lower"
    ),
    "cache_pool": ResultColumn("B", "memory of one accelerator for keys and values", "higher"),
    "cache_pool_tokens": ResultColumn("1", "tokens that the pool of one replica holds", "higher"),
    "kv_bytes_per_token": ResultColumn("B", "cache of one token over all layers, all heads once", "lower"),
    "concurrency_worst": ResultColumn(
        "1", "longest requests that fit at once, as engines log it, of one replica", "higher"
    ),
    "concurrency_steady": ResultColumn("1", "mean requests that fit at once, of one replica", "higher"),
    "memory_peak": ResultColumn(
        "B", "memory of the most loaded accelerator: weights, a step, the runtime and the pool", "lower"
    ),
    "memory_share": ResultColumn(
        "1",
        "weights, a step, the runtime and one request, relative to what the engine may use; limits bound it as memory",
        "lower",
    ),
    "cost_per_minput": ResultColumn("USD", "rent per million prompt tokens at this load", "lower", "USD/Mtoken"),
    "cost_per_moutput": ResultColumn("USD", "rent per million generated tokens at this load", "lower", "USD/Mtoken"),
    "cost_per_mcached": ResultColumn(
        "USD",
        "rent per million prompt tokens that are in the cache: for the attention of others to them",
        "lower",
        "USD/Mtoken",
    ),
    "rent_per_month": ResultColumn(
        "USD",
        "rent of all replicas for 730 hours: of GPUs in use, of whole nodes where these have the price",
        "lower",
    ),
    "rent_needed": ResultColumn(
        "USD",
        "rent of the GPUs needed at the rate for 730 hours: whole nodes where these have the price",
        "lower",
    ),
    "cost_of_batch": ResultColumn("USD", "rent of all replicas until the last answer of an offline batch", "lower"),
    "cost_per_mtoken": ResultColumn("USD", "all rent per million generated tokens", "lower", "USD/Mtoken"),
    "energy_per_token": ResultColumn(
        "J", "energy of the nodes of all replicas per generated token, prompts included", "lower", "J/token"
    ),
}

BANDED = (
    "ttft",
    "ttft_p99",
    "tpot",
    "tpot_p99",
    "worst_gap",
    "latency",
    "requests_per_s",
    "output_tokens_per_s",
    "total_tokens_per_s",
    "tokens_per_s_per_user",
    "tokens_per_s_per_gpu",
    "concurrency",
    "saturation_share",
    "saturation_per_s",
    "rate_within_slo_per_s",
    "in_time_share",
    "in_time_per_s",
    "tokens_per_gpu_within_limits",
    "cost_within_limits",
    "replicas_needed",
    "gpus_needed",
    "rent_needed",
    "prefill_needed",
    "decode_needed",
    "interference_share",
    "prompts_between",
    "prefix_residency",
    "prefill_utilisation",
    "makespan",
    "cache_pool",
    "cache_pool_tokens",
    "concurrency_worst",
    "concurrency_steady",
    "cost_per_minput",
    "cost_per_moutput",
    "cost_per_mcached",
    "cost_of_batch",
    "cost_per_mtoken",
    "energy_per_token",
)
BANDED_TERMS = (  # by the residual of their kernels, where the evidence has one
    "matmul",
    "attention",
    "memory_bound",
    "tp_exposed",
    "ep_exposed",
    "dcp_exposed",
    "pp_exposed",
    "host_time",
    "draft_time",
    "transfer_time",
    "transfer_exposed",
)
_SHARES = ("_share", "_chance", "utilisation", "prefix_hit", "host_hit")  # last words of results that are 1 at most


def is_share(name: str) -> bool:
    """Whether a result is a part of something, so that a user may write a percentage.

    >>> is_share("memory_share"), is_share("concurrency")
    (True, False)
    """
    return name.endswith(_SHARES)
