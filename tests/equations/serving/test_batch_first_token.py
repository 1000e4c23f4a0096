"""First tokens of a batch, prompt by prompt."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.equations.serving.offline_batch import (
    batch_first_token_steps,
    batch_first_tokens,
    batch_first_tokens_of_share,
    batch_line_first_token,
)


def prompt_by_prompt(prompts: int, prompt: int, room: int) -> tuple[float, float]:
    """Means of the steps until each of them ends, and of the tokens that are computed by then."""
    steps = [-(-(place + 1) * prompt // room) for place in range(prompts)]
    return float(np.mean(steps)), float(np.mean([min(step * room, prompts * prompt) for step in steps]))


@settings(max_examples=100)
@given(st.integers(1, 300), st.integers(16, 40_000), st.integers(256, 16_384))
def test_first_tokens_of_a_batch_prompt_by_prompt(prompts: int, prompt: int, room: int) -> None:
    """Of j full steps a number of prompts end that is at most a half off what the formula takes."""
    tokens = float(prompts * prompt)
    steps, done = prompt_by_prompt(prompts, prompt, room)
    most = (np.ceil(tokens / room) - 1) / (2 * prompts) + 1e-9
    assert abs(batch_first_token_steps(tokens, float(room), float(prompt)) - steps) <= most
    assert abs(batch_first_tokens(tokens, float(room), float(prompt)) - done) <= most * room + room / prompts
    for share_of in (0.5, 1.0):
        ended = -(-prompts * share_of // 1)
        last = min(-(-ended * prompt // room) * room, tokens)
        assert float(batch_first_tokens_of_share(tokens, float(room), ended / prompts)) == pytest.approx(last)


@settings(max_examples=50)
@given(st.integers(1, 300), st.integers(1, 40), st.sampled_from((16, 64, 512)))
def test_steps_of_whole_prompts_are_counted_exactly(prompts: int, in_a_step: int, prompt: int) -> None:
    room, tokens = in_a_step * prompt, float(prompts * prompt)
    steps, done = prompt_by_prompt(prompts, prompt, room)
    assert batch_first_token_steps(tokens, float(room), 0.0) == pytest.approx(steps, rel=1e-9)
    assert batch_first_tokens(tokens, float(room), 0.0) == pytest.approx(done, rel=1e-9)


def test_the_formula_is_near_the_count_on_average() -> None:
    """Prompts longer and shorter than a step: within 3 % in the median, and not to one side."""
    draws = np.random.default_rng(5)
    off = []
    for _ in range(400):
        prompts, prompt, room = (int(draws.integers(*ends)) for ends in ((2, 60), (200, 40_000), (1000, 16_384)))
        found = batch_first_tokens(float(prompts * prompt), float(room), float(prompt))
        off.append(float(found) / prompt_by_prompt(prompts, prompt, room)[1] - 1)
    assert np.median(np.abs(off)) < 0.03
    assert abs(np.mean(off)) < 0.01


def test_those_in_line_come_evenly_behind_the_last_of_the_first() -> None:
    """Of 100 that run from the start the mean is 5 s, and the 300 others have theirs from 10 to 40 s."""
    each = np.concatenate([np.linspace(0, 10, 100), np.linspace(10, 40, 300)])
    assert batch_line_first_token(400.0, 100.0, 5.0, 10.0, 30.0) == pytest.approx(each.mean())
    assert batch_line_first_token(100.0, 100.0, 5.0, 10.0, 30.0) == pytest.approx(5.0)
