"""What is exported of a serving scenario: a plan in which nothing is left open, and what its engine takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from costmodel.documents.schemas.model import Model
from costmodel.documents.schemas.serving.engine import Engine
from costmodel.documents.schemas.serving.serving_plan import ServingPlan
from costmodel.documents.schemas.serving.serving_workload import Serving
from costmodel.exchange.exporters.job import Remarks
from costmodel.ground.record import record

SHARE_DIGITS = 4  # of a share of memory, rounded down


@record
class ServingJob:
    """A settled serving plan.

    checkpoint: the model as its hub calls it. shipped: its shape in the library. share: of memory, as the engine
    defines it. prompt: tokens of a request's, on average. context: tokens of the longest request. pool: tokens that
    the cache of one group of attention holds. bound: what sets the context. dispatched: whether tokens go to the ranks
    of their experts alone. narrow_experts: the type of experts in the checkpoint, where it is another than that of the
    other weights. widens: whether the accelerator lacks products in the type of the checkpoint, so that engines read it
    in 16 bits.
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

    def count(self, key: str) -> int:
        """A count of the plan."""
        size: float = getattr(self.plan, key) or 1.0
        return round(size)

    @property
    def copies(self) -> int:
        """Copies of experts."""
        return round(self.plan.redundant_experts or 0.0)

    @property
    def halved(self) -> bool:
        """Whether a step is two halves, of which one computes while the tokens of the other travel."""
        return self.dispatched and self.engine.dispatch is not None and self.engine.dispatch.two_batches

    @property
    def ranks(self) -> int:
        """Accelerators of one replica."""
        return self.count("tp") * self.count("pp") * self.count("dp_attention")

    @property
    def half(self) -> str:
        """The type in 16 bits that everything has which is in no narrower one."""
        return "fp16" if self.workload.precision == "fp16" else "bf16"

    @property
    def figures(self) -> str:
        """The share as a command has it."""
        return f"{self.share:.{SHARE_DIGITS}f}".rstrip("0")


def rounded_share(share: float) -> float:
    """A share as it is written: rounded down, so that it is never more memory than was meant.

    >>> rounded_share(0.92), rounded_share(0.87349)
    (0.92, 0.8734)
    """
    scale = float(10**SHARE_DIGITS)
    return math.floor(share * scale + 1e-6) / scale


@record
class EngineTarget:
    """An engine whose command is written.

    stack: its document in the library. options: keys of costmodel with the options that state them. elsewhere: keys
    that something beside the command states. cannot: keys without an option, with the reason. step_holds_request:
    whether the engine, without chunked prefill, starts only with a step as large as its longest request.
    """

    name: str
    title: str
    version: str
    stack: str
    options: Mapping[str, str]
    elsewhere: Mapping[str, str]
    cannot: Mapping[str, str]
    write: Callable[[ServingJob, Remarks], str]
    comment: str = "#"
    step_holds_request: bool = False

    @property
    def full_name(self) -> str:
        """What is written, and its version."""
        return f"{self.title} for {self.version}"


# Keys that no command of an engine states.
BESIDE = {
    "plan.replicas": "the same command once for each replica",
    "workload.kind": "a serving program",
    **dict.fromkeys(
        ("workload.prompt", "workload.output", "workload.rate", "workload.concurrency", "workload.users",
         "workload.requests", "workload.think_time", "workload.traffic", "workload.shared_prefix", "workload.turns"),
        "the requests; the benchmark at the end asks for them",
    ),
    "workload.images": "the data; the benchmark at the end sends text alone",
    "workload.expert_precision": "the checkpoint",
    "workload.expert_weights": "the checkpoint",
}  # fmt: skip
UNWRITTEN = {
    "plan.prefill": "the connector that sends caches from these instances is not written",
    "plan.decode": "the connector that brings caches to these instances is not written",
}


def lines_of(words: list[str], width: int = 78) -> str:
    """Words of a command, in lines that a shell reads as one."""
    lines, line = list[str](), words[0]
    for word in words[1:]:
        if len(line) + len(word) + 3 > width:
            lines.append(f"{line} \\\n")
            line = f"  {word}"
        else:
            line = f"{line} {word}"
    return "".join([*lines, line, "\n"])
