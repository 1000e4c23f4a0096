"""Narrow types counted bit by bit, and checkpoints of known size."""

from __future__ import annotations

import pytest

from costmodel.equations.kernels.roofline import stream_time
from costmodel.equations.layers.parameters import adapter_parameters, mlp_parameters, packed_bytes
from costmodel.equations.run.economics import rate
from costmodel.equations.serving.engine_step import eager_launch_time, mixed_weight_bytes, scaled_element_bytes

GIB = 2.0**30


@pytest.mark.parametrize(
    ("bits", "scale_bits", "group", "wanted"),
    [
        (8, 0, 1, 1.0),  # fp8 with a scale for a whole tensor
        (8, 32, 128 * 128, 1.000244),  # fp8 by blocks
        (4, 16 + 4, 128, 0.51953),  # int4, 16-bit scale, 4-bit zero point
        (4, 8, 16, 0.5625),  # nvfp4
        (4, 8, 32, 0.53125),  # mxfp4
    ],
)
def test_bytes_of_an_element(bits: int, scale_bits: int, group: int, wanted: float) -> None:
    assert scaled_element_bytes(bits / 8, scale_bits / 8, float(group)) == pytest.approx(wanted, rel=1e-5)
    whole = (bits * group + scale_bits) / 8  # bytes of a group
    assert scaled_element_bytes(bits / 8, scale_bits / 8, float(group)) == pytest.approx(whole / group)


def test_scales_of_scales_are_what_is_left_to_normal_float() -> None:
    alone = packed_bytes(1.0, 0.5, 1.0, 64.0, 1e18)
    assert scaled_element_bytes(0.5, 1.0, 64.0) == pytest.approx(alone)


def test_checkpoint_of_gpt_oss_120b() -> None:
    """36 layers of 128 experts in mxfp4, all else and the experts' biases in bf16: the model card has 60.8 GiB."""
    experts = 36 * 128 * mlp_parameters(2880.0, 2880.0, gated=True, biases=True)
    assert experts / 1e9 == pytest.approx(114.7, abs=0.05)
    matrices = 36 * 128 * mlp_parameters(2880.0, 2880.0, gated=True, biases=False)
    checkpoint = mixed_weight_bytes(116.829e9, matrices, scaled_element_bytes(0.5, 1.0, 32.0), 2.0)
    assert float(checkpoint) / GIB == pytest.approx(60.8, rel=5e-3)


def test_405b_needs_two_machines_in_bf16_and_one_in_fp8() -> None:
    """8 H100 of 80 GiB are 687 GB; the Llama 3 paper serves it on 16."""
    bf16, fp8 = (float(mixed_weight_bytes(405.85e9, 405.85e9, element, 2.0)) for element in (2.0, 1.0))
    assert bf16 / 1e9 == pytest.approx(811.7, abs=0.05)
    assert fp8 < 8 * 80 * GIB < bf16 < 16 * 80 * GIB
    assert bf16 / 16 / GIB == pytest.approx(47.25, abs=0.005)


def linear_maps(hidden: float, width: float, kv_width: float, ffn_hidden: float) -> list[tuple[float, float]]:
    """Outputs and inputs of the seven linear maps of a Llama layer."""
    attention = [(width, hidden), (kv_width, hidden), (kv_width, hidden), (hidden, width)]
    return [*attention, (ffn_hidden, hidden), (ffn_hidden, hidden), (hidden, ffn_hidden)]


def adapted(layers: int, rank: float, maps: list[tuple[float, float]]) -> float:
    return float(layers * sum(adapter_parameters(rank, n, k) for n, k in maps))


def test_adapters_of_an_engine() -> None:
    """All linear maps: 41.9 M at rank 16 on an 8B; eight slots at rank 64 on a 70B take 13.3 GB from the cache."""
    small, large = linear_maps(4096, 4096, 1024, 14_336), linear_maps(8192, 8192, 1024, 28_672)
    assert adapted(32, 16.0, small) / 1e6 == pytest.approx(41.94, abs=0.005)
    assert 2 * adapted(32, 16.0, small) / 1e6 == pytest.approx(83.9, abs=0.05)
    assert 2 * adapted(80, 16.0, large) / 1e6 == pytest.approx(414, abs=0.5)
    slots = 8 * 2 * adapted(80, 64.0, large)
    assert slots / 1e9 == pytest.approx(13.25, abs=0.005)
    assert slots / 327_680 == pytest.approx(40_448)


def test_what_an_adapter_costs_in_launches() -> None:
    """lorax issue 333: 69 to 35 tokens a second on 32 layers of seven maps, 63 us a map: launches, not work."""
    added = 62.8e-6
    step = rate(1.0, 69.0) + eager_launch_time(32.0, 7.0, added)
    assert rate(1.0, step) == pytest.approx(35, abs=0.05)
    pair = 2 * adapted(32, 16.0, linear_maps(4096, 4096, 1024, 14_336)) / 32 / 7  # bytes of a map's two thin matrices
    assert float(stream_time(pair, 1.555e12, 1.0)) < 0.01 * added
