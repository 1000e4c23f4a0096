"""The commands on scenarios that serve: exit codes, forms, faults, and what each wing leaves alone."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ledgers
from rich.cells import cell_len

from costmodel.documents.schemas.results import SERVING_COLUMNS, SERVING_RESULTS, machine_name
from costmodel.documents.schemas.serving import ServingLimits

NAME = "serve-llama-3.1-70b"
ROOT = Path(__file__).resolve().parents[2]
Faults = Callable[[Any], list[Any]]


def json_of(run: Any, *args: str) -> Any:
    """The answer as JSON."""
    return json.loads(run(*args, "--json").out)


def test_estimate_says_times_rates_and_what_binds(run: Any) -> None:
    ran = run("estimate", NAME)
    assert (ran.code, ran.err) == (0, "")
    for words in ("first token", "per token", "within limits", "cache pool", "others' prefill", "limits the rate"):
        assert words in ran.out


def test_every_result_is_a_column_with_a_limit(run: Any) -> None:
    found = json_of(run, "estimate", NAME)
    plan = found["plans"][0]
    columns = {column["name"]: column for column in found["columns"]}
    assert {machine_name(name) for name in SERVING_COLUMNS} == set(columns)
    assert set(columns) <= set(plan)
    bounded = {"memory_share" if key == "memory" else key for key in ServingLimits.model_fields}
    assert bounded == set(SERVING_RESULTS)


def test_csv_has_a_row_of_the_plan(run: Any) -> None:
    (row,) = csv.DictReader(io.StringIO(run("estimate", NAME, "--format", "csv").out))
    assert float(row["tpot_s"]) == json_of(run, "estimate", NAME)["plans"][0]["tpot_s"]
    assert row["binds"] == "cache"


@pytest.mark.parametrize(
    ("settings", "code", "words"),
    [
        (["workload.rate=20 /s"], "S003", "2 replicas serve at most 14.5 of 20.0 requests/s"),
        (["workload.rate=20 /s", "stack.budget=512"], "S004", "nodes of 8) serve all"),
        (["workload.rate=20 /s", "stack.sequences=256"], "S005", "replicas"),
        (["workload.rate=10 /s"], "S001", "tpot"),
        (["limits.ttft_p99.at_most=300 ms"], "S002", "ttft_p99"),
        (["model=llama-3.1-405b"], "M001", "GiB per GPU: weights"),
        (["plan.tp=6"], "L051", "64 query heads are not divisible by tp 6"),
        (["plan.replicas=3"], "L050", "the replicas need 24 accelerators, and the cluster has 16"),
    ],
)
def test_the_answer_is_no_with_a_code_and_a_reason(run: Any, settings: list[str], code: str, words: str) -> None:
    options = [part for setting in settings for part in ("--set", setting)]
    ran = run("estimate", NAME, *options)
    assert ran.code == 1
    assert f"✗ {code} " in ran.out
    assert words in ran.out
    assert bool(re.search(r" limits? the rate to ", ran.out)) is (code not in ("M001", "L050", "L051"))
    found = json_of(run, "estimate", NAME, *options)
    assert code in [item["code"] for item in found["refused"]]
    assert [row["binds"] for row in found["plans"]] == [None] or code != "M001"


@pytest.mark.parametrize(
    ("setting", "code", "words"),
    [
        ("workload.users=64", "D006", "rate and users are given"),
        ("workload.traffic=burst", "D006", "traffic belongs to a concurrency"),
        ("workload.shared_prefix=4096", "D006", "nothing would be left"),
        ("workload.global_batch=64", "D003", "'global_batch' belongs to training"),
        ("plan.zero=1", "D003", "'zero' belongs to training"),
        ("limits.tpot.at_most=20", "D007", "has no unit"),
        ("workload.rate=20 token/s", "D007", "tokens"),
        ("stack=megatron-core", "D010", "training software"),
        ("workload.precision=nvfp4", "D016", "cannot multiply"),
        ("stack=lightllm", "D009", "no stack"),
    ],
)
def test_what_cannot_be_read_is_a_fault(run: Any, faults: Faults, setting: str, code: str, words: str) -> None:
    (found,) = faults(run("estimate", NAME, "--set", setting))
    assert found.code == code
    assert words in found.sentence


@pytest.mark.parametrize(
    ("command", "asked", "bound"),
    [
        ("estimate", "120 token/s", "47.48"),
        ("estimate", "45 token/s", ""),
        ("check", "120 token/s", "47.48"),
        ("check", "45 token/s", ""),
        ("search", "120 token/s", ""),  # with tp 8
        ("search", "500 token/s", "379.7"),
    ],
)
def test_a_claim_beyond_the_memory_bandwidth_is_named(run: Any, command: str, asked: str, bound: str) -> None:
    """70B in fp8 on one H100: no more than 47.5 tokens a second for one user."""
    load = "workload={kind: serving, prompt: 200, output: 100, rate: 0.01 /s, precision: fp8}"
    machine = ("--set", "cluster={node: dgx-h100, nodes: 1}")
    plan = () if command == "search" else ("--set", "plan={tp: 1, replicas: 1}")
    limit = f"limits={{tokens_per_s_per_user: {{at_least: {asked}}}}}"
    ran = run(command, NAME, *machine, *plan, "--set", load, "--set", limit)
    words = f"no engine can: reading the weights allows {bound} token/s for one user (explain bandwidth_bound)"
    said = " ".join(ran.out.split())
    assert (words in said) if bound else ("no engine can" not in said)


def test_memory_and_comm_have_their_rows(run: Any) -> None:
    (lines,) = ledgers(json_of(run, "memory", NAME)).values()
    assert set(lines) == {"weights", "activations", "runtime", "cache"}
    transfers = json_of(run, "comm", NAME)["transfers"]
    assert [(item["of"], item["operation"], item["count"]) for item in transfers] == [
        ("step", "all_reduce", 160.0),
        ("prompt", "all_reduce", 160.0),
    ]
    assert transfers[1]["message_bytes"] == 2048 * 8192 * 2
    assert "need no communication" in run("comm", NAME).out


def test_the_interview_case_of_tensor_parallelism(run: Any) -> None:
    """tp 4, 32 sequences of 100 tokens, hidden 4,096, 32 layers: 26.2 MB 64 times, of which a rank sends 2.52 GB."""
    settings = ["model=llama-3.1-8b", "plan.tp=4", "plan.replicas=1", "cluster.nodes=1"]
    load = "workload={kind: serving, prompt: 3200, output: 100, rate: 0.01 /s}"
    options = [part for setting in (*settings, load) for part in ("--set", setting)]
    prompt = json_of(run, "comm", NAME, *options)["transfers"][1]
    assert (prompt["message_bytes"], prompt["count"]) == (26_214_400, 64)
    assert prompt["message_bytes"] * prompt["count"] == pytest.approx(1.678e9, rel=1e-3)
    assert prompt["volume_bytes"] == pytest.approx(2.517e9, rel=1e-3)


def test_search_ranks_what_keeps_the_limits_first(run: Any) -> None:
    found = json_of(run, "search", NAME)
    broken = [bool(plan["broken"]) for plan in found["plans"]]
    assert broken == sorted(broken)
    rates = [plan["rate_within_slo_per_s"] for plan in found["plans"] if not plan["broken"]]
    assert rates == sorted(rates, reverse=True)
    assert (found["plans"][0]["tp"], found["plans"][0]["pp"]) == (8, 1)
    assert found["yours"]["rank"] == 1 + [plan["budget"] for plan in found["plans"]].index(8192)
    assert sum(item["plans"] for item in found["refused"]) + found["kept"] == found["candidates"]


def test_search_gives_the_figures_of_estimate(run: Any) -> None:
    best = json_of(run, "search", NAME, "--top", "1", "--safe", "off")["plans"][0]
    options = ["--set", f"plan.tp={best['tp']}", "--set", f"stack.budget={best['budget']}"]
    alone = json_of(run, "estimate", NAME, *options)["plans"][0]
    same = {name for name, value in alone.items() if name in best and isinstance(value, float)}
    assert {"tpot_s", "ttft_p99_s", "rate_within_slo_per_s", "cost_within_limits_usd"} <= same
    assert {name: best[name] for name in same} == pytest.approx({name: alone[name] for name in same}, rel=1e-6)


def test_search_says_no_where_no_plan_keeps_the_limits(run: Any) -> None:
    ran = run("search", NAME, "--set", "limits.tpot.at_most=5 ms")
    assert ran.code == 1
    assert "0 meet all limits" in ran.out
    free = run("search", NAME, "--set", "limits={}", "--top", "1").out
    assert "answer the load" in free
    assert "meet all limits ·" not in free
    assert "Next, the nearest plan: costmodel estimate" in ran.out


def test_search_holds_what_the_command_line_sets(run: Any) -> None:
    found = json_of(run, "search", NAME, "--set", "plan.tp=4", "--safe", "off", "--top", "100")
    assert {plan["tp"] for plan in found["plans"]} == {4}


def test_replicas_for_a_rate_with_headroom(run: Any) -> None:
    asked = ("search", NAME, "--set", "assume.headroom=20 %", "--safe", "off", "--top", "1")
    found = json_of(run, *asked)["plans"][0]
    each = found["rate_within_slo_per_s"] / found["replicas"]
    assert found["replicas_needed"] == -(-8 * 1.2 // each)
    assert found["gpus_needed"] == 8 * found["replicas_needed"]


def test_a_safe_size_is_larger_and_says_so(run: Any) -> None:
    loose, safe = (json_of(run, "search", NAME, "--set", "workload.rate=40 /s", *more, "--top", "1")["plans"][0]
                   for more in (("--safe", "off"), ("--safe", "90%")))  # fmt: skip
    assert safe["replicas_needed"] > loose["replicas_needed"]
    assert "all with a chance of 90.0 %" in run("search", NAME, "--safe", "90%").out


def test_sizes_without_limits_or_spread_say_so(run: Any) -> None:
    alike = ["--set", "workload.prompt=2048", "--set", "workload.output=512"]
    sized = [
        run(*words, *alike, "--set", "limits={}").out for words in (("search", NAME), ("scale", NAME, "--rate", "4"))
    ]
    assert "spread 0" in sized[0]
    assert all("sized for at most 80 % of saturation" in text for text in sized)
    assert "filled to" not in run("search", NAME).out


def test_scale_without_a_plan_takes_the_one_that_a_search_finds(run: Any) -> None:
    (size,) = json_of(run, "scale", NAME, "--rate", "4", "--set", "plan=null")["sizes"]
    asked = ("--set", "workload.rate=4 /s", "--set", "stack.budget=8192", "--set", "plan=null")
    (best, *_) = json_of(run, "search", NAME, *asked)["plans"]
    assert [size[name] for name in ("tp", "pp")] == [best[name] for name in ("tp", "pp")]
    assert size["replicas"] == best["replicas_needed"] == 2
    (loose,) = json_of(run, "scale", NAME, "--rate", "4", "--set", "plan=null", "--safe", "off")["sizes"]
    assert loose["replicas"] == 1 < best["replicas"]


@pytest.mark.parametrize(
    "words",
    [
        ("search", "--safe", "off"),
        ("sweep", "--over", "plan.tp=4,8"),
        ("scale", "--rate", "4"),
        ("search", "--pareto", "tpot,ttft"),
    ],
)
def test_remarks_stand_in_every_form(run: Any, words: tuple[str, ...]) -> None:
    far = ("--set", "workload.context=140000")
    asked = (words[0], NAME, *words[1:], *far)
    assert [note["code"] for note in json_of(run, *asked)["notes"]] == ["N006"]
    assert "N006 longer than trained" in " ".join(run(*asked).out.split())


def test_sweep_over_the_budget(run: Any) -> None:
    points = json_of(run, "sweep", NAME, "--over", "stack.budget=512,8192")["points"]
    assert [point["stack.budget"] for point in points] == [512, 8192]
    assert points[0]["worst_gap_s"] < points[1]["worst_gap_s"]
    assert [point["works"] for point in points] == [False, True]


def test_scale_takes_as_many_replicas_as_the_rate_needs(run: Any) -> None:
    sizes = json_of(run, "scale", NAME, "--rate", "4,9.5,19")["sizes"]
    assert [size["replicas"] for size in sizes] == [2, 3, 6]
    loose = json_of(run, "scale", NAME, "--rate", "4,9.5,19", "--safe", "off")["sizes"]
    assert [size["replicas"] for size in loose] == [1, 3, 5]
    assert all(size["works"] for size in sizes)


def test_a_range_of_rates_doubles_and_has_its_end(run: Any) -> None:
    """No range of numbers is too long for an answer or a refusal."""
    load = ("scale", "--model", "llama-3.1-8b", "--gpu", "h100", "--prompt", "1000", "--answer", "200", "--rate")
    sizes = json_of(run, *load, "10..100000")["sizes"]
    rates = [*(10 * 2**step for step in range(14)), 100_000]
    assert [size["workload.rate"] for size in sizes] == rates
    assert [size["requests_per_s"] for size in sizes] == pytest.approx(rates, rel=1e-12)  # replicas times that of one
    assert [size["requests_per_s"] for size in json_of(run, *load, "2..6 /s+2")["sizes"]] == [2, 4, 6]
    refused = run(*load, "1..100000+1")
    assert (refused.code, "at most 10,000 are allowed" in refused.err) == (2, True)


def test_solve_finds_the_rate_that_keeps_a_limit(run: Any) -> None:
    found = json_of(run, "solve", NAME, "--over", "workload.rate", "--for", "ttft_p99<=500 ms", "--safe", "off")
    (stretch,) = found["ranges"]
    assert stretch["at_high"]["ttft_p99_s"] == pytest.approx(0.5, rel=1e-3)
    assert stretch["at_high"]["ttft_p99_s"] <= 0.5
    limit = json_of(run, "estimate", NAME, "--set", "limits.ttft_p99.at_most=500 ms")["plans"][0]
    assert float(stretch["high"].split()[0]) == pytest.approx(limit["rate_within_slo_per_s"], rel=1e-3)


def test_check_holds_the_limits_with_their_lines(run: Any) -> None:
    assert run("check", NAME).code == 0
    ran = run("check", NAME, "--set", "workload.rate=12 /s")
    assert ran.code == 1
    assert "tpot" in ran.out
    assert "serve-llama-3.1-70b.yaml:31" in ran.out


def test_diff_says_what_moved(run: Any) -> None:
    ran = run("diff", NAME, "--set", "workload.cache=fp8")
    assert "workload.cache  bf16 → fp8" in ran.out
    assert "+100.0 %  better" in ran.out


def test_explain_of_a_figure_that_the_plan_states_shows_where(run: Any) -> None:
    assert "plan.replicas 2" in run("explain", NAME, "replicas").out
    assert "← command line  (plan.replicas)" in run("explain", NAME, "replicas", "--set", "plan.replicas=2").out


def test_explain_traces_results_to_the_documents(run: Any) -> None:
    ran = run("explain", NAME, "tpot")
    assert "mean_step_time" in ran.out
    assert "workload.prompt.mean" in ran.out
    root = json_of(run, "explain", NAME, "kv_bytes_per_token")["figures"][0]
    assert root["value"] == 327_680


@pytest.mark.parametrize(
    "args",
    [
        ("scale", NAME, "--ranks", "8..16"),
        ("scale", "quickstart", "--rate", "1..2"),
        ("pipeline", NAME),
    ],
)
def test_options_of_the_other_wing_are_refused(run: Any, faults: Faults, args: tuple[str, ...]) -> None:
    assert {found.code for found in faults(run(*args))} <= {"C030", "C010"}


@pytest.mark.parametrize(
    "args",
    [
        *[(command, NAME) for command in ("estimate", "memory", "comm", "search", "check")],
        ("estimate", NAME, "--set", "model=llama-3.1-405b"),
        ("estimate", NAME, "--set", "workload.rate=20 /s"),
        ("estimate", NAME, "--set", "limits={tokens_per_s_per_user: {at_least: 500 token/s}}"),
        ("estimate", NAME, "--set", "limits.in_time_share.at_least=95 %"),
        ("search", NAME, "--why-not"),
        ("search", NAME, "--pareto", "tokens_per_s_per_user,tokens_per_s_per_gpu"),
        ("sweep", NAME, "--over", "stack.budget=512,2048,8192"),
        ("scale", NAME, "--rate", "2..16"),
        ("solve", NAME, "--over", "workload.rate", "--for", "ttft_p99<=500 ms", "--safe", "off"),
        ("explain", NAME, "tpot"),
        ("export", NAME, "--to", "vllm"),
        ("diff", NAME, "--set", "stack=sglang"),
    ],
    ids=lambda args: " ".join(args),
)
def test_answers_fit_80_columns_but_for_commands(run: Any, args: tuple[str, ...]) -> None:
    ran = run(*args, "--no-color", screen=True, env={"COLUMNS": "80", "NO_COLOR": "1"})
    lines = ran.out.splitlines()
    assert lines
    assert [line for line in lines if cell_len(line) > 80 and "costmodel " not in line] == []


def test_a_front_weighs_two_results_of_every_plan_at_every_load(run: Any) -> None:
    found = json_of(run, "search", NAME, "--pareto", "tokens_per_s_per_user,tokens_per_s_per_gpu")
    points = [(plan["tokens_per_s_per_user"], plan["tokens_per_s_per_gpu"]) for plan in found["pareto"]["plans"]]
    assert [x for x, _ in points] == sorted((x for x, _ in points), reverse=True)
    assert [y for _, y in points] == sorted(y for _, y in points)
    assert found["pareto"]["plans"][-1]["tp"] == 4  # more a GPU where users may wait
    assert found["pareto"]["plans"][0]["tp"] == 8
    ran = run("search", NAME, "--pareto", "tokens_per_s_per_user,tokens_per_s_per_gpu")
    assert (ran.code, "its knee" in ran.out) == (0, True)


def test_a_front_is_of_results_that_have_a_better_end(run: Any, faults: Faults) -> None:
    for axes, words in (
        ("tpot", "not two results"),
        ("tpot,mfu", "no result named 'mfu'"),
        ("tpot,replicas", "replicas"),
    ):
        (found,) = faults(run("search", NAME, "--pareto", axes))
        assert (found.code, words in found.sentence) == ("C006", True)


def test_sensitivity_turns_every_figure_of_a_plan(run: Any) -> None:
    found = json_of(run, "sensitivity", NAME)
    figures = {figure["path"]: figure for figure in found["figures"]}
    bandwidth = figures["cluster.node.accelerator.memory.bandwidth"]
    assert (found["result"], bandwidth["high"] < 0 < bandwidth["low"]) == ("tpot_s", True)
    assert "cluster.node.accelerator.memory.usable" not in figures  # no time depends on it at this load
    assert run("sensitivity", NAME, "--of", "cache_pool", "--top", "3").code == 0


def test_export_and_estimate_plan_the_same_flags_alike(run: Any) -> None:
    """The engine's own token budget, and with drafts a tp that fits, not the default of 1."""
    asked = ("--model", "llama-3.1-70b", "--gpu", "h100", "--gpus", "16", "--rate", "8", "--answer", "512")
    drafts = ("--set", "plan.speculation={tokens: 3, chance: 0.7, draft: eagle}", "--stack", "sglang")
    for flags, engine in ((asked, "vllm"), ((*asked, *drafts), "sglang")):
        values = json.loads(run("estimate", *flags, "--json").out)["plans"][0]
        exported = run("export", *flags, "--to", engine).out
        assert f"# tp {values['tp']:g}, pp 1" in exported
        assert f"first token {values['ttft_s'] * 1e3:.0f} ms" in exported


def test_scale_states_what_no_number_of_replicas_keeps(run: Any) -> None:
    shown = run("scale", "serve-llama-3.1-70b", "--rate", "50", "--set", "limits.ttft_p99.at_most=50ms")
    assert shown.code == 1
    assert "No number of replicas meets the limits" in shown.out


def test_a_difference_too_small_to_print_is_none(run: Any) -> None:
    out = run("diff", NAME, "--set", "workload.output=513").out.replace("−", "+")
    assert any(row.rstrip().endswith("same") for row in out.splitlines())
    assert " +0.0 %" not in out


def test_flags_are_compared_with_a_change_of_them(run: Any, tmp_path: Path) -> None:
    flags = ("--model", "llama-3.1-8b", "--gpu", "h100", "--gpus", "8", "--rate", "4")
    run("estimate", *flags, "--write", "a.yaml", cwd=tmp_path)
    by_file = json_of(lambda *words: run(*words, cwd=tmp_path), "diff", "a.yaml", "--stack", "sglang")
    found = json_of(run, "diff", *flags, "--set", "stack=sglang")
    assert [item["path"] for item in found["inputs"]] == [item["path"] for item in by_file["inputs"]] == ["stack"]
    named = {"before_name", "after_name"}
    moved, same = ([{key: row[key] for key in {*row} - named} for row in each["figures"]] for each in (found, by_file))
    assert moved == same
    assert (found["before"]["name"], found["after"]["name"]) == (" ".join(flags), "with --set stack=sglang")
    other = json_of(run, "diff", *flags, "--set", "workload.concurrency=16")  # one load in the place of another
    changed = {item["path"] for item in other["inputs"]} - {"objective", "plan.tp", "plan.replicas"}  # those of best
    assert changed == {"workload.rate", "workload.concurrency"}


def test_a_model_that_does_not_fit_might_serve(run: Any) -> None:
    asked = ("memory", "--model", "Qwen/Qwen3-8B", "--gpu", "rtx4090", "--gpus", "1")
    line = "to serve it, add --stack vllm, or --rate"
    assert line in run(*asked).out
    assert line not in run(*asked, "--batch", "64").out
    assert run(*asked, "--stack", "vllm").code == 0


def test_scale_counts_the_nodes_that_are_rented(run: Any) -> None:
    flags = (
        "scale",
        "--model",
        "llama-3.1-70b",
        "--gpu",
        "h100",
        "--node",
        "p5",
        "--prompt",
        "2000",
        "--answer",
        "500",
    )
    rows = json_of(run, *flags, "--rate", "12..48")["sizes"]
    for row in rows:
        assert row["nodes"] == -(-row["gpus"] // 8)
        assert row["rent_per_month_usd"] == pytest.approx(row["nodes"] * 8 * 6.88 * 730, rel=1e-3)
    assert "a month" in run(*flags, "--rate", "12").out


def test_search_over_nodes_ranks_the_plans_of_all(run: Any) -> None:
    """Rows, reasons and counts name the value; a price is that of its node, and what varies is no fact of all."""
    keys = ("--over", "cluster.node=p5,dgx-b200", "--over", "cluster.nodes=1,2", "--top", "3", "--why-not")
    found = json_of(run, "search", NAME, *keys, "--set", "assume.price=null")
    assert found["facts"]["cluster"] is found["facts"]["price_usd_per_gpu_h"] is None
    assert [(value["cluster.node"], value["cluster.nodes"]) for value in found["values"]] == [
        ("p5", 1), ("p5", 2), ("dgx-b200", 1), ("dgx-b200", 2),
    ]  # fmt: skip
    for value in found["values"]:
        assert value["candidates"] == value["safe"] + sum(value["refused"].values())
        assumed = value["cluster.node"] == "dgx-b200"
        assert value["best"]["price_assumed"] is assumed
        assert value["best"]["price_usd_per_gpu_h"] == pytest.approx(6.00 if assumed else 6.88, abs=0.005)
    assert {row["cluster.node"] for row in found["plans"]} == {"dgx-b200"}
    out = run("search", NAME, *keys).out
    assert "at 6.00 USD/GPU/h (assumed: neocloud-b200, on demand" in out
    assert "your price, 2.50 USD/GPU/h, is for dgx-h100 only" in out
    rows = list(csv.DictReader(io.StringIO(run("search", NAME, *keys, "--why-not", "--format", "csv").out)))
    refused = {code for value in found["values"] for code in value["refused"]}
    assert {row["code"] for row in rows} == refused
    for row in rows:
        assert int(row["plans"]) == sum(value["refused"].get(row["code"], 0) for value in found["values"])


def test_the_command_under_a_search_over_engines_gives_its_first_row(run: Any) -> None:
    words = ("search", NAME, "--over", "stack=sglang,trt-llm", "--over", "stack.budget=4096,8192", "--safe", "off")
    best = json_of(run, *words)["plans"][0]
    (line,) = re.findall(r"^Next.* costmodel estimate .*$", run(*words).out, re.MULTILINE)
    again = json_of(run, *shlex.split(line.partition("costmodel ")[2]))["plans"][0]
    assert {name: again[name] for name in ("tp", "budget", "rate_within_slo_per_s")} == {
        name: best[name] for name in ("tp", "budget", "rate_within_slo_per_s")
    }


def test_a_value_of_a_search_that_is_wrong_is_marked_at_its_option(run: Any, faults: Faults) -> None:
    (found,) = faults(run("search", NAME, "--over", "cluster.node=p5,p55"))
    assert (found.code, found.marked) == ("D009", "p55")


def test_a_search_in_vain_says_what_to_set(run: Any) -> None:
    words = ("search", NAME, "--set", "workload.rate=16 /s")
    found, out = json_of(run, *words), run(*words).out
    assert found["remedies"][0] == {"set": ["cluster.nodes=5"], "plan": ["stack.budget=16384"]}
    assert "try  --set cluster.nodes=5" in out
    assert out.endswith(f"Next: costmodel search {NAME} --set 'workload.rate=16 /s' --set cluster.nodes=5\n")
    assert json_of(run, *words, "--set", "cluster.nodes=5")["remedies"] == []


def test_a_plan_of_a_search_with_instances_apart_is_not_exported_as_one_that_does_both(run: Any) -> None:
    apart = ("--set", "search.disaggregated=true", "--set", "cluster.nodes=3")
    assert json_of(run, "search", NAME, *apart, "--top", "1")["plans"][0]["prefill"]["tp"] == 8
    ran = run("export", NAME, *apart, "--to", "vllm", "--rank", "1")
    assert (ran.code, "X009 plan.prefill" in ran.out + ran.err) == (1, True)


def test_a_degree_that_no_plan_of_a_search_can_have_is_named(run: Any, faults: Faults) -> None:
    assert "No plan is valid." in run("search", NAME, "--set", "plan.tp=3").out
    (found,) = faults(run("search", NAME, "--set", "plan.tp=32"))
    assert (found.code, found.marked) == ("C004", "32")


def test_sweep_over_nodes_shows_the_rent_of_each(run: Any) -> None:
    asked = ("sweep", NAME, "--over", "cluster.node=dgx-h100,p5,dgx-h200", "--show", "rent_per_month")
    for words in ("at 2.50 USD", "at 6.88 USD", "is for dgx-h100 only", "at 7.91 USD/GPU/h (assumed: p5en"):
        assert words in run(*asked).out
    over = ("--over", "cluster.node=p5,p5en", "--set", "assume.price=null", "--show", "gpus,nodes,rent_per_month")
    rents = [point["rent_per_month_usd"] for point in json_of(run, "sweep", NAME, *over)["points"]]
    assert rents[0] == pytest.approx(16 * 6.88 * 730, rel=1e-3)
    assert rents[1] > 0


def test_estimate_says_the_rent_of_a_month(run: Any) -> None:
    out = run("estimate", NAME).out
    assert "rent          $29.2 k a month of 730 h, $40.0 an hour: 16 GPUs" in out  # 16 × 2.50 × 730
    assert (
        "batch rent    $" in run("estimate", NAME, "--set", "workload.rate=null", "--set", "workload.requests=1k").out
    )


def test_check_holds_figures_of_a_baseline(run: Any, tmp_path: Path) -> None:
    """Worse by more than is allowed is a no; better is none; a scenario that is not in it is said to be new."""
    held = ("check", NAME, "--against", str(tmp_path / "base.json"))
    assert "Wrote the results of 1 scenario to " in run(*held, "--update").out
    assert run(*held).code == 0
    assert run(*held, "--exact").code == 0
    slower = run(*held, "--set", "cluster.node.accelerator.memory.bandwidth=3 TB/s")
    assert (slower.code, "✗ tpot" in slower.out, "allowed +1.0 %" in slower.out) == (1, True, True)
    findings = json.loads(run(*held, "--set", "cluster.node.accelerator.memory.bandwidth=3 TB/s", "--json").out)[
        "scenarios"
    ][0]["findings"]
    worse = {found["name"]: found for found in findings if found["kind"] == "regression" and not found["kept"]}
    assert worse["tpot"]["value"] > 1.01 * worse["tpot"]["bound"]
    assert run(*held, "--set", "cluster.node.accelerator.memory.bandwidth=3 TB/s", "--within", "50 %").code == 0
    assert run(*held, "--set", "cluster.node.accelerator.memory.bandwidth=3.5 TB/s").code == 0
    assert run(*held, "--set", "cluster.node.accelerator.memory.bandwidth=3.5 TB/s", "--exact").code == 1
    (tmp_path / "other.yaml").write_text(run("show", NAME).out, "utf-8")
    other = ("check", str(tmp_path / "other.yaml"), "--against", str(tmp_path / "base.json"))
    assert "not in the baseline" in run(*other).out
    assert "costmodel/baseline/v1" in (tmp_path / "base.json").read_text("utf-8")


@pytest.mark.parametrize("more", [("--within", "2 %"), ("--against", "nothing.json"), ("--update",)])
def test_what_is_about_a_baseline_needs_one(more: tuple[str, ...], run: Any, faults: Faults) -> None:
    assert [found.code for found in faults(run("check", NAME, *more))] == ["C008"]


@pytest.mark.usefixtures("few_knobs")
def test_the_shell_commands_of_the_guide_work_in_their_order(run: Any, tmp_path: Path) -> None:
    """What a page prints is checked by the transcripts; these print nothing there."""
    for page in ("serving-size", "serving-techniques", "report"):
        text = (ROOT / "docs" / "guide" / f"{page}.md").read_text("utf-8")
        blocks = re.findall(r"(?ms)^```sh\n(.*?)^```$", text)
        asked = [line for block in blocks for line in block.splitlines() if "serve-" in line or "moe.yaml" in line]
        assert asked
        for line in asked:
            ran = run(*shlex.split(line)[1:], cwd=tmp_path)
            assert ran.code == 0, (line, ran.err)


def test_the_guide_has_the_errors_of_the_page_on_accuracy() -> None:
    """Rounded, of the row of all runs: time per token, first token, tokens per second and GPU."""
    page = (ROOT / "docs" / "accuracy" / "serving.md").read_text("utf-8")
    (row,) = re.findall(r"(?m)^\| all \|(.*)$", page)
    pairs = [tuple(map(float, pair)) for pair in re.findall(r"([\d.]+) / ([\d.]+) %", row)]
    guide = (ROOT / "docs" / "guide" / "serving.md").read_text("utf-8")
    for words, (median, worst) in zip(
        ("time per token", "first token of a benchmark[^|]*", "tokens per second and GPU"), pairs, strict=True
    ):
        (stated,) = re.findall(rf"(?m)^\| {words} \| ([\d.]+) % \| ([\d.]+) % \|$", guide)
        assert all(abs(float(a) - b) <= 0.51 for a, b in zip(stated, (median, worst), strict=True)), words


def test_plans_of_a_fixed_number_in_flight_rank_by_what_they_answer(run: Any) -> None:
    """By Little's law the plan with the shortest answers answers most; at saturation another one would."""
    load = ("--model", "llama-3.1-70b", "--gpu", "h100", "--gpus", "8", "--prompt", "2000", "--answer", "500")
    plans = json_of(run, "search", *load, "--concurrency", "4", "--top", "30")["plans"]
    rates = [plan["requests_per_s"] for plan in plans]
    assert rates[0] == pytest.approx(max(rates), rel=0.01)
    assert max(plan["saturation_per_s"] for plan in plans) > 1.1 * plans[0]["saturation_per_s"]
    out = run("search", *load, "--concurrency", "4").out
    assert "ranked by latency, the time of a whole answer under that load" in out
    crowded = json_of(run, "search", *load, "--concurrency", "500", "--top", "30")["plans"]  # most of them in line
    assert crowded[0]["requests_per_s"] == pytest.approx(max(plan["requests_per_s"] for plan in crowded), rel=0.01)
    assert min(crowded, key=lambda plan: plan["tpot_s"])["requests_per_s"] < crowded[0]["requests_per_s"] / 2


EXPERTS = ("--model", "deepseek-v3", "--gpu", "h200", "--gpus", "8", "--prompt", "2000", "--answer", "500",
           "--rate", "1", "--set", "plan.tp=8")  # fmt: skip


@pytest.mark.parametrize(("load", "alike"), [((), True), (("--set", "assume.experts.imbalance=1.2"), False)])
def test_ranks_of_experts_that_change_no_figure_are_remarked(load: tuple[str, ...], alike: bool, run: Any) -> None:
    """Each of eight ranks has an eighth of the experts' bytes, whole experts or parts of all."""
    figures = []
    for ep in ("1", "8"):
        asked = (*EXPERTS, *load, "--set", f"plan.ep={ep}")
        (plan,) = json.loads(run("estimate", *asked, "--json").out)["plans"]
        figures.append(tuple(plan[name] for name in ("tpot_s", "ttft_p99_s", "memory_peak_bytes", "saturation_per_s")))
        out = run("estimate", *asked).out
        remarked = re.search(r"plan\.ep +without effect +figures are those of plan\.ep 1", out) is not None
        assert remarked == (alike and ep == "8")
        assert load or ("N051" in out) == remarked
    assert (figures[0] == pytest.approx(figures[1], rel=1e-9)) == alike


def test_a_closed_loop_has_the_means_of_its_benchmark_beside_it(run: Any) -> None:
    """A benchmark starts all users at once, so its mean is of a burst; a stated rate has no first wave."""
    load = [
        "estimate",
        "--model=llama-3.1-8b",
        "--gpu=h100",
        "--gpus=1",
        "--prompt=1000",
        "--answer=300",
        "--set=plan.tp=1",
    ]
    found, burst, steady = (
        json_of(run, *load, *of)
        for of in (["--users=32"], ["--concurrency=32", "--set=workload.traffic=burst"], ["--rate=5/s"])
    )
    assert found["benchmark"] == {name: burst["plans"][0][name] for name in ("ttft_s", "tpot_s")}
    assert found["benchmark"]["ttft_s"] > 2 * found["plans"][0]["ttft_s"]
    assert "benchmark" not in json_of(run, *load, "--users=1")
    assert "benchmark" not in burst
    assert "benchmark" not in steady


def test_the_head_names_types_other_than_bf16(run: Any) -> None:
    """Of one plan and of a search; and where limits are unsure, what the chance is of."""
    narrow = ("--set", "workload.weights=fp8", "--set", "workload.cache=fp8")
    found = run("estimate", NAME, *narrow, "--set", "workload.rate=12 /s").out
    assert "2 replicas · fp8 weights · fp8 cache · prompt 2,048" in found
    assert "fp8 weights" not in run("estimate", NAME).out
    assert "The chance to meet all limits is " in run("estimate", NAME).out


def test_a_short_estimate_has_the_speed_of_a_user(run: Any) -> None:
    ran = run("estimate", "serve-llama-3.1-70b", brief=True)
    speed = json.loads(run("estimate", "serve-llama-3.1-70b", "--json").out)["plans"][0]["tokens_per_s_per_user"]
    assert f"per user       {speed:.2f} token/s" in ran.out
    assert len(ran.out.splitlines()) <= 24


def test_a_search_by_rate_names_the_plan_that_is_faster_for_a_user(run: Any) -> None:
    """Its time per token is that of the search for the least one; there the line is left out."""
    asked = ("search", "--model", "gpt-oss-20b", "--gpu", "h100", "--gpus", "8", "--rate", "4", "--prompt", "2000")
    found = re.search(r"the fastest for a user takes (\S+ ms) per token: (--set \S+)", run(*asked).out)
    assert found is not None
    fast = run(*asked, *found[2].split(), "--json").out
    assert found[1] == f"{json.loads(fast)['plans'][0]['tpot_s'] * 1e3:.2f} ms"
    assert "ranked by req/s" not in run(*asked, *found[2].split()).out
