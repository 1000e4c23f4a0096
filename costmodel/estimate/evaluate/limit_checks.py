"""Constraints on results: usable memory, and the limits of the scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from costmodel.documents.schemas.base import LEAST_FACTOR
from costmodel.estimate.shared.limits import stated_limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from costmodel.estimate.shared.results import Costs
    from costmodel.estimate.shared.run_inputs import RunInputs
    from costmodel.estimate.training.training_inputs import TrainingInputs

ENDLESS = "R007"
TOO_LARGE = frozenset({"M001", "M003", "R002"})  # for the machine; all other codes are of limits that the scenario sets
NOT_SAFE = "M004"  # a plan without the chance to fit that a search prefers


def unacceptable(inputs: TrainingInputs, costs: Costs) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Masks of the rows that break each limit, by code; limits of the machine first."""
    yield "M001", costs.column("memory_share") > 1
    yield "M003", costs.column("host_share") > 1
    if inputs.run is not None:
        yield from _of_run(inputs, inputs.run, costs)
    for limit in stated_limits(inputs.case.scenario.limits):
        code = "M002" if limit.of_memory else "T001"
        yield code, ~limit.kept(costs.column(limit.column))


def _of_run(inputs: TrainingInputs, run: RunInputs, costs: Costs) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Masks by reason code: runs that never end, checkpoints written too slowly, copies that exceed host memory."""
    yield ENDLESS, ~(costs.column("goodput") >= LEAST_FACTOR)
    if run.checkpoint.mode != "sync":
        write, stop = costs.column("checkpoint_write"), costs.column("checkpoint_blocking")
        period = costs.column("checkpoint_interval") + stop + run.checkpoint.interference * write
        yield "R001", np.asarray(period < write)
    yield "R002", costs.column("checkpoint_host") + costs.column("host_memory") > inputs.host.capacity
