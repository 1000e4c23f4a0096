"""Every question of every workload in every form; where one has no answer, it gives the reason."""

from __future__ import annotations

import csv
import io
import json
from contextlib import nullcontext
from typing import Any

import pytest

import costmodel
from costmodel.library import Result
from costmodel.report.page.trace import without_traces

TRAINING, SERVING, RL = "quickstart", "serve-llama-3.1-70b", "grpo-qwen-2.5-7b-64"
EVERY: dict[str, dict[str, Any]] = {name: {} for name in (TRAINING, SERVING, RL)}
USUAL = {TRAINING: "step_time", SERVING: "tpot", RL: "iteration_time"}
ASKED: dict[str, dict[str, dict[str, Any]]] = {
    "estimate": EVERY,
    "memory": EVERY,
    "comm": EVERY,
    "run": EVERY,
    "pipeline": EVERY,
    "explain": {name: {"quantity": figure} for name, figure in USUAL.items()},
    "search": {name: {"top": 2} for name in EVERY},
    "buy": {name: {"node": "neocloud-h100"} for name in EVERY},
    "sweep": {name: {"over": ["cluster.nodes=4,8"]} for name in EVERY},
    "scale": {TRAINING: {"ranks": "16,32"}, SERVING: {"rate": "2,4"}, RL: {"ranks": "64,128"}},
    "sensitivity": {name: {"top": 3} for name in EVERY},
    "solve": {name: {"over": "cluster.nodes=4,8", "wanted": f"{figure}<=1 d"} for name, figure in USUAL.items()},
    "diff": {name: {"settings": ["cluster.nodes=16"]} for name in EVERY},
    "check": EVERY,
    "diagnose": {name: {"step": "20 s"} for name in EVERY},
    "report": EVERY,
    "export": EVERY,
}
REFUSED = {  # with the reason
    ("run", SERVING): "run is for training and RL: a service has no end",
    ("pipeline", SERVING): "pipeline is for training: a service",
    ("pipeline", RL): "pipeline is for training: in RL",
    ("diagnose", SERVING): "diagnose is for training: the times of a service",
    ("diagnose", RL): "diagnose is for training: in RL",
}
WITHOUT_ROWS = ("export",)  # a document
WITHOUT_PAGE = ("export", "diagnose")


FLAGS: dict[str, dict[str, Any]] = {
    TRAINING: {"model": "llama-3-8b", "gpu": "h100", "gpus": 32},
    SERVING: {"model": "llama-3.1-70b", "gpu": "h100", "gpus": 16, "rate": "4"},
    RL: {"model": "qwen-2.5-7b", "gpu": "h100", "gpus": 64, "rl": "grpo"},
}
LONG = ("report", "search", "buy", "scale", "export")  # their pages, spaces and files have tests of their own


@pytest.mark.share(3)
@pytest.mark.parametrize("form", ["mapping", "flags"])
@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("question", [each for each in ASKED if each not in LONG])
def test_every_question_takes_the_keys_of_a_scenario_or_flags(
    question: str, name: str, form: str, request: pytest.FixtureRequest
) -> None:
    """Both are answered as the name of a scenario is, in a notebook and as rows.

    A share of questions, workloads and forms, unless --whole asks for all.
    """
    ask, keys = getattr(costmodel, question), costmodel.estimate(name).figures["scenario"]["document"]
    if question == "sensitivity":
        request.getfixturevalue("few_knobs")
    scenario, flags = ((), FLAGS[name]) if form == "flags" else ((keys,), {})
    if (question, name) in REFUSED:
        with pytest.raises(costmodel.CostModelError, match=REFUSED[question, name]):
            ask(*scenario, **ASKED[question][name], **flags)
        return
    found: Result = ask(*scenario, **ASKED[question][name], **flags)
    assert len(found.frame()) > 0
    assert found._repr_html_().startswith("<pre")  # type: ignore[union-attr]


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("question", ASKED)
def test_every_question_of_every_workload(question: str, name: str, request: pytest.FixtureRequest) -> None:
    ask = getattr(costmodel, question)
    if question == "sensitivity":
        request.getfixturevalue("few_knobs")
    if (question, name) in REFUSED:
        with pytest.raises(costmodel.CostModelError, match=REFUSED[question, name]):
            ask(name, **ASKED[question][name])
        return
    found: Result = ask(name, **ASKED[question][name])
    assert len(repr(found).splitlines()) >= 2
    result = json.loads(found.form("json"))
    assert question == "export" or result["schema"].startswith("costmodel/")
    if question == "report":  # its page and its text are long, and have tests of their own
        return
    if question not in WITHOUT_ROWS:
        rows = list(csv.DictReader(io.StringIO(str(found.form("csv")))))
        assert len(str(found.form("jsonl")).splitlines()) == len(found.frame())
        assert len(rows) >= len(found.frame()) > 0
        assert bytes(found.form("xlsx"))[:2] == b"PK"  # type: ignore[arg-type]
    assert "|" in str(found.form("markdown")) or question in (*WITHOUT_ROWS, "explain", "check", "solve")
    with nullcontext() if question == "estimate" else without_traces():  # its page shows that of the others too
        page = str(found.form("html")) if question not in WITHOUT_PAGE else ""
    assert question in WITHOUT_PAGE or page.startswith("<!DOCTYPE html>")
