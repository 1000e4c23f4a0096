"""Steps of dense models put together from equations: published timings, and the constants of the worked example."""

from __future__ import annotations

import pytest

from costmodel.equations.serving.closed_loop import interfered_token_time
from costmodel.equations.serving.steady_state import interference_share, time_slope

from .dense_decoder import LLAMA_8B, LLAMA_70B, QWEN_32B


def test_constants_of_70b_on_8_h100() -> None:
    """Prompts of 2,048 and answers of 512: a step of one sequence, what each more adds, what a prompt token adds."""
    one, many = LLAMA_70B.decode(1.0, 2304.0), LLAMA_70B.decode(64.0, 2304.0)
    assert float(one) * 1e3 == pytest.approx(9.98103, abs=5e-5)
    assert float(time_slope(many, one, 64.0, 1.0)) * 1e6 == pytest.approx(60.7273, abs=5e-4)
    assert float(LLAMA_70B.prefill(2048.0)) / 2048 * 1e6 == pytest.approx(47.8171, abs=5e-4)


def test_a_prompt_of_32_k_takes_an_8b_over_a_second() -> None:
    assert float(LLAMA_8B.prefill(32_768.0)) == pytest.approx(1.118, abs=5e-4)


def test_qwen3_32b_with_64_in_flight() -> None:
    """InferenceX, tp 4, prompts and answers of 0.9 × 4,096 and 0.9 × 1,024: 27.6 ms a token were measured."""
    prompt, output, users = 0.9 * 4096, 0.9 * 1024, 64.0
    step, prefill = QWEN_32B.decode(users, prompt + output / 2), QWEN_32B.prefill(prompt)
    assert (float(step) * 1e3, float(prefill) * 1e3) == (pytest.approx(15.65, abs=0.01), pytest.approx(125.2, abs=0.05))
    token = float(interfered_token_time(step, step + prefill, users, output, 1.0))
    assert token * 1e3 == pytest.approx(24.2, abs=0.05)
    assert token * 1e3 == pytest.approx(27.6, rel=0.15)
    assert float(interference_share(step, token)) == pytest.approx(0.35, abs=0.005)
