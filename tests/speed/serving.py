"""Serving plans a second on one core: `python tests/speed/serving.py [runs]`.

Every plan of a listed space in full: memory, both loads that are looked for (the scenario's, and the most within
limits), times to the first token, cost and the chance to keep the limits. Processor time, the least of the runs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from costmodel.documents.reader.load_scenario import load_any
from costmodel.documents.reader.serving_scenario import serving
from costmodel.estimate.serving.serving_inputs import ServingInputs, inputs_of
from costmodel.explore.serving.search_layouts import search
from costmodel.explore.serving.serving_search_result import ServiceSearch

NAME = "serve-llama-3.1-70b"
MANY = range(1, 65)
SPACE = {"tp": [1, 2, 4, 8], "pp": [1, 2, 4, 8], "budget": [512 * count for count in MANY], "replicas": [*MANY]}
UNLIKE = {"tp": [1, 2, 4, 8], "pp": [1, 2, 4, 8], "budget": [512 + 8 * count for count in range(3000)]}
LOADS = {
    "dense, at a rate": ["cluster.nodes=32", "workload.rate=100 /s"],
    "dense, no limits": ["cluster.nodes=32", "workload.rate=100 /s", "limits={}"],
    "dense, users in flight": [
        "cluster.nodes=32",
        "workload={kind: serving, prompt: 2048, output: 512, concurrency: 512, precision: bf16}",
    ],
    "dense, none alike": ["cluster.nodes=32", "workload.rate=100 /s", f"search={UNLIKE}"],
    "experts, at a rate": ["model=qwen-3-30b-a3b", "cluster.nodes=32", "workload.rate=100 /s"],
}


def inputs(changes: list[str]) -> ServingInputs:
    """The scenario with some tens of thousands of plans."""
    return inputs_of(serving(load_any(NAME, [f"search={SPACE}", *changes])))


def searches(runs: int) -> Iterator[tuple[str, ServiceSearch, float, float]]:
    """What each search finds, its least processor time, and that of the same with bands of the ten plans."""
    for name, changes in LOADS.items():
        stated = inputs(changes)
        (found, plain), (_, whole) = (_least(stated, runs, bands=bands) for bands in (False, True))
        yield name, found, plain, whole


def _least(stated: ServingInputs, runs: int, *, bands: bool) -> tuple[ServiceSearch, float]:
    taken = []
    for _ in range(runs):
        began = time.process_time()
        found = search(stated, 10, bands=bands)
        taken.append(time.process_time() - began)
    return found, min(taken)


def main(runs: int) -> None:
    """Plans a second of every load."""
    for name, found, plain, whole in searches(runs):
        plans = found.tally.evaluated
        speed, shown = plans / plain / 1e3, whole - plain
        print(f"{name:24} {plans:7,} plans  {plain:6.2f} s  {speed:6.0f} k plans/s, bands of ten {shown:5.2f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
