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
    ("asked", "code", "hint"),
    [
        ("llama-3-70b-512 --set plan.tp=1 --set plan.pp=1", "M001", "costmodel search llama-3-70b-512"),
        ("serve-llama-3.1-70b --set 'plan={tp: 1}'", "M001", "costmodel search serve-llama-3.1-70b"),
        ("grpo-qwen-2.5-7b-64 --set plan.recompute=none", "M001", "costmodel search grpo-qwen-2.5-7b-64"),
        ("quickstart --set limits.step_time.at_most=1s", "T001", "costmodel search quickstart"),
        ("--model llama-3.1-70b --gpu h100 --rate 20 --prompt 3000 --ttft 800ms", "S003", "; --gpus takes more"),
    ],
)
def test_a_plan_that_would_not_do_is_not_exported(asked: str, code: str, hint: str, run: Run, tmp_path: Path) -> None:
    """It does not fit, misses a limit, or is too small for the load."""
    done = run("export", *shlex.split(asked), "-o", str(tmp_path / "out"))
    assert (done.code, done.out, [*tmp_path.iterdir()]) == (1, "", [])
    assert f"error[C004]: the plan is not exported: {code} " in done.err
    assert "--rank 1 exports the best" in done.err
    assert hint in done.err


FSDP = "--model mine.json --gpu h100 --gpus 64 --sequence 8192 --stack fsdp2"


@pytest.fixture
def own_model(tmp_path: Path) -> Path:
    """A folder with a model of its own, which no format knows by name."""
    shape = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 6144, "num_hidden_layers": 60,
             "num_attention_heads": 48, "num_key_value_heads": 8, "intermediate_size": 16384, "vocab_size": 128256,
             "max_position_embeddings": 8192}  # fmt: skip
    (tmp_path / "mine.json").write_text(json.dumps(shape), "utf-8")
    return tmp_path


def test_what_a_lossy_file_starts_is_timed(own_model: Path, run: Run) -> None:
    """A plan of megatron-core as a file of torchtitan: the time is that of the file, read back; Next works."""
    asked = [*shlex.split(FSDP)[:-2], "--to", "torchtitan", "--lossy"]
    refused = run("export", *asked, "-o", "tt.toml", cwd=own_model)
    assert (refused.code, "help: -o tt.py" in refused.err) == (2, True)
    done = run("export", *asked, "-o", "tt.py", cwd=own_model)
    following = " ".join(done.out.partition("Next: costmodel ")[2].split())
    back = run(*shlex.split(following), "-o", "back.yaml", cwd=own_model)
    assert (done.code, back.code) == (0, 0), back.err
    row = json.loads(run("estimate", "back.yaml", "--json", cwd=own_model).out)["plans"][0]
    words = f"{row['step_time_s']:.1f} s a step expected, as this file starts it with fsdp2"
    assert words in " ".join(done.out.split())


def test_the_value_that_a_format_writes_is_named_and_works(own_model: Path, run: Run) -> None:
    asked = ("export", *shlex.split(FSDP), "--set", "search.cp=[2]", "--rank", "1", "--to", "torchtitan")
    refused = run(*asked, "--set", "plan.cp_type=p2p", cwd=own_model)
    assert (refused.code, "--set plan.cp_type=all-gather\n" in refused.out) == (1, True)
    assert run(*asked, "--set", "plan.cp_type=all-gather", cwd=own_model).code == 0


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("", "plan: the best of costmodel search"),
        ("--set plan.tp=2", "plan: as set, other keys by default of the software; --rank 1 writes the best"),
        ("--set plan.tp=2 --rank 1", "plan: rank 1 of costmodel search"),
    ],
)
def test_an_export_says_which_plan_it_is(more: str, words: str, own_model: Path, run: Run) -> None:
    done = run("export", *shlex.split(FSDP), *shlex.split(more), "--to", "torchtitan", "--lossy", cwd=own_model)
    assert words in " ".join(done.out.replace("#", "").split())


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("llama-3.3-70b", "vllm serve meta-llama/Llama-3.3-70B-Instruct"),
        ("phi-4", "vllm serve microsoft/phi-4"),
        ("llama-13b", "yours to replace: llama-13b"),
    ],
)
def test_the_command_names_a_checkpoint_of_the_hub_or_asks_for_one(model: str, words: str, run: Run) -> None:
    done = run("export", "--model", model, "--gpus", "8", "--concurrency", "4", "--prompt", "500", "--to", "vllm")
    assert words in " ".join(done.out.replace("#", "").split())
