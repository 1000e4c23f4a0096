"""The answer of `buy` for several jobs on one fleet of machines."""

from __future__ import annotations

import math
from typing import Any

from costmodel.equations.run.economics import share
from costmodel.equations.serving.serving_economics import MONTH
from costmodel.explore.purchase.buy import PurchaseComparison
from costmodel.explore.purchase.several_jobs import MachineForJobs, SeveralJobs
from costmodel.ground.counts import number_of
from costmodel.ground.units import chance_words, counted, percent, rounded_dollars, show, show_time
from costmodel.report.answers.buy import BRIEF, TOP, VARIED, rejection_words
from costmodel.report.answers.buy_fields import machine_fields
from costmodel.report.answers.buy_sentences import (
    billed_cell,
    linked,
    machine_words,
    money_cell,
    number_cell,
    sourced,
    terms_words,
    times_as_much,
)
from costmodel.report.data_formats.answer_fields import finite
from costmodel.report.document import AnswerDocument, Cell, Column, Section, Table, chance_verdict
from costmodel.report.terminal.head import case_title, hourly_price, price_lines_of_all, subject_words, write_off_words
from costmodel.report.terminal.layout import (
    CellTable,
    Detail,
    Line,
    schema_head,
    shell_line,
    short_or_full,
    styled,
)
from costmodel.report.workload_words import MONTHLY, words_of


def fleet_document(found: SeveralJobs, top: int | None, again: str = "") -> AnswerDocument:
    """A table with a row for each machine: the GPUs of each job, idle GPUs, and the cost of a month.

    again: the command that asks this question
    """
    first, names = found.jobs[0], [*map(_job_words, found.jobs)]
    nearest = found.nearest
    own = [row.jobs[0].price for row in found.rows[: top or TOP] if row.jobs[0].price is not None]
    lines = [*(_job_line(found, place, name) for place, name in enumerate(names)), *price_lines_of_all(own)]
    if found.one_gpu:
        fitting = " and ".join(map(str, found.one_gpu))
        lines.append(styled(f"  memory of one GPU holds the engines of jobs {fitting}: {_NEVER_SHARED}"))
    none = "No machine has a plan for every job within its limits."
    table, conclusion = _machines_table(found, top), none if nearest is None else _fleet_sentence(nearest)
    lead = "All jobs at once; no two share a GPU."
    section = Section("fleet", "One fleet", lead, table=table, beneath=lines, asked=top is not None)
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
        [styled(conclusion), *_alternatives(found, again)],
        [],
        found.trees,
    )


def _machines_table(found: SeveralJobs, top: int | None) -> Table:
    """A row for each machine, the answer first: GPUs of every job and in all, idle GPUs, nodes and rent."""
    columns = [Column("GPU", "l", legend="◀ the answer" if len(found.rows) > 1 else "")]
    columns += [Column("node", "l", drop=5), Column("offer", "l")]
    columns += [Column(f"job {place}") for place in range(1, len(found.jobs) + 1)]
    columns += [Column("GPUs"), Column("nodes", drop=3)]
    columns += [Column("idle", legend="GPUs that no job uses, where no two jobs share a node", drop=4)]
    mixed = any(row.shared < row.nodes for row in found.rows if row.each_works)
    columns += [Column("shared", legend="nodes where engines of several jobs stand in one", drop=2)] if mixed else []
    apart = any(row.rent.in_use < row.rent.whole for row in found.rows if row.each_works)
    columns += [Column("cost", legend=f"as billed, of whole nodes, for {MONTHLY}")]
    columns += [Column("in use", legend="the cost of the GPUs in use alone", drop=1)] if apart else []
    columns.append(Column("", "l"))
    rows = list[list[Cell]]()
    for row in sorted(found.rows, key=lambda row: row is not found.best):
        mark = " ◀" if row is found.best and len(found.rows) > 1 else ""
        cells: list[Cell] = [f"{row.machine.accelerator}{mark}", row.machine.node, row.machine.sold]
        of = row.machine.name
        of_jobs = [number_cell(job.gpus, "gpus") if job.works else "✗" for job in row.jobs]
        cells += [linked(cell, f"job {place} of {of}") for place, cell in enumerate(of_jobs, 1)]
        if not row.each_works:
            place, job = next((place, job) for place, job in enumerate(row.jobs, 1) if not job.works)
            cells += [""] * (4 + mixed + apart)
            rows.append([*cells, f"job {place} {rejection_words(found.jobs[place - 1], job)}"])
            continue
        idle = linked(number_cell(sum(job.idle for job in row.jobs), "gpus_idle"), f"idle of {of}")
        cells += [linked(number_cell(row.gpus, "gpus"), f"GPUs of {of}")]
        cells += [linked(number_cell(row.nodes, "nodes"), f"nodes of {of}"), idle]
        shared = sourced(number_cell(row.shared, "nodes_shared"), "engines put into nodes, the largest first")
        cells += [shared] if mixed else []
        cells.append(billed_cell(row.rent, of))
        cells += [linked(money_cell(row.rent.in_use), f"rent of {of}")] if apart else []
        rows.append([*cells, "" if row.works else f"✗ {_why_not_all_fit(row)}"])
    return Table(columns, rows, sortable=True, most=top or TOP, brief=None if top else BRIEF, rest="machine")


_DECIDED = 3  # cheaper offers in a short answer
_NEVER_SHARED = "how much two engines slow each other down was never measured, so each has its own GPUs here"


def _fleet_sentence(row: MachineForJobs) -> str:
    """A sentence on whether all jobs fit on one fleet of a machine, and how many GPUs are idle."""
    price = row.jobs[0].price
    at = f", {hourly_price(price)}" if price is not None and price.known else ""
    sold = f", {row.machine.sold}" if row.machine.sold else ""
    gpus = f"{counted(row.gpus)} {row.machine.accelerator} ({row.machine.node}{sold}{at})"
    if not row.works:
        less = row.expected <= row.most and row.missing > 0
        fewer = f" By expected figures {counted(row.expected)} would do; --safe sets the chance." if less else ""
        return f"All jobs at once need {gpus}: {_why_not_all_fit(row)}.{fewer}"
    rent = ""
    if math.isfinite(row.rent.billed):
        part = f" ({rounded_dollars(row.rent.in_use)} for these {counted(row.gpus)} GPUs)"
        rent = f", {rounded_dollars(row.rent.billed)} for {MONTHLY}{part if row.rent.in_use < row.rent.billed else ''}"
    whole = _cost_until_done(row)
    if math.isinf(row.most):
        return f"{gpus} run all jobs at once{rent}.{whole}"
    apart = "" if row.nodes <= row.there else ", if jobs share nodes"
    idle = f"{counted(row.most - row.gpus)} of {number_of(row.most, 'GPU')} stay idle"
    return f"{gpus} run all jobs at once{apart}: {idle}, on {number_of(row.there, 'node')}{rent}.{whole}"


def _cost_until_done(row: MachineForJobs) -> str:
    """A sentence on the cost until the jobs with an end are done, and the rent of the others from then on."""
    if not row.done or not math.isfinite(row.whole_cost):
        return ""
    ending = [place for place, job in enumerate(row.jobs, 1) if math.isfinite(job.time)]
    jobs = f"job{'s' if ending[1:] else ''} {' and '.join(map(str, ending))}"
    after = f", then {rounded_dollars(row.rent_after)} a month for the others" if row.rent_after else ""
    cost = f"it costs {rounded_dollars(row.whole_cost)} in all"
    return f" With {jobs} to the end, after {show_time(row.done)}, {cost}{after}."


def _why_not_all_fit(row: MachineForJobs) -> str:
    """A sentence on why not all jobs fit on one fleet."""
    if not row.missing:
        return f"{number_of(row.shared, 'node')} take {show(row.power, 'J/s')}, the site has {show(row.supply, 'J/s')}"
    if row.gpus > row.most:
        return f"{counted(row.missing)} more than the {counted(row.most)} there are"
    engines = f"no way to put their engines on {number_of(row.there, 'node')}"
    return f"{engines}, each inside a node: they need {number_of(row.shared, 'node')}"


def _job_words(purchases: PurchaseComparison) -> str:
    """A job in words, without the machine of its scenario: its model and its load."""
    load = words_of(purchases.asked.case.kind).load(purchases.asked.case)
    return " · ".join(filter(None, (subject_words(purchases.asked.facts, VARIED), load)))


def _alternatives(jobs: SeveralJobs, again: str) -> list[Line]:
    """Lines on the price of a bought fleet, on separate fleets, and the next command."""
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
        apart_words = f"Each job on its own best machine: {total}"
        whole, brief = styled(f"{apart_words} ({each})."), styled(f"{apart_words}.")
        lines.append(Detail([whole], "the machine of each job", spare=1, instead=[brief]))
    lines += [*map(styled, _least_chance(best)), Detail([styled(_offers_seen(jobs))], "other offers", spare=1)]
    lines += _cheaper_offers(jobs, best)
    return [*lines, *([shell_line("Next:", f"{again} -o page.html")] if again else [])]


def _least_chance(best: MachineForJobs) -> list[str]:
    """A sentence on the job that is least sure to meet its limits."""
    chances = [(job.plans.safe.chance, place) for place, job in enumerate(best.jobs, 1) if job.plans.safe is not None]
    if not chances:
        return []
    least, place = min(chances)
    return [f"How sure: job {place} is the least sure, with a chance of {chance_words(least)} to meet its limits."]


def _offers_seen(jobs: SeveralJobs) -> str:
    """How many offers and machines were looked at, and how many do not hold all jobs."""
    refused = sum(not row.works for row in jobs.rows)
    machines = number_of(len({row.machine.node for row in jobs.rows}), "machine")
    words = f"{refused} cannot run all jobs within their limits" if refused else "none rejected"
    return f"Looked at: {number_of(len(jobs.rows), 'offer')} of {machines}; {words}."


def _cheaper_offers(jobs: SeveralJobs, best: MachineForJobs) -> list[Line]:
    """Offers with a lower cost of a month than the answer, which have a term, a purchase or may be taken away."""
    less = [(row.rent.billed - best.rent.billed, row) for row in jobs.rows if row.works and row is not best]
    less = sorted((each for each in less if each[0] < 0), key=lambda each: each[0])
    rows = [[f"−{rounded_dollars(-much)}", _offer_words(row)] for much, row in less]
    table = [
        CellTable(("a month", "to decide"), each, "rl", indent="", rest="offer")
        for each in (rows[:_DECIDED], rows)
        if each
    ]
    return short_or_full(table[:1], table[1:], "more to decide")


def _offer_words(row: MachineForJobs) -> str:
    """A cheaper offer: the machine, and its terms."""
    price, terms = row.jobs[0].price, terms_words(row.machine)
    if price is not None and price.listed is not None and price.listed.bought is not None:
        capital = rounded_dollars(sum(job.capital for job in row.jobs))
        terms = f"bought for {capital}, {write_off_words(price.listed.bought)}"
    return f"{counted(row.gpus)} {row.machine.accelerator} ({row.machine.node}), {terms}"


def _job_line(jobs: SeveralJobs, place: int, name: str) -> Line:
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
    few = [parts[0], *([f"{row.idle:g} idle"] if row.idle else []), *parts[2:]]
    if safe is not None:
        few.append(f"{chance_words(safe.chance)} chance")
        parts += [f"the {safe.binds} limits its rate"] if safe.binds else []
        parts.append(f"with a chance of {chance_words(safe.chance)}")
    whole = f"  job {place + 1} on {best.machine.node}{plan}: {', '.join(parts)}"
    short = f"  job {place + 1}{plan}: {', '.join(few)}"
    return Detail([styled(whole)], "what limits each job", spare=1, instead=[styled(short)])


def fleet_json(jobs: SeveralJobs) -> dict[str, Any]:
    """All machines as plain values, with their results for every job."""
    return {
        **schema_head("costmodel/fleet/v1"),
        "jobs": [case_title(job.asked.case) for job in jobs.jobs],
        "machines": [
            {
                "accelerator": row.machine.accelerator,
                "node": row.machine.node,
                "sold": row.machine.sold or None,
                "works": row.works,
                "gpus": finite(row.gpus),
                "gpus_there": finite(row.most),
                "gpus_missing": finite(row.missing) if row.each_works else None,
                "nodes": finite(row.nodes),
                "nodes_shared": finite(row.shared) if row.each_works else None,
                "rent_usd_per_month": finite(row.rent.in_use),
                "rent_whole_nodes_usd_per_month": finite(row.rent.whole),
                "done_after_s": finite(row.done) if row.works else None,
                "cost_until_done_usd": finite(row.whole_cost) if row.works else None,
                "jobs": [
                    {**machine_fields(job, each), "idle_gpus": finite(each.idle)}
                    for job, each in zip(jobs.jobs, row.jobs, strict=True)
                ],
            }
            for row in jobs.rows
        ],
    }
