"""A word behind an option that names no result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

SERVED, TRAINED, RL = "serve-llama-3.1-70b", "llama-3-70b-512", "grpo-qwen-2.5-7b-64"
WRONG = {
    "solve": (("solve", SERVED, "--vary", "workload.rate", "--for", "foo<=1"), "C003", "foo", "known: ttft, "),
    "solve alike": (
        ("solve", TRAINED, "--vary", "cluster.nodes", "--for", "mfuu>=1"),
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


RATED = ("--vary", "workload.rate=1..10")
LABELLED = {
    "rent": (("sensitivity", SERVED, "--of", "rent"), "did you mean rent_per_month?"),
    "rent of a target": (("solve", SERVED, *RATED, "--for", "rent<=100000"), "did you mean rent_per_month?"),
    "in flight": (
        ("sweep", SERVED, "--over", "workload.rate=1/s,2/s", "--show", "ttft,in_flight"),
        "did you mean concurrency?",
    ),
    "utilisation": (("solve", SERVED, *RATED, "--for", "utilisation<=80%"), "did you mean saturation_share?"),
    "throughput": (("sensitivity", TRAINED, "--of", "throughput"), "did you mean tokens_per_s?"),
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
