"""What was measured, from what is stated: times, memory, and whether it fitted."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.evidence.validate.modelled_rows import modelled
from costmodel.evidence.validate.outcomes import FITS, measured, total_of
from costmodel.evidence.validate.scores import outcomes, score
from evidence.validate.runs_of_22b import EMPTY, SHELF, figure

pytestmark = pytest.mark.usefixtures("in_its_folder")


TOKENS = 4 * 2048
MODEL_FLOP = (
    72 * TOKENS * 48 * 6144**2 * (1 + 2048 / (6 * 6144) + 51200 / (12 * 6144 * 48))
)  # Korthikanti eq. 7 at full


HARDWARE_FLOP = 96 * TOKENS * 48 * 6144**2 * (1 + 2048 / (6 * 6144) + 51200 / (16 * 6144 * 48))  # Narayanan eq. 3
CAUSAL_FLOP = 72 * TOKENS * 48 * 6144**2 * (1 + 2048 / (12 * 6144) + 51200 / (12 * 6144 * 48))
PEAK = 312e12


@pytest.mark.parametrize(
    ("cells", "seconds"),
    [
        ({"tokens_per_s_per_gpu": 512}, TOKENS / 8 / 512),
        ({"tflops_per_gpu": 150, "flops_convention": "HARDWARE incl. full recompute"}, HARDWARE_FLOP / 8 / 150e12),
        ({"tflops_per_gpu": 150, "flops_convention": "model FLOPs, full attention"}, MODEL_FLOP / 8 / 150e12),
        ({"tflops_per_gpu": 150, "flops_convention": "model: causal-halved attention"}, CAUSAL_FLOP / 8 / 150e12),
        ({"tflops_per_gpu": 150, "flops_convention": "full (non-causal) attention"}, MODEL_FLOP / 8 / 150e12),
        ({"tflops_per_gpu": 150}, MODEL_FLOP / 8 / 150e12),
        ({"mfu": 40, "flops_convention": "model FLOPs full attention"}, MODEL_FLOP / 8 / (0.40 * PEAK)),
        ({"mfu": 40, "mfu_peak_tflops": 300}, MODEL_FLOP / 8 / (0.40 * 300e12)),
        ({"hfu": 50}, HARDWARE_FLOP / 8 / (0.50 * PEAK)),
        ({"mfu": 40, "hfu": 50, "tokens_per_s_per_gpu": 512}, TOKENS / 8 / 512),
    ],
)
def test_measured_time_from_what_is_stated(row: Any, cells: dict[str, Any], seconds: float) -> None:
    found = figure(row(**{"step_time_s": EMPTY, **cells}))
    assert found.measured == pytest.approx(seconds, rel=2e-3)
    open_question = {"mfu", "hfu", "tflops_per_gpu"} & set(cells) and "flops_convention" not in cells
    assumed = "tokens_per_s_per_gpu" not in cells and bool(open_question)
    assert ("flops_convention" in found.filled) == assumed


def test_6n_and_korthikanti_are_conventions_too(row: Any) -> None:
    measured = {
        words: figure(row(step_time_s=EMPTY, mfu=40, flops_convention=words)).measured
        for words in ("model 6N+12*L*d*s (full attention)", "MFU model FLOPs=72BLsh^2(1+s/6h+V/12hL)")
    }
    for seconds in measured.values():
        assert seconds == pytest.approx(MODEL_FLOP / 8 / (0.4 * PEAK), rel=0.01)
    assert len(set(measured.values())) == 2


def test_metrics_are_totals_of_the_ledger() -> None:
    totals = {
        "torch.cuda.max_allocated": "memory_allocated",
        "max_allocated of busiest rank (reported 66.55 GiB; reserved 70.88 GiB)": "memory_allocated",
        "mem-max-allocated-bytes (median over steps)": "memory_allocated",
        "peak_memory_usage": "memory_allocated",
        "memory_allocated (steady, between steps)": "memory_states",
        "mem-allocated-bytes (median over steps)": "memory_states",
        "torch.cuda.max_reserved": "memory_reserved",
        "max_reserved, reported 82.4 GiB": "memory_reserved",
        "nvidia-smi used": "memory_peak",
        'reported "Memory (GB)"': "memory_allocated",
        "": "memory_peak",
    }
    assert {metric: total_of(metric) for metric in totals} == totals


def test_memory_is_the_total_its_metric_means(row: Any) -> None:
    ledger = modelled(row(), SHELF).evaluation.ledger
    for metric in ("steady allocated", "max_allocated", "max_reserved", "nvidia-smi used"):
        found = figure(row(value_gb=50, metric=metric), "memory")
        assert (found.quantity, found.measured) == (total_of(metric), 50e9)
        assert found.predicted is not None
        assert found.predicted <= float(ledger.worst[0])
    assert found.predicted == float(ledger.worst[0])
    assert figure(row(peak_mem_gb=50), "memory").measured == 50e9
    assert figure(row(value_gb=50, kind="analytical"), "memory").refused == "V005"
    assert figure(row(micro_batch=EMPTY), "memory").refused == "V005"


def test_a_scope_names_a_stage(row: Any) -> None:
    cells = {"pp": 2, "tp": 4, "micro_batch": 1, "value_gb": 50, "metric": "max_allocated"}
    first, last, worst_ = (
        figure(row(**cells, scope=scope), "memory").predicted
        for scope in ("pp_stage 0/2 (max over its ranks)", "pp_stage 1/2 (max over its ranks)", "max over GPUs")
    )
    assert first is not None
    assert last is not None
    assert first != last
    assert worst_ == max(first, last)
    assert figure(row(**cells, scope="rank 0 log"), "memory").predicted == first


def test_what_ran_fitted(row: Any) -> None:
    assert figure(row(), "memory") == figure(row(fits=1), "memory")
    large = {"tp": 1, "gpus": 1, "zero_stage": 0}
    assert [figure(row(**cells), "memory").predicted for cells in ({}, large)] == [1.0, 0.0]
    found = [
        figure(row(**cells), "memory") for cells in ({}, large, {"fits": 0}, {**large, "fits": 0}, {"value_gb": 9})
    ]
    counts = outcomes(found)
    assert (counts.fit, counts.called_unfit, counts.unfit, counts.called_fit) == (3, 1, 2, 1)
    assert [item.error for item in found[:4]] == [0.0, -1.0, 1.0, 0.0]
    assert score(found).median_error == abs(found[4].error or 0)
    alone = score(found[:4])
    assert (alone.median_error, alone.bias) == (0.5, None)


@pytest.mark.parametrize(
    ("cells", "quantity"),
    [
        (
            {"recompute": "selective", "notes": "selective AC = a fraction of blocks (fraction not stated)"},
            "memory_peak",
        ),
        ({"recompute": "none", "notes": "selective AC = a fraction of blocks (fraction not stated)"}, FITS),
        ({"notes": "value in parentheses (alternative quantisation) of same table row"}, "memory_peak"),
        ({"recompute": ""}, "memory_peak"),
        ({"micro_batch": ""}, "memory_peak"),
        ({}, FITS),
    ],
)
def test_only_what_is_told_shows_what_fits(row: Any, cells: dict[str, Any], quantity: str) -> None:
    assert measured(row(**cells), "memory")[0] == quantity
