"""A format that is written: what it can express of a plan, and the text with what it leaves out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from costmodel.exchange.exporters.job import Job, TrainingRemarks, effective
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


@record
class ExportTarget:
    """A format with its table.

    version: what the options are of. stacks: the software that its files start. options: keys of costmodel with the
    options that state them. elsewhere: keys that another file or program of the same job states, with its name.
    cannot: keys without an option, with the reason; a plan in which one of them does something is refused.
    """

    name: str
    title: str
    version: str
    suffix: str
    stacks: tuple[str, ...]
    options: Mapping[str, str]
    elsewhere: Mapping[str, str]
    cannot: Mapping[str, str]
    write: Callable[[Job, TrainingRemarks], str]
    comment: str = "#"  # begins a line of comment; empty where the format has none

    @property
    def full_name(self) -> str:
        """The format and its version."""
        return f"{self.title} for {self.version}"


def check_stack(target: ExportTarget, remarks: TrainingRemarks) -> None:
    """A fault where the scenario's software is not started by files of the format."""
    stack = remarks.job.stack
    if stack not in target.stacks:
        hint = f"--set stack={target.stacks[0]} makes it the scenario's, with its costs"
        remarks.refuse("stack", f"{target.version.split()[0]} runs {' or '.join(target.stacks)}, not {stack}", hint)


def check_plan(target: ExportTarget, remarks: TrainingRemarks) -> None:
    """A fault for every key of the plan that does something and that the format has no option for."""
    for key, value in effective(remarks.job.plan, experts=remarks.job.model.has_experts).items():
        path = f"plan.{key}"
        if path not in target.options and path not in target.elsewhere:
            reason = target.cannot.get(path, "no option states it")
            remarks.refuse(path, f"{_worded(value)} cannot be written: {reason}")


def check_workload(target: ExportTarget, remarks: TrainingRemarks) -> None:
    """A fault for what is trained and how, where the format does not state it."""
    workload = remarks.job.workload
    if workload.tuning != "full" and "workload.tuning" not in target.options:
        reason = target.cannot.get("workload.tuning", "no option states it")
        remarks.refuse("workload.tuning", f"adapters cannot be written: {reason}")


def check_whole_layers(remarks: TrainingRemarks) -> None:
    """A fault where full recompute reaches some layers, in a format that recomputes all of them or none."""
    plan = remarks.job.plan
    uniform = plan.recompute_method == "uniform" and plan.recompute_layers == 1
    if plan.recompute == "full" and plan.recompute_layers is not None and not uniform:
        remarks.refuse("plan.recompute_layers", f"{plan.recompute_layers:g}: all layers are recomputed, one at a time")


def _worded(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)
