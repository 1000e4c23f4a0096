"""The flags of each workload: the keys of a scenario that they set, and what stands in for those that are not given."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from costmodel.ground.record import record

OFF = "off"  # of --safe: plans count whatever their chance
LOADS = ("workload.rate", "workload.concurrency", "workload.users", "workload.requests")
_COMMON = {"model": "model", "node": "cluster.node", "stack": "stack", "price": "assume.price"}


@record
class WorkloadFlags:
    """The flags of a workload; --gpu and --gpus, of all, state what a cluster is made of."""

    keys: Mapping[str, str]  # of the scenario, by the flag that sets each
    instead: str  # what to use for a flag that it does not have
    sizes: tuple[str, ...] = ()  # keys that have a default, so that flags alone make a scenario
    loads: tuple[str, ...] = ()  # keys of which a scenario has one
    engine: str = ""  # the software by default, else that of the scenario or of the accelerator's maker
    parameter_bytes: float = 0.0  # what each parameter takes at least
    held: str = ""  # which that is


FLAGS = {
    "training": WorkloadFlags(
        {
            **_COMMON,
            "sequence": "workload.sequence",
            "batch": "workload.global_batch",
            "dtype": "workload.precision",
            "safe": "limits.fit_chance.at_least",
        },
        "--sequence and --batch are the sizes",
        ("cluster.nodes", "workload.sequence", "workload.global_batch"),
        parameter_bytes=2.0 + 4.0 + 4.0 + 8.0,  # bf16 weight, fp32 gradient, master copy and AdamW moments
        held="training states",
    ),
    "serving": WorkloadFlags(
        {
            **_COMMON,
            "rate": "workload.rate",
            "concurrency": "workload.concurrency",
            "users": "workload.users",
            "prompt": "workload.prompt",
            "answer": "workload.output",
            "dtype": "workload.precision",
            "safe": "limits.limits_chance.at_least",
        },
        "--prompt and --answer are the lengths, --rate, --concurrency or --users the load",
        ("cluster.nodes", "workload.prompt", "workload.output", "workload.concurrency"),
        LOADS,
        engine="vllm",
        parameter_bytes=2.0,
        held="weights in bf16",
    ),
    "rl": WorkloadFlags(
        {**_COMMON, "safe": "limits.fit_chance.at_least"}, "--set reaches its keys: costmodel list keys"
    ),
}
STATED = {kind: flags for kind, flags in FLAGS.items() if flags.sizes}  # which flags alone can state
TRAINING, SERVING = (frozenset(FLAGS[kind].keys) for kind in ("training", "serving"))


def flags_of(kind: str) -> WorkloadFlags:
    """The flags of a workload; those of training for a kind that is none, which the scenario's reader reports."""
    return FLAGS.get(kind, FLAGS["training"])


def keys_of(kind: str) -> Mapping[str, str]:
    """The keys that flags set in a scenario of a workload."""
    return flags_of(kind).keys


def of_serving_alone(given: Collection[str]) -> list[str]:
    """Flags among these that are of serving and not of training."""
    return [name for name in given if name in SERVING - TRAINING]
