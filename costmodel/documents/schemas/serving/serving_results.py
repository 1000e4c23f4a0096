"""The results of a serving plan: each with its unit, its meaning and which direction is better."""

from costmodel.documents.schemas.results import ResultColumn

RESULTS: dict[str, ResultColumn] = {
    "ttft": ResultColumn("s", "time to the first token, on average: wait, and the steps of the prompt", "lower"),
    "ttft_p99": ResultColumn("s", "time to the first token that one request in a hundred exceeds", "lower"),
    "tpot": ResultColumn("s", "time per output token after the first, on average", "lower"),
    "worst_gap": ResultColumn("s", "longest step a user sees: as much of other users' prompts in it as fits", "lower"),
    "latency": ResultColumn("s", "time to the last token of a mean answer", "lower"),
    "requests_per_s": ResultColumn("1/s", "requests answered a second by all replicas", "higher", "request/s"),
    "output_tokens_per_s": ResultColumn("1/s", "tokens generated a second by all replicas", "higher", "token/s"),
    "total_tokens_per_s": ResultColumn(
        "1/s", "tokens of prompts and answers a second, all replicas", "higher", "token/s"
    ),
    "tokens_per_s_per_user": ResultColumn("1/s", "tokens a second that one user sees, 1 / tpot", "higher", "token/s"),
    "tokens_per_s_per_gpu": ResultColumn(
        "1/s", "tokens generated a second by each accelerator", "higher", "token/GPU/s"
    ),
    "concurrency": ResultColumn("1", "requests being decoded at a time, of one replica, by Little's law", "neither"),
    "utilisation": ResultColumn(
        "1", "share of time that goes into requests rather than the fixed part of steps", "neither"
    ),
    "saturation_per_s": ResultColumn(
        "1/s", "requests a second from which on queues grow without end, all replicas", "higher", "request/s"
    ),
    "rate_within_slo_per_s": ResultColumn(
        "1/s", "requests a second up to which every limit is kept, all replicas", "higher", "request/s"
    ),
    "limits_chance": ResultColumn(
        "1", "chance that a request fits, the load is answered and every limit is kept, by their bands", "higher"
    ),
    "tokens_per_gpu_within_limits": ResultColumn(
        "1/s",
        "tokens generated a second by each accelerator at the rate up to which limits are kept",
        "higher",
        "token/GPU/s",
    ),
    "cost_within_limits": ResultColumn(
        "USD", "all rent over a million generated tokens at that rate", "lower", "USD/Mtoken"
    ),
    "replicas_needed": ResultColumn("1", "replicas that keep every limit at the rate and its headroom", "lower"),
    "gpus_needed": ResultColumn("1", "accelerators of these replicas", "lower"),
    "replicas": ResultColumn("1", "copies of the engine; apart, groups of its prefill and decode instances", "neither"),
    "gpus": ResultColumn("1", "accelerators of all replicas", "lower"),
    "nodes": ResultColumn("1", "nodes that these accelerators are in, the last one perhaps in part", "lower"),
    "interference_share": ResultColumn("1", "share of the time per token that waits for other users' prompts", "lower"),
    "prefix_hit": ResultColumn("1", "share of prompt tokens that are in the cache already", "higher"),
    "prefix_residency": ResultColumn("s", "time that an unused beginning stays in the cache of a replica", "higher"),
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
    "ep_exposed": ResultColumn("s", "of the time per token: tokens on their way to experts and back", "lower"),
    "pp_exposed": ResultColumn("s", "of the time per token: sends between stages", "lower"),
    "host_time": ResultColumn("s", "of the time per token: host and launches", "lower"),
    "draft_time": ResultColumn("s", "of the time per token: passes of a draft, in speculative decoding", "lower"),
    "prompts_between": ResultColumn("s", "of the time per token: prompts of others in its steps", "lower"),
    "accepted_tokens": ResultColumn("1", "tokens that a step adds to a sequence; 1 without speculation", "higher"),
    "speculation_gain": ResultColumn(
        "1", "time per token without drafts over that with them, at this load; under 1 they slow down", "higher"
    ),
    "speculation_break_even": ResultColumn(
        "1", "sequences in flight, of one replica, from which drafts make a step's tokens slower", "higher"
    ),
    "transfer_time": ResultColumn("s", "time to send the cache of a mean prompt from prefill to decode", "lower"),
    "transfer_exposed": ResultColumn("s", "of that what lies behind the prompt's last step", "lower"),
    "prefill_utilisation": ResultColumn("1", "share of time that instances for prompts are busy", "neither"),
    "prefill_per_decode": ResultColumn(
        "1", "instances for prompts for each that generates, so that neither waits for the other", "neither"
    ),
    "disaggregation_gain": ResultColumn(
        "1", "requests within the limits over those of the best replicas that do both, on as many GPUs", "higher"
    ),
    "makespan": ResultColumn("s", "time until the last answer of an offline batch is there", "lower"),
    "tail_share": ResultColumn(
        "1", "share of that time in which no request waits any more, and the last answers run out", "lower"
    ),
    "cache_pool": ResultColumn("B", "memory of one accelerator for keys and values", "higher"),
    "cache_pool_tokens": ResultColumn("1", "tokens that the pool of one replica holds", "higher"),
    "kv_bytes_per_token": ResultColumn("B", "cache of one token over all layers, all heads once", "lower"),
    "concurrency_worst": ResultColumn(
        "1", "longest requests that fit at once, as engines log it, of one replica", "higher"
    ),
    "concurrency_steady": ResultColumn("1", "mean requests that fit at once, of one replica", "higher"),
    "memory_peak": ResultColumn(
        "B", "memory of the fullest accelerator: weights, a step, the runtime and the pool", "lower"
    ),
    "memory_share": ResultColumn(
        "1", "what weights, a step and one request take over what the engine may; over 1 fails", "lower"
    ),
    "cost_per_minput": ResultColumn("USD", "rent for a million prompt tokens at this load", "lower", "USD/Mtoken"),
    "cost_per_moutput": ResultColumn("USD", "rent for a million generated tokens at this load", "lower", "USD/Mtoken"),
    "rent_per_month": ResultColumn(
        "USD", "rent of all replicas for 730 hours; of whole nodes, where a node has a list price", "lower"
    ),
    "cost_of_batch": ResultColumn("USD", "rent of all replicas until the last answer of an offline batch", "lower"),
    "cost_per_mtoken": ResultColumn("USD", "all rent over a million generated tokens", "lower", "USD/Mtoken"),
}

BANDED = ("ttft", "ttft_p99", "tpot", "tokens_per_s_per_user", "cache_pool", "cache_pool_tokens")
