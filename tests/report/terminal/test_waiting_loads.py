"""Users and requests in flight that wait in line: how many, and what ends the line."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

JOB = ("--model", "llama-3.1-70b", "--gpu", "h100")
FLIGHT = (*JOB, "--prompt", "2000", "--answer", "500", "--concurrency", "5000", "--set", "plan={tp: 2, pp: 1}")
THINKING = (*JOB, "--prompt", "500", "--answer", "300", "--set", "workload.think_time=30 s", "--gpus", "8")
LINE = r"([\d,]+) of ([\d,]+) (?:users|requests) wait for their first token at a time"


def number(text: str) -> int:
    return int(text.replace(",", ""))


def test_requests_in_line_are_those_in_flight_that_no_replica_holds(run: Any) -> None:
    """Two replicas hold 8.66 requests each, so that the other 4,983 of 5,000 wait; the replicas to try end that."""
    asked = ("estimate", *FLIGHT, "--set", "stack.budget=16384", "--gpus", "4", "--set", "plan.replicas=2")
    out = run(*asked).out
    held = json.loads(run(*asked, "--json").out)["plans"][0]["concurrency"]
    ((waiting, everyone),) = re.findall(LINE, out)
    assert number(everyone) == 5000
    assert abs(number(waiting) - (5000 - 2 * held)) <= 1
    (options,) = re.findall(r"try  (.*)", out)
    tried = ("estimate", *FLIGHT, "--set", "stack.budget=16384", *shlex.split(options))
    assert not re.findall(LINE, run(*tried).out)
    fewer = re.sub(r"replicas=(\d+)", lambda found: f"replicas={int(found[1]) // 2}", options)
    assert re.findall(LINE, run("estimate", *FLIGHT, "--set", "stack.budget=16384", *shlex.split(fewer)).out)


def test_a_search_names_users_in_line_and_its_estimate_what_ends_it(run: Any) -> None:
    out = run("search", *THINKING, "--users", "12000", "--top", "1").out
    assert re.findall(LINE, out)
    best = re.findall(r"^Next[^:]*: costmodel (estimate .*)$", out, re.MULTILINE)[0]
    words = shlex.split(best)
    named = run(*words).out
    assert re.findall(LINE, named) == re.findall(LINE, out)
    (options,) = re.findall(r"try  (.*)", named)
    replicas = options.split()[-1]
    again = [replicas if word.startswith("plan.replicas") else word for word in words]
    gpus = options.split()[1]
    again[again.index("--gpus") + 1] = gpus
    assert not re.findall(LINE, run(*again).out)
    assert not re.findall(LINE, run("search", *THINKING, "--users", "200", "--top", "1").out)
