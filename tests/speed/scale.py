"""Ever larger searches: time, memory, processes, and one that is killed: `python tests/speed/scale.py [millions …]`.

Each searches scenarios/speed.yaml, of a million valid plans, at so many bandwidths of the network, in processes of its
own: without numbers of 1, 10 and 100 million plans. Shown are seconds of the clock and of all processors, and the peak
of memory of the process that asks and of the largest that works. Then the smallest over ten million is done by one
process and by two, and the largest is killed (SIGKILL) half-way, resumed, and must find the very same.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from costmodel.documents.reader.load_scenario import load
from costmodel.explore.search.checkpoint import MANIFEST, written_tally
from costmodel.explore.search.search import search
from costmodel.explore.search.stream import SearchOptions
from costmodel.explore.search.value_ranges import axis

MIB = 1024  # ru_maxrss is in KiB
PLANS = 1_063_304  # of scenarios/speed.yaml


def searched(variants: int, report: Path, how: dict[str, Any]) -> None:
    """A search, and a file that says what it found and took."""
    multiprocessing.set_start_method(None, force=True)  # the platform's own again, as on the command line
    over = [axis(f"cluster.node.scale_out.fabric.bandwidth=10..{10 * variants} GB/s+10")] if variants > 1 else []
    began = time.perf_counter()
    tally = search(load("speed"), over=over, how=SearchOptions(**how)).tally
    took = {
        "candidates": tally.candidates,
        "evaluated": tally.evaluated,
        "seconds": time.perf_counter() - began,
        "processor": sum(os.times()[:4]),
        "asks": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MIB,
        "works": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / MIB,
    }
    report.write_text(json.dumps({"took": took, "found": written_tally(tally)}))


def run(variants: int, report: Path, **how: Any) -> dict[str, Any]:
    """A search in a process of its own."""
    process = started(variants, report, **how)
    process.join()
    assert process.exitcode == 0
    found: dict[str, Any] = json.loads(report.read_text())
    return found


def started(variants: int, report: Path, **how: Any) -> Any:
    process = multiprocessing.get_context("spawn").Process(target=searched, args=(variants, report, how))
    process.start()
    return process


def line(label: str, took: dict[str, float]) -> None:
    print(
        f"{label:12} {took['candidates']:13,} {took['evaluated']:12,} {took['seconds']:8.1f} {took['processor']:8.1f} "
        f"{took['evaluated'] / took['seconds']:10,.0f} {took['evaluated'] / took['processor']:11,.0f} "
        f"{took['asks']:9.0f} {took['works']:10.0f}",
        flush=True,
    )


def killed(variants: int, whole: dict[str, Any], scratch: Path) -> None:
    """A search that is killed when it has counted half of its plans, and continues."""
    folder = scratch / "kept"
    process = started(variants, scratch / "never", workers=2, folder=folder)
    while _counted(folder / MANIFEST) < whole["took"]["evaluated"] / 2:
        time.sleep(0.2)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    done = _counted(folder / MANIFEST)
    again = run(variants, scratch / "resumed", workers=2, folder=folder, resume=True)
    line("resumed", again["took"] | {"evaluated": again["took"]["evaluated"] - done})
    same = again["found"] == whole["found"]
    print(f"killed at {done:,} evaluated plans, resumed: {'the same answer' if same else 'ANOTHER ANSWER'}")


def _counted(manifest: Path) -> int:
    """Evaluated plans that a folder's state tells of."""
    parts = json.loads(manifest.read_text())["tally"]["parts"] if manifest.exists() else []
    return sum(int(part["evaluated"]) for part in parts)


def main() -> None:
    sizes = [max(1, round(float(text) * 1e6 / PLANS)) for text in sys.argv[1:] or ("1", "10", "100")]
    heads = ("candidates", "evaluated", "seconds", "CPU s", "plans/s", "plans/CPU s", "MiB asks", "MiB works")
    print("{:12} {:>13} {:>12} {:>8} {:>8} {:>10} {:>11} {:>9} {:>10}".format("", *heads), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        for variants in sizes:
            whole = run(variants, scratch / "report", workers=2)
            line("2 processes", whole["took"])
        middle = min((variants for variants in sizes if variants * PLANS > 9e6), default=sizes[-1])
        one, two = (run(middle, scratch / "report", workers=workers)["took"] for workers in (1, 2))
        line("1 process", one)
        line("2 processes", two)
        print(f"two processes are {one['seconds'] / two['seconds']:.2f} × as fast as one by the clock")
        killed(sizes[-1], whole, scratch)


if __name__ == "__main__":
    main()
