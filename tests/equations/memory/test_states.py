"""Training states: the ZeRO paper's table, Megatron's recipes, what is gathered, what no tensor holds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from costmodel.equations.memory.states import (
    gathered_bytes,
    gradient_bytes,
    gradient_traffic,
    matrices_bytes,
    optimizer_bytes,
    overhead_bytes,
    reserved_bytes,
    weight_bytes,
)

ZERO_PAPER = (2.0, 2.0, 12.0)
MEGATRON = (2.0, 4.0, 12.0)


def states(parameters: Any, dp: Any, zero: Any, recipe: tuple[float, float, float]) -> Any:
    weight, gradient, state = recipe
    return (
        weight_bytes(parameters, weight, weight, dp, zero=zero, sharded_master=False)
        + gradient_bytes(parameters, gradient, dp, zero=zero)
        + optimizer_bytes(parameters, 4.0, state - 4.0, dp, zero=zero)
    )


def shard_by_shard(parameters: int, dp: int, zero: int, recipe: tuple[float, float, float]) -> float:
    """Bytes of rank 0 when every parameter's weight, gradient and state is dealt out in turn."""
    held = 0.0
    for position in range(parameters):
        mine = position % dp == 0
        weight, gradient, state = recipe
        held += weight if zero < 3 or mine else 0.0
        held += gradient if zero < 2 or mine else 0.0
        held += state if zero < 1 or mine else 0.0
    return held


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize("dp", [1, 2, 6])
@pytest.mark.parametrize("recipe", [ZERO_PAPER, MEGATRON])
def test_shards_dealt_out_one_parameter_at_a_time(zero: int, dp: int, recipe: tuple[float, float, float]) -> None:
    assert states(60.0, float(dp), zero, recipe) == shard_by_shard(60, dp, zero, recipe)


@pytest.mark.parametrize(("zero", "gigabytes"), [(0, 120.0), (1, 31.4), (2, 16.6), (3, 1.88)])
def test_the_table_of_the_zero_paper(zero: int, gigabytes: float) -> None:
    """7.5 B on 64 ranks; the paper prints 1.9."""
    assert states(7.5e9, 64.0, zero, ZERO_PAPER) / 1e9 == pytest.approx(gigabytes, abs=0.05)


@pytest.mark.parametrize(("zero", "gigabytes"), [(0, 1120.0), (1, 293.1), (2, 155.3), (3, 17.5)])
def test_70b_on_64_ranks(zero: int, gigabytes: float) -> None:
    assert states(70e9, 64.0, zero, ZERO_PAPER) / 1e9 == pytest.approx(gigabytes, abs=0.05)


def test_weights_alone_are_not_the_states() -> None:
    """280 GB and 4 GB count fp32 weights alone; bf16 weights are 140, the states 1120, or 1260 with fp32 gradients."""
    fp32, bf16 = (
        float(weight_bytes(70e9, element, element, 64.0, zero=0, sharded_master=False)) / 1e9 for element in (4.0, 2.0)
    )
    assert (fp32, bf16) == (280, 140)
    assert states(70e9, 64.0, 0, MEGATRON) / 1e9 == 1260
    assert states(70e9, 64.0, 3, MEGATRON) / 1e9 == pytest.approx(19.7, abs=0.05)


@pytest.mark.parametrize("dp", [1.0, 8.0, 64.0, 1024.0])
def test_megatron_distributed_optimizer(dp: float) -> None:
    """6 + 12/d bytes for bf16, 8 + 8/d for fp32: ZeRO-1 in memory, and never a third of 18."""
    assert states(1.0, dp, 1, MEGATRON) == pytest.approx(6 + 12 / dp)
    assert states(1.0, dp, 1, (4.0, 4.0, 8.0)) == pytest.approx(8 + 8 / dp)
    assert states(1.0, dp, 0, MEGATRON) / states(1.0, dp, 1, MEGATRON) < 3


def test_megatron_at_64() -> None:
    assert states(1.0, 64.0, 0, MEGATRON) / states(1.0, 64.0, 1, MEGATRON) == pytest.approx(2.91, abs=5e-3)


@pytest.mark.parametrize("recipe", [ZERO_PAPER, MEGATRON])
def test_every_stage_saves_and_more_ranks_save_more(recipe: tuple[float, float, float]) -> None:
    dp = 2.0 ** np.arange(1, 12)
    table = np.array([np.broadcast_to(states(1.0, dp, zero, recipe), dp.shape) for zero in range(4)])
    assert np.all(np.diff(table, axis=0) < 0)
    assert np.all(np.diff(table[1:], axis=1) < 0)
    assert len({states(1.0, 1.0, zero, recipe) for zero in range(4)}) == 1, "one rank has nothing to shard over"


def test_fsdp_keeps_an_fp32_shard() -> None:
    """The 16 bytes are 4 + 4 + 8, all sharded; where the 16-bit copy stays whole it comes on top."""
    fsdp = {zero: weight_bytes(64.0, 4.0, 2.0, 64.0, zero=zero, sharded_master=True) for zero in (2, 3)}  # type: ignore[arg-type]
    assert fsdp == {2: 4 + 2 * 64, 3: 4}


def test_units_in_flight_of_llama_3_70b() -> None:
    """A block of 855,654,400 parameters: 1.71 GB, two in flight 3.42, its gradients 1.71 before and while reduced."""
    block = 855_654_400.0
    assert gathered_bytes(block, 2.0, 0.0, 0.0) / 1e9 == pytest.approx(1.71, abs=5e-3)
    assert gathered_bytes(block, 2.0, 0.0, 1.0) / 1e9 == pytest.approx(3.42, abs=5e-3)
    assert gathered_bytes(block, 2.0, 2.0, 1.0) / 1e9 == pytest.approx(3.42 + 2 * 1.71, abs=1e-2)


def test_matrices_in_flight_of_a_530b() -> None:
    """A layer of 12 h² parameters, h = 20480: a third of it is the largest matrix, 1.68e9 parameters."""
    matrix = 4 * 20480.0**2
    assert matrices_bytes(matrix, matrix, 2.0, 2.0) == 4 * matrix
    assert matrices_bytes(matrix, matrix, 2.0, 2.0) < gathered_bytes(3 * matrix, 2.0, 2.0, 0.0) / 4


def test_traffic_is_one_buffer() -> None:
    assert gradient_traffic(8.03e9, 2.0) == 16.06e9


def test_what_no_tensor_holds() -> None:
    assert overhead_bytes(2.0**30, 4.0, 400.0 * 2**20) == 2**30 + 1600 * 2**20
    assert reserved_bytes(40e9, 0.0) == 0
    assert reserved_bytes(40e9, 0.05) == pytest.approx(2e9)
    assert math.isclose(float(overhead_bytes(2.0**30, 0.0, 1e9)), 2**30)
