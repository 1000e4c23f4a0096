"""The order of a pipeline's operations, and its picture over time."""

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
from costmodel.explore.explain.effects import ExplainedAnswer, explained
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
    """The pipeline stage of a rank's chunk; folded pipelines turn at the last rank, bidirectional ones mirror."""
    if chunk == 1 and schedule in FOLDED:
        return 2 * ranks - 1 - rank
    if chunk == 1 and schedule in BOTH_WAYS:
        return ranks - 1 - rank
    return chunk * ranks + rank


def order(schedule: str, ranks: int, batches: int, chunks: int, rank: int) -> Iterator[Group]:
    """The operations of a rank, in order."""
    if schedule == "looped-bfs":
        return _breadth_first(batches, chunks)
    if schedule == "chimera":
        return iter(_both_ways(ranks, batches)[rank])
    if schedule == "dualpipev":
        return _dual(ranks, batches, rank, side=0, both=False)
    if schedule == "dualpipe":
        distance = min(rank, ranks - 1 - rank)
        return _dual(ranks // 2, batches, distance, side=int(rank >= ranks // 2), both=True)
    return ((operation,) for operation in _single(schedule, ranks, batches, chunks, rank))


def _single(schedule: str, ranks: int, batches: int, chunks: int, rank: int) -> Iterator[Operation]:
    """The operations of a rank under a schedule that runs them one by one."""
    if schedule in PLAIN:
        return _one_forward_one_backward(ranks, batches, chunks, _warm_up(schedule, ranks, batches, chunks, rank))
    if schedule == "zb-v":
        return _zb_v(ranks, batches, rank)
    if schedule in ("v-half", "v-min"):
        return _controllable(schedule, ranks, batches, rank)
    return _split_backward(ranks, batches, rank, depth=2 if schedule == "zb-h2" else 1)


def _one_forward_one_backward(ranks: int, batches: int, chunks: int, warm: int) -> Iterator[Operation]:
    """Warm-up forwards, then one forward and one backward in turn, then the backwards that are left."""
    total = batches * chunks
    for position in range(warm):
        yield "F", *_turn(ranks, chunks, position)
    for position in range(total):
        if warm + position < total:
            yield "F", *_turn(ranks, chunks, warm + position)
        chunk, batch = _turn(ranks, chunks, position)
        yield "B", chunks - 1 - chunk, batch


def _turn(ranks: int, chunks: int, position: int) -> tuple[int, int]:
    """Chunk and micro-batch of a rank's n-th forward; micro-batches pass each chunk in groups of one per rank."""
    if chunks == 1:
        return 0, position
    group, rest = divmod(position, ranks * chunks)
    return rest // ranks, group * ranks + rest % ranks


def _warm_up(schedule: str, ranks: int, batches: int, chunks: int, rank: int) -> int:
    """Forwards of a rank before its first backward is paired with one."""
    if schedule == "gpipe":
        return batches
    if schedule == "1f1b":
        return min(batches, ranks - 1 - rank)
    return min(batches * chunks, 2 * (ranks - 1 - rank) + (chunks - 1) * ranks)


def _split_backward(ranks: int, batches: int, rank: int, depth: int) -> Iterator[Operation]:
    """1F1B, or twice its warm-up; W waits as many micro-batches as the rank has fewer warm-up forwards than rank 0."""
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
    """ZB-V with two chunks: warm up, then F, B and W of each chunk in turn, and the last W at the end."""
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
    """A block of six slots repeated: forwards and backwards of both chunks at set offsets, W in the slots between."""
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
    """Every micro-batch through a chunk before the next chunk."""
    for chunk in range(chunks):
        yield from ((("F", chunk, batch),) for batch in range(batches))
    for chunk in reversed(range(chunks)):
        yield from ((("B", chunk, batch), ("W", chunk, batch)) for batch in range(batches))


def _dual(ranks: int, batches: int, distance: int, *, side: int, both: bool) -> Iterator[Group]:
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
def _both_ways(ranks: int, batches: int) -> tuple[tuple[Group, ...], ...]:
    """Half the micro-batches down and half up, as early as may be, backwards first, at most as many live as ranks."""
    shown: list[list[Group]] = [[] for _ in range(ranks)]
    done: dict[tuple[Kind, int, int], int] = {}
    counts: Counter[tuple[int, Kind, int]] = Counter()  # operations of a rank by kind and chunk
    moment = 0
    while any(len(group) < 2 * batches for group in shown):
        for rank in range(ranks):
            operation = _ready(ranks, batches // 2, batches, rank, moment, done, counts)
            if operation is None:
                continue
            kind, chunk, batch = operation
            counts[rank, kind, chunk] += 1
            shown[rank].append((operation,) if kind == "F" else (operation, ("W", chunk, batch)))
            done[kind, stage_of("chimera", ranks, rank, chunk), batch] = moment + 1
        moment += 1
    return tuple(map(tuple, shown))


def _ready(
    ranks: int,
    half: int,
    batches: int,
    rank: int,
    moment: int,
    done: dict[tuple[Kind, int, int], int],
    counts: Counter[tuple[int, Kind, int]],
) -> Operation | None:
    """The first backward whose time has come, else the first forward."""
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
    """Seconds of a micro-batch's forward and backward, and of the backward that a schedule may defer."""

    forward: float
    backward: float
    weight: float = 0.0

    def of(self, kind: Kind) -> float:
        """The time of an operation: forward, backward without its deferred part, or the deferred part."""
        return {"F": self.forward, "B": self.backward - self.weight, "W": self.weight}[kind]


@record
class Pipeline:
    """Ranks, micro-batches and chunks under a schedule, and what a rank's first, inner and last chunks take."""

    ranks: int
    micro_batches: int
    chunks: int
    schedule: Schedule
    first: ForwardBackwardTime
    middle: ForwardBackwardTime
    last: ForwardBackwardTime

    def duration(self, rank: int, chunk: int, kind: Kind) -> float:
        """The time of one chunk; extra work of the first or last rank lies in its first or last chunk."""
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
    """One forward or backward of one micro-batch on one rank."""

    rank: int
    kind: Kind
    chunk: int
    micro_batch: int
    start: float
    end: float


def events(pipeline: Pipeline, until: float = math.inf, most: int | None = None) -> list[list[Event]]:
    """The operations of every rank, in order, up to the first that would start after `until`.

    most: ranks whose operations are returned, the first ones; without it all
    """
    schedule, ranks, chunks = pipeline.schedule, pipeline.ranks, pipeline.chunks
    queues = [order(schedule, ranks, pipeline.micro_batches, chunks, rank) for rank in range(ranks)]
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
    """The start time of work that runs as one, on a rank that is free then; None until all it waits for has ended."""
    start = free
    for key in keys:
        need = _pass_before(*key, stages)
        if need is None or need in keys:
            continue
        ended = done.get(need)
        if ended is None:
            return None
        start = max(start, ended)
    return start


def _pass_before(kind: Kind, stage: int, batch: int, stages: int) -> tuple[Kind, int, int] | None:
    """The operation that must end before this one can start: kind, stage and micro-batch."""
    if kind == "W":
        return "B", stage, batch
    if kind == "F":
        return ("F", stage - 1, batch) if stage else None
    return ("B", stage + 1, batch) if stage < stages - 1 else ("F", stage, batch)


SCHEDULES: tuple[Schedule, ...] = get_args(Schedule)


@record
class Offer:
    """One pipeline schedule for the plan: its answer, or why it is not possible."""

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
class Pipelines:
    """The answer for a plan, the schedules that it could use, and the times of its stages."""

    own: ExplainedAnswer
    offers: list[Offer]
    clock: Pipeline | None  # None for an invalid plan

    @property
    def fastest(self) -> Offer | None:
        """The fastest of the possible schedules."""
        possible = [offer for offer in self.offers if not offer.refused]
        return min(possible, key=lambda offer: offer.answer.evaluation.costs.row()["step_time"], default=None)


def pipelines(case: ResolvedScenario, schedules: Sequence[Schedule] = ()) -> Pipelines:
    """The scenario's plan under the schedules asked for, or all that its software offers; one stage has one."""
    inputs = training_inputs(case)
    plan = own_plan(inputs)
    own = explained(answer(inputs, plan))
    if own.refused:
        return Pipelines(own, [], None)
    offered = inputs.stack.schedules if plan.pp > 1 else [own.evaluation.block.structure.schedule]
    offers = list(_offers(inputs, plan, own, schedules or offered))
    return Pipelines(own, offers, clock(inputs, plan))


def named(text: str) -> list[Schedule]:
    """The schedules that `--schedule a,b` names."""
    known: dict[str, Schedule] = {name: name for name in SCHEDULES}
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in known:
            raise fail("D010", f"'{word}' is no schedule", Place("command line"), f"one of {', '.join(SCHEDULES)}")
    return [known[word] for word in dict.fromkeys(words)]


def _offers(inputs: TrainingInputs, plan: Plan, own: Answer, schedules: Sequence[Schedule]) -> Iterator[Offer]:
    """Each schedule; interleaved with the plan's chunks, or with every number of chunks that is valid."""
    mine = own.evaluation.block.structure.schedule
    for schedule in schedules:
        asked = {vpp: answer(inputs, plan.model_copy(update={"schedule": schedule, "vpp": vpp}))
                 for vpp in _chunks(inputs, plan, schedule)}  # fmt: skip
        valid = {vpp: found for vpp, found in asked.items() if not found.refused}
        for vpp, found in (valid or dict(list(asked.items())[:1])).items():
            yield Offer(schedule, int(vpp), found, _live(inputs, found), mine == schedule and vpp == plan.vpp)


def _chunks(inputs: TrainingInputs, plan: Plan, schedule: Schedule) -> list[float]:
    """Numbers of chunks to try."""
    if schedule not in LOOPED:
        return [2.0 if schedule in FOLDED else 1.0]
    layers = float(layer_count(inputs.model))
    return [plan.vpp] if plan.vpp > 1 else [value for value in chunk_counts(layers, (plan.pp,)) if value > 1]


def _live(inputs: TrainingInputs, asked: Answer) -> float:
    """Micro-batches that the first stage holds at its peak."""
    block = asked.evaluation.block
    if block.pp[0] == 1:
        return 1.0
    count = micro_batches(inputs, block)
    return number(live_on_stage(block, count, 0.0))


def clock(inputs: TrainingInputs, plan: Plan) -> Pipeline:
    """The plan's pipeline with the times its estimate was made of."""
    block, _ = plan_block(inputs, plan)
    first, middle, last = (
        ForwardBackwardTime(number(rank.forward), number(rank.backward), number(rank.deferred))
        for rank in evaluate(inputs, block).step.ranks
    )
    ranks, count = (max(1, math.floor(number(size))) for size in (block.pp, micro_batches(inputs, block)))
    schedule = block.structure.schedule
    chunks = int(number(block.vpp)) if schedule in (*LOOPED, *FOLDED) else 1
    return Pipeline(ranks, count, chunks, schedule, first, middle, last)
