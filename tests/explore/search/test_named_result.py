"""A word behind an option that names no result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from costmodel.documents.schemas.results import SERVING_RESULTS, TRAINING_COLUMNS
from costmodel.explore.search.rank import named_result

SERVED, TRAINED, RL = "serve-llama-3.1-70b", "llama-3-70b-512", "grpo-qwen-2.5-7b-64"
WRONG = {
    "solve": (("solve", SERVED, "--over", "workload.rate", "--for", "foo<=1"), "C003", "foo", "known: ttft, "),
    "solve alike": (
        ("solve", TRAINED, "--over", "cluster.nodes", "--for", "mfuu>=1"),
        "C003",
        "mfuu",
        "did you mean mfu",
    ),
    "front": (("search", SERVED, "--pareto", "tpot,foo"), "C006", "foo", "known: ttft, "),
    "front of one": (("search", TRAINED, "--pareto", "step_time"), "C006", "step_time", "for example --pareto "),
    "sweep": (("sweep", RL, "--over", "cluster.nodes=8", "--show", "foo"), "C003", "foo", "known: "),
    "sensitivity": (
        ("sensitivity", TRAINED, "--of", "mfu,step_time"),
        "C003",
        "mfu,step_time",
        "did you mean step_time",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_word_is_marked_and_the_names_are_listed(name: str, run: Any, faults: Callable[[Any], list[Any]]) -> None:
    command, code, word, help_text = WRONG[name]
    (found,) = faults(run(*command))
    assert (found.code, found.marked) == (code, word)
    assert found.help.startswith(help_text)
    assert "_low" not in found.help


LABELLED = {
    "a limit": (
        ("estimate", SERVED, "--set", "limits.utilisation.at_most=80%"),
        "did you mean 'saturation_share'?",
    ),
    "a limit on a wait": (
        ("estimate", SERVED, "--set", "limits.p99_ttft.at_most=1s"),
        "did you mean 'ttft_p99' or 'ttft'?",
    ),
}


@pytest.mark.parametrize("name", LABELLED)
def test_a_label_of_an_answer_leads_to_the_name_of_its_result(
    name: str, run: Any, faults: Callable[[Any], list[Any]]
) -> None:
    command, hint = LABELLED[name]
    (found,) = faults(run(*command))
    assert found.help == hint


@pytest.mark.parametrize(
    ("word", "columns", "name"),
    [
        ("rent", SERVING_RESULTS, "rent_per_month"),
        ("in_flight", SERVING_RESULTS, "concurrency"),
        ("utilisation", SERVING_RESULTS, "saturation_share"),
        ("throughput", TRAINING_COLUMNS, "tokens_per_s"),
        ("step time", TRAINING_COLUMNS, "step_time"),
    ],
)
def test_a_label_that_answers_print_for_one_result_is_its_name(word: str, columns: Any, name: str) -> None:
    assert named_result(word, columns, "--of", word) == name
