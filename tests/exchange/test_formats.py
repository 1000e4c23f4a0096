"""Which format a text is of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from each import each

from costmodel.exchange.detect import CONFIG, FORMATS, MEGATRON, detected, scores
from costmodel.ground.errors import CostModelError
from exchange.published import configs

from .scripts import DEEPSEEK, LINE_70B, LLAMA_8B, MIXTRAL, PLAIN

OTHERS = {
    "JSON of DeepSpeed 0.19": '{"train_batch_size": 64, "gradient_accumulation_steps": 3, '
    '"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 3, "overlap_comm": true}}',
    "YAML of accelerate 1.15": "distributed_type: FSDP\nmixed_precision: 'bf16'\nnum_processes: 2\nfsdp_config:\n"
    "  fsdp_sharding_strategy: FULL_SHARD\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n",
    "configuration of torchtitan": "[training]\nlocal_batch_size = 8\nseq_len = 8192\n[parallelism]\n"
    "data_parallel_shard_degree = -1\ntensor_parallel_degree = 8\n",
    "TrainingArguments of transformers": "output_dir: out\nper_device_train_batch_size: 1\nbf16: true\n"
    "gradient_accumulation_steps: 8\nlearning_rate: 1e-4\noptim: adamw_torch\n",
    "overrides of Megatron-Bridge": "torchrun run.py --recipe llama3_8b model.tensor_model_parallel_size=2 "
    "train.global_batch_size=64 train.micro_batch_size=1 mixed_precision=bf16_mixed\n",
    "YAML of axolotl 0.19": "base_model: Qwen/Qwen3-8B\ndp_shard_size: 2\nsequence_len: 8192\nmicro_batch_size: 1\n",
    "YAML of LLaMA-Factory 0.9.5": "model_name_or_path: a/b\nfinetuning_type: full\ncutoff_len: 4096\nbf16: true\n"
    "per_device_train_batch_size: 1\ntensor_model_parallel_size: 1\npipeline_model_parallel_size: 4\n"
    "expert_model_parallel_size: 2\nuse_distributed_optimizer: true\n",
    "command of a serving engine": "serve --max-model-len 8192 --gpu-memory-utilization 0.9 --tensor-parallel-size 8\n",
    "YAML of TensorRT-LLM": "enable_attention_dp: true\nkv_cache_config: {free_gpu_memory_fraction: 0.8}\n",
    "YAML of torchtune 0.6": "model: {_component_: a.b}\nbatch_size: 2\noptimizer_in_bwd: false\ndtype: bf16\n",
    "YAML of nanotron 0.4": "parallelism: {dp: 4, pp: 1, pp_engine: 1f1b, tp: 2}\n"
    "tokens: {batch_accumulation_per_replica: 1, micro_batch_size: 3, sequence_length: 4096}\n",
    "YAML of MaxText": 'base_config: "base.yml"\nmodel_name: "llama3-70b"\nper_device_batch_size: 4\n'
    'ici_fsdp_parallelism: 8\nremat_policy: "full"\n',
}


@each("name", sorted(configs()))
def test_every_published_config_is_one_of_transformers(name: str) -> None:
    assert detected(json.dumps(configs()[name], indent=1), "a.json").name == "config.json of transformers"


@pytest.mark.parametrize("text", [LLAMA_8B, MIXTRAL, DEEPSEEK, LINE_70B, PLAIN])
def test_every_script_is_one_of_megatron(text: str) -> None:
    assert detected(text, "a.sh").name == "options of Megatron-LM"


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_the_format_that_scores_highest_is_the_texts_own(name: str) -> None:
    assert scores(OTHERS[name])[0][0].name == name


def test_every_format_that_is_told_apart_has_an_example_here() -> None:
    assert {entry.name for entry in FORMATS} - {CONFIG, MEGATRON} == set(OTHERS)


@pytest.mark.parametrize(
    "text", ["", "hello", "a: 1", "{}", '{"a": "architectures"}', "x" * 10**6, "micro_batch_size: 1"]
)
def test_a_text_of_no_format_is_refused_with_the_nearest(text: str) -> None:
    with pytest.raises(CostModelError) as raised:
        detected(text, "a")
    (fault,) = raised.value.faults
    assert fault.code == "X001"
    if text.startswith("micro"):
        assert fault.hint.startswith("the nearest, by the keys in it: ")
        assert fault.hint.count("(1)") == 3


def test_scores_begin_with_the_highest() -> None:
    points = [score for _, score in scores(LLAMA_8B)]
    assert points == sorted(points, reverse=True)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}}', "JSON of DeepSpeed 0.19"),
        ('{"zero_optimization": {"stage": 3}, "bf16": {"enabled": true}}', "JSON of DeepSpeed 0.19"),
        ("distributed_type: FSDP\nmixed_precision: bf16\n", "YAML of accelerate 1.15"),
        ("base_model: a/b\nmicro_batch_size: 1\n", "YAML of axolotl 0.19"),
        ("python train.py --per_device_train_batch_size 1 --bf16 --fp16 --seed 1 --lr 1 --min-lr 2",
         "TrainingArguments of transformers"),
    ],
)  # fmt: skip
def test_a_key_that_only_one_format_has_decides(text: str, name: str) -> None:
    assert detected(text, "a").name == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("# afterwards: ollama run mine\nbase_model: a/b\nmicro_batch_size: 1\n", "YAML of axolotl 0.19"),
        ("# fsdp_sharding_strategy: FULL_SHARD\nbase_model: a/b\nmicro_batch_size: 1\n", "YAML of axolotl 0.19"),
        ("base_model: a/b\nmicro_batch_size: 1\nhub_model_id: me/for-llama.cpp\n", "YAML of axolotl 0.19"),
        ("vllm serve a/b  # as with text-generation-launcher before", "command of a serving engine"),
    ],
)
def test_a_comment_or_a_value_that_names_another_program_refuses_nothing(text: str, name: str) -> None:
    assert detected(text, "a").name == name


@pytest.mark.parametrize(("stated", "text", "expected"), [
    ("vllm", "tensor-parallel-size: 2\n", ("vllm", 2)),
    ("sglang", "tp-size: 2\n", ("sglang", 2)),
    ("vllm", "docker run mine vllm serve -tp 2", ("vllm", 2)),
])  # fmt: skip
def test_what_the_user_says_of_a_format_counts(
    stated: str, text: str, expected: tuple[str, int], run: Any, tmp_path: Path
) -> None:
    (tmp_path / "options.yaml").write_text(text, "utf-8")
    load = ("--gpu", "h100", "--rate", "1", "--prompt", "512", "--answer", "64", "--set", "model=qwen-3-8b")
    ran = run("import", str(tmp_path / "options.yaml"), "--from", stated, *load, "--format", "json")
    found = json.loads(ran.out)["document"]
    assert (found["stack"], found["plan"]["tp"]) == expected


def test_a_format_that_is_not_known_or_of_no_file_is_refused(run: Any, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: 1", "utf-8")
    ran = run("import", str(tmp_path / "a.yaml"), "--from", "vlm")
    assert (ran.code, "did you mean 'vllm'?" in ran.err) == (2, True)
    ran = run("import", str(tmp_path / "a.yaml"), "--from", "vllm", "--from", "hf")
    assert (ran.code, "2 formats for 1 files" in ran.err) == (2, True)


@pytest.mark.parametrize("text", ["Our flavor of the day: vanilla", "the template: a letter\nand more", "x: 1\nflavor"])
def test_a_word_in_prose_decides_nothing(text: str) -> None:
    with pytest.raises(CostModelError):
        detected(text, "a")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("lmdeploy serve api_server internlm/internlm3-8b-instruct --tp 2", "LMDeploy"),
        ("text-generation-launcher --model-id a/b --num-shard 4", "Text Generation Inference"),
        ("docker run ghcr.io/huggingface/text-generation-inference:3 --model-id a/b", "Text Generation Inference"),
        ("llama-server -m Qwen3-32B-Q4_K_M.gguf -ngl 99 -c 32768", "llama.cpp"),
        ("ollama run qwen3:32b", "Ollama"),
        ("mlc_llm serve HF://mlc-ai/Llama-3-8B", "MLC LLM"),
        ("NPROC_PER_NODE=8 megatron sft --load Qwen3-mcore --tensor_model_parallel_size 2", "megatron sft of ms-swift"),
        ("swift sft --model Qwen/Qwen3-8B --train_type lora", "swift sft of ms-swift"),
    ],
)
def test_an_engine_that_is_not_read_is_named_with_what_to_write(text: str, name: str, run: Any) -> None:
    ran = run("import", text, "--gpu", "h100")
    assert ran.code == 2
    assert f"error[X003]: {name} is not read" in ran.err
    assert "costmodel estimate --model NAME" in " ".join(ran.err.split())
