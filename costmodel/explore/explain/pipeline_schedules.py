"""The order in which pipeline schedules run their operations, their timeline, and a comparison of schedules."""

from __future__ import annotations

import math
from collections import Counter
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Literal, get_args

from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.parallelism.pipeline import BOTH_WAYS, FOLDED, LOOPED, PLAIN, live_on_stage
from costmodel.estimate.training.plan_constraints import micro_batches
from costmodel.estimate.training.training_inputs import TrainingInputs, training_inputs
from costmodel.estimate.training_answer.evaluate_training import evaluate
from costmodel.estimate.training_answer.predict_training import Answer, answer, own_plan, plan_block
from costmodel.explore.explain.plan_choice_effects import ExplainedAnswer, with_explanations
from costmodel.explore.search.training_candidates import chunk_counts
from costmodel.ground.counts import Schedule
from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from costmodel.documents.reader.resolved_scenario import ResolvedScenario
    from costmodel.documents.schemas.scenario import Plan


Kind = Literal["F", "B", "W"]
Operation = tuple[Kind, int, int]  # kind, chunk, micro-batch
Group = tuple[Operation, ...]  # run as one: what they make is sent when the last is done


def stage_of(schedule: str, ranks: int, rank: int, chunk: int) -> int:
    """The pipeline stage of a rank's chunk; folded pipelines turn back at the last rank, bidirectional ones mirror."""
    if chunk == 1 and schedule in FOLDED:
        return 2 * ranks - 1 - rank
    if chunk == 1 and schedule in BOTH_WAYS:
        return ranks - 1 - rank
    return chunk * ranks + rank


def operations_of_rank(schedule: str, ranks: int, batches: int, chunks: int, rank: int) -> Iterator[Group]:
    """The operations of a rank in order; operations in one group run together."""
    if schedule == "looped-bfs":
        return _breadth_first(batches, chunks)
    if schedule == "chimera":
        return iter(_chimera(ranks, batches)[rank])
    if schedule == "dualpipev":
        return _dual_pipe(ranks, batches, rank, side=0, both=False)
    if schedule == "dualpipe":
        distance = min(rank, ranks - 1 - rank)
        return _dual_pipe(ranks // 2, batches, distance, side=int(rank >= ranks // 2), both=True)
    return ((operation,) for operation in _sequential_operations(schedule, ranks, batches, chunks, rank))


def _sequential_operations(schedule: str, ranks: int, batches: int, chunks: int, rank: int) -> Iterator[Operation]:
    """The operations of a rank under a schedule that runs one at a time."""
    if schedule in PLAIN:
        return _one_forward_one_backward(
            ranks, batches, chunks, _warm_up_forwards(schedule, ranks, batches, chunks, rank)
        )
    if schedule == "zb-v":
        return _zb_v(ranks, batches, rank)
    if schedule in ("v-half", "v-min"):
        return _controllable(schedule, ranks, batches, rank)
    return _split_backward(ranks, batches, rank, depth=2 if schedule == "zb-h2" else 1)


def _one_forward_one_backward(ranks: int, batches: int, chunks: int, warm: int) -> Iterator[Operation]:
    """1F1B: `warm` forwards first, then one forward and one backward in turn, then the remaining backwards."""
    total = batches * chunks
    for position in range(warm):
        yield "F", *_nth_forward(ranks, chunks, position)
    for position in range(total):
        if warm + position < total:
            yield "F", *_nth_forward(ranks, chunks, warm + position)
        chunk, batch = _nth_forward(ranks, chunks, position)
        yield "B", chunks - 1 - chunk, batch


def _nth_forward(ranks: int, chunks: int, position: int) -> tuple[int, int]:
    """Chunk and micro-batch of a rank's n-th forward; micro-batches pass each chunk in groups of one per rank."""
    if chunks == 1:
        return 0, position
    group, rest = divmod(position, ranks * chunks)
    return rest // ranks, group * ranks + rest % ranks


def _warm_up_forwards(schedule: str, ranks: int, batches: int, chunks: int, rank: int) -> int:
    """The number of forwards of a rank before its first backward is paired with one."""
    if schedule == "gpipe":
        return batches
    if schedule == "1f1b":
        return min(batches, ranks - 1 - rank)
    return min(batches * chunks, 2 * (ranks - 1 - rank) + (chunks - 1) * ranks)


def _split_backward(ranks: int, batches: int, rank: int, depth: int) -> Iterator[Operation]:
    """Zero-bubble H1 (depth 1) and H2 (depth 2): 1F1B with weight gradients (W) delayed to fill the bubbles."""
    warm = min(batches, depth * (ranks - rank) - depth + 1)
    delay = depth * rank
    for batch in range(warm - 1):
        yield "F", 0, batch
    for batch in range(batches):
        if warm - 1 + batch < batches:
            yield "F", 0, warm - 1 + batch
        yield "B", 0, batch
        if batch >= delay:
            yield "W", 0, batch - delay
    for batch in range(max(0, batches - delay), batches):
        yield "W", 0, batch


def _zb_v(ranks: int, batches: int, rank: int) -> Iterator[Operation]:
    """ZB-V with two chunks: warm-up, then F, B and W of each chunk in turn, and the remaining W."""
    done: Counter[tuple[Kind, int]] = Counter()
    total = max(batches, 2 * ranks - 1)

    def do(kinds: str, chunk: int) -> Iterator[Operation]:
        """The next operations of these kinds on a chunk."""
        for kind in kinds:
            batch = done[kind, chunk]  # type: ignore[index]
            done[kind, chunk] += 1  # type: ignore[index]
            if batch < batches:
                yield kind, chunk, batch  # type: ignore[misc]

    for _ in range(2 * (ranks - rank) - 1):
        yield from do("F", 0)
    for _ in range(rank):
        yield from do("F", 1)
        yield from do("F", 0)
    for _ in range(ranks - rank):
        yield from do("FBW", 1)
    while done["F", 1] < done["F", 0] or done["F", 0] < total:
        if done["F", 0] < total:
            yield from do("F", 0)
        yield from do("BW", 0)
        yield from do("FBW", 1)
    for _ in range(rank):
        yield from do("B", 0)
        yield from do("B", 1)
    for _ in range(ranks - rank):
        yield from do("BW", 0)
    for chunk in (1, 0):
        while done["W", chunk] < done["B", chunk]:
            yield from do("W", chunk)


def _controllable(schedule: str, ranks: int, batches: int, rank: int) -> Iterator[Operation]:
    """The schedules of controllable memory: a repeated block of six slots, F and B at fixed offsets, W in the gaps."""
    if schedule == "v-min":
        gap = 2 if ranks % 3 == 0 else 0
        offsets = (rank, 2 * ranks - 1 - rank, 2 * ranks + gap + rank, 4 * ranks + gap - 1 - rank)
    else:
        gap = 3 if ranks % 2 == 0 else 0
        offsets = (2 * rank, 3 * ranks - 2 - rank, 3 * ranks + gap - 1 + 2 * rank, 6 * ranks + gap - 2 - rank)
    what: tuple[tuple[Kind, int], ...] = (("F", 0), ("F", 1), ("B", 1), ("B", 0))
    slots = {
        offset + 6 * batch: (kind, chunk, batch)
        for offset, (kind, chunk) in zip(offsets, what, strict=True)
        for batch in range(batches)
    }
    waiting: list[Operation] = []
    for slot in range(max(slots) + 1):
        if slot in slots:
            kind, chunk, batch = slots[slot]
            yield kind, chunk, batch
            if kind == "B":
                waiting.append(("W", chunk, batch))
        elif waiting:
            yield waiting.pop(0)
    yield from waiting


def _breadth_first(batches: int, chunks: int) -> Iterator[Group]:
    """Breadth-first: every micro-batch through one chunk before the next chunk."""
    for chunk in range(chunks):
        yield from ((("F", chunk, batch),) for batch in range(batches))
    for chunk in reversed(range(chunks)):
        yield from ((("B", chunk, batch), ("W", chunk, batch)) for batch in range(batches))


def _dual_pipe(ranks: int, batches: int, distance: int, *, side: int, both: bool) -> Iterator[Group]:
    """DualPipe in eight phases: forwards of one side, paired forwards and backwards of both sides, then W."""
    done: Counter[tuple[Kind, int]] = Counter()
    left = ranks - 1 - distance
    pairs = (batches // 2 if both else batches) - 2 * ranks + distance + 1
    waiting: list[int] = []

    def do(phase: int, *kinds: Kind) -> Group:
        """The next operations that a rank runs together in one phase."""
        chunk = phase ^ side
        shown = tuple((kind, chunk, done[kind, chunk] + (batches // 2 if both and chunk else 0)) for kind in kinds)
        done.update((kind, chunk) for kind in kinds)
        return shown

    def late(phase: int) -> Group:
        waiting.append(phase)
        return do(phase, "B")

    for _ in range(2 * left):
        yield do(0, "F")
    for _ in range(distance + 1):
        yield do(0, "F")
        yield do(1, "F")
    for _ in range(left):
        yield late(1)
        yield do(waiting.pop(0), "W")
        yield do(1, "F")
    for _ in range(pairs):
        yield do(0, "F") + do(1, "B", "W")
        yield do(1, "F") + do(0, "B", "W")
    for _ in range(left):
        yield do(1, "B", "W")
        yield do(1, "F") + do(0, "B", "W")
    for position in range(2 * distance + 2):
        phase = 1 - position % 2
        yield late(phase) if position > distance else do(phase, "B", "W")
    for _ in range(left):
        yield do(waiting.pop(0), "W")
        yield late(0)
    while waiting:
        yield do(waiting.pop(0), "W")


@lru_cache(maxsize=4)
def _chimera(ranks: int, batches: int) -> tuple[tuple[Group, ...], ...]:
    """Chimera: half the micro-batches in each direction, as early as possible, at most as many in flight as ranks."""
    shown: list[list[Group]] = [[] for _ in range(ranks)]
    done: dict[tuple[Kind, int, int], int] = {}
    counts: Counter[tuple[int, Kind, int]] = Counter()  # operations of a rank by kind and chunk
    moment = 0
    while any(len(group) < 2 * batches for group in shown):
        for rank in range(ranks):
            operation = _next_chimera_operation(ranks, batches // 2, batches, rank, moment, done, counts)
            if operation is None:
                continue
            kind, chunk, batch = operation
            counts[rank, kind, chunk] += 1
            shown[rank].append((operation,) if kind == "F" else (operation, ("W", chunk, batch)))
            done[kind, stage_of("chimera", ranks, rank, chunk), batch] = moment + 1
        moment += 1
    return tuple(map(tuple, shown))


def _next_chimera_operation(
    ranks: int,
    half: int,
    batches: int,
    rank: int,
    moment: int,
    done: dict[tuple[Kind, int, int], int],
    counts: Counter[tuple[int, Kind, int]],
) -> Operation | None:
    """The next operation of a rank: the first backward that can start, else the first forward."""
    live = sum(counts[rank, "F", chunk] - counts[rank, "B", chunk] for chunk in (0, 1))
    startable: list[tuple[int, int, Operation]] = []
    for chunk, batches_of in ((0, range(half)), (1, range(half, batches))):
        stage = stage_of("chimera", ranks, rank, chunk)
        for kind in ("B", "F"):
            place = counts[rank, kind, chunk]
            if place == len(batches_of) or (kind == "F" and live >= ranks):
                continue
            batch = batches_of[place]
            before: tuple[Kind, int, int] | None = ("F", stage - 1, batch) if stage else None
            if kind == "B":
                before = ("B", stage + 1, batch) if stage < ranks - 1 else ("F", stage, batch)
            if before is None or done.get(before, moment + 1) <= moment:
                startable.append((kind == "F", place, (kind, chunk, batch)))
    return min(startable)[2] if startable else None


# An event clock of pipeline schedules: when each rank works on which micro-batch, from the times of its stages.
#
# It only waits and adds: sends take no time, as in the closed forms.


@record
class ForwardBackwardTime:
    """Seconds of a micro-batch's forward, its backward, and the part of the backward that can be deferred."""

    forward: float
    backward: float
    weight: float = 0.0

    def of(self, kind: Kind) -> float:
        """The time of an operation: forward, backward without its deferred part, or the deferred part."""
        return {"F": self.forward, "B": self.backward - self.weight, "W": self.weight}[kind]


@record
class Pipeline:
    """A pipeline (ranks, micro-batches, chunks, schedule) with the times of its first, inner and last stages."""

    ranks: int
    micro_batches: int
    chunks: int
    schedule: Schedule
    first: ForwardBackwardTime
    middle: ForwardBackwardTime
    last: ForwardBackwardTime

    def duration(self, rank: int, chunk: int, kind: Kind) -> float:
        """The time [s] of one operation of a chunk; extra work of the first or last stage is in its first or last
        chunk."""
        inner = self.middle.of(kind) / self.chunks
        if self.schedule in BOTH_WAYS:
            return self.first.of(kind) if rank in (0, self.ranks - 1) else inner
        if self.schedule in FOLDED:
            return self.first.of(kind) / self.chunks if rank == 0 else inner
        more = 0.0
        if rank == 0 and chunk == 0:
            more += self.first.of(kind) - self.middle.of(kind)
        if rank == self.ranks - 1 and rank > 0 and chunk == self.chunks - 1:
            more += self.last.of(kind) - self.middle.of(kind)
        return inner + more


@record
class Event:
    """One operation of one micro-batch on one rank, with start and end."""

    rank: int
    kind: Kind
    chunk: int
    micro_batch: int
    start: float
    end: float


def events(pipeline: Pipeline, until: float = math.inf, most: int | None = None) -> list[list[Event]]:
    """The operations of every rank with their times, up to the first that would start after `until`.

    most: ranks whose operations are returned, the first ones; without it all
    """
    schedule, ranks, chunks = pipeline.schedule, pipeline.ranks, pipeline.chunks
    queues = [operations_of_rank(schedule, ranks, pipeline.micro_batches, chunks, rank) for rank in range(ranks)]
    waiting = [next(queue, None) for queue in queues]
    stages = ranks * (1 if schedule in BOTH_WAYS else chunks)
    stage, duration = cache(partial(stage_of, schedule, ranks)), cache(pipeline.duration)
    done: dict[tuple[Kind, int, int], float] = {}
    free = [0.0] * ranks  # when each rank has ended what it began
    shown: list[list[Event]] = [[] for _ in queues[:most]]
    moved = True
    while moved:
        moved = False
        for rank, queue in enumerate(queues):
            while (group := waiting[rank]) is not None:
                keys = [(kind, stage(rank, chunk), batch) for kind, chunk, batch in group]
                start = _start(keys, stages, done, free[rank])
                if start is None or start >= until:
                    break
                for kind, chunk, batch in group:
                    end = start + duration(rank, chunk, kind)
                    if rank < len(shown):
                        shown[rank].append(Event(rank, kind, chunk, batch, start, end))
                    start = end
                for key in keys:
                    done[key] = start
                free[rank] = start
                waiting[rank] = next(queue, None)
                moved = True
    return shown


def _start(
    keys: Sequence[tuple[Kind, int, int]], stages: int, done: dict[tuple[Kind, int, int], float], free: float
) -> float | None:
    """The start time of operations that run together; None until everything that they wait for has ended."""
    start = free
    for key in keys:
        need = _prerequisite(*key, stages)
        if need is None or need in keys:
            continue
        ended = done.get(need)
        if ended is None:
            return None
        start = max(start, ended)
    return start


def _prerequisite(kind: Kind, stage: int, batch: int, stages: int) -> tuple[Kind, int, int] | None:
    """The operation that must end before another can start: its kind, stage and micro-batch; None if there is none."""
    if kind == "W":
        return "B", stage, batch
    if kind == "F":
        return ("F", stage - 1, batch) if stage else None
    return ("B", stage + 1, batch) if stage < stages - 1 else ("F", stage, batch)


SCHEDULES: tuple[Schedule, ...] = get_args(Schedule)


@record
class ScheduleOption:
    """The plan under one schedule: its answer, and whether it is the plan's own schedule."""

    schedule: Schedule
    vpp: int
    answer: Answer
    in_flight: float
    own: bool

    @property
    def refused(self) -> tuple[str, ...]:
        """The reasons against the schedule: invalid, too large, or over a limit."""
        return self.answer.refused or self.answer.broken


@record
class PipelineComparison:
    """A plan, its options for the pipeline schedule, and the timeline of its own schedule."""

    own: ExplainedAnswer
    offers: list[ScheduleOption]
    clock: Pipeline | None  # None for an invalid plan

    @property
    def fastest(self) -> ScheduleOption | None:
        """The fastest of the possible schedules."""
        possible = [offer for offer in self.offers if not offer.refused]
        return min(possible, key=lambda offer: offer.answer.evaluation.costs.row()["step_time"], default=None)


def compare_schedules(case: ResolvedScenario, schedules: Sequence[Schedule] = ()) -> PipelineComparison:
    """The scenario's plan under the given schedules, or under all that its software offers."""
    inputs = training_inputs(case)
    plan = own_plan(inputs)
    own = with_explanations(answer(inputs, plan))
    if own.refused:
        return PipelineComparison(own, [], None)
    offered = inputs.stack.schedules if plan.pp > 1 else [own.evaluation.block.structure.schedule]
    offers = list(_schedule_options(inputs, plan, own, schedules or offered))
    return PipelineComparison(own, offers, pipeline_of(inputs, plan))


def schedules_named(text: str) -> list[Schedule]:
    """The schedules that `--schedule a,b` names."""
    known: dict[str, Schedule] = {name: name for name in SCHEDULES}
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in known:
            raise fail("D010", f"'{word}' is no schedule", Place("command line"), f"one of {', '.join(SCHEDULES)}")
    return [known[word] for word in dict.fromkeys(words)]


def _schedule_options(
    inputs: TrainingInputs, plan: Plan, own: Answer, schedules: Sequence[Schedule]
) -> Iterator[ScheduleOption]:
    """The plan under each schedule; interleaved with the plan's chunks, or with every valid number of chunks."""
    mine = own.evaluation.block.structure.schedule
    for schedule in schedules:
        asked = {vpp: answer(inputs, plan.model_copy(update={"schedule": schedule, "vpp": vpp}))
                 for vpp in _chunk_counts_to_try(inputs, plan, schedule)}  # fmt: skip
        valid = {vpp: found for vpp, found in asked.items() if not found.refused}
        for vpp, found in (valid or dict(list(asked.items())[:1])).items():
            yield ScheduleOption(
                schedule, int(vpp), found, _peak_in_flight(inputs, found), mine == schedule and vpp == plan.vpp
            )


def _chunk_counts_to_try(inputs: TrainingInputs, plan: Plan, schedule: Schedule) -> list[float]:
    """The numbers of chunks to try for a schedule."""
    if schedule not in LOOPED:
        return [2.0 if schedule in FOLDED else 1.0]
    layers = float(layer_count(inputs.model))
    return [plan.vpp] if plan.vpp > 1 else [value for value in chunk_counts(layers, (plan.pp,)) if value > 1]


def _peak_in_flight(inputs: TrainingInputs, asked: Answer) -> float:
    """The most micro-batches whose activations the first stage holds at once."""
    block = asked.evaluation.block
    if block.pp[0] == 1:
        return 1.0
    count = micro_batches(inputs, block)
    return number(live_on_stage(block, count, 0.0))


def pipeline_of(inputs: TrainingInputs, plan: Plan) -> Pipeline:
    """The pipeline of a plan, with the stage times of its estimate."""
    block, _ = plan_block(inputs, plan)
    first, middle, last = (
        ForwardBackwardTime(number(rank.forward), number(rank.backward), number(rank.deferred))
        for rank in evaluate(inputs, block).step.ranks
    )
    ranks, count = (max(1, math.floor(number(size))) for size in (block.pp, micro_batches(inputs, block)))
    schedule = block.structure.schedule
    chunks = int(number(block.vpp)) if schedule in (*LOOPED, *FOLDED) else 1
    return Pipeline(ranks, count, chunks, schedule, first, middle, last)
