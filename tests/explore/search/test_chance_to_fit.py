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
    assert f"at risk: {row['fit_chance']:.0%} to fit" in run("estimate", "llama-3-70b-512", *AT_RISK).out


def test_safe_keeps_plans_with_that_chance_and_no_others(run: Any) -> None:
    every = json.loads(run("search", "llama-3-70b-512", "--top", "200", "--json").out)
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
    rows = json.loads(run("search", "llama-3-70b-512", "--top", "6", "--json").out)["plans"]
    assert not rows[0]["fits_p90"]
    first = next(row for row in rows if row["fits_p90"])
    said = run("search", "llama-3-70b-512", "--top", "6").out
    assert f"1 fits with a chance of {rows[0]['fit_chance']:.0%}; {first['rank']} fits at P90 and takes" in said


def test_two_results_may_weigh_the_chance(run: Any) -> None:
    found = json.loads(run("search", "llama-3-70b-512", "--pareto", "fit_chance,step_time", "--json").out)["pareto"]
    pairs = [(plan["fit_chance"], plan["step_time_s"]) for plan in found["plans"]]
    assert pairs == sorted(pairs, reverse=True)
    assert len(pairs) > 1
    assert all(plan["first_faster"] is None for plan in found["plans"])
