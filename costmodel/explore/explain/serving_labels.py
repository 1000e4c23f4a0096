"""What the labels of answers about serving mean, and words of this field that other tools use; as in `labels`."""

from __future__ import annotations

SERVING_LABELS: dict[str, tuple[str, str]] = {
    # estimate
    "first token": ("", "ttft"),
    "per token": ("", "tpot"),
    "per user": ("", "tokens_per_s_per_user"),
    "whole answer": ("", "latency"),
    "worst gap": ("", "gap"),
    "p99": ("one request in a hundred takes longer", "ttft_p99"),
    "mean step": ("time of one step of the engine at this load", ""),
    "requests": ("requests that are answered a second", "requests_per_s"),
    "within limits": ("requests a second up to which every limit is kept", "rate_within_slo"),
    "util.": ("", "utilisation"),
    "cache": ("memory that an engine keeps for keys and values", "cache_pool"),
    "kv cache": ("keys and values of all tokens that an engine holds", "cache_pool"),
    "cache pool": ("", "cache_pool"),
    "prompts between": ("", "prompts_between"),
    "tp all-reduce": ("", "tp_exposed"),
    "host": ("", "host_time"),
    "asked": ("memory that the engine asks for: its share of the device", ""),
    "req/s": ("requests a second up to which every limit is kept", "rate_within_slo"),
    "what if": ("the memory of the same plan with another value of one key", ""),
    # search, sweep, scale
    "rent/m out": (
        "all rent, in USD, that of the prompts too, over a million generated tokens; estimate prints beside it what a "
        "million prompt tokens and a million generated ones cost, each by its own share of the rent",
        "cost_per_mtoken",
    ),
    "a month": ("rent of all replicas for 730 hours", "rent_per_month"),
    "why not": ("the codes of the reasons against the other layouts, with how many each refuses", ""),
    "rate": ("requests a second that arrive: workload.rate", ""),
    "repl": ("copies of the engine: plan.replicas", "replicas"),
    "dpa": ("attention of each request on a rank of its own: plan.dp_attention", "dp_attention"),
    "budget": (
        "of serving, tokens that a step may hold: stack.budget; of a run, the time or the money that limits allow: "
        "limits.run_time and limits.run_cost",
        "token_budget",
    ),
    "binds": (
        "what keeps a higher rate from being answered: the cache, the budget of a step, the engine's limit on "
        "sequences, or a limit of the scenario",
        "rate_within_slo",
    ),
    # words of the field
    "token budget": ("", "token_budget"),
    "chunked prefill": (
        "prompts are computed in chunks beside the tokens of other requests, as much in a step as its budget leaves",
        "max_num_batched_tokens",
    ),
    "context": (
        "of a model or a request, the tokens that it may look back on: model.max_sequence, workload.context; of a "
        "memory ledger, what the driver keeps: its context, loaded kernels, workspaces",
        "",
    ),
    "ring attention": ("keys and values go around the cp ranks: plan.cp_type p2p", "context-parallel"),
    "balance": (
        "of a pipeline, how equal the times of its stages are: the slowest sets the pace; costmodel pipeline SCENARIO",
        "",
    ),
    "roofline": (
        "the time of a kernel is the larger of its FLOP over the peak and its bytes over the memory bandwidth; "
        "costmodel report SCENARIO --figure roofline draws it",
        "ridge",
    ),
}
