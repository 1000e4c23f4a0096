"""The command-line flags of each workload, with the scenario keys that they set and their defaults."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Any

from costmodel.ground.record import record

OFF = "off"  # of --safe: plans count whatever their chance
CAPPED = ("workload.rate", "workload.concurrency")  # which a load may state together
LOADS = ("workload.rate", "workload.concurrency", "workload.users", "workload.requests")
RL_SIZES = (
    "workload.algorithm",
    "workload.prompts",
    "workload.samples",
    "workload.prompt",
    "workload.response.mean",
    "workload.response.limit",
)
_COMMON = {"model": "model", "node": "cluster.node", "stack": "stack", "price": "assume.price"}


@record
class WorkloadFlags:
    """The flags and export formats of one workload; --gpu and --gpus, which all workloads have, set the cluster."""

    keys: Mapping[str, str]  # of the scenario, by the flag that sets each
    instead: str  # what to use for a flag that it does not have
    sizes: tuple[str, ...] = ()  # keys that have a default, so that flags alone make a scenario
    loads: tuple[str, ...] = ()  # keys of which a scenario has one
    engine: str = ""  # the software by default, else that of the scenario or of the accelerator's maker
    parameter_bytes: float = 0.0  # what each parameter takes at least
    held: str = ""  # which that is
    other_job: str = ""  # what asks for the other job of its software, where that has two
    formats: tuple[str, ...] = ()  # in which its plans are written
    meant: Mapping[str, str] = field(default_factory=dict)  # keys by names that mean another in other workloads
    own: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # further keys of a question, by the question
    does: str = ""  # what the software of these formats does
    plans_ahead: bool = True  # whether questions about one plan need it in the scenario, as they do not search it


FLAGS = {
    "training": WorkloadFlags(
        {
            **_COMMON,
            "sequence": "workload.sequence",
            "batch": "workload.global_batch",
            "tokens": "workload.tokens",
            "deadline": "limits.run_time.at_most",
            "budget": "limits.run_cost.at_most",
            "dtype": "workload.precision",
            "safe": "limits.fit_chance.at_least",
        },
        "for training use --sequence and --batch",
        ("cluster.nodes", "workload.sequence", "workload.global_batch"),
        parameter_bytes=2.0 + 4.0 + 4.0 + 8.0,  # bf16 weight, fp32 gradient, master copy and AdamW moments
        held="training states",
        formats=("megatron", "bridge", "torchtitan", "deepspeed", "accelerate", "hf"),
        own={"scale": ("ranks", "weak")},
        does="trains",
        plans_ahead=False,
    ),
    "serving": WorkloadFlags(
        {
            **_COMMON,
            "rate": "workload.rate",
            "concurrency": "workload.concurrency",
            "burstiness": "workload.burstiness",
            "trace": "workload.trace",
            "users": "workload.users",
            "prompt": "workload.prompt",
            "answer": "workload.output",
            "samples": "workload.samples",
            "ttft": "limits.ttft_p99.at_most",
            "tpot": "limits.tpot.at_most",
            "budget": "limits.rent_per_month.at_most",
            "dtype": "workload.precision",
            "safe": "limits.limits_chance.at_least",
        },
        "--prompt and --answer are the lengths, --rate, --concurrency or --users the load",
        ("cluster.nodes", "workload.prompt", "workload.output", "workload.concurrency"),
        LOADS,
        engine="vllm",
        parameter_bytes=2.0,
        held="weights in bf16",
        formats=("vllm", "sglang", "trt-llm", "kubernetes", "llm-d", "dynamo"),
        meant={"goodput": "limits.in_time_per_s.at_least"},
        does="serves",
    ),
    "rl": WorkloadFlags(
        {
            **_COMMON,
            "rl": "workload.algorithm",
            "prompts": "workload.prompts",
            "samples": "workload.samples",
            "prompt": "workload.prompt",
            "answer": "workload.response.mean",
            "longest": "workload.response.limit",
            "iterations": "workload.iterations",
            "deadline": "limits.run_time.at_most",
            "budget": "limits.run_cost.at_most",
            "trainer": "stack.trainer",
            "rollout": "stack.rollout",
            "dtype": "workload.precision",
            "safe": "limits.fit_chance.at_least",
        },
        "for RL use --prompts, --samples, --prompt and --answer",
        ("cluster.nodes", *RL_SIZES),
        engine="verl",
        parameter_bytes=2.0 + 4.0 + 4.0 + 8.0,
        held="training states",
        other_job="to train only, add --set workload.kind=training",
        formats=("verl", "nemo-rl", "openrlhf", "slime", "trl"),
        own={"scale": ("ranks", "weak")},
        does="is for reinforcement learning",
    ),
}


def flags_of(kind: str) -> WorkloadFlags:
    """The flags of a workload; for an unknown kind those of training, as the scenario's reader reports the fault."""
    return FLAGS.get(kind, FLAGS["training"])


def writer_of(name: str) -> WorkloadFlags:
    """The workload that exports a format."""
    return next(flags for flags in FLAGS.values() if name in flags.formats)


def keys_of(kind: str) -> Mapping[str, str]:
    """The keys that flags set in a scenario of a workload."""
    return flags_of(kind).keys


def key_of_flag(name: str, kind: str = "") -> str:
    """The key that a flag of this name sets, in a scenario of that workload or else of any; other names unchanged.

    >>> key_of_flag("batch"), key_of_flag("answer", "rl"), key_of_flag("gpus"), key_of_flag("plan.tp")
    ('workload.global_batch', 'workload.response.mean', 'cluster.nodes', 'plan.tp')
    """
    every = {flag: key for flags in reversed(FLAGS.values()) for flag, key in flags.keys.items()}
    return {**every, **keys_of(kind), "gpus": "cluster.nodes"}.get(name, name) if name else name


def with_varied_load(written: Mapping[str, Any], varied: Collection[str]) -> Mapping[str, Any]:
    """The scenario with a provisional load, if a question varies the load and the scenario states none."""
    workload = written.get("workload")
    if not isinstance(workload, Mapping) or any(path.partition(".")[2] in workload for path in LOADS):
        return written
    load = next((path for path in flags_of(str(workload.get("kind"))).loads if path in varied), "")
    value = "1 /s" if load == "workload.rate" else 1
    return {**written, "workload": {**workload, load.partition(".")[2]: value}} if load else written


def flags_of_one_workload(given: Collection[str]) -> dict[str, list[str]]:
    """The given flags that only one workload has, by workload."""
    flags_by_workload: dict[str, list[str]] = {}
    for name in given:
        owners = [kind for kind, flags in FLAGS.items() if name in flags.keys]
        if len(owners) == 1:
            flags_by_workload.setdefault(owners[0], []).append(name)
    return flags_by_workload


def kind_by_flags(given: Collection[str], software: str) -> str:
    """The workload that flags ask about: of the named software if it has all flags, else the first that has.

    >>> kind_by_flags(["rate"], ""), kind_by_flags(["prompt"], "rl"), kind_by_flags(["batch", "rate"], "")
    ('serving', 'rl', 'serving')
    """
    stated = [name for name in given if any(name in flags.keys for flags in FLAGS.values())]
    if software and all(name in {*keys_of(software), "gpu", "gpus"} for name in given):
        return software
    fits = [kind for kind, flags in FLAGS.items() if all(name in flags.keys for name in stated)]
    alone = flags_of_one_workload(given)
    return next(iter([*fits, *(kind for kind in reversed(FLAGS) if kind in alone)]), "training")


def setting_that_keeps_kind(kind: str, other: str) -> tuple[str, ...]:
    """The setting that keeps a workload if the remaining flags would select another."""
    return () if other == kind else (f"workload.kind={kind}",)
