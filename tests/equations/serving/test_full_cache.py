"""Requests that lose their cache to older ones, as closed forms and step by step."""

from __future__ import annotations

import pytest

from costmodel.equations.serving.cache_pool import recomputed_tokens

from .engine_simulation import recomputed_in_full_cache


@pytest.mark.parametrize(
    ("cache", "prompt", "output", "variation"),
    [
        (3_000, 100, 100, 0.3),
        (6_000, 100, 100, 1.0),
        (20_000, 100, 100, 0.3),
        (8_000, 30, 300, 0.3),
        (16_000, 30, 300, 0.5),
        (8_000, 30, 300, 1.0),
        (6_000, 200, 100, 0.5),
        (20_000, 200, 100, 0.5),
        (12_000, 500, 250, 0.5),
        (30_000, 1_000, 100, 0.5),
    ],
)
def test_tokens_computed_again_are_those_of_a_simulated_engine(
    cache: int, prompt: int, output: int, variation: float
) -> None:
    """What answers grow by is taken from the youngest, but for what is left over of the last place."""
    together = cache / (prompt + output * (1 + variation**2) / 2)
    closed = float(recomputed_tokens(float(prompt), float(output), together))
    simulated = recomputed_in_full_cache(cache, prompt, output, variation, round(20 * together))
    assert closed == pytest.approx(simulated, rel=0.25)
