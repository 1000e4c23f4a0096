"""Training, serving and reinforcement learning as commands see them; only the modules of a scenario's are imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from costmodel.commands.workload_commands import WorkloadCommands, no_answer
from costmodel.ground.errors import fail

if TYPE_CHECKING:
    from costmodel.documents.reader.resolved_scenario import LoadedScenario


def commands_of(case: LoadedScenario, question: str = "") -> WorkloadCommands:
    """The answers about a scenario's workload; a fault where a question has none, with the reason."""
    commands = _OF[case.kind]()
    if question in commands.WITHOUT:
        raise no_answer(case, commands.WITHOUT[question])
    return commands


def _training() -> WorkloadCommands:
    from costmodel.commands import training

    return training


def _serving() -> WorkloadCommands:
    from costmodel.commands import serving

    return serving


def _rl() -> WorkloadCommands:
    from costmodel.commands import rl

    return rl


_OF: dict[str, Callable[[], WorkloadCommands]] = {"training": _training, "serving": _serving, "rl": _rl}


def check_one_workload(*cases: LoadedScenario) -> None:
    """A fault for scenarios of several workloads, which have no results in common."""
    kinds = list(dict.fromkeys(case.kind for case in cases))
    if kinds[1:]:
        sentence = f"{' and '.join(kinds)} have no results in common"
        raise fail("C013", sentence, None, "compare two scenarios of one workload")
