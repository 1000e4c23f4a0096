"""The workloads whose scenarios have a key, and what the scenarios of another workload have in its place."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

from costmodel.documents.keys.schema_paths import key_of
from costmodel.documents.schemas.rl import RlScenario
from costmodel.documents.schemas.scenario import Scenario
from costmodel.documents.schemas.serving import ServingScenario

SCENARIOS: dict[str, type[BaseModel]] = {"training": Scenario, "serving": ServingScenario, "rl": RlScenario}
WORKLOADS = {"training": "training", "serving": "serving", "rl": "reinforcement learning"}  # in words

# By workload, keys of another one and the keys that state the same there.
IN_PLACE: dict[str, dict[str, str]] = {
    "serving": {
        "plan.dp": "plan.replicas",
        "plan.dp_replicate": "plan.replicas",
        "plan.cp": "plan.dcp",
        "plan.etp": "plan.ep",
        "workload.global_batch": "workload.rate workload.concurrency",
        "plan.micro_batch": "workload.concurrency stack.sequences",
        "workload.sequence": "workload.prompt workload.output",
        "workload.tokens": "workload.requests",
        "workload.tuning": "workload.adapters",
        "limits.step_time": "limits.tpot",
        "limits.goodput": "limits.in_time_per_s limits.in_time_share",
        "limits.fit_chance": "limits.memory",
        "search.dp": "search.replicas",
        "search.cp": "search.dcp",
    },
    "training": {
        "plan.replicas": "plan.dp",
        "plan.dcp": "plan.cp",
        "workload.prompt": "workload.sequence",
        "workload.output": "workload.sequence",
        "limits.tpot": "limits.step_time",
        "search.replicas": "search.dp",
    },
}
# By workload, what answers and people call a result in the place of its key, and the keys.
LABELLED: dict[str, dict[str, str]] = {
    "serving": {
        **dict.fromkeys(("limits.utilisation", "limits.utilization", "limits.load"), "limits.saturation_share"),
        "limits.rent": "limits.rent_per_month",
        "limits.in_flight": "limits.concurrency",
        **dict.fromkeys(("limits.fits", "limits.memory_chance"), "limits.memory"),
        "limits.chance": "limits.limits_chance",
        **dict.fromkeys(("limits.p99_ttft", "limits.first_token"), "limits.ttft_p99 limits.ttft"),
        **dict.fromkeys(("limits.p99_tpot", "limits.per_token", "limits.itl"), "limits.tpot limits.tpot_p99"),
    },
}


def workload_of(schema: type[BaseModel]) -> str:
    """The workload that a scenario schema belongs to; empty for any other schema."""
    return next((workload for workload, known in SCENARIOS.items() if known is schema), "")


def in_place(workload: str, path: str) -> tuple[str, ...]:
    """The keys that replace a key in scenarios of a workload: the key itself if it exists there.

    >>> in_place("serving", "plan.tp"), in_place("serving", "plan.dp"), in_place("serving", "plan.zero")
    (('plan.tp',), ('plan.replicas',), ())
    """
    if workload not in SCENARIOS or key_of(SCENARIOS[workload], path) is not None:
        return (path,)
    return tuple(IN_PLACE.get(workload, {}).get(path, "").split())


def labelled(workload: str, path: str) -> str:
    """The hint for a key that is spelled like a label in the answers of a workload; else empty.

    >>> labelled("serving", "limits.p99_ttft")
    "did you mean 'ttft_p99' or 'ttft'?"
    """
    section, keys = path.rpartition(".")[0], LABELLED.get(workload, {}).get(path, "").split()
    return f"did you mean {' or '.join(repr(key.removeprefix(f'{section}.')) for key in keys)}?" if keys else ""


def of_another_workload(workload: str, path: str) -> tuple[str, str] | None:
    """Sentence and hint for a key that exists only in scenarios of other workloads; None for other keys.

    >>> of_another_workload("serving", "plan.dp")
    ("'dp' belongs to training; serving has replicas", "did you mean 'replicas'?")
    """
    others = list(_workloads_with_key(workload, path))
    if not others:
        return None
    section, _, name = path.rpartition(".")
    meant = [key.removeprefix(f"{section}.") for key in in_place(workload, path)]
    wanted, sentence = WORKLOADS[workload], f"'{name}' belongs to {WORKLOADS[others[0]]}"
    if not meant:
        known = f"costmodel list keys {section}. shows the others"
        kind = f"leave it out, or write workload.kind: {others[0]}"
        return f"{sentence}; {wanted} has no such key", kind if section == "workload" else f"leave it out; {known}"
    return f"{sentence}; {wanted} has {' or '.join(meant)}", f"did you mean {' or '.join(map(repr, meant))}?"


def _workloads_with_key(workload: str, path: str) -> Iterator[str]:
    """Other workloads whose scenarios have a key that this workload's scenarios lack."""
    if workload in SCENARIOS and key_of(SCENARIOS[workload], path) is None:
        for other, schema in SCENARIOS.items():
            if other != workload and key_of(schema, path) is not None:
                yield other
