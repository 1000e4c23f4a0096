"""export through the command line: files that come back, what they cannot say, and nothing written on a no."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costmodel.commands.export import ExportFormat
from costmodel.exchange.detect import RL_FORMATS
from costmodel.exchange.serving.exported_command import ENGINES
from costmodel.exchange.training.formats import TARGETS

Run = Callable[..., Any]


def test_the_choices_of_the_option_are_the_targets() -> None:
    assert {choice.value for choice in ExportFormat} == {
        *TARGETS,
        *ENGINES,
        *(each.name for each in RL_FORMATS.values() if each.kind),
    }


@pytest.mark.parametrize("words", [(), ("--to", "vllm")])
def test_a_scenario_that_serves_is_the_command_of_its_engine(words: tuple[str, ...], run: Run) -> None:
    assert "vllm serve" in run("export", "serve-llama-3.1-70b", *words).out


@pytest.mark.parametrize("word", ["trtllm", "TensorRT-LLM", "tensorrt_llm", "trt-llm"])
def test_a_format_has_several_spellings(word: str, run: Run) -> None:
    assert "trtllm-serve" in run("export", "serve-llama-3.1-70b", "--to", word).out


def test_a_format_that_is_none_is_answered_with_the_nearest(run: Run) -> None:
    ran = run("export", "serve-llama-3.1-70b", "--to", "vlm")
    assert (ran.code, "did you mean vllm? known: megatron, bridge" in ran.err) == (2, True)


def test_what_is_exported_is_imported_and_costs_the_same(run: Run, tmp_path: Path) -> None:
    done = run("export", "quickstart", "--to", "megatron", "-o", str(tmp_path / "train.sh"))
    assert done.code == 0, done.err
    assert "read back: the same plan" in done.out
    back = run("import", "train.sh", "--node", "dgx-h100", "-o", "mine.yaml", cwd=tmp_path)
    assert back.code == 0, back.err
    ours = json.loads(run("estimate", "quickstart", "--json").out)
    theirs = json.loads(run("estimate", "mine.yaml", "--json", cwd=tmp_path).out)
    key = "step_time_s"
    assert ours["plans"][0][key] == pytest.approx(theirs["plans"][0][key], rel=1e-12)


@pytest.mark.parametrize("to", ["deepspeed", "torchtitan"])
def test_a_no_writes_nothing_unless_the_rest_is_asked_for(to: str, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    done = run("export", "llama-3-70b-512", "--to", to, "-o", str(path))
    assert done.code == 1
    assert "X009 stack" in done.out
    assert not path.exists()
    done = run("export", "llama-3-70b-512", "--to", to, "--lossy", "-o", str(path))
    assert done.code == 0, done.err
    assert path.exists()
    if to == "deepspeed":
        found = json.loads(path.read_text("utf-8"))
        micro, often = found["train_micro_batch_size_per_gpu"], found["gradient_accumulation_steps"]
        assert found["train_batch_size"] == micro * often * 16  # dp of the plan


def test_the_plan_of_a_rank_is_that_of_the_search(run: Run) -> None:
    rows = json.loads(run("search", "quickstart", "--top", "2", "--json").out)["plans"]
    found = json.loads(run("export", "quickstart", "--rank", "2", "--json").out)
    assert found["cannot_say"] == []
    assert f"--tensor-model-parallel-size {rows[1]['tp']:.0f}" in found["text"]
    assert f"--micro-batch-size {rows[1]['micro_batch']:.0f}" in found["text"]


def test_several_files_are_one_training(run: Run, tmp_path: Path) -> None:
    for to, name in (("accelerate", "accelerate.yaml"), ("hf", "arguments.yaml")):
        options = ("--set", "stack=fsdp2", "--set", "plan={micro_batch: 1, zero: 3, recompute: full}", "--to", to)
        done = run("export", "quickstart", *options, "-o", str(tmp_path / name))
        assert done.code == 0, done.err
    given = ("--node", "dgx-h100", "--set", "model=llama-3-8b", "--set", "workload.sequence=8192")
    done = run("import", "accelerate.yaml", "arguments.yaml", *given, "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    found = json.loads(done.out)["document"]
    assert found["cluster"]["nodes"] == 4
    assert (found["plan"]["zero"], found["plan"]["recompute"], found["plan"]["dp"]) == (3, "full", 32)


def test_a_command_of_an_engine_comes_back_with_the_same_times_and_memory(run: Run, tmp_path: Path) -> None:
    done = run("export", "serve-llama-3.1-70b", "--to", "vllm", "-o", str(tmp_path / "serve.sh"))
    assert done.code == 0, done.err
    asked = [f"workload.{key}={{mean: {mean}, spread: 60 %}}" for key, mean in (("prompt", 2048), ("output", 512))]
    given = [word for item in (*asked, "workload.rate=8 /s") for word in ("--set", item)]
    back = run("import", "serve.sh", "--node", "dgx-h100", "--nodes", "2", *given, "-o", "mine.yaml", cwd=tmp_path)
    assert back.code == 0, back.err
    ours = json.loads(run("estimate", "serve-llama-3.1-70b", "--json").out)["plans"][0]
    theirs = json.loads(run("estimate", "mine.yaml", "--json", cwd=tmp_path).out)["plans"][0]
    for key in ("ttft_s", "tpot_s", "cache_pool_tokens"):
        assert theirs[key] == pytest.approx(ours[key], rel=1e-9)


def test_lengths_without_a_spread_are_given_to_import_as_numbers(run: Run, tmp_path: Path) -> None:
    flags = ("--model", "gemma-3-27b", "--gpu", "h100", "--gpus", "2", "--concurrency", "8", "--prompt", "2000")
    done = run("export", *flags, "--answer", "200", "--to", "vllm", "-o", str(tmp_path / "serve.sh"))
    assert done.code == 0, done.err
    assert "--prompt 2000 --answer 200 --concurrency 8" in " ".join((done.out + done.err).split())


def test_a_format_is_of_what_the_scenario_does(run: Run, faults: Callable[[Any], Any]) -> None:
    for scenario, to in (("quickstart", "vllm"), ("serve-llama-3.1-70b", "megatron")):
        [fault] = faults(run("export", scenario, "--to", to))
        assert fault.code == "C030"
        others = {"vllm": set(TARGETS), "megatron": set(ENGINES)}[to]
        assert set(fault.help.removeprefix("--to ").split(", ")) == others


@pytest.mark.parametrize(
    "asked",
    [
        "quickstart --to megatron",
        "llama-3-70b-512 --set stack=fsdp2 --rank 1 --to torchtitan",
        "quickstart --set stack=deepspeed --set 'plan={micro_batch: 1, zero: 3, recompute: full}' --to deepspeed",
        "serve-llama-3.1-70b --to vllm",
    ],
)
def test_the_command_to_type_next_works(asked: str, run: Run, tmp_path: Path) -> None:
    done = run("export", *shlex.split(asked), "-o", "out", cwd=tmp_path)
    assert done.code == 0, done.err
    following = " ".join(done.out.partition("Next: costmodel ")[2].split())
    assert following.startswith("import out --node dgx-h100")
    back = run(*shlex.split(following), cwd=tmp_path)
    assert back.code == 0, back.err


def test_a_script_of_experts_has_the_options_that_the_prediction_assumes(run: Run) -> None:
    """Grouped products, fused ordering of tokens, and DeepEP with its type where tokens are sent once."""
    moe = ("export", "--model", "qwen-3-30b-a3b", "--gpus", "16", "--stack", "megatron-core", "--set", "plan={ep: 16}")
    usual, flex = ("--moe-grouped-gemm", "--moe-permute-fusion"), "--moe-flex-dispatcher-backend deepep"
    once, often = run(*moe).out, run(*moe, "--set", "assume.experts.deduplicated=false").out
    assert all(option in once for option in (*usual, flex, "--moe-router-dtype fp32"))
    assert all(option in often for option in (*usual, "--moe-token-dispatcher-type alltoall"))
    assert flex not in often


def test_launch_of_experts_is_named_where_it_is_a_large_term(run: Run) -> None:
    moe = ("--model", "qwen-3-30b-a3b", "--gpus", "16", "--stack", "megatron-core", "--batch", "32")
    named = "to issue each expert (assume.experts.host)"
    assert named in run("estimate", *moe, "--set", "plan={ep: 2}", brief=True).out
    assert named not in run("estimate", *moe, "--set", "plan={ep: 2}", "--set", "stack.experts.looped=false").out


def test_a_split_over_a_single_stage_is_exported_as_the_best_plan(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "schema: costmodel/scenario/v1\ntitle: x\nmodel: llama-3.1-8b\ncluster: {node: dgx-h100, nodes: 8}\n"
        "workload: {kind: training, sequence: 8192, global_batch: 512}\nstack: megatron-core\n"
        "plan: {tp: 2, pp: 1, micro_batch: 1, split: lighter-ends}\n",
        "utf-8",
    )
    for options in ((), ("--rank", "1"), ("--to", "bridge"), ("--rank", "4")):
        done = run("export", str(path), *options)
        assert (done.code, done.err) == (0, "")
        assert "account-for-embedding" not in done.out.replace("_", "-")


@pytest.mark.parametrize(
    "scenario",
    [
        ("llama-3-70b-512", "--set", "plan.tp=1", "--set", "plan.pp=1"),
        ("serve-llama-3.1-70b", "--set", "plan={tp: 1}"),
        ("grpo-qwen-2.5-7b-64", "--set", "plan.recompute=none"),
    ],
)
def test_a_plan_that_does_not_fit_is_not_exported(
    scenario: tuple[str, ...], run: Run, faults: Callable[[Any], Any]
) -> None:
    done = run("export", *scenario)
    [fault] = faults(done)
    assert (done.code, done.out) == (2, "")
    assert (fault.code, fault.sentence) == ("C004", "the plan does not fit: M001")
    assert "--rank 1 exports the best" in fault.help
