"""The answer of several jobs on one kind of machine."""

from __future__ import annotations

import math
from typing import Any

from costmodel.equations.run.economics import share
from costmodel.equations.serving.serving_economics import MONTH
from costmodel.explore.purchase.buy import Bought
from costmodel.explore.purchase.several_jobs import Fleet, FleetRow
from costmodel.ground.counts import number_of
from costmodel.ground.units import chance_words, counted, percent, rounded_dollars, show, show_time
from costmodel.report.answers.buy import BRIEF, TOP, VARIED, against
from costmodel.report.answers.buy_fields import machine_fields
from costmodel.report.answers.buy_words import (
    as_stated,
    billed_cell,
    machine_words,
    money_cell,
    number_cell,
    opening,
    times_as_much,
)
from costmodel.report.data_formats.answer_fields import known
from costmodel.report.document import AnswerDocument, Cell, Column, Section, Table, chance_verdict
from costmodel.report.terminal.head import hourly, prices, subject_words, title
from costmodel.report.terminal.layout import Line, head, styled, typed
from costmodel.report.workload_words import MONTHLY, words_of


def fleet(found: Fleet, top: int | None, again: str = "") -> AnswerDocument:
    """One row per machine: the GPUs of each job and in total, idle GPUs of the nodes, and the cost of a month.

    again: the command that asks this question
    """
    first, names = found.jobs[0], [*map(_job_name, found.jobs)]
    columns = [Column("GPU", "l", legend="◀ the answer" if len(found.rows) > 1 else "")]
    columns += [Column("node", "l"), Column("offer", "l")]
    columns += [Column(f"job {place}") for place in range(1, len(names) + 1)]
    columns += [Column("GPUs"), Column("nodes")]
    columns += [Column("idle", legend="GPUs that no job uses, where no two jobs share a node")]
    mixed = any(row.shared < row.nodes for row in found.rows if row.each_works)
    columns += [Column("shared", legend="nodes where engines of several jobs stand in one")] if mixed else []
    apart = any(row.rent.in_use < row.rent.whole for row in found.rows if row.each_works)
    columns += [Column("cost", legend=f"as billed, of whole nodes, for {MONTHLY}")]
    columns += [Column("in use", legend="the cost of the GPUs in use alone")] if apart else []
    columns.append(Column("", "l"))
    rows = list[list[Cell]]()
    for row in sorted(found.rows, key=lambda row: row is not found.best):
        mark = " ◀" if row is found.best and len(found.rows) > 1 else ""
        cells: list[Cell] = [f"{row.machine.accelerator}{mark}", row.machine.node, row.machine.sold]
        of = row.machine.name
        of_jobs = [number_cell(job.gpus, "gpus") if job.works else "✗" for job in row.jobs]
        cells += [opening(cell, f"job {place} of {of}") for place, cell in enumerate(of_jobs, 1)]
        if not row.each_works:
            place, job = next((place, job) for place, job in enumerate(row.jobs, 1) if not job.works)
            rows.append([*cells, *([""] * (4 + mixed + apart)), f"job {place} {against(found.jobs[place - 1], job)}"])
            continue
        idle = opening(number_cell(sum(job.idle for job in row.jobs), "gpus_idle"), f"idle of {of}")
        cells += [opening(number_cell(row.gpus, "gpus"), f"GPUs of {of}")]
        cells += [opening(number_cell(row.nodes, "nodes"), f"nodes of {of}"), idle]
        shared = as_stated(number_cell(row.shared, "nodes_shared"), "engines put into nodes, the largest first")
        cells += [shared] if mixed else []
        cells.append(billed_cell(row.rent, of))
        cells += [opening(money_cell(row.rent.in_use), f"rent of {of}")] if apart else []
        rows.append([*cells, "" if row.works else f"✗ {_no_room(row)}"])
    nearest = found.nearest
    own = [row.jobs[0].price for row in found.rows[: top or TOP] if row.jobs[0].price is not None]
    lines = [*(_job(found, place, name) for place, name in enumerate(names)), *prices(own)]
    if found.one_gpu:
        lines.append(
            styled(f"  memory of one GPU holds the engines of jobs {' and '.join(map(str, found.one_gpu))}: {_ALONE}")
        )
    table = Table(columns, rows, sortable=True, most=top or TOP, brief=None if top else BRIEF, rest="machine")
    conclusion = "No machine has a plan for every job within its limits." if nearest is None else _together(nearest)
    section = Section("fleet", "One fleet", "All jobs at once; no two share a GPU.", table=table, beneath=lines)
    jobs = found.best.jobs if found.best else ()
    verdict = chance_verdict(min((job.plans.safe.chance for job in jobs if job.plans.safe), default=0.0))
    about = [styled(f"job {place}: {name}") for place, name in enumerate(names, 1)]
    return AnswerDocument(
        first.asked.case,
        "One fleet",
        about,
        conclusion,
        verdict if jobs else "bad",
        [section],
        [],
        [],
        [styled(conclusion), *_beside_fleet(found, again)],
        [],
        found.trees,
    )


_ALONE = "how much two engines slow each other down was never measured, so each has its own GPUs here"


def _together(row: FleetRow) -> str:
    """A sentence on whether all jobs fit on one fleet of a machine, and how many GPUs are idle."""
    price = row.jobs[0].price
    at = f", {hourly(price)}" if price is not None and price.known else ""
    sold = f", {row.machine.sold}" if row.machine.sold else ""
    gpus = f"{counted(row.gpus)} {row.machine.accelerator} ({row.machine.node}{sold}{at})"
    if not row.works:
        less = row.expected <= row.most and row.missing > 0
        fewer = f" By expected figures {counted(row.expected)} would do; --safe sets the chance." if less else ""
        return f"All jobs at once need {gpus}: {_no_room(row)}.{fewer}"
    rent = ""
    if math.isfinite(row.rent.billed):
        part = f" ({rounded_dollars(row.rent.in_use)} for these {counted(row.gpus)} GPUs)"
        rent = f", {rounded_dollars(row.rent.billed)} for {MONTHLY}{part if row.rent.in_use < row.rent.billed else ''}"
    whole = _whole_cost(row)
    if math.isinf(row.most):
        return f"{gpus} hold all jobs at once{rent}.{whole}"
    apart = "" if row.nodes <= row.there else ", if jobs share nodes"
    idle = f"{counted(row.most - row.gpus)} of {number_of(row.most, 'GPU')} stay idle"
    return f"{gpus} hold all jobs at once{apart}: {idle}, on {number_of(row.there, 'node')}{rent}.{whole}"


def _whole_cost(row: FleetRow) -> str:
    """A sentence on the rent until the jobs with an end are done, and on that of the others from then on."""
    if not row.done or not math.isfinite(row.whole_cost):
        return ""
    ending = [place for place, job in enumerate(row.jobs, 1) if math.isfinite(job.time)]
    jobs = f"job{'s' if ending[1:] else ''} {' and '.join(map(str, ending))}"
    after = f", then {rounded_dollars(row.rent_after)} a month for the others" if row.rent_after else ""
    cost = f"it costs {rounded_dollars(row.whole_cost)} in all"
    return f" With {jobs} to the end, after {show_time(row.done)}, {cost}{after}."


def _no_room(row: FleetRow) -> str:
    """A sentence on why not all jobs fit on one fleet."""
    if not row.missing:
        return f"{number_of(row.shared, 'node')} take {show(row.power, 'J/s')}, the site has {show(row.supply, 'J/s')}"
    if row.gpus > row.most:
        return f"{counted(row.missing)} more than the {counted(row.most)} there are"
    engines = f"no way to put their engines on {number_of(row.there, 'node')}"
    return f"{engines}, each inside a node: they need {number_of(row.shared, 'node')}"


def _job_name(purchases: Bought) -> str:
    """A job without the machine of its scenario: its model, and its load."""
    load = words_of(purchases.asked.case.kind).load(purchases.asked.case)
    return " · ".join(filter(None, (subject_words(purchases.asked.facts, VARIED), load)))


def _beside_fleet(jobs: Fleet, again: str) -> list[Line]:
    """Lines on the capital of one fleet and the cost of separate fleets, and the next command."""
    best, apart = jobs.best, [job.best for job in jobs.jobs]
    if best is None:
        return []
    lines: list[Line] = []
    capital, own = sum(row.capital for row in best.jobs), [row for row in apart if row is not None]
    if math.isfinite(capital):
        lines.append(styled(f"All nodes together are bought for {rounded_dollars(capital)}."))
    rents = [row.rent(MONTH).billed for row in own]
    if len(own) == len(apart) and best.rent.billed > 0 and math.isfinite(sum(rents)):
        each = "; ".join(f"{machine_words(row)}: {rounded_dollars(rent)}" for row, rent in zip(own, rents, strict=True))
        total = f"{rounded_dollars(sum(rents))} a month, {times_as_much(float(share(sum(rents), best.rent.billed)))}"
        lines.append(styled(f"Each job on its own best machine: {total} ({each})."))
    return [*lines, *([typed("Next:", f"{again} -o page.html")] if again else [])]


def _job(jobs: Fleet, place: int, name: str) -> Line:
    """A line on a job on the best machine: GPUs, nodes, idle GPUs, what bounds it, its chance to meet its limits."""
    best = jobs.nearest
    if best is None or best.jobs[place].trial is None:
        return styled(f"  job {place + 1}, {name}: no plan within its limits on a machine with the others")
    row = best.jobs[place]
    costs, safe = {} if row.trial is None else row.trial.costs, row.plans.safe
    plan = "" if row.trial is None or row.trial.kept is None else f", {row.trial.kept.words}"
    parts = [f"{number_of(row.gpus, 'GPU')} on {number_of(row.nodes, 'node')}", f"{number_of(row.idle, 'GPU')} idle"]
    if (busy := costs.get("saturation_share", math.nan)) == busy:
        parts.append(f"{percent(1 - busy, 2)} spare")
    if (time := costs.get("run_time", math.nan)) == time:
        parts.append(f"free after {show_time(time)}")
    parts += [f"the {safe.binds} limits its rate"] if safe is not None and safe.binds else []
    sure = "" if safe is None else f", with a chance of {chance_words(safe.chance)}"
    return styled(f"  job {place + 1} on {best.machine.node}{plan}: {', '.join(parts)}{sure}")


def fleet_json(jobs: Fleet) -> dict[str, Any]:
    """All machines with their results for every job, as plain values."""
    return {
        **head("costmodel/fleet/v1"),
        "jobs": [title(job.asked.case) for job in jobs.jobs],
        "machines": [
            {
                "accelerator": row.machine.accelerator,
                "node": row.machine.node,
                "sold": row.machine.sold or None,
                "works": row.works,
                "gpus": known(row.gpus),
                "gpus_there": known(row.most),
                "gpus_missing": known(row.missing) if row.each_works else None,
                "nodes": known(row.nodes),
                "nodes_shared": known(row.shared) if row.each_works else None,
                "rent_usd_per_month": known(row.rent.in_use),
                "rent_whole_nodes_usd_per_month": known(row.rent.whole),
                "done_after_s": known(row.done) if row.works else None,
                "cost_until_done_usd": known(row.whole_cost) if row.works else None,
                "jobs": [
                    {**machine_fields(job, each), "idle_gpus": known(each.idle)}
                    for job, each in zip(jobs.jobs, row.jobs, strict=True)
                ],
            }
            for row in jobs.rows
        ],
    }
