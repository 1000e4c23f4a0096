"""Plans a second: `python tests/speed/plans.py [workers]`.

Evaluated in full means time, memory and communication of each; candidates refused by name are counted apart.
The rate is also given as a ratio to a bare NumPy chain of as many rows, which the machine's speed cancels out of.
"""

import sys
import time

import numpy as np

from costmodel.documents.library import load
from costmodel.estimate.block import BLOCK_ROWS
from costmodel.explore.search.search import search

NATURAL = ("llama-3-70b-512", "megatron-7.5b-512", "gpt-3-175b-1024")
CHAIN = 200


def bare_chain(rows: int) -> float:
    """Seconds of a chain of additions and products over blocks of so many rows in all."""
    left, right = np.full(BLOCK_ROWS, 1.5), np.full(BLOCK_ROWS, 0.5)
    began = time.perf_counter()
    for _ in range(rows // BLOCK_ROWS):
        value = left
        for _ in range(CHAIN // 2):
            value = value * right + left
    return time.perf_counter() - began


def main() -> None:
    workers = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    print(
        f"{'scenario':18} {'candidates':>11} {'evaluated':>10} {'seconds':>8} {'plans/s':>10} {'of a bare chain':>16}"
    )
    for name in (*NATURAL, "speed"):
        counts = [1, workers] if name == "speed" else [1]
        for processes in counts:
            found = search(load(name), workers=processes)
            tally = found.tally
            chain = bare_chain(max(tally.evaluated, BLOCK_ROWS)) * tally.evaluated / max(tally.evaluated, BLOCK_ROWS)
            print(
                f"{name:18} {tally.candidates:11,} {tally.evaluated:10,} {found.elapsed:8.2f}"
                f" {tally.evaluated / found.elapsed:10,.0f} {chain / found.elapsed:15.2f}×  {processes} process(es)"
            )


if __name__ == "__main__":
    main()
