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

from costmodel.documents.reader import foreign_readers

if TYPE_CHECKING:
    from costmodel.documents.reader.resolved_scenario import load
    from costmodel.estimate.evaluate.predict import predict
    from costmodel.explore.api import explain, search

__version__ = "0.1.0"
__all__ = ["explain", "load", "predict", "search"]

_ROOMS = {
    "load": "costmodel.documents.reader.resolved_scenario",
    "predict": "costmodel.estimate.evaluate.predict",
    "search": "costmodel.explore.api",
    "explain": "costmodel.explore.api",
}


def _config(text: str, file: str) -> foreign_readers.Foreign:
    """A config.json as a model; its reader is loaded once a scenario names such a file."""
    read: foreign_readers.ReadForeign = import_module("costmodel.exchange.models").read_model
    return read(text, file)


foreign_readers.register("model", _config)


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module 'costmodel' has no attribute '{name}'")
    return getattr(import_module(_ROOMS[name]), name)
