"""What to write in place of an option that no command has."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

_KEYS = {
    "requests": "workload.requests",
    "think-time": "workload.think_time",
    "replicas": "plan.replicas",
    **dict.fromkeys(("tp", "tensor-parallel-size"), "plan.tp"),
    **dict.fromkeys(("pp", "pipeline-parallel-size"), "plan.pp"),
    **dict.fromkeys(("ttft-p99", "p99-ttft"), "limits.ttft_p99.at_most"),
    "ttft": "limits.ttft.at_most",
    **dict.fromkeys(("tpot-p99", "p99-tpot"), "limits.tpot_p99.at_most"),
    **dict.fromkeys(("tpot", "itl"), "limits.tpot.at_most"),
}


def option_hint(option: str, words: Sequence[str]) -> str:
    """The setting that an unknown option stands for, with its value among the words of a command line.

    >>> option_hint("--requests", ["estimate", "--requests", "20000"])
    '--set workload.requests=20000'
    """
    key = _KEYS.get(option.removeprefix("--").replace("_", "-"))
    return "" if key is None else shlex.join(["--set", f"{key}={_value(option, words)}"])


def _value(option: str, words: Sequence[str]) -> str:
    """What stands behind an option."""
    for place, word in enumerate(words):
        if word.startswith(f"{option}="):
            return word.removeprefix(f"{option}=")
        if word == option and words[place + 1 :] and not words[place + 1].startswith("--"):
            return words[place + 1]
    return "…"
