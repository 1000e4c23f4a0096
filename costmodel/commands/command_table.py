"""Every command, in the order in which one meets them; what a command needs is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

LOOK, CHOOSE, COMPARE = "Look at one plan", "Choose a plan", "Compare"
TRUST, EXCHANGE, DOCUMENTS, STAY = "Trust", "Exchange", "Documents", "Stay and answer"


class CommandEntry(NamedTuple):
    """Where a command stands: its panel of the help, its module and its function, and the folder of that module."""

    panel: str
    module: str
    function: str
    room: str = "commands"

    def load(self) -> Callable[..., Any]:
        """The function, its module imported.

        >>> CommandEntry(LOOK, "estimate", "memory").load().__name__
        'memory'
        """
        found: Callable[..., Any] = getattr(import_module(f"costmodel.{self.room}.{self.module}"), self.function)
        return found


COMMANDS = {
    "estimate": CommandEntry(LOOK, "estimate", "estimate"),
    "memory": CommandEntry(LOOK, "estimate", "memory"),
    "comm": CommandEntry(LOOK, "estimate", "comm"),
    "pipeline": CommandEntry(LOOK, "estimate", "pipeline"),
    "run": CommandEntry(LOOK, "estimate", "run"),
    "collective": CommandEntry(LOOK, "collective", "collective"),
    "explain": CommandEntry(LOOK, "explain", "explain"),
    "buy": CommandEntry(CHOOSE, "buy", "buy"),
    "search": CommandEntry(CHOOSE, "search", "search"),
    "sweep": CommandEntry(CHOOSE, "vary", "sweep"),
    "scale": CommandEntry(CHOOSE, "vary", "scale"),
    "sensitivity": CommandEntry(CHOOSE, "vary", "sensitivity"),
    "solve": CommandEntry(CHOOSE, "vary", "solve"),
    "diff": CommandEntry(COMPARE, "diff", "diff"),
    "check": CommandEntry(COMPARE, "check", "check"),
    "diagnose": CommandEntry(COMPARE, "diagnose", "diagnose"),
    "validate": CommandEntry(TRUST, "evidence", "validate"),
    "measure": CommandEntry(TRUST, "measure", "measure"),
    "calibrate": CommandEntry(TRUST, "calibrate", "calibrate"),
    "import": CommandEntry(EXCHANGE, "imports", "import_file"),
    "report": CommandEntry(EXCHANGE, "report", "report"),
    "export": CommandEntry(EXCHANGE, "export", "export"),
    "list": CommandEntry(DOCUMENTS, "documents", "list_documents"),
    "show": CommandEntry(DOCUMENTS, "documents", "show"),
    "init": CommandEntry(DOCUMENTS, "documents", "init"),
    "schema": CommandEntry(DOCUMENTS, "documents", "schema"),
    "open": CommandEntry(STAY, "commands", "open_page", "server"),
    "mcp": CommandEntry(STAY, "commands", "mcp", "server"),
}
QUESTIONS = {name: entry for name, entry in COMMANDS.items() if entry.panel != STAY}  # those that answer and end
