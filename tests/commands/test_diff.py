"""diff: what changed between two scenarios, results or plans."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ledgers

from costmodel.documents.schemas.results import OF_STEP, machine_name
from costmodel.documents.text.digest import sealed

Faults = Callable[[Any], list[Any]]
NAME = "llama-3-70b-512"


def json_of(run: Any, *args: str, **more: Any) -> Any:
    ran = run(*args, "--json", **more)
    assert ran.err == ""
    return json.loads(ran.out)


def test_a_difference_is_that_of_two_estimates(run: Any) -> None:
    change = ("--set", "plan.recompute=full", "--set", "cluster.node.accelerator.memory.bandwidth=3 TB/s")
    found = json_of(run, "diff", NAME, *change)
    before, after = (json_of(run, "estimate", NAME, *more)["plans"][0] for more in ((), change))
    assert [item["path"] for item in found["inputs"]] == [
        "cluster.node.accelerator.memory.bandwidth",
        "plan.recompute",
    ]
    assert [(item["before"], item["after"]) for item in found["inputs"]] == [("3.35 TB/s", "3 TB/s"), ("none", "full")]
    moved = {item["name"]: item for item in found["figures"] if "." not in item["name"]}
    names = [machine_name(name) for name in OF_STEP]
    differ = {name for name in names if before[name] != pytest.approx(after[name], rel=1e-9)}
    assert set(moved) == differ
    for name, item in moved.items():
        assert (item["before"], item["after"]) == (before[name], after[name])
    held = [ledgers(json_of(run, "memory", NAME, *more)).values() for more in ((), change)]
    worst = [max(stages, key=lambda lines: sum(lines.values())) for stages in held]
    lines = {item["name"]: item for item in found["figures"] if item["name"].startswith("memory.")}
    assert lines["memory.activations_bytes"]["before"] == worst[0]["activations"]
    assert lines["memory.activations_bytes"]["after"] == worst[1]["activations"]


def test_what_was_assumed_stands_before_what_is_written(run: Any, tmp_path: Path) -> None:
    name, path = "deepseek-v3-2048", "assume.experts.deduplicated"
    estimate = json_of(run, "estimate", name)
    (assumed,) = [item["value"] for item in estimate["assumed"] if item["path"] == path]
    other = {"true": "false", "false": "true"}[assumed]
    change = ("--set", f"{path}={other}")
    (written,) = json_of(run, "diff", name, *change)["inputs"]
    assert (written["path"], written["before"], written["after"]) == (path, assumed, other)
    (tmp_path / "old.json").write_text(json.dumps(estimate), "utf-8")
    assert json_of(run, "diff", str(tmp_path / "old.json"), name, *change)["inputs"] == [written]
    (tmp_path / "new.json").write_text(run("estimate", name, *change, "--json").out, "utf-8")
    (withdrawn,) = json_of(run, "diff", str(tmp_path / "new.json"), name)["inputs"]
    assert (withdrawn["before"], withdrawn["after"]) == (other, assumed)
    (same,) = json_of(run, "diff", name, "--set", f"{path}={assumed}")["inputs"]
    assert (same["before"], same["after"]) == (None, assumed)


def test_nothing_differs(run: Any) -> None:
    ran = run("diff", NAME, f"scenarios/{NAME}.yaml", "--exit-code")
    assert (ran.code, ran.err) == (0, "")
    assert "Nothing differs." in ran.out


def test_the_exit_code_of_a_difference(run: Any) -> None:
    change = ("--set", "plan.zero=0")
    assert run("diff", NAME, *change).code == 0
    assert run("diff", NAME, *change, "--exit-code").code == 1


def test_stored_results_keep_their_figures(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "old.json"
    old = json_of(run, "memory", NAME)
    old["plans"][0]["step_time_s"] = 2 * old["plans"][0]["step_time_s"]
    old["documents"][1]["digest"] = "0" * 12
    file.write_text(json.dumps(sealed(old)), "utf-8")
    found = json_of(run, "diff", str(file), NAME)
    assert [item["path"] for item in found["inputs"]] == [old["documents"][1]["name"]]
    (figure,) = found["figures"]
    assert (figure["name"], figure["change"]) == ("step_time_s", -0.5)
    piped = run("diff", "-", NAME, stdin=file.read_text("utf-8"))
    assert piped.code == 0
    assert "2.00 × as fast" in piped.out


@pytest.mark.parametrize("name", ["deepseek-v3-2048", "offload-llama-2-13b-8"])
def test_a_stored_result_is_itself(name: str, run: Any) -> None:
    """Also where its plan holds lists."""
    assert json_of(run, "diff", "-", name, stdin=run("estimate", name, "--json").out)["same"]


def test_two_plans_of_one_search(run: Any) -> None:
    plans = json_of(run, "search", NAME, "--top", "2")["plans"]
    found = json_of(run, "diff", NAME, "--plans", "1,2")
    step = next(item for item in found["figures"] if item["name"] == "step_time_s")
    assert (step["before"], step["after"]) == (plans[0]["step_time_s"], plans[1]["step_time_s"])
    keys = [
        key for key in ("dp", "tp", "pp", "vpp", "micro_batch", "zero", "recompute") if plans[0][key] != plans[1][key]
    ]
    assert {item["path"] for item in found["inputs"]} >= {f"plan.{key}" for key in keys}
    stored = run("search", NAME, "--top", "2", "--json").out
    again = json_of(run, "diff", "-", NAME, "--plans", "2,2", stdin=stored)
    assert again["same"]


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ((NAME,), "C013"),
        ((NAME, "--plans", "1"), "C013"),
        ((NAME, "--plans", "1,-2"), "C013"),
        ((NAME, "--plans", "1,²"), "C013"),
        (("-", "-"), "C013"),
        ((NAME, "--set", "cluster.nodes=1", "--plans", "0,1"), "C004"),
        ((NAME, "nowhere"), "D009"),
    ],
)
def test_what_diff_refuses(args: tuple[str, ...], code: str, run: Any, faults: Faults) -> None:
    assert [fault.code for fault in faults(run("diff", *args))] == [code]


@pytest.mark.parametrize("plans", ["[]", "{}", "null", "[1]", '[{"step_time_s": "x"}]'])
def test_results_of_odd_figures(plans: str, run: Any, tmp_path: Path) -> None:
    result = json_of(run, "estimate", NAME)
    result["plans"] = json.loads(plans)
    result["ledger"] = [1, {"peak_bytes": "x"}]
    result["transfers"] = [{"group": 1}]
    (tmp_path / "old.json").write_text(json.dumps(sealed(result)), "utf-8")
    assert run("diff", "old.json", NAME, cwd=tmp_path).code in (0, 2)


@pytest.mark.parametrize(
    ("first", "then", "said"),
    [
        ("plan.micro_batch=1", "plan.micro_batch=4", "and does not fit any more."),
        ("plan.micro_batch=4", "plan.micro_batch=1", "and fits now."),
        ("plan.micro_batch=1", "plan.zero=2", "GiB less."),
    ],
)
def test_the_conclusion_says_when_a_plan_stops_fitting(first: str, then: str, said: str, run: Any) -> None:
    """Four sequences of activations beside a sixteenth of the states are more than 80 GB."""
    base = ("--set", "plan.zero=0", "--set", first)
    stored = run("estimate", NAME, *base, "--json").out
    ran = run("diff", "-", NAME, *base[:2], "--set", then, stdin=stored)
    assert ran.out.rstrip().endswith(said)


FLAGS = ("--model", "llama-3.1-8b", "--gpu", "h100", "--gpus", "64", "--price", "2USD/GPU/h")


@pytest.mark.parametrize("setting", ["cluster.node=dgx-h200", "plan.tp=8", "model=qwen-3-8b", "cluster.nodes=4"])
def test_flags_are_a_and_what_is_set_changes_b(setting: str, run: Any) -> None:
    """A is what `estimate FLAGS` answers, B what it answers with the key of a flag set in its place; with a key of the
    plan, the best plan that has it.
    """
    found = json_of(run, "diff", *FLAGS, "--set", setting)
    key, _, value = setting.partition("=")
    instead = {"cluster.node": ("--gpu", "h200"), "model": ("--model", value), "cluster.nodes": ("--gpus", "32")}
    name, text = instead.get(key, ("--set", setting))
    words = dict(zip(FLAGS[::2], FLAGS[1::2], strict=True)) | {name: text}
    before = json_of(run, "estimate", *FLAGS)["plans"][0]
    asked = ("search", "--top", "1") if key.startswith("plan.") else ("estimate",)
    after = json_of(run, *asked, *(word for pair in words.items() for word in pair))["plans"][0]
    moved = {item["name"]: item for item in found["figures"] if "." not in item["name"]}
    names = [name for result in OF_STEP if before[name := machine_name(result)] is not None]
    assert set(moved) == {name for name in names if before[name] != pytest.approx(after[name], rel=1e-9)}
    assert all((item["before"], item["after"]) == (before[name], after[name]) for name, item in moved.items())
    assert key in {item["path"] for item in found["inputs"]}
    assert (found["before"]["name"], found["after"]["name"]) == (" ".join(FLAGS), f"with --set {setting}")


def test_both_sides_of_flags_have_their_best_plan_and_one_that_does_not_fit_is_named_first(run: Any) -> None:
    """The defaults of the software would not fit, and would be the plan of A."""
    flags = ("--model", "llama-3.1-70b", "--gpu", "h100", "--gpus", "256", "--sequence", "8Ki", "--stack", "fsdp2")
    shown = run("diff", *flags, "--set", "plan.tp=8").out
    assert "does not fit" not in shown
    assert json_of(run, "estimate", *flags)["plans"][0]["fits"] is False
    stored = run("estimate", NAME, "--set", "plan.tp=1", "--json").out
    shown = run("diff", "-", NAME, stdin=stored).out.splitlines()
    assert shown[1].startswith("  ✗ M001: the plan of A does not fit: ")
    assert shown[-1].startswith("A does not fit. ")


def test_two_plans_of_flags(run: Any, faults: Faults) -> None:
    shown = run("diff", *FLAGS, "--plans", "1,2").out
    assert shown.startswith(f"{' '.join(FLAGS)} plan 1 (A) → the same plan 2 (B)\n")
    assert "plan.tp" in shown
    for args, words in ((FLAGS, "nothing to compare"), ((), "A is missing"), (("--set", "plan.tp=2"), "A is missing")):
        (fault,) = faults(run("diff", *args))
        assert (fault.code, words in fault.sentence) == ("C013", True)


def test_figures_of_a_service_that_does_not_fit_are_not_compared(run: Any) -> None:
    """70 B in bf16 are 131 GiB on one GPU: what it would cost there, 20,710,827 % more, means nothing."""
    for change in (("plan.tp=1",), ("plan={tp: 1}",)):
        answer = run("diff", "serve-llama-3.1-70b", *(part for each in change for part in ("--set", each)))
        assert "✗ M001: after, the plan does not fit, so its figures mean nothing" in answer.out
        assert "worse" not in answer.out
    found = json_of(run, "diff", "serve-llama-3.1-70b", "--set", "plan.tp=1")["figures"]
    assert {item["after"] for item in found} == {None}


WORKLOADS = {
    "llama-3-70b-512": "cluster.node.accelerator.memory.bandwidth=3 TB/s",
    "serve-llama-3.1-70b": "workload.rate=9 /s",
    "grpo-qwen-2.5-7b-64": "workload.samples=8",
}


def test_the_answer_has_the_same_keys_for_each_workload(run: Any) -> None:
    found = [json_of(run, "diff", name, "--set", setting) for name, setting in WORKLOADS.items()]
    assert [answer["workload"] for answer in found] == ["training", "serving", "rl"]
    assert {tuple(answer) for answer in found} == {tuple(found[0])}
    assert {tuple(answer["before"]) for answer in found} == {tuple(found[0]["after"])}
    assert {tuple(row)[-5:] for answer in found for row in answer["figures"]} == {
        ("name", "unit", "before", "after", "change")
    }


@pytest.mark.parametrize(("name", "setting"), WORKLOADS.items())
@pytest.mark.parametrize("form", ["table", "csv", "markdown"])
def test_each_format_names_what_changed_or_what_moved(run: Any, name: str, setting: str, form: str) -> None:
    ran = run("diff", name, "--set", setting, "--format", form)
    assert (ran.code, ran.err) == (0, "")
    path = setting.partition("=")[0]
    moved = json_of(run, "diff", name, "--set", setting)["figures"][0]["name"]
    assert (moved if form == "csv" else path.replace("_", r"\_") if form == "markdown" else path) in ran.out


@pytest.mark.parametrize("name", ["serve-llama-3.1-70b", pytest.param("grpo-qwen-2.5-7b-64", marks=pytest.mark.whole)])
def test_plans_of_one_search_are_compared_in_every_workload(run: Any, name: str) -> None:
    fewer = ("--safe", "off") if name.startswith("serve") else ()
    plans = json_of(run, "search", name, *fewer, "--top", "2")["plans"]
    figure = "tpot_s" if name.startswith("serve") else "iteration_time_s"
    found = json_of(run, "diff", name, *fewer, "--plans", "1,2")
    moved = {row["name"]: (row["before"], row["after"]) for row in found["figures"]}
    ends = tuple(plan[figure] for plan in plans)
    assert moved.get(figure, (ends[0], ends[0])) == ends


def test_scenarios_of_two_workloads_have_nothing_to_compare(run: Any, faults: Faults) -> None:
    (fault,) = faults(run("diff", "quickstart", "serve-llama-3.1-70b"))
    assert (fault.code, fault.sentence) == ("C013", "training and serving have no results in common")
