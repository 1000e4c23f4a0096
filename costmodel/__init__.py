"""Closed-form cost model of distributed LLM jobs: time, memory, network, money.

The library's face, each loaded when it is first used:

    case = costmodel.load("llama-3-70b-512", ["plan.tp=4"])
    costmodel.predict(case).evaluation.costs.row()["step_time"]
    costmodel.search(case, 5).best
    costmodel.explain(case, "step_time")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from costmodel.documents import foreign

if TYPE_CHECKING:
    from costmodel.documents.case import load
    from costmodel.estimate.plan import predict
    from costmodel.explore.face import explain, search

__version__ = "0.1.0"
__all__ = ["explain", "load", "predict", "search"]

_ROOMS = {
    "load": "costmodel.documents.case",
    "predict": "costmodel.estimate.plan",
    "search": "costmodel.explore.face",
    "explain": "costmodel.explore.face",
}


def _config(text: str, file: str) -> foreign.Foreign:
    """A config.json as a model; its reader is loaded once a scenario names such a file."""
    read: foreign.ReadForeign = import_module("costmodel.exchange.models").read_model
    return read(text, file)


foreign.register("model", _config)


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module 'costmodel' has no attribute '{name}'")
    return getattr(import_module(_ROOMS[name]), name)
