"""Plans that a bound of their time rules out: no step is shorter than it, and rankings and counts do not change."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from costmodel.documents.reader.load_scenario import load, vary
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.results import TRAINING_COLUMNS
from costmodel.estimate.training.training_inputs import training_inputs
from costmodel.estimate.training_answer.evaluate_training import best_case, evaluate, reached
from costmodel.explore.search import training_space
from costmodel.explore.search.required_chance import preferring
from costmodel.explore.search.search import TrainingSearch, search
from costmodel.explore.search.training_candidates import grids, stem, valid_blocks

LATER = "search={schedule: [1f1b, zb-h1, zb-v, dualpipe, looped-bfs], zero: [0, 2], tp: [1, 4, 8], micro_batch: [1, 4]}"
CHOICES = "zero: [0, 1, 2], recompute: [selective, full]"
CASES = [
    ("quickstart", ()),
    ("quickstart", (LATER,)),
    ("llama-3-70b-512", ("search={tp: [4, 8], cp: [1, 2], micro_batch: [1, 2]}",)),
    ("deepseek-v3-2048", (f"search={{tp: [1, 2], pp: [8, 16], ep: [8, 64], micro_batch: [1], {CHOICES}}}",)),
]


def asked(name: str, settings: tuple[str, ...]) -> ResolvedScenario:
    """A scenario whose search prefers plans that surely fit."""
    case = load(name)
    return preferring(vary(case, [*settings]) if settings else case)


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_no_plan_is_faster_than_the_bound(name: str, settings: tuple[str, ...]) -> None:
    inputs, blocks = training_inputs(asked(name, settings)), 0
    refused: Counter[str] = Counter()
    for grid in grids(inputs):
        for block, counts in valid_blocks(inputs, grid, stem(inputs, grid, refused), refused):
            costs = evaluate(inputs, block).costs
            for result in ("step_time", "tokens_per_s_per_gpu", "mfu"):
                sign = TRAINING_COLUMNS[result].sign
                least, found = best_case(inputs, block, result)[counts], costs.column(result)[counts]
                assert np.all(sign * least <= sign * found + 1e-12 * np.abs(found)), block.structure
                assert np.array_equal(reached(inputs, block, result)[counts], found)
            blocks += 1
    assert blocks


def outcome(found: TrainingSearch) -> object:
    """What a search found, and its counts."""
    parts = [(part.candidates, part.evaluated, part.fit, part.kept, part.safe) for part in found.tally.parts.values()]
    return str(found.best), str(found.expected), found.your_rank, parts, found.tally.refused


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_a_search_finds_and_counts_the_same_without_the_bound(
    name: str, settings: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    case, times = asked(name, settings), list[int]()

    def counted(inputs: object, block: object) -> object:
        times.append(1)
        return evaluate(inputs, block)  # type: ignore[arg-type]

    monkeypatch.setattr(training_space, "evaluate", counted)
    with_bound, first = search(case, 5, workers=1, bands=False), len(times)
    uncounted, second = search(case, 1, workers=1, bands=False, counted=False), len(times) - first
    monkeypatch.setattr(training_space, "_is_bounded", lambda *_: False)
    times.clear()
    without = search(case, 5, workers=1, bands=False)
    assert outcome(with_bound) == outcome(without)
    assert str(uncounted.best) == str(without.best[:1])
    assert uncounted.tally.candidates == without.tally.candidates
    assert second <= first <= len(times)
    if name == "llama-3-70b-512":  # every plan that recomputes all is outranked
        assert first <= 0.75 * len(times)
        assert second <= 0.5 * len(times)
