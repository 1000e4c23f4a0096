"""Execution traces of Chakra: protobuf and JSON alike, terms of a step, and bytes that are no trace."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.exchange.logs.chakra_trace import chakra_nodes
from costmodel.exchange.logs.profiler_trace import profiled_step
from costmodel.ground.errors import CostModelError

DEGREES = {"tp": 8.0, "dp": 4.0, "pp": 1.0}
# name, type, start and length in microseconds, whether on the host, process group
Row = tuple[str, int, int, int, bool, str]
ROWS: list[Row] = [
    ("aten::mm", 4, 0, 9, True, ""),
    ("sm90_xmma_gemm_bf16bf16", 4, 0, 40, False, ""),
    ("ncclDevKernel_AllGather_RING_LL", 7, 30, 30, False, "mesh_tp"),
    ("ncclDevKernel_ReduceScatter_Sum", 7, 45, 10, False, "mesh_dp_shard"),
    ("flash_fwd_kernel", 4, 60, 20, False, ""),
    ("triton_poi_fused_add", 4, 80, 10, False, ""),
    ("multi_tensor_apply_kernel", 4, 90, 5, False, ""),
]
STEP: Row = ("ProfilerStep#1", 4, 0, 100, True, "")


def varint(value: int) -> bytes:
    pieces = []
    while value >= 0x80:
        pieces.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*pieces, value])


def part(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def encoded(rows: list[Row], *, starts: bool) -> bytes:
    """What protobuf writes of such nodes, with fields of other types between them."""
    found = [part(1, b"0.0.4")]
    for place, (name, kind, start, length, host, group) in enumerate(rows):
        attributes = [part(1, b"is_cpu_op") + part(27, int(host)), part(1, b"rf_id") + part(9, 2**64 - 1)]
        attributes += [part(1, b"cost") + varint(3 << 3 | 1) + struct.pack("<d", 0.5)]
        attributes += [part(1, b"pg_name") + part(29, group.encode())] if group else []
        fields = [part(1, place), part(2, name.encode()), part(3, kind), part(7, length), part(8, part(1, b"[]"))]
        fields += [part(6, start + 1)] if starts else []
        found.append(b"".join([*fields, *(part(10, each) for each in attributes)]))
    return b"".join(varint(len(message)) + message for message in found)


def jsonized(rows: list[Row]) -> str:
    """What Chakra's jsonizer writes of them: one value after the other, 64-bit integers as texts."""
    kinds = {4: "COMP_NODE", 7: "COMM_COLL_NODE"}
    trees: list[dict[str, Any]] = [{"version": "0.0.4"}]
    for place, (name, kind, _, length, host, group) in enumerate(rows):
        attributes = [{"name": "is_cpu_op", "boolVal": host}]
        attributes += [{"name": "pg_name", "stringVal": group}] if group else []
        trees.append(
            {"id": str(place), "name": name, "type": kinds[kind], "durationMicros": str(length), "attr": attributes}
        )
    return "".join(json.dumps(tree, indent=1) for tree in trees)


def graph(rows: list[Row]) -> str:
    found = [
        {"Id": place, "Name": name, "NodeType": kind, "runtime": length, "is_cpu_op": host}
        for place, (name, kind, _, length, host, _) in enumerate(rows)
    ]
    return json.dumps({"workload_graph": found})


def written(folder: Path, data: bytes | str) -> str:
    path = folder / "chakra.0.et"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return str(path)


SUMS = {"matmul": 40, "attention": 20, "memory_bound": 10, "optimizer": 5, "tp_time": 30, "dp_time": 10}


def test_sums_without_start_times(tmp_path: Path) -> None:
    for data in (encoded(ROWS, starts=False), jsonized(ROWS)):
        found = profiled_step(written(tmp_path, data), DEGREES)
        assert found.terms == {name: pytest.approx(value * 1e-6) for name, value in SUMS.items()}
        assert math.isnan(found.step)
    of_graph = profiled_step(written(tmp_path, graph(ROWS)), DEGREES)
    assert of_graph.terms["matmul"] == pytest.approx(40e-6)
    assert not [name for name in of_graph.terms if name.endswith("_time")], "its groups have no name"
    assert any("no axis" in note for note in of_graph.notes)


def test_two_steps_are_halved(tmp_path: Path) -> None:
    marks = [STEP, ("ProfilerStep#2", 4, 0, 0, True, "")]
    found = profiled_step(written(tmp_path, encoded([*marks, *ROWS], starts=False)), DEGREES)
    assert found.terms["matmul"] == pytest.approx(20e-6)


def test_with_start_times_it_is_a_profile(tmp_path: Path) -> None:
    """Of 30 us of tp 10 run beside products and 10 beside dp, which counts as exposed."""
    found = profiled_step(written(tmp_path, encoded([STEP, *ROWS], starts=True)), DEGREES)
    assert found.step == pytest.approx(100e-6)
    assert found.terms["tp_exposed"] == pytest.approx(10e-6)
    assert found.terms["dp_exposed"] == pytest.approx(10e-6)
    assert found.terms["launch"] == pytest.approx(5e-6)


def test_a_trace_of_the_host_alone_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(CostModelError) as error:
        profiled_step(written(tmp_path, encoded(ROWS[:1], starts=False)), DEGREES)
    assert error.value.faults[0].code == "X002"


def test_diagnose_takes_the_terms_beside_a_stated_step(tmp_path: Path, run: Any) -> None:
    path = written(tmp_path, encoded(ROWS, starts=False))
    alone = run("diagnose", "quickstart", "--trace", path)
    assert (alone.code, "C023" in alone.err) == (2, True)
    beside = run("diagnose", "quickstart", "--step", "60s", "--trace", path)
    assert beside.code == 1
    assert "Chakra" in beside.out


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 400), st.integers(0, 255))
def test_damaged_bytes_are_a_fault_or_a_step(noise: bytes, at: int, byte: int) -> None:
    whole, codes = encoded(ROWS, starts=True), list[str]()
    for data in (noise, whole[:at], whole[:at] + bytes([byte]) + whole[at + 1 :], whole + noise, b"{" + noise):
        try:
            chakra_nodes("x.et", data)
        except CostModelError as error:
            codes.append(error.faults[0].code)
    assert {*codes} <= {"X001"}
