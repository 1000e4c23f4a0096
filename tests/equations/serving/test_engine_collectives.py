"""All-reduces of engines and dispatch of experts: published figures."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.equations.kernels.flop import matmul_flop
from costmodel.equations.kernels.roofline import stream_time
from costmodel.equations.layers.experts import dispatch_bytes, routed_rows
from costmodel.equations.network.collectives import (
    activation_message,
    algorithm_bandwidth,
    blended_time,
    group_latency,
    wire_bytes,
)
from costmodel.equations.run.economics import communication_efficiency
from costmodel.equations.serving.engine_step import engine_all_reduce_time, scaled_element_bytes

FITTED = (4.15e-6, 0.11e-6, 263e9, 0.32e6)  # of an H100's, from the kernel tables of aiconfigurator 0.12


def own(message: float, ranks: float = 8.0) -> float:
    return float(engine_all_reduce_time(message, ranks, *FITTED))


def nccl(message: float, ranks: float = 8.0) -> float:
    latency = group_latency(ranks, 4.75e-6, 1.56e-6)
    return float(blended_time(latency, wire_bytes(message, ranks, operation="all_reduce"), 375e9, 1.0))


def test_all_reduces_of_70b_on_8_gpus() -> None:
    message = activation_message(64.0, 8192.0, 2.0)
    assert message / 1e6 == pytest.approx(1.0486, abs=5e-5)
    assert (own(message) * 1e6, nccl(message) * 1e6) == (pytest.approx(13.1, abs=0.05), pytest.approx(29.3, abs=0.05))
    assert (160 * own(message) * 1e3, 160 * nccl(message) * 1e3) == (
        pytest.approx(2.10, abs=0.005),
        pytest.approx(4.69, abs=0.005),
    )
    assert (own(16_384.0) * 1e6, nccl(16_384.0) * 1e6) == (pytest.approx(5.4, abs=0.05), pytest.approx(16.8, abs=0.05))


def test_a_group_of_one_sends_nothing() -> None:
    assert own(1e6, 1.0) == 0


def test_one_shot_for_small_messages_two_for_large_ones() -> None:
    """Seven whole buffers, or two times 7/8 of one and what the second step costs; they meet once."""
    messages = np.geomspace(1e3, 1e8, 200)
    moved = (np.asarray(engine_all_reduce_time(messages, 8.0, *FITTED)) - 4.92e-6) * 263e9
    meets = 0.32e6 / (7 - 1.75)
    np.testing.assert_allclose(moved, np.where(messages < meets, 7 * messages, 1.75 * messages + 0.32e6), rtol=1e-6)
    assert algorithm_bandwidth(1e9, own(1e9)) < 263e9


def test_interview_case() -> None:
    """tp 4, 32 sequences of 100 tokens, hidden 4,096, 32 layers in bf16: 64 all-reduces a forward of 26.2 MB."""
    message = activation_message(32 * 100.0, 4096.0, 2.0)
    assert message / 1e6 == 26.2144
    assert 64 * message / 1e9 == pytest.approx(1.6777, abs=5e-5)
    assert 64 * wire_bytes(message, 4.0, operation="all_reduce") / 1e9 == pytest.approx(2.5166, abs=5e-5)


@pytest.mark.parametrize(
    ("rate", "bus", "efficiency"), [(0.784 * 312e12, 232e9, 0.80), (0.776 * 989.4e12, 375e9, 0.67)]
)
def test_tp_4_reaches_80_percent_on_a100_and_67_on_h100(rate: float, bus: float, efficiency: float) -> None:
    """Prefill of 3,200 tokens on a 7B, nothing hidden."""
    message = activation_message(3200.0, 4096.0, 2.0)
    sent = 64 * wire_bytes(message, 4.0, operation="all_reduce") / bus
    compute = matmul_flop(3200.0, 6.48e9, 1.0) / (4 * rate)
    assert communication_efficiency(compute, sent) == pytest.approx(efficiency, abs=0.01)


@pytest.mark.parametrize(
    ("element", "rate", "published"),
    [("fp8", 98e9, 77), ("bf16", 127e9, 114), ("fp8", 43e9, 173), ("bf16", 46e9, 314)],
)
def test_deepep_low_latency(element: str, rate: float, published: float) -> None:
    """DeepEP's table of low-latency kernels: 128 tokens, top 8, hidden 7,168; dispatch in fp8, combine in bf16."""
    width = scaled_element_bytes(1.0, 4.0, 128.0) if element == "fp8" else 2.0
    message = activation_message(routed_rows(128.0, 8.0, 1.0, 1.0), 7168.0, width)
    if element == "fp8":
        assert message / 1e6 == pytest.approx(7.569, abs=5e-4)
        assert dispatch_bytes(128.0, 7168.0, 8.0, 8.0, width) == pytest.approx(message * 7 / 8)  # its own rank's stay
    assert stream_time(message, rate, 1.0) * 1e6 == pytest.approx(published, rel=0.025)


def test_58_layers_of_ep_64_take_28_ms_if_nothing_hides() -> None:
    """DeepEP's bandwidths of EP64; with its published times, 173 and 314 us, it is 28.2 ms."""
    rows = routed_rows(128.0, 8.0, 1.0, 1.0)
    kernels = ((scaled_element_bytes(1.0, 4.0, 128.0), 43e9), (2.0, 46e9))
    times = [float(stream_time(activation_message(rows, 7168.0, width), rate, 1.0)) for width, rate in kernels]
    assert 58 * sum(times) * 1e3 == pytest.approx(28.2, rel=0.025)


def test_tensor_parallelism_of_70b_beside_the_read_of_its_weights() -> None:
    """An eighth of the weights takes 6.23 ms; with 160 all-reduces of 64 sequences that is 7,684 tokens a second."""
    read = stream_time(141.1e9 / 8, 3.35e12, 0.845)
    assert read * 1e3 == pytest.approx(6.23, abs=0.005)
    assert 64 / (read + 160 * own(activation_message(64.0, 8192.0, 2.0))) == pytest.approx(7684, abs=5)
