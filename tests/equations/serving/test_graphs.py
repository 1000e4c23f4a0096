"""Captured sizes as the engine lists them, and steps that the host or the device bounds."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.equations.kernels.roofline import host_bound_time, stream_time
from costmodel.equations.serving.step.graphs import captured_batch, captured_sizes, eager_launch_time


def sizes(largest: int) -> list[int]:
    """vLLM's default list: 1, 2, 4, then by 8 below 256, then by 16."""
    return [size for size in (1, 2, 4, *range(8, 256, 8), *range(256, 1025, 16)) if size <= largest]


@pytest.mark.parametrize("largest", [1, 2, 3, 4, 7, 8, 48, 100, 256, 500, 512, 1024])
def test_sizes_are_as_vllm_lists_them(largest: int) -> None:
    assert float(captured_sizes(float(largest))) == len(sizes(largest))


@pytest.mark.parametrize("largest", [100, 256, 512])
def test_batches_are_padded_to_the_next_size(largest: int) -> None:
    batches = np.arange(1, 700)
    wanted = [next((size for size in sizes(largest) if size >= batch), batch) for batch in batches]
    np.testing.assert_array_equal(captured_batch(batches.astype(float), float(largest)), wanted)


def test_51_sizes_and_the_padding_of_130_and_300() -> None:
    assert float(captured_sizes(512.0)) == 51
    assert [float(captured_batch(batch, 512.0)) for batch in (130.0, 300.0)] == [136, 304]


def test_a_model_of_1b_is_bound_by_the_host() -> None:
    """2.47 GB are read in 0.87 ms; 16 layers of 14 launches of 6 us take 1.34 ms."""
    device = stream_time(2.47e9, 3.35e12, 0.845)
    host = float(eager_launch_time(16.0, 14.0, 6e-6))
    assert (device * 1e3, host * 1e3) == (pytest.approx(0.873, abs=5e-4), pytest.approx(1.344))
    assert host < float(host_bound_time(device, host)) < device + host
