"""Keys of a serving scenario that the command of an engine does not state, each with its reason."""

from __future__ import annotations

_APART = "several commands, and what routes between"
_BENCHMARK = "the command of a benchmark beside it states it"
_PEOPLE = "a benchmark asks at a rate, or so many at once"
_CHECKPOINT = "the checkpoint states it"
_ANY = {
    "plan.prefill": _APART,
    "plan.decode": _APART,
    "plan.speculation.acceptance": "a property of the draft and of the text",
    "workload.kind": "always a serving program",
    **dict.fromkeys(
        (f"workload.{key}" for key in ("prompt", "output", "shared_prefix", "rate", "concurrency", "traffic")),
        _BENCHMARK,
    ),
    **dict.fromkeys((f"workload.{key}" for key in ("users", "think_time", "turns")), _PEOPLE),
    "workload.requests": "those of a benchmark are read as so many at once",
    "workload.images": "a property of the requests",
    "workload.expert_precision": _CHECKPOINT,
    "workload.expert_weights": _CHECKPOINT,
}

NOT_STATED_BY_ENGINES: dict[str, dict[str, str]] = {
    "vllm": _ANY,
    "sglang": _ANY,
    "trt-llm": {
        **_ANY,
        "plan.replicas": "one command starts one",
        "workload.adapters": "lora_config names them by their paths, which hold their ranks",
        "plan.dcp": "cp_config adds ranks beside those of tp, which no plan states",
        "plan.redundant_experts": "a file of its own places experts and their copies",
    },
}
