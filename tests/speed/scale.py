"""Memory of ever larger searches: `python tests/speed/scale.py [millions …]`; without numbers 1, 10 and 100.

Each searches scenarios/speed.yaml, of a million legal plans, at so many bandwidths of the network, in processes of its
own; what is shown is the peak of the process that asks and of the largest that works.
"""

import multiprocessing
import os
import resource
import sys
import time

from costmodel.documents.library import load
from costmodel.explore.search.ranges import axis
from costmodel.explore.search.search import search
from costmodel.explore.search.stream import How

MIB = 1024  # ru_maxrss is in KiB


def measured(variants: int) -> None:
    over = [axis(f"cluster.node.scale_out.fabric.bandwidth=10..{10 * variants} GB/s+10")] if variants > 1 else []
    began = time.perf_counter()
    tally = search(load("speed"), over=over, how=How(workers=2)).tally
    seconds = time.perf_counter() - began
    asks, works = (resource.getrusage(who).ru_maxrss / MIB for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    used = os.times()
    processor = used.user + used.system + used.children_user + used.children_system
    print(
        f"{tally.candidates:14,} {tally.evaluated:13,} {seconds:8.1f} {processor:8.1f} "
        f"{tally.evaluated / seconds:10,.0f} {asks:9.0f} {works:10.0f}",
        flush=True,
    )


def main() -> None:
    heads = ("candidates", "evaluated", "seconds", "CPU s", "plans/s", "MiB asks", "MiB works")
    print("{:>14} {:>13} {:>8} {:>8} {:>10} {:>9} {:>10}".format(*heads), flush=True)
    for millions in map(int, sys.argv[1:] or ("1", "10", "100")):
        process = multiprocessing.get_context("spawn").Process(target=measured, args=(max(1, round(millions / 1.063)),))
        process.start()
        process.join()


if __name__ == "__main__":
    main()
