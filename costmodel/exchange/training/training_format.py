"""Formats that start a training: keys that none of them states, and what is checked of a job that is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

from costmodel.exchange.foreign_keys import Format, because
from costmodel.exchange.training.job import Job, TrainingRemarks
from costmodel.ground.record import record

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
ON_HOST_ALONE = because("the host is the only place, for all of a part", "offload_to offload_layers")


@record
class TrainingFormat(Format):
    """A file format that starts a training.

    stacks: the software that its files start. calls: keys that the Python program states, with the call that does it,
    which an export mentions; `elsewhere` contains them too.
    """

    suffix: str = ""
    stacks: tuple[str, ...] = ()
    write: Callable[[Job, TrainingRemarks], str] | None = None
    calls: Mapping[str, str] = field(default_factory=dict)


def called(target: TrainingFormat, job: Job) -> dict[str, list[str]]:
    """The keys that the training program states itself, by the call that states them."""
    found: dict[str, list[str]] = {}
    for key, value in job.effective.items():
        if getattr(job.plan, key) is not None and (call := target.calls.get(f"plan.{key}")):
            found.setdefault(call, []).append(f"plan.{key}={_worded(value)}")
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
            remarks.refuse(path, f"{_worded(value)} cannot be written: {reason}")


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


def _worded(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)
