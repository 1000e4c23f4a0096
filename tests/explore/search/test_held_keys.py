"""What --set gives the plan is held by every search, unless the space lists the key; the file's plan holds nothing."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from estimate.cases import document, mixed

from costmodel.documents.reader.load_scenario import load
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.scenario import Plan, Space
from costmodel.explore.search.search import TrainingSearch, search
from costmodel.ground.errors import value_text

NAME = "llama-3-70b-512"
ON_HOST = ("stack=deepspeed", "cluster.nodes=4", "plan.zero=3", "plan.offload=[optimizer]")
# Of every key of the plan a value that no search would take by itself, and what else it needs.
HELD: dict[str, tuple[str, tuple[str, ...]]] = {
    "dp": ("16", ()),
    "tp": ("4", ()),
    "pp": ("8", ()),
    "vpp": ("2", ()),
    "micro_batch": ("2", ()),
    "ep": ("4", ()),
    "etp": ("2", ()),
    "cp": ("2", ()),
    "cp_type": ("a2a", ("plan.cp=2",)),
    "dp_replicate": ("2", ()),
    "zero": ("3", ()),
    "recompute": ("full", ()),
    "recompute_modules": ("[norms]", ()),
    "recompute_layers": ("3", ()),
    "recompute_method": ("uniform", ("plan.recompute_layers=2",)),
    "offload": ("[optimizer]", ()),
    "offload_to": ("nvme", ON_HOST),
    "offload_layers": ("40", ("plan.offload=[activations]",)),
    "schedule": ("interleaved", ()),
    "sequence_parallel": ("false", ()),
    "order": ("tp-cp-pp-dp", ()),
    "split": ("spread", ()),
    "first_stage_layers": ("20", ()),
    "last_stage_layers": ("20", ()),
    "compression": ("fp16", ()),
    "shares": ("equal", ()),
    "sync": ("async", ("stack=ddp",)),
}
SCENARIOS = {"shares": "mixed-llama-3-8b-96", "sync": "ddp-llama-3.2-1b-32"}  # others take NAME


def of_experts(folder: Path) -> str:
    """A small mixture of experts, in a file."""
    path = folder / "experts.yaml"
    path.write_text(json.dumps({**document(mixed(), nodes=1), "plan": {"tp": 2}}))
    return str(path)


def texts(found: TrainingSearch, key: str) -> set[str]:
    """What the plans of a search have there, as one would write it."""
    held = (getattr(row.structure, key) if hasattr(row.structure, key) else row.sizes[key] for row in found.best)
    return {value_text(list(value) if isinstance(value, tuple) else value) for value in held}


def searched(case: ResolvedScenario) -> TrainingSearch:
    return search(case, 200, workers=1)


@functools.cache
def found_freely(name: str, settings: tuple[str, ...]) -> TrainingSearch:
    return searched(load(name, settings))


def test_every_key_of_the_plan_is_tried_here_and_can_be_listed() -> None:
    assert {*HELD} == {*Plan.model_fields} - {"sites"}, "a search takes the sites that the plan has"
    assert {*HELD} == {*Space.model_fields} - {"precision"}


@pytest.mark.share(3)
@pytest.mark.parametrize("key", HELD)
def test_a_key_that_is_set_is_held(key: str, tmp_path: Path) -> None:
    """A share of the keys, unless --whole asks for all."""
    value, more = HELD[key]
    name = of_experts(tmp_path) if key in ("ep", "etp") else SCENARIOS.get(key, NAME)
    case = load(name, (*more, f"plan.{key}={value}"))
    found = searched(case)
    assert found.best, "some plan fits"
    assert texts(found, key) == {value}
    assert value_text(case.held.values[key]) == value
    assert case.held.conflicts == ()
    free = found_freely(name, more)
    assert texts(free, key) != {value}, "which a free search would not give"


@pytest.mark.parametrize(("key", "other"), [("tp", "4"), ("zero", "3"), ("recompute", "full"), ("schedule", "1f1b")])
def test_a_key_that_search_lists_is_not_held(key: str, other: str) -> None:
    listed = {"tp": "[8]", "zero": "[1, 2]", "recompute": "[none]", "schedule": "[interleaved]"}[key]
    case = load(NAME, (f"plan.{key}={other}", f"search.{key}={listed}"))
    assert case.held.values == {}
    (sentence,) = case.held.conflicts
    assert f"plan.{key}={other} is not fixed" in sentence
    assert texts(searched(case), key) <= {part.strip() for part in listed.strip("[]").split(",")}
    inputs = sentence.partition("--set ")[2].removesuffix(" fixes it")
    assert texts(searched(load(NAME, (f"plan.{key}={other}", inputs))), key) == {other}, "the remedy holds it"


def test_a_list_of_that_value_alone_is_no_conflict() -> None:
    assert load(NAME, ("plan.tp=4", "search.tp=[4]")).held.conflicts == ()


def test_the_plan_of_the_file_is_ranked_and_holds_nothing() -> None:
    case = load(NAME)
    assert case.held.values == {}
    assert case.scenario.plan is not None
    found = searched(case)
    assert found.yours is not None
    assert len(texts(found, "pp")) > 1


def test_null_holds_nothing_and_a_whole_plan_all_its_keys() -> None:
    assert load(NAME, ("plan.zero=null", "plan.dp=null")).held.values == {}
    assert {*load(NAME, ("plan={tp: 4, pp: 2}",)).held.values} == {"tp", "pp"}
    assert load(NAME, ("plan={tp: 4}", "plan=null")).held.values == {}
    assert {*load(NAME, ("plan.zero=3", "plan={tp: 4}")).held.values} == {"tp", "zero"}, "a key that was set stays set"


def test_a_plan_that_is_all_from_the_command_line_is_nobody_s_own(tmp_path: Path) -> None:
    path = tmp_path / "bare.yaml"
    path.write_text(json.dumps(document(nodes=1)))
    found = searched(load(str(path), ("plan.zero=3",)))
    assert found.yours is None
    assert texts(found, "zero") == {"3"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            ("plan.recompute=full", "plan.recompute_modules=[norms]"),
            "plan.recompute_modules=[norms] cannot be combined with plan.recompute=full",
        ),
        (("plan.recompute=full", "search.recompute_modules=[[norms]]"), "search.recompute_modules is not tried"),
        (("plan.recompute_modules=[norms]", "search.recompute=[none]"), "for recompute selective alone"),
        (
            ("plan.split=spread", "plan.first_stage_layers=20"),
            "plan.split=spread cannot be combined with plan.first_stage_layers=20",
        ),
        (("plan.split=spread", "search.first_stage_layers=[20]"), "search.first_stage_layers is not tried"),
        (("plan.first_stage_layers=20", "search.split=[even]"), "is not fixed for every plan"),
        (("workload.precision=fp8", "search.precision=[bf16]"), "workload.precision=fp8 is not fixed"),
    ],
)
def test_where_plan_and_search_disagree_it_is_said(settings: tuple[str, ...], words: str, run: Any) -> None:
    given = [part for setting in settings for part in ("--set", setting)]
    ran = run("search", NAME, "--top", "1", *given)
    assert "▲ N024" in ran.out
    assert words in " ".join(ran.out.split())
    notes = json.loads(run("search", NAME, "--top", "1", *given, "--json").out)["notes"]
    assert any(note["code"] == "N024" and words in note["text"] for note in notes)


@pytest.mark.parametrize(
    "command",
    [
        ("search",),
        ("sweep", "--best", "--over", "cluster.nodes=32,64"),
        ("scale", "--best", "--ranks", "256..512"),
        ("solve", "--best", "--over", "cluster.nodes=32,64", "--for", "mfu>=1 %"),
    ],
)
def test_every_search_holds_it_and_its_head_says_so(command: tuple[str, ...], run: Any) -> None:
    verb, *options = command
    ran = run(verb, NAME, *options, "--set", "plan.zero=3", "--set", "plan.tp=4")
    assert "fixed by --set: tp 4 · zero 3" in ran.out.splitlines()[:4]
    answer = json.loads(run(verb, NAME, *options, "--set", "plan.zero=3", "--set", "plan.tp=4", "--json").out)
    assert answer["held"] == {"tp": 4, "zero": 3}
    rows = answer.get("plans") or answer.get("points") or answer.get("sizes") or [answer["plan"]]
    assert {(row["tp"], row["zero"]) for row in rows} == {(4, 3)}


def test_a_size_of_a_scale_can_be_held(run: Any) -> None:
    """With the best plan at each size dp is held as any key, and the other degrees follow from the ranks."""
    asked = ("scale", NAME, "--best", "--ranks", "128..512", "--set", "plan.dp=16", "--json")
    sizes = json.loads(run(*asked).out)["sizes"]
    assert [row["dp"] for row in sizes] == [16, 16, 16]
    assert [row["tp"] * row["pp"] * row["cp"] for row in sizes] == [8, 16, 32]


@pytest.mark.parametrize("key", ["tp", "zero"])
def test_values_of_a_key_are_held_one_after_the_other(key: str, run: Any) -> None:
    over = f"plan.{key}=1,2"
    points = json.loads(run("sweep", NAME, "--best", "--over", over, "--json").out)["points"]
    assert [point[key] for point in points] == [1, 2]
    plans = json.loads(run("search", NAME, "--over", over, "--json", "--top", "50").out)["plans"]
    assert {plan[key] for plan in plans} <= {1, 2}
    assert all(plan[f"plan.{key}"] == plan[key] for plan in plans)
    solved = json.loads(run("solve", NAME, "--best", "--over", over, "--for", "mfu>=1 %", "--json").out)
    assert solved["plan"][key] == 1


def test_what_varies_is_not_said_to_be_held(run: Any) -> None:
    given = ("--set", "plan.zero=3", "--set", "plan.tp=4", "--json")
    for asked in (("search", NAME), ("sweep", NAME, "--best")):
        answer = json.loads(run(*asked, "--over", "plan.zero=1,2", *given).out)
        assert answer["held"] == {"tp": 4}
        assert {row["zero"] for row in answer.get("plans") or answer["points"]} <= {1, 2}
        assert "fixed by --set: tp 4\n" in run(*asked, "--over", "plan.zero=1,2", *given[:-1]).out


def test_after_an_estimate_a_search_is_free_to_find_another(run: Any) -> None:
    """The plan that was looked at is not held; whatever else was set stays."""
    given = ("--set", "plan.tp=4", "--set", "plan.pp=8", "--set", "plan.vpp=2", "--set", "cluster.node=dgx-h200")
    for more in ((), ("--set", "plan.tp=3")):
        lines = run("estimate", NAME, *given, *more).out.splitlines()
        (following,) = (line for line in lines if "costmodel search" in line)
        assert following == f"Next: costmodel search {NAME} --set cluster.node=dgx-h200"


def test_after_a_solve_for_the_best_the_search_holds_the_same(run: Any) -> None:
    ran = run("solve", NAME, "--best", "--over", "cluster.nodes=32,64", "--for", "mfu>=1 %", "--set", "plan.zero=3")
    assert ran.out.splitlines()[-1] == f"Next: costmodel search {NAME} --set plan.zero=3 --set cluster.nodes=32"


def test_the_best_of_a_search_is_the_plan_it_names(run: Any) -> None:
    import shlex

    ran = run("search", NAME, "--set", "plan.zero=3", "--set", "plan.recompute_modules=[norms]")
    best = shlex.split(ran.out.splitlines()[-1].partition("costmodel ")[2])
    (plan,) = json.loads(run(*best, "--json").out)["plans"]
    (first, *_) = json.loads(
        run("search", NAME, "--set", "plan.zero=3", "--set", "plan.recompute_modules=[norms]", "--json").out
    )["plans"]
    assert {key: plan.get(key) for key in Plan.model_fields} == {key: first.get(key) for key in Plan.model_fields}
