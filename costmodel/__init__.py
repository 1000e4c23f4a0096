"""Closed-form cost model of distributed LLM jobs: time, memory, network, money.

The library's face, each function loaded when it is first used:

    case = costmodel.load("llama-3-70b-512", ["plan.tp=4"])
    costmodel.estimate(case).figures["plans"][0]["step_time_s"]
    costmodel.search(case, 5).frame()
    costmodel.explain(case, "step_time")
    costmodel.figure(case, "roofline")  # shown in a notebook
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from costmodel.documents.reader import foreign_readers

if TYPE_CHECKING:
    from costmodel.estimate.evaluate.predict import predict
    from costmodel.library import (
        CostModelError,
        Result,
        compare,
        estimate,
        explain,
        figure,
        load,
        memory,
        search,
        sweep,
    )

__version__ = "0.2.0.dev0"
__all__ = [
    "CostModelError",
    "Result",
    "compare",
    "estimate",
    "explain",
    "figure",
    "load",
    "memory",
    "predict",
    "search",
    "sweep",
]

_ROOMS = {"predict": "costmodel.estimate.evaluate.predict"}


def _config(text: str, file: str) -> foreign_readers.Foreign:
    """A config.json as a model; its reader is loaded once a scenario names such a file."""
    read: foreign_readers.ReadForeign = import_module("costmodel.exchange.models").read_model
    return read(text, file)


foreign_readers.register("model", _config)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'costmodel' has no attribute '{name}'")
    return getattr(import_module(_ROOMS.get(name, "costmodel.library")), name)
