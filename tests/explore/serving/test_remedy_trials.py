"""How much remedies of a service evaluate, and with what chance they meet all limits."""

from __future__ import annotations

import functools
import re
import shlex
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from estimate.serving.cases import case

from costmodel.estimate.serving.predict_serving import predict
from costmodel.explore.search.required_chance import preferring
from costmodel.explore.serving import best_fleets, best_layout, remedy_trials, search_remedies, serving_remedies
from costmodel.explore.serving.remedy_trials import MOST_FLEETS, MOST_PLANS
from costmodel.explore.serving.serving_remedies import with_remedies

NAME = "serve-llama-3.1-70b"
DEAREST = ("glm-5", "deepseek-v4-pro", "jamba-1.5-large", "llama-3.1-405b")


def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often plans, sets of all layouts and searches are evaluated from now on."""
    calls = Counter[str]()

    def counting(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            calls[name] += 1
            return work(*args, **named)

        return call

    for name, module, of in (
        ("plans", remedy_trials, "answer_of"),
        ("layouts", best_fleets, "evaluate"),
        *(("searches", module, "search") for module in (best_layout, search_remedies, best_fleets)),
    ):
        monkeypatch.setattr(module, of, counting(name, getattr(module, of)))
    return calls


@pytest.mark.share(4)
@pytest.mark.parametrize("model", DEAREST)
def test_remedies_of_a_model_that_does_not_fit_take_few_evaluations_and_no_search(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All layouts need three looks: at both ends of their number, at the rate that they answer, and under the load; a
    plan also one at its chance. A share of the models, unless --whole asks for all.
    """
    answer = predict(preferring(case(f"model={model}")))
    calls = counted(monkeypatch)
    assert with_remedies(answer).remedies
    assert calls["searches"] == 0
    assert calls["layouts"] <= 4 * MOST_FLEETS
    assert calls["plans"] <= 3 * MOST_PLANS


def test_a_limit_that_no_plan_keeps_takes_one_look_at_all_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one replica and with the most; once as the scenario is, and once with narrower weights."""
    answer = predict(preferring(case("limits.memory.at_most=1 %")))
    calls = counted(monkeypatch)
    assert not with_remedies(answer).remedies
    assert calls["layouts"] == 2
    assert calls["plans"] <= MOST_PLANS


def test_remedies_that_end_early_state_their_chance_and_name_the_search(
    monkeypatch: pytest.MonkeyPatch, run: Any
) -> None:
    """Without a look at larger clusters the surest plan of the same GPUs is left."""
    monkeypatch.setattr(serving_remedies, "RemedyTrials", functools.partial(remedy_trials.RemedyTrials, fleets=0))
    asked = (NAME, "--set", "plan.tp=1")
    out = run("estimate", *asked).out
    ((options, chance),) = re.findall(r"try  (--set .*?) {2,}chance to meet all limits: (\d+) %", out)
    again = run("estimate", NAME, *shlex.split(options))
    assert again.code == 0
    (stated,) = re.findall(r"chance ([\d.]+) %", again.out)
    assert float(chance) == pytest.approx(float(stated), abs=0.5)
    assert float(chance) < 90
    (line,) = re.findall(r"^    more with: costmodel (.*)$", out, re.M)
    assert shlex.split(line)[:2] == ["search", NAME]
    assert "plan.tp" not in line


@pytest.mark.share(3)
@pytest.mark.parametrize("model", DEAREST[:3])
def test_remedies_meet_all_limits_with_the_preferred_chance(model: str) -> None:
    """By the chance that an estimate of the plan states; of a share of the models, unless --whole asks for all."""
    answer = with_remedies(predict(preferring(case(f"model={model}"))))
    for (settings,), chance in zip(answer.remedies, answer.chances, strict=True):
        stated = predict(case(f"model={model}", *settings)).costs["limits_chance"]
        assert stated >= 0.9
        assert chance == pytest.approx(stated, abs=1e-6)


@pytest.mark.parametrize("model", ["llama-3.1-70b", pytest.param("deepseek-v3", marks=pytest.mark.whole)])
def test_both_sizes_of_a_larger_cluster_are_named(model: str, run: Any) -> None:
    """The smaller one has the chance that a search with so many nodes finds."""
    out = run("search", NAME, "--set", f"model={model}").out
    ((fewer, less, more, safe),) = re.findall(
        r"(\d+) GPUs: ([\d.]+) % chance; (\d+) GPUs: ([\d.]+) % chance \(--safe off", out
    )
    assert int(fewer) < int(more)
    assert float(less) < 90 <= float(safe)
    assert f"cluster.nodes={int(more) // 8} " in out
    asked = ("--set", f"model={model}", "--set", f"cluster.nodes={int(fewer) // 8}")
    assert re.search(rf" {less} % .*at risk$", run("search", NAME, *asked).out, re.M)


def test_a_rent_that_is_too_high_has_no_chance_beside_it(run: Any) -> None:
    """A rent is not off, so that a chance of 0 % would add nothing to the broken limit."""
    asked = (NAME, "--set", "limits={rent_per_month: {at_most: 20000 USD}}")
    found = run("estimate", *asked).out
    assert "✗ T001" in found
    assert "chance" not in re.sub(r"(?m)^ +(try)? +--set .*", "", found), "but of the change that is cheap enough"
    rows = [line for line in run("search", *asked).out.splitlines() if line.endswith("✗ T001")]
    assert rows
    assert not any(" 0 %" in row for row in rows)
    assert " chance " in run("estimate", NAME).out
