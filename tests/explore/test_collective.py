"""One collective of a cluster: the time that a plan pays for it, its levels, and the command that measures it."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costmodel.commands import completion
from costmodel.equations.network.collectives import bus_bandwidth
from costmodel.explore.collective import OPERATIONS, collective
from costmodel.explore.explain.word_explanations import page
from costmodel.explore.scenario_from_flags import ScenarioFlags
from costmodel.report.answers.collective import collective_json, nccl_tests_command

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
    assert answer.rows[-1].in_step == pytest.approx(paid["time_s"], rel=1e-6)


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
    assert algorithms[0] == "tree"
    assert "tree" not in algorithms[4:]


@pytest.mark.parametrize(
    ("node", "gpus", "size", "algorithm", "measured"),
    [  # busbw in GB/s: ml-engineering network, GTC charts, AWS and OCI nccl-tests
        ("dgx-h100", 8, "16GiB", None, 480),
        ("dgx-h100", 8, "16GiB", "ring", 367),
        ("neocloud-b200", 8, "8GiB", None, 838),
        ("dgx-a100", 8, "16GiB", None, 232),
        ("dgx-a100", 32, "16GiB", None, 192),
        ("dgx-h100", 32, "16GiB", None, 370),
        ("dgx-h100", 32, "16GiB", "sharp", 480),
        ("p4de", 16, "2GiB", None, 78.3),
        ("p5", 16, "16GiB", None, 487),
        ("p6-b200", 32, "16GiB", None, 381.8),
    ],
)
def test_large_all_reduces_alone_reach_what_was_measured(
    node: str, gpus: int, size: str, algorithm: str | None, measured: float
) -> None:
    found = collective("all-reduce", [size, "1MB"], ScenarioFlags(node=node, gpus=gpus), algorithm=algorithm)
    assert found.rows[-1].busbw / 1e9 == pytest.approx(measured, rel=0.12)


@pytest.mark.parametrize(
    ("operation", "node", "gpus", "algorithm", "link", "bytes_over_it"),
    [  # a GB: what the slowest link of a rank carries at the least, and its line rate in GB/s by the data sheet
        ("all-reduce", "dgx-h100", 64, None, 50, 2 * 7 / 64),  # 8 nodes exchange 7/8 twice, over 8 interfaces each
        ("all-reduce", "dgx-h100", 64, "sharp", 50, 1 / 8),  # added up in the switches of the network: up once
        ("all-reduce", "dgx-h100", 8, None, 450, 1),  # NVSwitch adds up: each rank sends its buffer once
        ("all-reduce", "dgx-a100", 8, None, 300, 2 * 7 / 8),
        ("all-gather", "dgx-h100", 32, None, 50, 3 / 4 / 8),
        ("reduce-scatter", "dgx-a100", 8, None, 300, 7 / 8),
        ("all-to-all", "dgx-b200", 16, None, 50, 1 / 2),  # half of each rank's buffer is for the other node
        ("all-to-all", "dgx-h100", 8, None, 450, 7 / 8),
        ("broadcast", "dgx-h100", 32, None, 50, 1 / 8),
        ("send", "dgx-h100", 16, None, 50, 1),
    ],
)
def test_no_band_starts_under_what_the_slowest_link_needs(
    operation: str, node: str, gpus: int, algorithm: str | None, link: float, bytes_over_it: float
) -> None:
    flags, sizes = ScenarioFlags(node=node, gpus=gpus), ["1GB", "4GB"]
    for row in collective(operation, sizes, flags, algorithm=algorithm).rows:
        least = row.size * bytes_over_it / (link * 1e9)
        assert least * (1 - 1e-9) <= row.low <= row.time <= row.high


def test_the_low_end_is_the_line_rate_where_the_spread_would_pass_it() -> None:
    """1 GB between 8 nodes of 8 × 50 GB/s: 2 · 7/8 · 1 GB / 400 GB/s; 64 MB between 2: half over 50 GB/s."""
    assert collective("all-reduce", ["1GB"], H100).rows[-1].low == pytest.approx(4.375e-3)
    two = ScenarioFlags(gpu="b200", gpus=16)
    assert collective("all-to-all", ["64MB"], two).rows[-1].low == pytest.approx(640e-6)
    assert collective("all-reduce", ["32kB", "64kB"], H100).rows[-1].low < 100e-6


@pytest.mark.parametrize(("gpus", "measured"), [(4, 363.3), (5, 414.2), (6, 435.6), (7, 460.0), (8, 473.1)])
def test_nvls_gains_with_the_group(gpus: int, measured: float) -> None:
    """8 GiB on an H200 node: what a switch adds saves more the larger the group."""
    case = ScenarioFlags(node="dgx-h200"), (f"cluster.node.accelerators={gpus}",)
    found = collective("all-reduce", ["8GiB", "1MB"], *case, algorithm="nvls")
    assert found.rows[-1].busbw / 1e9 == pytest.approx(measured, rel=0.025)


def test_an_algorithm_that_is_not_there_is_a_fault(run: Any, faults: Faults) -> None:
    found = faults(run("collective", "all-reduce", "1GB", "--node", "dgx-a100", "--algorithm", "nvls"))
    assert found[0].code == "C003"
    assert faults(run("comm", "quickstart", "--set", "stack.collectives=[sharp]", "--set", "cluster.node=p5"))


def test_comm_names_the_algorithm_and_both_bandwidths(run: Any) -> None:
    """What the step counts, and what nccl-tests would reach: 450 to 490 GB/s between 8 H100."""
    keys = ("cluster.nodes=1", "plan.tp=1", "plan.zero=0", "stack.buckets.size=16 GB")
    plan = itertools.chain.from_iterable(("--set", key) for key in keys)
    found = json.loads(run("comm", "quickstart", *plan, "--json").out)["transfers"]
    (reduced,) = [item for item in found if item["operation"] == "all_reduce"]
    assert (reduced["algorithm"], reduced["busbw_bytes_per_s"] < 4.2e11) == ("fitted", True)
    assert 450e9 < reduced["alone_busbw_bytes_per_s"] < 490e9
    dispatched = json.loads(run("comm", "deepseek-v3-2048", "--json").out)["transfers"][0]
    assert dispatched["busbw_bytes_per_s"] < 50e9


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
    assert nccl_tests_command(collective(operation, sizes, flags)) == command


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
        (("gather", "1GB"), "C003"),
        (("all-reduce",), "C004"),
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


# --- beside what nccl-tests measured

SAMPLES = Path(__file__).parents[1] / "evidence/measured"
TEXT = """# nThread 1 nGpus 1 minBytes 1048576 maxBytes 1073741824
{ranks}
#       size         count      type   redop    root     time   algbw   busbw #wrong
{rows}
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0
"""


def measured(
    folder: Path,
    times: dict[float, float],
    *,
    gpu: str = "NVIDIA H100 80GB HBM3",
    each: int = 8,
    name: str = "all_reduce",
    factor: float = 1.875,
) -> Path:
    """A text of nccl-tests, usually of all_reduce_perf, on 16 ranks, so many of them on a host."""
    ranks = [f"#  Rank {rank} Pid 1 on n{rank // each} device {rank % each} [0x00] {gpu}" for rank in range(16)]
    rows = []
    for size, seconds in times.items():
        rate = size / seconds / 1e9
        rows.append(f" {size:.0f} {size // 4:.0f} float sum -1 {seconds * 1e6:.2f} {rate:.2f} {rate * factor:.2f} 0")
    path = folder / f"{name}_perf.txt"
    path.write_text(TEXT.format(ranks="\n".join(ranks), rows="\n".join(rows)), "utf-8")
    return path


@pytest.mark.parametrize(("slower", "verdict"), [(1.0, "sound"), (1.2, "sound"), (2.0, "slower"), (0.5, "faster")])
def test_a_measured_fabric_is_compared_with_sound_ones(slower: float, verdict: str, tmp_path: Path) -> None:
    """Of times that are the predicted ones times a factor, every error is that factor's."""
    predicted = collective("all-reduce", ["1MiB", "32MiB", "1GiB"], ScenarioFlags(node="dgx-h100", gpus=16)).rows
    path = measured(tmp_path, {row.size: row.time * slower for row in predicted})
    found = collective("all-reduce", (), ScenarioFlags(), measured=str(path))
    assert (found.case.accelerator.name, found.ranks, found.domains) == ("h100-sxm", 16, 2)
    assert [row.size for row in found.rows] == [row.size for row in predicted]
    assert found.sound is not None
    assert found.sound.verdict == verdict
    assert found.sound.error == pytest.approx(1 / slower - 1, abs=1e-3)
    for row in collective_json(found)["sizes"]:
        assert row["error"] == pytest.approx(1 / slower - 1, abs=1e-3)


def test_every_operation_is_compared_with_its_own_file(tmp_path: Path) -> None:
    names = {
        "all-reduce": ("all_reduce", 1.875), "all-gather": ("all_gather", 0.9375), "all-to-all": ("alltoall", 0.9375),
        "reduce-scatter": ("reduce_scatter", 0.9375), "broadcast": ("broadcast", 1.0), "reduce": ("reduce", 1.0),
        "send": ("sendrecv", 1.0),
    }  # fmt: skip
    assert names.keys() == OPERATIONS.keys()
    for operation, (name, factor) in names.items():
        rows = collective(operation, ["32MiB", "1GiB"], ScenarioFlags(node="dgx-h100", gpus=16)).rows
        path = measured(tmp_path, {row.size: 1.25 * row.time for row in rows}, name=name, factor=factor)
        found = collective(operation, (), ScenarioFlags(node="dgx-h100", gpus=16), measured=str(path))
        assert [row["error"] for row in collective_json(found)["sizes"]] == pytest.approx([-0.2, -0.2], abs=1e-3)


def test_a_slow_fabric_is_called_slower(run: Any) -> None:
    """The sample of 8 ranks is of a node a quarter slower than usual."""
    shown = run("collective", "all-reduce", "--gpus", "8", "--measured", "all_reduce_perf.txt", cwd=SAMPLES).out
    assert shown.startswith("all-reduce on 8 × h200-sxm, 1 × dgx-h200\n")
    assert "32 % slower than healthy fabrics of this kind (nvlink4), which differ by up to 20 %" in shown
    assert "12.2 ms  −31.0 %" in shown
    assert "busbw, GB/s: ● predicted, ○ measured" in shown


def test_a_size_that_was_not_measured_stands_beside_those_that_were(tmp_path: Path) -> None:
    path = str(measured(tmp_path, {2.0**30: 6e-3}))
    rows = collective("all-reduce", ["64MiB"], ScenarioFlags(), measured=path).rows
    assert [(row.size, row.measured) for row in rows] == [(2.0**26, None), (2.0**30, pytest.approx(6e-3))]


def test_another_device_than_the_measured_one_is_remarked(tmp_path: Path) -> None:
    path = str(measured(tmp_path, {2.0**30: 6e-3}, gpu="NVIDIA A100-SXM4-80GB"))
    assert collective("all-reduce", (), ScenarioFlags(), measured=path).remarks == ()
    (remark,) = collective("all-reduce", (), ScenarioFlags(gpu="h100"), measured=path).remarks
    assert remark == "measured on NVIDIA A100-SXM4-80GB, predicted for h100-sxm"


@pytest.mark.parametrize(
    ("operation", "more", "code", "help"),
    [
        ("broadcast", (), "D015", "costmodel collective all-reduce"),
        ("all-reduce", ("--gpus", "8"), "C004", "--set cluster.nodes=4 --set cluster.node.accelerators=4"),
        ("all-reduce", (), "C004", "--set cluster.nodes=4 --set cluster.node.accelerators=4"),
    ],
)
def test_another_collective_or_group_is_refused(
    operation: str, more: tuple[str, ...], code: str, help: str, run: Any, faults: Faults, tmp_path: Path
) -> None:
    path = measured(tmp_path, {2.0**30: 6e-3}, each=4)
    (found,) = faults(run("collective", operation, "--measured", path.name, *more, cwd=tmp_path))
    assert (found.code, found.help) == (code, help)


def test_a_file_of_several_groups_asks_which(run: Any, faults: Faults) -> None:
    (found,) = faults(run("collective", "all-reduce", "--measured", "all_reduce_perf.txt", cwd=SAMPLES))
    assert (found.code, found.help) == ("D015", "--gpus 2 or 4 or 8 takes one of them")


def test_what_is_not_of_nccl_tests_is_refused(run: Any, faults: Faults, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("1 GB took 6 ms", "utf-8")
    (found,) = faults(run("collective", "all-reduce", "--measured", "notes.txt", cwd=tmp_path))
    assert found.code == "D015"


# --- what has no fit of its own


@pytest.mark.parametrize(("operation", "alike"), [("broadcast", "all-gather"), ("reduce", "reduce-scatter")])
def test_a_rooted_collective_moves_the_buffer_once_at_the_rate_of_its_kin(operation: str, alike: str) -> None:
    """nccl-tests: the bus bandwidth of both is S/t; of large buffers the links carry as much as for the other."""
    for flags in (ONE_NODE, H100):
        answer, kin = collective(operation, ["64GB"], flags), collective(alike, ["64GB"], flags)
        assert answer.stand_in == OPERATIONS[alike]
        assert answer.rows[-1].busbw == answer.rows[-1].algbw
        assert answer.rows[-1].busbw == pytest.approx(kin.rows[-1].busbw, rel=0.15)


def test_why_an_algorithm_is_taken(run: Any) -> None:
    shown = run("collective", "all-reduce", "1GB", "--gpus", "64").out
    assert re.search(r"tree, fewer steps where latency counts: 53\.0 us at 30\.5 kB, \S+ \d{3} us", shown)
    assert re.search(r"ring, the least bytes on every link: \S+ ms at 1\.00 GB, nvls-tree \S+ ms", shown)
    pair = run("collective", "all-reduce", "1GB", "--gpus", "16").out
    assert re.search(r"NVLS inside, a tree between: \S+ ms at 1\.00 GB, ring \S+ ms", pair)
    assert "no broadcast was fitted" in run("collective", "broadcast", "1GB").out


def test_an_option_without_effect_is_said(run: Any) -> None:
    assert "--gpus 8 has no effect" in run("collective", "send", "1GB", "--gpus", "8", "--set", "cluster.nodes=2").out


@pytest.mark.parametrize(
    ("spelt", "meant"),
    [
        ("all_reduce", "all-reduce"),
        ("allreduce", "all-reduce"),
        ("all_reduce_perf", "all-reduce"),
        ("ncclAllReduce", "all-reduce"),
        ("AllGather", "all-gather"),
        ("all_gather_into_tensor", "all-gather"),
        ("reduce_scatter_tensor", "reduce-scatter"),
        ("all_to_all_single", "all-to-all"),
        ("alltoall_perf", "all-to-all"),
        ("sendrecv_perf", "send"),
    ],
)
def test_a_collective_is_known_by_the_spellings_of_the_field(spelt: str, meant: str) -> None:
    assert collective(spelt, ["1GB"], ScenarioFlags()) == collective(meant, ["1GB"], ScenarioFlags())


def test_an_unknown_collective_names_the_nearest(run: Any, faults: Faults) -> None:
    (fault,) = faults(run("collective", "all_redcue", "1GB"))
    assert fault.code == "C003"
    assert fault.help.startswith("did you mean all-reduce?")
    (fault,) = faults(run("collective", "xyz", "1GB"))
    assert fault.help.startswith("known: all-reduce")


@pytest.mark.parametrize(
    ("operation", "size", "gpus"), [("all-reduce", "256MB", 16), ("all-gather", "1MB", 8), ("send", "8MB", 16)]
)
def test_a_time_is_explained_by_the_tree_of_its_equations(operation: str, size: str, gpus: int, run: Any) -> None:
    """Its root is the time of the table, and the command for it is the next one of the table."""
    table = run("collective", operation, size, "--gpus", str(gpus))
    following = next(line for line in table.out.splitlines() if line.startswith("Next: ")).split()[2:]
    found = json.loads(run(*following, "--json").out)
    figures = [found["figures"][place] for place in found["asked"]]
    last = collective(operation, [size], ScenarioFlags(node="dgx-h100", gpus=gpus)).rows[-1]
    assert figures[0]["value"] == pytest.approx(last.time, rel=1e-12)
    assert figures[-1]["value"] == pytest.approx(last.in_step, rel=1e-12)
    assert "blended_time" in {each["equation"] for each in found["figures"]}


def test_an_algorithm_may_be_asked_for(run: Any, faults: Faults) -> None:
    asked = ("explain", "collective", "all-reduce", "256MB")
    ring = json.loads(run(*asked, "ring", "--gpus", "16", "--json").out)
    assert (ring["algorithm"], ring["size_bytes"]) == ("ring", 256e6)
    (found,) = faults(run(*asked, "--model", "llama-3.1-8b"))
    assert found.sentence == "a collective does not depend on --model"
    assert "Why does training hang" in run("explain", "collective", "timeouts").out


def test_every_algorithm_has_a_page_about_collectives() -> None:
    names = (
        "ring",
        "tree",
        "nvls",
        "nvls-tree",
        "sharp",
        "halving-doubling",
        "chain",
        "pairwise",
        "one send",
        "in step",
    )
    for name in names:
        text = page(name).text
        assert re.search("all-reduce|collective|buffer|broadcast|all-to-all|message|ranks", text), (name, text)
