"""Answers of sweep, scale, sensitivity and solve, as their JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Faults = Callable[[Any], list[Any]]


NAME = "llama-3-70b-512"
NETWORK = "cluster.node.scale_out.fabric.bandwidth"


def json_of(run: Any, *args: str) -> Any:
    ran = run(*args, "--json")
    assert ran.err == ""
    return json.loads(ran.out)


def estimated(run: Any, *settings: str) -> dict[str, Any]:
    options = [part for setting in settings for part in ("--set", setting)]
    plan: dict[str, Any] = json_of(run, "estimate", NAME, *options)["plans"][0]
    return plan
