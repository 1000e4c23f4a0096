"""The inputs of a whole run as numbers, from the scenario, the practice and the reliability of its cluster."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.equations.run.failures import observed_failure_rate
from costmodel.estimate.shared.assumptions import AssumptionLog
from costmodel.ground.errors import fail
from costmodel.ground.record import record
from costmodel.ground.units import show

if TYPE_CHECKING:
    from costmodel.documents.schemas.run import DataStore, Failures, Mode, PlannedStops, Spot, WholeRun


@record
class FailureRates:
    """Interruptions per second of one node, and of a job independent of its nodes; each with its band."""

    node: float
    node_low: float
    node_high: float
    job: float
    job_low: float
    job_high: float
    soft: float
    repair: float | None


@record
class CheckpointInputs:
    """Inputs about checkpoints. A missing interval is optimised; without total rates those of each node apply."""

    mode: Mode
    interval: float | None
    steps: float | None
    memory_interval: float | None
    write: float | None
    read: float | None
    node_write: float
    node_read: float
    writer: float | None
    block: float | None
    overhead: float
    interference: float
    by_each_replica: bool


@record
class RestartInputs:
    """Times of a restart except loading; only the start time has a band."""

    detect: float
    start: float
    start_low: float
    start_high: float
    warm_up: float
    ranks: float | None


@record
class PowerInputs:
    """Power of an accelerator with its share of the node: stated, or shares to estimate it; and carbon intensity."""

    draw: float | None
    rated_share: float
    over_part: float
    idle: float
    pue: float
    intensity: float
    cap: float | None
    tariff: float | None


@record
class ElasticInputs:
    """Pause of all replicas when one leaves or comes back, and the time until it is back, in seconds."""

    regroup: float
    repair: float


@record
class RunInputs:
    """The inputs of the whole run."""

    failures: FailureRates
    checkpoint: CheckpointInputs
    restart: RestartInputs
    power: PowerInputs
    steps: float | None
    spares: float
    elastic: ElasticInputs | None
    evaluation: float
    planned: PlannedStops | None
    loader: float
    data: DataStore | None
    spot: Spot | None


def run_inputs(case: ResolvedScenario, run: WholeRun, log: AssumptionLog) -> RunInputs:
    """The inputs of the whole run; every default is recorded with its source."""
    _check_repair_time(case, run)
    return RunInputs(
        failures=_failure_rates(case, run, log),
        checkpoint=_checkpoint_inputs(case, run, log),
        restart=_restart_inputs(case, run, log),
        power=_power_inputs(case, run, log),
        steps=run.steps,
        spares=run.spares,
        elastic=_elastic_inputs(case, run, log),
        evaluation=run.evaluation,
        planned=run.planned,
        loader=math.inf if run.loader is None else run.loader,
        data=run.data,
        spot=run.spot,
    )


def _elastic_inputs(case: ResolvedScenario, run: WholeRun, log: AssumptionLog) -> ElasticInputs | None:
    """Regroup and repair times for elastic training; None if the scenario has none."""
    written, practice, record = run.elastic, case.practice, case.reliability
    if written is None:
        return None
    assert practice is not None
    assert record is not None
    named, usual = f"practices/{practice.name}", practice.restart.time
    regroup = log.choose("run.elastic.regroup", written.regroup, usual, f"{named}, as a start", "s")
    if written.repair is not None:
        return ElasticInputs(regroup, written.repair)
    assert record.repair is not None
    origin = f"reliability/{record.name}" if record.name else "run.failures"
    return ElasticInputs(regroup, log.choose("run.elastic.repair", None, record.repair.time, origin, "s"))


def _check_repair_time(case: ResolvedScenario, run: WholeRun) -> None:
    """Raises an error if repairs matter for this run but no repair time is known."""
    assert case.reliability is not None
    if case.reliability.repair is not None:
        return
    wanting = {
        "spares": 0 < run.spares < 1,
        "restart.ranks": run.restart.ranks is not None,
        "elastic": run.elastic is not None and run.elastic.repair is None,
    }
    for key, counts in wanting.items():
        if counts:
            hint = "--set 'run.failures.repair={time: 2 days}', or what yours take"
            raise fail("D016", f"run.{key} depends on how long repairs take", case.place(f"run.{key}"), hint)


def _failure_rates(case: ResolvedScenario, run: WholeRun, log: AssumptionLog) -> FailureRates:
    """Interruption rates of a node and of the job with their bands; defaults are recorded as assumptions."""
    record = _rates_per_node(case)
    assert record.rate is not None
    if "failures" not in run.model_fields_set:
        band = (
            f"{show(_low_failure_rate(record), '1/node/s').split()[0]} – {show(_high_failure_rate(record), '1/node/s')}"
        )
        log.note("run.failures.rate", show(record.rate, "1/node/s"), f"reliability/{record.name}, {band}")
    elif record.rate > 0 and _low_failure_rate(record) == _high_failure_rate(record):
        named = record.name and record.low is None
        whose = f"reliability/{record.name} states no band" if named else "stated, so it has no range"
        log.note("run.failures.low, high", "as the rate", whose)
    job = record.job
    if job is not None and "failures" not in run.model_fields_set:
        high = job.rate if job.high is None else job.high
        words = f"{show(job.rate, 'run/s')}, up to {show(high, 'run/s')}"
        log.note("run.failures.job.rate", words, f"reliability/{record.name}")
    return FailureRates(
        node=record.rate,
        node_low=_low_failure_rate(record),
        node_high=_high_failure_rate(record),
        job=0.0 if job is None else job.rate,
        job_low=0.0 if job is None else _lower_rate(job.rate, job.low),
        job_high=0.0 if job is None else _higher_rate(job.rate, job.high),
        soft=0.0 if record.soft is None else record.soft.share,
        repair=None if record.repair is None else record.repair.time,
    )


def _rates_per_node(case: ResolvedScenario) -> Failures:
    """The record with a failure rate per node, computed if it states the rate of a whole job."""
    record = case.reliability
    assert record is not None
    if record.every is None:
        return record
    nodes = case.scenario.cluster.nodes if record.gpus is None else record.gpus / float(case.node.accelerators)
    return record.model_copy(update={"rate": observed_failure_rate(1.0, float(nodes), record.every)})


def _lower_rate(rate: float, low: float | None) -> float:
    return rate if low is None else min(rate, low)


def _higher_rate(rate: float, high: float | None) -> float:
    return rate if high is None else max(rate, high)


def _low_failure_rate(record: Failures) -> float:
    assert record.rate is not None
    return _lower_rate(record.rate, record.low if _is_stated_with_rate(record, record.low) else None)


def _high_failure_rate(record: Failures) -> float:
    assert record.rate is not None
    return _higher_rate(record.rate, record.high if _is_stated_with_rate(record, record.high) else None)


def _is_stated_with_rate(record: Failures, end: float | None) -> bool:
    """Whether the rate and an end of its band come from the same file; a rate stated alone has no band."""
    files = {place.file for value in (record.rate, end) if (place := getattr(value, "place", None)) is not None}
    return len(files) <= 1


def _checkpoint_inputs(case: ResolvedScenario, run: WholeRun, log: AssumptionLog) -> CheckpointInputs:
    """Interval, storage rates, blocking time and interference of checkpoints; defaults are recorded as assumptions."""
    practice, written = case.practice, run.checkpoint
    assert practice is not None
    named, nodes = f"practices/{practice.name}", case.scenario.cluster.nodes
    for way, stated in (("write", written.storage.write), ("read", written.storage.read)):
        each: float = getattr(practice.storage, way)
        if stated is None:
            whole = show(float(nodes * each), "B/s")
            log.note(f"run.checkpoint.storage.{way}", whole, f"{named}, {show(each, 'B/s')} a node")
    if written.mode != "sync" and written.block is None:
        copied = "a copy to the host" if case.host is not None else "a copy whose time no document gives"
        log.note("run.checkpoint.block", f"{copied} and {show(practice.stop.overhead, 's')}", named)
    interference = written.interference
    if written.mode != "sync":
        interference = log.choose("run.checkpoint.interference", interference, practice.interference.share, named)
    if "mode" not in written.model_fields_set:
        log.note("run.checkpoint.mode", written.mode, "default")
    if written.interval == "best" and written.steps is None:
        log.note("run.checkpoint.interval", "best", "default")
    return CheckpointInputs(
        mode=written.mode,
        interval=None if written.interval == "best" else written.interval,
        steps=written.steps,
        memory_interval=None if written.memory_interval == "best" else written.memory_interval,
        write=written.storage.write,
        read=written.storage.read,
        node_write=practice.storage.write,
        node_read=practice.storage.read,
        writer=written.writer,
        block=written.block,
        overhead=practice.stop.overhead,
        interference=interference or 0.0,
        by_each_replica=written.reads == "by-each-replica",
    )


def _restart_inputs(case: ResolvedScenario, run: WholeRun, log: AssumptionLog) -> RestartInputs:
    """Times of a restart [s] with the band of the start; defaults are recorded as assumptions."""
    practice, written = case.practice, run.restart
    assert practice is not None
    usual = practice.restart
    named = f"practices/{practice.name}"
    band = f"{show(usual.low, 's')} – {show(usual.high, 's')}"
    start = log.choose("run.restart.start", written.start, usual.time, f"{named}, {band}", "s")
    return RestartInputs(
        ranks=written.ranks,
        detect=log.choose("run.restart.detect", written.detect, 0.0, "part of the start", "s"),
        start=start,
        start_low=_lower_rate(start, usual.low) if written.start is None else start,
        start_high=_higher_rate(start, usual.high) if written.start is None else start,
        warm_up=log.choose("run.restart.warm_up", written.warm_up, 0.0, "part of the start", "s"),
    )


def _power_inputs(case: ResolvedScenario, run: WholeRun, log: AssumptionLog) -> PowerInputs:
    """Power draw, cooling overhead, tariff and carbon intensity; defaults are recorded as assumptions."""
    practice, grid, written = case.practice, case.grid, run.power
    assert practice is not None
    assert grid is not None
    named = f"practices/{practice.name}"
    if written.draw is None:
        rated = f"{show(practice.draw.rated, '1')} of the node's rating"
        over = f"{show(practice.draw.part, '1')} of the accelerator's, for the node has no rating"
        log.note("run.power.draw", over if case.node.power is None else rated, named)
    if "grid" not in written.model_fields_set:
        log.note("run.power.grid", f"{grid.name}, {show(grid.intensity, 'kg/J')}", grid.title)
    tariff = written.tariff
    if tariff is None and grid.tariff is not None:
        tariff = grid.tariff.price
        log.note("run.power.tariff", show(tariff, "USD/J"), f"grids/{grid.name}")
    return PowerInputs(
        cap=written.cap,
        tariff=tariff,
        draw=written.draw,
        rated_share=practice.draw.rated,
        over_part=practice.draw.part,
        idle=log.choose("run.power.idle", written.idle, practice.idle.share, named),
        pue=log.choose("run.power.pue", written.pue, practice.cooling.pue, named),
        intensity=grid.intensity,
    )
