"""sweep, scale and solve of serving: the best plan at each value, replicas for each rate, limits that none keeps."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from estimate.serving.cases import case, costs, predicted

from costmodel.explore.serving.scale_by_rate import at_rate
from costmodel.explore.serving.serving_remedies import with_remedies

JOB = ("--model", "llama-3.1-70b", "--gpu", "h100", "--rate", "50", "--prompt", "2000", "--answer", "500",
       "--set", "limits.ttft_p99.at_most=1s")  # fmt: skip


def answered(run: Any, *words: str) -> Any:
    ran = run(*words, "--json")
    assert ran.err == ""
    return json.loads(ran.out)


@pytest.mark.parametrize("tp", ["2", "4", "8"])
def test_sweep_has_at_each_value_the_plan_that_estimate_takes_there(tp: str, run: Any) -> None:
    swept = answered(run, "sweep", *JOB, "--gpus", "64", "--over", f"plan.tp={tp}")["points"][0]
    (alone,) = answered(run, "estimate", *JOB, "--gpus", "64", "--set", f"plan.tp={tp}")["plans"]
    for name in ("tp", "pp", "replicas", "ttft_p99_s", "tpot_s", "rate_within_slo_per_s"):
        assert swept[name] == alone[name]


def test_sweep_over_nodes_has_the_best_plan_of_each(run: Any) -> None:
    job = [word for word in JOB if word not in ("--gpu", "h100")]
    nodes = ("dgx-h100", "dgx-b200")
    swept = answered(run, "sweep", *job, "--gpus", "64", "--over", f"cluster.node={','.join(nodes)}")["points"]
    for point, node in zip(swept, nodes, strict=True):
        (alone,) = answered(run, "estimate", *job, "--gpus", "64", "--node", node)["plans"]
        assert (point["tp"], point["replicas"]) == (alone["tp"], alone["replicas"])
    assert len({point["tp"] for point in swept}) == 2


def test_solve_finds_the_fewest_nodes_for_which_a_search_finds_a_plan(run: Any) -> None:
    found = answered(run, "solve", *JOB, "--over", "cluster.nodes=1..12", "--for", "ttft_p99<=1s", "--safe", "off")
    fewest = int(found["ranges"][0]["low"])
    assert found["ranges"][0]["at_low"]["gpus"] == 8 * fewest
    own = ("--stack", "vllm", "--set", "stack.budget=8192", "--safe", "off")  # solve keeps the engine's token budget
    codes = [run("search", *JOB, "--gpus", str(8 * nodes), *own).code for nodes in (fewest - 1, fewest)]
    assert codes == [1, 0]


def test_solve_over_a_range_assumes_nothing_of_its_key(run: Any) -> None:
    ran = run("solve", *JOB, "--over", "cluster.nodes=4..8", "--for", "ttft_p99<=1s", "--safe", "off")
    assert "assumed cluster.nodes" not in ran.out
    assert "tp 4 · 14 replicas" in ran.out


def test_solve_finds_the_rates_at_which_the_limits_are_kept_with_a_chance(run: Any) -> None:
    shipped = ("solve", "serve-llama-3.1-70b", "--over", "workload.rate=2..9 /s", "--for", "limits_chance>=90 %")
    (found,) = answered(run, *shipped)["ranges"]
    assert found["low"] == "2 /s"
    assert costs(f"workload.rate={found['high']}")["limits_chance"] == pytest.approx(0.9, abs=2e-3)


@pytest.mark.parametrize("values", ["", "=2,4 /s"])
def test_solve_refuses_a_target_that_no_plan_has(values: str, run: Any) -> None:
    asked = ("solve", "serve-llama-3.1-70b", "--over", f"workload.rate{values}", "--set", "limits={}")
    ran = run(*asked, "--for", "in_time_share>=90 %")
    assert ran.code == 2
    assert "in_time_share is not known of these plans" in ran.err
    assert "limits.ttft_p99.at_most" in ran.err


@pytest.mark.parametrize("safe", ["off", ""])
def test_replicas_of_a_reason_are_those_of_its_remedy(safe: str, run: Any) -> None:
    """With replicas that are down a tenth of the time the reason stated 5, and the remedy 9; more have a chance."""
    job = ("serve-llama-3.1-70b", "--set", "workload.rate=20 /s", "--set", "assume.availability=90 %")
    ran = run("estimate", *job, *(("--safe", safe) if safe else ()))
    stated = re.search(r"(\d+) meet the limits", " ".join(ran.out.split()))
    tried = re.search(r"plan.replicas=(\d+)", ran.out)
    assert stated is not None
    assert tried is not None
    assert int(tried[1]) == int(stated[1]) if safe else int(tried[1]) > int(stated[1])
    assert ("meet the limits on average" in " ".join(ran.out.split())) is not bool(safe)


def test_solve_finds_a_range_between_two_samples(run: Any) -> None:
    """3.2 J a token is reached from 8.7 to 9.36 requests/s, where a limit breaks; samples are 8 and 11.3 a second."""
    shipped = ("solve", "serve-llama-3.1-70b", "--over", "workload.rate", "--for")
    (found,) = answered(run, *shipped, "energy_per_token<=3.2 J")["ranges"]
    least = float(found["low"].split()[0])
    assert found["at_low"]["energy_per_token_j"] <= 3.2 < costs(f"workload.rate={least - 0.01} /s")["energy_per_token"]
    assert answered(run, *shipped, "energy_per_token<=2.9 J")["ranges"] == []


def test_best_takes_the_plan_of_a_search_at_each_value(run: Any) -> None:
    """The shipped plan is tp 8; with 2 s for the first token and 40 ms a token, tp 4 answers more requests a GPU."""
    limits = ("--set", "limits={ttft_p99: {at_most: 2 s}, tpot: {at_most: 40 ms}}")
    shipped = ("serve-llama-3.1-70b", *limits)
    few = ("--set", "search={tp: [4, 8], budget: [8192]}")
    best = answered(run, "search", *shipped, *few, "--top", "1")["plans"][0]
    asked = {
        "sweep": ("--over", "workload.rate=8 /s,9 /s"),
        "scale": ("--rate", "8,9"),
        "solve": ("--over", "workload.rate=8 /s,9 /s", "--for", "tpot<=40 ms"),
    }
    for command, words in asked.items():
        found = answered(run, command, *shipped, *few, *words, "--best")
        first = found["ranges"][0]["at_low"] if command == "solve" else (found.get("points") or found["sizes"])[0]
        assert first["tp"] == best["tp"] != 8
    apart = ("--set", "plan={prefill: {tp: 8}, decode: {tp: 8}}")
    ran = run("sweep", *shipped, *apart, "--over", "workload.rate=1/s,2/s", "--best")
    assert "search.disaggregated=true" in ran.err


def test_diff_compares_plans_of_the_search(run: Any, faults: Any) -> None:
    found = answered(run, "search", "serve-llama-3.1-70b", "--top", "4")["plans"]
    figures = answered(run, "diff", "serve-llama-3.1-70b", "--plans", "1,4")["figures"]
    tpot = next(figure for figure in figures if figure["name"].startswith("tpot"))
    assert (tpot["before"], tpot["after"]) == (found[0]["tpot_s"], found[3]["tpot_s"])
    assert "Nothing differs" in run("diff", "serve-llama-3.1-70b", "--plans", "0,0").out
    (fault,) = faults(run("diff", "serve-llama-3.1-70b", "--plans", "1,900"))
    assert fault.code == "C004"


def test_a_chart_has_the_first_result_along_the_rate(run: Any, faults: Any) -> None:
    swept = ("sweep", "serve-llama-3.1-70b", "--show", "tpot", "--chart", "--over")
    assert " ms ┤" in run(*swept, "workload.rate=2..8 /s*2").out
    assert faults(run(*swept, "stack=vllm,sglang"))[0].code == "C010"


def test_degrees_that_the_cluster_has_no_room_for_are_named(run: Any, faults: Any) -> None:
    job = ("--model", "deepseek-v3", "--gpu", "h200", "--gpus", "8", "--rate", "1", "--prompt", "10", "--answer", "10")
    (fault,) = faults(run("search", *job, "--set", "plan.tp=8", "--set", "plan.dp_attention=8"))
    assert fault.code == "C004"
    assert "tp 8 × dp_attention 8 is 64 GPUs, and it has 8" in fault.sentence
    assert "tp 1, dp_attention 8" in fault.help


def test_a_spread_is_set_of_a_length_that_is_a_number(run: Any) -> None:
    of_key, of_mapping = (
        answered(run, "estimate", "serve-llama-3.1-70b", "--set", setting)["plans"]
        for setting in ("workload.output.spread=50%", "workload.output={mean: 512, spread: 50%}")
    )
    assert of_key == of_mapping


def test_a_limit_that_a_request_alone_breaks_is_kept_by_no_replicas() -> None:
    """No rate is so low that the limit holds: that of a request alone is the figure at hardly any load."""
    limit = "limits={ttft_p99: {at_most: 50 ms}}"
    trial = at_rate(case(limit), "50 /s", {})
    assert trial.alone is not None
    assert (trial.codes, trial.works) == (("S002",), False)
    assert trial.alone.costs["ttft_p99"] == pytest.approx(costs("workload.rate=0.0001 /s")["ttft_p99"], rel=1e-3)
    kept = at_rate(case("limits={ttft_p99: {at_most: 1 s}}"), "50 /s", {})
    assert kept.alone is None
    assert kept.works


def test_a_plan_whose_instances_have_no_number_is_scaled_one_by_one() -> None:
    trial = at_rate(case("plan={prefill: {tp: 4}, decode: {tp: 4}}", "limits={}"), "4 /s", {})
    assert trial.answer is not None
    assert trial.answer.costs["gpus"] == 8


def test_a_remedy_names_no_nodes_that_are_there() -> None:
    idle = with_remedies(predicted("plan={tp: 4, replicas: 1}", "limits={}", "workload.rate=8 /s"))
    settings = [setting for kind in idle.remedies for each in kind for setting in each]
    assert "plan.replicas=3" in settings
    assert not any(setting.startswith("cluster.nodes") for setting in settings)


@pytest.mark.parametrize(("rate", "code"), [("abc", "D007"), ("50kg", "D007"), ("0", "D008"), ("1e7", "D008")])
def test_rates_that_cannot_be_read_are_one_fault_at_their_option(run: Any, faults: Any, rate: str, code: str) -> None:
    (fault,) = faults(run("scale", "serve-llama-3.1-70b", "--rate", rate))
    assert (fault.code, fault.marked) == (code, rate)


@pytest.mark.parametrize(
    ("rates", "shown"),
    [("4..10", [4, 8, 10]), ("4..8", [4, 8]), ("4..10 rps", [4, 8, 10])],
)
def test_a_range_of_rates_that_doubles_has_its_end_too(rates: str, shown: list[float], run: Any) -> None:
    sizes = answered(run, "scale", "serve-llama-3.1-70b", "--rate", rates)["sizes"]
    assert [size["workload.rate"] for size in sizes] == shown


def test_a_value_that_cannot_be_read_is_explained_beside_others(run: Any) -> None:
    scaled = run("scale", "serve-llama-3.1-70b", "--rate", "50,abc")
    swept = run("sweep", "serve-llama-3.1-70b", "--over", "workload.prompt=0,-5,2000")
    assert (scaled.code, swept.code) == (0, 0)
    assert "D007 'abc' does not start with a number" in scaled.out
    assert "D008 0 is out of range" in swept.out
    assert "D008 -5 is out of range" in swept.out


def test_so_many_replicas_that_each_has_its_share_to_the_last_digit_keep_their_limits() -> None:
    """The least number is a bound: a ten-thousandth more is the most that rounding of the highest rate costs."""
    limit = "limits={ttft_p99: {at_most: 400 ms}}"
    trial = at_rate(case(limit), "999999 /s", {})
    assert trial.works
    assert trial.answer is not None
    replicas, needed = (trial.answer.costs[name] for name in ("replicas", "replicas_needed"))
    assert needed <= replicas <= needed * (1 + 1e-4) + 1


def test_a_load_that_is_varied_has_no_default_beside_it(run: Any) -> None:
    job = ("--model", "llama-3.1-8b", "--gpu", "h100", "--gpus", "8", "--prompt", "2000", "--answer", "500")
    swept = answered(run, "sweep", *job, "--over", "workload.rate=1/s,5/s")["points"]
    assert [point["codes"] for point in swept] == [[], []]
    (alone,) = answered(run, "estimate", *job, "--rate", "5")["plans"]
    assert swept[1]["tpot_s"] == alone["tpot_s"]
    solved = run("solve", *job, "--over", "workload.concurrency=1..8", "--for", "tpot<=1s")
    assert solved.code == 0
    assert "assumed workload.concurrency" not in solved.out


USERS = "workload={kind: serving, prompt: 2048, output: 512, users: 500, think_time: 30 s}"
IN_FLIGHT = "workload={kind: serving, prompt: 2048, output: 512, concurrency: 64, traffic: burst}"


@pytest.mark.parametrize(
    ("load", "dropped"),
    [(USERS, "workload.users and workload.think_time"), (IN_FLIGHT, "workload.concurrency and workload.traffic")],
)
def test_a_load_that_is_no_rate_is_scaled_by_the_rates_of_the_option(
    load: str, dropped: str, run: Any, faults: Any
) -> None:
    (fault,) = faults(run("scale", "serve-llama-3.1-70b", "--set", load))
    assert fault.code == "C010"
    rate = fault.help.split()[1]
    scaled = run("scale", "serve-llama-3.1-70b", "--set", load, "--rate", rate)
    assert scaled.code == 0
    assert f"{dropped} have no effect: --rate counts" in scaled.out
    (wrong,) = faults(run("scale", "serve-llama-3.1-70b", "--set", load, "--rate", "abc"))
    assert (wrong.code, wrong.marked) == ("D007", "abc")
    (both,) = faults(run("estimate", "serve-llama-3.1-70b", "--set", load, "--set", "workload.rate=8 /s"))
    assert both.code == "D006"
    if load == USERS:
        assert "set it to null" in both.help
    else:  # a rate may have a cap, and its requests come at random
        assert "traffic belongs to a concurrency" in both.sentence


ALONE = ("--model", "llama-3.1-70b", "--gpu", "h100", "--gpus", "16", "--prompt", "2000", "--answer", "500",
         "--set", "plan.tp=4")  # fmt: skip


@pytest.mark.parametrize(("load", "count", "pause"), [("users", 2000, 30), ("concurrency", 500, 0)])
def test_a_load_that_is_no_rate_has_the_most_that_it_asks_for_as_a_rate(
    load: str, count: int, pause: int, run: Any
) -> None:
    """N / (Z + L) with the whole answer of a user who is alone, not the rate of replicas that are full."""
    think = ("--set", f"workload.think_time={pause} s") if pause else ()
    refused = run("scale", *ALONE, f"--{load}", f"{count}", *think)
    assert refused.code == 2
    (rate,) = re.findall(
        r"help: --rate ([\d.]+) in its place, the most that [\d,]+ (?:users|requests in flight) ", refused.err
    )
    (plan,) = json.loads(run("estimate", *ALONE, "--rate", "0.001/s", "--json").out)["plans"]
    assert float(rate) == pytest.approx(count / (pause + plan["latency_s"]), rel=0.01)
    swept = f"costmodel sweep --over workload.{load}={count // 2},{count},{2 * count}"
    assert swept in refused.err
    assert run("sweep", *ALONE, f"--{load}", f"{count}", *think, *swept.split()[2:]).code == 0


def test_gpus_beside_rates_of_the_scenario_name_no_option_of_training(run: Any) -> None:
    out = run("scale", "serve-llama-3.1-70b", "--gpus", "32").out
    assert "--gpus 32 has no effect: the rate counts" in out
    assert "--ranks" not in out


NAME = "serve-llama-3.1-70b"
CLOSED = ("--set", "workload.rate=null", "--set", "workload.concurrency=32")


@pytest.mark.parametrize("without", [(), ("--set", "workload.rate=null")])
def test_a_load_that_varies_takes_the_place_of_the_scenarios_own(without: tuple[str, ...], run: Any) -> None:
    """It was given beside the rate, and without the rate none was given."""
    (row,) = json.loads(run("estimate", NAME, *CLOSED, "--json").out)["plans"]
    swept = run("sweep", NAME, *without, "--over", "workload.concurrency=1,32", "--json")
    assert swept.code == 0
    assert json.loads(swept.out)["points"][1]["ttft_p99_s"] == row["ttft_p99_s"]
    found = run("search", NAME, *without, "--over", "workload.concurrency=16,32", "--top", "2").out
    assert "yours" not in found


def test_a_load_that_is_set_beside_one_that_varies_is_a_fault(run: Any, faults: Any) -> None:
    (found,) = faults(run("sweep", NAME, "--set", "workload.rate=3/s", "--over", "workload.users=1,32"))
    assert "rate and users are given" in found.sentence
