"""Every command, in the order in which one meets them; what a command needs is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

LOOK, CHOOSE, COMPARE = "Look at one plan", "Choose a plan", "Compare"
TRUST, EXCHANGE, DOCUMENTS = "Trust", "Exchange", "Documents"


class Entry(NamedTuple):
    """Where a command stands: its panel of the help, its module in `costmodel/commands`, its function."""

    panel: str
    module: str
    function: str

    def load(self) -> Callable[..., Any]:
        """The function, its module imported.

        >>> Entry(LOOK, "estimate", "memory").load().__name__
        'memory'
        """
        found: Callable[..., Any] = getattr(import_module(f"costmodel.commands.{self.module}"), self.function)
        return found


COMMANDS = {
    "estimate": Entry(LOOK, "estimate", "estimate"),
    "memory": Entry(LOOK, "estimate", "memory"),
    "comm": Entry(LOOK, "estimate", "comm"),
    "pipeline": Entry(LOOK, "pipeline", "pipeline"),
    "run": Entry(LOOK, "run", "run"),
    "collective": Entry(LOOK, "collective", "collective"),
    "explain": Entry(LOOK, "explain", "explain"),
    "search": Entry(CHOOSE, "search", "search"),
    "sweep": Entry(CHOOSE, "vary", "sweep"),
    "scale": Entry(CHOOSE, "vary", "scale"),
    "sensitivity": Entry(CHOOSE, "vary", "sensitivity"),
    "solve": Entry(CHOOSE, "vary", "solve"),
    "diff": Entry(COMPARE, "diff", "diff"),
    "check": Entry(COMPARE, "check", "check"),
    "diagnose": Entry(COMPARE, "diagnose", "diagnose"),
    "validate": Entry(TRUST, "evidence", "validate"),
    "measure": Entry(TRUST, "measure", "measure"),
    "calibrate": Entry(TRUST, "calibrate", "calibrate"),
    "import": Entry(EXCHANGE, "imports", "import_file"),
    "report": Entry(EXCHANGE, "report", "report"),
    "export": Entry(EXCHANGE, "export", "export"),
    "list": Entry(DOCUMENTS, "documents", "list_documents"),
    "show": Entry(DOCUMENTS, "documents", "show"),
    "init": Entry(DOCUMENTS, "documents", "init"),
    "schema": Entry(DOCUMENTS, "documents", "schema"),
}
