"""Predicts one collective over a whole cluster, with nothing else running: time by size, level and algorithm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np

from costmodel.documents.keys.overrides import path_of
from costmodel.documents.keys.suggestions import nearest
from costmodel.documents.reader.library import accelerator_named, read
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.efficiency import CollectiveFit, NetworkFit
from costmodel.documents.text.files import LARGEST_TABLE, file_text
from costmodel.equations.network.collectives import (
    Operation,
    algorithm_bandwidth,
    bus_bandwidth,
    line_rate_time,
    ring_chunk,
    ring_time,
)
from costmodel.equations.run.economics import share
from costmodel.equations.run.uncertainty import ninetieth_percentile, tenth_percentile
from costmodel.estimate.machine.collective_time import AlgorithmTime, collective_time, collective_times_alone, send_time
from costmodel.estimate.machine.process_groups import (
    Group,
    Machine,
    group,
    has_nvls_fit,
    interface_rate,
    link_of,
    slowest_link,
)
from costmodel.estimate.shared.fit_ranges import OutsideFit, outside, widened
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.training_inputs import check_links
from costmodel.estimate.training_answer.training_error_band import residual
from costmodel.evidence.calibrate.fit_from_kernels import Soundness
from costmodel.exchange.tables.csv_cells import CsvRow
from costmodel.exchange.tables.nccl_tests import is_nccl_text, nccl_remarks, nccl_rows
from costmodel.explore.explain.equation_trees import ExplainedFigure, TreeNames, trees_of
from costmodel.explore.scenario_from_flags import DEFAULT_NODE, ScenarioFlags, case_of_flags
from costmodel.ground.equation import Number, leaf, origin_of, trace
from costmodel.ground.errors import COMMAND_LINE, Place, fail
from costmodel.ground.parsing import UnitError, parse
from costmodel.ground.record import record
from costmodel.ground.units import counted

# --- one collective alone over all accelerators of a cluster


# What nccl-tests measured of one collective, beside its prediction.

LARGE = 0.125  # of the largest message, from which on bandwidth decides


@record
class MeasuredCollective:
    """The median time of each size in nccl-tests output, and the ranks that were measured."""

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
    """The measured times of an operation in a file of nccl-tests output; among group sizes, that of `gpus`.

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
    """The median measured time [s] of each message size."""
    by_size: dict[float, list[float]] = {}
    for row in rows:
        by_size.setdefault(float(row.number("bytes") or 0), []).append(float(row.number("time_us") or 0) * 1e-6)
    return {size: float(np.median(times)) for size, times in sorted(by_size.items())}


def check_same_group(case: ResolvedScenario, measured: MeasuredCollective) -> list[str]:
    """Raises a fault if prediction and measurement have different groups; remarks if the GPUs differ."""
    nodes, per_node = int(case.scenario.cluster.nodes), int(case.node.accelerators)
    hosts = measured.hosts or nodes
    if nodes * per_node != measured.ranks or nodes != hosts:
        sentence = (
            f"it measured {measured.ranks} ranks on {hosts} hosts; the prediction is of {nodes * per_node} on {nodes}"
        )
        hint = f"--set cluster.nodes={hosts} --set cluster.node.accelerators={measured.ranks // hosts}"
        raise fail("C004", sentence, Place(measured.file), hint)
    if measured.device and measured.accelerator != case.accelerator.name:
        return [f"measured on {measured.device}, predicted for {case.accelerator.name}"]
    return []


def compare_bandwidths(
    operation: Operation, ranks: float, times: Sequence[tuple[float, float, float]], apart: float
) -> Soundness | None:
    """Compares measured and predicted bus bandwidth of large messages; `times` has size, measured, predicted."""
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


MODEL = "gpt-2-small"  # whose shape a collective does not depend on
OPERATIONS: dict[str, Operation] = {
    "all-reduce": "all_reduce",
    "all-gather": "all_gather",
    "reduce-scatter": "reduce_scatter",
    "all-to-all": "all_to_all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "send": "send",
}
_SAME = {  # names of PyTorch and of nccl-tests: sendrecv_perf, all_to_all_single, all_gather_into_tensor
    "sendrecv": "send",
    "send-recv": "send",
    "point-to-point": "send",
    "p2p": "send",
    "all-to-all-single": "all-to-all",
    "all-to-all-v": "all-to-all",
    "all-gather-into": "all-gather",
}
_CHAINED = ("broadcast", "reduce")
_ROWS, _STEP = 6, 8  # sizes of a table, and the factor between them
_SMALLEST, _MOST = 1024.0, 1e15  # bytes


@record
class SizeRow:
    """The prediction for one message size: time with P10 and P90, time by level and algorithm, measured time,
    the bandwidths that nccl-tests prints, and the time in a training step, which computes meanwhile.

    waits: whether interfaces wait for the links inside domains
    """

    size: float
    time: float
    low: float
    high: float
    algbw: float
    busbw: float
    inside: float | None
    between: float | None
    algorithm: str
    algorithms: dict[str, float]
    in_step: float
    in_step_busbw: float
    waits: bool = False
    measured: float | None = None
    measured_busbw: float | None = None


@record
class CollectiveAnswer:
    """The prediction for a collective over a cluster, a row for each message size, smallest first."""

    case: ResolvedScenario
    operation: Operation
    ranks: float
    inside: float  # ranks of the fullest domain
    domains: float
    rows: tuple[SizeRow, ...]
    stand_in: str  # the collective whose fit counts inside a domain, where the operation has none of its own
    remarks: tuple[str, ...]
    outside: tuple[OutsideFit, ...]  # ranks and sizes outside the fit inside a domain
    measured: MeasuredCollective | None
    sound: Soundness | None
    wanted: str | None = None  # the algorithm that was asked for


def collective(
    name: str,
    sizes: Sequence[str],
    flags: ScenarioFlags,
    assignments: Sequence[str] = (),
    measured: str | None = None,
    *,
    algorithm: str | None = None,
) -> CollectiveAnswer:
    """Predicts a collective by name for message sizes such as "64MB"; one size gives a table up to that size.

    Beside sizes measured by nccl-tests, in a file of that path, stand predictions for the same group.
    """
    operation = _operation(name)
    per_node = round(read("node", flags.node).accelerators) if measured is not None and flags.node is not None else 0
    measured_run = measured_collective(measured, operation, flags.gpus, per_node) if measured is not None else None
    case, remarks = _collective_case(flags, assignments, measured_run)
    inputs = _links_only_machine(case, algorithm)
    ranks = float(inputs.ranks)
    if ranks < 2:
        raise fail("C004", "a collective needs two accelerators or more", None, "--gpus 8, for example")
    members = group(inputs, "dp", 2.0 if operation == "send" else ranks, _rank_distance(inputs, operation))
    rows = [_size_row(inputs, size, members, operation, algorithm) for size in _message_sizes(sizes, measured_run)]
    times = {} if measured_run is None else measured_run.times
    rows = [_with_measured_time(row, times.get(row.size), float(members.ranks), operation) for row in rows]
    far = bool(members.domains > 1)
    beside = [(row.size, row.measured, row.time) for row in rows if row.measured is not None]
    sound = compare_bandwidths(
        operation, float(members.ranks), beside, _spread_of_fabrics(_fits_with_fallback(inputs, operation, far=far))
    )
    fitted = inputs.fitted_by(operation) if float(members.inside) > 1 or operation == "send" else operation
    stand_in = fitted if fitted != operation else ""
    shape = (ranks, float(members.inside), float(members.domains))
    beyond = _outside_fits(inputs, operation, members, rows)
    return CollectiveAnswer(
        case, operation, *shape, tuple(rows), stand_in, remarks, beyond, measured_run, sound, algorithm
    )


def collective_trees(answer: CollectiveAnswer) -> dict[str, ExplainedFigure]:
    """The equation trees of the largest size's time, run alone and in a training step."""
    inputs, size, operation = _links_only_machine(answer.case, answer.wanted), answer.rows[-1].size, answer.operation
    with trace():
        members = group(inputs, "dp", 2.0 if operation == "send" else answer.ranks, _rank_distance(inputs, operation))
        message, in_step = leaf(size, "message"), "time in a step"
        if operation == "send":
            times = {"time": send_time(inputs, message, members)}
        else:
            alone = _wanted_algorithms(collective_times_alone(inputs, message, members, operation), answer.wanted)[
                0
            ].total
            times = {"time": alone, in_step: collective_time(inputs, message, members, operation)}
        origins = {name: origin_of(time, name) for name, time in times.items()}
    return trees_of(TreeNames(answer.case.trees, {}, {}), origins, dict.fromkeys(origins, "s"))


def _inside_fit(inputs: Machine, operation: Operation, algorithm: str) -> CollectiveFit:
    """The fitted constants for the part of an algorithm that runs inside a domain."""
    alone = {str(name): fit for name, fit in inputs.case.efficiency.alone.items()}
    return alone.get(algorithm, inputs.collective(operation))


def _outside_fits(
    inputs: Machine, operation: Operation, members: Group, rows: Sequence[SizeRow]
) -> tuple[OutsideFit, ...]:
    """The rank counts and sizes of an answer that lie outside the measured range of its fits."""
    if operation == "send" or members.domains > 1:
        return ()
    name = operation.replace("_", "-")
    outside_fits: list[OutsideFit] = []
    for row in (rows[0], rows[-1]):
        fit = _inside_fit(inputs, operation, row.algorithm)
        outside_fits += outside(fit.fitted, name, 1.0, ranks=float(members.inside), bytes=row.size)
    return tuple(dict.fromkeys(outside_fits))


def _operation(name: str) -> Operation:
    """The collective of a name, also as PyTorch and nccl-tests spell it: all_reduce, all_reduce_perf."""
    letters, spelt = _letters_of_name(name), _operation_spellings()
    if letters not in spelt:
        close = nearest(letters, spelt)
        meant = f"did you mean {_SAME.get(spelt[close], spelt[close])}? " if close else ""
        hint = f"{meant}known: {', '.join(OPERATIONS)}"
        raise fail("C003", f"unknown collective '{name}'", Place(COMMAND_LINE), hint)
    return OPERATIONS[_SAME.get(spelt[letters], spelt[letters])]


def _operation_spellings() -> dict[str, str]:
    return {_letters_of_name(known): known for known in (*OPERATIONS, *_SAME)}


def is_operation(name: str) -> bool:
    """Whether a word names a collective."""
    return _letters_of_name(name) in _operation_spellings()


def _letters_of_name(name: str) -> str:
    """The letters of a collective's name, without prefixes and suffixes of PyTorch and nccl-tests."""
    return "".join(filter(str.isalpha, name.lower())).removeprefix("nccl").removesuffix("perf").removesuffix("tensor")


def _collective_case(
    flags: ScenarioFlags, assignments: Sequence[str], measured_run: MeasuredCollective | None
) -> tuple[ResolvedScenario, tuple[str, ...]]:
    """The cluster that the user states, else the measured one, else one node; and remarks about it."""
    remarks: list[str] = []
    set_here = {path_of(assignment) for assignment in assignments}
    if measured_run is not None:
        remarks += measured_run.remarks
        if flags.gpu is None and flags.node is None and "cluster.node" not in set_here and measured_run.accelerator:
            flags = replace(flags, gpu=measured_run.accelerator)
        if flags.gpus is None and set_here.isdisjoint(("cluster.nodes", "cluster.node.accelerators")):
            flags = replace(flags, gpus=measured_run.ranks)
    if flags.gpu is None and flags.node is None:
        flags = replace(flags, node=DEFAULT_NODE)
    alone = () if flags.gpus is not None else ("cluster.nodes=1",)
    case = case_of_flags(None, replace(flags, model=MODEL), (*alone, *assignments))
    remarks += case.asked.remarks
    return case, (*remarks, *(check_same_group(case, measured_run) if measured_run is not None else ()))


def _links_only_machine(case: ResolvedScenario, algorithm: str | None) -> Machine:
    """The machine of a case with only its links, since collectives need no number types."""
    check_links(case)
    network, algorithms = case.network.network, tuple(map(str, case.stack.collectives))
    assert network is not None
    share = case.scenario.assume.network_share or network.share
    algorithms = algorithms if algorithm is None else (*algorithms, algorithm)
    return Machine(case, case.efficiency.collectives, network, slowest_link(case, share), algorithms)


def _message_sizes(sizes: Sequence[str], measured_run: MeasuredCollective | None) -> list[float]:
    """The message sizes of the answer, smallest first: those measured within the model's range, and those asked for."""
    if measured_run is not None:
        measured = [size for size in measured_run.times if size >= _SMALLEST]
        if not measured:
            raise fail(
                "D008", f"every size in it is under {_SMALLEST:g} B", Place(measured_run.file), "measure larger ones"
            )
        return sorted({*measured, *map(_parse_bytes, sizes)})
    if not sizes:
        raise fail("C004", "no size is given", None, "1GB, for example, or --measured FILE")
    return _table_sizes(_parse_bytes(sizes[0])) if len(sizes) == 1 else sorted({*map(_parse_bytes, sizes)})


def _rank_distance(inputs: Machine, operation: Operation) -> float:
    """How many ranks apart two partners are: of a send, in neighbouring domains if there are several."""
    return float(min(inputs.domain, inputs.ranks / 2)) if operation == "send" else 1.0


def _parse_bytes(text: str) -> float:
    """The bytes in a text such as "64MiB"; a fault otherwise."""
    try:
        size = parse(text, "B")
    except UnitError as error:
        raise fail("D007", f"'{text}' is no size: {error}", Place(COMMAND_LINE), "write e.g. 1GB or 64MiB") from None
    if not _SMALLEST <= size <= _MOST:
        raise fail("D008", f"{text} is out of range: {_SMALLEST:g} to {_MOST:g} B", Place(COMMAND_LINE))
    return size


def _with_measured_time(row: SizeRow, measured: float | None, ranks: float, operation: Operation) -> SizeRow:
    """The row with the measured time of its size and the bus bandwidth of that time."""
    if measured is None:
        return row
    return replace(
        row, measured=measured, measured_busbw=float(bus_bandwidth(row.size, ranks, measured, operation=operation))
    )


def _table_sizes(largest: float) -> list[float]:
    """Message sizes up to the largest, each eight times the one before."""
    steps = [largest / _STEP**power for power in reversed(range(_ROWS))]
    return [size for size in steps if size >= _SMALLEST]


def _size_row(inputs: Machine, size: float, members: Group, operation: Operation, wanted: str | None) -> SizeRow:
    """One row of the answer: time, band, bandwidths and algorithm for a message of `size` bytes."""
    if operation == "send":
        in_step = float(send_time(inputs, size, members))
        ways = [AlgorithmTime("one send", in_step, 0.0)]
    else:
        in_step = float(collective_time(inputs, size, members, operation))
        ways = _wanted_algorithms(collective_times_alone(inputs, size, members, operation), wanted)
    best, far, send = ways[0], bool(members.domains > 1), operation == "send"
    total = number(best.total)
    busbw = partial(bus_bandwidth, size, float(members.ranks), operation=operation)
    spread: Number = residual(*_fits_with_fallback(inputs, operation, far=far))
    if not far and not send:
        spread = widened(spread, _inside_fit(inputs, operation, best.name).fitted, ranks=members.inside, bytes=size)
    spread = float(np.asarray(spread))
    least = min(least_time(inputs, size, members, operation, best.name), total)
    return SizeRow(
        size=size,
        time=total,
        low=max(float(tenth_percentile(total, spread)), least),
        high=float(ninetieth_percentile(total, spread)),
        algbw=float(algorithm_bandwidth(size, total)),
        busbw=float(busbw(time=total)),
        inside=number(best.inside) if members.inside > 1 and not send else None,
        between=number(best.between) if far and not send else None,
        algorithm="pairwise" if operation == "all_to_all" else "chain" if operation in _CHAINED else best.name,
        algorithms={way.name: number(way.total) for way in ways},
        in_step=in_step,
        in_step_busbw=float(busbw(time=in_step)),
        waits=far and not send and (best.follows or number(best.inside) > number(best.between)),
    )


def _wanted_algorithms(ways: list[AlgorithmTime], name: str | None) -> list[AlgorithmTime]:
    """The algorithms with this name, or all if none is named; raises a fault if there is none."""
    times = [way for way in ways if name in (None, way.name)]
    if not times:
        known = ", ".join(sorted(way.name for way in ways))
        raise fail("C003", f"there is no algorithm '{name}' here", Place(COMMAND_LINE), f"known: {known}")
    return times


def _fits_with_fallback(inputs: Machine, operation: Operation, *, far: bool) -> tuple[NetworkFit | CollectiveFit, ...]:
    """The fit that predicts the time, then the common fit, which supplies its error if it states none."""
    common, name = inputs.case.common, inputs.fitted_by(operation)
    if far:
        return tuple(fit for fit in (inputs.network, common.network) if fit is not None)
    return inputs.collective(operation), common.collectives.get(name, common.collectives["all_gather"])


def _spread_of_fabrics(fits: Sequence[NetworkFit | CollectiveFit]) -> float:
    """How far healthy fabrics differ: the p90 error of the first fit that states one, as a share."""
    errors = (fit.fitted.p90 for fit in fits if fit.fitted is not None and fit.fitted.p90 is not None)
    return float(next(errors, 0.0))


# --- the lower bound of a collective's time: its links at line rate


def least_time(inputs: Machine, message: float, group: Group, operation: Operation, algorithm: str) -> float:
    """The lower bound of the time [s], set by the slowest link: a domain's network interfaces, or a rank's links."""
    link, far = number(link_of(inputs, group.inside)), float(group.domains) > 1
    interface = number(interface_rate(inputs.case, 1.0)) if far else 0.0
    own = (link if float(group.inside) > 1 else 0.0) + interface
    added = has_nvls_fit(inputs.case) or algorithm == "sharp"
    of_rank = line_rate_time(message, group.ranks, 1.0, group.ranks, own, operation=operation, switched=added)
    if not far:
        return number(of_rank)
    shape = (group.ranks, group.fewest, group.domains)
    return max(
        number(of_rank),
        number(line_rate_time(message, *shape, interface, operation=operation, switched=algorithm == "sharp")),
    )


# --- A ring all-reduce step by step: which rank sends which chunk to which, and when


Half = Literal["scatter", "gather"]
HALVES: tuple[Half, ...] = ("scatter", "gather")
USUAL = "nvlink4"


@record
class RingStep:
    """One step of a ring: the chunk that each rank sends to the next rank, and its start time."""

    half: Half
    number: int
    chunks: tuple[int, ...]
    starts: float


@record
class Ring:
    """All steps of a ring all-reduce and its total time.

    bandwidth: of the slowest hop. domain: ranks of a domain; inside: the rate of hops within one
    """

    ranks: int
    message: float
    bandwidth: float
    latency: float
    each: float
    steps: tuple[RingStep, ...]
    total: float
    domain: int
    inside: float


@record
class RingLinks:
    """The links of a ring, one way [B/s]: of a rank inside its domain, and all those of a domain to the next.

    A library runs as many rings at once as there are interfaces, each with a part of the buffer.
    """

    inside: float
    between: float
    domain: int
    names: str

    @property
    def slowest(self) -> float:
        """The rate of the slowest hop."""
        return min(self.inside, self.between)


def ring_links(ranks: int, flags: ScenarioFlags) -> RingLinks:
    """The links of a ring over so many GPUs; without a GPU or a node all are in one domain of the usual fabric."""
    if flags.gpu is None and flags.node is None:
        bandwidth: float = read("fabric", USUAL).bandwidth
        return RingLinks(bandwidth, math.inf, ranks, USUAL)
    case, _ = _collective_case(replace(flags, gpus=ranks), (), None)
    inputs = _links_only_machine(case, None)
    members = group(inputs, "dp", float(ranks), 1.0)
    inside, domain = number(link_of(inputs, members.inside)), round(number(members.inside))
    if domain == ranks:
        return RingLinks(inside, math.inf, ranks, case.scale_up.name)
    between = number(interface_rate(case, 1.0)) * domain
    return RingLinks(inside, between, domain, case.scale_out.name if between < inside else case.scale_up.name)


def ring_all_reduce(ranks: int, message: float, bandwidth: float, latency: float, domain: int = 0,
                    inside: float = 0.0) -> Ring:  # fmt: skip
    """The steps of an all-reduce on a ring of `ranks` ranks; bandwidth: of its slowest hop."""
    size = float(ranks)
    total = float(ring_time(message, size, bandwidth, latency, operation="all_reduce"))
    step_time = total / (2 * (ranks - 1))
    steps: list[RingStep] = []
    for half in HALVES:
        for turn in range(ranks - 1):
            sent = (ring_chunk(float(rank), float(turn), size, half=half) for rank in range(ranks))
            steps.append(RingStep(half, turn, tuple(int(chunk) for chunk in sent), step_time * len(steps)))
    shape = (domain or ranks, inside or bandwidth)
    return Ring(ranks, message, bandwidth, latency, step_time, tuple(steps), total, *shape)
