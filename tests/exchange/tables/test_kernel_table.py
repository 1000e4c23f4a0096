"""Tables of kernels and the output of nccl-tests: what is read, and what is said of what cannot be."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path
from typing import Any

import pytest

from costmodel.exchange.tables.kernel_table import KINDS, is_run_table, read_timings, table_kind_lines
from costmodel.exchange.tables.nccl_tests import OPERATIONS
from costmodel.ground.errors import CostModelError

GEMM = "gpu,dtype,m,n,k,time_us,src\nh100_sxm,bfloat16,8,4096,4096,11.5,x\n"
CLUSTER = "op,gpu,link,gpus,nodes,bytes,time_us\nall_reduce,H100,x,16,2,1048576,90.5\n"
NOW = """# nccl-tests version 2.18.0 nccl-headers=22900 nccl-library=22900
# Collective test starting: all_gather_perf
# nThread 1 nGpus 1 minBytes 1024 maxBytes 4096 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid   4001 on     node01 device  0 [0000:18:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   4002 on     node02 device  0 [0000:18:00] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
           0             0     float    none      -1     6.00    0.00    0.00       0     6.00    0.00    0.00       0
        1024           128     float    none      -1    21.50    0.05    0.02       0    21.00    0.05    0.02     N/A
        2048           256     float    none      -1    22.50    0.09    0.05     N/A    21.00    0.10    0.05     N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.03
#
# Collective test concluded: all_gather_perf
"""
OLD = """$ mpirun -np 1 ./build/reduce_scatter_perf -b 8M -e 8M -g 4
# nThread 1 nGpus 4 minBytes 8388608 maxBytes 8388608 step: 1048576(bytes) warmup iters: 5 iters: 20 validation: 1
#
# Using devices
#   Rank  0 Pid  1234 on gpu-box device  0 [0x07] A100-SXM4-40GB
#
#                                                     out-of-place                       in-place
#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
node: NCCL INFO Launch mode Parallel
     8388608        524288   float     sum    84.10   99.75   74.81  2e-07    83.90   99.98   74.99  2e-07
"""
FAST = """# nThread 1 nGpus 8
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
# Collective test starting: all_reduce_perf

  1000000000     250000000     float     sum      -1   5000.0  200.00  350.00       0   5000.0  200.00  350.00       0
"""
STAMPED = NOW.replace("#wrong\n", "#wrong timestamp\n").replace("N/A\n", "N/A 2026-01-02 03:04:05\n")


pytestmark = pytest.mark.usefixtures("in_its_folder")


def written(folder: Path, text: str | bytes, name: str = "table.csv") -> str:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (GEMM, "matmul"),
        (CLUSTER, "cluster"),
        ("gpu,op,n_gpus,dtype,bytes,time_us\nx,all_reduce,2,half,8,9\n", "collective"),
        ("gpu,op,mp,b,fwd_us,bwd_us\nx,gelu,1,2,3.5,\n", "operator"),
        ("gpu,dtype,stage,groups,m,n,k,time_us\nx,bf16,fwd,4,8,16,32,9\n", "grouped"),
        ("gpu,dtype,tokens,hidden,inter,topk,experts,time_us\nx,bf16,4,8,16,2,8,9\n", "experts"),
        (NOW, "cluster"),
        (OLD, "cluster"),
    ],
)
def test_a_table_is_known_by_its_columns(tmp_path: Path, text: str, kind: str) -> None:
    assert read_timings(written(tmp_path, text)).kind == kind


def test_headers_are_known_whatever_their_capitals(tmp_path: Path) -> None:
    header, _, cells = GEMM.partition("\n")
    (row,) = read_timings(written(tmp_path, f"{header.upper()}\n{cells}")).rows
    assert (row.number("m"), row.number("time_us"), row.text("SRC")) == (8.0, 11.5, "x")


def test_no_timings_are_of_runs(tmp_path: Path) -> None:
    assert [is_run_table(written(tmp_path, text)) for text in (GEMM, CLUSTER, NOW, OLD)] == [False] * 4


def test_decode_is_known_by_the_name_of_the_file(tmp_path: Path) -> None:
    text = "gpu,q_dtype,kv_dtype,batch,seq,heads,kv_heads,head_dim,time_us,kernel\nx,bf16,bf16,1,2,3,3,128,9,k\n"
    assert read_timings(written(tmp_path, text, "attention.csv")).kind == "attention"
    assert read_timings(written(tmp_path, text, "attention_decode.csv")).kind == "decode"


def test_nccl_tests_of_today(tmp_path: Path) -> None:
    rows = read_timings(written(tmp_path, NOW)).rows
    assert [row.number("bytes") for row in rows] == [1024.0, 2048.0]
    assert [row.number("time_us") for row in rows] == [21.5, 22.5]
    assert {(row.text("op"), row.number("gpus"), row.number("nodes")) for row in rows} == {("all_gather", 2.0, 2.0)}
    assert rows[0].text("gpu") == "NVIDIA H100 80GB HBM3"
    assert rows[0].place.line == 13


def test_nccl_tests_of_2021(tmp_path: Path) -> None:
    (row,) = read_timings(written(tmp_path, OLD)).rows
    assert (row.text("op"), row.number("bytes"), row.number("time_us")) == ("reduce_scatter", 8388608.0, 84.1)
    assert row.number("gpus") == 1  # one rank is named although four were started: what stands there counts


def test_nccl_tests_with_timestamps(tmp_path: Path) -> None:
    assert [row.number("time_us") for row in read_timings(written(tmp_path, STAMPED)).rows] == [21.5, 22.5]


def test_several_runs_in_one_text(tmp_path: Path) -> None:
    rows = read_timings(written(tmp_path, NOW + OLD)).rows
    assert [row.text("op") for row in rows] == ["all_gather", "all_gather", "reduce_scatter"]
    assert [row.number("gpus") for row in rows] == [2.0, 2.0, 1.0]


def test_the_name_of_the_file_tells_the_test(tmp_path: Path) -> None:
    text = NOW.replace("all_gather_perf", "the test")
    (row, _) = read_timings(written(tmp_path, text, "alltoall_perf.out")).rows
    assert row.text("op") == "all_to_all"


# redop and root, ranks, time in us, algbw and busbw in GB/s of 64 MB; the test it must have been, if it can be but one
TELLING = {
    "all_reduce": ("sum -1", 8, "300.0 223.70 391.47", "all_reduce"),
    "all_reduce of two is as a ring of sends": ("sum -1", 2, "300.0 223.70 223.70", ""),
    "all_reduce too small to tell": ("sum -1", 8, "9000.0 0.00 0.01", ""),
    "reduce_scatter": ("sum -1", 8, "300.0 223.70 195.73", "reduce_scatter"),
    "reduce_scatter of two": ("sum -1", 2, "300.0 223.70 111.85", "reduce_scatter"),
    "sendrecv": ("sum -1", 8, "300.0 223.70 223.70", "send"),
    "reduce_scatter of thousands is nearly as sends": ("sum -1", 4096, "9000.0 7.46 7.46", ""),
    "reduce": ("sum 0", 8, "300.0 223.70 223.70", "reduce"),
    "broadcast": ("none 0", 8, "300.0 223.70 223.70", "broadcast"),
    "gather or scatter": ("none 0", 8, "300.0 223.70 195.73", ""),
    "all_gather or alltoall": ("none -1", 8, "300.0 223.70 195.73", ""),
    "of no test": ("sum -1", 8, "300.0 223.70 100.00", ""),
}


@pytest.mark.parametrize("name", TELLING)
def test_figures_of_one_test_alone_tell_it(tmp_path: Path, name: str) -> None:
    """redop and root as the sources of nccl-tests print them: sendrecv and reduce_scatter as all_reduce."""
    signs, ranks, figures, operation = TELLING[name]
    text = (
        f"# nThread 1 nGpus {ranks} minBytes 8 maxBytes 67108864\n"
        "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw\n"
        f"  8 2 float {signs} 11.0 0.00 0.00 0 {figures}\n67108864 16777216 float {signs} {figures} 0 9.0 1.00 1.00\n"
    )
    path = written(tmp_path, text, "log.txt")
    if operation:
        assert {row.text("op") for row in read_timings(path).rows} == {operation}
        return
    with pytest.raises(CostModelError, match="which of the nccl-tests this was"):
        read_timings(path)


def test_what_figures_told_does_not_hold_for_the_next_run(tmp_path: Path) -> None:
    text = OLD.replace("$ mpirun -np 1 ./build/reduce_scatter_perf", "").replace("74.81", "149.63")
    next_run = text.replace("149.63", "99.75").replace("nGpus 4", "nGpus 2")
    text, next_run = (run.replace("#   Rank  0", "#   a rank") for run in (text, next_run))
    assert [row.text("op") for row in read_timings(written(tmp_path, text)).rows] == ["all_reduce"]
    with pytest.raises(CostModelError, match="which of the nccl-tests this was"):
        read_timings(written(tmp_path, text + next_run))


FAULTS: dict[str, tuple[str, str, str, str]] = {
    "empty": ("", "D015", "names no columns", ":1:1"),
    "words": ("to whom it may concern\n", "D015", "names no columns", ":1:1"),
    "no rows": ("gpu,dtype,m,n,k,time_us\n", "D015", "has no rows", ":1:1"),
    "missing column": (GEMM.replace(",k,", ",kk,"), "D015", "the column 'k' is missing", ":1:1"),
    "no time": (GEMM.replace("time_us", "seconds"), "D004", "needs the column 'time_us'", ":1:1"),
    "column twice": (GEMM.replace(",src", ",m"), "D005", "'m' occurs twice", ":1:25"),
    "ragged": (GEMM.replace("11.5,x", "11.5"), "D014", "6 cells and the header 7", ":2:1"),
    "not a number": (GEMM.replace("11.5", "fast"), "D006", "not 'fast'", ":2:31"),
    "not a count": (GEMM.replace(",8,", ",8.5,"), "D008", "out of range", ":2:19"),
    "negative": (GEMM.replace("11.5", "-11.5"), "D008", "out of range", ":2:31"),
    "zero": (GEMM.replace("11.5", "0"), "D008", "out of range", ":2:31"),
    "infinite": (GEMM.replace("11.5", "inf"), "D006", "not 'inf'", ":2:31"),
    "empty cell": (GEMM.replace("11.5", ""), "D006", "'time_us' is empty", ":2:31"),
    "open quote": (GEMM.replace("bfloat16", '"bfloat16'), "D014", "not a table of cells", ":2:1"),
    "runs without columns": ("layers,step_time_s\n4,1.5\n", "D015", "names no columns", ":1:1"),
    "text cut": (
        NOW.replace("    22.50    0.09    0.05     N/A    21.00    0.10    0.05     N/A", ""),
        "D015",
        "5 figures",
        ":14:1",
    ),
    "text garbled": (NOW.replace("22.50", "2x.50"), "D006", "not '2x.50'", ":14:57"),
    "text of no time": (NOW.replace("    22.50", "     0.00"), "D008", "out of range", ":14:58"),
    "text of wrong results": (NOW.replace("0.02       0", "0.02      17"), "D015", "17 elements", ":13:1"),
    "text without results": (NOW[: NOW.index("           0   ")], "D015", "has no results", ":1:1"),
    "text of no number": (NOW.replace("22.50", "  nan"), "D006", "not 'nan'", ":14:"),
    "text of no end": (NOW.replace("22.50", "  inf"), "D006", "not 'inf'", ":14:"),
    "text of no test": (NOW.replace("all_gather_perf", "it"), "D015", "which of the nccl-tests", ":12:1"),
    "text without ranks": (
        "\n".join(line for line in NOW.splitlines() if "Rank" not in line and "nThread" not in line),
        "D015",
        "how many ranks",
        ":",
    ),
    "text of two devices": (NOW.replace("H100 80GB HBM3", "A100-SXM4-40GB", 1), "D015", "unlike devices", ":12:1"),
    "text in other units": (FAST.replace("5000.0", "5.0000"), "D015", "and 200.00 stands there as algbw", ":6:1"),
    "text of exchanged columns": (
        FAST.replace("algbw   busbw", "busbw   algbw", 1),
        "D015",
        "stands there as algbw",
        ":6:1",
    ),
    "text of the host's clock": (NOW.replace("   time ", "cputime"), "D015", "no column 'time'", ":12:1"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_say_what_where_and_how_to_mend_it(tmp_path: Path, name: str, run: Any) -> None:
    text, code, said, where = FAULTS[name]
    path = written(tmp_path, text)
    with pytest.raises(CostModelError) as raised:
        read_timings(path)
    fault = raised.value.faults[0]
    assert (fault.code, said in fault.sentence) == (code, True), fault.sentence
    assert where in str(fault.place).removeprefix(path), str(fault.place)
    ran = run("calibrate", path)
    assert ran.code == 2
    assert f"error[{code}]" in ran.err
    assert "Traceback" not in ran.err


def test_runs_among_kernels_are_called_what_they_are(tmp_path: Path, run: Any) -> None:
    (tmp_path / "runs.csv").write_text("layers,hidden,heads,seq_len\n1,2,3,4\n", "utf-8")
    ran = run("calibrate", written(tmp_path, GEMM), "runs.csv", cwd=tmp_path)
    assert (ran.code, "this is a table of training runs, not of kernels" in ran.err) == (2, True)


def test_runs_that_lack_a_column_are_asked_for_it(tmp_path: Path, run: Any) -> None:
    """Without heads it is no table of collectives, though both have gpus."""
    table = "gpu,gpus,layers,hidden,seq,gbs,step_time_s\nH100,8,1,2,3,4,5\n"
    ran = run("calibrate", written(tmp_path, table), cwd=tmp_path)
    assert (ran.code, ran.err.count("error[")) == (2, 1)
    assert "the column 'heads' is missing" in ran.err


PREFIXES = [
    "[1,0]<stdout>:",
    "[0] ",
    "0: ",
    "node1: ",
    "worker-3  | ",
    "2026-11-02T10:11:12Z ",
    "[2026-11-02 10:11:12.123] ",
    "(RayWorker pid=12, ip=10.0.0.1) ",
    "\x1b[0m",
    "  17  ",
]


@pytest.mark.parametrize("prefix", ["", *PREFIXES])
@pytest.mark.parametrize("hashed", [True, False])
def test_nccl_tests_out_of_a_log_or_a_page_are_read(tmp_path: Path, prefix: str, hashed: bool) -> None:
    """Tags, times and columns before the lines, other ones on each, and the '#' that a page made a heading of."""
    plain = read_timings(written(tmp_path, NOW))
    lines = NOW.splitlines() if hashed else [line.replace("#", "", 1) for line in NOW.splitlines()]
    text = "".join(f"{_counted_up(prefix, number)}{line}\n" for number, line in enumerate(lines))
    found = read_timings(written(tmp_path, text))
    assert [row.written for row in found.rows] == [row.written for row in plain.rows]
    assert [row.cells for row in found.rows] == [row.cells for row in plain.rows]
    assert [row.place.line for row in found.rows] == [row.place.line for row in plain.rows]


@pytest.mark.parametrize("blank", ["\t", "\u00a0", " "])
def test_nccl_tests_with_other_blanks_are_read(tmp_path: Path, blank: str) -> None:
    """As a page or an editor makes them of several."""
    plain = read_timings(written(tmp_path, NOW))
    found = read_timings(written(tmp_path, re.sub(r"(?<=\S) +", blank, NOW)))
    assert [row.written for row in found.rows] == [row.written for row in plain.rows]


def _counted_up(prefix: str, number: int) -> str:
    """Times and line numbers that are not the same on every line; tags of a rank stay."""
    return prefix.replace("12", f"{10 + number % 40}") if ":1" in prefix else prefix.replace("17", f"{17 + number}")


def test_nccl_tests_pasted_without_hashes_are_read(tmp_path: Path, run: Any) -> None:
    """As on a web page; the words below the table belong to nobody."""
    (tmp_path / "pasted.txt").write_text(PASTED, "utf-8")
    found = read_timings(str(tmp_path / "pasted.txt"))
    assert [row.number("bytes") for row in found.rows] == [1048576, 16777216, 268435456, 8589934592]
    assert [row.number("time_us") for row in found.rows] == [52.10, 221.0, 2190.0, 65100]
    assert {row.text("op") for row in found.rows} == {"all_reduce"}
    assert {row.number("gpus") for row in found.rows} == {8}
    ran = run("calibrate", "pasted.txt", cwd=tmp_path)
    assert ran.code == 0, ran.err
    assert "a100-sxm-40" in ran.out


PASTED = """mpirun -np 8 all_reduce_perf -b 1M -e 8G -f 16
 nThread 1 nGpus 1 minBytes 1048576 maxBytes 8589934592 step: 16(factor) warmup iters: 5 iters: 20 validation: 1

 Using devices
{}
                                                     out-of-place                       in-place
       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144   float     sum    52.10   20.13   35.22  1e-06    51.30   20.44   35.77  1e-06
    16777216       4194304   float     sum    221.0   75.91  132.85  1e-06    220.1   76.23  133.40  1e-06
   268435456      67108864   float     sum   2190.0  122.57  214.50  1e-06   2188.0  122.68  214.70  1e-06
  8589934592    2147483648   float     sum    65100  131.95  230.91  1e-06    65090  131.97  230.95  1e-06

Figures like these were seen on another cluster, too.
""".format(
    "".join(
        f"   Rank  {rank} Pid {11 + rank} on hosta device  {rank} [0x00] NVIDIA A100-SXM4-40GB\n" for rank in range(8)
    )
)


@pytest.mark.parametrize("line", ["size count type " * 2000, " " * 20_000 + "size", "a" * 20_000, "1 " * 10_000])
def test_odd_lines_take_no_time(tmp_path: Path, line: str) -> None:
    text = "# size count type\n" + "\n".join([line] * 20)
    started = time.process_time()
    with contextlib.suppress(CostModelError):
        read_timings(written(tmp_path, text))
    assert time.process_time() - started < 2


def test_what_a_run_does_not_say_is_told_once(tmp_path: Path) -> None:
    with pytest.raises(CostModelError) as raised:
        read_timings(written(tmp_path, NOW.replace("all_gather_perf", "it")))
    assert len(raised.value.faults) == 1


def test_every_fault_at_once(tmp_path: Path) -> None:
    text = GEMM + "h100_sxm,bfloat16,x,4096,4096,11.5,x\nh100_sxm,bfloat16,8,y,4096,,x\n"
    with pytest.raises(CostModelError) as raised:
        read_timings(written(tmp_path, text))
    assert [fault.place.line for fault in raised.value.faults if fault.place] == [3, 4]


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"gpu,dtype,m,n,k,time_us\n\x00,\x00,1,1,1,1\n", b"\n" * 1000])
def test_no_bytes_break_it(tmp_path: Path, data: bytes, run: Any) -> None:
    ran = run("calibrate", written(tmp_path, data))
    assert ran.code in (0, 2)
    assert "Traceback" not in ran.err


def test_every_kind_is_told(run: Any) -> None:
    answer = run("explain", "D015").out
    assert all(line in answer for line in table_kind_lines())
    assert len(list(table_kind_lines())) == len(KINDS) + 1, "and that runs are taken too"
    assert set(OPERATIONS) >= {"all_reduce", "all_gather", "reduce_scatter", "alltoall"}
