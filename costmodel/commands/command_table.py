"""The table of all commands, in the order of the help; a command is imported when it is called."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

LOOK, CHOOSE, COMPARE = "Look at one plan", "Choose a plan", "Compare"
TRUST, EXCHANGE, DOCUMENTS, STAY = "Trust", "Exchange", "Documents", "Servers"


class CommandEntry(NamedTuple):
    """A command: its help panel, module and function, and the folder of the module.

    used: the options in its help besides those of all commands; empty for all of its own. refuses: options of
    workloads for which it has no answer; no help shows them
    """

    panel: str
    module: str
    function: str
    room: str = "commands"
    used: str = ""
    refuses: str = ""

    def load(self) -> Callable[..., Any]:
        """Imports the module and returns the function.

        >>> CommandEntry(LOOK, "estimate", "memory").load().__name__
        'memory'
        """
        found: Callable[..., Any] = getattr(import_module(f"costmodel.{self.room}.{self.module}"), self.function)
        return found


USED_BY_ALL = ("set", "output", "verbose")
# Options of a service, and of reinforcement learning.
_SERVED = "rate concurrency users ttft tpot burstiness"
_RL = "rl prompts samples iterations longest trainer rollout"
_OTHERS = f"{_SERVED} {_RL} prompt answer"  # without trace, which is also an option of diagnose
COMMANDS = {
    "estimate": CommandEntry(LOOK, "estimate", "estimate", used="model gpu gpus sequence batch rate stack"),
    "memory": CommandEntry(LOOK, "estimate", "memory", used="model gpu gpus sequence batch prompt stack"),
    "comm": CommandEntry(LOOK, "estimate", "comm", used="model gpu gpus sequence batch stack"),
    "pipeline": CommandEntry(
        LOOK, "estimate", "pipeline", used="schedule model gpu gpus sequence batch", refuses=f"{_OTHERS} trace"
    ),
    "run": CommandEntry(
        LOOK, "estimate", "run", used="model gpu gpus sequence batch tokens price", refuses=f"{_SERVED} trace"
    ),
    "collective": CommandEntry(LOOK, "collective", "collective", used="gpu gpus measured algorithm"),
    "explain": CommandEntry(LOOK, "explain", "explain", used="depth worth model gpu gpus"),
    "buy": CommandEntry(CHOOSE, "buy", "buy", used="model rate prompt answer ttft tokens budget"),
    "search": CommandEntry(CHOOSE, "search", "search", used="top over pareto model gpu gpus sequence"),
    "sweep": CommandEntry(CHOOSE, "vary", "sweep", used="over show best model gpu gpus sequence"),
    "scale": CommandEntry(CHOOSE, "vary", "scale", used="ranks rate weak model gpu sequence price"),
    "sensitivity": CommandEntry(CHOOSE, "vary", "sensitivity", used="of top model gpu gpus"),
    "solve": CommandEntry(CHOOSE, "vary", "solve", used="over for best model gpu gpus price"),
    "diff": CommandEntry(COMPARE, "diff", "diff", used="plans model gpu gpus"),
    "check": CommandEntry(COMPARE, "check", "check", used="against update within model gpu gpus"),
    "diagnose": CommandEntry(
        COMPARE, "diagnose", "diagnose", used="step mfu trace term from model gpu", refuses=_OTHERS
    ),
    "validate": CommandEntry(TRUST, "validate", "validate"),
    "measure": CommandEntry(TRUST, "measure", "measure"),
    "calibrate": CommandEntry(TRUST, "calibrate", "calibrate"),
    "import": CommandEntry(EXCHANGE, "imports", "import_file", used="as config strict from"),
    "report": CommandEntry(EXCHANGE, "report", "report", used="watch model gpu gpus"),
    "export": CommandEntry(EXCHANGE, "export", "export", used="to rank model gpu gpus"),
    "list": CommandEntry(DOCUMENTS, "list_and_show", "list_documents"),
    "show": CommandEntry(DOCUMENTS, "list_and_show", "show"),
    "init": CommandEntry(DOCUMENTS, "list_and_show", "init"),
    "schema": CommandEntry(DOCUMENTS, "list_and_show", "schema"),
    "open": CommandEntry(STAY, "open_and_mcp", "open_page", "server"),
    "mcp": CommandEntry(STAY, "open_and_mcp", "mcp", "server"),
}
QUESTIONS = {name: entry for name, entry in COMMANDS.items() if entry.panel != STAY}  # those that answer and end
