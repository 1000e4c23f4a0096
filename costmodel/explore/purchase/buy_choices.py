"""Choices that `buy` leaves to the reader (size, number type, terms), trade-off curves, and published runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from costmodel.documents.keys.paths import at
from costmodel.documents.reader.library import names, read
from costmodel.documents.schemas.measurement import MeasuredTable, Run
from costmodel.equations.run.economics import rate, run_cost, run_time, share, tokens_per_step
from costmodel.equations.serving.closed_loop import loop_tokens_per_gpu
from costmodel.estimate.shared.results import stated_limits
from costmodel.explore.purchase.buy import SIZE, Choice, PurchaseComparison
from costmodel.explore.purchase.offers import Machine
from costmodel.explore.purchase.purchase import OTHER_TERMS, Purchase
from costmodel.explore.purchase.smallest_size import evaluate_trial
from costmodel.explore.search.required_chance import stated_chance
from costmodel.explore.workload_flags import keys_of
from costmodel.ground.record import record

if TYPE_CHECKING:
    from costmodel.documents.schemas.model import Model

TOKEN_LIMIT = "50ms"  # an example of a limit on each token: 20 tokens a second, faster than people read; judged
_AS_DEAR = 0.995  # judged: of a rent, from which another one is no choice
_NARROW, _NARROWED = 3, 3.0  # machines tried in 8 bits; times the answer's cost from which 8 bits do not help: judged
SURER = 0.95  # a chance above the usual one, of a plan that is offered beside it: judged


def with_choices(found: PurchaseComparison) -> PurchaseComparison:
    """The result with its choices: what saves most first, then what costs least more, last what has no price."""
    best = found.best
    if best is None or best.plans.safe is None:
        return found
    nodes = [row.machine.node for row in found.working]  # a flag leads to an offer where it is the only one of a node
    choices = [*_size_choices(found, best), *_smaller_type_choice(found)]
    choices += _token_limit_choice(found, best)
    several = len({row.machine.node for row in found.rows}) > 1
    choices = [replace(each, flags=(*each.flags, "--node", each.row.machine.node) if several else each.flags)
               for each in choices]  # fmt: skip
    choices += [Choice("offer", row, ("--node", row.machine.node) if nodes.count(row.machine.node) == 1 else ())
                for row in found.to_judge]  # fmt: skip
    known = [(apart if math.isfinite(apart := found.dearer(choice.row)) else math.inf, choice) for choice in choices]
    known.sort(key=lambda each: each[0])
    return replace(found, choices=tuple(choice for _, choice in known))


def _with(machine: Machine, *settings: str) -> Machine:
    """The machine with additional settings."""
    return replace(machine, settings=(*machine.settings, *settings))


def _size_choices(found: PurchaseComparison, best: Purchase) -> Iterator[Choice]:
    """A smaller size by expected figures, if it costs less; for a service also a surer, larger one."""
    expected, stated = best.plans.expected, stated_chance(found.asked.case) is not None
    chance = keys_of(found.asked.case.kind)["safe"]
    if expected is not None and best.rent(best.paid_time, expected.gpus).billed < _AS_DEAR * found.billed:
        row = found.plans.bought(_with(best.machine, *([f"{chance}=null"] if stated else [])), 0.0, whole=False)
        if row.works and found.rent(row).billed < _AS_DEAR * found.billed:
            yield Choice("fewer", row, ("--safe", "off"))
    if found.asked.request_tokens is not None and 0 < found.safe < SURER:
        row = found.plans.bought(_with(best.machine, f"{chance}={SURER:g}"), SURER, whole=False)
        if row.gpus > best.gpus:
            yield Choice("surer", row, ("--safe", f"{SURER:.0%}"))


def _smaller_type_choice(found: PurchaseComparison) -> Iterator[Choice]:
    """The cheapest of a few machines with a smaller number type, if the user states none and it costs less."""
    asked, path, seen = found.asked, keys_of(found.asked.case.kind)["dtype"], dict[str, Machine]()
    for row in found.alike if asked.smaller_type else ():
        if found.weighed_cost(row) < _NARROWED * found.billed:
            seen.setdefault(row.machine.node, row.machine)
    machines = [_with(machine, f"{path}={asked.smaller_type}") for machine in [*seen.values()][:_NARROW]]
    narrow = [found.plans.bought(machine, whole=False) for machine in machines]
    cheap = (row for row in narrow if row.works and found.rent(row).billed < _AS_DEAR * found.billed)
    if (least := min(cheap, key=lambda row: found.rent(row).billed, default=None)) is not None:
        yield Choice("type", least, ("--dtype", asked.smaller_type))


def _token_limit_choice(found: PurchaseComparison, best: Purchase) -> Iterator[Choice]:
    """The best machine with a limit on the time per token, if none is stated."""
    path = keys_of(found.asked.case.kind).get("tpot")
    if path is None or found.asked.usual_result != "tpot":
        return
    if any("tpot" in limit.column for limit in stated_limits(found.asked.case.scenario.limits)):
        return
    row = found.plans.bought(_with(best.machine, f"{path}={TOKEN_LIMIT}"), whole=False)
    if row.works:
        yield Choice("tokens", row, ("--tpot", TOKEN_LIMIT))


# What machines trade: speed for a user against work of a GPU, beside published runs of a model of the same shape.


@record
class MachineCurve:
    """The trade-off between two results of a machine's plan, from light to full load."""

    machine: Machine
    points: tuple[tuple[float, float], ...]


@record
class PublishedRun:
    """A published run of a model of the same shape, with the two results that are compared and its source.

    source: the document that has it
    """

    accelerator: str
    across: float
    up: float
    source: str


def machine_curves(found: PurchaseComparison, traded: tuple[str, str], most: int) -> list[MachineCurve]:
    """The trade-off on the cheapest machines, with 1, 4, 16, 64 and 256 requests in flight per replica."""
    drawn, asked = list[MachineCurve](), found.asked
    for row in found.working:
        seen = {curve.machine.accelerator for curve in drawn}
        if asked.request_tokens is None or len(drawn) == most or row.machine.accelerator in seen:
            continue
        assert row.plans.safe is not None
        plan = [item for item in row.plans.safe.settings if not item.startswith((*SIZE, "limits."))]
        alone = (*row.machine.settings, *plan, "plan.replicas=1", *_NO_LOAD)
        trials = (
            evaluate_trial(asked, (*alone, f"workload.concurrency={count}"), results=traded) for count in _IN_FLIGHT
        )
        points = tuple((trial.costs[traded[0]], trial.costs[traded[1]]) for trial in trials if trial.costs)
        drawn += [MachineCurve(row.machine, points)] if points else []
    return drawn


_NO_LOAD = "workload.rate=null", "workload.users=null", "workload.requests=null", "workload.think_time=null"
_IN_FLIGHT = (1, 4, 16, 64, 256)


def published_runs(found: PurchaseComparison) -> list[PublishedRun]:
    """Published runs of a model of the same shape on the accelerators that work.

    For training: the time and cost of this job at the published rate per accelerator. For a service: tokens per second
    of each GPU, and of one user where published.
    """
    rented = [row for row in found.working if row.machine.sold not in OTHER_TERMS] or found.working
    rows = {row.machine.accelerator: row for row in reversed(rented) if row.price is not None}
    tokens, shape = found.asked.tokens, _width_and_layers(found.asked.case.model)
    tables = (read("measured", name) for name in names("measured"))
    return [run for table in tables for run in _published_runs_in(table, shape, rows, tokens)]


def _width_and_layers(model: Model) -> tuple[float, float]:
    """Width and number of layers of a model."""
    return float(model.hidden), float(sum(part.count for part in model.layers))


def _published_runs_in(
    table: MeasuredTable, shape: tuple[float, float], rows: Mapping[str, Purchase], tokens: float | None
) -> Iterator[PublishedRun]:
    """The published runs in one document of a model of this shape, on an accelerator in `rows`."""
    for run in table.runs:
        stated: Callable[[str], Any] = partial(_stated_value, table, run)
        changed = any(key.startswith("model.") for key in (*run.set, *table.set))
        if (
            changed
            or not isinstance(stated("model"), str)
            or _width_and_layers(read("model", stated("model"))) != shape
        ):
            continue
        node = read("node", str(stated("cluster.node")))
        part, gpus = str(node.accelerator), float(stated("cluster.nodes") or 1) * float(node.accelerators)
        batch, sequence = stated("workload.global_batch"), stated("workload.sequence")
        measured, row = run.measured, rows.get(part)
        if row is None or row.price is None:
            continue
        if tokens and measured.step_time and isinstance(batch, int) and isinstance(sequence, int):
            each = share(rate(tokens_per_step(batch, sequence), measured.step_time), gpus)
            time = float(run_time(tokens, each * row.gpus))
            yield PublishedRun(part, time, float(run_cost(time, row.gpus, row.price.each)), table.name)
        elif tokens is None and measured.output_tokens_per_s:
            each = share(measured.output_tokens_per_s, _gpus_of_run(stated))
            yield PublishedRun(part, math.nan, float(each), table.name)
        elif tokens is None and measured.tpot and measured.ttft:
            users, output = (float(stated(f"workload.{key}")) for key in ("concurrency", "output"))
            each = loop_tokens_per_gpu(users, output, measured.ttft, measured.tpot, _gpus_of_run(stated))
            yield PublishedRun(part, float(rate(1.0, measured.tpot)), float(each), table.name)


def _gpus_of_run(stated: Callable[[str], Any]) -> float:
    """The accelerators of a measured service."""
    return math.prod(float(stated(f"plan.{degree}") or 1) for degree in ("tp", "pp", "replicas"))


def _stated_value(table: MeasuredTable, run: Run, path: str) -> Any:
    """The value of a key for a measured run: set by the run, for all runs, or by their scenario."""
    return run.set.get(path, table.set.get(path, at(table.scenario, path)))
