"""Keys of another workload: the sentence, and what the workload has in their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from costmodel.documents.keys.field_aliases import VALUES_OF
from costmodel.documents.keys.key_list import all_keys
from costmodel.documents.keys.schema_paths import choices_of, key_of
from costmodel.documents.keys.workload_keys import IN_PLACE, LABELLED, SCENARIOS, of_another_workload

Faults = Callable[[Any], list[Any]]


def test_what_a_value_of_others_stands_for_is_a_choice_of_that_workload_too() -> None:
    for workload, keys in VALUES_OF.items():
        for key, words in keys.items():
            known = choices_of(SCENARIOS[workload], key if key == "objective" else f"workload.{key}")
            for word, meant in words.items():
                exact = meant.partition(";")[0].strip("'")
                assert exact in known or " " in exact, (key, word, meant)
                assert word not in known


SERVING_HINTS = {
    "plan.dp=2": ("'dp' belongs to training; serving has replicas", "did you mean 'replicas'?"),
    "plan.recompute=full": ("'recompute' belongs to training; serving has no such key", "leave it out; costmodel list"),
    "plan.data_parallel_size=2": ("unknown key 'data_parallel_size'", "did you mean 'replicas'?"),
    "workload.global_batch=8": (
        "'global_batch' belongs to training; serving has rate or concurrency",
        "did you mean 'rate' or 'concurrency'?",
    ),
    "limits.goodput={at_least: 5 /s}": (
        "'goodput' belongs to training; serving has in_time_per_s or in_time_share",
        "did you mean 'in_time_per_s' or 'in_time_share'?",
    ),
    "limits.ttft_p99.at_least=1 s": ("a time that users wait is bounded by at_most", ""),
    "limits={latency: {at_least: 1 s, at_most: 2 s}}": ("a time that users wait is bounded by at_most", ""),
    "workload.algorithm=grpo": ("'algorithm' belongs to reinforcement learning", "or write workload.kind: rl"),
    "plan.replica=2": ("unknown key 'replica'", "did you mean 'replicas'?"),
    "objective=cheapest": ("'cheapest' is not one of", "did you mean 'cost_within_limits'?"),
    "objective=cost_per_mtoken": ("'cost_per_mtoken' is not one of", "did you mean 'cost_within_limits'?"),
    "workload.precision=int4": ("'int4' is not one of", "weights in 4 bits are workload.weights: int4-g128"),
    "workload.traffic=offline": ("'offline' is not one of", "requests: 10 k"),
}


@pytest.mark.parametrize("assignment", SERVING_HINTS)
def test_a_word_of_training_on_a_service_has_the_hint_of_serving(assignment: str, run: Any, faults: Faults) -> None:
    (found,) = faults(run("estimate", "serve-llama-3.1-70b", "--set", assignment))
    sentence, hint = SERVING_HINTS[assignment]
    assert sentence in found.sentence
    assert hint in found.help


def test_counterparts_are_keys_of_their_workloads() -> None:
    for workload, counterparts in IN_PLACE.items():
        for path, there in counterparts.items():
            assert of_another_workload(workload, path) is not None, path
            assert all(key_of(SCENARIOS[workload], key) for key in there.split()), path
    for path in ("plan.tp", "plan.nothing"):  # of every workload, and of none
        assert of_another_workload("serving", path) is None


def test_keys_are_listed_with_the_workload_they_belong_to(run: Any) -> None:
    found = {key.path: key.of for key in all_keys()}
    assert {path: found[path] for path in ("plan.dp", "plan.replicas", "plan.tp")} == {
        "plan.dp": "training",
        "plan.replicas": "serving",
        "plan.tp": "",
    }
    assert "of training: Data-parallel degree" in run("list", "keys", "plan.dp").out


def test_what_answers_call_a_result_is_no_key_and_leads_to_one() -> None:
    for workload, called in LABELLED.items():
        for path, there in called.items():
            assert key_of(SCENARIOS[workload], path) is None, path
            assert all(key_of(SCENARIOS[workload], key) is not None for key in there.split()), path
