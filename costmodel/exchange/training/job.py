"""Training jobs to write, the record of a training format, and checks of what a format can express."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any

from costmodel.documents.schemas.model import Model
from costmodel.documents.schemas.scenario import Assumptions, Plan, Training
from costmodel.exchange.foreign_keys import Format, because
from costmodel.exchange.option_rows import Remarks, When
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
        return effective_keys(self.plan, experts=self.model.has_experts)

    def value(self, key: str) -> Any:
        """The value of a key or fact, as a file states it."""
        workload = self.workload
        place, _, name = key.partition(".")
        if place == "plan":
            return self.effective.get(name, _NEUTRAL.get(name, _plain_value(getattr(self.plan, name))))
        if place == "model":
            part, _, inner = name.removeprefix("layers.").partition(".")
            return _value_of_first_layers(self.model, part, inner) if inner else _plain_value(getattr(self.model, name))
        if place == "workload":
            return {"gradients": self.gradients, "optimizer": self.optimizer}.get(name) or _plain_value(
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


def effective_keys(plan: Plan, *, experts: bool) -> dict[str, Any]:
    """The keys of a completed plan that have an effect, in a normal form, so that equal plans compare equal.

    >>> effective_keys(Plan(dp=8, zero=1, schedule="1f1b", cp_type="p2p", sequence_parallel=True), experts=False)
    {'dp': 8, 'micro_batch': 1, 'zero': 1}
    """
    found = {key: _plain_value(value) for key, value in plan.model_dump().items() if value is not None}
    without = _keys_without_effect(plan, experts=experts)
    found.setdefault("schedule", "interleaved" if plan.vpp > 1 else "1f1b")
    if found.get("recompute") == "full" and "recompute_layers" not in found:
        found |= {"recompute_method": "uniform", "recompute_layers": 1}  # every layer, each by itself
    return {key: value for key, value in found.items() if key not in without and _NEUTRAL.get(key) != value}


def _keys_without_effect(plan: Plan, *, experts: bool) -> set[str]:
    """The keys of a plan that its other choices switch off."""
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


def _value_of_first_layers(model: Model, part: str, name: str) -> Any:
    """A value of the first layers that have a part, such as attention; None if no layer has it."""
    found = next((getattr(kind, part) for kind in model.layers if getattr(kind, part) is not None), None)
    return None if found is None else _plain_value(getattr(found, name))


def _plain_value(value: Any) -> Any:
    if isinstance(value, list):
        return sorted(value)
    return round(value) if isinstance(value, float) and value == round(value) else value


# Keys that no training software states in a file of its own.
NOWHERE = {
    "plan.compression": "a communication hook in the program compresses gradients",
    "plan.shares": "all replicas take equal shares",
    "plan.sites": "a program that averages sites decides it",
    "plan.sync": "replicas agree at every step",
    "workload.images": "a property of the data, which no launch states",
    "workload.critical_batch": "a property of the loss, not of a launch",
    "workload.learning_rate": "decides the loss, not the time of a step",
}
ON_HOST = "FSDP offloads to the host's memory alone"


# Keys of formats that are read alone, with their reasons.
FLAT = because("it has no pipeline", "pp vpp schedule split first_stage_layers last_stage_layers")
WHOLE_LAYERS = because("whole layers are recomputed, or none", "recompute_method recompute_layers recompute_modules")
TRAINS = {
    **because("ranks lie in its own order", "order"),
    **because("it has one exchange for the context", "cp_type"),
    "workload.kind": "always a training",
    **NOWHERE,
}
ON_HOST_ALONE = because("the host is the only place, for all of a part", "offload_to offload_layers")


@record
class TrainingFormat(Format):
    """A file format that starts a training.

    stacks: the software that its files start. calls: keys that the Python program states, with the call that does it,
    which an export mentions; `elsewhere` contains them too.
    """

    stacks: tuple[str, ...] = ()
    write: Callable[[Job, TrainingRemarks], str] | None = None
    calls: Mapping[str, str] = field(default_factory=dict)


def keys_of_program(target: TrainingFormat, job: Job) -> dict[str, list[str]]:
    """The keys that the training program states itself, by the call that states them."""
    found: dict[str, list[str]] = {}
    for key, value in job.effective.items():
        if getattr(job.plan, key) is not None and (call := target.calls.get(f"plan.{key}")):
            found.setdefault(call, []).append(f"plan.{key}={_value_words(value)}")
    return found


def check_stack(target: TrainingFormat, remarks: TrainingRemarks, others: Iterable[TrainingFormat]) -> None:
    """Records a fault if the format does not start the scenario's software; the hint names a format that does."""
    stack = remarks.job.stack
    if stack not in target.stacks:
        other = next((f"--to {entry.name} writes it; " for entry in others if stack in entry.stacks), "")
        hint = f"{other}--set stack={target.stacks[0]} makes it the scenario's, with its costs"
        remarks.refuse("stack", f"{target.version.split()[0]} runs {' or '.join(target.stacks)}, not {stack}", hint)


def check_plan(target: TrainingFormat, remarks: TrainingRemarks) -> None:
    """Records a fault for every effective plan key that the format cannot express."""
    for key, value in remarks.job.effective.items():
        path = f"plan.{key}"
        if not target.expresses(path):
            reason = target.cannot.get(path, "no option states it")
            remarks.refuse(path, f"{_value_words(value)} cannot be written: {reason}")


def check_workload(target: TrainingFormat, remarks: TrainingRemarks) -> None:
    """Records a fault for adapter training if the format cannot express it."""
    if remarks.job.workload.tuning != "full" and target.write is not None:
        reason = {**target.elsewhere, **target.cannot}.get("workload.tuning", "no option states it")
        remarks.refuse("workload.tuning", f"adapters cannot be written: {reason}")


def check_whole_layers(remarks: TrainingRemarks) -> None:
    """Records a fault for full recompute of some layers, in a format that recomputes all layers or none."""
    plan = remarks.job.plan
    uniform = plan.recompute_method == "uniform" and plan.recompute_layers == 1
    if plan.recompute == "full" and plan.recompute_layers is not None and not uniform:
        remarks.refuse("plan.recompute_layers", f"{plan.recompute_layers:g}: all layers are recomputed, one at a time")


def check_offload(remarks: TrainingRemarks, hint: str = "") -> bool:
    """Whether FSDP offloads a shard with its optimizer to the host; records a fault for any other offload."""
    plan = remarks.job.plan
    offloaded = sorted(plan.offload)
    if offloaded not in ([], ["optimizer", "parameters"]):
        remarks.refuse("plan.offload", f"[{', '.join(offloaded)}]: FSDP offloads a shard with its optimizer", hint)
    if offloaded and plan.offload_to != "cpu":
        remarks.refuse("plan.offload_to", ON_HOST)
    return bool(offloaded)


def _value_words(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)
