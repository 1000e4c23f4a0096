"""What is exported: a plan in which nothing is left open, with the documents that it belongs to."""

from __future__ import annotations

import functools
from typing import Any

from costmodel.documents.schemas.model import Model
from costmodel.documents.schemas.scenario import Assumptions, Plan, Training
from costmodel.exchange.remarks import Remarks
from costmodel.exchange.rows import When
from costmodel.ground.counts import OF_ITSELF_ONE
from costmodel.ground.errors import Fault
from costmodel.ground.record import record

_ONE = ("tp", "pp", "vpp", *(name for name in OF_ITSELF_ONE if name != "etp"))  # degrees that mean nothing at 1
_NEUTRAL: dict[str, Any] = {
    **dict.fromkeys(_ONE, 1),
    "compression": "none",
    "shares": "proportional",
    "sync": "all-reduce",
    "order": "tp-cp-dp-pp",
    "split": "even",
    "offload": [],
    "sequence_parallel": False,
    "recompute": "none",
}


@record
class Job:
    """A completed training plan to write, with the names of its model, software and optimizer.

    gradients: the type in the workload, else the stack's default; deduplicated: whether a token is sent only once to a
    rank that has several of its experts.
    """

    file: str
    plan: Plan
    model: Model
    workload: Training
    stack: str
    gradients: str
    optimizer: str
    assume: Assumptions
    deduplicated: bool
    nodes: int
    per_node: int

    @property
    def accelerators(self) -> int:
        """Accelerators of all nodes."""
        return self.nodes * self.per_node

    @property
    def accumulation(self) -> int:
        """Micro-batches of one replica in one step."""
        return round(self.workload.global_batch / ((self.plan.dp or 1) * self.plan.micro_batch))

    def count(self, key: str) -> int:
        """A count of the plan."""
        size: float = getattr(self.plan, key)
        return round(size)

    @property
    def shards(self) -> int:
        """The number of ranks over which one copy of the training states is sharded."""
        return round((self.plan.dp or 1) / self.plan.dp_replicate)

    @functools.cached_property
    def effective(self) -> dict[str, Any]:
        """The keys of the plan that do something."""
        return effective(self.plan, experts=self.model.has_experts)

    def value(self, key: str) -> Any:
        """The value of a key or fact, as a file states it."""
        workload = self.workload
        place, _, name = key.partition(".")
        if place == "plan":
            return self.effective.get(name, _NEUTRAL.get(name, _plain(getattr(self.plan, name))))
        if place == "model":
            return _plain(getattr(self.model, name))
        if place == "workload":
            return {"gradients": self.gradients, "optimizer": self.optimizer}.get(name) or _plain(
                getattr(workload, name)
            )
        if key == "steps" and workload.tokens is not None:
            return max(1, round(workload.tokens / workload.sequence / workload.global_batch))
        if key == "assume.experts.deduplicated":
            return self.deduplicated
        return getattr(self, key) if key != "steps" else None

    def counts(self, key: str, when: When) -> bool:
        """Whether a row with a condition is written."""
        if when == "where it counts":
            return key.removeprefix("plan.") in self.effective
        return when == "always" or (when == "with experts" and self.model.has_experts)


class TrainingRemarks(Remarks):
    """The faults and notes about a training job."""

    def __init__(self, job: Job, faults: list[Fault] | None = None) -> None:
        super().__init__(job.file, [] if faults is None else faults)
        self.job = job


def effective(plan: Plan, *, experts: bool) -> dict[str, Any]:
    """The keys of a completed plan that have an effect, in a normal form, so that equal plans compare equal.

    >>> effective(Plan(dp=8, zero=1, schedule="1f1b", cp_type="p2p", sequence_parallel=True), experts=False)
    {'dp': 8, 'micro_batch': 1, 'zero': 1}
    """
    found = {key: _plain(value) for key, value in plan.model_dump().items() if value is not None}
    without = _without_effect(plan, experts=experts)
    found.setdefault("schedule", "interleaved" if plan.vpp > 1 else "1f1b")
    if found.get("recompute") == "full" and "recompute_layers" not in found:
        found |= {"recompute_method": "uniform", "recompute_layers": 1}  # every layer, each by itself
    return {key: value for key, value in found.items() if key not in without and _NEUTRAL.get(key) != value}


def _without_effect(plan: Plan, *, experts: bool) -> set[str]:
    dropped: set[str] = set()
    for switched_off, keys in (
        (plan.pp == 1, "schedule split first_stage_layers last_stage_layers vpp"),
        (plan.vpp == 1 and plan.schedule in ("1f1b", None), "vpp"),
        (plan.cp == 1, "cp_type"),
        (not experts, "ep etp"),
        (plan.tp == 1, "sequence_parallel"),
        (plan.recompute != "selective", "recompute_modules"),
        (plan.recompute != "full", "recompute_method recompute_layers"),
        (not plan.offload, "offload_to offload_layers"),
        ("activations" not in plan.offload, "offload_layers"),
        (plan.first_stage_layers is not None or plan.last_stage_layers is not None, "split"),
        (plan.order == "tp-cp-pp-dp" and plan.pp == 1, "order"),
        (plan.order == "tp-dp-cp-pp" and plan.cp == 1, "order"),
    ):
        dropped |= set(keys.split()) if switched_off else set()
    return dropped


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return sorted(value)
    return round(value) if isinstance(value, float) and value == round(value) else value
