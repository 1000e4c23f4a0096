"""Bytes of products in narrow types against counts by hand."""

from __future__ import annotations

import pytest

from costmodel.equations.kernels.memory_traffic import linear_inputs, matmul_bytes, narrow_copy_bytes, quantise_traffic
from costmodel.equations.memory.states import gradient_bytes, optimizer_bytes, weight_bytes


def test_narrow_operands_halve_what_is_read_and_not_what_is_written() -> None:
    m, n, k = 4096.0, 5120.0, 8192.0
    assert matmul_bytes(m, n, k, 2.0, 2.0) - matmul_bytes(m, n, k, 1.0, 2.0) == m * k + k * n


def test_conversion_of_an_input_reads_two_and_writes_two_copies() -> None:
    tokens, hidden = 8192.0, 4096.0
    assert quantise_traffic(tokens * hidden, 4.0) == 2 * tokens * hidden + 2 * (1 * tokens * hidden)


def test_bytes_of_a_parameter_with_cached_copies() -> None:
    """Transformer Engine's default: 2 + 1 + 1 of weights, 4 of gradients, 12 of master and moments: 20."""
    parameters = 1e9
    weights = weight_bytes(parameters, 2.0, 2.0, 1.0, zero=0, sharded_master=False)
    copies = narrow_copy_bytes(parameters, 2.0, 1.0, sharded=False)
    gradients = gradient_bytes(parameters, 4.0, 1.0, zero=0)
    states = optimizer_bytes(parameters, 4.0, 8.0, 1.0, zero=0)
    assert (weights + copies) / parameters == 4
    assert (weights + copies + gradients + states) / parameters == 20


def test_inputs_of_a_layer() -> None:
    """Two of the stream, cut with the sequence, and the inner ones, which are not."""
    assert linear_inputs(10.0, 64.0, 2.0, 256.0, 1.0, 4.0) == 10 * (2 * 64 / 4 + 256)
    assert linear_inputs(10.0, 64.0, 2.0, 256.0, 1.0, 1.0) == pytest.approx(10 * (2 * 64 + 256))
