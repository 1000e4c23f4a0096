"""The smallest layout on each machine: fewer GPUs do not do, money is recomputed, and what fails shows no figure."""

from __future__ import annotations

import functools
import json
import math
import re
import shlex
from dataclasses import replace
from datetime import date
from pathlib import Path
from statistics import NormalDist
from types import SimpleNamespace
from typing import Any

import pytest
from report.page.reader import Reader

import costmodel
from costmodel.documents.reader.dense_models import DenseModel
from costmodel.documents.reader.library import names, read
from costmodel.documents.reader.load_scenario import vary_any
from costmodel.documents.text.files import only_texts
from costmodel.estimate.machine.price import hourly_price
from costmodel.estimate.model.shards import model_parameters
from costmodel.explore.flag_defaults import highest_affordable, largest_affordable
from costmodel.explore.purchase.buy import PurchaseComparison
from costmodel.explore.purchase.buy_choices import machine_curves, published_runs
from costmodel.explore.purchase.offers import NEWEST, hourly_rates
from costmodel.explore.purchase.purchase import Purchase
from costmodel.explore.purchase.several_jobs import SeveralJobs, machines_for_several_jobs, shared_nodes
from costmodel.explore.purchase.smallest_size import _TrialsByNodes, chance_to_meet, evaluate_trial, node_counts_to_try
from costmodel.explore.workload_interface import AnswerSummary, SmallestPlans, Trial
from costmodel.ground.errors import CostModelError
from costmodel.ground.units import rounded_dollars
from costmodel.report.answers.buy import buy_document as document
from costmodel.report.answers.buy_sentences import decisions
from costmodel.report.answers.buy_several_jobs import fleet_document as together
from costmodel.report.document import AnswerDocument, Cell, Table, Value, plain
from costmodel.report.page.trace import Traces
from costmodel.report.terminal.layout import laid_out

SERVED = {"model": "llama-3.1-8b", "rate": "40", "prompt": "2000", "answer": "300", "ttft": "1s"}
TRAINED = {"model": "llama-3.1-8b", "batch": "4Mi-tokens", "sequence": "4096", "tokens": "1T", "deadline": "40d"}
LEARNED = {"model": "qwen-2.5-7b", "rl": "grpo", "answer": "2k", "iterations": "200", "deadline": "2d"}
NODES = {"serving": "neocloud-h100,g6-48xlarge,g4dn-metal", "training": "p5,g4dn-metal", "rl": "p5en,g4dn-metal"}
HOURS_OF_A_MONTH = 730.0
_ASKED = {"serving": SERVED, "training": TRAINED, "rl": LEARNED}
_BOUGHT: dict[str, costmodel.Result] = {}


def bought(kind: str) -> costmodel.Result:
    """The answer for one workload, asked once."""
    if kind not in _BOUGHT:
        _BOUGHT[kind] = costmodel.buy(node=NODES[kind], **_ASKED[kind])
    return _BOUGHT[kind]


def found(kind: str) -> PurchaseComparison:
    """What the engine returned."""
    assert isinstance(bought(kind).found, PurchaseComparison)
    return bought(kind).found


def best(kind: str) -> Purchase:
    """The cheapest machine at its list price."""
    return next(row for row in found(kind).working if row.machine.sold == "on demand")


def test_a_service_on_one_replica_fewer_lacks_the_chance() -> None:
    row, asked = best("serving"), found("serving").asked
    assert row.plans.safe is not None
    assert row.plans.safe.chance >= 0.9
    settings = dict(setting.split("=", 1) for setting in (*row.machine.settings, *row.plans.safe.settings))
    count = int(settings["plan.replicas"])
    fewer = settings | {"plan.replicas": f"{count - 1}"}
    assert evaluate_trial(asked, [f"{path}={value}" for path, value in settings.items()]).works
    assert "S006" in evaluate_trial(asked, [f"{path}={value}" for path, value in fewer.items()]).broken


@pytest.mark.parametrize("kind", ["training", "rl"])
def test_a_job_on_the_next_smaller_number_of_nodes_is_late(kind: str) -> None:
    row, asked = best(kind), found(kind).asked
    nodes = row.nodes
    assert row.plans.safe is not None
    assert row.plans.safe.chance >= 0.9
    smaller = max(size for size in node_counts_to_try(nodes) if size < nodes)
    trial = evaluate_trial(asked, (*row.machine.settings, f"cluster.nodes={smaller:.0f}"), best=True)
    assert not trial.works or chance_to_meet(asked, trial.costs) < 0.9


def test_the_chance_to_be_in_time_is_that_of_the_band() -> None:
    """By the logarithm of the time as a normal variable whose 90th percentile is the end of the band."""
    row, asked = best("training"), found("training").asked
    assert row.trial is not None
    costs = row.trial.costs
    spread = math.log(costs["run_time_high"] / costs["run_time"]) / NormalDist().inv_cdf(0.9)
    in_time = NormalDist(math.log(costs["run_time"]), spread).cdf(math.log(40 * 86400.0))
    assert chance_to_meet(asked, costs) == pytest.approx(in_time * costs["fit_chance"], rel=1e-4)


@pytest.mark.parametrize("kind", _ASKED)
def test_the_optimistic_size_is_not_larger_and_less_sure(kind: str) -> None:
    for row in found(kind).working:
        expected, safe = row.plans.expected, row.plans.safe
        assert expected is not None
        assert safe is not None
        assert expected.gpus <= safe.gpus
        assert expected.gpus == safe.gpus or expected.chance < 0.9


def test_rents_are_gpus_or_whole_nodes_times_hours_and_price() -> None:
    row = best("serving")
    assert row.machine.node == "neocloud-h100"
    rent = found("serving").rent(row)
    assert rent.in_use == pytest.approx(row.gpus * 3.20 * HOURS_OF_A_MONTH)
    assert rent.whole == pytest.approx(math.ceil(row.gpus / 8) * 8 * 3.20 * HOURS_OF_A_MONTH)


@pytest.mark.parametrize(("kind", "price"), [("training", 55.04 / 8), ("rl", 63.296 / 8)])
def test_the_rent_of_a_job_is_gpus_times_hours_and_price(kind: str, price: float) -> None:
    row = best(kind)
    assert row.trial is not None
    assert found(kind).rent(row).in_use == pytest.approx(row.gpus * price * row.trial.costs["run_time"] / 3600)
    assert found(kind).rent(row).in_use == pytest.approx(row.trial.costs["run_cost"], rel=1e-6)


@pytest.mark.parametrize("kind", _ASKED)
def test_a_machine_without_an_answer_is_last_and_shows_no_figure(kind: str) -> None:
    """No cell of an answer column is of a plan that fails; each has its reason instead."""
    works = [row.works for row in found(kind).rows]
    assert works == sorted(works, reverse=True)
    assert not all(works)
    table = machines(document(found(kind), 10))
    heads = [column.head for column in table.columns]
    why = heads.index("")
    for row, cells in zip(found(kind).rows, table.rows, strict=True):
        held = {head: cell for head, cell in zip(heads, cells, strict=True) if head not in ("GPU", "node", "offer")}
        assert bool(cells[why]) != row.works
        if not row.works:
            assert not any(cell for head, cell in held.items() if head)
            assert not any(isinstance(cell, Value) for cell in cells)
    plain: list[dict[str, Any]] = json.loads(str(bought(kind).form("json")))["machines"]
    numbers = ("gpus", "nodes", "chance", "expected_gpus", "rent_in_use_usd", "rent_whole_nodes_usd")
    for each in plain:
        assert all((each[name] is not None) == each["works"] for name in numbers)
        assert (each["against"] is None) == each["works"]


def test_every_plan_that_is_shown_keeps_its_limits_when_asked_alone() -> None:
    for kind in _ASKED:
        for row in found(kind).working:
            assert row.plans.safe is not None
            case = vary_any(found(kind).asked.case, (*row.machine.settings, *row.plans.safe.settings))
            answer = found(kind).asked.for_case(case).answer()
            assert not answer.refused
            assert not answer.broken


def test_more_than_the_most_gpus_are_not_taken() -> None:
    few = costmodel.buy(node="neocloud-h100", gpus=1, **SERVED)
    assert not few.works
    assert few.found.rows[0].trial is None


def test_a_budget_alone_takes_the_most_gpus_that_it_pays_for() -> None:
    """They end first."""
    asked = {name: value for name, value in TRAINED.items() if name != "deadline"}
    rows = costmodel.buy(node="neocloud-h100", budget="200k", gpus=512, **asked).found.working
    row = next(row for row in rows if row.machine.sold == "on demand")
    assert row.trial is not None
    assert row.trial.costs["run_cost"] <= 200e3
    assert row.gpus > best("training").gpus / 8


def test_plans_known_at_another_price_are_those_of_a_search() -> None:
    """Of several offers of one machine: each as if it were looked at alone."""
    asked = {"model": "llama-3.1-8b", "batch": "4Mi-tokens", "sequence": "4096", "tokens": "1T", "budget": "250k"}
    answer = costmodel.buy(node="neocloud-h100", gpus=256, **asked).found
    assert len({row.machine.sold for row in answer.rows}) == 3
    for row in answer.rows:
        settings = (*row.machine.settings, *row.machine.price)
        alone = answer.asked.for_case(vary_any(answer.asked.case, settings)).smallest_plans(answer.safe, 256.0)
        assert row.plans == alone


def test_flags_for_tokens_deadline_budget_and_times_are_keys_of_the_scenario() -> None:
    held = found("training").asked.case.scenario
    assert held.workload.tokens == 1e12  # type: ignore[union-attr]
    assert held.limits.run_time.at_most == 40 * 86400.0  # type: ignore[union-attr]
    assert held.run is not None  # type: ignore[union-attr]
    assert found("serving").asked.case.scenario.limits.ttft_p99.at_most == 1.0  # type: ignore[union-attr]
    assert found("rl").asked.case.scenario.workload.iterations == 200  # type: ignore[union-attr]
    for text in ("2M", "$2M", "2e6", "2 M USD"):
        case = costmodel.estimate(model="llama-3.1-8b", budget=text, tokens="1T").found.inputs.case
        assert case.scenario.limits.run_cost.at_most == 2e6


@pytest.mark.parametrize(("kind", "axes"), [("serving", "work of a GPU"), ("training", "cost")])
def test_the_page_draws_every_machine_that_works(kind: str, axes: str) -> None:
    page, drawn = str(bought(kind).form("html")), str(bought(kind).form("svg"))
    assert axes in drawn
    for row in found(kind).rows:
        assert (f"{row.machine.accelerator}, {row.machine.node}" in drawn) == row.works
    assert f"written on {date.today():%Y-%m-%d} with costmodel" in page
    assert "Cost of" in page
    assert ("To decide" in page) == (kind == "serving")
    assert "Which GPUs for" in page


@pytest.mark.parametrize("replicas", [100, 250])
def test_a_chance_of_nine_in_ten_is_where_p90_is_at_the_limit(replicas: int) -> None:
    """Also of an engine that was never measured on this maker's accelerators, whose error is larger upwards."""
    settings = ["plan.tp=8", f"plan.replicas={replicas}", f"cluster.nodes={replicas}"]
    asked = {"model": "llama-3.1-70b", "node": "nd96isr-mi300x-v5", "rate": "50", "prompt": "2000", "answer": "500"}
    late = costmodel.estimate(settings=settings, **asked).found.costs["ttft_p99_high"]
    limited = costmodel.estimate(
        settings=[*settings, "limits.limits_chance.at_least=1%"], ttft=f"{late:.6f} s", **asked
    )
    assert limited.found.costs["limits_chance"] == pytest.approx(0.9, abs=0.02)


def test_a_curve_is_the_plan_of_a_machine_with_other_numbers_of_requests_in_flight() -> None:
    traded = ("tokens_per_s_per_user", "tokens_per_s_per_gpu")
    (curve, other) = machine_curves(found("serving"), traded, 2)
    assert curve.machine.accelerator != other.machine.accelerator
    row = next(row for row in found("serving").working if row.machine == curve.machine)
    assert row.plans.safe is not None
    plan = dict(item.split("=", 1) for item in row.plans.safe.settings if item.startswith(("plan.", "stack.")))
    settings = [f"stack.budget={plan['stack.budget']}", f"plan={{tp: {plan.get('plan.tp', '1')}, pp: 1, replicas: 1}}"]
    asked = {name: value for name, value in SERVED.items() if name not in ("rate", "ttft")}
    costs = costmodel.estimate(node=curve.machine.node, concurrency="16", settings=settings, **asked).found.costs
    assert curve.points[2] == pytest.approx(tuple(costs[name] for name in traded))
    users, gpus = zip(*curve.points, strict=True)
    assert list(users) == sorted(users, reverse=True)
    assert list(gpus) == sorted(gpus)


def test_published_runs_are_counted_with_the_price_here() -> None:
    """Of nemo-24: Llama 3 70B on 64 H100, 128 sequences of 8,192 tokens in 10.75 s."""
    asked = {"model": "llama-3-70b", "sequence": "8192", "batch": "4Mi-tokens", "tokens": "2T", "deadline": "60d"}
    answer = costmodel.buy(node="neocloud-h100", price="2USD/GPU/h", **asked)
    runs = published_runs(answer.found)
    assert len(runs) >= 10
    assert {run.accelerator for run in runs} == {"h100-sxm"}
    gpus = answer.found.working[0].gpus
    each = 128 * 8192 / 10.75 / 64
    time = 2e12 / (each * gpus)
    assert any(
        run.across == pytest.approx(time) and run.up == pytest.approx(time / 3600 * gpus * 2)
        for run in runs
        if run.source == "nemo-24"
    )
    assert f"○ {len(runs)} published runs" in str(costmodel.buy(node="neocloud-h100", plot=True, **asked).form("table"))
    assert not published_runs(found("rl"))
    assert all(math.isnan(run.across) for run in published_runs(found("serving")))


def test_published_services_are_points_of_the_plot() -> None:
    """Of InferenceX: 64 users of Llama 70B on 4 H100, a first token after 256 ms and each further one after 19.52."""
    asked = {"model": "llama-3.1-70b", "rate": "4", "prompt": "2000", "answer": "500", "ttft": "1s"}
    answer = costmodel.buy(node="neocloud-h100", **asked)
    runs = [run for run in published_runs(answer.found) if run.source == "inferencex-llama-70b"]
    assert len(runs) == 10
    rate = 64 * 922 / (0.2564 + 921 * 0.01952) / 4
    assert any(run.across == pytest.approx(1 / 0.01952) and run.up == pytest.approx(rate, rel=1e-3) for run in runs)
    words = " ".join(str(costmodel.buy(node="neocloud-h100", plot=True, **asked).form("table")).split())
    assert "○ 10 published runs" in words


def test_the_first_sentence_is_for_who_decides() -> None:
    """How much, how long, how sure, on which terms, what else was looked at, and what is to be decided."""
    row = found("training").best
    assert row is not None
    assert row.trial is not None
    assert row.plans.safe is not None
    assert row.price is not None
    assert row.price.listed is not None
    costs, price = row.trial.costs, f"{row.price.each * 3600:.2f} USD/GPU/h"
    words = stated(document(found("training"), 10))
    ends = [f"{costs[f'run_time_{end}'] / 86400:.1f} days" for end in ("low", "high")]
    money = f"${costs['run_cost'] / 1e3:.0f} k for the whole job"
    assert words.startswith(f"{row.gpus:.0f} h100-sxm ({row.nodes:.0f} nodes of 8): {money}, ")
    assert f"{costs['run_time'] / 86400:.1f} days ({' to '.join(ends)})" in words
    assert f"with a chance of {row.plans.safe.chance:.0%} to meet every limit.".replace("%", " %") in words
    origin = f"(price of {row.price.listed.date}, {row.price.listed.source}; node p5)"
    assert f"Rent from AWS in us-east-1, on demand, without a term, at {price} {origin}." in words
    assert "Compared: 2 offers of 2 machines, " in words
    assert "; 1 meets every limit, 1 does not: 1 " in words
    served = document(found("serving"), 10)
    assert "from CoreWeave on spot, which can be interrupted; $" in closing(served)
    assert ", without interruptions; price of 2026-09-20, CoreWeave" in closing(served)
    assert "fewer GPUs answer until others start" in closing(served)
    assert "The chance that the real speed meets every limit, and the ranges (8 of 10 cases), come from errors" in words
    assert next(each.label for each in served.headlines) == "Cost of a month of 730 h"


def test_a_price_of_your_own_has_no_seller_and_no_higher_one(tmp_path: Path) -> None:
    """A price that --price states, and a row of a table: no list price of another seller changes either."""
    given = stated(document(costmodel.buy(node="neocloud-h100", price="2.10USD/GPU/h", **SERVED).found, 5))
    assert "At your price of 2.10 USD/GPU/h (--price); neocloud-h100 is only the shape of the machine." in given
    assert "Rent " not in given
    table = tmp_path / "quotes.csv"
    table.write_text("kind,node,date,source,usd_per_gpu_hour\non demand,neocloud-h100,2026-11-30,my-quote,2.10\n")
    quoted = stated(document(costmodel.buy(prices=str(table), only_prices=True, **SERVED).found, 5))
    assert "Rent from my-quote, on demand, without a term, at 2.10 USD/GPU/h (price of 2026-11-30; node " in quoted
    assert "dearest seller" not in given + quoted
    assert "the dearest seller on demand (Azure, " in stated(document(found("serving"), 5))


def test_a_job_that_ends_early_names_the_next_smaller_size() -> None:
    """Which keeps the deadline with less chance, or costs more: 7 eighths of the nodes divide the batch badly."""
    asked = {"model": "llama-3-70b", "batch": "1024", "sequence": "8192", "tokens": "2T", "deadline": "60d"}
    bought = costmodel.buy(node="neocloud-h100", **asked).found
    best, below = bought.best, bought.best.plans.below
    assert below.gpus < best.gpus
    money = rounded_dollars(below.gpus * below.value / 3600 * 3.20)
    words = stated(document(bought, 5))
    days = f"{below.value / 86400:.1f} days (P90 {below.likely / 86400:.1f} days) for {money}"
    assert f"The next smaller number of GPUs with a plan, {below.gpus:.0f}, takes {days}: sizes between" in words


def test_a_service_begins_with_its_size_and_names_others_by_their_chance() -> None:
    """From the size by expected figures to the surer one: whole nodes times hours times the price."""
    asked = costmodel.buy(node="neocloud-h100", **{**SERVED, "rate": "400"}).found
    row = asked.best
    assert row is not None
    assert row.plans.expected is not None
    assert row.plans.safe is not None
    few, many = row.plans.expected.gpus, row.plans.safe.gpus
    assert few < many
    whole = [math.ceil(gpus / 8) * 8 for gpus in (few, many)]
    low, high = (rounded_dollars(gpus * 3.20 * HOURS_OF_A_MONTH) for gpus in whole)
    words = stated(document(asked, 10))
    billed = "" if whole[1] == many else f", all {whole[1]} billed"
    assert words.startswith(f"{many:.0f} h100-sxm ({row.nodes:.0f} nodes of 8{billed}): {high} for a month of 730 h")
    assert " to meet every limit." in words
    note = "" if whole[0] == few else f"{whole[0]} billed, "
    sure = f"{few:.0f} GPUs ({note}{low}) are enough with a chance of {row.plans.expected.chance:.0%}, "
    assert f"Cost range: {sure}".replace("%", " %") in words
    words, next_best = stated(document(found("serving"), 10)), found("serving").next_best
    assert next_best is not None
    apart = found("serving").rent(next_best).whole - found("serving").billed
    assert f"Next best on another GPU and the same terms: {next_best.gpus:.0f} l4 (from AWS, g6-48xlarge" in words
    assert f", +{rounded_dollars(apart)}." in words


CHOICES = {"fewer": "off", "surer": "95%", "type": "fp8", "tokens": "50ms"}


@functools.cache
def busy() -> costmodel.Result:
    """The answer for many requests, asked once."""
    return costmodel.buy(node="neocloud-h100", **{**SERVED, "rate": "250"})


def test_each_choice_is_the_answer_of_its_command_with_its_difference() -> None:
    """A choice of another plan is what buy finds with its flags; the differences are those of the rents."""
    answer = busy()
    asked = answer.found
    assert {each.key for each in asked.choices} >= {"fewer", "type", "tokens", "offer"}
    ours, plain_choices = asked.billed, answer.figures["choices"]
    apart = [asked.rent(each.row).whole - ours for each in asked.choices]
    assert apart == sorted(apart)
    for choice, values in zip(asked.choices, plain_choices, strict=True):
        assert values["difference_usd"] == pytest.approx(asked.rent(choice.row).whole - ours)
        if choice.key == "offer":
            assert choice.row.machine.sold != "on demand"
            continue
        name, value = choice.flags[0].removeprefix("--"), choice.flags[1]
        assert value == CHOICES[choice.key]
        again = costmodel.buy(node="neocloud-h100", **{**SERVED, "rate": "250", name: value}).found.best
        assert (again.gpus, again.machine.sold) == (choice.row.gpus, "on demand")
        assert again.plans.safe.chance == pytest.approx(choice.row.plans.safe.chance)


def test_8_bit_numbers_are_tried_on_other_machines_too() -> None:
    """Where the answer's own machine costs the same by whole nodes, and another one far less."""
    asked = {"model": "llama-3.3-70b", "rate": "30", "prompt": "1500", "answer": "400", "ttft": "1s"}
    answer = costmodel.buy(node="neocloud-h100,neocloud-b200", **asked).found
    (choice,) = (each for each in answer.choices if each.key == "type")
    again = costmodel.buy(node=choice.flags[choice.flags.index("--node") + 1], dtype="fp8", **asked).found
    assert choice.row.machine.accelerator != answer.best.machine.accelerator
    assert (choice.row.gpus, choice.row.machine.node) == (again.best.gpus, again.best.machine.node)
    assert again.billed == pytest.approx(answer.rent(choice.row).billed)
    assert again.billed < 0.7 * answer.billed


def test_a_monthly_budget_limits_whole_nodes_that_are_billed() -> None:
    """5 of 8 GPUs on demand are $11.7 k, and $18.7 k are billed: spot, reserved and on demand are 2.46 to 3.20 USD."""
    asked = {"node": "neocloud-h100", **SERVED}
    answer = costmodel.buy(budget="16k", **asked).found
    assert {row.machine.sold: row.works for row in answer.rows} == {"spot": True, "reserved": True, "on demand": False}
    assert answer.billed == pytest.approx(2.72 * 8 * HOURS_OF_A_MONTH, rel=0.01)
    assert answer.billed < 16_000
    words = stated(document(costmodel.buy(budget="12k", **asked).found, 5))
    assert re.search(r"A budget of \$18\.[78] k a month would do \(--budget\): the bill for 5 h100-sxm", words)


def test_a_monthly_budget_without_a_load_has_the_highest_rate() -> None:
    """5 % more requests are billed above it, and the command is repeated as it was asked."""
    asked = {"node": "neocloud-h100"} | {name: value for name, value in SERVED.items() if name != "rate"}
    answer = costmodel.buy(budget="20k", **asked).found
    rate = answer.answered
    assert answer.billed <= 20_000
    assert costmodel.buy(rate=f"{rate * 1.05:.4g}", **asked).found.billed > 20_000
    assert "At most " in stated(document(answer, 5))


def test_the_highest_rate_is_found_in_steps_of_cost() -> None:
    """Four nodes of 7 requests/s are within 45."""
    tried = list[float]()

    def cost(rate: float) -> float:
        tried.append(rate)
        return 10.0 * math.ceil(rate / 7.0)

    assert 28 / 1.02 <= highest_affordable(45.0, cost) <= 28
    assert len(tried) < 12
    assert highest_affordable(5.0, cost) < 0.02


def test_a_lora_takes_the_fewest_gpus_that_fit() -> None:
    asked = {
        "model": "llama-3.3-70b",
        "tokens": "200M",
        "node": "neocloud-b200",
        "settings": {"workload.tuning": "lora"},
    }
    answer, on_one_node = costmodel.buy(**asked).found, costmodel.buy(gpus=8, **asked).found
    assert answer.best.gpus == on_one_node.best.gpus == 8
    assert "These are the fewest GPUs that fit" in stated(document(answer, 5))
    whole = costmodel.buy(**{**asked, "settings": {}}).found
    assert "it has room for twice the training states" in stated(document(whole, 5))


QUOTE = "kind,node,date,source,capital_usd,years,utilisation\npurchase,dgx-h100,2026-11-01,a quotation,250000,4,0.8\n"


def test_a_purchase_for_a_job_is_compared_with_the_rent_of_as_many_gpus(tmp_path: Path) -> None:
    """8 nodes are $2 M; 64 GPUs at 3.20 USD/h are $150 k a month, less their power: it pays long after the job ends."""
    table = tmp_path / "quotes.csv"
    table.write_text(QUOTE)
    asked = {"model": "llama-2-7b", "tokens": "2T", "deadline": "60d", "gpu": "h100", "gpus": 64}
    for only in (False, True):
        answer = costmodel.buy(prices=str(table), only_prices=only, **asked).found
        months = 2e6 / (64 * 3.20 * HOURS_OF_A_MONTH)
        row = next(row for row in answer.working if row.machine.sold == "purchase")
        rent, pays = answer.rent_alike(row)
        assert rent == pytest.approx(64 * 3.20 * HOURS_OF_A_MONTH)
        assert months < pays / 3600 / HOURS_OF_A_MONTH < 1.1 * months
        words = stated(document(answer, 5))
        assert "Buying 64 GPUs costs $2.00 M; renting as many h100-sxm on demand costs $150 k a month, so " in words
        assert "so buying pays after 14 months of use. For this job alone: rent." in words


def test_prices_that_are_old_or_unverified_say_so() -> None:
    """Beside the price and to decide, by the month; the newest shipped price is the measure of age."""
    shipped = (read("node", name).list_price for name in names("node"))
    assert max(price.date for price in shipped if price is not None) == NEWEST
    old = machines(document(costmodel.buy(node="dgx-b200,tpu-v5p-slice", **SERVED).found, 5))
    heads = [column.head for column in old.columns]
    prices = {plain([row[heads.index("offer")]]): plain([row[heads.index("$/GPU/h")]]) for row in old.rows[::-1]}
    assert prices["on demand"].startswith("2024-12: ")
    assert prices["purchase"].startswith("2025-03: ")
    new = machines(document(found("serving"), 5))
    assert ": " not in plain([new.rows[0][heads.index("$/GPU/h")]])


def test_without_a_limit_the_answer_claims_none_and_a_price_can_be_stated() -> None:
    asked = {name: value for name, value in SERVED.items() if name != "ttft"}
    words = closing(document(costmodel.buy(node="mi355x-8", **asked).found, 5))
    assert " to answer all requests." in words
    assert "every limit" not in words
    assert "no price is known: --price '3 USD/GPU/h' states yours" in words


def test_a_model_of_the_same_shape_is_named_as_it_was_asked_for() -> None:
    asked = {**SERVED, "model": "llama-3.3-70b"}
    made = document(costmodel.buy(node="neocloud-b200", **asked).found, 5)
    assert made.title == "Which GPUs for llama-3.3-70b (same shape as Llama 3.1 70B), and what do they cost?"
    assert "the shape of" not in "".join(map(str, made.head))


def test_choices_are_ahead_of_the_table_with_their_commands() -> None:
    lines, page = " ".join(closing(document(busy().found, 5)).split()), str(busy().form("html"))
    assert " in 8-bit numbers (--dtype fp8): test quality" in lines
    assert "at most 50 ms a token, for example: " in lines
    assert page.index("To decide: another deal") < page.index("To decide: another service")
    assert page.index("To decide") < page.index("Filter rows")
    assert "--dtype fp8</pre>" in page
    assert "N056" not in page.partition("To decide")[0]


def test_a_choice_of_fewer_gpus_is_what_a_job_takes_without_a_chance() -> None:
    """A size that fails by expected figures is none, though its chance of 0 is as much as is asked for."""
    asked = TRAINED | {"deadline": "19d", "node": "neocloud-h100"}
    found, off = costmodel.buy(**asked).found, costmodel.buy(safe="off", **asked).found
    words = closing(document(found, 5))
    assert "work since the last checkpoint is done again" in words
    assert "fewer GPUs answer" not in words
    assert found.next_best is None or found.rent(found.next_best).billed >= found.billed
    (fewer,) = (each.row for each in found.choices if each.key == "fewer")
    assert off.best.gpus == fewer.gpus < found.best.gpus
    assert off.billed == pytest.approx(found.rent(fewer).billed)


@pytest.mark.whole
def test_a_surer_size_is_the_smallest_that_its_command_finds() -> None:
    """Not one that was tried on the way to another chance: 48 GPUs once stood beside a command that finds 44."""
    for rate in ("20", "35", "80", "120"):
        asked = {"model": "llama-3.1-70b", "prompt": "2000", "answer": "500", "ttft": "1s", "rate": rate}
        answer = costmodel.buy(gpu="h200", **asked).found
        (choice,) = (each for each in answer.choices if each.key == "surer")
        flags = dict(zip(choice.flags[::2], choice.flags[1::2], strict=True))
        again = costmodel.buy(node=flags["--node"], safe=flags["--safe"], **asked).found.best
        assert again.gpus == choice.row.gpus


def test_money_has_a_range_by_prediction_and_by_price_and_each_choice_its_chance() -> None:
    """Whole nodes of eight at 3.20 USD; the dearest H100 on demand at its own price; 1 - 96 % is 4 of 100."""
    asked = busy().found
    best, dear = (
        asked.best,
        max(
            (read("node", name) for name in names("node") if read("node", name).accelerator == "h100-sxm"),
            key=lambda node: (
                -1.0 if node.list_price is None or node.list_price.sold != "on demand" else hourly_price(node)
            ),
        ),
    )
    surer = next(each.row for each in asked.choices if each.key == "surer")
    low, high = (
        rounded_dollars(math.ceil(gpus / 8) * 8 * 3.20 * HOURS_OF_A_MONTH)
        for gpus in (best.plans.expected.gpus, surer.gpus)
    )
    assert asked.dearest.node == dear.name
    most = rounded_dollars(math.ceil(best.gpus / 8) * 8 * hourly_price(dear) * HOURS_OF_A_MONTH)
    words = stated(document(asked, 5))
    few, many = best.plans.expected, surer.plans.safe
    sure = [f"{chance:.0%}".replace("%", " %") for chance in (few.chance, many.chance)]
    bills = [f"{'' if gpus % 8 == 0 else f'{math.ceil(gpus / 8) * 8} billed, '}{money}"
             for gpus, money in ((few.gpus, low), (many.gpus, high))]  # fmt: skip
    assert f"Cost range: {few.gpus:.0f} GPUs ({bills[0]}) are enough with a chance of {sure[0]}, " in words
    beyond = f"as the predicted speed may be off; more are needed in {(1 - many.chance) * 100:.0f} of 100 cases"
    assert f", {many.gpus:.0f} ({bills[1]}) with {sure[1]}, {beyond}" in words
    assert f"; the dearest seller on demand ({dear.provider}, {dear.name}, " in words
    assert f") asks {most} for these GPUs" in words
    for choice, decision in zip(asked.choices, decisions(asked), strict=True):
        assert plain([decision.missed]) == f"{(1 - choice.row.plans.safe.chance) * 100:.0f} of 100"
    words, failing = stated(document(found("serving"), 5)), [row for row in found("serving").rows if not row.works]
    does = "does" if len(failing) == 1 else "do"
    assert f"{len(found('serving').working)} meet every limit, {len(failing)} {does} not: " in words


def stated(made: AnswerDocument) -> str:
    """The sentences that a page begins with."""
    return " ".join(plain(made.conclusion).split())


def machines(made: AnswerDocument) -> Table:
    """The table of machines."""
    table = next(section.table for section in made.sections if section.key == "machines")
    assert isinstance(table, Table)
    return table


def closing(made: AnswerDocument) -> str:
    """The last lines of an answer in a terminal, with -v."""
    return " ".join(line.plain for line in laid_out(made.closing, None))


def test_the_answer_is_the_first_row_and_marked_and_the_next_commands_keep_its_price() -> None:
    answer = costmodel.buy(node=NODES["serving"], top=1, verbose=True, **SERVED)
    text = str(answer.form("table"))
    row = answer.found.best
    assert row.machine.sold == "on demand"
    assert str(machines(document(answer.found, 1)).rows[0][0]) == "h100-sxm ◀"
    assert next(line for line in text.splitlines() if "◀" in line).split()[:4] == ["h100-sxm", "◀", "on", "demand"]
    words = " ".join(text.replace("\\\n", " ").split())
    assert f"--node {NODES['serving']} -o page.html" in words
    assert f"--price {row.price.each * 3600:.6g}USD/GPU/h --set cluster.node=neocloud-h100" in words
    again = costmodel.estimate(
        settings=[*row.machine.settings, *row.plans.safe.settings], price="3.20USD/GPU/h", **SERVED
    )
    assert again.found.costs["rent_per_month"] == pytest.approx(answer.found.rent(row).in_use)


def test_a_service_says_its_speed_and_which_limit_is_missing() -> None:
    costs = best("serving").trial.costs
    words = stated(document(found("serving"), 3))
    slow, fast = (costs[f"tokens_per_s_per_user_{end}"] for end in ("low", "high"))
    band = f"({slow:.1f} to {fast:.1f}; no limit: --tpot)"
    assert f"{1 / costs['tpot']:.1f} tokens/s a user {band}, first token p99 " in words
    assert f" ({costs['ttft_p99_low'] * 1e3:.0f} ms to {costs['ttft_p99_high'] * 1e3:.0f} ms)" in words


def test_a_job_without_a_deadline_takes_all_gpus_and_short_jobs_get_no_reserved_price() -> None:
    asked = {name: value for name, value in TRAINED.items() if name != "deadline"}
    answer = costmodel.buy(node="neocloud-h100", gpus=104, **asked).found
    row = answer.best
    assert row.gpus == 96  # of 13 nodes 12 divide the batch
    assert row.time < 30 * 86400
    assert row.machine.sold == "on demand"
    assert {each.machine.sold for each in answer.working if not each.terms_fit} == {"reserved"}
    words = stated(document(answer, 5))
    assert "Of 13 nodes, 12 are used: larger numbers do not divide the batch" in words
    assert "reserved *" in [str(row[2]) for row in machines(document(answer, 5)).rows]
    few = costmodel.buy(node="p5", **asked).found
    assert few.nodes_at_most == math.inf
    assert "it has room for twice the training states; --deadline, --budget" in stated(document(few, 5))


def test_a_training_without_an_end_costs_a_month_and_a_limit_on_all_of_it_needs_tokens() -> None:
    asked = {name: value for name, value in TRAINED.items() if name not in ("deadline", "tokens")}
    answer = costmodel.buy(node="p5", gpus=8, **asked).found
    row = answer.best
    assert answer.rent(row).in_use == pytest.approx(8 * 6.88 * HOURS_OF_A_MONTH)
    words = stated(document(answer, 5))
    assert "for a month of 730 h, with a chance of" in words
    assert f"{row.trial.costs['tokens_per_s'] * 86400 / 1e9:.3g} G tokens a day (" in words
    several = costmodel.buy(node="neocloud-h100,neocloud-b200", power="100kW", **asked).found
    each = [several.rent(row).in_use / row.trial.costs["tokens_per_s"] for row in several.working]
    assert each == sorted(each)
    with pytest.raises(CostModelError, match="--budget is for the whole job"):
        costmodel.buy(node="p5", budget="1M", **asked)


def test_whole_nodes_are_rented_by_node_or_by_engine_where_one_spans_several() -> None:
    row = best("serving")
    assert row.parts == min(row.nodes, len(row.engines))
    wide = SimpleNamespace(nodes=4.0, engines=[12.0, 12.0], rents_each=False)
    assert Purchase.parts.fget(wide) == 2
    assert Purchase.parts.fget(SimpleNamespace(nodes=2.0, engines=[4.0] * 4, rents_each=False)) == 2
    assert Purchase.parts.fget(SimpleNamespace(nodes=2.0, engines=[4.0] * 4, rents_each=True)) == 4


def test_a_seller_who_rents_part_of_a_node_bills_the_gpus_in_use() -> None:
    row = best("serving")
    assert row.trial is not None
    assert row.price is not None
    assert row.price.listed is not None
    listed = row.price.listed.model_copy(update={"in_part": True})
    about = replace(row.trial.about, price=replace(row.price, listed=listed))
    part = replace(row, trial=replace(row.trial, about=about))
    rents = [each.rent(30 * 86400.0) for each in (row, part)]
    assert row.gpus == 5
    assert [rent.billed for rent in rents] == [rents[0].whole, rents[0].in_use]


def test_a_somewhat_larger_size_is_taken_where_it_costs_less() -> None:
    """24 nodes would end in time, but their plan takes more GPU hours than that of 32."""
    times = {24.0: 40.0, 32.0: 25.0, 28.0: 30.0}
    sizes = _TrialsByNodes(found("training").asked, 8.0, {})
    for nodes, time in times.items():
        sizes.seen[nodes] = Trial((), kept=AnswerSummary({"run_time": time}, "fits", "", {}, {}))
    ladder = [24.0, 28.0, 32.0]
    assert sizes._cheapest(ladder, 0, 0.0) == 2
    sizes.seen[32.0] = Trial((), kept=AnswerSummary({"run_time": 35.0}, "fits", "", {}, {}))
    assert sizes._cheapest(ladder, 0, 0.0) == 0


def against(**asked: str) -> str:
    """Why the one machine that is looked at fails."""
    (row,) = costmodel.buy(price="2USD/GPU/h", **asked).figures["machines"]
    return str(row["against"])


def test_a_machine_that_fails_by_money_time_or_power_says_by_which_figures() -> None:
    asked = {name: value for name, value in TRAINED.items() if name != "deadline"} | {"node": "dgx-h100"}
    seconds = 0.0
    for gpus in ("16", "32"):
        words = against(deadline="2d", gpus=gpus, **asked)
        assert words.startswith("a time of ")
        assert words.endswith(f" on {gpus} GPUs is over the deadline of 2.00 days")
        days = float(words.split(" days on")[0].removeprefix("a time of "))
        assert 0.4 < days * 86400 / seconds < 0.6 if seconds else days > 2
        seconds = days * 86400
    poor = against(budget="10k", gpus="64", **asked)
    assert poor.startswith("rent $")
    assert poor.endswith("is over the budget of $10.0 k")
    dark = against(deadline="2d", power="40kW", **asked)
    power = "a node takes 12.2 kW, and the site has"
    assert dark.endswith(f" on 24 GPUs is over the deadline of 2.00 days: {power} 40.0 kW, for 3 nodes")
    busy = against(**{**SERVED, "rate": "400"}, node="neocloud-h100", power="13kW")
    assert busy == f"S003 cache full: {power} 13.0 kW, for 1 node"
    late = against(**{**SERVED, "ttft": "1ms"}, node="neocloud-h100")
    assert late.startswith("first token (p99) ")
    assert late.endswith("is over the limit of 1.00 ms")


def test_a_remark_on_some_machines_names_them_in_a_page_too() -> None:
    asked = {**SERVED, "node": "neocloud-h100,nd96isr-mi300x-v5", "price": "3USD/GPU/h"}
    answer = costmodel.buy(verbose=True, **asked)
    for face in ("table", "html"):
        text = " ".join(str(answer.form(face)).split())
        for title in ("no kernels measured on this GPU", "never measured"):
            assert f"{title} (1 of 2: nd96isr-mi300x-v5): ".lower() in text.lower()


def test_fewer_gpus_are_a_choice_where_what_is_paid_is_less() -> None:
    """A node of eight L4 is rented whole: fewer GPUs are a choice only where they stand on fewer nodes."""
    answer = costmodel.buy(node="g6-48xlarge", **SERVED).found
    row = answer.best
    assert row.plans.expected.gpus < row.plans.safe.gpus
    price, nodes = row.price.each * 3600 * HOURS_OF_A_MONTH, math.ceil(row.plans.expected.gpus / 8)
    assert answer.smaller.in_use == pytest.approx(row.plans.expected.gpus * price)
    assert answer.smaller.whole == pytest.approx(nodes * 8 * price)
    assert ("fewer" in {each.key for each in answer.choices}) == (nodes < row.nodes)
    if nodes == row.nodes:
        assert f"; both take {nodes} whole node" in stated(document(answer, 3))


def test_a_purchase_has_its_capital_and_is_named_where_the_job_writes_it_off() -> None:
    """Nodes of 515,000 USD: 6 × 8.03e9 × 15e12 flop take a node of B200 more than a year, several nodes days."""
    asked = {"model": "llama-3.1-8b", "batch": "4Mi-tokens", "sequence": "4096", "node": "dgx-b200,neocloud-b200"}
    long = costmodel.buy(tokens="15T", deadline="1500d", gpus=8, **asked)
    words = closing(document(long.found, 5))
    assert "buy dgx-b200 for $515 k, used for 5 years, 20 % of them idle and paid for; $" in words
    assert " for this job; price of " in words
    assert "; without interest, building and staff" in words
    assert [row["capital_usd"] for row in long.figures["machines"]][:2] == [515e3, None]
    poor = costmodel.buy(tokens="15T", deadline="1500d", gpus=8, budget="500k", **asked).found
    assert len(poor.working) == 1
    assert "Its capital is above the budget of $500 k." in stated(document(poor, 5))
    short = costmodel.buy(tokens="1T", deadline="20d", verbose=True, **asked)
    row = short.found.working[0]
    assert row.nodes > 1
    assert row.capital == pytest.approx(row.nodes * 515e3)
    assert "buy dgx-b200" not in closing(document(short.found, 5))
    capital = f"bought for ${row.nodes * 515e3 / 1e6:.3g} M, used for 5 years, 20 % of them idle and paid for"
    assert capital in str(short.form("html"))
    assert capital in " ".join(str(short.form("table")).split())


@pytest.mark.parametrize("chance", ["70%", "90%"])
def test_below_nine_in_ten_the_page_is_amber(chance: str) -> None:
    answer = costmodel.buy(node="neocloud-h100", safe=chance, **SERVED).found
    best = answer.best
    assert best.plans.safe.chance >= float(chance[:2]) / 100
    assert document(answer, 3).verdict == ("good" if best.plans.safe.chance >= 0.9 else "warn")
    assert (best.plans.safe.chance < 0.9) == (chance == "70%")


def test_the_page_of_a_run_begins_with_time_money_and_chance() -> None:
    page = str(costmodel.run("llama-3-70b-512").form("html"))
    assert "The run takes 335 days (296 – 379 days) and costs $10.3 M ($9.11 – $11.7 M); it fits with a chance" in page
    assert page.index(">Cost<") < page.index(">Run time<")


def test_a_site_holds_as_many_nodes_as_its_power_supplies() -> None:
    """A DGX H100 of 10.2 kW at a PUE of 1.2: 81 nodes in a megawatt, of which a batch of 1,024 is divided over 64."""
    asked = {"model": "llama-3-8b", "batch": "1024", "sequence": "8192", "tokens": "15T", "price": "2USD/GPU/h"}
    (row,) = costmodel.buy(node="dgx-h100", power="1MW", **asked).found.working
    assert row.power == pytest.approx(row.nodes * 10_200 * 1.2)
    assert row.nodes == 64
    (less,) = costmodel.buy(
        node="dgx-h100", power="300 kW", settings=["run={power: {pue: 1.5}}"], **asked
    ).found.working
    assert less.power == pytest.approx(less.nodes * 10_200 * 1.5)
    assert less.nodes == 16  # of 19
    text = str(costmodel.buy(node="dgx-h100", power="1MW", **asked).form("table"))
    assert "site power" in text
    assert "783 kW" in text


def test_a_site_takes_sizes_between_powers_of_two() -> None:
    """551 kW are 45 DGX H100, of which 40 divide 80 layers by 5 and a batch of 1,024; 44 and 36 have no such plan."""
    asked = {"model": "llama-3-70b", "batch": "1024", "sequence": "8192", "tokens": "1T", "price": "2USD/GPU/h"}
    (row,) = costmodel.buy(node="dgx-h100", power="551kW", settings=["run=null"], **asked).found.working
    assert row.nodes == 40


def test_a_service_is_refused_where_the_site_has_too_little_power() -> None:
    served = costmodel.buy(node="neocloud-h100", power="12.3kW", **SERVED).found
    assert {row.gpus for row in served.working} == {5}
    with pytest.raises(costmodel.CostModelError, match=r"a node takes 12\.2 kW, and the site has 10\.0 kW"):
        costmodel.buy(node="neocloud-h100", power="10kW", **SERVED)
    with pytest.raises(costmodel.CostModelError, match="no job is named"):
        costmodel.buy(power="10MW")
    for wrong in ("10", "0 W", "ten megawatts"):
        with pytest.raises(costmodel.CostModelError):
            costmodel.buy(node="neocloud-h100", power=wrong, **SERVED)


def test_a_budget_has_a_size_with_the_least_loss() -> None:
    """Of dense models, 20 tokens a parameter; the money of the work is that of this job."""
    asked = {"model": "llama-3-8b", "batch": "1024", "sequence": "8192", "tokens": "15T", "price": "2USD/GPU/h"}
    found = costmodel.buy(node="dgx-h100", budget="1M", **asked).found
    assert found.best.trial is not None
    work = 6 * 8.03e9 * 15e12 / found.best.trial.costs["run_cost_high"] * 1e6
    parameters, tokens = found.optimal
    assert parameters == pytest.approx(math.sqrt(work / 120), rel=1e-3)
    assert tokens == pytest.approx(20 * parameters)
    text = " ".join(str(costmodel.buy(node="dgx-h100", budget="1M", **asked).form("table")).split())
    least = f"a dense model of {parameters / 1e9:.2g} B parameters on {tokens / 1e12:.2g} T tokens"
    assert f"{least} would have the lowest loss" in text
    assert "(hoffmann-2022), which differs between data sets" in text
    assert costmodel.buy(node="dgx-h100", gpus=64, **asked).found.optimal is None


def test_a_budget_alone_has_the_model_that_it_trains_best() -> None:
    """20 tokens a parameter; the next size costs more than the budget at P90."""
    asked = {"node": "neocloud-h100", "price": "2USD/GPU/h"}
    answer = costmodel.buy(budget="20k", **asked)
    best = answer.found.best
    costs, model = best.trial.costs, answer.found.asked.case.model
    parameters = float(model_parameters(model))
    assert answer.found.asked.case.scenario.workload.tokens == pytest.approx(20 * parameters, rel=1e-3)
    assert costs["run_cost_high"] <= 20e3
    assert costs["run_cost"] == pytest.approx(costs["run_time"] / 3600 * best.gpus * 2, rel=1e-6)
    layers, width = map(int, model.name.removeprefix("dense-").split("x"))
    larger = {"model": f"dense-{layers + 8}x{width}", "deadline": "60d", "batch": "4Mi-tokens"}
    tokens = 20 * float(model_parameters(read("model", larger["model"])))
    over = costmodel.buy(tokens=f"{tokens:.0f}", **asked, **larger).found.best.trial.costs
    assert over["run_cost_high"] > 20e3
    text = " ".join(str(answer.form("table")).split())
    assert f"Compute-optimal within $20.0 k and 60.0 days: {parameters / 1e9:.3g} B parameters" in text
    assert "hoffmann-2022" in text
    why = {item.path: item.origin for item in answer.found.asked.case.asked.assumed}
    assert why["tokens"].endswith("; --model with --tokens sets both")
    assert "far beyond the work it was fitted on, rounded down to a power of two" in why["batch"]
    assert "buy --budget 20k --price 2USD/GPU/h --node neocloud-h100 -o page.html" in text


def test_the_largest_model_within_a_budget_is_found_by_few_trials() -> None:
    """Of costs that grow with the square of the parameters, or faster; none where no size is within it."""
    for power, most in ((2.0, 3), (2.4, 6)):
        tried = list[float]()

        def cost(model: DenseModel, power: float = power, tried: list[float] = tried) -> float:
            tried.append(model.parameters)
            return (model.parameters / 70e9) ** power * 1e6 if model.parameters < 300e9 else math.inf

        found = largest_affordable(1.05e6, cost)
        assert (found[0].name, found[1]) == ("dense-80x8192", False)
        assert len(tried) <= most
        model, late = largest_affordable(1e12, cost)
        assert (model.parameters, late) == (pytest.approx(300e9, rel=0.1), True)
    assert largest_affordable(1.0, lambda model: math.inf)[0].parameters < 4e8


def test_a_deadline_that_stops_a_larger_model_is_named_and_not_the_budget() -> None:
    answer = costmodel.buy(budget="1M", deadline="1d", node="neocloud-h100", price="2USD/GPU/h", gpus=32)
    assert answer.found.late
    text = " ".join(str(answer.form("table")).split())
    assert "The largest that ends in time, within $1.00 M and 24.0 h: " in text
    assert "is left: no larger model is trained within 24.0 h; --deadline allows more." in text
    assert "exceed it" not in text


def test_a_fleet_holds_every_job_at_once_and_states_what_is_idle() -> None:
    """The GPUs of each alone, added; the rent of a month by hand."""
    answer = costmodel.buy("serve-llama-3.1-70b", others=["quickstart"], node="p5,g4dn-metal")
    whole = answer.found
    assert isinstance(whole, SeveralJobs)
    best = whole.best
    assert best is not None
    alone = [costmodel.buy(name, node="p5").found.best for name in ("serve-llama-3.1-70b", "quickstart")]
    assert [row.gpus for row in best.jobs] == [row.gpus for row in alone]
    assert best.gpus == sum(row.gpus for row in alone)
    assert best.rent.in_use == pytest.approx(best.gpus * 6.88 * HOURS_OF_A_MONTH)
    assert [row.idle for row in best.jobs] == [row.nodes * 8 - row.gpus for row in alone]
    text = " ".join(str(answer.form("table")).split())
    assert f"{best.gpus:.0f} h100-sxm (p5, on demand, 6.88 USD/GPU/h) run all jobs at once" in text
    assert " % spare" in text
    served, trained = best.jobs
    days = trained.time / 86400
    whole = (trained.gpus + served.gpus) * 6.88 * 24 * days
    assert best.whole_cost == pytest.approx(whole)
    assert best.rent_after == pytest.approx(served.gpus * 6.88 * HOURS_OF_A_MONTH)
    ends = f"With job 2 to the end, after {days:.1f} days, it costs ${whole / 1e3:.0f} k in all, then"
    assert f"{ends} ${best.rent_after / 1e3:.0f} k a month for the others." in text
    assert f"Each job on its own best machine: ${best.rent.billed / 1e3:.0f} k a month, about as much" in text
    assert "buy serve-llama-3.1-70b --with quickstart --node p5,g4dn-metal" in text
    assert "job 2: Llama 3 8B " in text
    plain = answer.figures["machines"]
    assert [(row["node"], row["works"]) for row in plain] == [("p5", True), ("g4dn-metal", False)]
    assert plain[1]["gpus"] is None
    assert plain[1]["rent_usd_per_month"] is None
    assert "Rent" not in text
    assert "fleet" in str(answer.form("html"))
    with pytest.raises(CostModelError, match="--plot is of one job, and 2 are named"):
        costmodel.buy("quickstart", jobs=["serve-llama-3.1-70b"], node="p5", plot=True)


RATES = [5.0, 0.0, 10.0, 40.0, 40.0, 20.0]


def test_a_day_has_the_replicas_of_each_hour() -> None:
    """As `scale` counts them for the rate with what it rises by while a replica starts."""
    asked = {name: value for name, value in SERVED.items() if name != "rate"}
    with only_texts({"day.csv": "hour,rate\n" + "".join(f"{hour},{rate:g}\n" for hour, rate in enumerate(RATES))}):
        answer = costmodel.buy(node="neocloud-h100", day="day.csv", cold_start="10min", **asked)
    hours = answer.figures["day"]["hours"]
    assert [hour["rate"] for hour in hours] == RATES
    assert [hour["ready"] for hour in hours] == pytest.approx([5, 10 / 6, 10 + 30 / 6, 40, 40, 20])
    assert [hour["replicas"] for hour in hours] == [1, 1, 2, 5, 5, 3]
    assert all(hour["chance"] >= 0.9 for hour in hours)
    assert answer.found.best.gpus == max(hour["gpus"] for hour in hours)
    fixed = 5 * 6 * 3.20  # as the answer
    by_hour = (sum((1, 1, 2, 5, 5, 3)) + (1 + 3) * 10 / 60) * 3.20  # on demand, four that start
    assert answer.figures["day"]["fixed_usd"] == pytest.approx(fixed)
    assert answer.figures["day"]["autoscaled_usd"] == pytest.approx(by_hour)
    assert not {"rent_usd"} & {*Reader(str(answer.form("html"))).unexplained}
    text = " ".join(str(answer.form("table")).split())
    whole, month = 8 * 6 * 3.20, HOURS_OF_A_MONTH / 6  # a node holds all, all the time
    assert answer.figures["day"]["fixed_whole_nodes_usd"] == pytest.approx(whole)
    assert answer.figures["day"]["autoscaled_whole_nodes_usd"] == pytest.approx(whole)
    assert answer.figures["day"]["autoscaled_usd_per_month"] == pytest.approx(answer.found.billed)
    assert answer.figures["day"]["fixed_on_other_terms_usd_per_month"] == pytest.approx(8 * 2.72 * HOURS_OF_A_MONTH)
    in_use = f"of GPUs in use alone {rounded_dollars(by_hour * month)}, {abs(1 - by_hour / fixed):.0%}"
    assert in_use.replace("%", " %") in text
    same = rounded_dollars(answer.found.billed)
    assert f"{same} a month of such 6 hours by the hour, {same} fixed: replicas follow" in text
    assert "A fixed fleet costs no more. Reserved, a fixed fleet costs $15.9 k a month." in text
    full = costmodel.buy(node="neocloud-h100", rate="40", **asked).figures["machines"]
    for row, other in zip(answer.figures["machines"], full, strict=True):
        assert row["rent_in_use_usd"] == other["rent_in_use_usd"]
        for name in ("cost_per_minput_usd", "cost_per_moutput_usd"):
            assert row[name] == pytest.approx(other[name] * 40 / (sum(RATES) / len(RATES)))


def test_a_start_that_nobody_states_is_that_of_the_engine() -> None:
    """Hours that look alike share a row, and the sum is ahead of the answer."""
    asked = {name: value for name, value in SERVED.items() if name != "rate"}
    answer = costmodel.buy(node="neocloud-h100", day="40,5", **asked)
    start = answer.found.best.trial.costs["start_time"]
    assert answer.figures["day"]["start_s"] == pytest.approx(start)
    assert 20 < start < 120
    text = " ".join(str(answer.form("table")).split())
    assert f"each starts in {start:.1f} s (assumed: its engine starts and reads the weights; --cold-start)" in text
    assert text.index(" fixed: replicas follow") < text.index("5 h100-sxm (1 node of 8")
    assert "requests/s at the peak of --day" in text


def test_a_day_is_read_from_a_list_or_a_table() -> None:
    table = "hour,rate\n" + "".join(f"{hour},{rate:g}\n" for hour, rate in enumerate(RATES))
    with only_texts(
        {
            "day.csv": table,
            "gap.csv": "hour,rate\n0,1\n2,3\n",
            "none.csv": "hour,users\n0,1\n",
            "semicolons.csv": "hour;rate\n0;1,5\n",
        }
    ):
        assert hourly_rates("day.csv") == RATES
        assert hourly_rates(",".join(["3"] * 48)) == [3.0] * 48
        for wrong, sentence in {
            "gap.csv": "hour 1 is expected here",
            "none.csv": "the column 'rate' is missing",
            "5": "from 2 to 168 rates",
            "5,5,9,9,5": "a day of 24 hours has no 5 equal parts",
            ",".join("5" * 25): "has no 25 equal parts",
            "0,0": "one of them above 0",
            "5,-50": "a rate of -50 is below 0",
            "semicolons.csv": "separated by semicolons",
            "no.csv": "none of its texts",
        }.items():
            with pytest.raises(costmodel.CostModelError, match=sentence):
                hourly_rates(wrong)
    with pytest.raises(costmodel.CostModelError, match="--day states the rates"):
        costmodel.buy(node="neocloud-h100", day="5,6", **SERVED)


def cells_of(made: AnswerDocument) -> list[tuple[str, Value]]:
    """The figures of all tables and at the head of a page, with their columns."""
    tables = [section.table for section in made.sections if isinstance(section.table, Table)]
    found = [
        (column.head, cell)
        for table in tables
        for row in table.rows
        for column, cell in zip(table.columns, row, strict=True)
    ]
    found += [(headline.label, headline.value) for headline in made.headlines]
    sentences: list[Cell] = [] if isinstance(made.conclusion, str) else [*made.conclusion]
    sentences += [cell for section in made.sections for point in section.points for cell in point.words]
    found += [("sentence", cell) for cell in sentences]
    return [(head, cell) for head, cell in found if isinstance(cell, Value) and cell.value is not None]


FROM = ("replicas", "requests/s", "shared")  # found by trial, or stated: these open where they are from
STATED = ("offers", "gpus", "nodes", "budget_usd", "parameters", "tokens")  # of sentences: counts of rows, and flags


def assert_opened(made: AnswerDocument) -> set[str]:
    """Every figure opens the tree of its value; the heads of those that do."""
    roots, opened = made.nodes(), set[str]()
    traces = Traces(roots)
    trees = {traces.of(name): tree for name, tree in roots.items()}
    for head, cell in cells_of(made):
        assert cell.opens is not None, head
        place = cell.opens(traces)
        assert place is not None, head
        if place not in trees:
            assert head in FROM or (head == "sentence" and cell.name in STATED), (head, cell)
            continue
        assert cell.value is not None
        is_hourly = cell.name == "price_usd_per_hour"
        assert trees[place].value == pytest.approx(cell.value / 3600 if is_hourly else cell.value), (head, cell)
        one = cell.name in ("gpus", "expected_gpus") or is_hourly  # a GPU is a count of no parts, a price is listed
        assert trees[place].equation or trees[place].beneath or one, (head, cell)
        opened.add(head)
    return opened


@pytest.mark.parametrize("kind", _ASKED)
def test_every_figure_of_a_page_opens_its_equation(kind: str) -> None:
    assert assert_opened(document(found(kind), 10)) >= {"GPUs", "nodes", "chance", "$/GPU/h", "cost"}
    trees = found(kind).trees(())
    for row in found(kind).working:
        gpus, price = (trees[f"{name} of {row.machine.name}"] for name in ("GPUs", "price"))
        assert (gpus.value, bool(gpus.beneath) or row.gpus == 1) == (row.gpus, True)
        assert bool(price.beneath) == (row.price.listed.per == "node")


def test_a_resale_lowers_the_price_and_a_lease_of_years_is_for_long_jobs() -> None:
    """(310,000 - 60,000) USD over 4 years, of which 70 % are busy, and electricity at 11 cents with a PUE of 1.3."""
    table = {"prices": "scenarios/examples/prices.csv", "only_prices": True}
    found = costmodel.buy(**table, **SERVED).found  # type: ignore[arg-type]
    bought, leased = (
        next(row for row in found.working if row.machine.terms == terms) for terms in ("purchase", "reserved 3 y")
    )
    hours, node = 4 * 365 * 24 * 0.7, read("node", "dgx-h100")
    power = (bought.price.each * 3600 * 8 - (310e3 - 60e3) / hours) / 0.11 / 1.3
    assert 0.6 < power * 1e3 / float(node.power.max) < 0.9
    assert leased.price.each * 3600 == pytest.approx(2.20)
    assert leased.terms_fit
    assert found.best.machine.terms == "on demand"
    assert {row.machine.terms for row in found.to_judge} >= {"purchase", "reserved 3 y"}
    words = closing(document(found, 5))
    assert "from an-offer reserved for 3 years; $12" in words
    assert "then sold for $60.0 k a node" in words
    trained = costmodel.buy(**table, **TRAINED).found  # type: ignore[arg-type]
    assert {row.machine.terms for row in trained.working if not row.terms_fit} == {"purchase", "reserved 3 y"}


def test_every_figure_of_a_day_and_of_a_fleet_opens_its_equation() -> None:
    asked = {name: value for name, value in SERVED.items() if name != "rate"}
    table = {"prices": "scenarios/examples/prices.csv", "only_prices": True}
    day = costmodel.buy(node="neocloud-h100", day="40,0", cold_start="10min", **table, **asked)  # type: ignore[arg-type]
    assert Reader(str(day.form("html"))).unexplained == []
    jobs = costmodel.buy(SERVICES[0], others=SERVICES[1:], node="neocloud-h100,g4dn-metal")
    assert assert_opened(together(jobs.found, None)) >= {"job 1", "GPUs", "nodes", "idle", "cost"}


def test_a_bought_node_opens_its_capital_and_prices_open_their_sources() -> None:
    answer = costmodel.buy(**TRAINED, node="dgx-b200", power="1MW")  # type: ignore[arg-type]
    found, trees = answer.found, answer.found.trees(())
    for row in found.working:
        assert (f"capital of {row.machine.name}" in trees) == (row.machine.sold == "purchase")
        assert bool(trees[f"price of {row.machine.name}"].beneath) == (row.price.listed.per == "node")
    assert assert_opened(document(found, 10)) >= {"capital", "site power", "energy"}
    page = Reader(str(answer.form("html")))
    assert page.unexplained == []
    assert any(link.startswith("https://") for link in page.references)


SERVICES = [f"scenarios/examples/shared-cluster/{name}.yaml" for name in ("agents", "drafts")]


def test_a_given_cluster_holds_all_jobs_or_says_what_is_missing() -> None:
    """Alone 24, 12 (3 of tp 4) and 1: 37 GPUs, of 6 nodes; 24 + (4 + 4) + (4 + 1) on 5 nodes that they share."""
    asked = {"others": SERVICES, "node": "dgx-h100"}
    answer = costmodel.buy("serve-llama-3.1-70b", gpus=40, **asked)
    (row,) = answer.found.rows
    assert [job.engines for job in row.jobs] == [(8.0,) * 3, (4.0,) * 3, (1.0,)]
    assert (row.gpus, row.nodes, row.shared, row.missing) == (37, 6, 5, 0)
    assert row.rent.in_use == pytest.approx(37 * 2.50 * HOURS_OF_A_MONTH)
    assert row.rent.billed == pytest.approx(5 * 8 * 2.50 * HOURS_OF_A_MONTH)
    text = " ".join(str(answer.form("table")).split())
    assert (
        "37 h100-sxm (dgx-h100, 2.50 USD/GPU/h) run all jobs at once, if jobs share nodes: 3 of 40 GPUs stay "
        "idle, on 5 nodes, $73.0 k for a month of 730 h ($67.5 k for these 37 GPUs)" in text
    )
    (plain,) = answer.figures["machines"]
    assert [plain[key] for key in ("works", "gpus_there", "gpus_missing", "nodes_shared")] == [True, 40, 0, 5]
    less = sum(job.plans.expected.gpus for job in row.jobs)
    for most, missing in ((36, 1), (16, 21)):
        short = machines_for_several_jobs(answer.found.jobs, most)
        assert short.best is None
        words = stated(together(short, None))
        assert words.startswith(
            f"All jobs at once need 37 h100-sxm (dgx-h100, 2.50 USD/GPU/h): {missing} more than the {most} there are."
        )
        assert (f"By expected figures {less:.0f} would do" in words) == (less <= most)
    assert costmodel.buy(SERVICES[1], others=SERVICES[1:], node="dgx-h100", gpus=1).found.rows[0].missing == 1


@pytest.mark.parametrize(
    ("engines", "nodes"),
    [
        ([], 0),
        ([8, 8], 2),
        ([4, 4, 4, 1], 2),
        ([1, 1, 2, 4, 4, 4], 2),
        ([6, 6, 2, 2], 2),
        ([5, 5], 2),
        ([16, 12, 4], 4),
    ],
)
def test_engines_share_nodes_without_spreading_over_two(engines: list[float], nodes: int) -> None:
    assert shared_nodes(engines, 8) == nodes


def test_room_for_all_is_of_gpus_nodes_and_power() -> None:
    """Two engines of 5 GPUs are on two nodes of 8, though 10 are fewer than 12 that are there."""
    (row,) = costmodel.buy(SERVICES[1], others=SERVICES[1:], node="dgx-h100").found.rows
    jobs = tuple(replace(job, plans=replace(job.plans, safe=replace(job.plans.safe, gpus=5.0))) for job in row.jobs)
    short = replace(row, jobs=jobs, most=8.0)
    assert (short.gpus, short.shared, short.there, short.missing) == (10, 2, 1, 2)
    assert replace(short, most=12.0).works
    assert replace(row, supply=12.25e3).works  # of one DGX H100, 10.2 kW at a PUE of 1.2
    assert not replace(row, supply=12.23e3).works
    inside = replace(short, jobs=(*jobs, jobs[0]), most=16.0)  # 15 of 16 GPUs, and 3 nodes of 2
    assert inside.missing == 8
    assert not inside.works


def test_engines_of_one_gpu_are_not_predicted() -> None:
    """Shares of 7 and 92 % fit into one GPU; 9 and 92 % do not."""
    asked = {"model": "qwen-3-0.6b", "rate": "1", "prompt": "500", "answer": "50", "stack": "vllm", "node": "dgx-h100"}
    fits, none = (
        costmodel.buy(jobs=SERVICES[1:], settings=[f"stack.memory.share={share} %"], **asked) for share in (7, 9)
    )
    assert fits.found.one_gpu == (1, 2)
    assert none.found.one_gpu == ()
    words = "memory of one GPU holds the engines of jobs 1 and 2: how much two engines slow each other down was never"
    assert [words in " ".join(str(each.form("table")).split()) for each in (fits, none)] == [True, False]


def test_comparisons_begin_with_money_and_time_and_a_report_without_a_machine_leads_here(run: Any) -> None:
    costs = [costmodel.estimate(name).found.costs for name in ("llama-3-70b-512", "quickstart")]
    first, other = ([f"{each[f'run_time{end}'] / 86400:.3g}" for end in ("", "_low", "_high")] for each in costs)
    out = run("diff", "llama-3-70b-512", "quickstart").out
    low, high = (f"${costs[0][f'run_cost_{end}'] / 1e6:.3g} M" for end in ("low", "high"))
    whole = f"$10.3 M ({low} to {high}), {first[0]} days ({first[1]} days to {first[2]} days)"
    assert f"llama-3-70b-512: {whole}; quickstart: $76.9 k (" in out
    assert f"k), {float(other[0]):.1f} days ({float(other[1]):.1f} days to" in out
    assert f"{whole}. A step takes" in run("report", "llama-3-70b-512", "quickstart").out
    pages = costmodel.report("llama-3-70b-512", others=["quickstart"])
    words = Reader(str(pages.form("html"))).words
    beside = words[words.index("scenario") :]
    assert beside[1:5] == ["price", "cost of the job", "time of the job", "chance to fit"]
    cells = beside[beside.index("2.50 USD/GPU/h") :]
    assert cells[:3] == ["2.50 USD/GPU/h", "$10.3 M", f"{first[0]} days"]
    assert pages.figures["plans"][0]["price_usd_per_gpu_h"] == pytest.approx(2.50)
    answer = costmodel.buy(node="neocloud-h100", **SERVED)
    with only_texts({"bought.json": str(answer.form("json"))}):
        refused = run("report", "bought.json", "quickstart")
    assert refused.code == 2
    assert "this is an answer of buy, and costmodel/scenario/v1 is expected here" in refused.err
    again = shlex.split(answer.figures["plan_command"])
    assert shlex.join([*again, "--write", "plan.yaml"]) in refused.err
    kept = json.loads(run(*again[1:], "--json").out)["plans"][0]
    assert kept["limits_chance"] == pytest.approx(answer.found.best.plans.safe.chance)
    ran = run("report", "--model", "llama-3.1-8b", "--rate", "40", "--ttft", "1s")
    assert ran.code
    assert "costmodel buy --model llama-3.1-8b --rate 40 --ttft 1s -o page.html" in ran.err


def test_a_budget_that_is_too_small_names_the_least_sum_that_does() -> None:
    """And one without the tokens of the job asks for them."""
    asked = {"model": "llama-3.1-8b", "tokens": "1T", "node": "neocloud-h100"}
    small = costmodel.buy(budget="20k", **asked)
    row, missed = small.found.least_missed
    assert row.machine.terms == "on demand"
    words = f"A budget of about {rounded_dollars(missed.likely * 1.05)} would do (--budget)"
    assert words in " ".join(str(small.form("table")).split())
    enough = costmodel.buy(budget=f"{missed.likely * 1.05:.0f}", **asked)
    assert enough.found.best.machine.terms == "on demand"
    with pytest.raises(CostModelError, match="--budget is for the whole job") as raised:
        costmodel.buy(model="llama-3.1-8b", budget="250k", node="neocloud-h100")
    assert raised.value.faults[0].hint.startswith("add --tokens 15T")


@pytest.mark.whole
def test_a_budget_below_the_peak_rate_is_refused_after_small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the nearest plan that all sizes have."""
    looked_at, searched = list[float](), _TrialsByNodes._searched
    monkeypatch.setattr(
        _TrialsByNodes, "_searched", lambda self, nodes: looked_at.append(nodes) or searched(self, nodes)
    )

    def refused() -> SmallestPlans:
        job = {key: value for key, value in TRAINED.items() if key != "deadline"}
        row = costmodel.buy(node="p5", budget="1k-USD", **job).found.rows[0]
        assert isinstance(row, Purchase)
        return row.plans

    early, few = refused(), len(looked_at)
    monkeypatch.setattr(
        _TrialsByNodes, "_is_over_budget", lambda self, sizes: all(map(self.at, sizes))
    )  # of every size
    whole = refused()
    assert replace(whole, count=early.count) == early
    assert early.count < whole.count
    assert [limit.column for limit in early.missed] == ["run_cost"]
    assert few < len(looked_at) - few


def test_several_jobs_state_how_sure_what_was_seen_and_what_to_decide(run: Any) -> None:
    asked = ("buy", "serve-llama-3.1-70b", "--with", "quickstart", "--node", "neocloud-h100,dgx-b200")
    out, whole = run(*asked).out, json.loads(run(*asked, "--json").out)
    rows = {(row["node"], row["sold"]): row for row in whole["machines"]}
    best = rows["neocloud-h100", "on demand"]
    cheaper = {key: row["rent_whole_nodes_usd_per_month"] - best["rent_whole_nodes_usd_per_month"]
               for key, row in rows.items() if row["works"]}  # fmt: skip
    assert f"Looked at: {len(rows)} offers of 2 machines; none rejected." in out
    assert re.search(r"How sure: job [12] is the least sure, with a chance of \S+ % to meet its limits\.", out)
    (spot,) = re.findall(r"−\$([\d.]+) k +\d+ h100-sxm \(neocloud-h100\), on spot, which can be interrupted", out)
    assert float(spot) * 1e3 == pytest.approx(-cheaper["neocloud-h100", "spot"], rel=1e-2)
