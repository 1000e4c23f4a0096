"""First tokens of a batch, prompt by prompt."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.equations.serving.load.batch_first_token import (
    batch_first_token_steps,
    batch_first_tokens,
    batch_first_tokens_of_share,
    batch_line_first_token,
)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 300), st.integers(1, 40), st.sampled_from((16, 64, 512)))
def test_first_tokens_of_a_batch_prompt_by_prompt(prompts: int, in_a_step: int, prompt: int) -> None:
    """Prompts of which whole ones fill a step have their first tokens together when it ends."""
    room, tokens = float(in_a_step * prompt), float(prompts * prompt)
    steps = [-(-(place + 1) // in_a_step) for place in range(prompts)]
    done = [min(step * room, tokens) for step in steps]
    assert batch_first_tokens(tokens, room) == pytest.approx(np.mean(done), rel=1e-9)
    assert batch_first_token_steps(tokens, room) == pytest.approx(np.mean(steps), rel=1e-9)
    for share_of, last in ((0.5, done[-(-prompts // 2) - 1]), (1.0, tokens)):
        assert float(batch_first_tokens_of_share(tokens, room, share_of)) == pytest.approx(last)


def test_those_in_line_come_evenly_behind_the_last_of_the_first() -> None:
    """Of 100 that run from the start the mean is 5 s, and the 300 others have theirs from 10 to 40 s."""
    each = np.concatenate([np.linspace(0, 10, 100), np.linspace(10, 40, 300)])
    assert batch_line_first_token(400.0, 100.0, 5.0, 10.0, 30.0) == pytest.approx(each.mean())
    assert batch_line_first_token(100.0, 100.0, 5.0, 10.0, 30.0) == pytest.approx(5.0)
