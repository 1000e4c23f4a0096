"""The critical batch as tokens or by a published fit, with the band of fits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from costmodel.documents.reader.load_scenario import load
from costmodel.estimate.shared.critical_batch import critical_batch, is_fitted
from costmodel.ground.errors import CostModelError

NAME = "llama-3-70b-512"


def tokens(text: str) -> float:
    found = critical_batch(load(NAME, [f"workload.critical_batch={text}"]).scenario.workload)
    assert found is not None
    return float(found)


def test_fits_are_those_published() -> None:
    """Kaplan: 2e8 / L^(1/0.21), 7.4 M tokens at a loss of 2.0; DeepSeek: 0.292 C^0.3271."""
    assert tokens("4 M") == 4e6
    assert tokens("kaplan 2.0") == pytest.approx(2e8 / 2 ** (1 / 0.21))
    assert tokens("kaplan 2.0") == pytest.approx(7.4e6, rel=5e-3)
    assert tokens("deepseek 1e24 FLOP") == pytest.approx(0.292 * 1e24**0.3271)


def test_a_fit_has_a_band_and_tokens_have_none(run: Any) -> None:
    fitted, stated = (
        run("estimate", NAME, "--set", f"workload.critical_batch={text}").out for text in ("kaplan 2.0", "7.37 M")
    )
    assert "7.37 M tokens, by kaplan 2.0" in fitted
    assert "fits differ by up to three times: 1.29 – 3.64 times the steps" in fitted
    assert "1.88 times the least steps" in fitted
    assert "1.88 times the least steps" in stated
    assert "fits differ" not in stated
    workload = load(NAME, ["workload.critical_batch=kaplan 2.0"]).scenario.workload
    assert is_fitted(workload)


def test_a_fit_of_the_best_batch_says_so_and_how_far_off_its_runs_it_is_taken(run: Any) -> None:
    """6.3e24 FLOP are 315,000 times the 2e19 FLOP up to which DeepSeek fitted."""
    far, near, other = (
        run("estimate", NAME, "--set", f"workload.critical_batch={text}").out
        for text in ("deepseek 6.3e24 FLOP", "deepseek 1e19 FLOP", "kaplan 2.0")
    )
    assert ["best batch of a run" in out for out in (far, near, other)] == [True, True, False]
    assert "extrapolated: this work is 315,000 times over its runs" in far
    assert "extrapolated" not in near


def test_scale_counts_steps_by_a_fit(run: Any) -> None:
    by_fit, by_tokens = (
        run("scale", NAME, "--ranks", "512..2048", "--weak", "--set", f"workload.critical_batch={text}").out
        for text in ("kaplan 2.0", "7372000")
    )
    assert "to the loss" in by_fit
    caution = "Critical batches of different fits lie up to 3 times apart."
    assert by_fit.replace(f"{caution}\n", "").splitlines()[-3:-1] == by_tokens.splitlines()[-3:-1]
    assert caution in by_fit
    assert caution not in by_tokens


def test_scale_by_a_fit_of_the_best_batch_says_so(run: Any) -> None:
    stated = ("--set", "workload.critical_batch=deepseek 6.3e24 FLOP", "--json")
    cautions = json.loads(run("scale", NAME, "--ranks", "512,1024", *stated).out)["cautions"]
    assert "best batch of a run" in cautions[1]
    assert "315,000 times over its runs" in cautions[2]


@pytest.mark.parametrize("text", ["kaplan", "kaplan 0", "kaplan 2 GB", "deepseek 2.0", "goyal 3", "kaplan 1e99", "-1"])
def test_what_is_no_critical_batch_is_a_fault(text: str) -> None:
    with pytest.raises(CostModelError) as caught:
        load(NAME, [f"workload.critical_batch={text}"])
    assert caught.value.faults[0].code in ("D007", "D008")


# ── The learning rate for a batch ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("stated", "changes", "rate", "rule"),
    [
        ("{base: 1.5e-4, batch: 256}", (), 1.5e-4 * 2, "square root rule (the rule for adamw)"),  # 1,024 sequences
        ("{base: 1.5e-4, batch: 256, rule: linear}", (), 1.5e-4 * 4, "linear rule (stated)"),
        (
            "{base: 0.1, batch: 256}",
            ("workload.optimizer=sgd-momentum",),
            0.4,
            "linear rule (the rule for sgd-",
        ),
        ("{base: 3e-4, batch: 2097152 tokens}", (), 3e-4 * 2, "square root"),
        ("{base: 3e-4, batch: 4096}", (), 3e-4 / 2, "square root"),
    ],
)
def test_a_learning_rate_follows_the_batch(
    stated: str, changes: tuple[str, ...], rate: float, rule: str, run: Any
) -> None:
    """Linear for SGD (Goyal et al. 2017), the square root for Adam (Malladi et al. 2022)."""
    sets = [word for item in (f"workload.learning_rate={stated}", *changes) for word in ("--set", item)]
    out = run("estimate", NAME, *sets).out
    assert f"learning_rate {rate:.3g} for this batch, by the {rule}" in out


def test_a_batch_over_the_critical_one_is_no_batch_for_the_rule(run: Any) -> None:
    rate = ("--set", "workload.learning_rate={base: 1e-4, batch: 256}")
    words = "the batch is over the critical one"
    assert words in run("estimate", NAME, *rate, "--set", "workload.critical_batch=4 M").out
    assert words not in run("estimate", NAME, *rate, "--set", "workload.critical_batch=16 M").out
