"""What is exported of a serving scenario: a plan in which nothing is left open, and what its engine takes."""

from __future__ import annotations

import math
from typing import Any

from costmodel.documents.schemas.model import Model
from costmodel.documents.schemas.serving.engine import Engine
from costmodel.documents.schemas.serving.serving_schema import Serving, ServingPlan
from costmodel.exchange.rows import When
from costmodel.ground.record import record

SHARE_DIGITS = 4  # of a share of memory, rounded down


@record
class ServingJob:
    """A completed serving plan, to be written as a command.

    checkpoint: the model's name on the hub. shipped: its name in the library. share: the engine's memory share. prompt:
    mean tokens of a prompt. context: tokens of the longest request. pool: tokens in the KV-cache pool of one attention
    group. bound: what limits the context. dispatched: whether tokens are sent only to the ranks of their experts.
    narrow_experts: the type of experts in the checkpoint, if it differs from the other weights. widens: whether the
    accelerator cannot multiply in the type of the checkpoint, so that engines convert weights to 16 bits. printed: the
    benchmark output to expect, if known.
    """

    file: str
    plan: ServingPlan
    model: Model
    checkpoint: str
    shipped: str
    workload: Serving
    engine: Engine
    budget: int
    sequences: int
    share: float
    prompt: float
    context: int
    accelerators: int
    pool: float
    requests: float
    bound: str
    dispatched: bool
    narrow_experts: str | None
    widens: bool
    per_node: int
    vendor: str
    printed: str = ""

    def count(self, key: str) -> int:
        """A count of the plan."""
        size: float = getattr(self.plan, key) or 1.0
        return round(size)

    def value(self, key: str) -> Any:
        """The value of a key, as a command writes it."""
        place, _, name = key.rpartition(".")
        if place == "plan":
            return self.count(name)
        own = {
            "workload.context": self.context,
            "stack.budget": self.budget,
            "stack.sequences": self.sequences,
            "stack.memory.share": f"{100 * self.share:.6g} %",
            "stack.kernels.own_all_reduce": "" if self.engine.kernels.own_all_reduce else "0 B",
            "stack.dispatch.two_batches": self.halved,
        }
        return own[key] if key in own else getattr(self.engine, name)

    def counts(self, key: str, when: When) -> bool:
        """Whether a row is written that is only written then."""
        return when == "always" or (when == "where it counts" and self.value(key) > 1)

    @property
    def copies(self) -> int:
        """The number of redundant experts."""
        return round(self.plan.redundant_experts or 0.0)

    @property
    def halved(self) -> bool:
        """Whether a step is split into two batches: one computes while the tokens of the other are exchanged."""
        return self.dispatched and self.engine.dispatch is not None and self.engine.dispatch.two_batches

    @property
    def ranks(self) -> int:
        """The number of accelerators of one replica."""
        return self.count("tp") * self.count("pp") * self.count("dp_attention")

    @property
    def half(self) -> str:
        """The 16-bit type of everything that is not quantised."""
        return "fp16" if self.workload.precision == "fp16" else "bf16"


def rounded_share(share: float) -> float:
    """A memory share rounded down for the command, so that it never exceeds the intended memory.

    >>> rounded_share(0.92), rounded_share(0.87349)
    (0.92, 0.8734)
    """
    scale = float(10**SHARE_DIGITS)
    return math.floor(share * scale + 1e-6) / scale


def lines_of(words: list[str], width: int = 78) -> str:
    """Command words wrapped into lines with a backslash at the end."""
    lines, line = list[str](), words[0]
    for word in words[1:]:
        if len(line) + len(word) + 3 > width:
            lines.append(f"{line} \\\n")
            line = f"  {word}"
        else:
            line = f"{line} {word}"
    return "".join([*lines, line, "\n"])
