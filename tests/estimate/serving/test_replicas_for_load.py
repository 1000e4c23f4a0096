"""Replicas for a rate: with headroom, while it grows, and with some of them down; the binomial counts them here."""

from __future__ import annotations

import math

import numpy as np
import pytest

from costmodel.documents.reader.load_scenario import load_any
from costmodel.documents.reader.serving_scenario import serving
from costmodel.estimate.serving.predict_serving import predict
from costmodel.estimate.serving.replicas_for_load import replicas_for_load
from costmodel.ground.errors import CostModelError
from estimate.serving.cases import costs, inputs, one, predicted

NAME = "serve-llama-3.1-70b"


def needed(*settings: str) -> float:
    return predict(serving(load_any(NAME, ["workload.rate=50 /s", *settings]))).costs["replicas_needed"]


def up(count: int, availability: float, least: int) -> float:
    """The share of time in which so many of them are up."""
    down = 1 - availability
    return sum(math.comb(count, out) * availability ** (count - out) * down**out for out in range(count - least + 1))


@pytest.mark.parametrize("availability", [0.9, 0.995])
def test_enough_are_up_for_the_wanted_share_of_time(availability: float) -> None:
    least, most = int(needed()), int(needed(f"assume.availability={availability}"))
    assert up(most, availability, least) >= 0.999 > up(most - 1, availability, least)
    often = int(needed(f"assume.availability={availability}", "assume.enough_up=0.9"))
    assert up(often, availability, least) >= 0.9 > up(often - 1, availability, least)


def test_replicas_that_are_always_up_need_no_spares() -> None:
    assert needed("assume.availability=1") == needed()


def test_growth_counts_what_arrives_while_a_replica_starts() -> None:
    growing = "assume.growth={rate: 6 /s, time: 1 min, start: 3 min}"
    assert needed(growing) == needed("workload.rate=68 /s")
    assert needed(growing, "assume.headroom=20%") == needed("workload.rate=81.6 /s")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("assume.enough_up=0.99", "enough_up needs availability"),
        ("assume={availability: 99 %, enough_up: 100 %}", "no number of replicas is always enough"),
        ("assume.availability=1%", "out of range"),
        ("assume.growth={rate: 1 /s, time: 0 s, start: 1 s}", "out of range"),
    ],
)
def test_what_has_no_effect_or_no_answer_is_refused(setting: str, words: str) -> None:
    with pytest.raises(CostModelError, match=words):
        needed(setting)


@pytest.mark.parametrize(
    "assumed", ["headroom: 20 %", "availability: 99 %", "growth: {rate: 1 /s, time: 1 min, start: 1 min}"]
)
def test_replicas_are_counted_for_a_rate_alone(assumed: str) -> None:
    loop = ("workload.rate=null", "workload.concurrency=64")
    with pytest.raises(CostModelError, match="counts replicas for a rate, and none is stated"):
        needed(*loop, f"assume={{{assumed}}}")


def test_replicas_for_50_requests_a_second() -> None:
    """7.4 a second each and 20 % headroom take 9; 11 where enough are up for 99.9 % of the time, each for 99.5 %."""
    stated = ("workload.rate=50 /s", "assume.headroom=20 %")
    up = ("assume.availability=99.5 %", "assume.enough_up=99.9 %")
    found = [one(replicas_for_load(inputs(*stated, *more), np.array([7.4]))) for more in ((), up)]
    assert found == [9, 11]


@pytest.mark.parametrize("rate", [20, 50, 117])
def test_a_rate_without_limits_has_replicas_at_four_fifths_of_saturation(rate: int) -> None:
    """Replicas that just stand the load have a first token without end; a stated headroom takes the place of 25 %."""
    found = costs(f"workload.rate={rate} /s", "limits={}", "cluster.nodes=64")
    each = found["saturation_per_s"] / found["replicas"]
    assert found["replicas_needed"] == math.ceil(rate / (0.8 * each))
    none = costs(f"workload.rate={rate} /s", "limits={}", "cluster.nodes=64", "assume.headroom=0%")
    assert none["replicas_needed"] == math.ceil(rate / each)
    assumed = {each.path: each.value for each in predicted(f"workload.rate={rate} /s", "limits={}").assumed}
    assert assumed["assume.headroom"] == "25 %"
    assert "assume.headroom" not in {each.path for each in predicted(f"workload.rate={rate} /s").assumed}
