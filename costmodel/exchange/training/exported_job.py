"""A job as the file of a format, checked before it is written."""

from __future__ import annotations

from costmodel.exchange.megatron.write import FORMAT as MEGATRON
from costmodel.exchange.training.formats import LAYERED
from costmodel.exchange.training.job import Job, TrainingRemarks
from costmodel.exchange.training.read_back import check_read_back
from costmodel.exchange.training.training_format import TrainingFormat, check_plan, check_stack, check_workload
from costmodel.ground.errors import Fault
from costmodel.ground.record import record

TARGETS: dict[str, TrainingFormat] = {
    entry.name: entry for entry in (MEGATRON, *LAYERED.values()) if entry.write is not None
}


@record
class Exported:
    """The text of a file, keys of the scenario that it cannot express, and what it leaves to its reader."""

    target: TrainingFormat
    text: str
    faults: tuple[Fault, ...]
    notes: tuple[str, ...]


def exported(target: TrainingFormat, job: Job) -> Exported:
    """The job in a format, read back and compared where the format can express it."""
    remarks = TrainingRemarks(job)
    check_stack(target, remarks)
    check_plan(target, remarks)
    check_workload(target, remarks)
    text = target.write(job, remarks) if target.write is not None else ""
    if not remarks.faults:
        check_read_back(target, text, remarks)
    notes = [*_beside(target, job), *remarks.notes]
    return Exported(target, text, tuple(remarks.faults), tuple(notes))


def _beside(target: TrainingFormat, job: Job) -> list[str]:
    """Keys of the scenario that are no matter of any file that starts a training."""
    overlap = {f"assume.overlap.{key}" for key, value in job.assume.overlap if value is not None}
    experts = {f"assume.experts.{key}" for key, value in job.assume.experts if value is not None}
    experts -= {"assume.experts.deduplicated", "assume.experts.capacity"} if target.name == "megatron" else set()
    price = {"assume.price"} if job.assume.price is not None else set()
    remarks = sorted(overlap | experts | price)
    return [f"not stated by this file: {', '.join(remarks)}"] if remarks else []
