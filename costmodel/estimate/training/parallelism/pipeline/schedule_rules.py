"""Requirements of each pipeline schedule: chunks, micro-batches, positions of embedding and head, copies of weights."""

from __future__ import annotations

from typing import Literal, TypeGuard, get_args

import numpy as np
from numpy.typing import NDArray

from costmodel.equations.parallelism.counts import remainder
from costmodel.equations.parallelism.pipeline import in_flight, live_micro_batches
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.choices import LaterSchedule, PlainSchedule, Schedule
from costmodel.ground.equation import Number
from costmodel.ground.record import record

Lying = Literal["straight", "looped", "folded", "both ways"]


@record
class ScheduleShape:
    """The layout of a schedule's chunks over the ranks, and the micro-batches that it needs.

    folded: two chunks in a V; the first rank holds embedding and head. both ways: two copies of the weights; the first
    and the last rank hold embedding and head. least: minimum of micro-batches, as a multiple of the stages less a
    constant; they come in units. forwards_first: every forward runs before the first backward.
    """

    lying: Lying
    least: tuple[float, float] = (0.0, 0.0)
    unit: Literal["one", "two", "as many as stages"] = "one"
    forwards_first: bool = False


FORMS: dict[Schedule, ScheduleShape] = {
    "gpipe": ScheduleShape("straight", forwards_first=True),
    "1f1b": ScheduleShape("straight"),
    "interleaved": ScheduleShape("looped", unit="as many as stages"),
    "looped-bfs": ScheduleShape("looped", least=(1.0, 0.0), forwards_first=True),
    "zb-h1": ScheduleShape("straight", least=(1.0, 0.0)),
    "zb-h2": ScheduleShape("straight", least=(2.0, 1.0)),
    "zb-v": ScheduleShape("folded", least=(2.0, 1.0)),
    "v-half": ScheduleShape("folded", least=(2.0, 0.0)),
    "v-min": ScheduleShape("folded", least=(2.0, 0.0)),
    "dualpipev": ScheduleShape("folded", least=(2.0, 0.0)),
    "dualpipe": ScheduleShape("both ways", least=(2.0, 0.0), unit="two"),
    "chimera": ScheduleShape("both ways", unit="as many as stages"),
}


def _lying(how: Lying) -> tuple[Schedule, ...]:
    return tuple(schedule for schedule, form in FORMS.items() if form.lying == how)


PLAIN: tuple[PlainSchedule, ...] = get_args(PlainSchedule)
LOOPED, FOLDED, BOTH_WAYS = _lying("looped"), _lying("folded"), _lying("both ways")


def summed_once(inputs: TrainingInputs, block: Block) -> NDArray[np.bool_]:
    """Rows whose gradients stay unsharded until the last micro-batch: with PyTorch's FSDP in a pipeline."""
    return np.asarray((block.pp > 1) & inputs.stack.states.sharded_master)


def is_plain(schedule: Schedule) -> TypeGuard[PlainSchedule]:
    """Whether a schedule has undivided backward passes in one direction, in Megatron's order."""
    return schedule in PLAIN


def is_later(schedule: Schedule) -> TypeGuard[LaterSchedule]:
    """Whether a schedule splits backward, folds the pipeline, or runs bidirectional or breadth-first."""
    return schedule not in PLAIN


def weight_replication(schedule: Schedule) -> float:
    """Copies of a stage's weights: 2 in a bidirectional pipeline, else 1."""
    return 2.0 if schedule in BOTH_WAYS else 1.0


def chunks_fit(schedule: Schedule, vpp: float) -> bool:
    """Whether a schedule allows this number of chunks."""
    if schedule in LOOPED:
        return vpp > 1
    return vpp == (2 if schedule in FOLDED else 1)


def wrong_shape(block: Block) -> NDArray[np.bool_]:
    """Rows whose pp or vpp the schedule does not allow."""
    schedule, pp, vpp = block.structure.schedule, block.pp, block.vpp
    if schedule in LOOPED:
        return np.asarray((pp < 2) | (vpp < 2))
    wrong = vpp != (2 if schedule in FOLDED else 1)
    if is_later(schedule):
        wrong = wrong | (pp < 2)
    if schedule in BOTH_WAYS:
        wrong = wrong | (remainder(pp, 2.0) != 0)
    return np.asarray(wrong)


def fewest_micro_batches(schedule: Schedule, pp: Number) -> Number:
    """Minimum of micro-batches for a schedule and a number of stages."""
    times, less = FORMS[schedule].least
    return times * pp - less


def wrong_batches(block: Block, micro_batches: Number) -> NDArray[np.bool_]:
    """Rows with too few micro-batches for the schedule, or not a whole number of its units."""
    schedule, pp = block.structure.schedule, block.pp
    few, unit = micro_batches < fewest_micro_batches(schedule, pp), FORMS[schedule].unit
    if unit == "one":
        return np.asarray(few)
    return np.asarray(few | (remainder(micro_batches, 2.0 if unit == "two" else pp) != 0))


def live(block: Block, micro_batches: Number, stage: Number) -> Number:
    """Micro-batches in flight on a stage; with one stage, each backward directly follows its forward."""
    schedule, pp = block.structure.schedule, block.pp
    if is_plain(schedule):
        held = in_flight(pp, micro_batches, block.vpp, stage, schedule=schedule)
        return np.where(pp == 1, 1.0, held) if schedule == "gpipe" else held
    assert is_later(schedule)
    return live_micro_batches(pp, micro_batches, schedule=schedule)


def forwards_first(schedule: Schedule) -> bool:
    """Whether every forward runs before the first backward."""
    return FORMS[schedule].forwards_first


def boundary_parameters(schedule: Schedule, embedding: Number, head: Number) -> tuple[Number, Number]:
    """Work of embedding and head on the first and on the last rank; in a bidirectional pipeline each has half."""
    if schedule in FOLDED:
        return embedding + head, 0.0 * head
    if schedule in BOTH_WAYS:
        half = 0.5 * (embedding + head)
        return half, half
    return embedding, head


def holds_embedding_and_head(schedule: Schedule, position: int) -> tuple[bool, bool]:
    """Whether the first, a middle or the last rank holds the embedding, and the head."""
    if schedule in BOTH_WAYS:
        return position != 1, position != 1
    return position == 0, position == (0 if schedule in FOLDED else 2)


def head_holder(block: Block, held: Number, position: int) -> Number:
    """An amount of the head, if the first, a middle or the last rank holds the head; else 0."""
    _, at_last = holds_embedding_and_head(block.structure.schedule, position)
    return held if at_last else np.where(block.pp == 1, held, 0.0)


def separate_embedding_and_head(schedule: Schedule) -> bool:
    """Whether embedding and head are on different stages."""
    return FORMS[schedule].lying in ("straight", "looped")


def stepped(block: Block, held: Number) -> Number:
    """Parameters whose states a replica updates; of two copies of weights, a sharded optimizer stores one."""
    copies = weight_replication(block.structure.schedule)
    return held / copies if copies > 1 and block.structure.zero >= 1 else held
