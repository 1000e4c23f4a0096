"""Reads the output of nccl-tests (`all_reduce_perf` and the others): one or several runs in a text.

A header names the columns, first those of the out-of-place run, then those in place. The columns differ between
versions. The ranks, their hosts and the device stand above it. A line above or the name of the file names the test;
else the figures identify it, if only one test can have them.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from costmodel.documents.reader.folders import is_near
from costmodel.exchange.tables.csv_cells import CsvRow
from costmodel.ground.errors import CostModelError, Fault, Place, fail, quoted_value

OPERATIONS = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "sendrecv": "send",
    "gather": "gather",
    "scatter": "scatter",
    "hypercube": "hypercube",
    "alltoallv": "all_to_all_v",
}
_NAME = re.compile(r"(" + "|".join(sorted(OPERATIONS, key=len, reverse=True)) + r")_perf\w*")
_LAUNCH = re.compile(r"#\s*nThread\s+(\d+)\s+nGpus\s+(\d+)")
_RANK = re.compile(r"#\s*Rank\s+(\d+)\s.*?\bon\s+(\S+)\s+device\s+\d+\s+\[[^\]]*\]\s*(.*\S)")
_FAILED = re.compile(r"#\s*Out of bounds values\s*:\s*(\d+)\s+FAILED")
_FOOT = re.compile(r"#\s*Avg bus bandwidth")
_CPU = "cputime"
# Of each test: whether it names an operation, whether a root, and how often the bus carries what all but one rank hold,
# none where it is what each rank sends (PERFORMANCE.md of nccl-tests).
_SIGNS: dict[str, tuple[bool, bool, int]] = {
    "all_reduce": (True, False, 2),
    "reduce_scatter": (True, False, 1),
    "sendrecv": (True, False, 0),
    "reduce": (True, True, 0),
    "broadcast": (False, True, 0),
    "gather": (False, True, 1),
    "scatter": (False, True, 1),
    "all_gather": (False, False, 1),
    "alltoall": (False, False, 1),
    "alltoallv": (False, False, 1),
    "hypercube": (False, False, 0),
}
_OTHER_RATE = ("hypercube", "alltoallv")  # tests whose algbw is not that of the size
_ROUNDED = 0.0051  # figures are printed to hundredths


@dataclass
class _Run:
    """The facts read so far about one run of nccl-tests."""

    operation: str = ""
    inferred: str = ""
    ranks: set[int] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    devices: list[str] = field(default_factory=list)  # each once
    launched: int = 0
    per_node: int = 0  # of the node that is named beside the text
    columns: list[str] = field(default_factory=list)
    refused: bool | None = None


def is_nccl_text(text: str) -> bool:
    """Whether a text is the output of nccl-tests."""
    return any(is_header(line) or _LAUNCH.match(line.lstrip()) for line in text.splitlines())


def nccl_rows(path: str, text: str, per_node: int = 0) -> tuple[CsvRow, ...]:
    """A row for every message size, under the column names of a collectives table; all faults are raised at once.

    If a text does not state its ranks, they are inferred from its rates, given the accelerators per node.
    """
    found = _NAME.search(Path(path).name)
    run = _Run(operation=found[1] if found else "", per_node=per_node)
    rows: list[CsvRow] = []
    faults: list[Fault] = []
    shown, private = text.splitlines(), not is_near(path)
    lines = without_prefixes(shown)
    for number, line in enumerate(lines, 1):
        text = shown[number - 1].rstrip()
        place = Place(path, number, 1, text=text, width=max(1, len(text)), private=private)
        if STARTS.match(line) and run.columns:
            run = _Run(operation=run.operation, per_node=per_node)
        if failed := _FAILED.match(line):
            sentence = f"the test failed: {failed[1]} values of its results are out of bounds"
            faults += fail("D015", sentence, place, "a broken run has no valid time; run it again").faults
        if line.startswith("#") or not run.columns or not RESULT.match(line):
            _read_fact(run, line)
            continue
        try:
            _check_run(run, place, lines[number - 1 :])
            rows += () if run.refused else _result_rows(run, line, place)
        except CostModelError as error:
            faults += error.faults
    if faults:
        raise CostModelError(*faults)
    if not rows:
        hint = "the sizes and times are under the header that begins with '# size count'"
        raise fail("D015", "this output of nccl-tests has no results", Place(path, 1, 1), hint)
    return tuple(rows)


def nccl_remarks(path: str, text: str, rows: tuple[CsvRow, ...]) -> tuple[str, ...]:
    """Remarks on oddities that are no faults: inferred ranks, lines among results, and results without a footer."""
    open_since = 0
    found = []
    if rows and not any(_RANK.match(line) or _LAUNCH.match(line) for line in without_prefixes(text.splitlines())):
        found.append(f"{path}: {rows[0].number('gpus'):g} ranks, from busbw over algbw; no line states them")
    strange: list[tuple[int, str]] = []
    for number, line in enumerate([*without_prefixes(text.splitlines()), "# size count type"], 1):
        if open_since and (HEADER.match(line) or STARTS.match(line)):
            found.append(f"{path}:{open_since}: cut short: no '# Avg bus bandwidth' ends what begins here")
            open_since = 0
        elif _FOOT.match(line):
            open_since = 0
        elif RESULT.match(line):
            open_since = open_since or number
        elif open_since and line.strip() and not line.startswith("#"):
            strange.append((number, line))
    for number, line in strange[:1]:
        also = f", and {len(strange) - 1} more lines," if strange[1:] else ""
        shown = quoted_value(line.strip()) if is_near(path) else "what stands there"
        found.append(f"{path}:{number}: {shown}{also} is no result and was passed over")
    return tuple(found)


def _read_fact(run: _Run, line: str) -> None:
    """Reads the facts of a run from a line without a result."""
    named, launch, rank = _NAME.search(line), _LAUNCH.match(line), _RANK.match(line)
    if named:
        run.operation = named[1]
    if launch:
        run.launched = int(launch[1]) * int(launch[2])
    if rank:
        run.ranks.add(int(rank[1]))
        run.hosts.add(rank[2])
        device = " ".join(rank[3].split())
        run.devices += [device] if device not in run.devices else []
    if HEADER.match(line):
        run.columns = line.lstrip("# ").split()


def _result_rows(run: _Run, line: str, place: Place) -> Iterator[CsvRow]:
    """The out-of-place figures for a size, or in-place ones if there are no others; size 0 gives no row."""
    cells = line.split()
    names = run.columns
    if len(cells) < len(names) - ("timestamp" in names):
        sentence = f"this line has {len(cells)} figures and its header {len(names)}"
        raise fail("D015", sentence, place, "the output was cut; leave the line out, or run the test again")
    at = names.index("time")
    size, time, busbw = (_parse_number(cells[index], place) for index in (0, at, at + names[at:].index("busbw")))
    wrong = cells[at + 3] if names[at + 3 : at + 4] in (["#wrong"], ["wrong"]) else "0"
    if wrong not in ("0", "N/A"):
        raise fail("D015", f"{wrong} elements of this result are wrong", place, "a broken run has no valid time")
    if size == 0:
        return
    ranks = len(run.ranks) or run.launched
    written = {
        "gpu": next(iter(run.devices), ""),
        "op": OPERATIONS[run.operation or run.inferred],
        "gpus": str(ranks),
        "nodes": str(_node_count(run)),
        "dtype": cells[2],
        "bytes": cells[0],
        "time_us": cells[at],
    }
    numbers: dict[str, float | bool] = {"gpus": ranks, "nodes": _node_count(run), "bytes": size, "busbw": busbw}
    if time <= 0:
        sentence = f"a time of {quoted_value(cells[at])} µs is out of range"
        raise fail("D008", sentence, _place_within(place, cells[at]), "run more iterations (-n)")
    if (run.operation or run.inferred) not in _OTHER_RATE and "algbw" in names[at:]:
        _check_rate(size / time / 1e3, cells[at + names[at:].index("algbw")], place)
    yield CsvRow(place, written, {**numbers, "time_us": time})


def _check_rate(found: float, algbw: str, place: Place) -> None:
    """Raises a fault if size and time contradict the stated rate."""
    rate = _parse_number(algbw, place)
    if abs(found - rate) > _ROUNDED + 0.05 * rate:
        sentence = f"size and time give {found:.2f} GB/s, and {algbw} stands there as algbw"
        raise fail("D015", sentence, place, "columns or units were changed; run the test again")


def _check_run(run: _Run, place: Place, lines: list[str]) -> None:
    """Raises a fault, once per run, if the run does not state its test, ranks, device or time."""
    if run.refused is not None:
        return
    run.refused = True
    if "time" not in run.columns:
        hint = "run it without -C: the time of the device is expected" if _CPU in run.columns else "run the test again"
        raise fail("D015", "the header names no column 'time'", place, hint)
    if not (run.ranks or run.launched):
        run.launched = _ranks_from_rates(run, lines)
    if not (run.ranks or run.launched):
        hint = "keep the lines '#  Rank 0 …' above it, or name its machine with --node"
        raise fail("D015", "nothing states how many ranks took part", place, hint)
    if len(run.devices) > 1:
        sentence = f"the ranks are on unlike devices: {', '.join(map(quoted_value, run.devices[:3]))}"
        raise fail("D015", sentence, place, "a fit is of one device; run the test on those of one kind")
    run.inferred = "" if run.operation else _inferred_test(run, lines)
    if not (run.operation or run.inferred):
        hint = "keep the line that started it, or name the file after it, for example all_reduce_perf.txt"
        raise fail("D015", "nothing states which of the nccl-tests this was", place, hint)
    run.refused = False


def _node_count(run: _Run) -> int:
    """The number of nodes; without a line for each rank it follows from the ranks and the node size."""
    return len(run.hosts) or (math.ceil(run.launched / run.per_node) if run.per_node else 1)


def _ranks_from_rates(run: _Run, lines: list[str]) -> int:
    """The number of ranks that busbw and algbw of all sizes imply, if exactly one number fits; else 0."""
    if not run.per_node:
        return 0
    figures = _bandwidths(run, lines)
    found = {
        (name, count)
        for name, (*named, passes) in _SIGNS.items()
        if name == (run.operation or name) and figures and tuple(named) == figures[0][2]
        for count in possible_ranks([(rate, bus) for bus, rate, _ in figures], passes, run.per_node)
    }
    return found.pop()[1] if len({count for _, count in found}) == 1 else 0


def _bandwidths(run: _Run, lines: list[str]) -> list[tuple[float, float, tuple[bool, bool]]]:
    """busbw and algbw of every result below a header, and whether it names an operation and a root."""
    figures = []
    for line in lines:
        if STARTS.match(line) or HEADER.match(line):
            break
        first = dict(reversed(list(zip(run.columns, line.split(), strict=False))))
        with contextlib.suppress(KeyError, ValueError):
            signs = (first.get("redop", "none") != "none", int(first.get("root", "-1")) >= 0)
            figures.append((float(first["busbw"]), float(first["algbw"]), signs))
    return figures


def _inferred_test(run: _Run, lines: list[str]) -> str:
    """The only test that explains the result with the fastest bus; empty if several do."""
    bus, rate, signs = max(_bandwidths(run, lines), default=(math.nan, math.nan, (False, False)))
    ranks = len(run.ranks) or run.launched

    def fits(passes: int) -> bool:
        factor = passes * (ranks - 1) / ranks if passes else 1.0
        return abs(bus - factor * rate) <= _ROUNDED * (1 + factor)

    found = [name for name, (*named, passes) in _SIGNS.items() if tuple(named) == signs and fits(passes)]
    return found[0] if len(found) == 1 else ""


def _parse_number(text: str, place: Place) -> float:
    """The finite number in a text; a fault otherwise."""
    try:
        number = float(text)
        if math.isfinite(number):
            return number
        raise ValueError
    except ValueError:
        sentence = f"a number is expected here, not {quoted_value(text)}"
        raise fail("D006", sentence, _place_within(place, text), "the output was cut or mixed") from None


def _place_within(place: Place, text: str) -> Place:
    """The place of a word within the line of a place."""
    found = re.search(rf"(?<!\S){re.escape(text)}(?!\S)", place.text)
    return replace(place, column=found.start() + 1 if found else 1, width=len(text))


# Of lines that are cleaned.
HEADER = re.compile(r"#\s*size\s+count\s+type\b")
STARTS = re.compile(r"#\s*(nThread\s+\d+|nccl-tests version)")
RESULT = re.compile(r"\s*\d+\s+\d+\s+[a-z]\w*\s")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_COLUMNS = re.compile(r"\bsize\s+count\s+type\b")
_RUNS = re.compile(r"([\w.]+)|(\s+)|([^\w.\s]+)")
_COMMENTS = re.compile(
    r"(nThread\s+\d+|nccl-tests version|Using devices|Rank\s+\d+\s.*\bdevice\s+\d+|size\s+count\s+type\b"
    r"|\(B\)\s+\(elements\)|out-of-place\s+in-place|Out of bounds values|Avg bus bandwidth|Collective test concluded)"
)
_MOST_FRONTS = 16  # of one text


def is_header(line: str) -> bool:
    """Whether a line contains the column names, with any prefix."""
    return bool(_COLUMNS.search(line))


def without_prefixes(lines: list[str]) -> list[str]:
    """The lines as nccl-tests printed them, without launcher prefixes and colours."""
    plain = [_ESCAPES.sub("", line) for line in lines]
    fronts = dict.fromkeys(_prefix_pattern(front) for line in plain if (front := _launcher_prefix(line)))
    patterns = [re.compile(front) for front in list(fronts)[:_MOST_FRONTS]]
    return [_with_comment_sign(_rest_of_line(line, patterns)) for line in plain]


def _launcher_prefix(line: str) -> str:
    """The launcher prefix of a header line."""
    found = _COLUMNS.search(line)
    return line[: found.start()].rstrip().removesuffix("#").strip() if found else ""


def _prefix_pattern(front: str) -> str:
    """A pattern for the prefixes of other lines: the same punctuation between any words and numbers.

    >>> bool(re.match(_prefix_pattern("[1,0]<stdout>:"), "[1,7]<stdout>:   1024"))
    True
    """
    runs = _RUNS.findall(front)
    return r"\s*" + "".join(r"[\w.]+" if word else r"\s+" if blank else re.escape(signs) for word, blank, signs in runs)


def _rest_of_line(line: str, patterns: list[re.Pattern[str]]) -> str:
    """The rest of a line after the longest prefix that it starts with."""
    ends = [found.end() for pattern in patterns if (found := pattern.match(line))]
    return line[max(ends, default=0) :]


def _with_comment_sign(line: str) -> str:
    """A line with the leading '#' that nccl-tests prints before comments."""
    bare = line.lstrip()
    return bare if bare.startswith("#") else f"# {bare}" if _COMMENTS.match(bare) else line


_MOST = 1_000_000


def possible_ranks(rates: Iterable[tuple[float, float]], passes: int, per_node: int) -> list[int]:
    """The numbers of ranks that explain the ratio of busbw to algbw; they fit in one node or fill whole nodes.

    busbw / algbw is passes × (n − 1) / n; because both are rounded, each pair leaves a range of n.

    >>> possible_ranks([(91.2, 170.99)], 2, 8), possible_ranks([(90.0, 90.0)], 2, 8), possible_ranks([(0.1, 0.2)], 2, 8)
    ([16], [2], [])
    """
    low, high = 2.0, float(_MOST)
    for algbw, busbw in rates:
        if algbw <= 2 * _ROUNDED or not passes:
            continue
        least, most = (busbw - _ROUNDED) / (algbw + _ROUNDED), (busbw + _ROUNDED) / (algbw - _ROUNDED)
        low = max(low, 1 / (1 - least / passes) if least < passes else math.inf)
        high = min(high, 1 / (1 - most / passes) if most < passes else math.inf)
    if not high - low < per_node * 4 or high >= _MOST:
        return []
    counts = range(math.ceil(low), math.floor(high) + 1)
    return [count for count in counts if count <= per_node or count % per_node == 0]
