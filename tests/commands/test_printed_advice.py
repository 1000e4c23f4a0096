"""Every line of advice that answers about serving print is typed to the letter, and does what it says."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from costmodel.documents.reader.folders import shipped_file

NAME = "serve-llama-3.1-70b"
LIMITS = ("limits={}", "limits={ttft_p99: {at_most: 1 s}, tpot: {at_most: 25 ms}}")
SCENARIOS = [
    *((f"workload.rate={rate} /s", limits) for rate in (8, 40) for limits in LIMITS),
    pytest.param(("workload.rate=40 /s", LIMITS[1], "limits.limits_chance.at_least=90 %"), marks=pytest.mark.whole),
    ("workload.rate=3 /s", "workload.turns=4", LIMITS[0]),
    ("workload.rate=13 /s", "workload.turns=4", LIMITS[1]),
    pytest.param(
        ("workload.rate=null", "workload.users=900", "workload.think_time=30 s", "workload.turns=4"),
        marks=pytest.mark.whole,
    ),
    ("limits={worst_gap: {at_most: 200 ms}}",),
    ("limits={latency: {at_most: 8 s}}",),
    ("workload.rate=8 /s", "limits={cost_per_mtoken: {at_most: 2 USD/Mtoken}}"),
    ("workload.rate=8 /s", "limits={rent_per_month: {at_most: 20000 USD}}"),
    ("workload.rate=null", "workload.requests=2000", "limits={makespan: {at_most: 100 s}}"),
]


def asked(settings: tuple[str, ...]) -> list[str]:
    return [NAME, *(word for each in settings for word in ("--set", each))]


def tries(out: str) -> Iterator[list[str]]:
    """The options of lines behind `try`, without alternatives and what is there then."""
    found = False
    for line in out.splitlines():
        found = line.strip().startswith("try ") or (found and line.startswith("       ") and "--" in line)
        if found:
            options = re.split(r" {2,}| \(or ", line.strip().removeprefix("try").strip())[0]
            yield shlex.split(options)


def replaced(words: list[str], options: list[str]) -> list[str]:
    """A command with options that take the place of those of the same key."""
    keys = {each.partition("=")[0] for each in options[1::2]}
    pairs = zip(words[1::2], words[2::2], strict=True)
    kept = [word for option, value in pairs if value.partition("=")[0] not in keys for word in (option, value)]
    return [words[0], *kept, *options]


@pytest.mark.parametrize("settings", SCENARIOS, ids=" ".join)
def test_each_try_of_an_estimate_keeps_every_limit(settings: tuple[str, ...], run: Any) -> None:
    found = run("estimate", *asked(settings))
    options = list(tries(found.out))
    assert bool(options) is (found.code == 1)
    for each in options:
        assert run("estimate", *replaced(asked(settings), each)).code == 0, each


_LABEL = r"(Plan 1|With the first|with the|the \w+)?"
NEXT = rf"^(?:Next, |(?=Plan 1|With the)|Next(?=:)){_LABEL}[^:\n]*: costmodel ((\w+) .*)$"  # label, command and verb


@pytest.mark.share(3)
@pytest.mark.parametrize("settings", SCENARIOS, ids=" ".join)
def test_each_command_of_a_search_does_what_it_says(settings: tuple[str, ...], run: Any) -> None:
    """A share of the scenarios, unless --whole asks for all."""
    found = run("search", *asked(settings), "--top", "2")
    for options in tries(found.out):
        for command in ("search", "estimate"):
            assert run(command, *replaced(asked(settings), options)).code == 0, options
    named = {label or verb: words for label, words, verb in re.findall(NEXT, found.out, re.MULTILINE)}
    best = named.get("estimate") or named.get("the surest") or named.get("Plan 1")
    assert (best is not None) is (found.code == 0)
    if best is not None:
        assert run(*shlex.split(best)).code == 0
    if further := named.get("search") or named.get("With the first"):
        assert run(*shlex.split(further)).code == 0
    if "with the" in named:
        _has_the_printed_chance(found.out, run(*shlex.split(named["with the"]), "--json"))


def _has_the_printed_chance(out: str, same: Any) -> None:
    assert same.code == 0
    printed = re.search(r"With \d+ \w+: .* >?([\d.]+) ?% chance to [a-z ]+$", out, re.MULTILINE)
    assert printed is not None
    chance = json.loads(same.out)["plans"][0]["limits_chance"]
    assert chance == pytest.approx(float(printed[1]) / 100, abs=0.006)


@pytest.mark.parametrize("command", ["estimate", "search", "scale"])
def test_without_limits_no_answer_speaks_of_them(command: str, run: Any) -> None:
    out = run(command, NAME, "--set", "limits={}").out
    for words in ("within limits", "keep the limits", "meet all limits", "meets all limits", "meet the limits"):
        assert words not in out


def test_scale_names_its_plan_and_one_that_takes_fewer_gpus(run: Any, tmp_path: Path) -> None:
    narrow = tmp_path / "narrow.yaml"
    narrow.write_text(shipped_file(f"scenarios/{NAME}.yaml").read_text().replace("tp: 8\n", "tp: 4\n"))
    asked = ("scale", str(narrow), "--safe", "90%", "--rate", "44")
    found = run(*asked)
    assert "(tp 4 · budget 8,192)" in found.out
    (line,) = re.findall(r"Another plan takes (\d+) GPUs at 44 /s: costmodel (.*)", found.out)
    again = json.loads(run(*shlex.split(line[1]), "--json").out)["sizes"]
    first = json.loads(run(*asked, "--json").out)["sizes"]
    assert again[-1]["gpus"] == int(line[0]) < first[-1]["gpus"]
    assert again[-1]["works"]


def test_solve_names_what_speaks_against_each_value(run: Any) -> None:
    out = run("solve", NAME, "--over", "plan.replicas=1..4", "--rate", "40", "--for", "ttft_p99<=500 ms").out
    assert re.search(r"S003 cache full: 2 of 4 values; at 1: 1 replica serves at most [\d.]+ of 40.0 requests/s", out)
    assert "L050 too many GPUs: 2 of 4 values; at 3: the replicas need 24 accelerators" in out


@pytest.mark.parametrize(("load", "most"), [("concurrency=100", True), ("concurrency=5000", False)])
def test_what_more_requests_in_flight_would_do_is_said(load: str, most: bool, run: Any) -> None:
    out = run("estimate", NAME, "--set", "workload.rate=null", "--set", f"workload.{load}").out
    assert ("More requests in flight would raise the rate" in out) is most
    assert ("More requests in flight would not raise the rate" in out) is not most


def test_a_batch_is_ranked_by_its_time_and_a_share_in_time_by_itself(run: Any) -> None:
    job = ("--model", "llama-3.1-70b", "--gpu", "h100", "--gpus", "16", "--prompt", "2048", "--answer", "512")
    batch = ("search", *job, "--set", "workload.requests=100")
    plans = json.loads(run(*batch, "--json").out)["plans"]
    times = [float(f"{each['makespan_s']:.3g}") for each in plans]  # plans that look alike are ordered otherwise
    assert times == sorted(times)
    assert plans[0]["rate_within_slo_per_s"] < max(each["rate_within_slo_per_s"] for each in plans)
    assert "ranked by makespan" in run(*batch).out
    assert "ranked by most req/s" in run(*batch, "--set", "objective=rate_within_slo_per_s").out
    timed = json.loads(run("search", NAME, "--set", "objective=in_time_share", "--safe", "off", "--json").out)["plans"]
    kept = [each["in_time_share"] for each in timed if not each["broken"]]
    assert kept == sorted(kept, reverse=True)
    refused = run("search", NAME, "--set", "objective=in_time_share", "--set", "limits={}")
    assert "counts requests within limits on their times" in refused.err


JOB = ("--model", "llama-3.1-8b", "--gpu", "h100", "--rate", "50", "--prompt", "2000", "--answer", "500")


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("words", "over"),
    [
        (JOB, "cluster.node=dgx-h100,dgx-b200"),
        (JOB, "cluster.node=dgx-h100,rtx-pro-6000-server-8"),  # its weights would make another default size
        ((*JOB, "--gpus", "16"), "cluster.node=gb200-nvl72,neocloud-b200"),
        ((*JOB, "--gpus", "2"), "cluster.node=gb200-nvl72,dgx-h200"),
        ((*JOB, "--node", "dgx-h100"), "cluster.node=dgx-h200"),
        ((NAME, "--gpu", "h100"), "cluster.node=dgx-h100,neocloud-b200"),
        ((NAME, "--rate", "8"), "workload.rate=5/s,7/s"),
        ((NAME, "--stack", "vllm"), "stack=sglang,trt-llm"),
    ],
)
def test_commands_after_a_search_over_values_have_no_flag_without_effect(
    words: tuple[str, ...], over: str, run: Any
) -> None:
    """A share of the values, unless --whole asks for all."""
    found = run("search", *words, "--over", over)
    best = json.loads(run("search", *words, "--over", over, "--json").out)["plans"][0]
    named = re.findall(NEXT, found.out, re.MULTILINE)
    assert named
    for label, command, verb in named:
        again = run(*shlex.split(command))
        assert "no effect" not in again.out
        if verb == "estimate" and label in ("", "Plan 1", "the surest", "the nearest"):
            (same,) = json.loads(run(*shlex.split(command), "--json").out)["plans"]
            for key in ("gpus", "tp", "replicas", "saturation_per_s", "tpot_s", "rent_per_month_usd"):
                assert same[key] == best[key]


def test_values_to_try_are_those_of_the_flags_that_were_given(run: Any) -> None:
    words = ("search", *JOB[:5], "3000", *JOB[6:], "--gpus", "4")
    shown = run(*words, "--over", "cluster.node=dgx-h100,dgx-b200").out
    options = list(tries(shown))
    assert options
    assert all("--gpu" in each for each in options)
    assert any("--rate" in each for each in options)
    for each in options:
        again = run(*words, *each)  # of an option given twice the last one counts
        assert again.code == 0
        assert "no effect" not in again.out


def test_a_batch_with_a_limit_on_first_tokens_is_told_to_limit_its_time_not_to_grow(run: Any) -> None:
    job = (*JOB[:4], *JOB[6:], "--gpus", "8", "--set", "workload.requests=4000")
    late = (*job, "--set", "limits.ttft_p99.at_most=1 s")
    for command in ("estimate", "search"):
        out = run(command, *late).out
        assert "so ttft_p99 grows with its size: limit makespan instead" in out
        assert not [each for each in tries(out) if "plan.replicas" in " ".join(each)]
        assert "limit makespan" not in run(command, *job).out


def test_plans_that_differ_in_ep_alone_take_one_row(run: Any) -> None:
    job = ("--model", "gpt-oss-120b", *JOB[2:4], "--gpus", "8", *JOB[4:])
    found = run("search", *job, "--top", "100")
    rows = json.loads(run("search", *job, "--top", "100", "--json").out)["plans"]
    others = [tuple(value for key, value in row.items() if key != "ep" and isinstance(value, float)) for row in rows]
    sizes = [tuple(row[key] for key in ("tp", "pp", "dp_attention", "replicas", "budget")) for row in rows]
    assert len({*zip(sizes, others, strict=True)}) == len(rows)
    (left_out,) = re.findall(r"ep: (\d+) plans with more of it and the same results left out", found.out)
    assert int(left_out) + len(rows) == int(re.findall(r"· (\d+) fit", found.out)[0])
    listed = json.loads(run("search", *job, "--set", "search.ep=[1, 8]", "--set", "plan.tp=8", "--json").out)["plans"]
    assert {row["ep"] for row in listed} == {1, 8}


def test_experts_that_are_cut_by_width_are_not_named_ep(run: Any) -> None:
    job = ("comm", "--model", "gpt-oss-120b", *JOB[2:], "--gpus", "8", "--set", "plan.dp_attention=8")
    ones, whole = (run(*job, "--set", f"plan.ep={ep}").out for ep in (1, 8))
    assert re.search(r"experts +8 .*all-gather", ones)
    assert not re.search(r"\bep +8 .*all-gather", ones)
    assert re.search(r"\bep +8 .*all-gather", whole)


def test_plans_of_equal_rent_are_ordered_by_their_room_to_the_limits(run: Any) -> None:
    rows = json.loads(run("search", NAME, "--set", "objective=rent_per_month", "--json").out)["plans"]
    kept = [row for row in rows if not row["broken"]]
    room = [float(f"{max(row['ttft_p99_s'] / 1.0, row['tpot_s'] / 0.025):.3g}") for row in kept]
    assert room == sorted(room)
    every = ("search", *JOB, "--set", "objective=gpus_needed", "--top", "50", "--json")
    for more in ((), ("--safe", "off")):
        free = [row for row in json.loads(run(*every, *more).out)["plans"] if not row["broken"]]
        safe = [row for row in free if more or row["limits_chance"] >= 0.9]
        keys = [(f"{row['gpus_needed']:09.0f}", row["gpus"], float(f"{row['tpot_s']:.3g}")) for row in safe]
        assert keys
        assert keys == sorted(keys)
        risks = [float(f"{row['limits_chance']:.3g}") for row in free[len(safe) :]]  # the surest of the others first
        assert risks == sorted(risks, reverse=True)


def test_the_sized_fleet_is_asked_for_on_the_gpus_that_it_fills(run: Any) -> None:
    out = run("search", *JOB[:4], "--gpus", "64", *JOB[4:]).out
    (gpus,) = re.findall(r"^Next, with the .* --gpus (\d+) ", out, re.M)
    (needed,) = re.findall(r"requests/s need (\d+) GPUs", out)
    assert int(needed) <= int(gpus) < int(needed) + 8
    assert "\n\n\n" not in out


def test_a_front_ends_with_the_command_of_its_knee(run: Any) -> None:
    front = ("search", NAME, "--pareto", "tpot,tokens_per_s_per_gpu")
    (label, broken, command), *_ = re.findall(
        r"^Next, (the knee|row 1)( \(✗ [A-Z\d ]+\))?: costmodel (.*)$", run(*front).out, re.M
    )
    followed = run(*shlex.split(command), "--json")
    (plan,) = json.loads(followed.out)["plans"]
    assert bool(broken) == (followed.code == 1)
    points = json.loads(run(*front, "--json").out)["pareto"]["plans"]
    assert label == "the knee"
    assert any(each["tpot_s"] == pytest.approx(plan["tpot_s"], rel=0.02) for each in points)


def test_shares_of_reasons_add_up_with_the_plans_that_are_kept(run: Any) -> None:
    out = run("search", *JOB[:4], "--gpus", "64", *JOB[4:-2], "--answer", "500",
              "--set", "limits={ttft_p99: {at_most: 200 ms}, tpot: {at_most: 6 ms}, rent_per_month: {at_most: 1 USD}}",
              "--price", "2USD/GPU/h").out  # fmt: skip
    shares = re.findall(r"^ +([\d.]+) % +[A-Z]\d{3} ", out, re.M)
    rounded = sum(0.5 if "." not in share else 0.05 for share in shares)
    (plans,), (kept,) = re.findall(r"^(\d+) plans? ·", out, re.M), re.findall(r"(\d+) meets? all limits", out)
    assert sum(map(float, shares)) + 100 * int(kept) / int(plans) == pytest.approx(100, abs=rounded)


@pytest.mark.parametrize("gpus", ["1", "2"])
def test_what_does_not_fit_is_offered_more_of_the_same_gpu_before_another(gpus: str, run: Any) -> None:
    job = ("--model", "llama-3.1-70b", "--gpu", "l40s", "--concurrency", "4", *JOB[6:])
    options = list(tries(run("estimate", *job, "--gpus", gpus, "--set", "plan.pp=1", "--set", "plan.tp=1").out))
    assert any("plan.tp" in " ".join(each) for each in options)
    assert not any({"--gpu", "--node"} & {*each} for each in options)


VARIED = {
    "sweep quickstart --over plan.micro_batch=1,2": "estimate",
    "sweep --model llama-3.1-8b --gpu h100 --gpus 8 --over workload.global_batch=256,512": "search",
    "sweep grpo-qwen-2.5-7b-64 --over workload.samples=8,16": "estimate",
    f"sweep {NAME} --over workload.rate=1,2": "estimate",
    "scale quickstart --ranks 16,32": "search",
    f"scale {NAME} --rate 2,4": "estimate",
    "scale --model llama-3.1-8b --gpu h100 --stack vllm --rate 1,4": "search",
}


@pytest.mark.parametrize("line", VARIED)
def test_answers_of_several_values_end_with_the_command_of_one(line: str, run: Any) -> None:
    found = run(*shlex.split(line))
    ((_, words, verb),) = re.findall(NEXT, found.out, re.MULTILINE)
    assert (verb, found.out.splitlines()[-1]) == (VARIED[line], f"Next: costmodel {words}")
    assert run(*shlex.split(words)).code == 0
    assert run("sweep", "llama-3-70b-512", "--over", "cluster.nodes=1,2").out.count("Next:") == 0
