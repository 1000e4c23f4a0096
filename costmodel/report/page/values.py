"""Figures of a training plan as values of a page."""

from __future__ import annotations

from costmodel.ground.units import show_time, time_unit
from costmodel.report.terminal.style.formatting import TIME_TERMS, is_held

TERM_WORDS = {key: words for words, key in TIME_TERMS}
TERM_ROLES = {
    "matmul": "matmul",
    "attention": "attention",
    "memory_bound": "memory_bound",
    "launch": "launch",
    "bubble": "bubble",
    "optimizer": "optimizer",
    "offload_exposed": "offload",
    "host_time": "launch",
    "prompts_between": "recomputed",
}


def round_unit(name: str, unit: str, highest: float) -> float:
    """The unit of an axis for a result of this size, in which ticks are round numbers."""
    if unit == "s":
        return time_unit(highest)
    if unit == "B" and is_held(name):
        return 2.0**30
    return 0.01 if unit == "1" else 1.0


def term_role(name: str) -> str:
    """The colour of a term of the step; all exposed communication has the same one."""
    return TERM_ROLES.get(name, "network")


def seconds(value: float) -> str:
    """A time in words."""
    return show_time(value)
