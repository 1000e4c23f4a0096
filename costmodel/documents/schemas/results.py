"""The results of all workloads: each with its unit, its meaning, which direction is better and whether it has a band.

From these rows follow the columns of tables, the names in machine output, limits, labels and axes.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

from costmodel.ground.record import record


@record
class ResultColumn:
    """A result of an answer, which is also a column in a table of answers.

    band: "step" for the error of measured steps, "term" for that of a term's kernels; term bands do not add up
    """

    unit: str
    meaning: str
    better: Literal["lower", "higher", "neither"]
    counted: str = ""  # the unit with what it counts
    band: Literal["", "step", "term"] = ""

    @property
    def written(self) -> str:
        """The unit for people, including the thing counted."""
        return self.counted or self.unit

    @property
    def sign(self) -> float:
        """−1 if higher is better, else 1; a figure times its sign is better if it is lower."""
        return -1.0 if self.better == "higher" else 1.0


TRAINING_RESULTS: dict[str, ResultColumn] = {
    "step_time": ResultColumn("s", "wall-clock time of an optimizer step", "lower", band="step"),
    "tokens_per_s": ResultColumn("1/s", "tokens trained per second by the whole job", "higher", "token/s", band="step"),
    "tokens_per_s_per_gpu": ResultColumn(
        "1/s", "tokens trained per second by each accelerator", "higher", "token/GPU/s", band="step"
    ),
    "flop_rate": ResultColumn("FLOP/s", "model FLOP a second of each accelerator", "higher", "FLOP/GPU/s", band="step"),
    "mfu": ResultColumn(
        "1", "model FLOP as a share of the peak; hfu also counts recomputed FLOP", "higher", band="step"
    ),
    "hfu": ResultColumn("1", "executed FLOP, including recomputed FLOP, as a share of the peak", "higher"),
    "matmul": ResultColumn("s", "matrix products of the busiest stage", "lower"),
    "attention": ResultColumn("s", "attention itself, without its projections, on the busiest stage", "lower"),
    "memory_bound": ResultColumn(
        "s", "norms, activation functions, loss: operations bound by memory bandwidth", "lower"
    ),
    "launch": ResultColumn("s", "time the device waits for the host to issue operations", "lower"),
    "tp_exposed": ResultColumn("s", "tensor-parallel communication that compute does not hide", "lower"),
    "cp_exposed": ResultColumn("s", "context-parallel communication that attention does not hide", "lower"),
    "pp_exposed": ResultColumn("s", "sends between stages that compute does not hide", "lower"),
    "ep_exposed": ResultColumn("s", "dispatch of tokens to experts and back that compute does not hide", "lower"),
    "dp_exposed": ResultColumn("s", "data-parallel communication that compute does not hide", "lower"),
    "bubble": ResultColumn("s", "time that the busiest stage waits for others", "lower"),
    "bubble_share": ResultColumn("1", "bubble as a share of the step", "lower"),
    "offload_exposed": ResultColumn(
        "s", "traffic over the host link that neither compute nor the network hides", "lower"
    ),
    "optimizer": ResultColumn("s", "optimizer step", "lower"),
    "memory_peak": ResultColumn("B", "memory of the worst stage, as the driver shows it", "lower", band="step"),
    "memory_share": ResultColumn("1", "memory_peak as a share of usable memory; limited with limits.memory", "lower"),
    "memory_free": ResultColumn("B", "usable memory minus memory_peak", "higher"),
    "fit_chance": ResultColumn("1", "chance that memory_peak is within usable memory, by its band", "higher"),
    "host_memory": ResultColumn("B", "host memory and drives that offload uses on a node", "lower"),
    "host_share": ResultColumn(
        "1", "host_memory as a share of the node's memory or drives, whichever is fuller", "lower"
    ),
    "tp_volume": ResultColumn("B", "bytes a rank sends a step for tensor parallelism", "lower"),
    "cp_volume": ResultColumn("B", "bytes a rank sends a step for context parallelism", "lower"),
    "ep_volume": ResultColumn("B", "bytes a rank sends a step for tokens to their experts and back", "lower"),
    "pp_volume": ResultColumn("B", "bytes a rank sends a step between stages", "lower"),
    "dp_volume": ResultColumn("B", "bytes a rank sends a step for data parallelism", "lower"),
    "communication_efficiency": ResultColumn("1", "compute over compute and exposed communication", "higher"),
    "scaling_efficiency": ResultColumn(
        "1", "speed relative to the same accelerators without exposed communication and bubble", "higher"
    ),
    "cost_per_mtoken": ResultColumn("USD", "rent for a million tokens", "lower", "USD/Mtoken", band="step"),
    "run_time": ResultColumn("s", "wall-clock time of the token budget, without failures", "lower", band="step"),
    "run_cost": ResultColumn("USD", "rent for the token budget", "lower", band="step"),
}

# Of a scenario that asks about the whole run; two of the above mean more there.
RUN_RESULTS: dict[str, ResultColumn] = {
    "goodput": ResultColumn("1", "useful share of the run time", "higher", band="step"),
    "run_time": ResultColumn("s", "wall-clock time of the run, including interruptions", "lower", band="step"),
    "run_cost": ResultColumn("USD", "rent of all nodes for the run time", "lower", band="step"),
    "energy": ResultColumn("J", "energy of the run at the meter of the data centre", "lower", band="step"),
    "emissions": ResultColumn(
        "kg", "carbon dioxide of that energy, by location, without manufacturing the hardware", "lower", band="step"
    ),
    "mtbf": ResultColumn("s", "mean time between interruptions of the job", "higher", band="step"),
    "restart_time": ResultColumn("s", "time from an interruption until training continues", "lower"),
    "checkpoint_size": ResultColumn("B", "bytes of a checkpoint of the whole job, as sent to storage", "lower"),
    "checkpoint_blocking": ResultColumn("s", "time that training stops for a checkpoint", "lower"),
    "checkpoint_write": ResultColumn("s", "time to write a checkpoint, after which it is usable", "lower"),
    "checkpoint_host": ResultColumn("B", "host memory of a node for copies of checkpoints", "lower"),
    "checkpoint_interval": ResultColumn("s", "useful time between two checkpoints, in whole steps", "higher"),
}

SERVING_RESULTS: dict[str, ResultColumn] = {
    "ttft": ResultColumn("s", "mean time to first token: the wait, and the steps of the prompt", "lower", band="step"),
    "ttft_p99": ResultColumn("s", "time to first token that one request in a hundred exceeds", "lower", band="step"),
    "tpot": ResultColumn("s", "mean time per output token after the first", "lower", band="step"),
    "tpot_p99": ResultColumn("s", "mean time per token that one request in a hundred exceeds", "lower", band="step"),
    "worst_gap": ResultColumn(
        "s", "longest step that a user sees: one filled with prompts of other users", "lower", band="step"
    ),
    "latency": ResultColumn("s", "time to the last token of a mean answer", "lower", band="step"),
    "requests_per_s": ResultColumn(
        "1/s", "requests answered per second by all replicas", "higher", "request/s", band="step"
    ),
    "output_tokens_per_s": ResultColumn(
        "1/s", "tokens generated per second by all replicas", "higher", "token/s", band="step"
    ),
    "total_tokens_per_s": ResultColumn(
        "1/s", "tokens of prompts and answers per second, all replicas", "higher", "token/s", band="step"
    ),
    "tokens_per_s_per_user": ResultColumn(
        "1/s", "tokens per second that one user sees, 1 / tpot", "higher", "token/s", band="step"
    ),
    "bandwidth_bound": ResultColumn(
        "1/s", "tokens per second of one user that no engine exceeds: each reads the weights once", "higher", "token/s"
    ),
    "tokens_per_s_per_gpu": ResultColumn(
        "1/s", "tokens generated a second by each accelerator", "higher", "token/GPU/s", band="step"
    ),
    "concurrency": ResultColumn(
        "1", "requests being decoded at a time, of one replica, by Little's law", "neither", band="step"
    ),
    "saturation_share": ResultColumn(
        "1", "requests answered per second, relative to saturation", "neither", band="step"
    ),
    "saturation_per_s": ResultColumn(
        "1/s",
        "requests per second beyond which queues grow without bound, all replicas",
        "higher",
        "request/s",
        band="step",
    ),
    "rate_within_slo_per_s": ResultColumn(
        "1/s", "highest requests per second that meet every limit, all replicas", "higher", "request/s", band="step"
    ),
    "limits_chance": ResultColumn(
        "1", "chance that a request fits, the load is served and every limit is met, from their bands", "higher"
    ),
    "in_time_share": ResultColumn(
        "1",
        "share of requests within the limits on the first token and on the time per token, at this load",
        "higher",
        band="step",
    ),
    "in_time_per_s": ResultColumn(
        "1/s",
        "goodput: requests per second within these limits, at this load, all replicas",
        "higher",
        "request/s",
        band="step",
    ),
    "tokens_per_gpu_within_limits": ResultColumn(
        "1/s",
        "tokens generated per second by each accelerator at the highest rate that meets the limits",
        "higher",
        "token/GPU/s",
        band="step",
    ),
    "cost_within_limits": ResultColumn(
        "USD", "all rent per million generated tokens at that rate", "lower", "USD/Mtoken", band="step"
    ),
    "replicas_needed": ResultColumn(
        "1", "replicas needed to meet every limit at the rate and its headroom", "lower", band="step"
    ),
    "prefill_needed": ResultColumn(
        "1", "of these the prefill instances, if prefill and decode are apart", "lower", band="step"
    ),
    "decode_needed": ResultColumn(
        "1", "of these the decode instances, if prefill and decode are apart", "lower", band="step"
    ),
    "gpus_needed": ResultColumn("1", "accelerators of these replicas", "lower", band="step"),
    "replicas": ResultColumn("1", "copies of the engine; apart, its prefill and decode instances", "neither"),
    "gpus": ResultColumn("1", "accelerators of all replicas", "lower"),
    "nodes": ResultColumn("1", "nodes that these accelerators are in, the last one perhaps in part", "lower"),
    "interference_share": ResultColumn(
        "1", "share of the time per token that waits for other users' prompts", "lower", band="step"
    ),
    "prefix_hit": ResultColumn("1", "share of prompt tokens that are already in the cache", "higher"),
    "prefix_residency": ResultColumn(
        "s", "time that an unused prefix stays in the cache of a replica", "higher", band="step"
    ),
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
    "matmul": ResultColumn(
        "s", "of the time per token: matrix products of a step without prompts", "lower", band="term"
    ),
    "attention": ResultColumn("s", "part of the time per token in which the KV cache is read", "lower", band="term"),
    "memory_bound": ResultColumn("s", "of the time per token: norms, activations, rotations", "lower", band="term"),
    "tp_exposed": ResultColumn("s", "of the time per token: tensor-parallel all-reduces", "lower", band="term"),
    "ep_exposed": ResultColumn(
        "s", "of the time per token: dispatch of tokens to experts and back", "lower", band="term"
    ),
    "dcp_exposed": ResultColumn(
        "s", "of the time per token: what ranks of dcp exchange in attention", "lower", band="term"
    ),
    "pp_exposed": ResultColumn("s", "of the time per token: sends between stages", "lower", band="term"),
    "host_time": ResultColumn("s", "of the time per token: host and launches", "lower", band="term"),
    "draft_time": ResultColumn(
        "s", "of the time per token: passes of a draft, in speculative decoding", "lower", band="term"
    ),
    "prompts_between": ResultColumn(
        "s", "of the time per token: prompts of other requests in its steps", "lower", band="step"
    ),
    "accepted_tokens": ResultColumn("1", "tokens that a step adds to a sequence; 1 without speculation", "higher"),
    "speculation_gain": ResultColumn(
        "1", "time per token without drafts over that with drafts, at this load; below 1 drafts slow it down", "higher"
    ),
    "speculation_break_even": ResultColumn(
        "1", "sequences in flight, of one replica, above which drafts slow tokens down", "higher"
    ),
    "transfer_time": ResultColumn(
        "s", "time to send the cache of a mean prompt from prefill to decode", "lower", band="term"
    ),
    "transfer_exposed": ResultColumn("s", "part of that time after the prompt's last step", "lower", band="term"),
    "prefill_utilisation": ResultColumn(
        "1", "share of time that instances for prompts are busy", "neither", band="step"
    ),
    "prefill_per_decode": ResultColumn(
        "1", "prefill instances per decode instance at which neither waits for the other", "neither"
    ),
    "disaggregation_gain": ResultColumn(
        "1", "rate within the limits, relative to the best replicas that do both, on the same number of GPUs", "higher"
    ),
    "makespan": ResultColumn("s", "time until the last answer of an offline batch", "lower", band="step"),
    "tail_share": ResultColumn(
        "1", "share of that time in which no request waits and only the last answers still run", "lower"
    ),
    "cache_pool": ResultColumn("B", "memory of one accelerator for keys and values", "higher", band="step"),
    "cache_pool_tokens": ResultColumn("1", "tokens that the pool of one replica holds", "higher", band="step"),
    "kv_bytes_per_token": ResultColumn("B", "cache of one token over all layers, all heads once", "lower"),
    "concurrency_worst": ResultColumn(
        "1", "longest requests that fit at once, as engines log it, of one replica", "higher", band="step"
    ),
    "concurrency_steady": ResultColumn("1", "mean requests that fit at once, of one replica", "higher", band="step"),
    "start_time": ResultColumn(
        "s", "cold start: from starting a replica until it answers, with weights read and graphs captured", "lower"
    ),
    "memory_peak": ResultColumn(
        "B", "memory of the most loaded accelerator: weights, a step, the runtime and the pool", "lower"
    ),
    "memory_share": ResultColumn(
        "1",
        "weights, a step, the runtime and one request, relative to what the engine may use; limits bound it as memory",
        "lower",
    ),
    "cost_per_minput": ResultColumn(
        "USD", "rent per million prompt tokens at this load", "lower", "USD/Mtoken", band="step"
    ),
    "cost_per_moutput": ResultColumn(
        "USD", "rent per million generated tokens at this load", "lower", "USD/Mtoken", band="step"
    ),
    "cost_per_mcached": ResultColumn(
        "USD",
        "rent per million prompt tokens that are in the cache: for the attention of others to them",
        "lower",
        "USD/Mtoken",
        band="step",
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
        band="step",
    ),
    "cost_of_batch": ResultColumn(
        "USD", "rent of all replicas until the last answer of an offline batch", "lower", band="step"
    ),
    "cost_per_mtoken": ResultColumn("USD", "all rent per million generated tokens", "lower", "USD/Mtoken", band="step"),
    "energy_per_token": ResultColumn(
        "J",
        "energy of the nodes of all replicas per generated token, prompts included",
        "lower",
        "J/token",
        band="step",
    ),
}

# Times that a user waits: at_most on these bounds the rate.
SERVICE_LEVEL = (
    "ttft",
    "ttft_p99",
    "tpot",
    "tpot_p99",
    "worst_gap",
    "latency",
)
# Numbers of requests, tokens, replicas or accelerators, and ratios over 1; other results without a unit are shares.
COUNTS = {
    *("concurrency", "replicas_needed", "prefill_needed", "decode_needed", "gpus_needed", "replicas", "gpus", "nodes"),
    *("host_cache_tokens", "host_load_gain", "accepted_tokens", "speculation_gain", "speculation_break_even"),
    *("prefill_per_decode", "disaggregation_gain", "cache_pool_tokens", "concurrency_worst", "concurrency_steady"),
}

RL_RESULTS: dict[str, ResultColumn] = {
    "iteration_time": ResultColumn("s", "time from one set of generation weights to the next", "lower", band="step"),
    "generation": ResultColumn("s", "prompts and answers of an iteration, until the longest ends", "lower"),
    "tail": ResultColumn("s", "part of generation in which fewer than one in eight answers still run", "lower"),
    "old_log_probabilities": ResultColumn("s", "forward pass of the policy over all answers, before updates", "lower"),
    "reference_time": ResultColumn("s", "forward pass of the frozen reference over all answers", "lower"),
    "reward_time": ResultColumn("s", "forward pass of a reward model over all answers", "lower"),
    "critic_time": ResultColumn("s", "values of the critic, and its updates", "lower"),
    "update_time": ResultColumn("s", "optimizer steps of the policy over all answers and epochs", "lower"),
    "switch": ResultColumn("s", "copying training states to the host and back", "lower"),
    "weight_sync": ResultColumn("s", "sending new weights to the engines", "lower"),
    "overlapped": ResultColumn(
        "s", "of generation or training: beside the other, on accelerators of its own", "higher"
    ),
    "generation_share": ResultColumn("1", "generation over the sum of all phases", "neither"),
    "longest": ResultColumn("1", "tokens of the longest answer, expected", "neither"),
    "answers_per_s": ResultColumn("1/s", "answers generated and trained on per second", "higher", "answer/s"),
    "tokens_per_s_per_gpu": ResultColumn(
        "1/s", "tokens of prompts and answers a second and accelerator, of generation and training", "higher", "token/s"
    ),
    "rollout_ranks": ResultColumn("1", "accelerators that generate", "neither"),
    "training_ranks": ResultColumn("1", "accelerators that train", "neither"),
    "memory_peak": ResultColumn("B", "memory of the most loaded accelerator in its largest phase", "lower"),
    "memory_share": ResultColumn("1", "memory_peak as a share of the usable memory", "lower"),
    "fit_chance": ResultColumn("1", "chance that memory_peak is within usable memory, by its band", "higher"),
    "iteration_cost": ResultColumn("USD", "rent of all accelerators for an iteration", "lower"),
    "run_time": ResultColumn("s", "time of all iterations", "lower", band="step"),
    "run_cost": ResultColumn("USD", "rent of all accelerators for all iterations", "lower", band="step"),
}


_ENDS = {"low": ("P10", "below"), "high": ("P90", "above")}
# Last words of results that are 1 at most.
_SHARES = ("_share", "_chance", "utilisation", "prefix_hit", "host_hit", "mfu", "hfu", "_efficiency", "goodput")
_SUFFIXES = {
    "s": "_s",
    "B": "_bytes",
    "FLOP/s": "_flop_per_s",
    "USD": "_usd",
    "J": "_j",
    "kg": "_kg",
    "1": "",
    "1/s": "",
}


def _with_bands(rows: Mapping[str, ResultColumn]) -> Iterator[tuple[str, ResultColumn]]:
    """Every column; a column with an error band is followed by the ends of the band."""
    for name, column in rows.items():
        yield name, column
        for end, (place, side) in _ENDS.items() if column.band else ():
            meaning = f"{place} of {name}: one run in ten is {side}"
            if column.band == "term":
                meaning = f"{place} of {name} by the residual of its kernels; bands of terms do not add up"
            yield f"{name}_{end}", replace(column, meaning=meaning, better="neither", band="")


OF_STEP: dict[str, ResultColumn] = dict(_with_bands(TRAINING_RESULTS))
OF_RUN: dict[str, ResultColumn] = dict(_with_bands(TRAINING_RESULTS | RUN_RESULTS))
# All there are; the meaning of those that any scenario has is that of one without run.
TRAINING_COLUMNS = OF_RUN | OF_STEP
OF_WHOLE_RUN = frozenset(OF_RUN) - frozenset(OF_STEP)  # results that follow from the section about the run alone
SERVING_COLUMNS: dict[str, ResultColumn] = dict(_with_bands(SERVING_RESULTS))
RL_COLUMNS: dict[str, ResultColumn] = dict(_with_bands(RL_RESULTS))
RL_COLUMNS |= {name: replace(column, band="") for name, column in RUN_RESULTS.items() if name not in RL_COLUMNS}
BAND_ENDS = tuple(name for name in TRAINING_COLUMNS if name not in TRAINING_RESULTS | RUN_RESULTS)
COLUMNS = {"training": TRAINING_COLUMNS, "serving": SERVING_COLUMNS, "rl": RL_COLUMNS}  # by workload
_ALL = SERVING_COLUMNS | RL_COLUMNS | TRAINING_COLUMNS  # a name has one unit in all of them


HEADS = {  # of columns, where they are not the names
    "step_time": "step",
    "mfu": "MFU",
    "memory_peak": "memory",
    "iteration_time": "iteration",
    "answers_per_s": "answers",
    "update_time": "update",
    "rate_within_slo_per_s": "within limits",
    "ttft": "first token",
    "ttft_p99": "p99",
    "tpot": "per token",
    "worst_gap": "worst gap",
    "requests_per_s": "rate",
    "saturation_share": "load",
    "gpus": "GPUs",
    "replicas": "repl",
    "rent_per_month": "a month",
    "tpot_high": "P90",
    "ttft_p99_high": "ttft p99 P90",
    "in_time_share": "SLO met",
    "in_time_per_s": "goodput",
    "limits_chance": "chance",
}
BANDS_BESIDE = {"tpot": ("tpot_high",), "ttft_p99": ("ttft_p99_high",)}  # ends that are shown beside a result


def banded_results(rows: Mapping[str, ResultColumn], by: Literal["step", "term"] = "step") -> tuple[str, ...]:
    """The results that have an error band of this kind."""
    return tuple(name for name, column in rows.items() if column.band == by)


def column_of(name: str) -> ResultColumn:
    """The column of a result; unit and direction are the same in every workload, the meaning is that of one."""
    return _ALL[name]


def machine_name(name: str) -> str:
    """The name of a result in machine output, with its unit as suffix unless it already contains it.

    >>> machine_name("step_time"), machine_name("kv_bytes_per_token"), machine_name("tokens_per_s")
    ('step_time_s', 'kv_bytes_per_token', 'tokens_per_s')
    """
    return name if "_bytes_" in name else name + _SUFFIXES[column_of(name).unit]


def is_share(name: str) -> bool:
    """Whether a result is a fraction, so that a user may write a percentage.

    >>> is_share("memory_share"), is_share("mfu"), is_share("concurrency")
    (True, True, False)
    """
    return name.endswith(_SHARES)


def is_money(name: str) -> bool:
    """Whether a result of any workload depends on the price.

    >>> is_money("rent_per_month"), is_money("cost_within_limits_low"), is_money("gpus_needed")
    (True, True, False)
    """
    return name.startswith(("cost_", "rent_", "run_cost", "iteration_cost"))


def is_of_run(name: str) -> bool:
    """Whether a result of a training job depends on the time from its first step to its last.

    >>> is_of_run("run_time_low"), is_of_run("goodput"), is_of_run("restart_time")
    (True, True, False)
    """
    return name.startswith(("run_time", "run_cost", "goodput", "energy", "emissions"))


def without_money(costs: Mapping[str, float]) -> dict[str, float]:
    """The results of a failing plan, with its costs set to NaN.

    >>> without_money({"gpus": 8.0, "rent_per_month": 4.0})
    {'gpus': 8.0, 'rent_per_month': nan}
    """
    return {name: math.nan if is_money(name) else value for name, value in costs.items()}
