"""Search: the same answer as asking every plan one by one, alone or in processes; counts that add up; near misses."""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from estimate.cases import ask, case, inputs, mixed, model, one
from ruamel.yaml import YAML

from costmodel.documents.reader.load_scenario import load, vary
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.scenario import Plan
from costmodel.estimate.shared.plan_batch import Block, Structure
from costmodel.estimate.shared.results import Costs
from costmodel.estimate.training.plan_constraints import CHECKS
from costmodel.estimate.training.training_inputs import training_inputs
from costmodel.estimate.training_answer.evaluate_training import evaluate
from costmodel.estimate.training_answer.predict_training import Answer, answer, plan_block, predict, refusals
from costmodel.explore.compare.select_plan import gain_over_own_plan, plan_of_row
from costmodel.explore.search.rank import Top
from costmodel.explore.search.required_chance import preferring
from costmodel.explore.search.search import TrainingSearch, examples, search, with_remedies
from costmodel.explore.search.training_candidates import (
    DEFAULT_MICRO_BATCHES,
    candidates,
    context_degrees,
    divisors,
    grids,
)
from costmodel.explore.search.training_remedies import plan_settings
from costmodel.explore.search.training_space import EvaluatedBlock, Ranked
from costmodel.explore.search.value_ranges import axis
from costmodel.ground.counts import SIZES
from costmodel.ground.errors import CostModelError
from costmodel.ground.units import percent
from costmodel.report.answers.search import counts_words
from costmodel.report.answers.search_training import TrainingWords

SPACE: dict[str, list[Any]] = {
    "tp": [1, 2, 3, 8],
    "pp": [1, 2, 4],
    "vpp": [1, 2],
    "micro_batch": [1, 4],
    "zero": [0, 1],
    "recompute": ["none", "full"],
    "schedule": ["1f1b", "gpipe", "interleaved"],
    "sequence_parallel": [True, False],
}
CHOICES = ("zero", "recompute", "schedule", "sequence_parallel", "order")
SAME_SCORE = 1e-9


def same_plan(plan: dict[str, Any]) -> tuple[Any, ...]:
    """What a plan really does: at dp, pp or tp of one some choices choose nothing."""
    dp = 8 / plan["tp"] / plan["pp"]
    return (
        plan["tp"], plan["pp"], plan["vpp"], plan["micro_batch"], plan["recompute"],
        plan["zero"] if dp > 1 else 0,
        plan["sequence_parallel"] or plan["tp"] == 1,
        "1f1b" if plan["pp"] == 1 and plan["schedule"] == "gpipe" else plan["schedule"],
    )  # fmt: skip


@functools.cache
def every_plan() -> list[tuple[dict[str, Any], tuple[str, ...]]]:
    """Every plan of the space, and the reasons against it."""
    asked = inputs()
    plans = [dict(zip(SPACE, values, strict=True)) for values in itertools.product(*SPACE.values())]
    plans = [plan for plan in plans if (plan["vpp"] > 1) == (plan["schedule"] == "interleaved")]
    return [(plan, refusals(asked, plan_block(asked, Plan(**plan))[0])) for plan in plans]


@functools.cache
def one_by_one() -> dict[tuple[Any, ...], Answer]:
    """The valid ones, each asked once and alone."""
    asked, valid = inputs(), [plan for plan, refused in every_plan() if not refused]
    first = {same_plan(plan): plan for plan in reversed(valid)}
    return {same: answer(asked, Plan(**plan), bands=False) for same, plan in first.items()}


def searched(case_: ResolvedScenario, size: int = 1000, *, workers: int = 1) -> TrainingSearch:
    return search(case_, size, workers=workers)


def spaced(space: dict[str, Any] = SPACE, **more: Any) -> ResolvedScenario:
    """With tokens and a price, so that every column is a number."""
    workload, assume = {"tokens": "1 T"}, {"price": "2 USD/GPU/h"}
    return case(search=space, **{"workload": workload, "assume": assume, **more})


@functools.cache
def whole(objective: str = "tokens_per_s_per_gpu") -> TrainingSearch:
    """The search of the space that many tests look at."""
    return searched(spaced(objective=objective))


def key(row: Ranked) -> tuple[Any, ...]:
    choices = {name: getattr(row.structure, name) for name in CHOICES}
    return same_plan({**row.sizes, **choices})


def accepted(objective: str, **limits: float) -> list[tuple[float, tuple[Any, ...]]]:
    """Plans that fit and keep the limits, best first by asking each."""
    sign = 1 if objective in ("step_time", "cost_per_mtoken") else -1
    rows = {plan: given.evaluation.costs.row() for plan, given in one_by_one().items()}
    kept = [
        (sign * row[objective], plan)
        for plan, row in rows.items()
        if row["memory_share"] <= limits.get("memory", 1)
        and row["step_time"] <= limits.get("step_time", float("inf"))
        and row["mfu"] >= limits.get("mfu", 0)
    ]
    return sorted(kept, key=lambda item: item[0])


# ── The answer ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("objective", ["tokens_per_s_per_gpu", "step_time"])
def test_the_ranking_is_that_of_asking_every_plan(objective: str) -> None:
    found, expected = whole(objective).best, accepted(objective)
    assert 20 < len(expected) < len(one_by_one()), "some fit, some do not"
    assert [row.score for row in found] == pytest.approx([score for score, _ in expected], rel=SAME_SCORE)
    assert {key(row) for row in found} == {plan for _, plan in expected}
    assert [row.score for row in found] == sorted(row.score for row in found)


def test_every_row_is_the_plan_asked_alone() -> None:
    for row in searched(spaced(), 10).best:
        alone = ask(inputs(), **row.sizes, **{name: getattr(row.structure, name) for name in CHOICES})
        assert row.costs["step_time"] == pytest.approx(alone.evaluation.costs.row()["step_time"], rel=1e-12)
        assert row.costs["memory_peak"] == pytest.approx(alone.evaluation.costs.row()["memory_peak"], rel=1e-12)


@pytest.mark.parametrize("size", [1, 7])
def test_a_short_list_is_the_head_of_the_long_one(size: int) -> None:
    assert searched(spaced(), size).best == whole().best[:size]


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"memory": {"at_most": 0.8}}, "M002"),
        ({"step_time": {"at_most": "4 s"}}, "T001"),
        ({"mfu": {"at_least": 0.45}}, "T001"),
    ],
)
def test_limits_are_obeyed_and_counted(limits: dict[str, Any], code: str) -> None:
    bound = {"memory": 0.8} if "memory" in limits else {"step_time": 4.0} if "step_time" in limits else {"mfu": 0.45}
    found, expected = searched(spaced(limits=limits)), accepted("tokens_per_s_per_gpu", **bound)
    assert {key(row) for row in found.best} == {plan for _, plan in expected}
    everything = accepted("tokens_per_s_per_gpu")
    assert 0 < len(expected) < len(everything)
    assert found.tally.refused[code] == len(everything) - len(expected)
    assert (found.tally.fit, found.tally.kept) == (len(everything), len(expected)), "a limit is no matter of memory"
    counts = counts_words(TrainingWords(found))
    assert f" valid · {len(everything):,} fit · {len(expected):,} meet all limits" in counts


# ── The counts ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_counts_add_up() -> None:
    tally = whole().tally
    chunks = {"1f1b": 1, "gpipe": 1, "interleaved": 1}
    assert tally.candidates == 4 * 3 * 2 * 2 * 2 * 2 * sum(chunks.values())
    assert tally.candidates == tally.fit + sum(tally.refused.values())
    assert tally.evaluated == len(one_by_one()) == tally.fit + tally.refused["M001"]
    assert tally.fit == tally.kept == len(accepted("tokens_per_s_per_gpu"))


def test_reasons_are_those_of_the_plans() -> None:
    """Each candidate is counted under the first of its own reasons, in the order of the rules."""
    counted = Counter(refused[0] if refused else "" for _, refused in every_plan())
    tally = whole().tally
    assert sum(counted.values()) == tally.candidates
    for code in ("L001", "L003", "L008"):
        assert tally.refused[code] == counted[code]


@pytest.mark.parametrize("stack", ["megatron-core", "fsdp2", "megatron-2021"])
def test_a_space_left_open_takes_what_makes_sense(stack: str) -> None:
    found = searched(case(nodes=2, global_batch=128, stack=stack), 5)
    tally = found.tally
    assert tally.candidates == tally.fit + sum(tally.refused.values())
    assert {"L001", "L011"} & {*(+tally.refused)} <= {"L001"}, "a default space offers what the stack offers"
    assert tally.evaluated > 0
    assert {grid.sizes["micro_batch"] for grid in grids(found.inputs)} == {DEFAULT_MICRO_BATCHES}
    assert {grid.sizes["tp"] for grid in grids(found.inputs)} == {(1.0, 2.0, 4.0, 8.0)}
    assert {row.structure.zero for row in found.best} <= {*found.inputs.stack.zero}


@pytest.mark.parametrize("number", [1, 7, 12, 80, 126, 512])
def test_divisors(number: int) -> None:
    assert divisors(number, 1e9) == tuple(value for value in range(1, number + 1) if number % value == 0)
    assert divisors(number, 6) == tuple(value for value in range(1, 7) if number % value == 0)


def test_a_world_that_does_not_divide_is_refused() -> None:
    """Three nodes: tp 8 · pp 2 would leave one and a half replicas."""
    found = searched(case(nodes=3, global_batch=96, search={"tp": [8], "pp": [2], "zero": [1], "recompute": ["none"]}))
    assert found.best == []
    assert +found.tally.refused == Counter({"L001": found.tally.candidates})


def test_listed_degrees_must_fill_the_cluster() -> None:
    found = searched(spaced({"dp": [2, 4], "tp": [2, 4], "pp": [1], "micro_batch": [1], "recompute": ["full"]}))
    assert {(row.sizes["dp"], row.sizes["tp"]) for row in found.best} <= {(2, 4), (4, 2)}
    assert found.tally.refused["L001"] == found.tally.candidates / 2


def test_a_choice_the_stack_does_not_offer_is_refused() -> None:
    found = searched(case(search={"zero": [0, 1]}, stack="fsdp2"))
    assert found.best == []
    assert +found.tally.refused == Counter({"L011": found.tally.candidates})


# ── Yours ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("objective", ["tokens_per_s_per_gpu", "step_time"])
@pytest.mark.parametrize("place", [0, 5, 17])
def test_your_rank_is_where_your_plan_stands(objective: str, place: int) -> None:
    ranking = whole(objective).best
    row = ranking[place]
    plan = {**row.sizes, **{name: getattr(row.structure, name) for name in CHOICES}}
    found = searched(spaced(objective=objective, plan=plan), 3)
    better = sum(1 for other in ranking if other.score < row.score - SAME_SCORE * abs(row.score))
    assert found.your_rank == better + 1 <= place + 1
    assert len(found.best) == 3, "the list is as long with a plan as without"


def test_yours_is_the_scenarios_own_whatever_varies() -> None:
    """Of several cases it is the one that was written, not the first of those tried."""
    asked = load("llama-3-70b-512")
    found = search(asked, 5, over=[axis("assume.price=1 USD/GPU/h,4 USD/GPU/h")], workers=1)
    assert found.yours is not None
    own = predict(asked).evaluation.costs.row()
    assert found.yours.evaluation.costs.row() == pytest.approx(own, nan_ok=True)
    assert own["cost_per_mtoken"] not in [row.costs["cost_per_mtoken"] for row in found.best]


@pytest.mark.parametrize(
    ("over", "hint"),
    [
        ("plan.tp=2,4", "leave one"),
        ("plan={tp: 2},{tp: 4}", "plan.tp"),
        ("workload.precision=bf16,fp8", "leave one"),
        ("objective=step_time,cost_per_mtoken", "--set objective=step_time"),
    ],
)
def test_what_a_search_cannot_vary(over: str, hint: str) -> None:
    asked = load("llama-3-70b-512", ["search={precision: [bf16, fp8], tp: [8]}"])
    with pytest.raises(CostModelError) as raised:
        search(asked, 1, over=[axis(over)], workers=1)
    (fault,) = raised.value.faults
    assert fault.code == "C010"
    assert fault.place is not None
    assert fault.place.text == f"--over {over}"
    assert hint in fault.hint


def test_ones_own_plan_in_another_case_stays_in_its_place() -> None:
    """Of several cases only in the one that was written it goes before others that are as good."""
    asked = replace(
        load("llama-3-70b-512", ("plan.pp=2", "plan.vpp=8", "plan.micro_batch=2", "search.cp=[1]")), assignments=()
    )
    found = search(asked, 8, over=[axis("assume.overlap.dp=77%,30%")], workers=1)
    scores = [row.score for row in found.best]
    assert scores == pytest.approx(sorted(scores), rel=1e-11)
    assert {row.variant for row in found.best} == {0, 1}


def test_a_plan_outside_the_space_ranks_too() -> None:
    found = searched(spaced(plan={"tp": 4, "pp": 2, "micro_batch": 2, "recompute": "full"}))
    assert found.your_rank is not None
    assert 1 <= found.your_rank <= len(found.best) + 1


@pytest.mark.parametrize("plan", [{"tp": 3}, {"zero": 0, "tp": 1, "micro_batch": 4, "recompute": "none"}])
def test_a_plan_that_is_invalid_or_does_not_fit_has_no_rank(plan: dict[str, Any]) -> None:
    found = searched(spaced(plan=plan))
    assert found.your_rank is None
    assert found.yours is not None


def test_the_advantage_of_the_best_adds_up_to_what_it_saves() -> None:
    found = searched(spaced(plan={"tp": 4, "pp": 2, "micro_batch": 1, "recompute": "full"}))
    moved = {move.name: (move.after or 0.0) - (move.before or 0.0) for move in gain_over_own_plan(found)}
    assert found.yours is not None
    terms = (*PASS_COLUMNS, "bubble_s", "optimizer_s", "pp_exposed_s", "dp_exposed_s")
    assert sum(moved.get(name, 0.0) for name in terms) == pytest.approx(moved["step_time_s"])
    assert moved["step_time_s"] < 0


PASS_COLUMNS = ("matmul_s", "attention_s", "memory_bound_s", "launch_s", "tp_exposed_s", "ep_exposed_s", "cp_exposed_s")


def test_nothing_has_an_advantage_over_the_best() -> None:
    best = whole().best[0]
    found = searched(spaced(plan=plan_of_row(best).model_dump(exclude_none=True, exclude_defaults=True)))
    assert found.your_rank == 1
    assert gain_over_own_plan(found) == []


def test_of_plans_as_good_as_one_another_ones_own_stands_where_it_ranks() -> None:
    space = {**SPACE, "order": ["tp-cp-dp-pp", "tp-cp-pp-dp"]}
    best = searched(spaced(space)).best
    equals = Counter(row.score for row in best)
    for own in next([row for row in best if row.score == score] for score, count in equals.items() if count == 4):
        found = searched(spaced(space, plan=plan_of_row(own).model_dump(exclude_none=True, exclude_defaults=True)))
        assert found.your_rank is not None
        stands = found.best[found.your_rank - 1]
        assert (stands.structure, stands.sizes) == (own.structure, own.sizes)
        assert sorted(row.key for row in found.best) == [row.key for row in best]


def test_ends_are_tried_in_pairs_beside_the_splits() -> None:
    space = {"tp": [1], "pp": [4], "micro_batch": [1], "zero": [1], "recompute": ["full"], "schedule": ["1f1b"]}
    ends = {"first_stage_layers": [1, 2], "last_stage_layers": [3, 4]}
    found = searched(case(model(layers=9), search={**space, **ends}))
    tried = {(plan.structure.split, plan.structure.first_stage_layers, plan.structure.last_stage_layers)
             for plan in found.best}  # fmt: skip
    assert tried == {("stated", 1.0, 4.0), ("stated", 2.0, 3.0)}
    assert found.tally.candidates == 5
    assert {code: count for code, count in found.tally.refused.items() if count} == {"L002": 3}


def test_the_command_for_a_plan_with_stated_ends_asks_for_that_plan() -> None:
    space = {"tp": [1], "pp": [4], "micro_batch": [1], "zero": [1], "first_stage_layers": [3]}
    for plan in ({}, {"plan": {"pp": 2, "last_stage_layers": 2}}):
        found = searched(case(model(layers=9), search=space, **plan))
        best = found.best[0]
        assert best.structure.split == "stated"
        written = plan_settings(found.inputs, best)
        assert "plan.split" not in written
        values = {path.removeprefix("plan."): YAML(typ="safe").load(value) for path, value in written.items()}
        block = answer(found.inputs, Plan(**{**plan.get("plan", {}), **values})).evaluation.block
        assert (block.structure, one(block.pp)) == (best.structure, best.sizes["pp"])


@pytest.mark.parametrize("etp", [1, 4])
def test_the_command_for_a_plan_says_how_experts_are_cut_where_the_stack_cuts_them_otherwise(etp: int) -> None:
    space = {"tp": [4], "pp": [1], "ep": [2], "etp": [etp], "micro_batch": [1], "zero": [1]}
    found = searched(case(mixed(), search=space))
    written = plan_settings(found.inputs, found.best[0])
    assert written.get("plan.etp") == (None if etp == 4 else "1")
    values = {path.removeprefix("plan."): YAML(typ="safe").load(value) for path, value in written.items()}
    assert one(answer(found.inputs, Plan(**values)).evaluation.block.etp) == etp


def test_without_a_plan_there_is_no_rank() -> None:
    found = whole()
    assert (found.yours, found.your_rank, found.tally.better_than_yours) == (None, None, 0)


# ── No plan fits ─────────────────────────────────────────────────────────────────────────────────────────────────────


def too_large(nodes: int = 1) -> ResolvedScenario:
    space = {"zero": [1], "recompute": ["full"], "micro_batch": [1], "schedule": ["1f1b"]}
    return case("llama-3-70b", nodes=nodes, global_batch=64, search=space)


def test_when_nothing_fits_the_nearest_is_shown() -> None:
    found = searched(too_large())
    asked = found.inputs
    plans = [
        answer(asked, Plan(tp=tp, pp=pp, zero=1, recompute="full"))
        for tp, pp in itertools.product((1, 2, 4, 8), (1, 2, 4, 8))
        if tp * pp <= 8
    ]
    peaks = [each.evaluation.costs.row()["memory_peak"] for each in plans if not each.refused]
    assert found.best == []
    assert found.tally.fit == 0
    (nearest,) = found.tally.nearest.rows
    assert nearest.costs["memory_peak"] == pytest.approx(min(peaks))
    assert nearest.costs["memory_share"] > 1


def test_every_remedy_is_true() -> None:
    """Also of a scenario that is no file: searched anew with it, some plan fits and takes what was said."""
    found = with_remedies(searched(too_large()))
    assert found.remedies
    for remedy in found.remedies:
        (best,) = searched(vary(too_large(), remedy.settings), 1).best
        assert best.costs["memory_share"] <= 1
        figures = best.costs["memory_peak"], best.costs["step_time"]
        assert (remedy.memory_peak, remedy.step_time) == pytest.approx(figures)
    (nodes,) = (each.settings[0] for each in found.remedies if each.settings[0].startswith("cluster.nodes="))
    fewer = f"cluster.nodes={int(nodes.partition('=')[2]) // 2}"
    assert searched(vary(too_large(), [fewer]), 1).best == [], "and half as many do not do"


def test_remedies_of_a_search_fit_with_the_preferred_chance() -> None:
    """Halved, the GPUs that are offered hold plans by expected figures alone, or none."""
    found = with_remedies(searched(preferring(too_large())))
    assert found.remedies
    for remedy in found.remedies:
        (best,) = searched(preferring(vary(too_large(), remedy.settings)), 1).best
        assert remedy.chance == pytest.approx(best.costs["fit_chance"])
        assert best.costs["fit_chance"] >= 0.9


def test_what_comes_nearest_to_keeping_a_limit_is_one_plan_in_every_form(run: Any) -> None:
    """With all that makes it that plan: asked for, it takes what the search said."""
    asked = ("llama-3-70b-512", "--set", "limits.step_time.at_most=14 s", "--set", "search={cp: [1], split: [spread]}")
    (nearest,) = json.loads(run("search", *asked, "--json").out)["nearest"]
    said = next(line for line in run("search", *asked).out.splitlines() if line.startswith("  nearest "))
    words = dict(word.split(" ", 1) for word in said.removeprefix("  nearest ").strip().split(" · ")[:-1])
    assert words["split"] == nearest["split"] == "spread"
    settings = [part for name, value in words.items() for part in ("--set", f"plan.{name}={value}")]
    ran = json.loads(run("estimate", asked[0], *settings, "--json").out)["plans"][0]
    assert ran["step_time_s"] == nearest["step_time_s"]


@pytest.mark.parametrize("schedule", ["interleaved", "1f1b"])
def test_unequal_chunks_are_not_tried_unasked(schedule: str) -> None:
    """Of 61 layers few pp are a divisor; stages may be uneven, chunks of one rank not."""
    space = {"zero": [1], "recompute": ["none"], "micro_batch": [1], "schedule": [schedule]}
    splits = {
        grid.structures[0].split for grid in grids(training_inputs(case(model(layers=61), nodes=8, search=space)))
    }
    assert splits == ({"fitting"} if schedule == "interleaved" else {"fitting", "spread"})


def test_where_something_fits_there_is_nothing_to_remedy() -> None:
    assert not with_remedies(whole()).remedies


@pytest.mark.parametrize(("batch", "nearest"), [(1000, 1024), (100, 96), (1024, None), (1536, None)])
def test_a_batch_that_few_plans_divide_leads_to_one_near_it(batch: int, nearest: int | None) -> None:
    """Of 500 sequences on 512 GPUs a replica each leaves hardly a layout; nothing is offered where most divide."""
    asked = load("llama-3-70b-512", (f"workload.global_batch={batch}", "search.cp=[1]"))
    found = with_remedies(search(asked, 1, workers=1))
    settings = [remedy.settings for remedy in found.remedies]
    assert settings == ([] if nearest is None else [(f"workload.global_batch={nearest}",)])
    for remedy in found.remedies:
        better = search(load("llama-3-70b-512", (*remedy.settings, "search.cp=[1]")), 1, workers=1)
        assert (remedy.valid, remedy.step_time) == (better.tally.evaluated, better.best[0].costs["step_time"])
        gain = better.best[0].costs["tokens_per_s"] / found.best[0].costs["tokens_per_s"]
        assert gain > 1
        assert remedy.note == f"{percent(gain - 1, 2)} more tokens/s"


@pytest.mark.parametrize(
    ("tokens", "degrees"),
    [(4096, (1,)), (7999, (1,)), (8000, (1, 2)), (8192, (1, 2)), (16384, (1, 2, 4)), (32768, (1, 2, 4, 8))],
)
def test_context_parallelism_leaves_a_rank_as_many_tokens_as_recipes_do(tokens: int, degrees: tuple[int, ...]) -> None:
    assert context_degrees(training_inputs(load("llama-3-70b-512", (f"workload.sequence={tokens}",)))) == degrees


def test_software_without_context_parallelism_is_searched_without() -> None:
    long = ("workload.sequence=32768", "stack.context_parallel=[]")
    assert context_degrees(training_inputs(load("llama-3-70b-512", long))) == (1,)


def test_by_default_sequences_of_8192_are_shared_by_two_ranks() -> None:
    """As in published recipes of this size: without, the best plan recomputes everything and takes 27 % longer."""
    job = ("model=llama-3.1-405b", "cluster.nodes=128", "plan=null")
    default, listed, single = (
        search(preferring(load("llama-3-70b-512", (*job, *more)), 0.9), 1, workers=1)
        for more in ((), ("search.cp=[1,2]",), ("search.cp=[1]",))
    )
    assert default.best[0].key == listed.best[0].key
    assert default.tally.candidates == listed.tally.candidates
    assert default.best[0].sizes["cp"] == 2
    assert single.best[0].costs["step_time"] > 1.25 * default.best[0].costs["step_time"]


def test_what_was_not_searched_is_named_with_what_adds_it(run: Any) -> None:
    """The setting that is named adds plans to those that were searched, so its answer is never worse."""
    job = ("--model", "llama-3.1-405b", "--gpu", "h100", "--gpus", "1024", "--sequence", "8192", "--batch", "1024")
    asked = ("search", *job)
    out = run(*asked).out
    (setting,) = re.findall("Not searched: 4 ranks of context parallelism; add it with --set '(.*)'", out)
    assert setting == "search.cp=[1,2,4]"
    assert "ranks of context parallelism" not in run(*asked, "--set", setting).out


def test_cost_as_objective_wants_a_price() -> None:
    with pytest.raises(CostModelError, match="C004"):
        searched(case(objective="cost_per_mtoken", node="hgx-h800"))
    found = whole("cost_per_mtoken").best
    assert [row.sizes for row in found] == [row.sizes for row in whole().best], "the rent is the same for all"


# ── In processes ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_processes_find_the_same_bit_for_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("costmodel.explore.search.training_space.CANDIDATES_A_PIECE", 16)
    asked = spaced(plan={"tp": 8})
    alone = searched(asked, 20)
    monkeypatch.setattr("costmodel.explore.search.stream.POOL_FROM", 0)
    shared = searched(asked, 20, workers=2)
    assert shared.best == alone.best
    assert (shared.tally, shared.your_rank) == (alone.tally, alone.your_rank)


@pytest.mark.parametrize("rows", [1, 5, 64])
def test_the_size_of_blocks_does_not_matter(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    whole = searched(spaced(), 20)
    monkeypatch.setattr("costmodel.explore.search.training_candidates.BLOCK_ROWS", rows)
    cut = searched(spaced(), 20)
    assert [row.sizes for row in cut.best] == [row.sizes for row in whole.best]
    assert [row.score for row in cut.best] == pytest.approx([row.score for row in whole.best], rel=1e-12)
    assert cut.tally.refused == whole.tally.refused
    assert (cut.tally.candidates, cut.tally.evaluated, cut.tally.fit) == (
        whole.tally.candidates,
        whole.tally.evaluated,
        whole.tally.fit,
    )


@pytest.mark.parametrize("seed", range(8))
def test_the_running_list_is_the_head_of_everything_sorted(seed: int) -> None:
    """Many ties, cut into blocks anywhere: by score, then memory, then sizes."""
    random = np.random.default_rng(seed)
    total, size = 200, int(random.integers(1, 30))
    table = {name: random.integers(1, 5, total).astype(float) for name in ("step_time", "memory_peak", *SIZES)}
    keep = random.random(total) < 0.7
    top: Top[Ranked] = Top(size, "step_time")
    edges = [0, *sorted(random.integers(0, total, 6)), total]
    for low, high in itertools.pairwise(edges):
        part = {name: column[low:high] for name, column in table.items()}
        costs = Costs({name: part[name] for name in ("step_time", "memory_peak")}, high - low)
        block = Block(Structure(), **{name: part[name] for name in SIZES})
        top.add(EvaluatedBlock(block, costs), keep[low:high])
    rows = sorted(zip(*(table[name][keep] for name in ("step_time", "memory_peak", *SIZES)), strict=True))
    assert [(row.score, row.costs["memory_peak"], *row.sizes.values()) for row in top.rows] == rows[:size]


def test_a_small_model_on_one_node_prefers_no_model_parallelism() -> None:
    """What anyone would say: what fits on one accelerator is replicated."""
    best = searched(case(model(), global_batch=64), 1).best[0]
    assert (best.sizes["tp"], best.sizes["pp"]) == (1, 1)
    assert training_inputs(case(model())).domain == 8


# ── Precision ────────────────────────────────────────────────────────────────────────────────────────────────────────


def precise(*names: str, node: str = "dgx-h100", own: str = "bf16") -> TrainingSearch:
    space = {"tp": [2], "pp": [1], "micro_batch": [1], "zero": [1], "recompute": ["none"], "precision": list(names)}
    settings = [f"search.{key}={json.dumps(values)}" for key, values in space.items() if values]
    plan = ["plan={tp: 2}", f"workload.precision={own}", f"cluster.node={node}", "stack=megatron-core"]
    return searched(load("quickstart", [*plan, *settings]))


def test_precisions_are_searched_as_the_workload_would_say_them() -> None:
    found = precise("bf16", "fp8")
    assert found.tally.candidates == 2 * precise("bf16").tally.candidates
    for name in ("bf16", "fp8"):
        rows = [row for row in found.best if found.values(row.variant)["workload.precision"] == name]
        assert [row.costs for row in rows] == [pytest.approx(row.costs, nan_ok=True) for row in precise(own=name).best]


def test_a_precision_that_nothing_runs_is_counted() -> None:
    both, only = precise("bf16", "fp8", node="dgx-a100"), precise("bf16", node="dgx-a100")
    assert both.tally.candidates == 2 * only.tally.candidates
    assert both.tally.refused["L044"] == only.tally.candidates
    assert [row.sizes for row in both.best] == [row.sizes for row in only.best]
    assert "L044" not in examples(both)
    with pytest.raises(CostModelError, match="D016"):
        precise("fp8", node="dgx-a100")


def test_one_s_own_plan_is_of_the_workload_s_precision() -> None:
    found = precise("bf16", "fp8", own="fp8")
    assert found.yours is not None
    assert found.yours.inputs.case.scenario.workload.precision == "fp8"
    assert found.yours.evaluation.costs.row()["step_time"] in [row.costs["step_time"] for row in found.best]


REPEATING: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "orders": ({}, {"zero": [0, 1, 2, 3], "order": ["tp-cp-dp-pp", "tp-cp-pp-dp"], "sequence_parallel": [True, False]}),
    "experts": ({"shape": mixed()}, {"zero": [0, 1, 2, 3], "ep": [1, 2]}),
    "mirrored": ({"stack": "dualpipe"}, {"zero": [0, 1], "schedule": ["dualpipe"], "vpp": [1]}),
    "splits": ({}, {"split": ["even", "spread"], "schedule": ["1f1b", "interleaved", "gpipe"], "vpp": [1, 2, 3]}),
    "splits, the other way": ({}, {"split": ["spread", "even"], "schedule": ["1f1b", "interleaved"]}),
    "split left open": (
        {"shape": model(layers=13)},
        {"pp": [1, 2, 4, 8, 16], "schedule": ["1f1b", "interleaved"], "vpp": [1, 2, 3]},
    ),
    "sequences": ({"sequence": 32768}, {"cp": [1, 2], "cp_type": ["a2a", "p2p"]}),
    "no sequences": ({}, {"cp_type": ["all-gather", "p2p"]}),
    "offload": ({"stack": "deepspeed"}, {"zero": [0, 1, 3], "offload": [["optimizer", "parameters"], []]}),
    "said twice": ({}, {"tp": [8, 8], "zero": [1, 1], "recompute": ["none", "none"]}),
}


@pytest.mark.parametrize(("layers", "spread"), [(61, True), (80, False), (94, False)])
def test_layers_that_fit_few_pipelines_are_spread_unasked(layers: int, spread: bool) -> None:
    """61 and one or two ends fit 2 of 1, 2, 4, 8, 16 and 32 stages: a search tries uneven ones too."""
    asked = inputs(model(layers=layers), nodes=256, search={"tp": [1]})
    splits = {structure.split for grid in grids(asked) for structure in grid.structures}
    assert splits == ({"fitting", "spread"} if spread else {"fitting"})


@pytest.mark.share(3)
@pytest.mark.parametrize(("more", "space"), REPEATING.values(), ids=REPEATING)
def test_what_is_left_out_as_a_repeat_is_there_under_another_name(more: dict[str, Any], space: dict[str, Any]) -> None:
    """Every plan that nothing else is wrong with costs what a valid one costs, to the last figure; and none is lost.

    A share of the spaces, unless --whole asks for all.
    """
    axes = {"tp": [1, 8], "pp": [1, 4], "micro_batch": [1], "recompute": ["none"], **space}
    asked = inputs(**{"shape": model(layers=12), "nodes": 4, **more, "search": axes})
    valid, repeated = set(), set()
    for grid in grids(asked):
        for block in candidates(grid):
            masks = {check.code: check.refused(asked, block) for check in CHECKS}
            wrong = np.any([mask for code, mask in masks.items() if code != "L010"], axis=0)
            for place in np.flatnonzero(~wrong):
                alone = block.cut(int(place), int(place) + 1)
                figures = tuple(f"{value:.9g}" for value in evaluate(asked, alone).costs.row().values())
                (repeated if masks["L010"][place] else valid).add(figures)
    assert valid
    assert repeated <= valid
