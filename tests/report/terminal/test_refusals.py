"""Refusals: every reason is said in the figures of its own case, and what it says to set instead takes it away."""

from __future__ import annotations

import functools
import itertools
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from estimate.cases import document, model
from estimate.training.test_constraints import CASES

from costmodel.documents.reader.load_scenario import load, load_any
from costmodel.documents.reader.serving_scenario import serving
from costmodel.estimate.serving.predict_serving import predict as predict_serving
from costmodel.estimate.shared.reasons import REFUSALS
from costmodel.estimate.training_answer.predict_training import Answer, predict
from costmodel.explore.explain.plan_remedies import remedies
from costmodel.report.terminal.refusals import reason
from costmodel.report.terminal.serving_formatting import reason as serving_reason

Broken = tuple[str, dict[str, Any], dict[str, Any]]
SMALL = model()
NAME = "llama-3-70b-512"
ON_HOST = {"zero": 3, "offload": ["optimizer", "parameters"]}
BROKEN: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {
    **{code: [(asked, plan) for asked, plan, _ in many] for code, many in CASES.items()},
    "L012": [({"shape": "gpt-2-small", "sequence": 2048}, {})],
    "M001": [({"shape": "llama-3-70b", "nodes": 4}, {"tp": 8, "zero": 0})],
    "M002": [({"limits": {"memory": {"at_most": "12 %"}}}, {"micro_batch": 8})],
    "M003": [({"shape": "bloom-176b", "stack": "deepspeed"}, ON_HOST)],
    "T001": [
        ({"limits": {"mfu": {"at_least": "15 %"}}}, {"tp": 8}),
        ({"limits": {"step_time": {"target": "0.3 s", "within": "90 %"}}}, {"tp": 8}),
    ],
}
EACH = [
    pytest.param((code, *one), id=f"{code}-{position}")
    for code, many in BROKEN.items()
    for position, one in enumerate(many)
]
FIRST = [case if str(case.id).endswith("-0") else pytest.param(*case.values, id=case.id, marks=pytest.mark.whole)
         for case in EACH]  # fmt: skip
# Figures besides those of the plan, of which a sentence holds one: what there is to divide, or to keep within.
TOLD = {
    "L001": ("8", "24"),
    "L002": ("8", "9"),
    "L003": ("12", "4"),
    "L004": ("6",),
    "L005": ("60", "64"),
    "L006": ("12", "6"),
    "L007": ("4,100", "1,028"),
    "L008": ("4,100",),
    "L012": ("2,048", "1,024"),
    "L020": ("6",),
    "L021": ("8", "4"),
    "L022": ("1,028",),
    "L025": ("4",),
    "L030": ("4,104", "16"),
    "L031": ("2", "4"),
    "L034": ("2",),
    "L035": ("2",),
    "L036": ("2",),
    "L032": ("8", "0"),
    "L041": ("2", "1"),
    "M001": ("79.6",),
    "M002": ("9.56", "12.0"),
    "M003": ("1,863", "1,907", "2,048"),
    "T001": ("15.0", "300"),
}


def asked_of(folder: Path, more: dict[str, Any], plan: dict[str, Any], *settings: str) -> Answer:
    """The answer to such a scenario in a file, with --set."""
    (folder / "asked.yaml").write_text(json.dumps({**document(**{"shape": SMALL, **more}), "plan": plan}))
    return predict(load(str(folder / "asked.yaml"), settings))


def figures(text: str) -> set[str]:
    return {figure.rstrip(".,") for figure in re.findall(r"\d[\d,.]*", text)}


OF_THE_RUN = {"R001", "R002", "R003", "R007", "R013"}  # broken in tests/estimate/run/test_whole_run.py


def test_every_reason_is_broken_here() -> None:
    assert {*BROKEN} == {*REFUSALS} - {"L010", "L044", "M004"} - OF_THE_RUN, "the first three are of a search"


@pytest.mark.parametrize("broken", EACH)
def test_a_reason_is_said_in_figures_of_its_case(broken: Broken, tmp_path: Path) -> None:
    code, more, plan = broken
    given = asked_of(tmp_path, more, plan)
    assert code in (given.refused or given.broken)
    said = reason(given, code)
    figured = {*TOLD.get(code, ())} & figures(said)
    assert bool(figured) == (code in TOLD), said
    values = itertools.chain(*(value if isinstance(value, list) else [value] for value in plan.values()))
    words = [f"{value:,}" if isinstance(value, int) else str(value) for value in values]
    named = any(re.search(rf"(?<![\d,]){re.escape(word)}(?![\d,]*\d)", said) for word in words)
    assert named or figured or not plan, said


@pytest.mark.parametrize("broken", FIRST)
def test_what_it_says_to_set_takes_it_away(broken: Broken, tmp_path: Path) -> None:
    """Of each reason one case, unless --whole asks for all."""
    code, more, plan = broken
    with_settings = functools.cache(functools.partial(asked_of, tmp_path, more, plan))
    given = with_settings()
    found = remedies(given, code)
    assert found
    for remedy in found:
        for settings in remedy.alternatives:
            then = with_settings(*settings)
            left = then.refused or then.broken
            assert code not in left, settings
            assert not left or given.refused, "what keeps one limit keeps all"
        costs = with_settings(*remedy.settings).evaluation.costs.row()
        if remedy.step_time is None:
            assert remedy.left
        else:
            figures = costs["memory_peak"], costs["memory_share"], costs["step_time"]
            assert (remedy.memory_peak, remedy.memory_share, remedy.step_time) == pytest.approx(figures)


def test_the_command_line_says_so(run: Any) -> None:
    """A remedy can be typed as it stands, and is in the JSON."""
    ran = run("estimate", NAME, "--set", "plan.tp=6")
    assert "512 accelerators are not divisible by tp 6 × pp 4 = 24" in ran.out
    assert "64 heads are not divisible by tp 6" in ran.out
    (line,) = (line for line in ran.out.splitlines() if line.startswith("    try "))
    option, inputs, *_ = shlex.split(line.removeprefix("    try ").partition(" (or ")[0])
    mended = run("estimate", NAME, option, inputs)
    assert mended.code == 0
    memory, step, chance = re.split(" {2,}", line.strip())[-3:]
    assert f"{memory.removesuffix(' GiB')} of " in mended.out
    assert f"step time   {step} " in mended.out
    assert f"at risk: {chance.removeprefix('fits with a chance of ')} to fit" in mended.out
    refused = json.loads(run("estimate", NAME, "--set", "plan.tp=6", "--json").out)["refused"]
    assert all(inputs in entry["try"] for entry in refused)
    assert [entry["code"] for entry in refused] == ["L001", "L003", "L004", "L007", "L008"]


@pytest.mark.parametrize("asked", [("estimate",), ("check",), ("sweep", "--over", "plan.vpp=1"), ("search",)])
def test_of_a_broken_number_of_replicas_that_alone_is_said(asked: tuple[str, ...], run: Any) -> None:
    """56 accelerators over tp 8 × pp 4: nothing more is said of 1.75 replicas, whoever asks."""
    ran = run(asked[0], NAME, "--set", "cluster.nodes=7", *asked[1:])
    assert "L001" in ran.out
    assert not {"L005", "L006", "L021", "L032"} & set(re.findall(r"[A-Z]\d{3}", ran.out.partition("why not")[0]))


def test_dp_that_does_not_make_the_ranks_is_told_which_does(run: Any) -> None:
    ran = run("estimate", NAME, "--set", "plan.dp=24")
    assert "tp 8 × pp 4 × dp 24 = 768, the cluster has 512 accelerators" in ran.out
    assert "--set plan.dp=16" in ran.out
    assert "global batch 1,024 is no multiple of dp 24" in ran.out


def test_by_how_much_a_plan_is_too_large(run: Any) -> None:
    ran = run("estimate", NAME, "--set", "plan.zero=0", "--set", "plan.tp=1")
    plan = json.loads(run("estimate", NAME, "--set", "plan.zero=0", "--set", "plan.tp=1", "--json").out)
    (costs,), (refused,) = plan["plans"], plan["refused"]
    over = costs["memory_peak_bytes"] - costs["memory_peak_bytes"] / costs["memory_share"]
    assert refused["case"] in ran.out
    assert f"{over / 2**30:,.0f} GiB over the 79.6 GiB usable" in refused["case"]


def test_why_not_says_an_example_in_its_figures(run: Any) -> None:
    ran = run("search", NAME, "--why-not", "--set", "limits.step_time.at_most=15.6 s")
    lines = ran.out.splitlines()
    printed = [lines[at + 1].strip() for at, line in enumerate(lines) if line.strip().startswith("e.g. ")]
    assert any(re.fullmatch(r"80 layers do not split over pp .*", line) for line in printed)
    assert any("GiB over the 79.6 GiB usable" in line for line in printed)
    assert any("exceeds its limit of 15.6 s by" in line for line in printed)


def test_a_search_says_by_how_much_its_nearest_plan_misses_a_limit(run: Any) -> None:
    ran = run("search", NAME, "--set", "limits.step_time.at_most=14 s")
    assert " · 0 meet all limits · " in ran.out
    missed = re.search(r"misses    step_time (\S+) s exceeds its limit of 14.0 s by (\d+) ms", ran.out)
    assert missed
    assert float(missed[1]) - 14.0 == pytest.approx(float(missed[2]) / 1000, abs=0.06)


def test_one_s_own_plan_is_refused_in_its_figures(run: Any) -> None:
    asked = ("--set", "plan.vpp=7")
    said = "80 layers do not split over pp 4 × vpp 7 = 28"
    assert said in run("search", NAME, *asked).out
    assert said in run("check", NAME, *asked).out


def test_reasons_of_a_search_alone(run: Any) -> None:
    """A precision that nothing runs is named; what is searched twice says so."""
    asked = ("--set", "search={precision: [bf16, mxfp8], sequence_parallel: [true, false]}")
    lines = run("search", NAME, "--why-not", *asked).out.splitlines()
    places = {code: at for code in ("L044", "L010") for at, line in enumerate(lines) if line.startswith(f"  {code}")}
    assert lines[places["L044"] + 2].strip() == "mxfp8"
    assert "an equal plan is in the search too" in lines[places["L010"] + 3]


def test_what_is_left_open_moves_with_what_is_set(run: Any) -> None:
    """dp, the stage of a pipeline and the chunks of a schedule follow: a remedy is tried as --set would have it."""
    for settings in (("plan.pp=3",), ("plan.schedule=zb-v", "plan.pp=3"), ("plan.dp=16", "plan.micro_batch=3")):
        given = [part for setting in settings for part in ("--set", setting)]
        refused = json.loads(run("estimate", NAME, *given, "--json").out)["refused"]
        assert refused
        for entry in refused:
            for tried in entry["try"]:
                then = json.loads(run("estimate", NAME, *given, "--set", tried, "--json").out)["refused"]
                assert entry["code"] not in [other["code"] for other in then], tried


def test_instances_without_room_for_a_request() -> None:
    apart = "plan={prefill: {tp: 2}, decode: {tp: 2}}"
    answer = predict_serving(serving(load_any("serve-llama-3.1-70b", (apart, "workload.context=100000"))))
    assert "M001" in answer.broken
    assert serving_reason(answer, "M001").startswith("needs 86.2 of 72.9 GiB per GPU: weights 65.7, ")


@pytest.mark.parametrize("setting", ["plan.tp=3", "cluster.nodes=1"])
def test_a_degree_of_data_parallelism_that_is_no_whole_number_is_a_dash(setting: str, run: Any) -> None:
    """512 / (3 × 4) and 8 / (8 × 4) ranks: there is no such dp."""
    out = run("estimate", "llama-3-70b-512", "--set", setting).out
    assert " · dp — · " in out
    assert " · dp 16 · " in run("estimate", "llama-3-70b-512").out
