"""check: limits, baselines, the forms of runners, and the documented way to use it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from costmodel.documents.schemas.results import BAND_ENDS, TRAINING_COLUMNS, machine_name
from costmodel.estimate.training import layer_kernels
from costmodel.estimate.training import training_step as training
from costmodel.ground.equation import EQUATIONS, Number, equation
from costmodel.report.terminal.layout import GOOD, WARN, chance_style

Faults = Callable[[Any], list[Any]]
ROOT = Path(__file__).resolve().parents[2]
NAME = "llama-3-70b-512"
BASELINE = ROOT / "tests" / "baseline.json"
GUIDE = ROOT / "docs" / "guide" / "ci.md"
FILES = [f"scenarios/{path.name}" for path in sorted((ROOT / "scenarios").glob("*.yaml"))]
SHIPPED = {
    kind: [name for name in FILES if f"kind: {kind}" in (ROOT / name).read_text("utf-8")]
    for kind in ("training", "serving")
}

LIMITED = """\
schema: costmodel/scenario/v1
title: Held
model: llama-3-8b
cluster: {node: dgx-h100, nodes: 4}
workload: {kind: training, sequence: 8192, global_batch: 512}
plan: {tp: 4}
limits:
  memory: {at_most: 95 %}
  mfu: {at_least: 99 %}
  step_time:
    at_most: 600 s
"""


def json_of(run: Any, *args: str, **more: Any) -> Any:
    ran = run(*args, "--json", **more)
    assert ran.err == ""
    return json.loads(ran.out)


# ── The project's own scenarios ──────────────────────────────────────────────────────────────────────────────────────


def test_shipped_scenarios_predict_what_they_did(run: Any) -> None:
    """After a change that is meant: the two commands of docs/contributing.md write the baseline again."""
    for files in SHIPPED.values():
        ran = run("check", *files, "--against", "tests/baseline.json", "--exact")
        assert ran.code == 0, ran.out + ran.err
    known = {Path(name).stem for files in SHIPPED.values() for name in files}
    assert set(json.loads(BASELINE.read_text("utf-8"))["scenarios"]) == known


def test_a_changed_equation_is_caught_and_named(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    was = EQUATIONS["stream_time"]
    monkeypatch.setitem(EQUATIONS, "stream_time", was)  # put back at the end, whatever is registered below

    @equation
    def stream_time(nbytes: Number, bandwidth: Number, share: Number) -> Number:
        return 1.05 * nbytes / (share * bandwidth)

    EQUATIONS["stream_time"] = was
    for module in (layer_kernels, training):
        monkeypatch.setattr(module, "stream_time", stream_time)
    ran = run("check", NAME, "--against", "tests/baseline.json", "--exact")
    assert (ran.code, ran.err) == (1, "")
    assert re.search(r"✗ figures +\d+ of \d+ results changed", ran.out)
    assert re.search(r"\n +memory-bound ops +\d", ran.out)
    assert "equation stream_time changed on the same inputs" in ran.out
    assert ran.out.count("changed on the same") == 1


# ── Limits ───────────────────────────────────────────────────────────────────────────────────────────────────────────

HEAD = "  Llama 3 8B on 32 × h100-sxm, 4 × dgx-h100\n  batch 512 × 8,192 tokens · bf16 · adamw · megatron-core\n"


def test_a_broken_limit_has_both_sides_and_its_line(run: Any, tmp_path: Path) -> None:
    (tmp_path / "held.yaml").write_text(LIMITED, "utf-8")
    ran = run("check", "held.yaml", cwd=tmp_path)
    line = LIMITED.splitlines().index("  mfu: {at_least: 99 %}") + 1
    assert (ran.code, ran.err) == (1, "")
    assert re.search(rf"\n  ✗ mfu +[\d.]+ % +limit ≥ 99.0 % +held.yaml:{line}\n", ran.out)
    assert ran.out.count("✓") == 2
    assert ran.out.endswith("\n1 of 3 failed\n")
    kept = run("check", "held.yaml", "--set", "limits.mfu.at_least=1%", cwd=tmp_path, brief=True)
    assert (kept.code, kept.out) == (
        0,
        f"held\n{HEAD}  ✓ 3 limits\n  More with -v: 3 limits\n\n3 checks passed, 1 scenario\n",
    )


def test_every_result_can_be_limited(run: Any) -> None:
    """A bound at the figure itself is kept; one a millionth beyond is broken."""
    whole = ("--set", "run={}")
    plan = json_of(run, "estimate", NAME, *whole)["plans"][0]
    for column, about in TRAINING_COLUMNS.items():
        if column == "memory_share" or column in BAND_ENDS:  # the one is called memory, the others no search computes
            continue
        value = plan[machine_name(column)]
        unit = {"1": "", "1/s": " token/s"}.get(about.unit, f" {about.unit}")
        least, most = (f"limits.{column}.{kind}=" for kind in ("at_least", "at_most"))
        bounds = ("--set", f"{least}{value!r}{unit}", "--set", f"{most}{value!r}{unit}")
        assert run("check", NAME, *whole, *bounds).code == 0
        if value > 0:
            less = value * (1 - 1e-6)
            found = json_of(run, "check", NAME, *whole, "--set", f"{most}{less!r}{unit}")["scenarios"][0]["findings"]
            assert [(item["kind"], item["kept"]) for item in found] == [("at_most", False)]
            assert found[0]["bound"] == pytest.approx(less)
            assert found[0]["value"] == pytest.approx(value)


@pytest.mark.parametrize(
    ("target", "within", "code"), [(1.0, 0.0, 0), (1.04, 0.05, 0), (0.96, 0.05, 0), (1.1, 0.05, 1)]
)
def test_targets_are_kept_from_both_sides(run: Any, target: float, within: float, code: int) -> None:
    step = json_of(run, "estimate", NAME)["plans"][0]["step_time_s"]
    limits = [f"limits.step_time.target={step * target!r} s", f"limits.step_time.within={within}"]
    assert run("check", NAME, "--set", limits[0], "--set", limits[1]).code == code


def test_a_name_with_a_point_in_it_is_whole(run: Any) -> None:
    """The same scenario by name and by path is one in a baseline."""
    named = json_of(run, "check", "megatron-7.5b-512", "--against", "tests/baseline.json")
    assert named["scenarios"][0]["name"] == "megatron-7.5b-512"
    assert [finding["kind"] for finding in named["scenarios"][0]["findings"]] == ["regression"] * 3
    assert named == json_of(run, "check", "scenarios/megatron-7.5b-512.yaml", "--against", "tests/baseline.json")


def test_what_is_unknown_keeps_no_limit(run: Any) -> None:
    settings = ("--set", "workload.tokens=null", "--set", "limits.run_time.at_most=1000000 d")
    ran = run("check", NAME, *settings)
    assert ran.code == 1
    assert re.search(r"✗ run_time +unknown +limit ≤ .*; set workload.tokens, e.g. 15 T", ran.out)


def test_plans_that_are_invalid_or_do_not_fit_fail(run: Any) -> None:
    assert "✗ L001 invalid" in run("check", NAME, "--set", "plan.tp=3").out
    ran = run("check", NAME, "--set", "plan.tp=1", "--set", "plan.pp=1")
    assert ran.code == 1
    assert re.search(r"✗ memory +[\d,]+ GiB +≤ 79.6 GiB", ran.out)


def test_a_scenario_without_a_plan_is_held_by_its_best(run: Any) -> None:
    free = ("--set", "plan=null", "--set", "limits.step_time.at_most=1 us")
    found = json_of(run, "check", NAME, *free)["scenarios"][0]["findings"]
    best = json_of(run, "search", NAME, "--top", "1", "--set", "plan=null", "--safe", "off")["plans"][0]
    assert found[0]["value"] == best["step_time_s"]


# ── Baselines ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_regressions_are_for_the_worse_only(run: Any, tmp_path: Path) -> None:
    file = str(tmp_path / "base.json")
    assert run("check", NAME, "quickstart", "--against", file, "--update").code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["base.json"]
    slower, faster = (f"cluster.node.scale_out.fabric.bandwidth={rate}" for rate in ("10 GB/s", "1 TB/s"))
    plans = [json_of(run, "estimate", NAME, *change)["plans"][0] for change in ((), ("--set", slower))]
    loss = plans[1]["step_time_s"] / plans[0]["step_time_s"] - 1
    assert loss > 0.03
    ran = run("check", NAME, "--against", file, "--set", slower)
    assert ran.code == 1
    assert re.search(rf"✗ step_time +\S+ s +was \S+ s +\+{loss * 100:.1f} %, allowed \+1.0 % by --within", ran.out)
    assert re.search(r"\n +dp exposed +\S+ m?s +\S+ m?s +\+", ran.out)
    assert "dp reduce-scatter time" in ran.out
    assert run("check", NAME, "--against", file, "--set", slower, "--within", f"{loss * 100 + 0.01} %").code == 0
    assert run("check", NAME, "--against", file, "--set", slower, "--within", f"{loss * 100 - 0.01} %").code == 1
    assert run("check", NAME, "--against", file, "--set", faster).code == 0
    assert run("check", NAME, "--against", file, "--set", faster, "--exact").code == 1
    own = run("check", NAME, "--against", file, "--set", slower, "--within", "90 %", "--set", "limits.mfu.within=1 %")
    assert own.code == 1
    fall = 1 - plans[1]["mfu"] / plans[0]["mfu"]
    assert re.search(rf"✗ mfu +\S+ % +was \S+ % +−{fall * 100:.1f} %, allowed −1.0 %", own.out)


def test_within_of_the_step_time_counts_for_what_follows_from_it(run: Any, tmp_path: Path) -> None:
    """A slower step costs as much more; a chance to fit stands in place of the peak of memory."""
    file = str(tmp_path / "base.json")
    run("check", NAME, "--against", file, "--update")
    slower = ("check", NAME, "--against", file, "--set", "assume.sustained=1.3")
    failed = run(*slower)
    assert (failed.code, "✗ step_time" in failed.out, "✗ cost_per_mtoken" in failed.out) == (1, True, True)
    held = ("--set", "limits.step_time={within: 15 %}")
    assert run(*slower, *held).code == 0
    assert "✗ cost_per_mtoken" in run(*slower, *held, "--set", "limits.cost_per_mtoken={within: 1 %}").out
    larger = ("check", NAME, "--against", file, "--set", "plan.tp=4", "--within", "50 %")
    grown = json_of(run, "estimate", NAME, "--set", "plan.tp=4")["plans"][0]
    assert grown["fit_chance"] > 0.5
    assert "✗ memory_peak" in run(*larger).out
    assert "memory_peak" not in run(*larger, "--set", "limits.fit_chance={at_least: 50 %}").out


def test_updating_keeps_what_was_not_asked_for(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "base.json"
    run("check", NAME, "quickstart", "--against", str(file), "--update")
    before = json.loads(file.read_text("utf-8"))
    slower = "cluster.node.scale_out.fabric.bandwidth=20 GB/s"
    written = run("check", NAME, "--against", str(file), "--update", "--set", slower)
    assert (written.code, f"▲ worse than before: {NAME} step_time" in written.out) == (0, True)
    after = json.loads(file.read_text("utf-8"))
    assert after["scenarios"]["quickstart"] == before["scenarios"]["quickstart"]
    changed = json_of(run, "estimate", NAME, "--set", slower)["plans"][0]
    assert after["scenarios"][NAME]["figures"]["step_time_s"] == changed["step_time_s"]
    assert after["scenarios"][NAME]["figures"]["step_time_s"] != before["scenarios"][NAME]["figures"]["step_time_s"]


def test_an_entry_that_another_process_writes_meanwhile_stays(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is read under its lock: after what another job of CI wrote while this one estimated."""
    file = tmp_path / "base.json"
    run("check", NAME, "--against", str(file), "--update")
    other = file.read_bytes()
    file.unlink()
    order: list[str] = []

    @contextmanager
    def updating(path: Path) -> Iterator[None]:
        file.write_bytes(other)
        order.append("locked")
        yield
        order.append("released")

    monkeypatch.setattr("costmodel.commands.check.lock_for_update", updating)
    for name in ("quickstart", "serve-llama-3.1-70b"):
        assert run("check", name, "--against", str(file), "--update").code == 0
        assert set(json.loads(file.read_text("utf-8"))["scenarios"]) == {NAME, name}
    assert order == ["locked", "released"] * 2


def test_a_scenario_the_baseline_does_not_hold(run: Any, tmp_path: Path) -> None:
    file = str(tmp_path / "base.json")
    run("check", NAME, "--against", file, "--update")
    ran = run("check", "quickstart", "--against", file)
    assert ran.code == 1
    assert "✗ baseline does not contain it: --update adds it" in ran.out
    junit = run("check", "quickstart", "--against", file, "--format", "junit")
    assert (junit.code, 'failures="1"' in junit.out) == (1, True)
    limited = ("--set", "limits.mfu.at_least=1 %")
    both = run("check", NAME, "quickstart", "--against", file, *limited)
    assert (both.code, "▲ not in the baseline" in both.out) == (0, True)
    assert both.out.endswith(", 1 not in the baseline\n")
    assert run("check", "quickstart", "--against", file, *limited, "--exact").code == 1


HOSTILE = {
    "no file": (None, (), "C008"),
    "not YAML": ("{", (), "D002"),
    "empty": ("", (), "D002"),
    "a list": ("[1]", (), "D006"),
    "another schema": ('{"schema": "costmodel/result/v1", "costmodel": "1", "scenarios": {}}', (), "C008"),
    "text for a figure": (
        '{"schema": "costmodel/baseline/v1", "costmodel": "1", "scenarios": {"a": {"title": "a", "plan": {}, '
        '"documents": {}, "figures": {"step_time_s": "long"}}}}',
        (),
        "D006",
    ),
    "no share": ("{}", ("--within", "much"), "D011"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_baselines_that_are_none(name: str, run: Any, faults: Faults, tmp_path: Path) -> None:
    text, more, code = HOSTILE[name]
    file = tmp_path / "base.json"
    if text is not None:
        file.write_text(text, "utf-8")
    found = faults(run("check", NAME, "--against", str(file), *more))
    assert code in [fault.code for fault in found]


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ((NAME, "--update"), "C008"),
        ((NAME, "--within", "-1 %"), "C008"),
        ((NAME, "--within", "much"), "C008"),
        ((NAME, f"scenarios/{NAME}.yaml"), "C008"),
        (("nothing", "nowhere"), "D009"),
        ((NAME, "--set", "limits.step_time.target=3 s"), "D006"),
        ((NAME, "--set", "limits.step_time.at_most=3 GB"), "D007"),
        ((NAME, "--set", "limits.tempo.at_most=3"), "D003"),
        ((NAME, "--set", "limits.mfu={at_most: 0.1, at_least: 0.2}"), "D006"),
    ],
)
def test_what_check_refuses(args: tuple[str, ...], code: str, run: Any, faults: Faults) -> None:
    assert {fault.code for fault in faults(run("check", *args))} == {code}


def test_a_folder_is_no_baseline(run: Any, faults: Faults, tmp_path: Path) -> None:
    assert faults(run("check", NAME, "--against", str(tmp_path)))[0].code == "D001"
    assert faults(run("check", NAME, "--against", str(tmp_path / "no" / "x.json"), "--update"))[0].code == "C002"


# ── Forms ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_forms_for_runners(run: Any, tmp_path: Path) -> None:
    (tmp_path / "held, 1.yaml").write_text(LIMITED.replace("title: Held", "title: a <b> & c"), "utf-8")
    annotations = run("check", "held, 1.yaml", "--format", "github", cwd=tmp_path)
    assert annotations.code == 1
    line = re.match(r"::error file=(\S* \S*),line=(\d+),title=costmodel check::(.*)\n", annotations.out)
    assert line is not None
    assert (line[1], line[2]) == ("held%2C 1.yaml", "9")
    assert "99.0 %25" in line[3]
    root = ElementTree.fromstring(run("check", "held, 1.yaml", "--format", "junit", cwd=tmp_path).out.encode())
    (suite,) = root
    assert (suite.get("tests"), suite.get("failures")) == ("3", "1")
    assert [case.get("name") for case in suite if len(case)] == ["limit mfu"]
    comment = run("check", "held, 1.yaml", "--format", "markdown", cwd=tmp_path).out
    assert comment.startswith("**costmodel: 1 of 3 failed.**\n")
    assert "| held, 1 | llama-3-8b | 4 × dgx-h100 | 8192 | 512 | mfu |" in comment


def test_the_comment_folds_what_moved(run: Any, tmp_path: Path) -> None:
    file = str(tmp_path / "base.json")
    run("check", NAME, "quickstart", "--against", file, "--update")
    slower = ("--set", "cluster.node.scale_out.fabric.bandwidth=20 GB/s")
    comment = run("check", NAME, "quickstart", "--against", file, *slower, "--format", "markdown").out
    assert comment.count("<details>") == comment.count("</details>") >= 1
    assert f"<summary>{NAME}: what moved</summary>" in comment
    assert "dp exposed" in comment


# ── The documented way ───────────────────────────────────────────────────────────────────────────────────────────────


def steps_of_the_workflow() -> list[str]:
    """The commands that the workflow of docs/guide/ci.md would run after installing."""
    text = GUIDE.read_text("utf-8")
    block = next(part for part in re.findall(r"(?ms)^```yaml\n(.*?)^```$", text) if "runs-on" in part)
    steps = re.findall(r"(?m)^ +- run: (.*)$", block)
    assert steps[0].startswith("pip install ")
    return steps[1:]


def as_runner(command: str, folder: Path, shell: Path) -> subprocess.CompletedProcess[str]:
    """A step as the runner would take it, with this checkout's program as the one installed."""
    path = f"{shell}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "GITHUB_STEP_SUMMARY": "summary.md", "PYTHONPATH": str(ROOT)}
    given = ["bash", "-e", "-o", "pipefail", "-c", command]
    return subprocess.run(given, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def repository(tmp_path: Path) -> tuple[Path, Path]:
    """Somebody's repository with a scenario, and a folder with the program."""
    shell, folder = tmp_path / "bin", tmp_path / "theirs"
    shell.mkdir()
    (folder / "scenarios").mkdir(parents=True)
    program = shell / "costmodel"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m costmodel "$@"\n', "utf-8")
    program.chmod(0o755)
    (folder / "scenarios" / "held.yaml").write_text(LIMITED.replace("99 %", "20 %"), "utf-8")
    return folder, shell


def test_the_workflow_of_the_guide(repository: tuple[Path, Path]) -> None:
    folder, shell = repository
    guide = GUIDE.read_text("utf-8").replace("\n", " ")
    update = "costmodel check scenarios/*.yaml --against baseline.json --update"
    assert update in guide
    assert as_runner(update, folder, shell).returncode == 0
    summary, annotate = steps_of_the_workflow()
    assert as_runner(summary, folder, shell).returncode == 0
    assert as_runner(annotate, folder, shell).returncode == 0
    held = folder / "scenarios" / "held.yaml"
    held.write_text(LIMITED, "utf-8")
    assert as_runner(summary, folder, shell).returncode == 0
    broken = as_runner(annotate, folder, shell)
    assert broken.returncode == 1
    assert broken.stdout.startswith("::error file=scenarios/held.yaml,line=9,")
    assert (folder / "summary.md").read_text("utf-8").count("**costmodel: ") == 2


def test_the_hook(repository: tuple[Path, Path]) -> None:
    """What pre-commit would run: the entry, the arguments of the guide, the files that match."""
    folder, shell = repository
    hook = dict(re.findall(r"(?m)^[- ] (\w+): (.*)$", (ROOT / ".pre-commit-hooks.yaml").read_text("utf-8")))
    files = [
        path for path in ("scenarios/held.yaml", "scenarios/models/x.yaml", "a.yaml") if re.search(hook["files"], path)
    ]
    assert files == ["scenarios/held.yaml"]
    guide = GUIDE.read_text("utf-8")
    assert f"- id: {hook['id']}" in guide
    args = re.search(r"args: \[(.*)\]", guide)
    assert args is not None
    command = " ".join([hook["entry"], *args[1].split(", "), *files])
    assert as_runner(f"{command} --update", folder, shell).returncode == 0
    assert as_runner(command, folder, shell).returncode == 0
    (folder / "scenarios" / "held.yaml").write_text(LIMITED, "utf-8")
    assert as_runner(command, folder, shell).returncode == 1


# ── Flags ────────────────────────────────────────────────────────────────────────────────────────────────────────────

TRAINED = ("--model", "llama-3.1-8b", "--gpu", "h100", "--gpus", "64")
SERVED = ("--model", "llama-3.1-8b", "--gpu", "h100", "--rate", "8", "--prompt", "2k", "--answer", "200")


@pytest.mark.parametrize(
    ("flags", "limit", "figure"),
    [(TRAINED, "mfu.at_least", "mfu"), (SERVED, "tpot.at_most", "tpot")],
    ids=["training", "serving"],
)
def test_flags_alone_are_checked_as_estimate_answers_them(
    flags: tuple[str, ...], limit: str, figure: str, run: Any, tmp_path: Path
) -> None:
    worst = "0.0001" if figure == "mfu" else "1 h"
    answer = json.loads(run("estimate", *flags, "--json").out)["plans"][0]
    checked = json_of(run, "check", *flags, "--set", f"limits.{limit}={worst}")
    (scenario,) = checked["scenarios"]
    (finding,) = scenario["findings"]
    expected = answer[figure] if figure in answer else answer[f"{figure}_s"]
    assert (scenario["name"], finding["value"]) == (" ".join(flags), pytest.approx(expected))
    assert {item["path"] for item in scenario["flags"]["assumed"]} >= {"cluster.node", "plan"}
    shown = run("check", *flags, "--set", f"limits.{limit}={worst}").out
    assert "assumed plan" in shown  # the plan that the search found is stated
    baseline = str(tmp_path / "baseline.json")
    assert run("check", *flags, "--against", baseline, "--update").code == 0
    assert run("check", *flags, "--against", baseline, "--exact").code == 0
    assert [*json.loads(Path(baseline).read_text("utf-8"))["scenarios"]] == [" ".join(flags)]


def test_flags_apply_to_every_scenario(run: Any, faults: Faults) -> None:
    found = json_of(run, "check", NAME, "quickstart", "--gpu", "h200")["scenarios"]
    assert [(one["name"], one["facts"]["accelerator"]) for one in found] == [
        (name, "h200-sxm") for name in (NAME, "quickstart")
    ]
    assert "need a model" in faults(run("check", "--gpus", "8"))[0].sentence
    assert [fault.code for fault in faults(run("check", "nope", NAME, "nor-this"))] == ["D009", "D009"]


def test_a_serving_scenario_without_a_plan_is_checked_with_the_best_one(run: Any, tmp_path: Path) -> None:
    text = (ROOT / "scenarios" / "serve-llama-3.1-70b.yaml").read_text("utf-8")
    path = tmp_path / "open.yaml"
    path.write_text(re.sub(r"^plan:.*\n(?:  .*\n)+", "", text, flags=re.MULTILINE), "utf-8")
    assert "plan:" not in path.read_text("utf-8")
    ran = run("check", str(path))
    assert (ran.code, ran.err) == (0, "")
    assert "✓ 2 limits" in ran.out
    assert "the best plan of costmodel search" in ran.out


@pytest.mark.parametrize(("replicas", "style"), [("2", WARN), ("3", GOOD)])
def test_a_kept_service_states_its_chance_in_the_colour_of_a_search(replicas: str, style: str, run: Any) -> None:
    """The verdict is that of the limits; amber where the chance is under the 90 % that searches prefer."""
    plan = ("serve-llama-3.1-70b", "--set", f"plan.replicas={replicas}", "--set", "cluster.nodes=3")
    (figures,) = json.loads(run("estimate", *plan, "--json").out)["plans"]
    chance = figures["limits_chance"]
    assert (chance >= 0.9) is (style == GOOD)
    ran = run("check", *plan)
    assert (ran.code, f"✓ 2 limits · {chance * 100:.1f} % chance to meet all limits" in ran.out) == (0, True)
    assert chance_style(chance) == style
    assert f"chance {chance * 100:.1f} %" in run("estimate", *plan).out


@pytest.mark.parametrize(
    ("name", "limit"),
    [("serve-llama-3.1-70b", "tpot.at_most=3ms"), ("grpo-qwen-2.5-7b-64", "iteration_time.at_most=3s")],
)
def test_runners_read_checks_of_every_workload(name: str, limit: str, run: Any) -> None:
    """The forms for runners were the terminal's for serving and reinforcement learning."""
    annotated = run("check", name, "--set", f"limits.{limit}", "--format", "github")
    assert (annotated.code, annotated.err) == (1, "")
    first, *_, last = annotated.out.splitlines()
    assert first.startswith(f"::error file=scenarios/{name}.yaml,line=1,title=costmodel check::{name}: ")
    assert re.fullmatch(r"1 of \d+ failed", last)
    suite = ElementTree.fromstring(run("check", name, "--set", f"limits.{limit}", "--format", "junit").out)[0]
    failures = [case for case in suite if case.find("failure") is not None]
    assert (suite.get("name"), suite.get("failures"), suite.get("tests")) == (name, "1", str(len(suite)))
    assert [case.get("name") for case in failures] == [f"limit {limit.partition('.')[0]}"]


EVERY = {
    "quickstart": ("step_time", "1 h", "cluster.node.accelerator.memory.bandwidth=2 TB/s"),
    "serve-llama-3.1-70b": ("tpot", "1 s", "cluster.node.accelerator.memory.bandwidth=2 TB/s"),
    "grpo-qwen-2.5-7b-64": ("iteration_time", "1 d", "cluster.node.accelerator.memory.bandwidth=2 TB/s"),
}


@pytest.mark.parametrize("name", EVERY)
def test_every_workload_is_held_to_limits_and_to_a_baseline(name: str, run: Any, tmp_path: Path) -> None:
    result, most, slower = EVERY[name]
    file, limit = str(tmp_path / "base.json"), ("--set", f"limits.{result}.at_most={most}")
    assert run("check", name, *limit, "--against", file, "--update").code == 0
    assert run("check", name, *limit, "--against", file, "--exact").code == 0
    worse = run("check", name, *limit, "--against", file, "--set", slower)
    assert (worse.code, worse.err) == (1, "")
    assert re.search(rf"✗ {result} +\S+ \w+.* was \S+ \w+ .*, allowed \+1.0 %", worse.out)
    plan, now = (
        json_of(run, "estimate", name, *more)["plans"][0][machine_name(result)] for more in ((), ("--set", slower))
    )
    findings = json_of(run, "check", name, *limit, "--against", file, "--set", slower)["scenarios"][0]["findings"]
    (found,) = (each for each in findings if each["name"] == result and each["kind"] == "regression")
    assert (found["bound"], found["value"], found["kept"]) == (plan, now, False)


def test_answers_of_check_have_the_same_keys_whatever_the_workload(run: Any) -> None:
    found = [json_of(run, "check", name, "--set", f"limits.{EVERY[name][0]}.at_most=1 ns") for name in EVERY]
    scenarios = [answer["scenarios"][0] for answer in found]
    assert [scenario["workload"] for scenario in scenarios] == ["training", "serving", "rl"]
    common = {*scenarios[0]} - {"sequence", "global_batch"}
    assert all({*scenario} - {"sequence", "global_batch"} == common for scenario in scenarios)
    assert len({tuple(scenario["findings"][0]) for scenario in scenarios}) == 1


@pytest.mark.parametrize("form", ["csv", "markdown", "html", "github", "junit"])
def test_one_command_checks_scenarios_of_all_workloads_in_every_form(form: str, run: Any) -> None:
    ran = run("check", *EVERY, "--format", form)
    assert (ran.code, ran.err) == (0, "")
    named = all(name in ran.out for name in EVERY)
    assert "2 checks passed, 3 scenarios" in ran.out if form in ("github", "markdown") else named


def test_an_improvement_is_printed(run: Any, tmp_path: Path) -> None:
    """With the largest change against the baseline; a baseline without limits has figures behind -v, not limits."""
    held = ("check", "quickstart", "--against", "baseline.json")
    assert "Wrote the results of 1 scenario to " in run(*held, "--update", cwd=tmp_path).out
    better = run(*held, "--set", "assume.sustained=1.0", brief=True, cwd=tmp_path)
    assert better.code == 0
    assert re.search(r"✓ no regression: (step_time|cost_per_mtoken) −\d+\.\d %", better.out), better.out
    assert re.search(r"More with -v: .*\d figures", better.out), better.out


@pytest.mark.parametrize(
    ("name", "setting", "line"),
    [
        ("quickstart", "workload.sequence=16384", "~  workload.sequence  8192 → 16384"),
        ("serve-llama-3.1-70b", "workload.rate=9 /s", "~  workload.rate  8 /s → 9 /s"),
        ("grpo-qwen-2.5-7b-64", "workload.samples=32", "~  workload.samples  16 → 32"),
    ],
)
def test_a_failure_names_what_changed_in_the_scenario(
    name: str, setting: str, line: str, run: Any, tmp_path: Path
) -> None:
    """Also on a line of the file itself; what the scenario states is kept, not what its documents hold."""
    path, _, value = setting.partition("=")
    mine, against = tmp_path / "mine.yaml", ("--against", str(tmp_path / "base.json"))
    mine.write_text(run("show", name).out, "utf-8")
    assert run("check", str(mine), *against, "--update").code == 0
    entry = json.loads((tmp_path / "base.json").read_text("utf-8"))["scenarios"]["mine"]
    assert path in entry["inputs"]
    assert len(entry["inputs"]) < 25
    ran = run("check", str(mine), *against, "--set", setting)
    assert (ran.code, line in ran.out) == (1, True)
    old = re.search(rf"(?m)^  {path.rpartition('.')[2]}: *(\S.*?)( *#.*)?$", mine.read_text("utf-8"))
    assert old is not None
    mine.write_text(mine.read_text("utf-8").replace(old[0], f"  {path.rpartition('.')[2]}: {value}"), "utf-8")
    ran = run("check", str(mine), *against)
    assert (ran.code, re.search(rf"{re.escape(line)}  \S*mine\.yaml:\d+\n", ran.out) is not None) == (1, True), ran
