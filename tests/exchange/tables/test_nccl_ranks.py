"""Ranks of nccl-tests from the ratio of their rates, where no line states them."""

from __future__ import annotations

import pytest

from costmodel.exchange.tables.nccl_tests import nccl_remarks, nccl_rows, possible_ranks
from costmodel.ground.errors import CostModelError

HEADER = "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"


def text(ranks: int, passes: float = 2, redop: str = "sum") -> str:
    """What all_reduce_perf prints of rates that lie near those of 16 A100, without its lines on ranks."""
    lines = []
    for size, time in ((1073741824, 11774.0), (10737418240, 111915.0)):
        rate = size / time / 1e3
        bus = rate * passes * (ranks - 1) / ranks
        lines.append(f"  {size}  {size // 4}  float  {redop}  -1  {time:.1f}  {rate:.2f}  {bus:.2f}  0\n")
    return HEADER + "".join(lines) + "# Avg bus bandwidth    : 175.531\n"


@pytest.mark.parametrize("ranks", [2, 4, 8, 16, 24, 64, 128])
def test_the_ratio_of_two_rates_gives_the_ranks(ranks: int) -> None:
    rows = nccl_rows("all_reduce_perf.txt", text(ranks), per_node=8)
    assert {row.number("gpus") for row in rows} == {ranks}
    assert {row.number("nodes") for row in rows} == {max(1, ranks // 8)}
    assert {row.text("op") for row in rows} == {"all_reduce"}
    [remark] = nccl_remarks("all_reduce_perf.txt", text(ranks), rows)
    assert f"{ranks} ranks, from busbw over algbw" in remark


@pytest.mark.parametrize(("ranks", "per_node"), [(16, 0), (4096, 8)])
def test_without_a_node_or_a_ratio_that_decides_the_text_is_refused(ranks: int, per_node: int) -> None:
    with pytest.raises(CostModelError) as caught:
        nccl_rows("all_reduce_perf.txt", text(ranks), per_node=per_node)
    assert caught.value.faults[0].code == "D015"


def test_rates_of_other_operations_are_taken_at_their_own_factor() -> None:
    """An all-gather carries what all but one rank hold once, so its ratio is under 1."""
    rows = nccl_rows("all_gather_perf.txt", text(16, 1, "none"), per_node=8)
    assert {row.number("gpus") for row in rows} == {16}
    assert possible_ranks([(100.0, 100.0)], 1, 8) == []  # no number of ranks carries all of it
