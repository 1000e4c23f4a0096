"""Figures of papers and benchmark pages that serving's own and older equations reproduce."""

from __future__ import annotations

import pytest

from costmodel.equations.kernels.flop import matmul_flop
from costmodel.equations.kernels.roofline import stream_time
from costmodel.equations.run.economics import flop_utilisation, work_time
from costmodel.equations.serving.offline_batch import offline_time
from costmodel.equations.serving.steady_state import requests_in_flight


def test_palm_540b_on_64_tpu_v4() -> None:
    """Pope et al.: 29 ms a token at batch 64 is 13.5 % of the peak; 512 prompts of 2,048 at 76 % take 84.7 s.

    A chat of 64 tokens in and 64 out takes 1.9 s, of which 64 steps are 1.86.
    """
    decode = matmul_flop(64.0, 540e9, 1.0)
    assert flop_utilisation(decode, 0.029, 64.0, 275e12) == pytest.approx(0.135, abs=5e-4)
    prompts = matmul_flop(512 * 2048.0, 540e9, 1.0)
    assert work_time(prompts, 0.76 * 275e12, 64.0) == pytest.approx(84.7, abs=0.05)
    assert offline_time(0.029, 64.0, 0.0, 64 * 64.0, 0.0, 64 * 64.0) == pytest.approx(1.856)
    of_prompt = work_time(matmul_flop(1.0, 540e9, 1.0), 0.76 * 275e12, 64.0)
    assert 1.86 < offline_time(0.029, 64.0, 0.0, 64.0, of_prompt, 64.0) < 1.9
    assert stream_time(540e9, 64 * 1.228e12, 1.0) == pytest.approx(6.87e-3, rel=2e-3)  # no step is shorter


def test_a_full_v5e_is_read_in_19_ms() -> None:
    """ "How to Scale Your Model", chapter 8."""
    assert stream_time(16e9, 8.2e11, 1.0) * 1e3 == pytest.approx(19, rel=0.03)


def test_littles_law_checks_a_table() -> None:
    """Oracle's benchmark of Llama 3.3 70B at 32 users: the column headed "requests a minute" is of seconds.

    4.53 of 6.59 s each are 29.9 in flight; and 1,296.5 tokens a second at 44.32 a user are 29.3.
    """
    per_token, tokens = 1 / 44.32, 6.59 * 44.32
    assert requests_in_flight(4.53, tokens, per_token) == pytest.approx(29.85, abs=0.005)
    assert requests_in_flight(1296.53 / tokens, tokens, per_token) == pytest.approx(29.25, abs=0.005)
    assert requests_in_flight(4.53 / 60, tokens, per_token) < 1
