"""Offline batches: bounds, known cases, and a replica simulated answer by answer."""

from __future__ import annotations

import heapq

import numpy as np
import pytest

from costmodel.equations.serving.offline_batch import CHAT_LENGTHS
from costmodel.estimate.serving.operating_point import ExactSteps, step_of
from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.ground.errors import CostModelError
from estimate.serving.cases import costs, one, predicted


def batch(requests: int, spread: float = 0.0, output: int = 512) -> str:
    """So many requests, offline."""
    lengths = f"prompt: 2048, output: {{mean: {output}, spread: {spread}}}"
    return f"workload={{kind: serving, {lengths}, requests: {requests}, precision: bf16}}"


ALONE = ("plan={tp: 8, replicas: 1}", "limits={}", "stack.memory.preempts=false")  # engines below lose no cache


def test_equal_answers_fill_the_engine_to_the_end() -> None:
    found = costs(*ALONE, batch(50_000))
    assert 0 <= found["tail_share"] < 0.01  # the last wave is not full
    assert found["requests_per_s"] == pytest.approx(50_000 / found["makespan"])
    assert found["requests_per_s"] == pytest.approx(found["saturation_per_s"], rel=0.01)
    assert found["output_tokens_per_s"] == pytest.approx(512 * found["requests_per_s"])


@pytest.mark.parametrize(("requests", "spread"), [(300, 1.0), (3000, 0.6), (10_000, 1.0)])
def test_a_replica_simulated_answer_by_answer(requests: int, spread: float) -> None:
    """Steps of α + β b + γ of the prompts in them, places refilled as answers end; the mean of twenty batches."""
    answer = predicted(*ALONE, batch(requests, spread))
    point, found = answer.evaluation.point, answer.costs  # type: ignore[union-attr]
    alpha, beta, gamma, most = map(one, (point.alpha, point.beta, point.gamma, point.concurrency))
    draws, sigma = np.random.default_rng(7), np.sqrt(np.log1p(spread**2))
    spans = []
    for _ in range(20):
        lengths = np.maximum(1, np.round(512 * np.exp(sigma * draws.standard_normal(requests) - sigma**2 / 2)))
        running: list[float] = []
        for place, length in enumerate(lengths):  # the step at which each answer ends
            start = heapq.heappop(running) if place >= int(most) else 0.0
            heapq.heappush(running, start + length)
        spans.append(alpha * max(running) + beta * lengths.sum() + gamma * 2048 * requests)
    assert found["makespan"] == pytest.approx(np.mean(spans), rel=0.12)
    assert 0 < found["tail_share"] < 0.7


@pytest.mark.parametrize("requests", [1, 2, 3, 16, 100])
@pytest.mark.parametrize(("prompt", "output"), [(2048, 512), (3000, 1), (8000, 100)])
def test_no_answer_ends_after_its_batch(requests: int, prompt: int, output: int) -> None:
    """One alone ended 0.2 s after its batch, and a first token came at three times the batch."""
    load = f"workload={{kind: serving, prompt: {prompt}, output: {output}, requests: {requests}, precision: bf16}}"
    found = costs(*ALONE, load)
    assert found["latency"] <= found["makespan"] * (1 + 1e-9)
    assert found["ttft_p99"] <= found["makespan"] * (1 + 1e-9)


def times_of_prompts(answer: ServingAnswer, sizes: list[float]) -> list[float]:
    """Time that prompts of so many tokens add to a step."""
    evaluation = answer.evaluation
    exact, many = ExactSteps(answer.inputs, evaluation.layout), evaluation.point.concurrency  # type: ignore[union-attr]
    return [one(exact.mixed(many, np.array([size])) - exact.decode(many)) for size in sizes]


def steps_of(answer: ServingAnswer, most: int) -> np.ndarray:
    """Times of steps of 0 to so many sequences without prompts."""
    evaluation, many = answer.evaluation, np.arange(1.0, most + 1)
    layout, point = evaluation.layout.at(np.zeros(most, dtype=int)), evaluation.point  # type: ignore[union-attr]
    return np.array([one(point.alpha), *step_of(layout, point, ExactSteps(answer.inputs, layout), many)])


def first_tokens(answer: ServingAnswer, lengths: np.ndarray, tokens: float = 2048.0) -> np.ndarray:
    """When each request has its first token."""
    return simulated(answer, lengths, tokens)[0]


def simulated(answer: ServingAnswer, lengths: np.ndarray, tokens: float) -> tuple[np.ndarray, np.ndarray]:
    """When each request has its first and last token, step by step; prompts go first into the room beside decoding."""
    point = answer.evaluation.point  # type: ignore[union-attr]
    most = one(point.concurrency)
    budget, time, taken = one(answer.evaluation.layout.budget), 0.0, 0
    sizes = sorted({min(tokens, budget), min(most * tokens, budget)})
    lasting = times_of_prompts(answer, sizes)
    prompt, left, firsts, ends = np.full(len(lengths), tokens), lengths.copy(), *np.zeros((2, len(lengths)))
    decode = steps_of(answer, int(most))
    live: list[int] = []
    while live or taken < len(lengths):
        fresh = range(taken, min(taken + int(most) - len(live), len(lengths)))
        live, taken = [*live, *fresh], taken + len(fresh)
        decoded = [place for place in live if not prompt[place]]
        waiting = [place for place in live if prompt[place]]
        ahead = np.concatenate([[0.0], np.cumsum(prompt[waiting])])
        given = np.clip(budget - len(decoded) - ahead[:-1], 0.0, prompt[waiting])
        prompt[waiting] -= given
        time += decode[len(decoded)] + float(np.interp(given.sum(), [0.0, *sizes], [0.0, *lasting]))
        started = [place for place in waiting if not prompt[place]]
        firsts[started] = time
        left[[*decoded, *started]] -= 1
        ends[[place for place in live if left[place] <= 0]] = time
        live = [place for place in live if left[place] > 0]
    return firsts, ends


@pytest.mark.parametrize("requests", [1, 2, 3, 4, 5, 8, 12, 16, 100, 400])
def test_prompts_that_share_a_step_have_their_first_tokens_together(requests: int) -> None:
    """Four prompts of 2,048 tokens fill a step: their mean was that of prompts one by one, a third too early."""
    answer = predicted(*ALONE, batch(requests))
    firsts = first_tokens(answer, np.full(requests, 512.0))
    assert answer.costs["ttft"] == pytest.approx(firsts.mean(), rel=0.05)
    assert answer.costs["ttft_p99"] == pytest.approx(firsts.max(), rel=0.02)
    assert answer.costs["latency"] == pytest.approx(answer.costs["makespan"], rel=0.02)  # equal answers end together


@pytest.mark.parametrize(("requests", "prompt", "budget"), [(2, 32_768, 8192), (4, 20_000, 4096), (4, 5000, 8192)])
def test_a_prompt_of_several_steps_has_its_first_token_at_the_end_of_its_last(
    requests: int, prompt: int, budget: int
) -> None:
    """Two prompts of four steps each have theirs after the fourth and the eighth, not on average after the fourth."""
    load = f"workload={{kind: serving, prompt: {prompt}, output: 200, requests: {requests}, precision: bf16}}"
    answer = predicted(*ALONE, load, f"stack.budget={budget}")
    firsts = first_tokens(answer, np.full(requests, 200.0), float(prompt))
    assert answer.costs["ttft"] == pytest.approx(firsts.mean(), rel=0.08)
    assert answer.costs["ttft_p99"] == pytest.approx(firsts.max(), rel=0.02)


# Places become free late where answers differ little, which is between a line and waves.
@pytest.mark.parametrize(
    ("requests", "spread", "off"),
    [(650, 1.0, 0.02), (1000, 1.0, 0.02), (3000, 1.0, 0.02), (1000, 0.5, 0.07), (2000, 0.3, 0.07), (700, 0.0, 0.05)],
)
def test_first_tokens_simulated_step_by_step(requests: int, spread: float, off: float) -> None:
    answer, sigma = predicted(*ALONE, batch(requests, spread)), np.sqrt(np.log1p(spread**2))
    draws = np.random.default_rng(3).standard_normal(requests)
    firsts = first_tokens(answer, np.maximum(1, np.round(512 * np.exp(sigma * draws - sigma**2 / 2))))
    assert answer.costs["ttft"] == pytest.approx(firsts.mean(), rel=off)
    assert answer.costs["ttft_p99"] == pytest.approx(np.quantile(firsts, 0.99), rel=off)


@pytest.mark.parametrize(("requests", "output", "experts"), [(200, 200, False), (200, 200, True), (800, 200, True)])
def test_unlike_answers_until_the_last(requests: int, output: int, *, experts: bool) -> None:
    """A mean time per token counts short answers, which meet all prompts of the first wave, as much as long ones."""
    model = ("model=qwen-3-30b-a3b", "plan.tp=4") if experts else ()
    answer, sigma = predicted(*ALONE, *model, batch(requests, 1.0, output)), np.sqrt(np.log(2.0))
    normal = np.random.default_rng(5).standard_normal((4, requests))
    drawn = np.maximum(2, np.round(output * np.exp(sigma * normal - sigma**2 / 2)))
    times = [(lengths, *simulated(answer, lengths, 2048.0)) for lengths in drawn]
    tokens = np.mean([((ends - firsts) / (lengths - 1)).mean() for lengths, firsts, ends in times])
    assert answer.costs["tpot"] == pytest.approx(tokens, rel=0.15)
    assert answer.costs["latency"] == pytest.approx(np.mean([ends.mean() for *_, ends in times]), rel=0.1)
    assert answer.costs["makespan"] == pytest.approx(np.mean([ends.max() for *_, ends in times]), rel=0.12)


@pytest.mark.parametrize(("requests", "output"), [(200, 200), (550, 200)])
def test_answers_of_chats_until_the_last(requests: int, output: int) -> None:
    """A twentieth of chats has six tokens of 200: a stop for prompts counts three times that of a log-normal law."""
    answer = predicted(*ALONE, batch(requests, 1.05, output).replace("spread", "law: chat, spread"))
    random = np.random.default_rng(6)
    drawn = np.maximum(2, np.round(output * random.choice(CHAT_LENGTHS, (4, requests))))
    times = [(lengths, *simulated(answer, lengths, 2048.0)) for lengths in drawn]
    tokens = np.mean([((ends - firsts) / (lengths - 1)).mean() for lengths, firsts, ends in times])
    normal = costs(*ALONE, batch(requests, 1.05, output))
    assert answer.costs["tpot"] == pytest.approx(tokens, rel=0.15)
    assert answer.costs["tpot"] > normal["tpot"]
    assert answer.costs["latency"] == pytest.approx(np.mean([ends.mean() for *_, ends in times]), rel=0.1)
    assert answer.costs["makespan"] < normal["makespan"]


def test_chats_are_unlike() -> None:
    with pytest.raises(CostModelError, match="state their spread"):
        costs(*ALONE, batch(100).replace("spread: 0.0", "law: chat"))


@pytest.mark.parametrize(("requests", "output"), [(650, 512), (1500, 2000), (700, 100)])
def test_equal_answers_come_in_waves(requests: int, output: int) -> None:
    """Places become free as they were taken, a whole answer later: of 650 on 595 a quarter of the p99."""
    answer = predicted(*ALONE, batch(requests, output=output))
    firsts = first_tokens(answer, np.full(requests, float(output)))
    assert answer.costs["ttft"] == pytest.approx(firsts.mean(), rel=0.05)
    assert answer.costs["ttft_p99"] == pytest.approx(np.quantile(firsts, 0.99), rel=0.04)


@pytest.mark.parametrize(("requests", "spread"), [(400, 0.0), (1000, 1.0)])
def test_what_tokens_cost_adds_up_to_the_rent_of_the_makespan(requests: int, spread: float) -> None:
    found = costs("plan={tp: 8, replicas: 2}", "limits={}", batch(requests, spread))
    rent = 16 * 2.5 * found["makespan"] / 3600
    tokens = requests * (2048 * found["cost_per_minput"] + 512 * found["cost_per_moutput"]) / 1e6
    assert tokens == pytest.approx(rent) == requests * 512 * found["cost_per_mtoken"] / 1e6


def test_the_tail_weighs_less_in_larger_batches_and_more_with_spread() -> None:
    shares = [costs(*ALONE, batch(*size))["tail_share"] for size in ((1000, 1.0), (10_000, 1.0), (10_000, 0.3))]
    assert shares == sorted(shares, reverse=True)
    capped = costs(*ALONE, batch(1000, 1.0).replace("requests", "context: 4096, requests"))
    assert capped["tail_share"] < shares[0]


def test_twice_the_replicas_take_half_the_time_but_for_the_tail() -> None:
    one_replica, two = costs(*ALONE, batch(40_000)), costs(*ALONE, "plan.replicas=2", batch(40_000))
    assert two["makespan"] == pytest.approx(one_replica["makespan"] / 2, rel=0.02)


def test_what_a_batch_does_not_go_with_is_a_fault() -> None:
    with pytest.raises(CostModelError, match="requests are given"):
        costs(batch(100), "workload.rate=1 /s")
    with pytest.raises(CostModelError, match="offline batch is not modelled with separate prefill and decode"):
        costs("plan={prefill: {tp: 8}, decode: {tp: 8}}", batch(100))


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_batch_of_one_is_one_request_in_flight(replicas: int) -> None:
    """As in a closed loop of one request on one replica, whatever other replicas stand idle."""
    keys = ("limits={}", f"plan={{tp: 8, replicas: {replicas}}}")
    found = costs(*keys, batch(1))
    loop = costs(*ALONE, batch(1).replace("requests: 1", "concurrency: 1"))
    for name in ("ttft", "tpot", "latency"):
        assert found[name] == pytest.approx(loop[name], rel=1e-3), name
    assert found["makespan"] == pytest.approx(loop["latency"], rel=1e-3)
    assert found["requests_per_s"] == pytest.approx(1 / found["makespan"])
