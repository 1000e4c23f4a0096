"""The library answers what the command line answers, prints nothing, and shows itself in notebooks and pandas."""

from __future__ import annotations

import doctest
import json
from dataclasses import replace
from typing import Any

import pytest

import costmodel
from costmodel import library

ASKED: list[tuple[str, tuple[str, ...], Any]] = [
    ("estimate", ("quickstart",), lambda: library.estimate("quickstart")),
    ("estimate", ("serve-llama-3.1-70b",), lambda: library.estimate("serve-llama-3.1-70b")),
    ("memory", ("quickstart",), lambda: library.memory("quickstart")),
    ("memory", ("serve-llama-3.1-70b",), lambda: library.memory("serve-llama-3.1-70b")),
    ("search", ("quickstart", "--top", "3"), lambda: library.search("quickstart", 3)),
    ("search", ("serve-llama-3.1-70b", "--top", "2"), lambda: library.search("serve-llama-3.1-70b", 2)),
    (
        "search",
        ("serve-llama-3.1-70b", "--over", "stack=vllm,sglang", "--pareto", "tpot,ttft"),
        lambda: library.search("serve-llama-3.1-70b", over=["stack=vllm,sglang"], pareto="tpot,ttft"),
    ),
    (
        "sweep",
        ("quickstart", "--over", "plan.micro_batch=1,2", "--show", "mfu"),
        lambda: library.sweep("quickstart", ["plan.micro_batch=1,2"], "mfu"),
    ),
    (
        "sweep",
        ("serve-llama-3.1-70b", "--over", "plan.tp=4,8"),
        lambda: library.sweep("serve-llama-3.1-70b", ["plan.tp=4,8"]),
    ),
    ("explain", ("quickstart", "step_time"), lambda: library.explain("quickstart", "step_time")),
    ("explain", ("serve-llama-3.1-70b", "tpot"), lambda: library.explain("serve-llama-3.1-70b", "tpot")),
    ("explain", ("mfu",), lambda: library.explain("mfu")),
]


def _text(figures: dict[str, Any]) -> str:
    """As one text, since a difference of two trees is costly to describe; without the time it took."""
    return json.dumps({key: value for key, value in figures.items() if key not in ("elapsed_s", "digest")})


@pytest.mark.parametrize(("command", "words", "ask"), ASKED, ids=[" ".join((c, *w)) for c, w, _ in ASKED])
def test_a_function_answers_as_its_command(
    command: str, words: tuple[str, ...], ask: Any, run: Any, capfd: Any
) -> None:
    said = json.loads(run(command, *words, "--json").out)
    capfd.readouterr()
    answer = ask()
    same = _text(answer.figures) == _text(said)
    assert same
    assert len(repr(answer).splitlines()) >= 3
    assert answer._repr_html_().startswith("<pre")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("scenario", "given"), [("serve-llama-3.1-70b", {"workers": 2}), ("grpo-qwen-2.5-7b-64", {"over": ["plan.tp=1,2"]})]
)
def test_what_a_search_does_not_take_is_refused(scenario: str, given: dict[str, Any]) -> None:
    with pytest.raises(costmodel.CostModelError, match=f"has no {next(iter(given))}"):
        library.search(scenario, **given)


def test_a_comparison_names_what_moved() -> None:
    found = costmodel.compare("quickstart", costmodel.load("quickstart", ["plan.recompute=full"]))
    assert not found.found.same
    assert {"step_time_s", "memory_peak_bytes"} <= set(found.frame()["name"])
    serving = costmodel.compare("serve-llama-3.1-70b", costmodel.load("serve-llama-3.1-70b", ["plan.tp=4"]))
    assert "tpot_s" in set(serving.frame()["name"])


def test_frames_have_a_row_for_each_plan_and_units_in_their_names() -> None:
    frame = costmodel.search("quickstart", 4).frame()
    assert frame["rank"].tolist() == [1, 2, 3, 4]
    assert frame["step_time_s"].is_monotonic_increasing or frame["tokens_per_s_per_gpu"].is_monotonic_decreasing
    points = costmodel.sweep("quickstart", ["plan.tp=2,4", "plan.micro_batch=1,2"], "mfu").frame()
    assert len(points) == 4


def test_faults_are_exceptions_with_code_place_and_remedy(tmp_path: Any) -> None:
    with pytest.raises(costmodel.CostModelError) as caught:
        costmodel.estimate("quickstrat")
    (fault,) = caught.value.faults
    assert (fault.code, "quickstart" in fault.hint) == ("D009", True)
    bad = tmp_path / "bad.yaml"
    bad.write_text("schema: costmodel/scenario/v1\ntitle: x\nmodle: llama-3-8b\n")
    with pytest.raises(costmodel.CostModelError) as caught:
        costmodel.search(str(bad))
    assert any(fault.place is not None and fault.place.line == 3 for fault in caught.value.faults)
    with pytest.raises(TypeError, match="settings go with the name"):
        costmodel.estimate(costmodel.load("quickstart"), ["plan.tp=2"])
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        costmodel.nothing_of_the_kind  # noqa: B018


def test_a_notebook_shows_hostile_names_as_text() -> None:
    case = costmodel.load("quickstart")
    model = case.model.model_copy(update={"title": "<script>alert(1)</script>", "name": "<b>x</b>"})
    shown = costmodel.estimate(replace(case, model=model))._repr_html_()
    assert "alert(1)" in shown or "&lt;b&gt;x" in shown
    assert "<script" not in shown
    assert "<b>x" not in shown


def test_examples_of_docstrings_run() -> None:
    result = doctest.testmod(library)
    assert (result.failed, result.attempted >= 6) == (0, True)


def test_an_answer_stands_once_in_jupyter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A console of rich that finds itself in Jupyter shows each line by itself."""
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("rich.jupyter.display", lambda *_: pytest.fail("a line was shown beside the answer"))
    assert costmodel.estimate("quickstart")._repr_html_().startswith("<pre")
