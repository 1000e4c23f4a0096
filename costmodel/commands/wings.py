"""Training, serving and reinforcement learning as commands see them; only the modules of a scenario's are imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from costmodel.commands.wing import Wing, no_answer

if TYPE_CHECKING:
    from costmodel.documents.reader.resolved_scenario import LoadedScenario


def wing_of(case: LoadedScenario, question: str = "") -> Wing:
    """The answers about a scenario's workload; a fault where a question has none, with the reason."""
    wing = _OF[case.kind]()
    if question in wing.WITHOUT:
        raise no_answer(case, wing.WITHOUT[question])
    return wing


def _training() -> Wing:
    from costmodel.commands import training

    return training


def _serving() -> Wing:
    from costmodel.commands import serving

    return serving


def _rl() -> Wing:
    from costmodel.commands import rl

    return rl


_OF: dict[str, Callable[[], Wing]] = {"training": _training, "serving": _serving, "rl": _rl}
