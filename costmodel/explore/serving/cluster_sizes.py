"""Larger clusters for a remedy: more nodes, or more GPUs where the command line counts those."""

from __future__ import annotations

import itertools
import math

from costmodel.documents.reader.counted_gpus import NODES, PART, counted_by_gpus
from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.ground.record import record


@record
class ClusterSizes:
    """Sizes that a cluster may have, by number: parts of a node in powers of two where --gpus may ask for one, then
    whole nodes.
    """

    node: int
    parts: tuple[int, ...] = ()

    def gpus(self, number: int) -> int:
        """Accelerators of a size.

        >>> [ClusterSizes(8, (1, 2, 4)).gpus(number) for number in range(5)], ClusterSizes(8).gpus(0)
        ([1, 2, 4, 8, 16], 8)
        """
        return self.parts[number] if number < len(self.parts) else (number - len(self.parts) + 1) * self.node

    def number(self, gpus: float) -> int:
        """The number of the smallest size with at least `gpus` accelerators."""
        small = next((place for place, part in enumerate(self.parts) if part >= gpus), None)
        return len(self.parts) + max(math.ceil(gpus / self.node), 1) - 1 if small is None else small

    def settings(self, number: int) -> tuple[str, ...]:
        """Settings for a cluster of that size."""
        gpus = self.gpus(number)
        nodes = (f"{NODES}={max(gpus // self.node, 1)}",)
        return (*nodes, f"{PART}={min(gpus, self.node)}") if self.parts else nodes


def sizes_of_cluster(case: ServingCase) -> ClusterSizes:
    """The sizes that a remedy may name."""
    each = int(case.node.accelerators)
    if not counted_by_gpus(case):
        return ClusterSizes(each)
    whole = int(case.node.built)
    powers = itertools.takewhile(lambda part: part < whole, (2**power for power in itertools.count()))
    return ClusterSizes(whole, tuple(powers)) if each < whole else ClusterSizes(whole)
