"""sweep, scale and solve answer about every workload in every form, with the same keys."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import pytest

TRAINING, SERVING, RL = "quickstart", "serve-llama-3.1-70b", "grpo-qwen-2.5-7b-64"
ASKED = {
    "sweep": {
        TRAINING: ("--over", "plan.micro_batch=1,2"),
        SERVING: ("--over", "workload.rate=2 /s,4 /s"),
        RL: ("--over", "workload.response.mean=2k,4k"),
    },
    "scale": {TRAINING: ("--ranks", "8..16"), SERVING: ("--rate", "2,4"), RL: ("--ranks", "32..64")},
    "solve": {
        TRAINING: ("--over", "workload.sequence=2048,4096", "--for", "step_time<=1 h"),
        SERVING: ("--over", "workload.rate=2,4 /s", "--for", "tpot<=1 s"),
        RL: ("--over", "cluster.nodes=4,8", "--for", "iteration_time<=1 d"),
    },
}
ROWS = {"sweep": "points", "scale": "sizes", "solve": "ranges"}
EVERY = [(question, name) for question, names in ASKED.items() for name in names]


def asked(question: str, name: str, run: Any, *more: str) -> Any:
    return run(question, name, *ASKED[question][name], *more)


@pytest.mark.parametrize("question", ASKED)
def test_answers_have_the_same_keys_whatever_the_workload(question: str, run: Any) -> None:
    found = {name: json.loads(asked(question, name, run, "--json").out) for name in ASKED[question]}
    assert [each["workload"] for each in found.values()] == ["training", "serving", "rl"]
    first, *others = ({*each} - {"price_usd_per_gpu_h"} for each in found.values())
    price = {key for key in first if key.startswith("price")}
    assert all(keys - price == first - price for keys in others)
    common = (
        {"point", "works", "verdict", "codes", "fault", "notes"} if question != "solve" else {"low", "high", "at_low"}
    )
    assert all(common <= {*row} for each in found.values() for row in each[ROWS[question]])


@pytest.mark.parametrize(("question", "name"), EVERY)
def test_every_form_has_the_rows_of_json(question: str, name: str, run: Any) -> None:
    rows = json.loads(asked(question, name, run, "--json").out)[ROWS[question]]
    table = list(csv.DictReader(io.StringIO(asked(question, name, run, "--format", "csv").out)))
    assert len(rows) == len(table) > 0
    for form in ("table", "markdown", *(("html", "svg") if question != "solve" else ())):
        ran = asked(question, name, run, "--format", form)
        assert (ran.code, ran.err) == (0, "")
        assert "internal error" not in ran.out


@pytest.mark.parametrize(("question", "name"), EVERY)
def test_a_row_is_what_estimate_answers_there(question: str, name: str, run: Any) -> None:
    row = json.loads(asked(question, name, run, "--json", "--safe", "off").out)[ROWS[question]][0]
    settings = f"{row['path']}={row['low']}" if question == "solve" else row["point"]
    changes = [word for each in re.split(r" (?=[a-z_.]+=)", settings) for word in ("--set", each)]
    (plan,) = json.loads(run("estimate", name, *changes, "--json").out)["plans"]
    stated = row["at_low"] if question == "solve" else row
    shared = [key for key in plan if key in stated and key.endswith(("_s", "_bytes"))]
    assert len(shared) >= 3
    assert {key: stated[key] for key in shared} == {key: plan[key] for key in shared}


@pytest.mark.parametrize("name", [SERVING, RL])
def test_a_scenario_that_has_a_plan_takes_the_best_one_if_asked(name: str, run: Any) -> None:
    words = ("sweep", name, "--over", "cluster.nodes=2,4", "--best", "--json")
    points = json.loads(run(*words).out)["points"]
    assert all(point["works"] for point in points[-1:])
    for point in points:
        best = json.loads(run("search", name, "--set", point["point"], "--top", "1", "--json").out)["plans"][0]
        assert best["tp"] == point["tp"]
