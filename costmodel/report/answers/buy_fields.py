"""The answer of `buy` as plain values for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from costmodel.documents.schemas.results import machine_name
from costmodel.equations.run.economics import cost_difference
from costmodel.explore.purchase.buy import Choice, PurchaseComparison
from costmodel.explore.purchase.buy_day import Day
from costmodel.explore.purchase.purchase import Purchase
from costmodel.report.answers.buy import VARIED, hosted_source, plan_command, rejection_words
from costmodel.report.data_formats.answer_fields import finite, remark_fields
from costmodel.report.terminal.head import price_fields
from costmodel.report.terminal.layout import schema_head
from costmodel.report.workload_words import subject_fields, words_of


def buy_json(found: PurchaseComparison, day: Day | None = None) -> dict[str, Any]:
    """All machines as plain values; a machine on which no plan meets every limit has no result."""
    return {
        **schema_head("costmodel/buy/v1"),
        **subject_fields(found.asked, VARIED),
        "chance_asked": finite(found.safe),
        "complete": not found.stopped,
        "optimal_parameters": None if found.optimal is None else found.optimal[0],
        "optimal_tokens": None if found.optimal is None else found.optimal[1],
        "plan_command": plan_command(found) or None,
        **({} if day is None else {"day": _day_fields(day)}),
        "choices": [_choice_fields(found, each) for each in found.choices],
        "machines": [machine_fields(found, row) for row in found.rows],
        "hosted": [
            {
                "model": offer.title,
                "price_usd_per_mprompt": offer.prompt * 1e6,
                "price_usd_per_mcached": offer.cached * 1e6,
                "price_usd_per_moutput": offer.output * 1e6,
                "price_source": hosted_source(offer),
                "price_date": offer.date,
                "cost_usd_per_month": finite(found.hosted_cost(offer)),
            }
            for offer in found.hosted
        ],
        "notes": remark_fields(row.trial.remarked for row in found.working if row.trial is not None),
    }


def _choice_fields(found: PurchaseComparison, choice: Choice) -> dict[str, Any]:
    """A choice as plain values, with its cost and the difference to the answer's cost in USD."""
    row, rent = choice.row, found.rent(choice.row)
    ours = rent if found.best is None else found.rent(found.best)
    return {
        "choice": choice.key,
        "node": row.machine.node,
        "sold": row.machine.sold or None,
        "gpus": finite(row.gpus),
        "chance": None if row.plans.safe is None else finite(row.plans.safe.chance),
        "rent_in_use_usd": finite(rent.in_use),
        "rent_whole_nodes_usd": finite(rent.whole),
        "difference_usd": finite(found.dearer(row)),
        "difference_in_use_usd": finite(float(cost_difference(rent.in_use, ours.in_use))),
        "difference_whole_nodes_usd": finite(float(cost_difference(rent.whole, ours.whole))),
        "flags": [*choice.flags],
    }


def _day_fields(day: Day) -> dict[str, Any]:
    """The replicas of each hour of a day as plain values, and the rents of a day and of a month in USD."""
    names = ("rate", "ready", "replicas", "gpus", "chance")
    return {
        "node": day.machine.node,
        "start_s": day.start,
        "fixed_usd": finite(day.fixed.in_use),
        "autoscaled_usd": finite(day.autoscaled.in_use),
        "fixed_whole_nodes_usd": finite(day.fixed.whole),
        "autoscaled_whole_nodes_usd": finite(day.autoscaled.whole),
        "fixed_usd_per_month": finite(day.month(day.fixed).whole),
        "autoscaled_usd_per_month": finite(day.month(day.autoscaled).whole),
        "fixed_on_other_terms_usd_per_month": finite(day.month(day.fixed_lasting).whole),
        "hours": [{name: getattr(hour, name) for name in names} for hour in day.hours],
    }


def machine_fields(found: PurchaseComparison, row: Purchase) -> dict[str, Any]:
    """A machine as plain values: its GPUs, chance, rents in USD, results and plan."""
    plans, rent, trial = row.plans, found.rent(row), row.trial if row.works else None
    names: Iterable[str] = words_of(found.asked.case.kind).bought
    costs = {} if trial is None else trial.costs
    return {
        "accelerator": row.machine.accelerator,
        "node": row.machine.node,
        "sold": row.machine.sold or None,
        "term_s": row.machine.term or None,
        "region": row.machine.region or None,
        "works": row.works,
        "answer": row is found.best,
        "gpus": finite(row.gpus),
        "nodes": finite(row.nodes),
        "chance": None if plans.safe is None or trial is None else finite(plans.safe.chance),
        "expected_gpus": None if plans.expected is None or trial is None else plans.expected.gpus,
        "expected_chance": None if plans.expected is None or trial is None else finite(plans.expected.chance),
        "rent_in_use_usd": finite(rent.in_use),
        "rent_whole_nodes_usd": finite(rent.whole),
        "capital_usd": finite(row.capital),
        **{machine_name(name): finite(costs.get(name, math.nan)) for name in names},
        **({} if row.price is None or trial is None else price_fields(row.price)),
        "site_power_w": finite(row.power),
        "measured_runs": row.runs,
        "binds": None if plans.safe is None or trial is None else plans.safe.binds or None,
        "plan": None if trial is None or trial.kept is None else trial.kept.words,
        "set": [] if trial is None else list(trial.settings),
        "against": None if trial is not None else rejection_words(found, row).removeprefix("✗ "),
    }
