"""What to write in place of an option that no command has."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence

# Other names of flags that set no single key.
_FLAGS = {
    **dict.fromkeys(("accelerator", "gpu_type"), "--gpu"),
    **dict.fromkeys(("num_gpus", "gpu_count", "world_size", "ranks"), "--gpus"),
}
# And of keys, which they name only as options.
_KEYS = {
    **dict.fromkeys(("num_nodes", "nnodes"), "cluster.nodes"),
    **dict.fromkeys(("data_parallel_size", "dp_size", "dp"), "plan.dp"),
    **dict.fromkeys(("engine", "backend"), "stack"),
    "p99_ttft": "limits.ttft_p99.at_most",
    "p99_tpot": "limits.tpot_p99.at_most",
    "max_gpus": "limits.gpus.at_most",
    "max_nodes": "limits.nodes.at_most",
    "spread": "workload.prompt.spread",
}
_OF_SERVING = {"goodput": "limits.in_time_per_s.at_least"}
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
    name, value = option.removeprefix("--").replace("-", "_"), _value(option, words)
    workload = "serving" if _is_of_serving(words) else "training"
    key = "" if name in _FLAGS or name in _OF_DOCUMENTS or not name else _key(name, workload)
    flag = _FLAGS.get(name) or _flag_of(key)
    if flag in known_options:
        return f"{flag} {shlex.quote(value)}"
    return shlex.join(["--set", f"{key}={value}"]) if key and "--set" in known_options else ""


def _is_of_serving(words: Sequence[str]) -> bool:
    """Whether a flag of serving alone is among the words."""
    from costmodel.explore.flag_keys import KEYS

    return any(f"--{name}" in words for name in KEYS["serving"].keys() - KEYS["training"].keys())


def _flag_of(key: str) -> str:
    """The flag that sets a key, if one does."""
    from costmodel.explore.flag_keys import KEYS

    return next((f"--{flag}" for keys in KEYS.values() for flag, path in keys.items() if path == key), "")


def _key(name: str, workload: str) -> str:
    """The key that a name stands for: its own, or that of other tools; of a workload the one that states the same."""
    from costmodel.documents.keys.field_aliases import meant_by
    from costmodel.documents.keys.workload_keys import in_place

    meant = meant_by(name)
    others = meant.keys[0] if meant is not None and meant.keys and not meant.note else ""
    known = _OF_SERVING.get(name, "") if workload == "serving" else ""
    found = known or _KEYS.get(name) or _key_of_that_name(name, workload) or others
    return next(iter(in_place(workload, found)), "") if workload == "serving" else found


def _key_of_that_name(name: str, workload: str) -> str:
    """The key whose last part is a name, of the plan before others; a limit by which way is better."""
    from costmodel.documents.keys.key_list import all_keys
    from costmodel.documents.schemas.results import SERVING_RESULTS, TRAINING_COLUMNS

    paths = {key.path for key in all_keys() if workload != "serving" or key.of != "training"}
    column = SERVING_RESULTS.get(name) or TRAINING_COLUMNS.get(name)
    bound = ".at_least" if column is not None and column.better == "higher" else ".at_most"
    wanted = (f"{root}{name}{end}" for root in _ROOTS for end in ("", bound))
    return next((path for path in wanted if path in paths), "")


def _value(option: str, words: Sequence[str]) -> str:
    """What stands behind an option."""
    for place, word in enumerate(words):
        if word.startswith(f"{option}="):
            return word.removeprefix(f"{option}=")
        if word == option and words[place + 1 :] and not words[place + 1].startswith("--"):
            return words[place + 1]
    return "…"
