"""What `solve --for` asks, of training and of serving."""

from __future__ import annotations

import math

import pytest

from costmodel.documents.reader.resolved_scenario import load, load_any
from costmodel.documents.reader.serving_scenario import serving
from costmodel.explore.search.target import Target
from costmodel.explore.serving.solve_serving import solve as solve_serving
from costmodel.explore.vary.solve import solve
from costmodel.ground.errors import CostModelError
from costmodel.ground.record import record


@record
class OneResult:
    """A trial with the same figure for every result."""

    figure: float

    def result(self, _column: str) -> float:
        """The figure."""
        return self.figure


@pytest.mark.parametrize(
    ("figure", "at_least", "reached"),
    [(0.5, True, True), (0.45, True, True), (0.4, True, False), (0.4, False, True), (0.5, False, False)],
)
def test_a_target_is_reached_from_its_bound_on(figure: float, at_least: bool, reached: bool) -> None:
    goal = Target("mfu", at_least, 0.45)
    assert goal.reached(OneResult(figure)) is reached
    assert abs(goal.excess(OneResult(figure))) == pytest.approx(abs(figure - 0.45))


@pytest.mark.parametrize("at_least", [True, False])
def test_what_does_not_work_reaches_nothing(at_least: bool) -> None:
    assert not Target("mfu", at_least, 0.45).reached(OneResult(math.nan))


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ("limits_chance>=90", "limits_chance is a share, and 90 is more than all"),
        ("saturation_share<=150 %", "saturation_share is a share, and 150 % is more than all"),
        ("ttft_p99=1 s", "'ttft_p99=1 s' is not result>=value or result<=value"),
        ("ttft_p99<=3 GB", "'GB' is not a unit of s"),
    ],
)
def test_a_serving_target_is_refused_with_its_reason(wanted: str, sentence: str) -> None:
    with pytest.raises(CostModelError) as refused:
        solve_serving(serving(load_any("serve-llama-3.1-70b")), "workload.rate=1..20 /s", wanted)
    assert refused.value.faults[0].code == "C011"
    assert sentence in refused.value.faults[0].sentence


def test_a_training_share_is_refused_in_the_same_words() -> None:
    with pytest.raises(CostModelError) as refused:
        solve(load("quickstart"), "plan.tp=1,2", "mfu>=45")
    assert refused.value.faults[0].sentence == "mfu is a share, and 45 is more than all"
