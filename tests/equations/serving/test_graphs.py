"""Steps that the host or the device bounds, without captured graphs."""

from __future__ import annotations

import pytest

from costmodel.equations.kernels.roofline import host_bound_time, stream_time
from costmodel.equations.serving.engine_step import eager_launch_time


def test_a_model_of_1b_is_bound_by_the_host() -> None:
    """2.47 GB are read in 0.87 ms; 16 layers of 14 launches of 6 us take 1.34 ms."""
    device = stream_time(2.47e9, 3.35e12, 0.845)
    host = float(eager_launch_time(16.0, 14.0, 6e-6))
    assert (device * 1e3, host * 1e3) == (pytest.approx(0.873, abs=5e-4), pytest.approx(1.344))
    assert host < float(host_bound_time(device, host)) < device + host
