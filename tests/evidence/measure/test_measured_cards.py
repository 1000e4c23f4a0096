"""Two cards that nothing was fitted to: what `measure` found on them beside the constants in use."""

from __future__ import annotations

import csv
import functools
from pathlib import Path

import pytest

from costmodel.evidence.calibrate.fit_from_kernels import Fit, calibrated
from costmodel.evidence.calibrate.fit_from_runs import decide

MEASURED = Path(__file__).parents[1] / "measured"
CARDS = ("h100-sxm", "h200-sxm")


@functools.cache
def _fits(card: str) -> dict[tuple[str, str, str], Fit]:
    found = calibrated([str(MEASURED / f"{card}.csv")])
    assert all(decision.fit.sample.of == card for decision in decide(found, replace=False))
    return {
        (fit.sample.key.part, fit.sample.key.entry, fit.sample.key.detail): fit
        for fit in found.fits
        if fit.sample.form.title in ("rounded roofline", "both products of backward", "start and bytes")
    }


@pytest.fixture(autouse=True)
def _one_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("costmodel.evidence.calibrate.regression.DRAWS", 1)


@pytest.mark.parametrize("card", CARDS)
def test_products_in_use_hold_on_a_card_of_nobodys_table(card: str) -> None:
    """The figures of docs/guide/calibrate.md."""
    now = _fits(card)["matmul", "bf16", ""].now
    assert now
    assert now.median < 0.07
    assert now.p90 < 0.125
    assert -0.05 < now.bias < 0


@pytest.mark.parametrize("card", CARDS)
def test_what_is_measured_shows_the_bandwidth(card: str) -> None:
    """Weights are read at less than the peak of the datasheet, and at more than three quarters of it."""
    fit = _fits(card)["matmul", "bf16", ""]
    assert 0.8 < fit.constants["memory_share"] < 0.95
    assert fit.outside
    assert fit.outside.median < 0.04


@pytest.mark.parametrize("card", CARDS)
def test_small_operators_show_the_gpu_and_not_its_host(card: str) -> None:
    """A host issues a backward operator in some 40 us; the GPU is done in 6 to 9."""
    with (MEASURED / f"{card}.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["op"] == "gelu"]
    least = min(float(row["bwd_us"]) for row in rows)
    assert least < 10
    assert all(1.2 < float(row["bwd_us"]) / float(row["fwd_us"]) < 1.6 for row in rows)


@pytest.mark.parametrize("card", CARDS)
def test_layers_are_near_the_sum_of_their_parts(card: str) -> None:
    with (MEASURED / f"{card}.csv").open(newline="") as file:
        blocks = [row for row in csv.DictReader(file) if row["op"] == "block" and int(row["dim"]) >= 2048]
    assert len(blocks) == 4
    for row in blocks:
        assert float(row["predicted_fwd_us"]) == pytest.approx(float(row["fwd_us"]), rel=0.11)
        assert float(row["predicted_bwd_us"]) == pytest.approx(float(row["bwd_us"]), rel=0.09)
