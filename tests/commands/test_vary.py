"""What sweep, scale, sensitivity and solve have in common: faults of paths and values, lengths of runs, numbers."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any, get_args

import pytest
from explore.vary.json_answers import NAME, Faults, json_of

from costmodel.ground.counts import ContextParallel, Zero


@pytest.mark.parametrize("path", ["plan.shedule", "stack.kernels.atention", "cluster.fabric.bandwith", "asume.price"])
@pytest.mark.parametrize("where", ["", "=1..8"])
def test_a_misspelt_path_is_told_as_set_tells_it(path: str, where: str, run: Any, faults: Faults) -> None:
    ran = run("solve", NAME, "--over", path + where, "--for", "mfu>=40 %")
    (found,) = faults(ran)
    (answer,) = faults(run("estimate", NAME, "--set", f"{path}=1"))
    assert found.code == "D003"
    assert found._replace(marked="") == answer._replace(marked="")
    assert f"--over {found.marked}" in ran.err


SOLVED = ("solve", "deepseek-v3-2048", "--for", "mfu>=1 %", "--over")
WITHOUT_NUMBER = pytest.mark.parametrize(
    ("path", "values"),
    [
        ("plan.sequence_parallel", "true,false"),
        ("assume.experts.deduplicated", "true,false"),
        ("stack.kernels.dropout", "true,false"),
        ("plan.cp_type", ",".join(get_args(ContextParallel))),
        ("plan.zero", ",".join(map(str, get_args(Zero)))),
        ("assume.experts.capacity", "1..100"),
        ("assume.experts.host", "0.42..42 us"),
        ("assume.network_share", "1..100 %"),
        ("stack.experts.tp_overlap", "0..100 %"),
        ("stack.buckets.live", "0..100"),
        ("stack.buckets.gathered", "0.1..10 G"),
        ("cluster.node.scale_up.pair_bandwidth", "0.335..33.5 TB/s"),
        ("plan.offload", "[optimizer],[parameters],[activations]"),
    ],
)


@WITHOUT_NUMBER
def test_what_is_no_number_says_the_values_it_takes(path: str, values: str, run: Any, faults: Faults) -> None:
    (fault,) = faults(run(*SOLVED, path))
    assert (fault.code, fault.help) == ("C012", f"give a range: --over {shlex.quote(f'{path}={values}')}")


@pytest.mark.share(5)
@WITHOUT_NUMBER
def test_the_values_that_are_said_are_taken(path: str, values: str, run: Any) -> None:
    """A share of them, unless --whole asks for all."""
    assert run(*SOLVED, f"{path}={values}").err == ""


def test_a_key_that_is_left_out_is_looked_for_about_its_example(run: Any, faults: Faults) -> None:
    asked = ("solve", "megatron-22b-8", "--for", "run_time<=20000 d", "--over")
    (fault,) = faults(run(*asked, "workload.tokens"))
    assert fault.help == "give a range: --over 'workload.tokens=1.5..150 T'"
    (reach,) = json_of(run, *asked, "workload.tokens=1.5..150 T")["ranges"]
    assert 1.5e12 <= float(reach["low"]) < float(reach["high"]) < 150e12


@pytest.mark.parametrize("path", ["model", "title", "cluster.node.accelerator.vendor"])
def test_what_takes_no_number_names_none(path: str, run: Any, faults: Faults) -> None:
    (fault,) = faults(run("solve", NAME, "--for", "mfu>=1 %", "--over", path))
    assert fault.help == f"give a range: --over {path}=A,B"


@pytest.mark.parametrize(
    ("result", "setting", "wanted"),
    [
        ("run_time", "workload.tokens=null", "set workload.tokens, e.g. 15 T"),
        ("run_cost", "cluster.node=hgx-h800", "set assume.price, e.g. 2.50 USD/GPU/h"),
        ("cost_per_mtoken", "cluster.node=hgx-h800", "set assume.price, e.g. 2.50 USD/GPU/h"),
    ],
)
def test_what_is_unknown_says_what_is_missing(result: str, setting: str, wanted: str, run: Any, faults: Faults) -> None:
    bound = "1 d" if result == "run_time" else "1 USD"
    for asked in (
        ("solve", NAME, "--over", "cluster.nodes=32,64", "--for", f"{result}<={bound}"),
        ("sensitivity", NAME, "--of", result),
        ("explain", NAME, result),
    ):
        (fault,) = faults(run(*asked, "--set", setting))
        assert (fault.code, fault.place, fault.help) == ("C004", f"scenarios/{NAME}.yaml", wanted)
    limit = f"limits.{result}.at_most={bound}"
    assert f"; {wanted}" in run("check", NAME, "--set", setting, "--set", limit).out
    front = run("search", NAME, "--set", setting, "--set", "search.tp=[8]", "--pareto", f"{result},memory_peak")
    assert f"No plan has both results; {wanted}." in front.out


def test_a_key_that_search_lists_is_not_varied_beside(run: Any, faults: Faults) -> None:
    """As `search --over` says; a row would else be told of a plan that it does not name."""
    for asked in (
        ("sweep", NAME, "--over", "plan.tp=1,8"),
        ("solve", NAME, "--over", "plan.tp=1,8", "--for", "mfu>=1 %"),
    ):
        (fault,) = faults(run(*asked, "--best", "--set", "search.tp=[8]"))
        assert (fault.code, fault.marked) == ("C010", "--best")
        assert (fault.sentence, fault.help) == (
            "search.tp lists values of plan.tp already",
            "leave one of the two out",
        )


def test_answers_about_best_plans_lead_to_the_search_that_finds_them(run: Any) -> None:
    asked = ("solve", NAME, "--over", "cluster.nodes=32,64", "--for", "run_time<=900 d")
    assert [f"Next: costmodel {verb} {NAME}" in run(*asked, *more).out for verb, more in VERBS] == [True, True]
    asked = ("sweep", NAME, "--over", "cluster.nodes=32,64")
    best = "each is with the best plan for its --set"
    said = ("each is costmodel estimate with its --set", best)
    assert [words in run(*asked, *more).out for words, (_, more) in zip(said, VERBS, strict=True)] == [True, True]


def test_without_a_plan_of_its_own_it_is_the_best_one_and_says_so(run: Any) -> None:
    """What follows from a row is then a search, not an estimate that has no plan to look at."""
    bare = ("--set", "plan=null", "--set", "search.tp=[8]", "--set", "search.pp=[4]")
    swept = run("sweep", NAME, "--over", "cluster.nodes=32,64", *bare).out
    assert "best plan" in swept
    assert "each is with the best plan for its --set" in swept
    assert swept == run("sweep", NAME, "--over", "cluster.nodes=32,64", "--best", *bare).out
    scaled = run("scale", NAME, "--ranks", "256,512", *bare)
    assert scaled == run("scale", NAME, "--ranks", "256,512", "--best", *bare)
    solved = run("solve", NAME, "--over", "cluster.nodes=32,64", "--for", "mfu>=10 %", *bare).out
    assert f"Next: costmodel search {NAME}" in solved
    assert "of the best plan, tp 8 · pp 4 ·" in run("sensitivity", NAME, *bare).out
    of_plans = run("sweep", NAME, "--over", "plan.tp=4,8", *bare).out
    assert "each is costmodel estimate with its --set" in of_plans


VERBS: list[tuple[str, list[str]]] = [("estimate", []), ("search", ["--best"])]


def test_a_run_has_a_length_without_a_price(run: Any) -> None:
    """A node of one's own without a price: days of the token budget all the same."""
    ran = run("estimate", "gpt-3-175b-1024", "--set", "cluster.node=mi355x-8")
    assert " days for 300 G tokens; no price known" in ran.out


def test_numbers_are_written_as_people_write_them(run: Any) -> None:
    """No powers of ten, and what is shown can be set."""
    for vary in ("workload.tokens", "cluster.fabric.bandwidth=10..40000 Gb/s", "workload.global_batch=1024..65536"):
        ran = run("solve", NAME, "--over", vary, "--for", "run_time<=345 d")
        assert "e+" not in ran.out
        (next_one,) = (line for line in ran.out.splitlines() if line.startswith("Next: "))
        said = run(*shlex.split(next_one.removeprefix("Next: costmodel ")), "--json")
        assert json.loads(said.out)["plans"][0]["run_time_s"] <= 345 * 86400
    ran = run("sweep", NAME, "--over", "plan.dp=8..80000000*100")
    lines = ran.out.splitlines()
    start = next(place for place, line in enumerate(lines) if line.split()[:1] == ["plan.dp"]) + 1
    assert [line.split()[0] for line in lines[start : start + 4]] == ["8", "800", "80,000", "8"]
    assert "e+" not in ran.out + run("estimate", NAME, "--set", "plan.dp=200000000").out


@pytest.mark.parametrize(
    ("name", "sizes", "path"),
    [
        (NAME, ("--ranks", "64,128"), "assume.overlap.tp"),
        ("serve-llama-3.1-70b", ("--rate", "2,4"), "stack.budget"),
        ("grpo-qwen-2.5-7b-64", ("--ranks", "64,128"), "assume."),
    ],
)
def test_scale_shows_the_assumptions_of_all_sizes_on_request(
    name: str, sizes: tuple[str, ...], path: str, run: Any
) -> None:
    plain, verbose = (run("scale", name, *sizes, *more, brief=True).out for more in ((), ("-v",)))
    lines = [line for line in verbose.splitlines() if path in line]
    assert len(lines) == len(set(lines)) >= 1
    assert path not in plain
    (rest,) = set(plain.splitlines()) - set(verbose.splitlines())
    assert re.fullmatch(r"  More with -v: \d+ assumptions", rest)


@pytest.mark.parametrize(
    ("asked", "result", "price"),
    [
        (("llama-3-70b-512",), "cost_per_mtoken", "assume.price"),
        (
            ("quickstart", "--gpu", "h200", "--set", "cluster.node=a3-ultragpu-8g"),
            "cost_per_mtoken",
            "cluster.node.price.hourly",
        ),
        (("serve-llama-3.1-70b",), "rent_per_month", "assume.price"),
        (("grpo-qwen-2.5-7b-64",), "run_cost", "assume.price"),
    ],
)
def test_a_cost_moves_as_its_price_does(
    asked: tuple[str, ...], result: str, price: str, run: Any, few_knobs: None
) -> None:
    found = json_of(run, "sensitivity", *asked, "--of", result)["figures"]
    (row,) = (figure for figure in found if ".price" in figure["path"])
    assert (row["path"], row["kind"]) == (price, "assumption")
    assert (row["low"], row["high"]) == (pytest.approx(-0.1), pytest.approx(0.1))
    shown = run("sensitivity", *asked, "--of", result).out
    assert "price buys" not in shown


def test_nodes_of_several_kinds_are_swept(run: Any) -> None:
    ran = run("sweep", "mixed-llama-3-8b-96", "--over", "workload.sequence=4096,8192")
    assert (ran.code, ran.err) == (0, "")
    groups = "cluster={groups: [{node: dgx-h100, nodes: 4}, {node: dgx-h200, nodes: 4}]}"
    ran = run("sweep", "grpo-qwen-2.5-7b-64", "--set", groups, "--over", "workload.prompts=256,512")
    assert (ran.code, ran.err) == (0, "")
