"""The running Pareto front against all plans at once; what was refused, by example."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from each import each
from estimate.cases import case

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.results import BAND_ENDS, TRAINING_COLUMNS, machine_name
from costmodel.estimate.shared.plan_batch import one_row
from costmodel.estimate.training.plan_constraints import CHECKS
from costmodel.estimate.training_answer.evaluate_training import evaluate
from costmodel.estimate.training_answer.predict_training import unacceptable
from costmodel.explore.search import rank
from costmodel.explore.search.rank import axes
from costmodel.explore.search.search import examples, search
from costmodel.explore.search.training_space import Ranked
from costmodel.ground.errors import CostModelError

SPACE: dict[str, list[Any]] = {
    "tp": [1, 2, 3, 8],
    "pp": [1, 2, 4],
    "vpp": [1, 2],
    "micro_batch": [1, 4],
    "zero": [0, 1],
    "recompute": ["none", "full"],
    "schedule": ["1f1b", "gpipe", "interleaved"],
    "sequence_parallel": [True, False],
}
PAIRS = ["memory_peak,step_time", "memory_peak,mfu", "step_time,bubble_share", "tp_volume,dp_volume", "mfu,memory_free"]


def spaced(**more: Any) -> ResolvedScenario:
    return case(search=SPACE, **{"workload": {"tokens": "1 T"}, "assume": {"price": "2 USD/GPU/h"}, **more})


def at(row: Ranked, pair: str) -> tuple[float, float]:
    """Where a plan lies, lower being better."""
    x, y = (TRAINING_COLUMNS[name].sign * row.costs[name] for name in pair.split(","))
    return x, y


@pytest.mark.parametrize("pair", PAIRS)
def test_the_front_is_what_no_plan_beats(pair: str) -> None:
    everything = search(spaced(), 10_000, workers=1).best
    found = search(spaced(), 3, workers=1, pareto=pair).tally.front
    assert found is not None
    points = [at(row, pair) for row in everything]
    front = {
        point for point in points
        if not any(x <= point[0] and y <= point[1] and (x, y) != point for x, y in points)
    }  # fmt: skip
    kept = [at(row, pair) for row in found.rows]
    assert set(kept) == front
    assert kept == sorted(kept)
    assert len(kept) == len(set(kept))


def test_the_front_does_not_change_the_ranking() -> None:
    assert search(spaced(), 5, pareto=PAIRS[0]).best == search(spaced(), 5).best
    assert search(spaced(), 5).tally.front is None


@pytest.mark.parametrize("rows", [7, 1000])
def test_the_front_does_not_depend_on_blocks(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = search(spaced(), 3, workers=1, pareto=PAIRS[3]).tally.front
    monkeypatch.setattr("costmodel.explore.search.training_candidates.BLOCK_ROWS", rows)
    assert search(spaced(), 3, workers=1, pareto=PAIRS[3]).tally.front == expected


def test_processes_find_the_same_front(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = search(spaced(), 3, workers=1, pareto=PAIRS[0]).tally.front
    monkeypatch.setattr("costmodel.explore.search.training_space.CANDIDATES_A_PIECE", 16)
    monkeypatch.setattr("costmodel.explore.search.stream.POOL_FROM", 0)
    assert search(spaced(), 3, workers=2, pareto=PAIRS[0]).tally.front == expected


def test_a_long_front_is_thinned_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = search(spaced(), 3, pareto=PAIRS[0]).tally.front
    assert whole is not None
    assert len(whole.rows) > 4
    monkeypatch.setattr(rank, "MOST_ON_A_FRONT", 4)
    thin = search(spaced(), 3, pareto=PAIRS[0]).tally.front
    assert thin is not None
    assert (len(thin.rows), thin.thinned, whole.thinned) == (4, True, False)
    assert (thin.rows[0], thin.rows[-1]) == (whole.rows[0], whole.rows[-1])


def test_what_is_not_known_is_on_no_front() -> None:
    found = search(case(search=SPACE), 3, pareto="memory_peak,run_time").tally.front
    assert found is not None
    assert found.rows == []


@each("name", sorted({*TRAINING_COLUMNS} - {*BAND_ENDS}))
def test_every_result_can_be_an_axis(name: str) -> None:
    other = "step_time" if name != "step_time" else "mfu"
    assert axes(f"{machine_name(name)}, {other}", "mfu", TRAINING_COLUMNS).x == name


@pytest.mark.parametrize(
    "text", ["", "mfu", "mfu,mfu", "mfu,", "mfu,hfu,step_time", "mfu,nothing", "zero,mfu", "mfu,step_time_low"]
)
def test_axes_that_are_none(text: str) -> None:
    with pytest.raises(CostModelError) as caught:
        axes(text, "mfu", TRAINING_COLUMNS)
    assert caught.value.faults[0].code == "C006"


@pytest.mark.parametrize("limits", [{}, {"mfu": {"at_least": 0.3}}])
def test_every_reason_has_an_example_refused_for_it_first(limits: dict[str, Any]) -> None:
    found = search(spaced(limits=limits), 3)
    shown = examples(found)
    assert set(shown) == {code for code, count in found.tally.refused.items() if count}
    assert ("T001" in shown) == bool(limits)
    for code, example in shown.items():
        block = one_row(example.structure, **example.sizes)
        reasons = [check.code for check in CHECKS if check.refused(found.inputs, block).any()]
        if not reasons:
            costs = evaluate(found.inputs, block).costs
            reasons = [name for name, broken in unacceptable(found.inputs, costs) if np.any(broken)]
        assert reasons[0] == code


def test_nothing_refused_needs_no_example() -> None:
    space = {"tp": [8], "pp": [1], "vpp": [1], "micro_batch": [1], "zero": [0], "recompute": ["full"]}
    found = search(case(search={**space, "schedule": ["1f1b"]}), 3)
    assert not found.tally.refused.total()
    assert examples(found) == {}
