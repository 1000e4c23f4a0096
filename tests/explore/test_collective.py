"""One collective of a cluster: the time that a plan pays for it, its levels, and the command that measures it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from costmodel.commands import completion
from costmodel.equations.network.collectives import bus_bandwidth
from costmodel.explore.collective import OPERATIONS, collective
from costmodel.explore.short_form import ScenarioFlags
from costmodel.report.terminal.plan.collective import measuring

Faults = Callable[[Any], Any]
H100 = ScenarioFlags(node="dgx-h100", gpus=64)
ONE_NODE = ScenarioFlags(node="dgx-h100", gpus=8)


@pytest.mark.parametrize(("group", "operation"), [("dp", "all-gather"), ("dp", "reduce-scatter"), ("tp", "all-gather")])
def test_a_collective_takes_what_a_plan_pays_for_it(group: str, operation: str, run: Any) -> None:
    """Data parallelism over all 64 ranks, and tensor parallelism over a node, as comm has them."""
    plan = ("--set", "cluster.nodes=8", "--set", "plan.pp=1", "--set", f"plan.tp={1 if group == 'dp' else 8}")
    found = json.loads(run("comm", "quickstart", *plan, "--json").out)["transfers"]
    (paid,) = [item for item in found if (item["group"], item["operation"]) == (group, OPERATIONS[operation])]
    flags = H100 if group == "dp" else ONE_NODE
    answer = collective(operation, [f"{paid['message_bytes']!r} B"], flags)
    assert answer.rows[-1].time == pytest.approx(paid["time_s"], rel=1e-6)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_larger_buffers_take_longer_at_a_higher_rate(operation: str) -> None:
    for flags in (ONE_NODE, H100):
        rows = collective(operation, ["1GB"], flags).rows
        assert [row.time for row in rows] == sorted(row.time for row in rows)
        assert [row.busbw for row in rows] == sorted(row.busbw for row in rows)
        for row in rows:
            assert row.low < row.time < row.high
            ranks = 2.0 if operation == "send" else float(flags.gpus or 0)
            assert row.busbw == pytest.approx(bus_bandwidth(row.size, ranks, row.time, operation=OPERATIONS[operation]))


def test_levels_bound_the_time() -> None:
    """Between what hides behind the slower level and both one after the other."""
    for row in collective("all-reduce", ["1GB"], H100).rows:
        assert row.inside is not None
        assert row.between is not None
        assert max(row.inside, row.between) <= row.time <= row.inside + row.between


def test_a_tree_is_faster_for_small_buffers_and_a_ring_for_large_ones() -> None:
    algorithms = [row.algorithm for row in collective("all-reduce", ["1GB"], H100).rows]
    assert (algorithms[0], algorithms[-1]) == ("tree", "ring")
    assert algorithms == sorted(algorithms, reverse=True)


def test_inside_a_domain_nothing_goes_between() -> None:
    answer = collective("all-reduce", ["1GB"], ONE_NODE)
    assert (answer.domains, answer.inside, [row.between for row in answer.rows]) == (1, 8, [None] * 6)


@pytest.mark.parametrize(
    ("operation", "sizes", "flags", "command"),
    [
        ("all-reduce", ["1GiB"], ONE_NODE, "all_reduce_perf -b 32768 -e 1073741824 -f 8 -g 8"),
        ("all-gather", ["64MiB"], H100, "mpirun -np 64 -N 8 all_gather_perf -b 2048 -e 67108864 -f 8 -g 1"),
        ("all-to-all", ["1MiB", "2MiB", "4MiB"], ONE_NODE, "alltoall_perf -b 1048576 -e 4194304 -f 2 -g 8"),
        ("send", ["1MB", "9MB", "10MB"], ONE_NODE, "sendrecv_perf -b 1000000 -e 10000000 -f 2 -g 2"),
        ("reduce-scatter", ["1KiB"], ONE_NODE, "reduce_scatter_perf -b 1024 -e 1024 -g 8"),
    ],
)
def test_the_command_measures_these_sizes(operation: str, sizes: list[str], flags: ScenarioFlags, command: str) -> None:
    assert measuring(collective(operation, sizes, flags)) == command


def test_the_answer_names_machine_levels_and_algorithm(run: Any) -> None:
    shown = run("collective", "all-reduce", "1GB", "--gpus", "64", "--node", "dgx-h100").out
    assert shown.startswith("all-reduce on 64 × h100-sxm, 8 × dgx-h100\n")
    assert "8 over nvlink4 · 8 domains over ib-ndr" in shown
    assert re.search(r"1\.00 GB +\S+ ms +\S+ – \S+ ms", shown)
    assert "Measure: mpirun" in shown


def test_without_a_machine_it_is_one_node_of_h100(run: Any) -> None:
    assert run("collective", "send", "1GB").out.startswith("send on 8 × h100-sxm, 1 × dgx-h100\n")
    assert run("collective", "send", "1GB", "--set", "cluster.nodes=2").out.startswith("send on 16 × h100-sxm")


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (("broadcast", "1GB"), "C003"),
        (("all-reduce", "much"), "D007"),
        (("all-reduce", "1 s"), "D007"),
        (("all-reduce", "1 B"), "D008"),
        (("all-reduce", "1GB", "--gpus", "12"), "C004"),
        (("all-reduce", "1GB", "--gpu", "h1000"), "D009"),
    ],
)
def test_a_fault(given: tuple[str, ...], code: str, run: Any, faults: Faults) -> None:
    assert faults(run("collective", *given))[0].code == code


def test_every_operation_is_completed() -> None:
    assert completion.collectives("") == list(OPERATIONS)
