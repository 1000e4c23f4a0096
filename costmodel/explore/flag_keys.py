"""The keys of a scenario that flags set."""

from __future__ import annotations

_COMMON = {"model": "model", "node": "cluster.node", "stack": "stack", "price": "assume.price"}
# The key of the scenario that each flag sets, by its workload; --gpu and --gpus state what a cluster is made of.
KEYS = {
    "training": {
        **_COMMON,
        "sequence": "workload.sequence",
        "batch": "workload.global_batch",
        "dtype": "workload.precision",
        "safe": "limits.fit_chance.at_least",
    },
    "serving": {
        **_COMMON,
        "rate": "workload.rate",
        "concurrency": "workload.concurrency",
        "users": "workload.users",
        "prompt": "workload.prompt",
        "answer": "workload.output",
        "dtype": "workload.precision",
        "safe": "limits.limits_chance.at_least",
    },
}
_RL = {**_COMMON, "safe": "limits.fit_chance.at_least"}
OFF = "off"  # of --safe: plans count whatever their chance


def keys_of(kind: str) -> dict[str, str]:
    """The keys that flags set in a scenario of a workload; reinforcement learning has the machine's, and safe."""
    return _RL if kind == "rl" else KEYS.get(kind, KEYS["training"])
