"""solve of a service: its default values, and rates without a unit."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

NAME = "serve-llama-3.1-70b"
GOAL = ("--for", "ttft_p99<=30 s", "--safe", "off", "--set", "limits={}")
USERS = ("--users", "64", "--set", "workload.think_time=10 s")


@pytest.mark.parametrize(
    ("key", "flags", "first", "last"),
    [
        ("plan.replicas", ("--set", "plan.tp=2"), "1", "8"),  # of the 16 GPUs at most
        ("workload.prompt", ("--set", "workload.prompt=2048"), "32", "131,072"),
        ("workload.prompt", ("--set", "workload.prompt={mean: 2048, spread: 60 %}"), "32", "131,072"),
        ("plan.tp", (), "1", "16"),
        ("workload.users", USERS, "1", "4,096"),
        ("workload.concurrency", ("--concurrency", "64"), "1", "4,096"),
        ("stack.budget", (), "512", "65,536"),
        ("stack.sequences", (), "16", "4,096"),
    ],
)
def test_keys_that_are_counted_have_default_values(
    key: str, flags: tuple[str, ...], first: str, last: str, run: Any
) -> None:
    ran = run("solve", NAME, *flags, "--over", key, *GOAL)
    assert ran.code in (0, 1)
    assert not ran.err
    assert f"values tried from {first} to {last}" in ran.out
    spread = any("spread" in word for word in flags)
    assert (f"{key}.mean" in ran.out) is spread


def test_a_key_with_a_unit_has_default_values_around_its_own(run: Any) -> None:
    ran = run("solve", NAME, "--set", "workload.rate=null", *USERS, "--over", "workload.think_time", *GOAL)
    assert (ran.code, ran.err) == (0, "")
    assert "values tried from 0.1562 s to 640 s" in ran.out
    ran = run("solve", NAME, "--over", "workload.think_time", *GOAL)
    assert (ran.code, "C012" in ran.err) == (2, True)


def test_a_rate_in_a_flag_has_default_values(run: Any) -> None:
    load = ("--model", "llama-3.1-70b", "--gpu", "h100", "--gpus", "8", "--prompt", "2000", "--answer", "500")
    ran = run("solve", *load, "--rate", "3", "--set", "plan.tp=8", "--over", "workload.rate", *GOAL)
    assert ran.code == 0
    assert "from 0.04688 /s to 192 /s\n" in ran.out


def test_a_rate_without_a_unit_is_per_second_wherever_it_is_written(run: Any, tmp_path: Any) -> None:
    def figures(*words: str) -> Any:
        (plan,) = json.loads(run("estimate", *words, "--json").out)["plans"]
        return plan["ttft_s"], plan["tpot_s"], plan["requests_per_s"]

    mine = run("show", NAME).out
    assert "rate: 8 /s" in mine
    (tmp_path / "mine.yaml").write_text(mine.replace("rate: 8 /s", "rate: 5"), "utf-8")
    expected = figures(NAME, "--set", "workload.rate=300 /min")
    assert expected[2] == pytest.approx(5)
    assert figures(NAME, "--rate", "5") == figures(NAME, "--set", "workload.rate=5") == expected
    assert figures(str(tmp_path / "mine.yaml")) == expected
    swept = run("sweep", NAME, "--over", "workload.rate=1 /s,2 /s,4 /s")
    assert swept.code == 0
    for values in ("1,2,4", "1..4*2"):
        assert run("sweep", NAME, "--over", f"workload.rate={values}").out == swept.out
    bare, unit = (run("solve", NAME, "--over", f"workload.rate=1..20{end}", *GOAL) for end in ("", " /s"))
    assert bare.out == unit.out
    goal = run("solve", NAME, "--over", "workload.rate=1,20", "--for", "saturation_per_s>=5")
    assert "saturation_per_s ≥ 5.00 /s" in goal.out
    limited = run("estimate", NAME, "--set", "limits.requests_per_s.at_least=9")
    assert limited.code == 1


def test_the_target_is_reached_with_a_chance_of_90_percent(run: Any) -> None:
    """What estimate prints as the upper end of the band at the answer is the bound; by expected figures the middle."""
    wanted = ("--over", "workload.rate", "--for", "ttft_p99<=500 ms")
    found = json.loads(run("solve", NAME, *wanted, "--json").out)
    off = json.loads(run("solve", NAME, *wanted, "--safe", "off", "--json").out)
    demanded = json.loads(run("solve", NAME, *wanted, "--safe", "90%", "--json").out)
    for answer, figure in ((found, "ttft_p99_high_s"), (off, "ttft_p99_s")):
        rate = answer["ranges"][-1]["high"]
        (plan,) = json.loads(run("estimate", NAME, "--set", f"workload.rate={rate}", "--json").out)["plans"]
        assert plan[figure] == pytest.approx(0.5, rel=2e-3)
        assert plan[figure] <= 0.5
    assert demanded["ranges"] == found["ranges"]
    assert found["safe"]["without"] == [{key: off["ranges"][0][key] for key in ("low", "high")}]
    both = f"{off['ranges'][0]['high']} on average; {found['ranges'][-1]['high']} with a chance of 90 %"
    said = run("solve", NAME, *wanted).out
    assert f"  {both} to reach it and to meet all limits (--safe off gives {off['ranges'][0]['high']})\n" in said
    (beyond,) = re.findall(r"beyond it ttft_p99 is at most ([\d.]+) ms with a chance of 90 %", said)
    assert 500 < float(beyond) < 500.05


def test_a_result_without_a_band_is_by_its_expected_value(run: Any) -> None:
    ran = run("solve", NAME, "--over", "workload.rate", "--for", "gpus<=16")
    assert "  gpus has no range: its average prediction counts\n" in ran.out
    assert "S006 the chance to meet all limits is just under the 90 % asked for" in ran.out
    counted = run("solve", NAME, "--over", "workload.rate=2,4", "--for", "gpus_needed<=16").out
    assert "gpus_needed is itself counted with that chance" in counted


def test_a_chance_that_no_value_has_is_named(run: Any) -> None:
    wanted = ("--over", "workload.rate=4,7", "--for", "ttft_p99<=500 ms", "--safe", "99.9%")
    ran = run("solve", NAME, *wanted)
    assert ran.code == 1
    assert "reaches it with a chance of 99.9 %" in ran.out
    default = run("solve", NAME, "--over", "workload.rate=7", "--for", "ttft_p99<=500 ms").out
    assert "on average only: no value tried has a chance of 90 % to reach it and to meet all limits" in default
