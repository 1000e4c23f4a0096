"""Speculation by draws, and what it costs a dense model and a mixture."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.equations.layers.attention import compressed_query_parameters, latent_attention_parameters
from costmodel.equations.serving.engine_step import (
    accepted_tokens,
    compute_bound_batch,
    dense_verify_ratio,
    experts_read,
    speculation_speedup,
)


@pytest.mark.parametrize(("acceptance", "drafted"), [(0.8, 4), (0.6, 1), (0.95, 8)])
def test_tokens_of_a_verification_by_draws(acceptance: float, drafted: int) -> None:
    kept = np.random.default_rng(1).random((200_000, drafted)) < acceptance
    tokens = 1 + np.cumprod(kept, axis=1).sum(axis=1)
    assert float(accepted_tokens(acceptance, float(drafted))) == pytest.approx(tokens.mean(), rel=5e-3)


def test_limits_of_acceptance() -> None:
    assert [float(accepted_tokens(acceptance, 4.0)) for acceptance in (0.0, 1.0)] == [1, 5]
    assert float(accepted_tokens(1 - 1e-9, 4.0)) == pytest.approx(5, rel=1e-6)
    assert float(accepted_tokens(0.7, 0.0)) == pytest.approx(1)


@pytest.mark.parametrize(
    ("batch", "ratio", "speedup"), [(16, 1.0, 2.80), (64, 1.08, 2.62), (128, 2.17, 1.42), (256, 4.33, 0.74)]
)
def test_a_dense_model_on_h100(batch: int, ratio: float, speedup: float) -> None:
    """0.8, four drafted at 5 % each: 2.8 times as fast alone, slower at 256."""
    tokens = accepted_tokens(0.8, 4.0)
    assert float(tokens) == pytest.approx(3.3616)
    verify = dense_verify_ratio(float(batch), 4.0, compute_bound_batch(2.0, 989.4e12, 3.35e12))
    assert float(verify) == pytest.approx(ratio, abs=0.005)
    assert float(speculation_speedup(tokens, verify, 4.0, 0.05)) == pytest.approx(speedup, abs=0.005)


def weights_read(tokens: float) -> float:
    """DeepSeek-V3 in fp8, bytes of a step of so many query tokens: routed and shared experts, attention, the rest."""
    attention = compressed_query_parameters(7168.0, 128.0, 192.0, 1536.0) + latent_attention_parameters(
        7168.0, 128.0, 512.0, 128.0, 64.0, 128.0
    )
    expert = 3 * 7168 * 2048
    routed = float(experts_read(tokens, 8.0, 256.0))
    return float(58 * (routed + 1) * expert + 61 * attention + 3 * 3 * 7168 * 18_432 + 2 * 129_280 * 7168)


@pytest.mark.parametrize(("batch", "ratio", "speedup"), [(1, 1.53, 1.21), (64, 1.13, 1.64)])
def test_a_mixture_gains_least_at_batch_1(batch: int, ratio: float, speedup: float) -> None:
    """One token drafted, 85 % accepted: two tokens read 15.75 experts instead of 8."""
    tokens = accepted_tokens(0.85, 1.0)
    assert float(tokens) == pytest.approx(1.85)
    read = weights_read(2.0 * batch) / weights_read(float(batch))
    assert read == pytest.approx(ratio, abs=0.005)
    assert float(speculation_speedup(tokens, read, 1.0, 0.0)) == pytest.approx(speedup, abs=0.005)
