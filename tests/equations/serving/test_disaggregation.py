"""Prefill and decode apart: DeepSeek's day, transfers layer by layer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.equations.memory.kv_cache import attention_cache_bytes
from costmodel.equations.serving.serving_economics import (
    cache_transfer_time,
    exposed_transfer_time,
    prefill_decode_ratio,
)
from costmodel.equations.serving.steady_state import engine_utilisation


def test_nodes_of_deepseeks_day() -> None:
    """608 G tokens in at 73.7 k a second and node, 168 G out at 14.8 k: 226.75 nodes were in use on average."""
    day = 86_400
    prefill, decode = (
        engine_utilisation(1 / day, tokens / rate) for tokens, rate in ((608e9, 73.7e3), (168e9, 14.8e3))
    )
    assert (prefill, decode) == (pytest.approx(95.5, abs=0.05), pytest.approx(131.4, abs=0.05))
    assert prefill + decode == pytest.approx(226.75, rel=2e-3)
    assert prefill_decode_ratio(608e9, 73.7e3, 168e9, 14.8e3) == pytest.approx(prefill / decode)


def test_ratio_of_instances() -> None:
    assert prefill_decode_ratio(2048.0, 30e3, 512.0, 6e3) == pytest.approx(0.8)


@pytest.mark.parametrize(("rate", "milliseconds"), [(50e9, 53.7), (400e9, 6.71)])
def test_transfer_of_8192_tokens_of_70b(rate: float, milliseconds: float) -> None:
    cache = 80 * attention_cache_bytes(8192.0, 8.0, 128.0, 2.0)
    assert cache / 1e9 == pytest.approx(2.684, abs=5e-4)
    assert float(cache_transfer_time(cache, rate, 400e9)) * 1e3 == pytest.approx(milliseconds, abs=0.05)
    assert float(cache_transfer_time(cache, 400e9, rate)) * 1e3 == pytest.approx(milliseconds, abs=0.05)


def test_a_stream_shows_its_last_layer() -> None:
    assert float(exposed_transfer_time(53.7e-3, 0.39, 80.0)) * 1e3 == pytest.approx(0.671, abs=5e-4)


@settings(max_examples=100)
@given(st.floats(1e-3, 10), st.floats(1e-3, 10), st.integers(1, 120))
def test_exposed_transfer_layer_by_layer(transfer: float, prefill: float, layers: int) -> None:
    """A layer is sent when it is computed and the one before it is sent; (T − P) and a layer of T would be too much."""
    computed, sent = np.arange(1, layers + 1) * prefill / layers, 0.0
    for ready in computed:
        sent = max(sent, float(ready)) + transfer / layers
    found = float(exposed_transfer_time(transfer, prefill, float(layers)))
    assert found == pytest.approx(sent - prefill, rel=1e-9)
    assert found <= transfer / layers + max(0.0, transfer - prefill) + 1e-12
