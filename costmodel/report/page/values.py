"""Figures of a training plan as values of a page."""

from __future__ import annotations

import math
from collections.abc import Mapping

from costmodel.documents.schemas.results import machine_name
from costmodel.ground.units import percent, show_time, time_unit
from costmodel.report.document import Value
from costmodel.report.page.trace import Traces
from costmodel.report.terminal.style.formatting import TIME_TERMS, is_held, result

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
MEMORY_ROLES = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "optimizer",
    "activations": "activations",
    "recompute": "activations",
    "logits": "third",
    "buckets": "buffers",
    "gathered": "buffers",
    "runtime": "runtime",
    "fragmentation": "raw",
}


def round_unit(name: str, unit: str, highest: float) -> float:
    """The unit in which a result of this size is shown, so that round values on an axis read round."""
    if unit == "s":
        return time_unit(highest)
    if unit == "B" and is_held(name):
        return 2.0**30
    return 0.01 if unit == "1" else 1.0


def term_role(name: str) -> str:
    """The colour of a term of the step; what is exposed of communication has one."""
    return TERM_ROLES.get(name, "network")


def memory_role(name: str) -> str:
    """The colour of a line of the memory ledger."""
    return MEMORY_ROLES.get(name, "buffers")


def seconds(value: float) -> str:
    """A time, nought without a unit of thousandths."""
    return show_time(value)


class Figures:
    """The results of one plan, each with its trace where there is one."""

    def __init__(self, costs: Mapping[str, float], traces: Traces | None = None) -> None:
        self.costs, self._traces = costs, traces

    def __call__(self, name: str, text: str = "") -> Value:
        """A result as people read it, or in other words."""
        value = self.costs.get(name, math.nan)
        known = value if math.isfinite(value) else None
        trace = self._traces.of(name) if self._traces else None
        return Value(text or result(name, value), known, machine_name(name), trace)

    def share(self, name: str, whole: str, value: float) -> Value:
        """A part of another figure, in percent."""
        text = percent(value)
        return self._traces.ratio("part", text, value, (name, whole)) if self._traces else Value(text, value)

    def other(self, name: str, value: float, text: str) -> Value:
        """A figure that is no result of a plan, such as a line of its memory."""
        return Value(text, value, name, self._traces.of(name) if self._traces else None)
