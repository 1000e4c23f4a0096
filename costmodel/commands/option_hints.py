"""What to write in place of an option that no command has."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence

# Names that others give to what a flag of these commands sets.
_FLAGS = {
    **dict.fromkeys(("isl", "input", "input-len", "input-tokens", "random-input-len", "prompt-tokens"), "--prompt"),
    **dict.fromkeys(("osl", "output", "output-len", "output-tokens", "random-output-len", "max-tokens"), "--answer"),
    **dict.fromkeys(("qps", "rps", "request-rate"), "--rate"),
    **dict.fromkeys(("max-concurrency", "num-concurrent"), "--concurrency"),
    **dict.fromkeys(("engine", "backend"), "--stack"),
    "accelerator": "--gpu",
    **dict.fromkeys(("precision", "quantization"), "--dtype"),
    **dict.fromkeys(("seq-len", "seq-length", "sequence-length"), "--sequence"),
    **dict.fromkeys(("global-batch-size", "gbs"), "--batch"),
    **dict.fromkeys(("num-gpus", "world-size", "ranks"), "--gpus"),
    **dict.fromkeys(("gpu-price", "price-per-gpu"), "--price"),
}
# And to its keys.
_KEYS = {
    **dict.fromkeys(("gpu-memory-utilization", "gpu-mem-util", "mem-fraction-static"), "stack.memory.share"),
    **dict.fromkeys(("tensor-parallel", "tensor-parallelism"), "plan.tp"),
    **dict.fromkeys(("pipeline-parallel", "pipeline-parallelism"), "plan.pp"),
    **dict.fromkeys(("expert-parallel", "expert-parallel-size"), "plan.ep"),
    **dict.fromkeys(("num-nodes", "nnodes"), "cluster.nodes"),
    **dict.fromkeys(("ttft-p99", "p99-ttft"), "limits.ttft_p99.at_most"),
    **dict.fromkeys(("tpot-p99", "p99-tpot"), "limits.tpot_p99.at_most"),
    "itl": "limits.tpot.at_most",
    **dict.fromkeys(("e2e", "e2e-latency"), "limits.latency.at_most"),
    "max-gpus": "limits.gpus.at_most",
    "max-nodes": "limits.nodes.at_most",
    **dict.fromkeys(("prefix", "prefix-len", "random-prefix-len"), "workload.shared_prefix"),
    **dict.fromkeys(("num-requests", "num-prompts"), "workload.requests"),
    **dict.fromkeys(("kv-dtype", "kv-cache"), "workload.cache"),
    "weight-dtype": "workload.weights",
    "spread": "workload.prompt.spread",
    "micro-batch-size": "plan.micro_batch",
}
_OF_SERVING = {
    **dict.fromkeys(("dp", "data-parallel-size", "dp-size"), "plan.replicas"),
    "goodput": "limits.in_time_per_s.at_least",
}
_OF_DOCUMENTS = {"name", "title", "memory", "check", "note"}  # parts of keys that mean nothing alone
_ROOTS = ("plan.", "workload.", "cluster.", "limits.", "stack.", "assume.", "")


def option_hint(option: str, words: Sequence[str], known_options: Collection[str] = ("--prompt", "--set")) -> str:
    """The flag or setting that an unknown option stands for, with its value among the words of a command line.

    known_options: those that the command has, of which a hint is one

    >>> option_hint("--requests", ["estimate", "--requests", "20000"])
    '--set workload.requests=20000'
    >>> option_hint("--isl", ["search", "--isl=2000"]), option_hint("--max-num-seqs", [])
    ('--prompt 2000', '--set stack.sequences=…')
    """
    name = option.removeprefix("--").replace("_", "-")
    value = _value(option, words)
    if name in _FLAGS:
        return f"{_FLAGS[name]} {shlex.quote(value)}" if _FLAGS[name] in known_options else ""
    if not name or name in _OF_DOCUMENTS or "--set" not in known_options:
        return ""
    known = {**_KEYS, **_OF_SERVING} if _is_of_serving(words) else _KEYS
    key = known.get(name) or _key_of_that_name(name, words) or _key_of_an_engine(name)
    return shlex.join(["--set", f"{key}={value}"]) if key else ""


def _is_of_serving(words: Sequence[str]) -> bool:
    """Whether a flag of serving alone is among the words."""
    from costmodel.explore.flag_keys import KEYS

    return any(f"--{name}" in words for name in KEYS["serving"].keys() - KEYS["training"].keys())


def _key_of_that_name(name: str, words: Sequence[str]) -> str:
    """The key whose last part is the name of an option, of the plan before others; a limit by which way is better."""
    from costmodel.documents.keys.key_list import all_keys
    from costmodel.documents.schemas.serving.serving_results import RESULTS
    from costmodel.estimate.shared.results import COLUMNS

    own, other = name.replace("-", "_"), "training" if _is_of_serving(words) else ""
    paths = {key.path for key in all_keys() if not other or key.of != other}
    column = RESULTS.get(own) or COLUMNS.get(own)
    bound = ".at_least" if column is not None and column.better == "higher" else ".at_most"
    wanted = (f"{root}{own}{end}" for root in _ROOTS for end in ("", bound))
    return next((path for path in wanted if path in paths), "")


def _key_of_an_engine(name: str) -> str:
    """The key that import fills from an option of a serving engine, if its value stands for that key's."""
    from costmodel.exchange.importers.serving import sglang_options, trtllm_options, vllm_options

    for table in (vllm_options.TABLE, sglang_options.TABLE, trtllm_options.TABLE):
        found = table.get(name) or table.get(name.replace("-", "_"))
        if found and found.kind in ("count", "whole", "word") and "." in found.fills and " " not in found.fills:
            return found.fills
    return ""


def _value(option: str, words: Sequence[str]) -> str:
    """What stands behind an option."""
    for place, word in enumerate(words):
        if word.startswith(f"{option}="):
            return word.removeprefix(f"{option}=")
        if word == option and words[place + 1 :] and not words[place + 1].startswith("--"):
            return words[place + 1]
    return "…"
