"""What nccl-tests measured of one collective, beside its prediction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from costmodel.documents.reader.cached_reader import accelerator_named
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.text.files import LARGEST_TABLE, file_text
from costmodel.equations.network.collectives import Operation, bus_bandwidth
from costmodel.equations.run.economics import share
from costmodel.evidence.calibrate.fabric_check import Soundness
from costmodel.exchange.tables.csv_cells import CsvRow
from costmodel.exchange.tables.nccl_tests import is_nccl_text, nccl_remarks, nccl_rows
from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record
from costmodel.ground.units import counted

LARGE = 0.125  # of the largest message, from which on bandwidth decides


@record
class MeasuredCollective:
    """The median time of every size in a text of nccl-tests, and the ranks that it was measured on."""

    file: str
    operation: Operation
    ranks: int
    hosts: int | None  # where its lines of ranks name them
    device: str  # as the driver calls it; empty where no line names it
    times: dict[float, float]
    remarks: tuple[str, ...] = ()

    @property
    def accelerator(self) -> str:
        """The name of the device's document; empty where there is none."""
        return accelerator_named(self.device) if self.device else ""


def measured_collective(path: str, operation: Operation, gpus: int | None, per_node: int) -> MeasuredCollective:
    """The measured times of an operation in nccl-tests output; of several group sizes, those for `gpus` ranks.

    per_node: accelerators of the node that is named beside it, 0 where none is.
    """
    text, place = file_text(path, largest=LARGEST_TABLE), Place(path, 1, 1)
    if not is_nccl_text(text):
        raise fail("D015", "this is not what nccl-tests print", place, "costmodel collective names their command")
    rows = nccl_rows(path, text, per_node)
    mine = [row for row in rows if row.text("op") == operation]
    if not mine:
        held = ", ".join(dict.fromkeys(row.text("op").replace("_", "-") for row in rows))
        sentence = f"it measured {held}, not {operation.replace('_', '-')}"
        raise fail("D015", sentence, place, f"costmodel collective {held.split(',')[0]}")
    mine = [row for row in mine if row.number("gpus") == gpus] or mine
    groups = sorted({(int(row.number("gpus") or 0), int(row.number("nodes") or 1)) for row in mine})
    if len(groups) > 1:
        ranks_of = [str(ranks) for ranks, _ in groups]
        sentence = f"its runs are of groups of {', '.join(ranks_of)} ranks"
        raise fail("D015", sentence, place, f"--gpus {' or '.join(ranks_of)} takes one of them")
    ((ranks, hosts),) = groups
    others = len(rows) - len(mine)
    passed = [f"{path}: {counted(others)} results of other operations or groups are left out"] if others else []
    device = mine[0].text("gpu")
    remarks = (*nccl_remarks(path, text, rows), *passed)
    return MeasuredCollective(path, operation, ranks, hosts if device else None, device, _medians(mine), remarks)


def _medians(rows: Sequence[CsvRow]) -> dict[float, float]:
    """Seconds by size, the median of several."""
    by_size: dict[float, list[float]] = {}
    for row in rows:
        by_size.setdefault(float(row.number("bytes") or 0), []).append(float(row.number("time_us") or 0) * 1e-6)
    return {size: float(np.median(times)) for size, times in sorted(by_size.items())}


def same_group(case: ResolvedScenario, measured: MeasuredCollective) -> list[str]:
    """A fault where the group of the prediction is another than the measured one; remarks where the device is."""
    nodes, each = int(case.scenario.cluster.nodes), int(case.node.accelerators)
    hosts = measured.hosts or nodes
    if nodes * each != measured.ranks or nodes != hosts:
        sentence = (
            f"it measured {measured.ranks} ranks on {hosts} hosts; the prediction is of {nodes * each} on {nodes}"
        )
        hint = f"--set cluster.nodes={hosts} --set cluster.node.accelerators={measured.ranks // hosts}"
        raise fail("C004", sentence, Place(measured.file), hint)
    if measured.device and measured.accelerator != case.accelerator.name:
        return [f"measured on {measured.device}, predicted for {case.accelerator.name}"]
    return []


def soundness(
    operation: Operation, ranks: float, times: Sequence[tuple[float, float, float]], apart: float
) -> Soundness | None:
    """Compares measured and predicted bus bandwidth of large messages; times: size, measured, predicted."""
    if not times:
        return None
    sizes, *both = (np.array(column) for column in zip(*times, strict=True))
    large = sizes >= LARGE * sizes.max()
    rates = (np.median(np.asarray(bus_bandwidth(sizes, ranks, time, operation=operation))[large]) for time in both)
    measured, predicted = map(float, rates)
    return Soundness(float(sizes[large].min()), measured, predicted, apart)


def signed_error(predicted: float, measured: float) -> float:
    """Predicted over measured, less one: positive where the prediction is too slow."""
    return float(share(predicted, measured)) - 1
