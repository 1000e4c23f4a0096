"""What `solve --for` asks, of training and of serving."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from costmodel.documents.reader.load_scenario import load_any
from costmodel.explore.search.rank import Target
from costmodel.explore.vary.solve import solve
from costmodel.explore.workloads import workload_of
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
        ("ttft_p99=1 s", "'ttft_p99=1 s' is not RESULT>=VALUE or RESULT<=VALUE"),
        ("ttft_p99<=3 GB", "'GB' is not a unit of s"),
    ],
)
def test_a_serving_target_is_refused_with_its_reason(wanted: str, sentence: str) -> None:
    with pytest.raises(CostModelError) as refused:
        solve(workload_of(load_any("serve-llama-3.1-70b")), "workload.rate=1..20 /s", wanted)
    assert refused.value.faults[0].code == "C011"
    assert sentence in refused.value.faults[0].sentence


def test_a_training_share_is_refused_in_the_same_words() -> None:
    with pytest.raises(CostModelError) as refused:
        solve(workload_of(load_any("quickstart")), "plan.tp=1,2", "mfu>=45")
    assert refused.value.faults[0].sentence == "mfu is a share, and 45 is more than all"


@record
class Banded:
    """A trial with a result and both ends of its band."""

    low: float
    figure: float
    high: float

    def result(self, column: str) -> float:
        """One of the three."""
        return {"tpot_low": self.low, "tpot": self.figure, "tpot_high": self.high}[column]


@pytest.mark.parametrize(("at_least", "worse"), [(False, 30.0), (True, 15.0)])
def test_a_chance_of_90_percent_is_the_worse_end_of_the_band(at_least: bool, worse: float) -> None:
    trial = Banded(15.0, 20.0, 30.0)
    goal = Target("tpot", at_least, 0.0, has_band=True, share=0.9)
    assert goal.value(trial) == pytest.approx(worse, rel=1e-5)
    assert replace(goal, share=0.5).value(trial) == pytest.approx(20.0)
    assert replace(goal, has_band=False).value(trial) == replace(goal, share=None).value(trial) == 20.0


def test_other_chances_follow_from_the_spread_of_that_end() -> None:
    """97.5 % lie below 1.96 standard deviations, 90 % below 1.2816."""
    value = Target("tpot", False, 0.0, has_band=True, share=0.975).value(Banded(15.0, 20.0, 30.0))
    assert math.log(value / 20) / math.log(30 / 20) == pytest.approx(1.959964 / 1.281552, rel=1e-4)


def test_a_band_without_end_reaches_nothing() -> None:
    assert not Target("tpot", False, 25.0, has_band=True, share=0.9).reached(Banded(15.0, 20.0, math.inf))


@pytest.mark.parametrize(("chance", "reached"), [(0.95, True), (0.9, True), (0.89, False), (math.nan, False)])
def test_a_plan_that_is_less_likely_to_work_than_asked_reaches_nothing(chance: float, reached: bool) -> None:
    """Of 512 tokens a second 400 are asked for; only the chance to fit decides."""

    @record
    class Likely:
        def result(self, column: str) -> float:
            return {"tokens_per_s": 512.0, "fit_chance": chance}[column]

    goal = Target("tokens_per_s", True, 400.0, share=0.9, chance="fit_chance")
    assert goal.reached(Likely()) is reached
    assert replace(goal, chance="").reached(Likely())
