"""Steps with prompts that the host launches kernel by kernel, against an engine that is simulated step by step."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from equations.serving.engine_simulation import Engine, serve, serve_loop

from costmodel.estimate.serving.closed_loop import closed_loop
from costmodel.estimate.serving.operating_point import operating_point
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.serving.steady_state import SteadyState, replica_rate, steady_state

from .cases import costs, inputs, one
from .linear_engine import LinearSteps, inputs_of, plan

LAUNCHES = 0.12  # s: 60 layers with experts, 2 ms each
FEW = Engine(9e-3, 100e-6, 20e-6, 500, 500, 8192, 0.0, 0.0, 0.6, launch_time=LAUNCHES)


@dataclass(frozen=True)
class LaunchedSteps(LinearSteps):
    """Steps whose prompts add at least what their launches take."""

    def mixed(self, decodes: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        added = np.maximum(self.engine.prompt_token_time * tokens, self.engine.launch_time)
        return self.decode(decodes) + added


def in_loop(engine: Engine, users: int) -> SteadyState:
    """What users of a loop that has long run see, by the composition that every estimate goes through."""
    found: ServingInputs = inputs_of(engine)
    found = replace(found, engine=found.engine.model_copy(update={"poll": float(engine.poll)}))
    point = operating_point(found, plan(engine.token_budget), np.array([float(users)]), LaunchedSteps(engine))
    return closed_loop(found, plan(engine.token_budget), point, np.array([float(users)]), np.inf, burst=False)


@pytest.mark.parametrize("users", [1, 4, 16, 64])
@pytest.mark.parametrize(("prompt", "output"), [(500, 500), (500, 4000), (4000, 500)])
def test_a_prompt_delays_the_others_by_its_launches(users: int, prompt: int, output: int) -> None:
    """Some prompts share a step: with 64 users of 500 tokens one in fifteen, so that others wait less than is said."""
    engine = replace(FEW, prompt=prompt, output=output)
    seen, found = serve_loop(engine, users, 2000), in_loop(engine, users)
    assert one(found.tpot) == pytest.approx(seen.tpot, rel=0.06)
    assert one(found.ttft) == pytest.approx(seen.ttft, rel=0.15)
    if users > 1:
        others = (users - 1) / output * max(LAUNCHES, 20e-6 * prompt)
        assert seen.tpot > 9e-3 + 100e-6 * users + 0.8 * others


def test_without_launches_it_is_off_by_what_prompts_stop() -> None:
    """64 users whose prompts take 10 ms on the device: a token takes 31 ms where the device alone would make it 17."""
    seen = serve_loop(FEW, 64, 2000).tpot
    assert one(in_loop(replace(FEW, launch_time=0.0), 64).tpot) < 0.6 * seen


@pytest.mark.parametrize("users", [16, 64])
def test_an_engine_that_looks_seldom_gathers_prompts(users: int) -> None:
    """Every thirty steps: prompts share their launches and wait half of that; tokens come faster."""
    seldom = replace(FEW, poll=30)
    often, seen, found = serve_loop(FEW, users, 2000), serve_loop(seldom, users, 2000), in_loop(seldom, users)
    assert seen.tpot < often.tpot
    assert one(found.tpot) == pytest.approx(seen.tpot, rel=0.08)
    assert one(found.ttft) == pytest.approx(seen.ttft, rel=0.25)


@pytest.mark.parametrize(("many", "p99"), [(2.0, 0.05), (10.0, 0.1), (50.0, 0.25), (150.0, 0.35)])
def test_prompts_that_come_at_random_share_their_launches(many: float, p99: float) -> None:
    """Where each step has prompts, a further one adds its tokens alone: with launches for each of them, first tokens
    were a quarter too late and their p99 by two thirds, and both fell at higher rates.
    """
    engine = Engine(9e-3, 20e-6, 20e-6, 50, 30, 8192, 0.0, 0.0, 0.6, launch_time=0.02)
    asked, layout = inputs_of(engine), plan(engine.token_budget)
    point = operating_point(asked, layout, np.array([many]), LaunchedSteps(engine))
    rate = replica_rate(asked, point)
    found, seen = steady_state(asked, point, rate), serve(replace(engine, request_rate=one(rate)), 6000)
    assert one(found.tpot) == pytest.approx(seen.tpot, rel=0.1)
    assert one(found.ttft) == pytest.approx(seen.ttft, rel=0.12)
    assert one(found.ttft_p99) == pytest.approx(seen.ttft_p99, rel=p99)


def test_one_user_waits_for_the_launches_of_a_short_prompt() -> None:
    """Twice as many layers, twice the time; a prompt of many thousand tokens keeps the device busy for longer."""
    alone = "workload={{kind: serving, prompt: {}, output: 64, concurrency: 1, precision: bf16}}"
    layer = [f"stack.launch.prompts.layer={each} ms" for each in (0, 2, 4)]
    short = [costs(alone.format(100), each)["ttft"] for each in layer]
    assert short[2] - short[1] == pytest.approx(80 * 2e-3, rel=0.02)
    long = [costs(alone.format(30_000), each)["ttft"] for each in layer]
    assert long[1] < 1.02 * long[0]


def test_decoding_stops_while_prompts_have_steps_of_their_own() -> None:
    together, apart = (
        costs("workload={kind: serving, prompt: 2048, output: 256, concurrency: 32}", f"stack.mixed={mixed}")
        for mixed in ("true", "false")
    )
    assert apart["tpot"] > 1.02 * together["tpot"]
    found = inputs("stack.mixed=false")
    assert not found.engine.mixed
