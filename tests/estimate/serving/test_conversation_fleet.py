"""Replicas for conversations: counted by what turns find on so many, and checked by counting one after the other."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from costmodel.estimate.serving.evaluate_layouts import Places, Values, enough_replicas
from estimate.serving.cases import Figures, costs

ROOM = ("cluster.nodes=128", "workload.turns=4")


@pytest.mark.share(2)
@pytest.mark.parametrize("rate", [1, 4, 9, 13])
@pytest.mark.parametrize("limits", ["limits={}", "limits={tpot: {at_most: 40 ms}}"])
def test_the_fewest_replicas_whose_own_hits_are_enough(rate: int, limits: str) -> None:
    """Two replicas of a turn find half of it: what one with all of it answers says nothing about them.

    A share of rates with limits, unless --whole asks for all.
    """
    load = (*ROOM, f"workload.rate={rate} /s", limits)
    needed = costs(*load)["replicas_needed"]
    wanted = rate * (1.25 if limits == "limits={}" else 1.0)

    def of(count: int) -> Figures:
        return costs(*load, f"plan.replicas={count}")

    enough = next(count for count in itertools.count(1) if of(count)["rate_within_slo_per_s"] >= wanted)
    assert needed == enough
    assert {of(count)["replicas_needed"] for count in (1, enough, enough + 3)} == {enough}


def test_a_plan_that_keeps_no_limit_on_any_number_needs_no_end_of_them() -> None:
    assert math.isinf(costs(*ROOM, "limits.tpot.at_most=1 ms")["replicas_needed"])


@pytest.mark.parametrize("late_below", [0, 3, 6, 20])
def test_the_fewest_are_found_where_fewer_forget_conversations(late_below: int) -> None:
    """Fleets under some size forget all: they need 12 by what they find then; others 5 to 7 by what is left."""

    def need(count: float) -> float:
        return 12.0 if count < late_below else math.ceil(8.0 - 3.0 / count)

    def needed(places: Places, counts: Values) -> tuple[Values, np.ndarray]:
        return np.array([need(count) for count in counts]), counts < late_below

    first = next(count for count in itertools.count(1) if need(count) <= count)
    assert enough_replicas(np.array([5.0, 1.0]), needed).tolist() == [max(first, 5), first]
