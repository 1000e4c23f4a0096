"""One collective over all accelerators of a cluster: its time by size, by level and algorithm, with its band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.equations.network.collectives import Operation, algorithm_bandwidth, bus_bandwidth
from costmodel.equations.run.uncertainty import ninetieth_percentile, tenth_percentile
from costmodel.estimate.evaluate.error_band import residual
from costmodel.estimate.machine.collective_time import algorithm_times, collective_time, inside_time, send_time
from costmodel.estimate.machine.process_groups import Group, group
from costmodel.estimate.training.training_inputs import TrainingInputs, training_inputs
from costmodel.explore.short_form import ScenarioFlags, case_of_flags
from costmodel.ground.errors import COMMAND_LINE, Place, fail
from costmodel.ground.parsing import UnitError, parse

FRAME = "quickstart"  # whose model and workload a collective does not depend on
OPERATIONS: dict[str, Operation] = {
    "all-reduce": "all_reduce",
    "all-gather": "all_gather",
    "reduce-scatter": "reduce_scatter",
    "all-to-all": "all_to_all",
    "send": "send",
}
_ROWS, _STEP = 6, 8  # sizes of a table, and the factor between them
_SMALLEST, _MOST = 1024.0, 1e15  # bytes


@dataclass(frozen=True)
class SizeRow:
    """A collective of one size: seconds in all, P10 and P90, of each level, and nccl-tests' bandwidths."""

    size: float
    time: float
    low: float
    high: float
    algbw: float
    busbw: float
    inside: float | None
    between: float | None
    algorithm: str


@dataclass(frozen=True)
class CollectiveAnswer:
    """A collective over all accelerators of a case, smallest size first."""

    case: ResolvedScenario
    operation: Operation
    ranks: float
    inside: float  # ranks of the fullest domain
    domains: float
    rows: tuple[SizeRow, ...]


def collective(
    name: str, sizes: Sequence[str], flags: ScenarioFlags, assignments: Sequence[str] = ()
) -> CollectiveAnswer:
    """The answer for an operation by its name and sizes with their units; a single size heads a table up to it."""
    operation = _operation(name)
    messages = _table(_bytes(sizes[0])) if len(sizes) == 1 else sorted(map(_bytes, sizes))
    case = case_of_flags(FRAME, flags, assignments)
    inputs = training_inputs(case)
    ranks = float(inputs.ranks)
    if ranks < 2:
        raise fail("C004", "a collective needs two accelerators or more", None, "--gpus 8, for example")
    members = group(inputs, "dp", 2.0 if operation == "send" else ranks, _apart(inputs, operation))
    rows = tuple(_row(inputs, size, members, operation) for size in messages)
    return CollectiveAnswer(case, operation, ranks, float(members.inside), float(members.domains), rows)


def _operation(name: str) -> Operation:
    if name not in OPERATIONS:
        known = ", ".join(OPERATIONS)
        raise fail("C003", f"'{name}' is no collective that is modelled", Place(COMMAND_LINE), f"known: {known}")
    return OPERATIONS[name]


def _apart(inputs: TrainingInputs, operation: Operation) -> float:
    """How far ranks lie apart: those of a send are in neighbouring domains where there are several."""
    return float(min(inputs.domain, inputs.ranks / 2)) if operation == "send" else 1.0


def _bytes(text: str) -> float:
    try:
        size = parse(text, "B")
    except UnitError as error:
        raise fail("D007", f"'{text}' is no size: {error}", Place(COMMAND_LINE), "write e.g. 1GB or 64MiB") from None
    if not _SMALLEST <= size <= _MOST:
        raise fail("D008", f"{text} is out of range: {_SMALLEST:g} to {_MOST:g} B", Place(COMMAND_LINE))
    return size


def _table(largest: float) -> list[float]:
    """Sizes up to the largest, each eight times the one before."""
    steps = [largest / _STEP**power for power in reversed(range(_ROWS))]
    return [size for size in steps if size >= _SMALLEST]


def _row(inputs: TrainingInputs, size: float, members: Group, operation: Operation) -> SizeRow:
    far = bool(members.domains > 1)
    if operation == "send":
        time = float(send_time(inputs, size, members))
        inside, between, algorithm = None, None, "one send"
    else:
        time = float(collective_time(inputs, size, members, operation))
        times = {name: float(each) for name, each in algorithm_times(inputs, size, members, operation).items()}
        fastest = min(times, key=lambda name: times[name])
        inside = float(inside_time(inputs, size, members, operation))
        between = times[fastest] + float(inputs.network.start) if far else None
        algorithm = "pairwise" if operation == "all_to_all" else fastest if far else "ring"
    spread = _spread(inputs, operation, far=far)
    return SizeRow(
        size,
        time,
        float(tenth_percentile(time, spread)),
        float(ninetieth_percentile(time, spread)),
        float(algorithm_bandwidth(size, time)),
        float(bus_bandwidth(size, float(members.ranks), time, operation=operation)),
        inside,
        between,
        algorithm,
    )


def _spread(inputs: TrainingInputs, operation: Operation, *, far: bool) -> float:
    """The spread of the fit that the time is of: of the network where it leaves the domain."""
    common = inputs.case.common
    if far:
        return float(np.asarray(residual(inputs.network, common.network)))
    fits = (inputs.collective(operation), common.collectives.get(operation, common.collectives["all_gather"]))
    return float(np.asarray(residual(*fits)))
