"""The columns of rates in a search about serving: of loads that wait for their answers, at the rate that these get."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest

JOB = ("--model", "llama-3.1-70b", "--gpu", "h100", "--prompt", "2000", "--answer", "500")
THINKING = ("--set", "workload.think_time=30 s")


@pytest.mark.parametrize(
    "load", [("--concurrency", "64"), ("--users", "200", *THINKING), ("--set", "workload.requests=500")]
)
def test_a_search_shows_the_rate_that_the_load_gets(load: tuple[str, ...], run: Any) -> None:
    """Tokens a second and GPU are the rate times 500 tokens over 8 GPUs, as `estimate` of the best plan has them."""
    out = run("search", *JOB, "--gpus", "8", *load, "--top", "1").out
    assert "req/s: the rate at which the scenario's load is answered" in out
    head, row = (re.split(r" {2,}", line.strip()) for line in out.splitlines() if re.match(r"  (#|1) ", line))
    shown = dict(zip(head, row, strict=False))
    best = re.findall(r"^Next[^:]*: costmodel (estimate .*)$", out, re.MULTILINE)[0]
    (same,) = json.loads(run(*shlex.split(best), "--json").out)["plans"]
    assert float(shown["req/s"]) == pytest.approx(same["requests_per_s"], rel=0.005)
    assert float(shown["tok/s/GPU"]) == pytest.approx(float(shown["req/s"]) * 500 / 8, rel=0.01)


def test_the_highest_rate_has_a_column_of_its_own_where_plans_are_ranked_by_it(run: Any) -> None:
    asked = ("search", *JOB, "--gpus", "8", "--users", "200", *THINKING, "--top", "1",
             "--set", "objective=rate_within_slo_per_s")  # fmt: skip
    (best,) = json.loads(run(*asked, "--json").out)["plans"]
    out = run(*asked).out
    assert f"{best['rate_within_slo_per_s']:#.3g} /s" in out
    assert "most req/s: the highest rate that is answered" in out
    assert "highest rate that is answered" not in run("search", *JOB, "--concurrency", "64", "--top", "1").out
