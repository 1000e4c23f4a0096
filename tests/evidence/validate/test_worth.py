"""What a term is worth: planted errors are found, and the answer stands in every form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from costmodel.evidence.validate.outcomes import GROUPINGS, Compared
from costmodel.evidence.validate.scores import worth_of_terms


def figure(measured: float, parts: dict[str, float], source: str = "a") -> Compared:
    groups = dict.fromkeys(GROUPINGS, source)
    return Compared("run", "step_time", measured, 10.0, None, 9.0, 11.0, groups=groups, parts=parts)


def test_a_term_that_runs_do_not_show_is_named_in_its_group() -> None:
    """Of runs of b the launches that are predicted were not there."""
    parts = {"matmul": 0.8, "launch": 0.2}
    figures = [figure(10.0, parts), figure(10.2, parts), figure(8.0, parts, "b"), figure(8.1, parts, "b")]
    found = {(each.term, each.group): each for each in worth_of_terms(figures, ["matmul", "launch"], "source")}
    assert found["launch", "a"].earns_its_place
    assert not found["launch", "b"].earns_its_place
    assert found["launch", "b"].without.median_error == pytest.approx(0.1 / 8.1 / 2)
    assert found["matmul", "a"].without.median_error == pytest.approx(0.8, abs=0.01)
    assert all(each.share == parts[each.term] for each in found.values())


def test_rows_that_hardly_exercise_a_term_show_nothing_of_it() -> None:
    figures = [figure(10.0, {"matmul": 0.97, "offload": 0.03})]
    assert [each.term for each in worth_of_terms(figures, ["matmul", "offload"])] == ["matmul"]


def test_every_term_of_published_steps_earns_its_place(run: Any) -> None:
    said = json.loads(run("validate", "--worth", "--json").out)
    assert said["rows"] == 201
    assert all(each["better_with_it"] for each in said["terms"] if each["with"]["rows"] >= 10)
    assert said["without_evidence"] == ["offload"]


def test_a_plan_has_the_share_of_each_term_beside_its_worth(run: Any) -> None:
    said = json.loads(run("explain", "quickstart", "step_time", "--worth", "--json").out)
    assert sum(each["here"] for each in said["terms"]) == pytest.approx(1.0, abs=0.02)
    one = json.loads(run("explain", "llama-3-70b-512", "dp_exposed", "--worth", "--json").out)["terms"]
    assert {each["term"] for each in one} == {"dp"}
    assert {each["group"] for each in one} >= {"attention", "attention + experts"}


@pytest.mark.parametrize(
    "words",
    [
        ("explain", "quickstart", "memory_peak", "--worth"),
        ("explain", "serve-llama-3.1-70b", "tpot", "--worth"),
        ("explain", "ring", "--worth"),
        ("explain", "--worth"),
        ("explain", "ring-all-reduce", "--ranks", "4", "--worth"),
        ("validate", "--worth", "--without", "dp"),
        ("validate", "--worth", "--quantity", "memory"),
        ("validate", "--worth", "--worst", "3"),
        ("validate", "tensorrt-llm-1.0", "--worth"),
    ],
)
def test_what_has_no_terms_of_a_step_is_refused(words: tuple[str, ...], run: Any) -> None:
    said = run(*words)
    assert (said.code, "--worth" in said.err or "no row has a predicted step" in said.err) == (2, True)
