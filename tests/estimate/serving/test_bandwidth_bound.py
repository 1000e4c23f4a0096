"""Memory bandwidth bounds the rate of one user: the weights are read for every token."""

from __future__ import annotations

import pytest

from estimate.serving.cases import costs

LIGHT = "workload={kind: serving, prompt: 200, output: 100, rate: 0.01 /s}"
ONE = "cluster={node: dgx-h100, nodes: 1}"


def test_70b_in_fp8_on_one_h100() -> None:
    """70.55 GB less the embedding, of which a token reads one row, and with the head in 16 bits: at 3.35 TB/s 47.5."""
    found = costs(ONE, LIGHT, "workload.precision=fp8", "plan={tp: 1, replicas: 1}", "limits={}")
    layers = 70.553706496e9 - 2 * 128256 * 8192
    read = layers + 2 * 128256 * 8192
    assert found["bandwidth_bound"] == pytest.approx(3.35e12 / read, rel=1e-3)
    assert found["bandwidth_bound"] == pytest.approx(47.5, abs=0.05)
    assert found["tokens_per_s_per_user"] < 47.5


@pytest.mark.parametrize(
    "settings",
    [
        ("plan={tp: 8, pp: 2}",),
        ("plan={tp: 8, replicas: 1}", "workload.weights=int4-g128"),
        ("model=deepseek-v3", "plan={tp: 8, ep: 16, dp_attention: 2}", "workload.precision=fp8"),
        ("model=gpt-oss-120b", "plan={tp: 2, replicas: 1}"),
        ("plan={tp: 8, replicas: 1, speculation: {tokens: 4, chance: 80 %, draft: eagle}}",),
    ],
)
def test_no_prediction_is_beyond_it(settings: tuple[str, ...]) -> None:
    found = costs("cluster={node: dgx-h200, nodes: 2}", LIGHT, "limits={}", *settings)
    assert 0 < found["tokens_per_s_per_user"] < found["bandwidth_bound"]


def test_a_token_reads_the_experts_that_it_goes_to() -> None:
    """gpt-oss-120b has 116.8 G parameters; a token takes 5.1 G of them, whose experts are in mxfp4."""
    found = costs(ONE, LIGHT, "model=gpt-oss-120b", "plan={tp: 1, replicas: 1}", "limits={}")
    assert 2.9e9 < 3.35e12 / found["bandwidth_bound"] < 5.1e9
