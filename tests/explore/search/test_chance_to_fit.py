"""The chance that a plan fits: in answers, in rankings, and as a limit."""

from __future__ import annotations

import json
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

AT_RISK = ("--set", "plan.pp=2", "--set", "plan.vpp=5", "--set", "plan.micro_batch=2")


def test_the_chance_follows_from_the_band(run: Any) -> None:
    """Of one stage: from P10 and P90, by the normal distribution of Python's own library."""
    (row,) = json.loads(run("estimate", "llama-3-70b-512", *AT_RISK, "--json").out)["plans"]
    peak, high = row["memory_peak_bytes"], row["memory_peak_high_bytes"]
    spread = np.log(high / peak) / NormalDist().inv_cdf(0.9)
    expected = NormalDist().cdf(np.log(1 / row["memory_share"]) / spread)
    assert row["fit_chance"] == pytest.approx(expected, abs=1e-4)
    assert f"at risk: {100 * row['fit_chance']:.0f} % to fit" in run("estimate", "llama-3-70b-512", *AT_RISK).out


def test_safe_keeps_plans_with_that_chance_and_no_others(run: Any) -> None:
    every = json.loads(run("search", "llama-3-70b-512", "--top", "200", "--safe", "off", "--json").out)
    safe = json.loads(run("search", "llama-3-70b-512", "--safe", "90%", "--top", "200", "--json").out)
    assert 0 < safe["kept"] < every["kept"] == every["fit"]
    assert all(plan["fit_chance"] >= 0.9 and plan["fits_p90"] for plan in safe["plans"])
    kept = [plan["memory_peak_bytes"] for plan in every["plans"] if plan["fit_chance"] >= 0.9]
    assert [plan["memory_peak_bytes"] for plan in safe["plans"]][: len(kept)] == kept


@pytest.mark.parametrize("command", ["estimate", "memory"])
def test_a_plan_below_it_breaks_a_limit(run: Any, command: str) -> None:
    ran = run(command, "llama-3-70b-512", *AT_RISK, "--safe", "90%")
    assert ran.code == 1
    assert "M002 memory limit: fit_chance" in ran.out
    assert run(command, "llama-3-70b-512", *AT_RISK, "--safe", "50%").code == 0
    assert run(command, "llama-3-70b-512", *AT_RISK, "--set", "limits.fit_chance.at_least=90%").code == 1


def test_the_first_line_names_the_first_that_fits_at_p90(run: Any) -> None:
    asked = ("search", "llama-3-70b-512", "--top", "6", "--safe", "off", "--set", "search.cp=[1]")
    rows = json.loads(run(*asked, "--json").out)["plans"]
    assert not rows[0]["fits_p90"]
    first = next(row for row in rows if row["fits_p90"])
    said = run(*asked).out
    assert (
        f"Plan 1 fits with a chance of {100 * rows[0]['fit_chance']:.0f} %; plan {first['rank']} fits at P90 and takes"
        in said
    )


def test_two_results_may_weigh_the_chance(run: Any) -> None:
    found = json.loads(run("search", "llama-3-70b-512", "--pareto", "fit_chance,step_time", "--json").out)["pareto"]
    pairs = [(plan["fit_chance"], plan["step_time_s"]) for plan in found["plans"]]
    assert pairs == sorted(pairs, reverse=True)
    assert len(pairs) > 1
    assert all(plan["first_faster"] is None for plan in found["plans"])
    assert pairs[-1][0] < 0.9  # where the chance itself is weighed, none is left out for it


SAME = ("tp", "pp", "vpp", "micro_batch", "zero", "recompute", "step_time_s", "memory_peak_bytes")


def _search(run: Any, *options: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("search", "llama-3-70b-512", "--json", *options).out)
    return found


def _rows(found: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [tuple(plan[name] for name in SAME) for plan in found["plans"]]


def test_by_default_a_search_prefers_what_safe_demands(run: Any) -> None:
    """The same plans in the same order as with --safe 90%; the best of --safe off stands beside them."""
    default, demanded, off = _search(run), _search(run, "--safe", "90%"), _search(run, "--safe", "off")
    assert _rows(default) == _rows(demanded) != _rows(off)
    assert default["safe"]["chance"] == 0.9
    assert default["safe"]["met"]
    assert default["kept"] == off["kept"]
    assert default["safe"]["plans"] == demanded["kept"]
    refused = {entry["code"]: entry["plans"] for entry in default["refused"]}
    assert refused["M004"] == off["kept"] - demanded["kept"]
    (other,) = default["safe"]["without"]
    assert tuple(other[name] for name in SAME) == _rows(off)[0]
    assert demanded["safe"] is None is off["safe"]


def test_the_line_beside_names_the_gain_and_the_chance(run: Any) -> None:
    default, off = _search(run), _search(run, "--safe", "off")
    gain = default["plans"][0]["step_time_s"] / off["plans"][0]["step_time_s"] - 1
    said = run("search", "llama-3-70b-512").out
    words = f"{gain:.2%}"[:3]
    assert f": {words} % faster, fits with a chance of {100 * off['plans'][0]['fit_chance']:.0f} % (--safe off)" in said
    assert "M004  may not fit: " in run("search", "llama-3-70b-512", "--why-not").out


def test_a_limit_of_the_scenario_is_kept_as_it_is(run: Any) -> None:
    stated = _search(run, "--set", "limits.fit_chance.at_least=55%")
    assert stated["safe"] is None
    assert 0.55 <= stated["plans"][0]["fit_chance"] < 0.9


RISKY = ("--set", "plan.pp=2", "--set", "plan.vpp=5", "--set", "plan.micro_batch=2", "--set", "plan.tp=8",
         "--set", "plan.recompute=none", "--set", "plan.sequence_parallel=true", "--set", "plan.zero=1")  # fmt: skip


def test_where_no_plan_is_safe_the_surest_is_named(run: Any) -> None:
    """By default they are shown, in order of their chance; with --safe 90% none counts."""
    ran = run("search", "llama-3-70b-512", *RISKY)
    assert ran.code == 0
    assert "No plan fits with a chance of 90 %. Plan 1 is the surest: 56%" in ran.out
    assert "Next, the surest plan: costmodel estimate" in ran.out
    found = _search(run, *RISKY)
    chances = [plan["fit_chance"] for plan in found["plans"]]
    assert chances == sorted(chances, reverse=True)
    assert not found["safe"]["met"]
    assert run("search", "llama-3-70b-512", *RISKY, "--safe", "90%").code == 1


def test_flags_alone_take_a_safe_plan(run: Any) -> None:
    flags = ("--model", "llama-3-70b", "--gpu", "h100", "--gpus", "512", "--sequence", "8192", "--batch", "1024")
    (safe,) = json.loads(run("estimate", *flags, "--json").out)["plans"]
    (off,) = json.loads(run("estimate", *flags, "--safe", "off", "--json").out)["plans"]
    assert off["fit_chance"] < 0.9 <= safe["fit_chance"]
    assert safe["step_time_s"] > off["step_time_s"]


def test_solve_answers_for_plans_that_fit(run: Any) -> None:
    """micro_batch 2 reaches 49 % MFU at a risk; 1 does not risk it, and misses that."""
    wanted = ("--set", "plan.pp=2", "--set", "plan.vpp=5", "--over", "plan.micro_batch=1,2", "--for", "mfu>=40 %")
    found = json.loads(run("solve", "llama-3-70b-512", *wanted, "--json").out)
    assert [(each["low"], each["high"]) for each in found["ranges"]] == [("1", "1")]
    assert found["safe"] == {"chance": 0.9, "met": True, "without": [{"low": "1", "high": "2"}]}
    off = json.loads(run("solve", "llama-3-70b-512", *wanted, "--safe", "off", "--json").out)
    assert [(each["low"], each["high"]) for each in off["ranges"]] == [("1", "2")]
