"""The busiest attention group, against sums over the prompts of a step and a balanced split."""

from __future__ import annotations

import math

import numpy as np
import pytest

from costmodel.equations.serving.engine_step import (
    busiest_group_prompts,
    busiest_group_sequences,
    gathering_steps,
    prompts_gathered,
    prompts_of_a_step_with_any,
)


def test_whole_sequences_lie_on_as_few_of_one_group_as_can_be() -> None:
    many = np.arange(1, 300)
    for groups in (2, 3, 8, 64):
        expected = [max(len(range(first, n, groups)) for first in range(groups)) for n in many]
        assert busiest_group_sequences(many.astype(float), float(groups)).tolist() == expected
    np.testing.assert_array_equal(busiest_group_sequences(many / 7, 1.0), many / 7)


@pytest.mark.parametrize("groups", [2, 8, 32])
def test_prompts_at_random_are_within_nine_percent_of_their_sum(groups: int) -> None:
    for mean in (0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 40.0, 100.0):
        chances = [math.exp(n * math.log(mean) - mean - math.lgamma(n + 1)) for n in range(400)]
        some = 1.0 - chances[0]
        exact = sum(math.ceil(n / groups) * chance for n, chance in enumerate(chances)) / some
        given = float(prompts_of_a_step_with_any(mean))
        assert given == pytest.approx(mean / some, rel=1e-6)
        assert float(busiest_group_prompts(given, float(groups))) == pytest.approx(exact, rel=0.09)


def test_prompts_that_wait_for_each_other_as_in_a_count_of_arrivals() -> None:
    groups, wait = 8, 50
    for mean in (0.02, 0.2, 1.0):
        arrivals = np.cumsum(np.random.default_rng(4).exponential(1.0 / mean, 20_000))
        started: list[list[float]] = []
        waiting: list[float] = []
        for at in arrivals:
            if waiting and at - waiting[0] > wait:
                started.append([waiting[0] + wait - each for each in waiting])
                waiting = []
            waiting = [*waiting, at]
            if len(waiting) == groups:
                started.append([at - each for each in waiting])
                waiting = []
        together = float(np.mean([len(each) for each in started]))
        gathered = float(prompts_gathered(mean, float(groups), float(wait)))
        assert gathered == pytest.approx(together, abs=1.0)
        waits = float(np.mean([each for some in started for each in some]))
        assert float(gathering_steps(mean, float(groups), float(wait))) == pytest.approx(waits, rel=0.06)
