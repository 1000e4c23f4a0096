"""Copies of routed experts, counted one by one."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.equations.layers.experts import placed_experts, placed_weights
from costmodel.equations.serving.engine_step import experts_read


@pytest.mark.parametrize(("ranks", "each"), [(32.0, 9.0), (144.0, 2.0)])
def test_deepseeks_ranks(ranks: float, each: float) -> None:
    """256 experts and 32 copies: nine on each of 32 ranks for prompts, two on each of 144 for decode."""
    assert placed_experts(256.0, 32.0) / ranks == each
    assert placed_weights(256.0 / ranks, 256.0, 288.0) == pytest.approx(each)


def test_a_step_reads_copies_as_draws_do() -> None:
    """Every expert twice, and tokens go to either copy: with few tokens hardly a copy more is read, with many all."""
    random = np.random.default_rng(7)
    for tokens, rounds in ((2, 3000), (64, 300)):
        seen = []
        for _ in range(rounds):
            chosen = [random.choice(32, 4, replace=False) * 2 + random.integers(0, 2, 4) for _ in range(tokens)]
            seen.append(len(np.unique(np.concatenate(chosen))))
        found = float(experts_read(float(tokens), 4.0, placed_experts(32.0, 32.0)))
        assert found == pytest.approx(np.mean(seen), rel=0.01)
