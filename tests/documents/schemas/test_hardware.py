"""Facts of hardware against each other: rates from clocks, links of a pair, the order they are listed in."""

from __future__ import annotations

import pytest
from each import each

from costmodel.documents.reader.find_documents import by_maker
from costmodel.documents.reader.library import names, read

# FLOP of a clock and SM in 16 bits, accumulating in fp32, as NVIDIA's white papers draw the tensor cores. A GeForce and
# what is cut for one market have half of what their chip could do.
TENSOR_FLOP = {
    512: "rtx2080ti rtx3090 a10g rtx4090 rtx5090",
    1024: "t4 rtx8000 a10 a40 a6000 l4 l40s rtx6000-ada rtx-pro-6000 rtx-pro-6000-max-q rtx-pro-6000-server",
    2048: "a30 a100-pcie-40 a100-pcie-80 a100-sxm-40 a100-sxm-80 a800-sxm-80",
    4096: "h100-pcie h100-sxm h800-sxm h200-sxm gh200-96 gh200-144",
}


@each("flop, name", [(flop, name) for flop, parts in TENSOR_FLOP.items() for name in parts.split()])
def test_peak_is_what_the_tensor_cores_do_at_the_clock(flop: int, name: str) -> None:
    chip = read("accelerator", name)
    assert chip.peak.wide == pytest.approx(chip.chip.units * float(chip.chip.clock) * flop, rel=0.015)


@each("name", names("accelerator"))
def test_fp8_is_twice_as_fast_at_most(name: str) -> None:
    """A sparse rate beside a dense one would be four times as fast; a few parts are made for narrow types."""
    peak = read("accelerator", name).peak
    if peak.fp8 and name not in {"rubin", "mi455x", "tpu-8t", "trn3"}:
        assert 0.99 < peak.fp8 / peak.wide < 2.05


@each("name", names("node"))
def test_a_pair_has_no_more_than_all_links(name: str) -> None:
    node = read("node", name)
    full, pair = read("fabric", node.scale_up.fabric).bandwidth, node.scale_up.pair_bandwidth
    if node.scale_up.topology != "switch" and node.accelerators > 1:
        assert 0 < pair <= full


def test_hardware_is_listed_by_maker_and_generation() -> None:
    chips = [read("accelerator", name) for name in by_maker("accelerator")]
    assert [(chip.vendor, chip.year) for chip in chips] == sorted((chip.vendor, chip.year) for chip in chips)
    nodes = [read("node", name) for name in by_maker("node")]
    keys = [(node.provider.casefold(), read("accelerator", node.accelerator).year) for node in nodes]
    assert keys == sorted(keys)
    assert [sorted(by_maker(kind)) for kind in ("accelerator", "node", "model")] == [
        names(kind) for kind in ("accelerator", "node", "model")
    ]
