"""Closed-form cost model of distributed LLM jobs: time, memory, network, money.

The library's face: every question of the command line is a function, loaded when it is first used.

    case = costmodel.load("llama-3-70b-512", ["plan.tp=4"])
    costmodel.estimate(case).figures["plans"][0]["step_time_s"]
    costmodel.search(model="llama-3.1-8b", gpu="h100", gpus=64).frame()
    costmodel.explain(case, "step_time")
    costmodel.figure(case, "roofline")  # shown in a notebook
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from costmodel.documents.reader import foreign_readers

if TYPE_CHECKING:
    from costmodel.library import CostModelError, Result, figure, load

    _Question = Callable[..., Result]
    buy: _Question
    calibrate: _Question
    check: _Question
    collective: _Question
    comm: _Question
    diagnose: _Question
    diff: _Question
    explain: _Question
    export: _Question
    import_file: _Question
    init: _Question
    list_documents: _Question
    measure: _Question
    memory: _Question
    pipeline: _Question
    run: _Question
    scale: _Question
    schema: _Question
    search: _Question
    sensitivity: _Question
    show: _Question
    solve: _Question
    sweep: _Question
    validate: _Question

__version__ = "0.3.0.dev0"
__all__ = [
    "CostModelError",
    "Result",
    "buy",
    "calibrate",
    "check",
    "collective",
    "comm",
    "diagnose",
    "diff",
    "estimate",
    "explain",
    "export",
    "figure",
    "import_file",
    "init",
    "list_documents",
    "load",
    "measure",
    "memory",
    "pipeline",
    "report",
    "run",
    "scale",
    "schema",
    "search",
    "sensitivity",
    "show",
    "solve",
    "sweep",
    "validate",
]


def _config(text: str, file: str) -> foreign_readers.Foreign:
    """A config.json as a model; its reader is loaded once a scenario names such a file."""
    read: foreign_readers.ReadForeign = import_module("costmodel.exchange.foreign_models").read_model
    return read(text, file)


def _trace(text: str, file: str) -> foreign_readers.Foreign:
    """A trace of requests as a load."""
    read: foreign_readers.ReadForeign = import_module("costmodel.exchange.logs.request_trace").read_trace
    return read(text, file)


def _starts_program(text: str) -> bool:
    """Whether a text is a launch file or a command that `import` reads."""
    read: foreign_readers.IsForeign = import_module(
        "costmodel.explore.import_export.import_command_line"
    ).starts_program
    return read(text)


foreign_readers.register("model", _config)
foreign_readers.register("trace", _trace)
foreign_readers.register_programs(_starts_program)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'costmodel' has no attribute '{name}'")
    if name in ("estimate", "report"):  # packages, which can be called as well
        return import_module(f"costmodel.{name}")
    library = import_module("costmodel.library")
    return getattr(library, name) if hasattr(library, name) else library.function(name)


def __dir__() -> list[str]:
    return __all__
