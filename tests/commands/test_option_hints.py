"""An option that no command has leads to the key that states the same."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

JOB = ("--model", "llama-3.1-8b", "--gpu", "h100", "--gpus", "8", "--prompt", "2000", "--answer", "500")
OPTIONS = {
    "--requests 20000": "--set workload.requests=20000",
    "--rate 5 --ttft-p99 1s": "--ttft 1s",
    "--rate 5 --p99-ttft=1s": "--ttft 1s",
    "--rate 5 --tp 4": "--set plan.tp=4",
    "--rate 5 --dp-attention 1": "--set plan.dp_attention=1",
    "--rate 5 --nodes 1": "--set cluster.nodes=1",
    "--rate 5 --routing least-loaded": "--set assume.routing=least-loaded",
    "--rate 5 --weights fp8": "--set workload.weights=fp8",
    "--rate 5 --spread 60%": "--set workload.prompt.spread=60%",
    "--rate 5 --max-num-seqs 64": "--set stack.sequences=64",
    "--rate 5 --page-size 32": "--set stack.block=32",
    "--rate 5 --kv-cache-dtype fp8": "--set workload.cache=fp8",
    "--rate 5 --gpu-memory-utilization 0.8": "--set stack.memory.share=0.8",
    "--rate 5 --quantization fp8": "--dtype fp8",
    "--rate 5 --engine sglang": "--stack sglang",
    "--rate 5 --objective gpus_needed": "--set objective=gpus_needed",
    "--rate 5 --max-gpus 64": "--set limits.gpus.at_most=64",
    "--rate 5 --tokens-per-s-per-user 20token/s": "--set limits.tokens_per_s_per_user.at_least=20token/s",
    "--rate 5 --set limits.ttft.at_most=1s --goodput 4": "--set limits.in_time_per_s.at_least=4",
    "--rate 5 --dp 2": "--set plan.replicas=2",
    "--qps 5/s": "--rate 5/s",
}


@pytest.mark.parametrize("typed", OPTIONS)
def test_an_unknown_option_has_the_setting_it_stands_for_as_its_hint(typed: str, run: Any) -> None:
    """The command with the hint in place of the option answers."""
    hint, given = OPTIONS[typed], shlex.split(typed)
    option = next(word for word in given if word not in ("--rate", "--set") and word.startswith("--"))
    refused = run("estimate", *JOB, *given)
    assert refused.code == 2
    assert f"help: {hint}" in refused.err
    assert "Possible options" not in refused.err
    kept = given[: given.index(option)]
    assert run("estimate", *JOB, *kept, *shlex.split(hint)).code in (0, 1)


@pytest.mark.parametrize("words", ["list models --isl 5", "validate runs.csv --qps 3", "show vllm --tp 5",
                                   "estimate quickstart --name x", "estimate quickstart --memory 80"])  # fmt: skip
def test_a_hint_is_of_an_option_that_the_command_has(words: str, run: Any) -> None:
    refused = run(*shlex.split(words))
    assert refused.code == 2
    assert "No such option" in refused.err
    assert "help: --" not in refused.err


@pytest.mark.parametrize("words", ["sweep quickstart --vary plan.tp=1,2", "search quickstart --vary plan.tp=1,2",
                                   "solve quickstart --vary plan.tp=1,2 --for mfu>=1%"])  # fmt: skip
def test_vary_leads_to_over(words: str, run: Any) -> None:
    assert "help: --over plan.tp=1,2" in run(*shlex.split(words)).err
    assert run(*shlex.split(words.replace("--vary", "--over"))).code == 0


def test_a_training_plan_has_no_replicas(run: Any) -> None:
    assert "replicas" not in run("estimate", "quickstart", "--data-parallel-size", "8").err


def test_a_name_that_no_key_has_leads_nowhere(run: Any) -> None:
    assert "help:" not in run("estimate", *JOB, "--rate", "5", "--nope", "100").err


def test_an_option_misspelled_has_those_alike(run: Any) -> None:
    assert "--prompt" in run("estimate", *JOB, "--promt", "100").err


VALUES = {
    ("--price", "3"): ("3 has no unit; write '3 USD/GPU/h'", ("--price", "3 USD/GPU/h")),
    ("--safe", "90"): ("if percent is meant, 90%", ("--safe", "90%")),
    ("--over", "gpu=h100,h200"): ("help: --over cluster.node=", ("--over", "cluster.node=dgx-h100,dgx-h200")),
    ("--over", "accelerator=h100,b200"): ("help: --over cluster.node=", ("--over", "cluster.node=dgx-h100,dgx-b200")),
}


@pytest.mark.parametrize("given", VALUES)
def test_a_value_that_is_refused_has_one_that_is_taken_in_its_message(given: tuple[str, str], run: Any) -> None:
    words, meant = VALUES[given]
    refused = run("search", *JOB, "--rate", "5", *given)
    assert refused.code == 2
    assert words in refused.err
    assert meant[1] in refused.err
    assert run("search", *JOB, "--rate", "5", *meant).code == 0


def test_several_gpus_of_a_flag_lead_to_their_nodes(run: Any) -> None:
    job = [word if word != "h100" else "h100,mi300x" for word in JOB]
    assert "--over cluster.node=dgx-h100,hgx-mi300x" in run("search", *job, "--rate", "5").err
