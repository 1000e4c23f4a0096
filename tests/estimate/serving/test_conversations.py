"""Turns of conversations: what they find in the cache, where routing scatters it, and when it is gone."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.ground.errors import CostModelError
from estimate.serving.cases import costs, inputs

CHAT = ("workload.turns=4", "workload.prompt=500", "workload.think_time=20 s")
AWARE = "assume.routing=cache-aware"


def test_a_conversation_on_its_replica_is_computed_once() -> None:
    """Prompts of 500, 1,512, 2,524 and 3,536 tokens: 2,018 on the mean, of which 1,518 in blocks of 16 are found."""
    found = costs(*CHAT, AWARE)
    assert inputs(*CHAT).load.prompt == pytest.approx(2018)
    assert found["prefix_hit"] == pytest.approx(1504 / 2018)


def test_a_system_prompt_stands_before_the_first_turn_alone() -> None:
    """Six turns that add 200 and 300 tokens behind 800: prompts of 1,000 to 3,500, of which each computes its 200."""
    chat = ("workload.turns=6", "workload.prompt=200", "workload.output=300", "workload.think_time=20 s", AWARE)
    shared = (*chat, "workload.shared_prefix=800")
    load = inputs(*shared).load
    assert load.prompt == pytest.approx(sum(800 + turn * 200 + (turn - 1) * 300 for turn in range(1, 7)) / 6)
    assert load.longest == 800 + 6 * 500
    found = costs(*shared)
    assert found["prefix_hit"] * load.prompt == pytest.approx(load.prompt - 200, abs=16)
    assert found["saturation_per_s"] < costs(*chat)["saturation_per_s"]
    with pytest.raises(CostModelError, match="holds no request of 3,800"):
        inputs(*shared, "workload.context=3500")


@pytest.mark.parametrize(("round", "logged"), [(1, 0.4999), (2, 0.6666), (3, 0.7499)])
def test_rounds_of_a_conversation_hit_as_mooncake_logs_them(round: int, logged: float) -> None:
    """Mooncake issue 3317: rounds 1 to 3 find .500, .667, .750. The hits of n + 1 turns less those of n are round n."""

    def turns(count: int) -> tuple[float, float]:
        """Tokens of all prompts of a conversation, and those found in the cache."""
        lengths = ("workload.prompt=10000", "workload.output=1", f"workload.turns={count}", "workload.rate=0.01 /s")
        chat = (*lengths, *(("workload.think_time=1 s",) if count > 1 else ()), "stack.block=1", AWARE, "limits={}")
        prompts = count * float(inputs(*chat).load.prompt)
        return prompts, prompts * costs(*chat)["prefix_hit"]

    (before, hit_before), (tokens, hit) = turns(round), turns(round + 1)
    assert (hit - hit_before) / (tokens - before) == pytest.approx(logged, rel=1e-3)


def test_random_routing_finds_it_on_one_replica_alone() -> None:
    aware, random = costs(*CHAT, AWARE), costs(*CHAT)
    assert random["prefix_hit"] == pytest.approx(aware["prefix_hit"] / 2, rel=0.02)
    assert aware["ttft_p99"] < random["ttft_p99"]
    assert aware["rate_within_slo_per_s"] > random["rate_within_slo_per_s"]
    assert costs(*CHAT, "plan.replicas=1")["prefix_hit"] == pytest.approx(aware["prefix_hit"])


def test_a_hit_is_gone_when_the_user_thinks_longer_than_the_pool_keeps_it() -> None:
    """The time that a beginning stays is the pool over the tokens that arrive: no hit rate is taken for granted."""
    found = costs(*CHAT, AWARE)
    stays = found["cache_pool_tokens"] / (4 * (2018 - 1504 + 512))
    assert found["prefix_residency"] == pytest.approx(stays)
    kept, gone = (costs(*CHAT[:2], f"workload.think_time={time:.0f} s", AWARE) for time in (0.5 * stays, 2 * stays))
    assert kept["prefix_hit"] == found["prefix_hit"]
    assert gone["prefix_hit"] == 0
    assert gone["ttft"] > kept["ttft"]


def test_what_is_common_to_all_is_held_once_and_a_conversation_by_each() -> None:
    alone = costs("workload.prompt=2018")["concurrency_steady"]
    assert costs(*CHAT, AWARE)["concurrency_steady"] == pytest.approx(alone, rel=2e-3)
    shared = costs("workload.prompt=2018", "workload.shared_prefix=1504")["concurrency_steady"]
    assert shared > 2 * alone


def test_an_engine_without_a_prefix_cache_finds_nothing() -> None:
    assert costs(*CHAT, AWARE, "stack.prefix_cache=false")["prefix_hit"] == 0


def test_one_line_before_all_replicas_is_shorter_than_one_before_each() -> None:
    """A request goes to whichever is least loaded: fewer wait, and the mean and the p99 fall; alone nothing changes."""
    load = ("cluster.nodes=4", "workload.rate=20 /s", "limits={}")
    random, least = costs(*load), costs(*load, "assume.routing=least-loaded")
    assert least["ttft"] < random["ttft"]
    assert least["ttft_p99"] < random["ttft_p99"]
    assert least["tpot"] == pytest.approx(random["tpot"])
    one = ("plan.replicas=1", "workload.rate=4 /s")
    assert costs(*one, "assume.routing=least-loaded")["ttft_p99"] == costs(*one)["ttft_p99"]


def _simulated_hits(kinds: list[tuple[float, float, int]], pool: float, new: float, count: int) -> float:
    """Tokens that a prompt finds on the mean in a cache that drops the least recently used, request by request."""
    random, cache, held, found = np.random.default_rng(1), dict[object, float](), 0.0, 0.0
    ends = np.cumsum([share for share, _, _ in kinds])
    for request in range(count):
        kind = int(np.searchsorted(ends, random.random()))
        added: list[tuple[object, float]] = [(request, new)]
        if kind < len(kinds):
            added.append(((kind, int(random.integers(kinds[kind][2]))), kinds[kind][1]))
        for name, tokens in added:
            known = cache.pop(name, 0.0)
            found += known if request >= count // 2 else 0.0
            cache[name] = tokens
            held += tokens - known
        while held > pool:
            held -= cache.pop(next(iter(cache)))
    return found / (count - count // 2)


@pytest.mark.parametrize("count", [20, 500, 3000])
def test_several_beginnings_are_found_as_often_as_the_pool_keeps_them(count: int) -> None:
    """Half of the requests begin with one of so many documents, three tenths with one system prompt."""
    stated = f"workload.beginnings=[{{tokens: 1008, share: 50 %, count: {count}}}, {{tokens: 512, share: 30 %}}]"
    found = costs(stated)
    kinds, new = [(0.5, 1008.0, count), (0.3, 512.0, 1)], 2048 + 512 - 0.5 * 1008 - 0.3 * 512
    hits = _simulated_hits(kinds, found["cache_pool_tokens"], new, 30_000)
    assert found["prefix_hit"] * 2048 == pytest.approx(hits, rel=0.03)


def test_one_beginning_of_all_requests_is_a_shared_prefix() -> None:
    """With what each request holds for itself less, the cache binds later: that is of shared_prefix alone."""
    several, one = costs("workload.beginnings=[{tokens: 1000}]"), costs("workload.shared_prefix=1000")
    for name in ("prefix_hit", "ttft_p99", "tpot"):
        assert several[name] == pytest.approx(one[name], rel=1e-3)
    aware = costs("workload.beginnings=[{tokens: 1000, count: 3000}]", AWARE)
    random = costs("workload.beginnings=[{tokens: 1000, count: 3000}]")
    assert aware["prefix_hit"] > 1.5 * random["prefix_hit"]


@pytest.mark.parametrize(
    ("stated", "sentence"),
    [
        ("workload.beginnings=[{tokens: 5000}]", "as long as the prompt"),
        ("workload.beginnings=[{tokens: 10, share: 60 %}, {tokens: 20, share: 60 %}]", "over 100 %"),
        ("workload.beginnings=[{tokens: 10, count: 2, spacing: 9}]", "both state"),
        ("workload.beginnings=[{tokens: 10}]", "leave one of the two out"),
    ],
)
def test_beginnings_that_make_no_sense(stated: str, sentence: str) -> None:
    more = ("workload.shared_prefix=16",) if "two out" in sentence else ()
    with pytest.raises(CostModelError, match=sentence):
        inputs(stated, *more)
