"""Answers of buy as plain values."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from costmodel.documents.schemas.results import machine_name
from costmodel.equations.run.economics import cost_difference
from costmodel.explore.purchase.buy import Bought, Choice, Purchase
from costmodel.explore.purchase.buy_day import Day
from costmodel.report.answers.buy import VARIED, against, hosted_source, plan_command
from costmodel.report.data_formats.answer_fields import known, notes
from costmodel.report.terminal.head import price_fields
from costmodel.report.terminal.layout import head
from costmodel.report.workload_words import subject_fields, words_of


def buy_json(found: Bought, day: Day | None = None) -> dict[str, Any]:
    """All machines as plain values; a machine on which no plan meets every limit has no result."""
    return {
        **head("costmodel/buy/v1"),
        **subject_fields(found.asked, VARIED),
        "chance_asked": known(found.safe),
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
                "cost_usd_per_month": known(found.hosted_cost(offer)),
            }
            for offer in found.hosted
        ],
        "notes": notes(row.trial.remarked for row in found.working if row.trial is not None),
    }


def _choice_fields(found: Bought, choice: Choice) -> dict[str, Any]:
    """A choice as plain values, with what it costs more than the answer."""
    row, rent = choice.row, found.rent(choice.row)
    ours = rent if found.best is None else found.rent(found.best)
    return {
        "choice": choice.key,
        "node": row.machine.node,
        "sold": row.machine.sold or None,
        "gpus": known(row.gpus),
        "chance": None if row.plans.safe is None else known(row.plans.safe.chance),
        "rent_in_use_usd": known(rent.in_use),
        "rent_whole_nodes_usd": known(rent.whole),
        "difference_usd": known(found.dearer(row)),
        "difference_in_use_usd": known(float(cost_difference(rent.in_use, ours.in_use))),
        "difference_whole_nodes_usd": known(float(cost_difference(rent.whole, ours.whole))),
        "flags": [*choice.flags],
    }


def _day_fields(day: Day) -> dict[str, Any]:
    """The replicas of a day as plain values."""
    names = ("rate", "ready", "replicas", "gpus", "chance")
    return {
        "node": day.machine.node,
        "start_s": day.start,
        "fixed_usd": known(day.fixed.in_use),
        "autoscaled_usd": known(day.autoscaled.in_use),
        "fixed_whole_nodes_usd": known(day.fixed.whole),
        "autoscaled_whole_nodes_usd": known(day.autoscaled.whole),
        "fixed_usd_per_month": known(day.month(day.fixed).whole),
        "autoscaled_usd_per_month": known(day.month(day.autoscaled).whole),
        "fixed_on_other_terms_usd_per_month": known(day.month(day.fixed_lasting).whole),
        "hours": [{name: getattr(hour, name) for name in names} for hour in day.hours],
    }


def machine_fields(found: Bought, row: Purchase) -> dict[str, Any]:
    """A machine as plain values."""
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
        "gpus": known(row.gpus),
        "nodes": known(row.nodes),
        "chance": None if plans.safe is None or trial is None else known(plans.safe.chance),
        "expected_gpus": None if plans.expected is None or trial is None else plans.expected.gpus,
        "expected_chance": None if plans.expected is None or trial is None else known(plans.expected.chance),
        "rent_in_use_usd": known(rent.in_use),
        "rent_whole_nodes_usd": known(rent.whole),
        "capital_usd": known(row.capital),
        **{machine_name(name): known(costs.get(name, math.nan)) for name in names},
        **({} if row.price is None or trial is None else price_fields(row.price)),
        "site_power_w": known(row.power),
        "measured_runs": row.runs,
        "binds": None if plans.safe is None or trial is None else plans.safe.binds or None,
        "plan": None if trial is None or trial.kept is None else trial.kept.words,
        "set": [] if trial is None else list(trial.settings),
        "against": None if trial is not None else against(found, row).removeprefix("✗ "),
    }
