"""Users who wait for their answers: simulated, and the benchmark that starts them all at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from costmodel.equations.serving.closed_loop import (
    burst_first_token_time,
    full_step_concurrency,
    interfered_token_time,
    surplus_wait,
)
from costmodel.equations.serving.steady_state import mixed_step_time, request_work

from .engine_simulation import Engine, serve_users
from .steady import saturation

ENGINE = Engine(9.92e-3, 60.73e-6, 47.82e-6, 2048.0, 512.0, 2048.0, 0.0, 0.6)


def token_time(engine: Engine, users: int) -> float:
    """The closed form, put together as an estimate does: a step carries a prompt, part of one, or several."""
    step = mixed_step_time(engine.base_time, engine.sequence_time, float(users), 0.0, 0.0)
    arriving = max(users / engine.output, 1.0) * engine.prompt
    carried = min(arriving, engine.token_budget - users)
    mixed = step + engine.prompt_token_time * carried
    return float(interfered_token_time(step, mixed, float(users), engine.output, engine.prompt / carried))


@pytest.mark.parametrize("users", [1, 4, 16, 64, 128])
def test_simulated_users(users: int) -> None:
    assert token_time(ENGINE, users) == pytest.approx(serve_users(ENGINE, users, 3000).tpot, rel=0.01)


@pytest.mark.parametrize(
    ("prompt", "output", "budget", "users"),
    [(2048, 512, 512, 16), (8192, 512, 2048, 16), (16_000, 1024, 2048, 8), (16_000, 1024, 8192, 32)],
)
def test_a_prompt_over_the_budget_delays_the_others_with_each_part(
    prompt: int, output: int, budget: int, users: int
) -> None:
    """As if each prompt rode on one step only, the time per token was 16 to 39 % too short."""
    engine = replace(ENGINE, prompt=float(prompt), output=float(output), token_budget=float(budget))
    assert token_time(engine, users) == pytest.approx(serve_users(engine, users, 1500).tpot, rel=0.01)


def test_one_user_waits_for_no_prompt() -> None:
    assert token_time(ENGINE, 1) == ENGINE.base_time + ENGINE.sequence_time


def test_users_beyond_full_steps_wait_in_line() -> None:
    """136 users and a budget of 512: steps are full with 102 in flight, the rest is 6 s in line."""
    engine = replace(ENGINE, token_budget=512.0)
    seen = serve_users(engine, 136, 4000)
    decoding = float(full_step_concurrency(512.0, engine.prompt, engine.output))
    assert decoding == pytest.approx(seen.in_flight, rel=0.03)
    work = request_work(engine.sequence_time, engine.output, engine.prompt_token_time, engine.prompt)
    rate = saturation(512.0, engine.prompt + engine.output, engine.base_time, work)
    assert decoding / (rate * engine.output) == pytest.approx(seen.tpot, rel=0.01)
    assert float(surplus_wait(136.0, decoding, rate)) == pytest.approx(seen.ttft, rel=0.03)


def test_a_burst_is_mostly_its_start() -> None:
    """64 users at once: on average half of all prompts come first; ten rounds keep a tenth of it."""
    once, ten = (burst_first_token_time(0.0, 0.0, 64.0, 0.016, 1.0, 0.125, 1 / rounds) for rounds in (1, 10))
    steady = burst_first_token_time(0.0, 0.0, 64.0, 0.016, 1.0, 0.125, 0.0)
    assert steady == pytest.approx(0.149)
    assert once - steady == pytest.approx(sum(range(64)) / 64 * 0.125)
    assert ten - steady == pytest.approx((once - steady) / 10)


def test_a_prompt_just_over_the_budget_takes_one_step_more_and_its_time_once() -> None:
    """Two steps that were each as long as a full one made it twice too late."""
    fits, over = (burst_first_token_time(0.0, 0.0, 1.0, 0.016, steps, 0.4, 0.0) for steps in (1.0, 2.0))
    assert over - fits == pytest.approx(0.016)
