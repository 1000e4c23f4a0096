"""What the labels of answers about serving mean, and words of this field that other tools use; as in `labels`."""

from __future__ import annotations

SERVING_LABELS: dict[str, tuple[str, str]] = {
    # estimate
    "first token": ("", "ttft"),
    "per token": ("", "tpot"),
    "per user": ("", "tokens_per_s_per_user"),
    "whole answer": ("", "latency"),
    "worst gap": ("", "gap"),
    "p99": ("one request in a hundred takes longer: for its first token, or for each token (tpot_p99)", "ttft_p99"),
    "tpot p90": ("nine runs in ten take no longer for each token", "tpot"),
    "p99 p90": ("in nine runs of ten, one request in a hundred takes longer for its first token", "ttft_p99"),
    "requests": (
        "requests answered per second; in the memory of an engine, how many fit at a time: concurrency",
        "requests_per_s",
    ),
    "to answer all": ("of a chance: that all requests that arrive are answered, by the bands", "limits_chance"),
    "answer all that arrives": ("of a chance: of all requests, by the bands", "limits_chance"),
    "answer the load": ("plans that answer all requests that arrive, on average", "saturation_per_s"),
    "answers the load": ("a plan that answers all requests that arrive, on average", "saturation_per_s"),
    "keep all limits": (
        "plans whose expected figures meet every limit; a chance: with the errors of those",
        "limits_chance",
    ),
    "keeps all limits": ("a plan whose expected figures meet every limit", "limits_chance"),
    "bound by": (
        "the largest part of the time of a token, or of a step; a rate is bound by what is full first: the cache, the "
        "token budget of a step, the engine's limit on sequences, or time",
        "rate_within_slo",
    ),
    "where a token's time goes": ("the parts of the time per token, the largest first", "tpot"),
    "mean requests": ("requests of mean length, with half of their answer written", "concurrency_steady"),
    "within limits": ("the highest rate, in requests per second, that meets every limit", "rate_within_slo"),
    "in time": ("", "in_time_share"),
    "load": (
        "in serving, requests per second relative to the most that the plan answers",
        "saturation_share",
    ),
    **dict.fromkeys(
        ("utilisation", "utilization"),
        ("in serving, the load: requests per second relative to the most that the plan answers", "saturation_share"),
    ),
    "cache": ("memory that an engine keeps for keys and values", "cache_pool"),
    "kv cache": ("keys and values of all tokens that an engine holds", "cache_pool"),
    "cache pool": ("", "cache_pool"),
    "p10 – p90 before": ("the band of a figure of the first of two scenarios", ""),
    "p10 – p90 after": ("the band of a figure of the second of two scenarios", ""),
    "kv": ("of transfers: the cache of prompts on its way from prefill to decode", "transfer_time"),
    "without end": ("a wait that grows as long as more arrives than is answered", "saturation_per_s"),
    "no end": ("a wait that grows as long as more arrives than is answered", "saturation_per_s"),
    "all rent": ("all rent over the generated tokens, idle time too", "cost_per_mtoken"),
    "all": ("the sum of the rows above it", ""),
    "which holds": ("requests of mean length that the cache pool has room for at a time", "concurrency_steady"),
    "prompts between": ("", "prompts_between"),
    "tp all-reduce": ("", "tp_exposed"),
    "shared context": ("", "dcp_exposed"),
    "expert exchange": ("", "ep_exposed"),
    "pipeline sends": ("", "pp_exposed"),
    "cache by layers": ("what layers of each kind keep of a sequence; a token adds nothing to windows and states", ""),
    "a token": ("cache of one more token, of all heads; a dash where a sequence does not grow", "kv_bytes"),
    "sequence of": ("cache of a sequence of so many tokens, of all heads", "kv_bytes"),
    "set aside for": ("cache of one rank that an engine keeps free for the longest request", "concurrency"),
    "mean request": ("cache of one rank that a request holds with half of its answer written", "concurrency"),
    "full attention": ("layers whose queries see every token", "kv_bytes"),
    "window of": ("layers whose queries see so many tokens, which is all that their cache holds", "kv_bytes"),
    "latent attention": ("layers that keep one narrow vector of a token (MLA)", "kv_bytes"),
    "latent attention with indexer": ("the same with keys by which an indexer picks tokens", "kv_bytes"),
    "compressed attention": ("layers that keep one entry for several tokens, and a window", "kv_bytes"),
    "state space": ("layers that keep a state of fixed size", "kv_bytes"),
    "selective scan": ("layers that keep a state of fixed size (Mamba-1)", "kv_bytes"),
    "drafts": (
        "small models, or layers, that guess tokens: plan.speculation; of a token's time, what their passes take",
        "draft_time",
    ),
    "prefix hits": ("", "prefix_hit"),
    "kept for": ("time that an unused prefix stays: on the devices, or on the devices and hosts", "prefix_residency"),
    "from the host": ("", "host_hit"),
    "loading adds": ("", "host_load_exposed"),
    "which is": ("the time to load cache from the host beside the time to compute it again", "host_load_gain"),
    "exposed": ("time that nothing hides: of cache that is sent, what is left after the prompt's last step", ""),
    "whole batch": ("", "makespan"),
    "batch rent": ("", "cost_of_batch"),
    "lost in its tail": ("", "tail_share"),
    "dcp": ("ranks of tensor parallelism that divide the cache of a sequence by tokens: plan.dcp", "dcp"),
    "host": ("", "host_time"),
    "least memory": (
        "weights, a step, the runtime and one request, relative to what the engine may use",
        "memory_share",
    ),
    "asked": ("memory that the engine claims: its share of the device", ""),
    "req/s": ("the highest rate, in requests per second, that meets every limit", "rate_within_slo"),
    "what if": ("the memory of the same plan with another value of one key", ""),
    # search, sweep, scale
    "rent/m out": (
        "all rent in USD, including that for prompts, per million generated tokens; estimate also prints the cost of a "
        "million prompt tokens and of a million generated tokens, each with its own share of the rent",
        "cost_per_mtoken",
    ),
    "energy/token": ("", "energy_per_token"),
    "rent": ("what accelerators cost, by assume.price; of a service, that of a month", "rent_per_month"),
    "a month": ("rent of all replicas for 730 hours", "rent_per_month"),
    "rent/month": ("rent for 730 hours of the GPUs that the load needs, of those paid for", "rent_needed"),
    "gpus paid": ("GPUs that the load needs; of nodes with a price of their own, all of each", "rent_needed"),
    "code": ("of a reason against a plan; costmodel explain CODE has its page", ""),
    "plans": ("number of plans, all of them or those that a line is about", ""),
    "keep": ("number of plans that keep every limit", ""),
    "node": ("the node that plans run on: cluster.node", ""),
    "for example": ("one of the plans that a line is about", ""),
    "why not the others": ("the codes of the reasons against the other plans, with the share of plans for each", ""),
    "why not": ("the codes of the reasons against the other layouts, with the number of layouts for each", ""),
    "rate": ("requests that arrive per second: workload.rate", ""),
    "repl": ("copies of the engine: plan.replicas", "replicas"),
    "dpa": ("number of attention groups, each with its own requests: plan.dp_attention", "dp_attention"),
    "budget": (
        "in serving, the most tokens of a step: stack.budget; in a run, the time or the money that limits allow: "
        "limits.run_time and limits.run_cost",
        "token_budget",
    ),
    "binds": (
        "what prevents a higher rate: the cache, the token budget of a step, the engine's limit on sequences, or a "
        "limit of the scenario",
        "rate_within_slo",
    ),
    # words of the field
    "interactivity": ("tokens per second that one user sees, as benchmarks name it", "tokens_per_s_per_user"),
    "max_model_len": (
        "vLLM's longest request, prompt and answer together; context_length of SGLang, max_seq_len of TensorRT-LLM: "
        "workload.context",
        "concurrency",
    ),
    "goodput": (
        "in serving, requests per second whose own times are within the limits, at this load: costmodel explain "
        "in_time_share; the highest rate that meets the limits is rate_within_slo; in training, the useful share of "
        "the time",
        "goodput",
    ),
    "spread": (
        "of prompts and answers, the standard deviation of their lengths over the mean: workload.prompt.spread, "
        "workload.output.spread; of layers, one way to deal them to stages",
        "layer-split",
    ),
    "token budget": ("", "token_budget"),
    "chunked prefill": (
        "prompts are processed in chunks together with the tokens of other requests, up to the token budget of a step",
        "max_num_batched_tokens",
    ),
    "context": (
        "of a model or a request, the tokens that it can attend to: model.max_sequence, workload.context; in a "
        "memory breakdown, memory of the driver: its context, loaded kernels, workspaces",
        "",
    ),
    "ring attention": ("keys and values are passed around the cp ranks: plan.cp_type p2p", "context-parallel"),
    "balance": (
        "of a pipeline, how equal the times of its stages are: the slowest sets the pace; costmodel pipeline SCENARIO; "
        "where prefill and decode are apart, the prefill instances for each decode instance at which both are full",
        "",
    ),
    "cache sent": (
        "time to send the cache of a prompt from its prefill instance to that of decode",
        "transfer_time",
    ),
    "prefill busy": ("share of the time in which prefill instances process prompts", "prefill_utilisation"),
    "energy": (
        "of a run, all of it at the meter of the data centre; in serving, that of a generated token: energy_per_token",
        "energy",
    ),
    "gain": (
        "of drafts, how much faster tokens come than without them, and up to how many requests in flight; of prefill "
        "apart from decode, the rate within the limits over that of replicas that do both",
        "",
    ),
    "cached": ("of the cost of prompts, a million tokens whose keys and values an engine still holds", ""),
    "roofline": (
        "the time of a kernel is the larger of its FLOP over the peak and its bytes over the memory bandwidth; "
        "costmodel report SCENARIO --figure roofline draws it",
        "ridge",
    ),
}
