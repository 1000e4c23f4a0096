"""Prices: every one with date and source, the money recomputed by hand, and one clear fault for a bad cell."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

import costmodel
from costmodel.documents.reader.folders import shipped_file
from costmodel.documents.reader.library import bibliography, read
from costmodel.documents.text.files import only_texts
from costmodel.explore.purchase.buy import PurchaseComparison
from costmodel.explore.purchase.offers import COLUMNS, KINDS, SHIPPED, offers_for
from costmodel.ground.errors import CostModelError

ASKED = {"model": "llama-3.1-8b", "rate": "40", "prompt": "2000", "answer": "300", "ttft": "1s"}
HOURS = 730.0
HEADER = ",".join(COLUMNS)
OWN = (
    ("on demand", {"gpu": "h200", "region": "Frankfurt", "usd_per_gpu_hour": "3.10", "source": "offer of ACME"}),
    ("reserved", {"node": "p5", "region": "us-east-1", "usd_per_node_hour": "30.5"}),
    ("spot", {"node": "neocloud-h100", "usd_per_gpu_hour": "1.9"}),
    ("purchase", {"node": "dgx-h100", "capital_usd": "310000", "years": "4", "utilisation": "0.7",
                  "usd_per_kwh": "0.11", "pue": "1.3"}),
    ("api", {"model": "meta-llama/Llama-3.1-8B-Instruct", "usd_per_mprompt": "0.05", "usd_per_moutput": "0.08"}),
    ("api", {"model": "qwen-3-8b", "usd_per_mprompt": "0.01", "usd_per_moutput": "0.01"}),
)  # fmt: skip
_BOUGHT: dict[str, PurchaseComparison] = {}


def table(*rows: tuple[str, dict[str, str]]) -> str:
    """A table of prices with these rows."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for kind, cells in rows:
        writer.writerow({"date": "2026-11-12", "source": "a quotation", "kind": kind, **cells})
    return text.getvalue()


def bought() -> PurchaseComparison:
    """The answer with prices of one's table, asked once."""
    if not _BOUGHT:
        with only_texts({"prices.csv": table(*OWN)}):
            _BOUGHT["own"] = costmodel.buy(prices="prices.csv", only_prices=True, **ASKED).found
    return _BOUGHT["own"]


def test_a_table_alone_replaces_all_prices_and_has_a_row_for_each_offer() -> None:
    found = {(row.machine.node, row.machine.sold, row.machine.region): row for row in bought().rows}
    assert set(found) == {
        ("dgx-h200", "on demand", "Frankfurt"),
        ("p5", "reserved", "us-east-1"),
        ("neocloud-h100", "spot", ""),
        ("dgx-h100", "purchase", ""),
    }
    assert all(row.works for row in found.values())
    assert [offer.model for offer in bought().hosted] == ["llama-3.1-8b"]


def test_a_table_is_beside_the_shipped_offers_and_replaces_those_of_the_same_machine_and_terms() -> None:
    own = (("spot", {"node": "neocloud-h100", "usd_per_gpu_hour": "1.9"}), ("on demand", {"gpu": "h200",
            "usd_per_gpu_hour": "3"}))  # fmt: skip
    with only_texts({"prices.csv": table(*own)}):
        every, alone = offers_for(prices="prices.csv"), offers_for(prices="prices.csv", only=True)
        named = offers_for(nodes=["neocloud-h100"], prices="prices.csv").machines
    assert len(every.machines) == len(offers_for().machines) + 1
    assert every.hosted == offers_for().hosted
    assert [each.node for each in alone.machines] == ["neocloud-h100", "dgx-h200"]
    assert sorted(each.sold for each in named) == ["on demand", "reserved", "spot"]
    assert next(each.price for each in named if each.sold == "spot")[-1].endswith("hourly: 1.9 USD/GPU/h}")


def test_money_and_percentages_are_read_as_people_write_them() -> None:
    """$250,000 and 80% are the price and the use that 250000 and 0.8 are."""
    rows = [
        ("purchase", {"node": "dgx-h100", "capital_usd": capital, "years": "4", "utilisation": used})
        for capital, used in (("$250,000", "80%"), ("250000", "0.8"))
    ]
    found = []
    for row in rows:
        with only_texts({"prices.csv": table(row)}):
            found.append(offers_for(prices="prices.csv", only=True).machines)
    assert found[0] == found[1]


def test_a_table_elsewhere_names_the_column_and_shows_no_text(tmp_path: Path) -> None:
    """The names of columns are those of costmodel, and no text of the file."""
    file = tmp_path / "quotes.csv"
    file.write_text("kind,node,source,usd_per_gpu_hour\non demand,dgx-h100,secret quote,3.20\n")
    with pytest.raises(CostModelError) as caught:
        offers_for(prices=str(file), only=True)
    (fault,) = caught.value.faults
    assert "the column 'date' is missing" in fault.sentence
    assert "secret" not in f"{fault}"


def test_a_stated_api_is_compared_with_the_answer() -> None:
    answer = costmodel.buy(node="neocloud-h100", api="3,6", **ASKED)
    (hosted,) = answer.found.hosted
    cost = 40 * HOURS * 3600 * (2000 * 3 + 300 * 6) / 1e6
    assert answer.found.hosted_cost(hosted) == pytest.approx(cost)
    ours = answer.found.rent(answer.found.best).whole
    text = " ".join(str(costmodel.buy(node="neocloud-h100", api="3,6", verbose=True, **ASKED).form("table")).split())
    more = f"+${(cost - ours) / 1e3:.0f} k, {cost / ours:.2g} times as much"
    assert f"API of the same model (--api): ${cost / 1e3:.0f} k, {more}" in text
    assert "The seller promises no latency." in text
    turn = answer.found.turn(hosted, ours)
    assert turn == pytest.approx(40 * ours / cost)
    for wrong in ("1,2,3", "free", "-1", "nan"):
        with pytest.raises(CostModelError, match="--api takes one price or two"):
            costmodel.buy(node="neocloud-h100", api=wrong, **ASKED)


def test_the_money_of_each_kind_of_offer_is_that_of_its_row() -> None:
    """Recomputed from the cells of the table: GPUs in use times hours times price, and whole nodes."""
    power = 10_200 * 0.76 / 1000  # kW that a DGX H100 draws at work
    owned = 310_000 / (4 * 365 * 24 * 0.7) + power * 1.3 * 0.11
    each = {"dgx-h200": 3.10, "p5": 30.5 / 8, "neocloud-h100": 1.9, "dgx-h100": owned / 8}
    for row in bought().rows:
        rent = bought().rent(row)
        used = row.nodes * 8 if row.machine.sold == "purchase" else row.gpus  # idle GPUs that are bought cost, too
        assert rent.in_use == pytest.approx(used * each[row.machine.node] * HOURS, rel=1e-9)
        assert rent.whole == pytest.approx(row.nodes * 8 * each[row.machine.node] * HOURS, rel=1e-9)
    (hosted,) = bought().hosted
    requests = 40 * HOURS * 3600
    assert bought().hosted_cost(hosted) == pytest.approx(requests * (2000 * 0.05 + 300 * 0.08) / 1e6)


def test_cached_tokens_of_an_api_have_their_own_price() -> None:
    hosted = (
        "api",
        {"model": "llama-3.1-8b", "usd_per_mprompt": "1", "usd_per_mcached": "0.1", "usd_per_moutput": "2"},
    )
    settings = ["workload.shared_prefix=1600"]
    with only_texts({"prices.csv": table(("reserved", {"node": "p5", "usd_per_gpu_hour": "3"}), hosted)}):
        found = costmodel.buy(prices="prices.csv", only_prices=True, settings=settings, **ASKED).found
    requests = 40 * HOURS * 3600
    assert found.hosted_cost(found.hosted[0]) == pytest.approx(requests * (400 * 1 + 1600 * 0.1 + 300 * 2) / 1e6)


def test_a_plan_does_not_depend_on_the_price_unless_money_is_bounded() -> None:
    rows = costmodel.buy(node="neocloud-h100", **ASKED).found.rows
    assert {row.machine.sold for row in rows} == {"on demand", "reserved", "spot"}
    assert len({(row.gpus, row.plans.safe.settings) for row in rows}) == 1
    bounded = ["limits.cost_per_moutput.at_most=0.23 USD/Mtoken"]
    rows = costmodel.buy(node="neocloud-h100", settings=bounded, **ASKED).found.rows
    assert len({row.plans.safe.settings for row in rows}) == 2
    assert all(row.trial.costs["cost_per_moutput"] <= 0.23 for row in rows)


def test_the_answer_is_a_rent_that_stays_and_names_what_is_cheaper() -> None:
    """A spot price and a purchase are never the answer while there is a rent, and never called on demand."""
    best = bought().best
    assert best is not None
    assert best.machine.sold == "on demand"
    with only_texts({"prices.csv": table(*OWN)}):
        answer = costmodel.buy(prices="prices.csv", only_prices=True, verbose=True, **ASKED)
        text = " ".join(str(answer.form("table")).split())
    spot = "from a-quotation on spot, which can be interrupted (node neocloud-h100); $11.1 k a month ($6,930 for 5 of 8"
    assert spot in text
    use = "used for 4 years, 30 % of them idle and paid for"
    assert f"buy dgx-h100 for $310 k, {use}; $10.0 k a month" in text
    assert f"(dgx-h100, bought for $310 k, {use}, 20" in text
    plain = answer.figures["machines"]
    assert {row["node"]: row["sold"] for row in plain}["neocloud-h100"] == "spot"
    assert all(row["price_date"] == "2026-11-12" and row["price_source"] for row in plain)
    assert "dgx-h200, on demand in Frankfurt, 2026-11-12, offer-of-acme" in text


def test_every_shipped_price_has_a_date_and_a_source() -> None:
    rows = list(csv.DictReader(io.StringIO(shipped_file(SHIPPED).read_text("utf-8"))))
    offers = offers_for()
    assert len(rows) == sum(bool(each.price) for each in offers.machines) + len(offers.hosted)
    assert {row["kind"] for row in rows} >= {"reserved", "spot", "purchase", "api"}
    assert set(KINDS) >= {row["kind"] for row in rows}
    for row in rows:
        listed = read("node", row["node"]).sources if row["node"] else {}
        assert row["source"] in listed or row["source"] in bibliography()
    assert sum(row["kind"] == "api" for row in rows) >= 2


def test_machines_on_offer_are_each_accelerator_in_its_cheapest_node_and_further_offers() -> None:
    listed = [machine for machine in offers_for().machines if not machine.price]
    every = {machine.accelerator: machine.node for machine in reversed(listed)}
    dearer = [machine for machine in listed if every[machine.accelerator] != machine.node]
    assert [(machine.node, machine.sold) for machine in dearer] == [("p5e", "capacity block")]  # below p5en on demand
    assert len(every) == len(listed) - 1
    assert every["h100-sxm"] == "neocloud-h100"
    of_h100 = offers_for(["h100"]).machines
    assert {machine.accelerator for machine in of_h100} == {"h100-sxm"}
    assert {"p5", "neocloud-h100", "a3-megagpu-8g"} <= {machine.node for machine in of_h100}
    assert [machine.node for machine in offers_for(["mi355x"]).machines] == ["mi355x-8"]  # without a price of its own
    assert [machine.node for machine in offers_for([], ["dgx-h100", "p5"]).machines] == ["dgx-h100", "p5"]
    with pytest.raises(CostModelError, match="no accelerator named"):
        offers_for(["h1000"])


def test_one_price_for_all_leaves_no_other_offers() -> None:
    found = costmodel.buy(node="neocloud-h100", price="2USD/GPU/h", **ASKED).found
    assert [row.machine.sold for row in found.rows] == [""]
    with only_texts({"prices.csv": table(*OWN)}), pytest.raises(CostModelError, match="C004"):
        costmodel.buy(prices="prices.csv", price="2USD/GPU/h", **ASKED)


def test_a_price_of_the_scenario_gives_way_to_that_of_a_table() -> None:
    """quickstart states 2.50 USD for each GPU of dgx-h100."""
    with only_texts({"prices.csv": table(("reserved", {"node": "dgx-h100", "usd_per_gpu_hour": "1.5"}))}):
        (row,) = costmodel.buy("quickstart", prices="prices.csv", only_prices=True, deadline="300d").found.rows
    assert row.price is not None
    assert row.price.each * 3600 == pytest.approx(1.5)


FAULTS: dict[str, tuple[dict[str, str], str, str]] = {
    "no such kind": ({"kind": "spott"}, "kind", "spot"),
    "no kind": ({"kind": ""}, "kind", "on demand"),
    "no source": ({"source": ""}, "source", "where the price is from"),
    "no date": ({"date": ""}, "date", "date seen"),
    "a date of another form": ({"date": "12.11.26"}, "date", "2026-11"),
    "no machine": ({"node": ""}, "node", "node"),
    "no such node": ({"node": "dgx-h1000"}, "node", "dgx-h100"),
    "no such gpu": ({"node": "", "gpu": "h1000"}, "gpu", "h100"),
    "a node with another gpu": ({"gpu": "b200"}, "node", "leave one"),
    "no rent": ({"usd_per_gpu_hour": ""}, "usd_per_gpu_hour", "fill one"),
    "two rents": ({"usd_per_node_hour": "8"}, "usd_per_gpu_hour", "fill one"),
    "a rent of a purchase": ({"kind": "purchase", "capital_usd": "1", "years": "4", "utilisation": "0.5"},
                             "usd_per_gpu_hour", "leave the cell empty"),
    "no capital": ({"kind": "purchase", "usd_per_gpu_hour": ""}, "capital_usd", "price of a node"),
    "a negative price": ({"usd_per_gpu_hour": "-3"}, "usd_per_gpu_hour", ""),
    "words": ({"usd_per_gpu_hour": "3 USD"}, "usd_per_gpu_hour", "leave the cell empty"),
    "a share in percent": ({"kind": "purchase", "usd_per_gpu_hour": "", "capital_usd": "1", "years": "4",
                            "utilisation": "80"}, "utilisation", "0.8"),
    "a share that is not known": ({"kind": "purchase", "usd_per_gpu_hour": "", "capital_usd": "1", "years": "4",
                                   "utilisation": "unknown"}, "utilisation", "needs this cell"),
    "an api without a model": ({"kind": "api", "usd_per_gpu_hour": "", "usd_per_mprompt": "1"}, "model", "the model"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_bad_cell_is_one_fault_with_line_column_and_remedy(name: str) -> None:
    cells, column, hint = FAULTS[name]
    good = {"node": "p5", "usd_per_gpu_hour": "3"}
    row = ("reserved", {**good, **cells})
    with only_texts({"prices.csv": table(("reserved", good), row)}), pytest.raises(CostModelError) as raised:
        offers_for(prices="prices.csv")
    (fault,) = raised.value.faults
    assert fault.place is not None
    assert (fault.place.file, fault.place.line, fault.place.path) == ("prices.csv", 3, column)
    assert hint in fault.hint
    starts = [0, *(place + 1 for place, letter in enumerate(fault.place.text) if letter == ",")]
    assert fault.place.column == starts[list(COLUMNS).index(column)] + 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "the column 'kind' is missing"),
        (f"{HEADER}\n", "there is no price below the header"),
        ("kind,date,source,usd_per_gpuhour\n", "there is no column 'usd_per_gpuhour'"),
        (f"{HEADER},kind\n", "the column 'kind' occurs twice"),
        (f"{HEADER}\nspot,h100\n", f"this row has 2 cells and the header {len(COLUMNS)}"),
        ('kind,date,source\n"spot,', "this is not a table of cells between commas"),
        ("\x00", "there is no column"),
    ],
)
def test_what_is_no_table_of_prices_is_refused(text: str, sentence: str) -> None:
    with only_texts({"prices.csv": text}), pytest.raises(CostModelError, match=sentence) as raised:
        offers_for(prices="prices.csv")
    assert all(fault.place is not None and fault.place.file == "prices.csv" for fault in raised.value.faults)


def test_an_api_asks_for_the_traffic_of_a_day_and_not_for_its_fullest_hour() -> None:
    asked = {name: value for name, value in ASKED.items() if name != "rate"}
    with only_texts({"prices.csv": table(*OWN)}):
        full, day = (
            costmodel.buy(prices="prices.csv", only_prices=True, **asked, **load).figures["hosted"][0][
                "cost_usd_per_month"
            ]
            for load in ({"rate": "40"}, {"day": "10,40,40,30"})
        )
    assert day == pytest.approx(full * 0.75)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("kind;gpu;date;source;usd_per_gpu_hour\nspot;h100;2026-11;an offer;3,20\n", "separated by semicolons"),
        ("kind,gpu,date,source,usd_per_gpu_hour\n" + 2 * 'spot,h100,2026-11,an offer,"3,20"\n', "not '3,20'"),
        ("kind,gpu,date,source,usd_per_gpu_hour\n" + 2 * "spot,h100,2026-11,an offer,3,20\n", "this row has 6 cells"),
    ],
)
def test_semicolons_and_decimal_commas_are_one_fault(text: str, sentence: str) -> None:
    with only_texts({"prices.csv": text}), pytest.raises(CostModelError, match=sentence) as raised:
        offers_for(prices="prices.csv")
    (fault,) = raised.value.faults
    assert "a number has a decimal point: 3.20" in fault.hint


def test_the_command_reads_a_table(run: Any, tmp_path: Path) -> None:
    own = tmp_path / "mine.csv"
    own.write_text(table(*OWN))
    flags = [word for name, value in ASKED.items() for word in (f"--{name}", value)]
    ran = run("buy", *flags, "--prices", str(own), "--only-prices", "--json")
    assert ran.code == 0, ran.err
    plain = json.loads(ran.out)
    assert {row["sold"] for row in plain["machines"]} == {"on demand", "reserved", "spot", "purchase"}
    assert plain["hosted"][0]["price_usd_per_mprompt"] == 0.05


def test_years_spread_the_capital_of_a_purchase_and_nothing_else(run: Any) -> None:
    """The price of an hour is a / years + b: each halving of the years adds twice what the last one did."""
    job = ("--model", "llama-3.1-8b", "--rate", "40", "--prompt", "2000", "--answer", "300", "--node", "dgx-b200")

    def hourly(*more: str) -> float:
        rows = json.loads(run("buy", *job, *more, "--json").out)["machines"]
        return float(next(row["price_usd_per_gpu_h"] for row in rows if row["sold"] == "purchase"))

    one, two, four = (hourly("--years", years) for years in ("1.25", "2.5", "5"))
    assert four == hourly()
    assert one - two == pytest.approx(2 * (two - four))
    assert one > two > four
    assert "--years 2.5" in run("buy", *job, "--years", "2.5").out


def test_years_without_a_purchase_are_refused(run: Any) -> None:
    job = ("--model", "llama-3.1-8b", "--rate", "5", "--prompt", "1000", "--answer", "200", "--gpu", "l40s")
    ran = run("buy", *job, "--years", "7")
    assert (ran.code, ran.out) == (2, "")
    assert "no purchase of these machines has a price" in ran.err
