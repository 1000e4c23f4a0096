"""A price belongs to the machine that it was stated for, and stands with source and date beside every cost."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from costmodel.documents.reader.library import names, read
from costmodel.documents.reader.load_scenario import load, load_any, vary
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.text.digest import sealed
from costmodel.estimate.machine.price import price_of
from costmodel.estimate.training_answer.predict_training import predict
from costmodel.explore.purchase.offers import offers_for

NAME = "quickstart"  # on dgx-h100, which has no list price: the scenario states 2.50 USD/GPU/h
HOUR = 3600.0
P5 = "at 6.88 USD/GPU/h (p5, on demand in us-east-1, 2026-11-09, datareceipts)"
LEFT_OUT = "your price, 2.50 USD/GPU/h, is for dgx-h100 only"


def hourly(case: ResolvedScenario) -> float | None:
    """USD an hour and accelerator; nothing where no price is known."""
    price = price_of(case)
    return round(price.each * HOUR, 6) if price.known else None


@pytest.mark.parametrize(
    ("settings", "paid"),
    [
        ((), 2.5),
        (("cluster.nodes=8",), 2.5),
        (("cluster.node.accelerators=4",), 2.5),
        (("cluster.fabric.bandwidth=200 Gb/s",), 2.5),
        (("cluster.accelerator.memory.bandwidth=4 TB/s",), 2.5),
        (("cluster.node=p5",), 55.04 / 8),
        (("cluster.node=p5", "cluster.node.accelerators=4"), 55.04 / 4),  # rented whole
        (("cluster.node.accelerators=4", "cluster.node=p5"), 55.04 / 4),
        (("cluster.node=neocloud-h100", "cluster.node.accelerators=4"), 3.2),  # rented one by one
        (("cluster.node=tpu-v5p-slice", "cluster.node.accelerators=1"), 4.2),
        (("cluster.node=mi355x-8",), None),  # no offer of its accelerator
        (("cluster.node=dgx-a100",), 27.44705 / 8),  # those of the usual offer of the accelerator
        (("cluster.node=p5", "cluster.node.accelerators=16"), 3.2),  # no such node can be rented
        (("cluster.node.accelerator=h200-sxm",), 63.296 / 8),
        (("cluster.node=p5", "cluster.node.accelerator=h200-sxm"), 63.296 / 8),
        (("cluster.node=dgx-a100", "cluster.node.accelerators=2"), 27.44705 / 8),
        (("cluster.node=p5", "assume.price=1 USD/GPU/h"), 1.0),
        (("assume.price=1 USD/GPU/h", "cluster.node=dgx-a100"), 1.0),
        (("cluster.node=p5", "assume={price: 1 USD/GPU/h}"), 1.0),
        (("cluster.node=p5", "cluster.node.price.hourly=40 USD/h"), 5.0),
        (("cluster.node=p5", "cluster.node.accelerator=h200-sxm", "cluster.node.price.hourly=40 USD/h"), 5.0),
    ],
)
def test_a_price_holds_for_the_machine_it_was_stated_for(settings: tuple[str, ...], paid: float | None) -> None:
    """Unless it is stated anew with the change."""
    assert hourly(load(NAME, settings)) == (None if paid is None else round(paid, 6))


def test_back_on_its_machine_the_price_holds_again() -> None:
    away = load(NAME, ("cluster.node=p5",))
    assert hourly(vary(away, ("cluster.node=dgx-h100",))) == 2.5
    assert hourly(vary(away, ("cluster.node=mi355x-8",))) is None
    said = load(NAME, ("assume.price=1 USD/GPU/h",))
    assert hourly(vary(said, ("cluster.node=p5",))) == 1.0


def test_a_sweep_over_nodes_prices_each_by_its_own(run: Any) -> None:
    nodes = ("dgx-h100", "p5", "nd96isr-h100-v5", "mi355x-8", "neocloud-h100")
    asked = ("sweep", NAME, "--over", f"cluster.node={','.join(nodes)}", "--show", "cost_per_mtoken")
    rows = json.loads(run(*asked, "--json").out)["points"]
    assert [row["price_usd_per_gpu_h"] for row in rows] == [2.5, 6.88, pytest.approx(12.29), None, pytest.approx(3.2)]
    for node, row in zip(nodes, rows, strict=True):
        alone = predict(load(NAME, (f"cluster.node={node}",))).evaluation.costs.row()["cost_per_mtoken"]
        assert row["cost_per_mtoken_usd"] == (None if node == "mi355x-8" else alone)
    out = run(*asked).out
    assert f"  p5: {P5}\n" in out
    assert f"  {LEFT_OUT} for p5, nd96isr-h100-v5, mi355x-8, neocloud-h100\n" in out
    assert "  dgx-h100: at 2.50 USD/GPU/h (assume.price of the scenario)\n" in out
    assert "  no price known for mi355x-8; --price 2.50USD/GPU/h sets one\n" in out
    columns = list(csv.DictReader(io.StringIO(run(*asked, "--format", "csv").out)))
    assert columns[1]["price_date"] == "2026-11-09"
    assert columns[1]["price_source"].startswith("p5, on demand in us-east-1")


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("estimate", ()),
        ("explain", ("cost_per_mtoken", "--depth", "1")),
        ("search", ("--set", "objective=cost_per_mtoken", "--top", "1")),
        ("search", ("--pareto", "cost_per_mtoken,step_time", "--top", "2")),
        ("sweep", ("--over", "plan.micro_batch=1,2", "--show", "cost_per_mtoken")),
        ("sensitivity", ("--of", "cost_per_mtoken", "--top", "1")),
        ("solve", ("--over", "plan.micro_batch=1,2", "--for", "cost_per_mtoken<=1 USD")),
        ("diff", ("--set", "plan.micro_batch=2")),
        ("check", ("--set", "limits.cost_per_mtoken.at_most=1 USD")),
    ],
)
def test_price_source_and_date_stand_beside_a_cost(command: str, more: tuple[str, ...], run: Any) -> None:
    positional = more[:1] if command == "explain" else ()
    ran = run(command, NAME, *positional, *more[len(positional) :], "--set", "cluster.node=p5")
    assert ran.code == 0, ran.err
    lines = [line.strip() for line in ran.out.splitlines()]
    assert P5 in lines
    assert LEFT_OUT in lines


@pytest.mark.parametrize("command", ["sweep", "search", "scale", "solve"])
def test_where_no_cost_is_shown_no_price_is(command: str, run: Any) -> None:
    more = {
        "sweep": ("--over", "plan.micro_batch=1,2"),
        "search": ("--top", "1"),
        "scale": ("--ranks", "16,32"),
        "solve": ("--over", "plan.micro_batch=1,2", "--for", "mfu>=1 %"),
    }[command]
    assert "USD/GPU/h" not in run(command, NAME, *more).out


def test_a_search_by_cost_over_nodes_shows_what_each_costs(run: Any) -> None:
    space = (
        "--set",
        "search.tp=[4]",
        "--set",
        "search.pp=[1]",
        "--set",
        "objective=cost_per_mtoken",
        "--set",
        "search.cp=[1]",
        "--top",
        "40",
    )
    asked = ("search", NAME, *space, "--over", "cluster.node=dgx-h100,p5")
    ran = run(*asked)
    assert {line.strip() for line in ran.out.splitlines() if ": at " in line} == {
        "dgx-h100: at 2.50 USD/GPU/h (assume.price of the scenario)",
        f"p5: {P5}",
    }
    (names_of,) = (line.split() for line in ran.out.splitlines() if line.split()[:1] == ["#"])
    assert "cost" in names_of
    for plan in json.loads(run(*asked, "--json").out)["plans"]:
        assert plan["price_usd_per_gpu_h"] == {"dgx-h100": 2.5, "p5": 6.88}[plan["cluster.node"]]


def test_plans_without_a_price_are_not_ranked_by_cost(run: Any, faults: Any) -> None:
    asked = (
        "search",
        NAME,
        "--set",
        "objective=cost_per_mtoken",
        "--over",
        "cluster.node=dgx-h100,mi355x-8,gb200-nvl72",
    )
    (found,) = faults(run(*asked))
    assert (found.code, found.sentence) == (
        "C004",
        "the objective is cost, but no price is known for mi355x-8, gb200-nvl72",
    )


def test_a_stored_result_keeps_its_price(run: Any, tmp_path: Path) -> None:
    """The price that it was made with, whatever the node's list says today."""
    stored = json.loads(run("estimate", NAME, "--set", "cluster.node=p5", "--json").out)
    stored["plans"][0] |= {"price_usd_per_gpu_h": 12.0, "price_source": "p5, on demand, 2025-01-01, a list"}
    stored["plans"][0]["cost_per_mtoken_usd"] *= 12.0 / 6.88
    (tmp_path / "old.json").write_text(json.dumps(sealed(stored)), "utf-8")
    ran = run("diff", "old.json", NAME, "--set", "cluster.node=p5", cwd=tmp_path)
    lines = [line.lstrip(" −+") for line in ran.out.splitlines()]
    assert "at 12.00 USD/GPU/h (p5, on demand, 2025-01-01, a list)" in lines
    assert P5 in lines


def test_shipped_scenarios_state_no_price_where_their_node_has_one() -> None:
    for name in names("scenario"):
        case = load_any(name)
        assert case.stated_price is None or case.node.price is None, name


PRICELESS = {  # bought, or without a public list price on demand
    *(f"dgx-{kind}" for kind in ("1v", "2", "a100", "h100", "h200", "b200", "b300")),
    *("gb200-nvl72", "gb300-nvl72", "hgx-h800", "mi355x-8", "mi250x-frontier", "gaudi2-8", "gaudi3-8"),
    *("pcie-l40s-8", "rtx4090-8", "a4-highgpu-8g", "tpu-v7-slice", "tpu-8t-slice", "g2-standard-96"),
    *("a6000-8", "rtx6000-ada-4", "rtx8000-4", "rtx2080ti-10", "rtx3090-2", "rtx3090-4", "t4-2", "l20-8"),
    *(
        "rtx-pro-6000-1",
        "rtx-pro-6000-max-q-4",
        "rtx-pro-6000-server-8",
        "dgx-spark",
        "gh200-1",
        "gh200-4",
        "h200-nvl-4",
    ),
    *("nd128isr-gb200-v6", "nd128isr-gb300-v6", "vr-nvl72", "helios-mi455x", "trn3-gen1", "trn3-gen2"),
}


def test_every_node_of_a_cloud_has_a_dated_price() -> None:
    for name in names("node"):
        price = read("node", name).price
        assert (price is None) == (name in PRICELESS), name
        assert price is None or (price.date[:4].isdigit() and price.source), name


def test_every_accelerator_with_an_offer_on_demand_names_its_usual_one() -> None:
    """The lowest one, with the range of the others; capacity blocks are no offers on demand."""
    offers: dict[str, dict[str, float]] = {}
    for name in names("node"):
        node = read("node", name)
        if node.price is not None and node.price.sold == "on demand":
            each = float(node.price.hourly) * HOUR / (1 if node.price.per == "accelerator" else node.accelerators)
            offers.setdefault(node.accelerator, {})[name] = each
    for name in names("accelerator"):
        usual, found = read("accelerator", name).offer, offers.get(name, {})
        assert (usual is None) == (not found), name
        if usual is None:
            continue
        assert usual.node in found, name
        assert found[usual.node] == pytest.approx(min(found.values())), name
        others = [price for node, price in found.items() if node != usual.node]
        stated = [] if usual.others is None else [price * HOUR for price in usual.others]
        assert stated == pytest.approx([min(others), max(others)] if others else []), name


@pytest.mark.parametrize("gpu", ["h100", "h200", "b200", "a100", "l40s", "mi300x"])
def test_the_usual_machine_of_a_gpu_has_an_assumed_price(gpu: str, run: Any) -> None:
    asked = ("estimate", "--model", "llama-3.2-1b", "--gpu", gpu, "--gpus", "1", "--rate", "1", "--set", "plan.tp=1")
    found = json.loads(run(*asked, "--json").out)
    assert found["facts"]["price_assumed"] is True
    assert found["plans"][0]["cost_per_mtoken_usd"] > 0
    stated = json.loads(run(*asked, "--price", "1 USD/GPU/h", "--json").out)["facts"]
    assert (stated["price_usd_per_gpu_h"], stated["price_assumed"]) == (1.0, False)


def test_an_assumed_price_stands_with_its_offer_and_the_range_of_others(run: Any) -> None:
    asked = ("estimate", "--model", "llama-3.2-1b", "--gpu", "h100", "--gpus", "1", "--rate", "1", "--set", "plan.tp=1")
    ran = run(*asked)
    assert ran.out.splitlines()[2] == (
        "at 3.20 USD/GPU/h (assumed: neocloud-h100, on demand, 2026-08-26, hyperstack; others 6.88 to 12.29; "
        "--price sets another)"
    )
    found = json.loads(run(*asked, "--json").out)
    assert found["facts"]["price_others_usd_per_gpu_h"] == pytest.approx([6.88, 12.29])
    assert found["plans"][0]["rent_per_month_usd"] == pytest.approx(3.20 * 730)
    assert any("neocloud-h100" in document["name"] for document in found["documents"])


def test_the_assumed_offer_is_the_one_that_buy_looks_at() -> None:
    cheapest = {each.accelerator: each.node for each in offers_for().machines if each.sold == "on demand"}
    offers = {name: read("accelerator", name).offer for name in names("accelerator")}
    assert {name: offer.node for name, offer in offers.items() if offer is not None} == {
        name: cheapest[name] for name, offer in offers.items() if offer is not None
    }


@pytest.mark.parametrize("command", ["estimate", "run"])
@pytest.mark.parametrize("name", [NAME, "grpo-qwen-2.5-7b-64"])
def test_training_and_rl_count_with_an_assumed_price(command: str, name: str, run: Any) -> None:
    tokens = () if name != NAME else ("--set", "workload.tokens=300 G")
    found = json.loads(run(command, name, "--set", "cluster.node=dgx-h200", *tokens, "--json").out)
    assert found["facts"]["price_assumed"] is True
    assert found["facts"]["price_usd_per_gpu_h"] == pytest.approx(63.296 / 8)
    assert "assumed: p5en, on demand" in run(command, name, "--set", "cluster.node=dgx-h200", *tokens).out


def test_a_limit_on_cost_names_an_assumed_price(run: Any) -> None:
    asked = ("check", NAME, "--set", "cluster.node=dgx-h200", "--set", "limits.cost_per_mtoken.at_most=9 USD")
    ran = run(*asked)
    assert ran.code == 0
    assert "at 7.91 USD/GPU/h (assumed: p5en" in ran.out
    assert "price_assumed" in run(*asked, "--json").out


def test_a_list_of_nodes_shows_which_have_a_price(run: Any) -> None:
    """A price of a whole node is shown for each of its accelerators."""
    found = {node["name"]: node for node in json.loads(run("list", "nodes", "--json").out)["documents"]}
    assert found["dgx-h100"]["price_usd_per_gpu_h"] is None
    assert found["p5"]["price_usd_per_gpu_h"] == pytest.approx(found["p5-4xlarge"]["price_usd_per_gpu_h"], rel=0.01)
    shown = run("estimate", "--model", "llama-3.1-8b", "--gpu", "h100", "--node", "p5", "--rate", "4", "--json").out
    priced = json.loads(shown)["facts"]["price_usd_per_gpu_h"]
    assert priced == pytest.approx(found["p5"]["price_usd_per_gpu_h"])


FLEET = ("search", "--model", "llama-3.1-70b", "--rate", "8/s", "--prompt", "2048", "--answer", "512")
NODES = ("--over", "cluster.node=p5,neocloud-h100", "--set", "search.tp=[4, 8]")


@pytest.mark.parametrize("objective", ["gpus_needed", "rent_per_month"])
def test_rents_of_a_search_are_of_the_gpus_that_the_load_needs(objective: str, run: Any) -> None:
    """12 GPUs, though the 8 of the cluster are searched: 2 nodes at 55.04 USD an hour, or 12 at 3.20."""
    asked = (*FLEET, *NODES, "--set", f"objective={objective}")
    kept = {"p5": 2 * 55.04 * 730, "neocloud-h100": 12 * 3.2 * 730}
    plans = json.loads(run(*asked, "--json").out)["plans"]
    for plan in plans:
        if plan["broken"]:
            assert {value for name, value in plan.items() if name.startswith(("rent_", "cost_"))} == {None}
        else:
            assert plan["gpus_needed"] == 12
            assert plan["rent_needed_usd"] == pytest.approx(kept[plan["cluster.node"]])
    assert {bool(plan["broken"]) for plan in plans} == {True, False}
    lines = run(*asked).out.splitlines()
    (head,) = (line for line in lines if "GPUs needed" in line and line.split()[0] == "#")
    paid, rent = head.index("GPUs paid"), head.index("rent/month")
    rows = [line for line in lines if line.split()[:1] and line.split()[0].isdigit() and "pool" not in line]
    cells = {(line[paid : paid + 9].strip(), line[rent : rent + 10].strip()) for line in rows}
    assert cells - {("", "")} == {("16", "$80.4 k"), ("12", "$28.0 k"), ("—", "—")}
    assert "  rent/month: these GPUs for 730 h; rent/M out: only the GPUs in use" in lines


def test_a_search_ranks_rents_of_the_gpus_needed(run: Any) -> None:
    asked = (*FLEET, *NODES, "--set", "objective=rent_per_month", "--safe", "off", "--json")
    plans = json.loads(run(*asked).out)["plans"]
    rents = [plan["rent_needed_usd"] for plan in plans if not plan["broken"]]
    assert rents == sorted(rents)
    assert plans[0]["cluster.node"] == "neocloud-h100"


@pytest.mark.parametrize(
    ("name", "over", "shown", "limit"),
    [
        (NAME, "plan.tp=8", "cost_per_mtoken", "limits.step_time.at_most=1 ms"),
        ("serve-llama-3.1-70b", "plan.tp=8", "rent_per_month", "limits.tpot.at_most=1 ms"),
        ("grpo-qwen-2.5-7b-64", "plan.micro_batch=1", "iteration_cost", "limits.iteration_time.at_most=1 ms"),
    ],
)
def test_a_plan_that_fails_has_no_rent_in_a_sweep(name: str, over: str, shown: str, limit: str, run: Any) -> None:
    asked = ("sweep", name, "--over", over, "--show", shown)
    (point,) = json.loads(run(*asked, "--json").out)["points"]
    assert point[f"{shown}_usd"] > 0
    (point,) = json.loads(run(*asked, "--set", limit, "--json").out)["points"]
    assert point[f"{shown}_usd"] is None
    assert " — " in run(*asked, "--set", limit).out
