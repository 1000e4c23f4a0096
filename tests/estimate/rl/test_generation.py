"""A generation played token by token with the engine's own steps confirms its time and its tail."""

from __future__ import annotations

import dataclasses
import heapq

import numpy as np
import pytest

from costmodel.documents.reader.load_scenario import load_any
from costmodel.estimate.rl.predict_rl import predict
from costmodel.estimate.rl.rl_inputs import TAIL_BEGINS, RolloutEngines, generation
from costmodel.estimate.serving.engine_step import Batch, step_time
from costmodel.estimate.serving.plan_columns import SIZES, PlanColumns

SCENARIO = "grpo-qwen-2.5-7b-64"
Lengths = np.ndarray[tuple[int], np.dtype[np.int64]]


def engines_of(*settings: str) -> tuple[RolloutEngines, object]:
    asked = predict(load_any(SCENARIO, settings))  # type: ignore[arg-type]
    assert asked.inputs.engines is not None
    return asked.inputs.engines, asked


def step_of(engines: RolloutEngines) -> tuple[object, object]:
    """Time of a step by running answers, at two contexts; between them it is linear."""
    counts = np.unique(np.concatenate([np.arange(1, 65), np.geomspace(64, engines.together + 1, 60).astype(int)]))
    rows = np.zeros(len(counts), dtype=np.intp)
    layout = PlanColumns(*(np.asarray(getattr(engines.layout, name))[rows] for name in SIZES))
    near, far = (
        np.asarray(step_time(engines.inputs, layout, Batch(counts.astype(float), context)).total)
        for context in (1000.0, 31_000.0)
    )
    host = engines.each_token  # of each answer in a step, while the accelerators wait

    def step(many: float, context: float) -> float:
        return float(np.interp(many, counts, near + (far - near) * (context - 1000) / 30_000)) + many * host

    return step, counts


def play_together(step: object, lengths: Lengths, prompt: float) -> tuple[float, float]:
    """All begin at once; each step decodes what still runs. Its time, and that with under 1 in 8 running."""
    ordered = np.sort(lengths)
    total = tail = before = 0.0
    for place, length in enumerate(ordered):
        running = len(ordered) - place
        each = step(running, prompt + (before + length) / 2)  # type: ignore[operator]
        total += (length - before) * each
        tail += (length - before) * each * (running < (1 - TAIL_BEGINS) * len(ordered))
        before = float(length)
    return total, tail


def play_refilled(step: object, lengths: Lengths, places: int, prompt: float) -> float:
    """A place that ends takes the next answer, until none is left and the last ends."""
    running = [float(length) for length in lengths[:places]]
    heapq.heapify(running)
    waiting, done, time = list(lengths[places:]), 0.0, 0.0
    context = prompt + float(np.mean(lengths.astype(float) ** 2) / np.mean(lengths) / 2)
    while running:
        first = heapq.heappop(running)
        late = max(0.0, first - done) if not waiting else 0.0
        held = context if waiting else max(context, prompt + late)
        time += (first - done) * step(len(running) + 1, held)  # type: ignore[operator]
        done = first
        if waiting:
            heapq.heappush(running, done + float(waiting.pop()))
    return time


def draws(asked: object, count: int, seed: int) -> Lengths:
    lengths = asked.inputs.lengths  # type: ignore[attr-defined]
    normal = np.random.default_rng(seed).standard_normal(count)
    sigma = float(lengths.sigma)
    tokens = np.minimum(lengths.limit, lengths.written * np.exp(sigma * normal - sigma**2 / 2))
    return np.asarray(tokens, dtype=np.int64) + 1


def test_a_batch_waits_for_the_longest_answer_of_all_engines() -> None:
    engines, asked = engines_of()
    step, _ = step_of(engines)
    replicas, each = int(engines.layout.replicas[0]), int(engines.answers)
    played = []
    for seed in range(6):
        batches = draws(asked, replicas * each, seed).reshape(replicas, each)
        played.append(max(play_together(step, batch, 1000.0) for batch in batches))
    total, tail = np.mean(played, axis=0)
    found = asked.iteration.generated  # type: ignore[attr-defined]
    assert float(found.total - found.prompts) == pytest.approx(total, rel=0.03)
    assert float(found.tail) == pytest.approx(tail, rel=0.08)
    assert 0.3 < float(found.tail) / float(found.total) < 0.5  # what few answers take of all


def test_answers_that_find_no_place_begin_as_others_end() -> None:
    engines, asked = engines_of("plan.rollout.memory=25 %", "workload.prompts=2048")
    assert engines.together < engines.answers / 4
    step, _ = step_of(engines)
    batches = [draws(asked, int(engines.answers), seed) for seed in range(12)]
    played = [play_refilled(step, batch, int(engines.together), 1000.0) for batch in batches]
    found = asked.iteration.generated  # type: ignore[attr-defined]
    assert float(found.total) == pytest.approx(max(played), rel=0.1)


def test_the_host_waits_for_each_token_once() -> None:
    """Of a batch and of a stream: all its tokens, and nothing more, on top of an engine whose host takes no time."""
    for settings in ((), ("workload.staleness=0.5", "workload.rollouts=continuous")):
        engines, asked = engines_of(*settings)
        free = dataclasses.replace(engines, each_token=0.0)
        lengths, how = asked.inputs.lengths, asked.inputs.case.scenario.workload.rollouts  # type: ignore[attr-defined]
        slow, fast = (generation(each, lengths, how, None) for each in (engines, free))
        tokens = engines.answers * float(lengths.mean)
        dealt = 0.0 if settings else 0.15  # of a batch all wait for the engine that was dealt the most
        assert 0.999 < float(slow.total - fast.total) / (tokens * engines.each_token) < 1.001 + dealt


def test_partial_rollouts_have_no_tail() -> None:
    """What they take is the stream's time and reading again what was cut; the batch is longer by its tail."""
    together = predict(load_any(SCENARIO)).iteration.generated  # type: ignore[arg-type]
    settings = ["workload.staleness=0.5", "workload.rollouts=partial"]
    partial = predict(load_any(SCENARIO, settings)).iteration.generated  # type: ignore[arg-type]
    assert float(partial.total - partial.prompts) == pytest.approx(float(partial.refilled))
    assert float(partial.refilled) < float(together.refilled)  # half an iteration more is under way at a time
    assert float(partial.total) < float(together.total) - 0.8 * float(together.tail)


def test_tools_hold_places_and_environments_bound_all() -> None:
    engines, asked = engines_of()
    lengths, workload = asked.inputs.lengths, asked.inputs.case.scenario.workload  # type: ignore[attr-defined]
    environment = load_any(SCENARIO, ["workload.environment={time: 5 s, turns: 4}"]).document.workload.environment  # type: ignore[attr-defined]
    plain = generation(engines, lengths, workload.rollouts, None)
    waits = generation(engines, lengths, workload.rollouts, environment)
    assert float(waits.total - plain.total) == pytest.approx(20.0)
    few = environment.model_copy(update={"parallel": 64.0})
    bound = generation(engines, lengths, workload.rollouts, few)
    assert float(bound.total) == pytest.approx(8192 * 4 * 5 / 64)
