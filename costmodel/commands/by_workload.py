"""Selects the commands of a scenario's workload; imports only the modules of that workload."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from costmodel.commands.workload_commands import WorkloadCommands, no_answer_fault
from costmodel.ground.errors import fail

if TYPE_CHECKING:
    from costmodel.documents.reader.resolved_scenario import LoadedScenario


def commands_of(case: LoadedScenario, question: str = "") -> WorkloadCommands:
    """The commands of a scenario's workload; raises a fault if it does not answer this question."""
    commands = _OF[case.kind]()
    if question in commands.WITHOUT:
        raise no_answer_fault(case, commands.WITHOUT[question])
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
    """Raises a fault for scenarios of several workloads, which have no results in common."""
    kinds = list(dict.fromkeys(case.kind for case in cases))
    if kinds[1:]:
        sentence = f"{' and '.join(kinds)} have no results in common"
        raise fail("C013", sentence, None, "compare two scenarios of one workload")
