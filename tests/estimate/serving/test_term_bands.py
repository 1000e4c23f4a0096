"""Bands of the terms of a token's time: from the residuals in the efficiency documents, by hand."""

from __future__ import annotations

import math

import pytest

from costmodel.documents.schemas.results import SERVING_RESULTS, banded_results
from estimate.serving.cases import costs

RESIDUALS = {  # median and P90 of efficiencies/h100-sxm.yaml
    "matmul": (0.037, 0.112),
    "attention": (0.073, 0.276),
    "memory_bound": (0.085, 0.291),
    "tp_exposed": (0.038, 0.182),  # of NCCL: wider than 2.7 and 10.2 % of the engine's own
}


def _factor(median: float, p90: float) -> float:
    """How far nine in ten runs are below: half of a normal error lies within 0.674 deviations, nine in ten in 1.645."""
    return math.exp(1.28155 * math.hypot(median / 0.67449, p90 / 1.64485) / math.sqrt(2))


def test_a_term_is_off_by_as_much_as_its_kernels() -> None:
    found = costs()
    for name, residual in RESIDUALS.items():
        assert found[f"{name}_high"] / found[name] == pytest.approx(_factor(*residual), rel=1e-6), name
        assert found[name] / found[f"{name}_low"] == pytest.approx(_factor(*residual), rel=1e-6), name
    parts = [*RESIDUALS, "host_time", "prompts_between"]
    assert sum(found[name] for name in parts) == pytest.approx(found["tpot"])
    assert found["prompts_between_low"] < found["prompts_between"] < found["prompts_between_high"]


@pytest.mark.parametrize(
    ("asked", "without"),
    [
        (("plan.tp=8",), {"host_time"}),
        (("model=qwen-3-30b-a3b", "plan.tp=4"), {"host_time", "matmul"}),  # fused experts in bf16
        (("plan={tp: 16, replicas: 1}",), {"host_time", "tp_exposed"}),  # over the network
        (
            ("plan={prefill: {tp: 4, replicas: 2}, decode: {tp: 8}}",),
            {"host_time", "transfer_time", "transfer_exposed"},
        ),
    ],
)
def test_a_term_that_was_not_measured_has_no_band(asked: tuple[str, ...], without: set[str]) -> None:
    found = costs(*asked)
    assert {
        name
        for name in banded_results(SERVING_RESULTS, "term")
        if found[name] > 0 and math.isnan(found[f"{name}_high"])
    } == without
