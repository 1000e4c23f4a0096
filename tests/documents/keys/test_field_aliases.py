"""Words of other tools: names of the hub, keys and values as others call them, groups of documents, mixed clusters."""

from __future__ import annotations

import doctest
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from each import each

from costmodel.documents.keys import field_aliases
from costmodel.documents.keys.field_aliases import KEYS, VALUES, meant_by
from costmodel.documents.keys.overrides import full
from costmodel.documents.keys.schema_paths import choices_of, key_of
from costmodel.documents.keys.workload_keys import SCENARIOS
from costmodel.documents.reader import hub_names
from costmodel.documents.reader import hub_names as checkpoint_types
from costmodel.documents.reader.folders import names
from costmodel.documents.reader.hub_names import (
    STORED_WORDS,
    is_hub_name,
    name_words,
    nearest_shapes,
    shape_of,
    types_by_name,
)
from costmodel.documents.reader.library import read
from costmodel.documents.reader.load_scenario import load
from costmodel.ground.errors import CostModelError

Faults = Callable[[Any], list[Any]]

CASE = """schema: costmodel/scenario/v1
title: A model by its name on the hub
model: meta-llama/Llama-3.1-8B
cluster: {node: dgx-h100, nodes: 4}
workload: {kind: training, sequence: 8192, global_batch: 512, precision: bf16, optimizer: adamw}
stack: megatron-core
plan: {tp: 4, pp: 1, micro_batch: 1}
"""


def test_docstring_examples_run() -> None:
    assert all(doctest.testmod(module).failed == 0 for module in (field_aliases, hub_names, checkpoint_types))


# --- names of the hub


def test_a_model_by_its_name_on_the_hub_is_the_shipped_one(run: Any) -> None:
    by_hub = json.loads(run("estimate", "-", "--json", stdin=CASE).out)
    ours = json.loads(run("estimate", "-", "--json", stdin=CASE.replace("meta-llama/Llama-3.1-8B", "llama-3.1-8b")).out)
    assert by_hub["plans"] == ours["plans"]
    assert by_hub["assumed"][0] == {
        "path": "model",
        "value": "llama-3.1-8b",
        "from": "the shape of meta-llama/Llama-3.1-8B on the hub",
    }
    assert "the shape of meta-llama/Llama-3.1-8B on the hub" in run("estimate", "-", stdin=CASE).out


# As on the hub, and the shipped model of that shape.
SHAPES = {
    "meta-llama/Llama-3.1-8B": "llama-3.1-8b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "meta-llama/Meta-Llama-3-70B": "llama-3-70b",
    "meta-llama/Llama-2-7b-hf": "llama-2-7b",
    "meta-llama/Llama-2-13b-chat-hf": "llama-2-13b",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": "llama-4-scout",
    "huggyllama/llama-7b": "llama-7b",
    "unsloth/Llama-3.2-1B": "llama-3.2-1b",
    "Qwen/Qwen2.5-7B-Instruct": "qwen-2.5-7b",
    "Qwen/Qwen3-235B-A22B": "qwen-3-235b-a22b",
    "Qwen/Qwen3-8B-Base": "qwen-3-8b",
    "mistralai/Mistral-7B-v0.1": "mistral-7b-v0.1",
    "mistralai/Mistral-7B-Instruct-v0.3": "mistral-7b",
    "mistralai/Mixtral-8x7B-Instruct-v0.1": "mixtral-8x7b",
    "google/gemma-2-9b-it": "gemma-2-9b",
    "google/gemma-3-1b-pt": "gemma-3-1b",
    "deepseek-ai/DeepSeek-V3-Base": "deepseek-v3",
    "deepseek-ai/DeepSeek-R1": "deepseek-v3",
    "moonshotai/Kimi-K2-Instruct": "kimi-k2",
    "openai/gpt-oss-20b": "gpt-oss-20b",
    "openai-community/gpt2": "gpt-2-small",
    "bigscience/bloom": "bloom-176b",
    "bigscience/bloom-7b1": "bloom-7.1b",
    "tiiuae/falcon-40b-instruct": "falcon-40b",
    "EleutherAI/pythia-1.4b-deduped": "pythia-1.4b",
    "facebook/opt-6.7b": "opt-6.7b",
    "databricks/dbrx-base": "dbrx",
    "https://huggingface.co/Qwen/Qwen3-8B": "qwen-3-8b",
    "hf.co/mosaicml/mpt-7b": "mpt-7b",
    # releases: a date, a version, what it was tuned for
    "huihui-ai/Llama-3.3-70B-Instruct-abliterated": "llama-3.1-70b",
    "NousResearch/Hermes-4-14B-FP8": "qwen-3-14b",
    "Qwen/Qwen3-30B-A3B-Instruct-2507": "qwen-3-30b-a3b",
    "Qwen/Qwen3-4B-Thinking-2507": "qwen-3-4b",
    "Qwen/Qwen3-235B-A22B-Thinking-2507": "qwen-3-235b-a22b",
    "Qwen/Qwen3-Next-80B-A3B-Thinking": "qwen-3-next-80b-a3b",
    "Qwen/Qwen3-VL-30B-A3B-Instruct": "qwen-3-vl-30b-a3b",
    "Qwen/Qwen2.5-14B-Instruct-1M": "qwen-2.5-14b",
    "moonshotai/Kimi-K2-Instruct-0905": "kimi-k2",
    "moonshotai/Kimi-K2-Thinking": "kimi-k2",
    "deepseek-ai/DeepSeek-V3-0324": "deepseek-v3",
    "deepseek-ai/DeepSeek-R1-0528": "deepseek-v3",
    "deepseek-ai/DeepSeek-V3.1-Terminus": "deepseek-v3",
    "deepseek-ai/DeepSeek-V3.2-Exp": "deepseek-v3.2",
    "deepseek-ai/DeepSeek-V3.2-Speciale": "deepseek-v3.2",
    "deepseek-ai/DeepSeek-V4-Flash-0731": "deepseek-v4-flash",
    "mistralai/Mistral-7B-Instruct-v0.2": "mistral-7b",
    "mistralai/Mistral-Large-Instruct-2411": "mistral-large-2",
    "mistralai/Mistral-Nemo-Instruct-2407": "mistral-nemo-12b",
    "mistralai/Ministral-3-14B-Reasoning-2512": "ministral-3-14b",
    "mistralai/Mixtral-8x22B-Instruct-v0.1": "mixtral-8x22b",
    "microsoft/Phi-3-mini-4k-instruct": "phi-3-mini",
    "microsoft/Phi-4-mini-reasoning": "phi-4-mini",
    "allenai/Olmo-3-32B-Think": "olmo-3-32b",
    "allenai/OLMoE-1B-7B-0924-Instruct": "olmoe-1b-7b",
    "CohereLabs/c4ai-command-a-03-2025": "command-a",
    # of the same shape as an earlier one
    "zai-org/GLM-4.6": "glm-4.5",
    "Qwen/Qwen2-7B-Instruct": "qwen-2.5-7b",
    "OpenRLHF/Llama-3-8b-sft-mixture": "llama-3-8b",
    "zai-org/GLM-4.5-Air": "glm-4.5-air",
    "zai-org/GLM-4.7-Flash": "glm-4.7-flash",
    "baidu/ERNIE-4.5-21B-A3B-PT": "ernie-4.5-21b-a3b",
    "baidu/ERNIE-4.5-300B-A47B-Base-PT": "ernie-4.5-300b-a47b",
    "Qwen/Qwen3.6-27B": "qwen-3.5-27b",
    "Qwen/Qwen3.6-35B-A3B": "qwen-3.5-35b-a3b",
    "Qwen/Qwen3-Coder-30B-A3B-Instruct": "qwen-3-30b-a3b",
    "Qwen/Qwen2.5-Coder-7B-Instruct": "qwen-2.5-7b",
    "Qwen/QwQ-32B": "qwen-2.5-32b",
    "meta-llama/Llama-3.3-70B-Instruct": "llama-3.1-70b",
    "nvidia/Llama-3.1-Nemotron-70B-Instruct-HF": "llama-3.1-70b",
    "deepseek-ai/DeepSeek-R1-Distill-Llama-70B": "llama-3.1-70b",
    "MiniMaxAI/MiniMax-M2.1": "minimax-m2",
    "mistralai/Mistral-Small-3.2-24B-Instruct-2506": "mistral-small-24b",
    "openai/gpt-oss-safeguard-20b": "gpt-oss-20b",
}
# As on the hub: the shape, and keys of the model document that the name states.
KEPT = {
    "Qwen/Qwen3-Coder-30B-A3B-Instruct-FP8": ("qwen-3-30b-a3b", {"stored": "fp8"}),
    "Qwen/Qwen3-14B-AWQ": ("qwen-3-14b", {"stored": "int4-g128"}),
    "Qwen/Qwen2.5-72B-Instruct-GPTQ-Int4": ("qwen-2.5-72b", {"stored": "int4-g128"}),
    "Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8": ("qwen-2.5-7b", {"stored": "int8"}),
    "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic": ("llama-3.1-70b", {"stored": "fp8"}),
    "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8": ("llama-3.1-8b", {"stored": "int8"}),
    "RedHatAI/Qwen3-32B-quantized.w4a16": ("qwen-3-32b", {"stored": "int4-g128"}),
    "nvidia/Llama-3.1-70B-Instruct-FP8": ("llama-3.1-70b", {"stored": "fp8", "stored_cache": "fp8"}),
    "nvidia/Qwen3-30B-A3B-NVFP4": ("qwen-3-30b-a3b", {"stored": "nvfp4", "stored_cache": "fp8"}),
    "nvidia/DeepSeek-R1-0528-NVFP4-v2": ("deepseek-v3", {"stored": "nvfp4", "stored_cache": "fp8"}),
    "amd/Llama-3.1-405B-Instruct-FP8-KV": ("llama-3.1-405b", {"stored": "fp8", "stored_cache": "fp8"}),
    "hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4": ("llama-3.1-70b", {"stored": "int4-g128"}),
    "unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit": ("llama-3.1-8b", {"stored": "int4-g128"}),
    "unsloth/DeepSeek-V3-BF16": ("deepseek-v3", {"stored": "bf16"}),
    "unsloth/gpt-oss-20b-BF16": ("gpt-oss-20b", {"stored_experts": "bf16"}),
    "unsloth/Qwen3-32B-GGUF": ("qwen-3-32b", {}),
    "unsloth/Qwen3-32B-GGUF:Q4_K_M": ("qwen-3-32b", {"stored": "q4_k_m"}),
    "unsloth/Qwen3-32B-GGUF:UD-Q2_K_XL": ("qwen-3-32b", {"stored": "q2_k"}),
    "unsloth/Qwen3-32B-GGUF:Q3_K_M": ("qwen-3-32b", {"stored": "q3_k_m"}),
    "unsloth/Qwen3-32B-GGUF:Q5_K_M": ("qwen-3-32b", {"stored": "q5_k_m"}),
    "unsloth/Qwen3-32B-GGUF:Q6_K": ("qwen-3-32b", {"stored": "q6_k"}),
    "unsloth/Qwen3-32B-GGUF:Q8_0": ("qwen-3-32b", {"stored": "q8_0"}),
    "unsloth/Qwen3-32B-GGUF:IQ4_XS": ("qwen-3-32b", {"stored": "q4_k"}),
    "someone/Qwen3-8B-nf4": ("qwen-3-8b", {"stored": "int4-g32"}),
    "tencent/DeepSeek-R1-0528-W4AFP8": ("deepseek-v3", {"stored": "int4-g128"}),
    "nvidia/Llama-3_3-Nemotron-Super-49B-v1_5": ("nemotron-super-49b", {}),
    "bartowski/Qwen_Qwen3-32B-GGUF": ("qwen-3-32b", {}),
    "mlx-community/Qwen3-8B-MLX-4bit": ("qwen-3-8b", {"stored": "int4-g32"}),
    "google/gemma-3-27b-it-qat-q4_0-unquantized": ("gemma-3-27b", {}),
    "moonshotai/Kimi-K2.5": ("kimi-k2", {"stored": "bf16", "stored_experts": "int4-g32"}),
    "mistralai/Ministral-3-8B-Instruct-2512": ("ministral-3-8b", {"stored": "fp8"}),
    "meta-llama/Meta-Llama-3.1-405B-Instruct-FP8": (
        "llama-3.1-405b",
        {"stored": "fp8", "stored_wide": 126 * 570_425_344 + 2 * 2_617_245_696},
    ),
    "/models/DeepSeek-V3-0324": ("deepseek-v3", {}),
    "/data/hub/models--Qwen--Qwen3-8B-AWQ/snapshots/895c": ("qwen-3-8b", {"stored": "int4-g128"}),
    "./Qwen3-14B-Q4_K_M.gguf": ("qwen-3-14b", {"stored": "q4_k_m"}),
}
# Names that say that weights are narrow, in a type that is none here, or without its name; and how they are counted.
WITHOUT_TYPE = {
    "unsloth/Qwen3-32B-GGUF": "GGUF: counted in 16 bits",
    "/models/Qwen3-32B.gguf": "GGUF: counted in 16 bits",
    "unsloth/DeepSeek-V3-GGUF": "GGUF: counted as the published checkpoint, in fp8-block",
    "unsloth/Qwen3-32B-GGUF:IQ2_XXS": "IQ2_XXS: counted in 16 bits",
    "someone/Qwen3-8B-W4A4": "W4A4: counted in 16 bits",
    "someone/Qwen3-8B-bnb": "BNB: counted in 16 bits",
    "mlx-community/Qwen3-8B-6bit": "6BIT: counted in 16 bits",
    "RedHatAI/Qwen3-8B-quantized": "QUANTIZED: counted in 16 bits",
}
# Names that begin or end as those of shipped models, of another shape.
OTHER_SHAPES = """
CohereForAI/c4ai-command-r-08-2024 CohereLabs/c4ai-command-r7b-arabic-02-2025 CohereLabs/command-a-vision-07-2025
Qwen/Qwen3-Embedding-8B Qwen/Qwen3-Reranker-8B Qwen/Qwen2.5-VL-7B-Instruct
mistralai/Mistral-Small-Instruct-2409 mistralai/Mistral-Small-4-119B-2603 mistralai/Mistral-Large-3-675B-Instruct-2512
mistralai/Devstral-2-123B-Instruct-2512 zai-org/GLM-4.5V zai-org/GLM-4-9B-0414
XiaomiMiMo/MiMo-V2-Flash deepseek-ai/DeepSeek-V2-Lite-Vision deepseek-ai/DeepSeek-OCR-2 moonshotai/Kimi-K3
google/gemma-3-270m-it google/gemma-2b-it microsoft/Phi-4-multimodal-instruct microsoft/Phi-3.5-MoE-instruct
nvidia/NVIDIA-Nemotron-Nano-9B-v2 nvidia/Llama-3_1-Nemotron-51B-Instruct meta-llama/Llama-Guard-4-12B
allenai/OLMo-2-0425-1B-Instruct ai21labs/AI21-Jamba-Mini-1.7 xai-org/grok-2 tiiuae/Falcon3-7B-Instruct
MiniMaxAI/MiniMax-M3 openai/gpt-oss-40b ibm-granite/granite-3.3-8b-instruct baichuan-inc/Baichuan-M1-14B-Instruct
"""
# As on the hub, where another shape or an unknown one stands behind the name, and what comes near.
OTHERS = {
    "Qwen/Qwen2.5-Omni-7B": "qwen-2.5-7b",
    "google/gemma-3-270m-it": "gemma-3-27b",
    "deepseek-ai/DeepSeek-V2-Small": "deepseek-v2",
    "nobody/nothing-of-the-kind": "",
}


@each("name", SHAPES)
def test_names_of_the_hub(name: str) -> None:
    assert is_hub_name(name)
    assert shape_of(name, names("model")) == SHAPES[name]
    assert load("quickstart", [f"model={name}"]).hub == {name: SHAPES[name]}


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("https://huggingface.co/Qwen/Qwen3-32B-FP8/tree/main", "qwen-3-32b"),
        ("/data/qwen3-8b-sft/checkpoint-1200", "qwen-3-8b"),
        ("/runs/qwen2.5-7b-instruct/global_step_200/actor/huggingface", "qwen-2.5-7b"),
        ("/data/llama-3.1-8b-lora-merged", "llama-3.1-8b"),
        ("llama3.3:70b-instruct-q4_K_M", "llama-3.1-70b"),
        ("deepseek-r1:671b", "deepseek-v3"),
        ("main", ""),
    ],
)
def test_paths_and_names_of_other_hubs(name: str, shape: str) -> None:
    assert shape_of(name, names("model")) == shape
    assert nearest_shapes("", names("model")) == []


@each("name", KEPT)
def test_the_types_of_weights_that_a_name_states_are_those_of_the_model(name: str) -> None:
    shape, kept = KEPT[name]
    case = load("quickstart", [f"model={name}"])
    stored = {"stored", "stored_experts", "stored_wide", "stored_cache"}
    found = {key: value for key in stored if (value := getattr(case.model, key)) is not None}
    assert (case.hub, case.model.name, found) == ({name: shape}, shape, kept)
    words = name_words(name, shape)
    assert ("on the hub" in words) is is_hub_name(name)
    assert all(str(kept[key]) in words for key in ("stored", "stored_experts") if key in kept)


@each("name", WITHOUT_TYPE)
def test_a_name_with_a_type_that_is_none_here_says_how_its_weights_are_counted(name: str) -> None:
    shape = shape_of(name, names("model"))
    assert types_by_name(name, shape) == {}
    assert f"no type here matches {WITHOUT_TYPE[name]}; workload.weights states another" in name_words(name, shape)


def test_every_word_of_a_type_that_names_end_with_states_it_or_says_that_none_does() -> None:
    for row in STORED_WORDS:
        for word in re.sub(r"\(\?:_\\w\+\)\?|\?", "", re.sub(r"\[(.).*?\]", r"\1", row.words)).split():
            name = f"a/Qwen3-8B-{word}"
            assert shape_of(name, ["qwen-3-8b"]) == "qwen-3-8b", word
            assert types_by_name(name, "qwen-3-8b") or row.type == "bf16" or "no type" in name_words(name, "qwen-3-8b")


def test_names_of_other_shapes_mean_no_shipped_model() -> None:
    assert not {name: shape for name in OTHER_SHAPES.split() if (shape := shape_of(name, names("model")))}


def test_a_path_to_a_file_of_ours_that_is_not_there_is_refused(run: Any, faults: Faults) -> None:
    (found,) = faults(run("memory", "mine/llama-3.1-8b.yaml"))
    assert found.code in ("D001", "D009")
    (found,) = faults(run("memory", "--model", "/models/nothing-of-the-kind"))
    assert found.code == "D001"


def test_the_names_that_documents_give_as_their_source_mean_them() -> None:
    """Where a document was read on the hub, that page names it."""
    found = {}
    for name in names("model"):
        for source in read("model", name).sources.values():
            address = source.url or ""
            if address.startswith("https://huggingface.co/") and (shape := shape_of(address, names("model"))):
                found.setdefault(shape, set()).add(name)
    assert len(found) > 10
    odd = {shape: using for shape, using in found.items() if shape not in using}
    assert odd == {}


@pytest.mark.parametrize("name", OTHERS)
def test_a_name_of_the_hub_that_is_not_known_gets_its_own_sentence(name: str, run: Any, faults: Faults) -> None:
    assert next(iter(nearest_shapes(name, names("model"))), "") == OTHERS[name]
    for ran in (
        run("estimate", "-", stdin=CASE.replace("meta-llama/Llama-3.1-8B", name)),
        run("search", "quickstart", "--set", f"model={name}"),
        run("memory", name),
    ):
        (found,) = faults(ran)
        assert (found.code, found.sentence) == (
            "D009",
            f"no shipped model goes by '{name}', and Hugging Face's hub is not read",
        )
        assert found.help.startswith(f"did you mean '{OTHERS[name]}'") is bool(OTHERS[name])
        assert "costmodel list models" in found.help


def test_a_path_is_no_name_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "meta-llama").mkdir()
    others = ("./a/b", "../a", "a/b/c", "/etc/passwd", "mine/model.yaml", "llama-3.1-8b", "a/", "/a", "meta-llama/x")
    assert not [name for name in others if is_hub_name(name)]


def test_a_model_is_no_scenario(run: Any, faults: Faults) -> None:
    for name in ("meta-llama/Llama-3.1-8B", "llama-3.1-8b"):
        (found,) = faults(run("estimate", name))
        assert found.sentence == f"'{name}' is a model, and a scenario is expected here"
        assert "--set model=llama-3.1-8b" in found.help
    for name in ("meta-llama/Llama-3.1-8B", "Llama3.1-8B"):
        assert run("memory", name) == run("memory", "llama-3.1-8b")
    assert run("show", "meta-llama/Llama-3.1-8B") == run("show", "llama-3.1-8b")


# --- keys and values


@each("word", KEYS)
def test_a_word_of_other_tools_leads_to_a_key_that_is_there(word: str) -> None:
    meant = meant_by(word)
    assert meant is not None
    assert meant.keys or meant.note
    assert all(any(key_of(each, full(key)) is not None for each in SCENARIOS.values()) for key in meant.keys), meant


@pytest.mark.parametrize(("typed", "hint"), [
    ("max_num_seqs=64", "did you mean 'stack.sequences'?"),
    ("stack.max_num_seqs=64", "did you mean 'sequences'?"),
    ("gpu_memory_utilization=0.9", "did you mean 'stack.memory.share'?"),
    ("max_model_len=4096", "did you mean 'workload.context'?"),
    ("workload.quantization=fp8", "did you mean 'precision' or 'weights'?"),
])  # fmt: skip
def test_a_word_of_an_engine_leads_to_the_key_of_a_service(typed: str, hint: str, run: Any) -> None:
    assert f"help: {hint}" in run("estimate", "serve-llama-3.1-70b", "--set", typed).err


# The assignment, and the hint.
KEY_HINTS = {
    "batch_size=8": "did you mean 'workload.global_batch' or 'plan.micro_batch'? global_batch is",
    "workload.batch_size=8": "did you mean 'global_batch' or 'plan.micro_batch'?",
    "plan.batch_size=8": "did you mean 'workload.global_batch' or 'micro_batch'?",
    "workload.gbs=512": "did you mean 'global_batch'?",
    "gpus=32": "did you mean 'cluster.nodes'? nodes are the GPUs over those of a node: 32 GPUs are 4 nodes of 8",
    "cluster.gpus=32": "did you mean 'nodes'?",
    "fsdp=true": "did you mean 'plan.zero'? FSDP is stack: fsdp2",
    "workload.seq_len=4096": "did you mean 'sequence'?",
    "workload.gradient_accumulation_steps=4": "'global_batch'? micro_batch × dp × accumulation steps",
    "node.count=4": "did you mean 'cluster.nodes'?",
    "num_nodes=4": "did you mean 'cluster.nodes'?",
    "plan.micro_batch_size=2": "did you mean 'micro_batch'?",
    "plan.tensor_parallel_size=4": "did you mean 'tp'?",
    "plan.tensor-model-parallel-size=4": "did you mean 'tp'?",
    "workload.lr=1e-4": "no cost is counted for it; leave it out",
    "workload.max_steps=1000": "did you mean 'tokens'? tokens are steps × global_batch × sequence",
    "plan.gradient_checkpointing=true": "did you mean 'recompute'? its choices are none, selective and full",
    "model.hidden_size=4096": "did you mean 'hidden'?",
    "model.layers.0.attention.num_key_value_heads=8": "did you mean 'kv_heads'?",
    "workload.micro_batch=1": "it belongs to 'plan'",
    "cluster.node.gpus_per_node=8": "did you mean 'accelerators'?",
}


@pytest.mark.parametrize("assignment", KEY_HINTS)
def test_a_key_as_others_call_it_has_an_exact_hint(assignment: str, run: Any, faults: Faults) -> None:
    (found,) = faults(run("estimate", "quickstart", "--set", assignment))
    assert found.code == "D003"
    assert KEY_HINTS[assignment] in found.help


def test_yaml_has_the_same_hint(run: Any, faults: Faults) -> None:
    broken = CASE.replace("sequence: 8192", "seq_len: 8192").replace("tp: 4", "tensor_parallel_size: 4")
    assert [found.help for found in faults(run("estimate", "-", stdin=broken))] == [
        "did you mean 'sequence'?",
        "did you mean 'tp'?",
    ]


@pytest.mark.parametrize("key", VALUES)
def test_what_a_value_of_others_stands_for_is_a_choice(key: str) -> None:
    paths = {"precision": "workload", "gradients": "workload", "kind": "workload", "tuning": "workload"}
    paths |= {"attention": "stack.kernels", "loss": "stack", "compile": "stack"}
    known = choices_of(SCENARIOS["training"], key if key == "objective" else f"{paths.get(key, 'plan')}.{key}")
    single = {"kind": ["training"], "tuning": ["full", "{method: lora}"]}.get(key, known)
    for word, meant in VALUES[key].items():
        exact = meant.partition(";")[0].strip("'")
        assert exact in single or " " in exact, (key, word, meant)
        assert word not in known


VALUE_HINTS = {
    "workload.precision=fp64": "training does not multiply in fp64; the widest type is 'fp32'",
    "workload.precision=float32": "did you mean 'fp32'?",
    "workload.precision=bfloat16": "did you mean 'bf16'?",
    "workload.precision=int4": "weights in 4 bits are workload.tuning: {method: qlora}",
    "plan.zero=full_shard": "did you mean 3?",
    "plan.recompute=true": "did you mean 'full'?",
    "plan.schedule=zb1p": "did you mean 'zb-h1'?",
    "workload.kind=sft": "did you mean 'training'? adapters are workload.tuning: {method: lora}",
    "workload.tuning=LORA": "--set 'workload.tuning={method: lora}'",
    "search.zero=[full_shard]": "did you mean 3?",
    "plan.zero=true": "did you mean 1?",
    "search.zero=[true]": "did you mean 1?",
    "plan.recompute=FULL": "did you mean 'full'?",
    "workload.precision=BF16": "did you mean 'bf16'?",
    "objective=throughput": "did you mean 'tokens_per_s_per_gpu'?",
    "objective=cheapest": "did you mean 'cost_per_mtoken'?",
    "workload.kind=dpo": "'rl', with algorithm: ppo, grpo or dpo",
}


@pytest.mark.parametrize("assignment", VALUE_HINTS)
def test_a_value_as_others_call_it_has_an_exact_hint(assignment: str, run: Any, faults: Faults) -> None:
    (found,) = faults(run("estimate", "quickstart", "--set", assignment))
    assert found.code == "D010"
    assert VALUE_HINTS[assignment] in found.help
    assert "fp8" not in found.help


@pytest.mark.parametrize(
    ("assignment", "hint"),
    [
        ("stack=pytorch", "did you mean 'fsdp2' or 'ddp'?"),
        ("stack=lightning", "did you mean 'ddp', 'fsdp2' or 'deepspeed', as its strategy is?"),
        ("stack=vLLM", "did you mean 'vllm'?"),
        (
            "stack=fsdp",
            "did you mean 'fsdp2' (PyTorch fully_shard as in torchtitan), 'fsdp1' (PyTorch FullyShardedDataParallel "
            "with flat parameters) or 'verl-fsdp' (Trainer of verl)?",
        ),
        ("cluster.node=8xH100", "did you mean 'dgx-h100'?"),
        ("cluster.node=MI300X", "did you mean 'hgx-mi300x'?"),
        ("cluster.accelerator=H100-SXM5-80GB", "did you mean 'h100-sxm'?"),
        ("cluster.accelerator=A100", "did you mean 'a100-sxm-80'?"),
        ("workload.optimizer=adamw_8bit", "did you mean 'adam-8bit'?"),
        ("model=Qwen3-8C", "did you mean 'qwen-3-8b'?"),
    ],
)
def test_a_name_as_others_write_it_has_an_exact_hint(assignment: str, hint: str, run: Any, faults: Faults) -> None:
    (found,) = faults(run("estimate", "quickstart", "--set", assignment))
    assert (found.code, found.help) == ("D009", hint)


@pytest.mark.parametrize("path", ["cluster", "cluster.node", "cluster.node.accelerator"])
@pytest.mark.parametrize("way", ["yaml", "set"])
def test_a_mixed_cluster_is_refused_in_these_words(path: str, way: str, run: Any, faults: Faults) -> None:
    mixed = "[dgx-h100, dgx-a100]"
    if way == "yaml":
        if path != "cluster.node":
            pytest.skip("written the same way")
        ran = run("estimate", "-", stdin=CASE.replace("node: dgx-h100", f"node: {mixed}"))
    else:
        ran = run("estimate", "quickstart", "--set", f"{path}={mixed}")
    (found,) = faults(ran)
    assert found.sentence == (
        "a scenario has one kind of node with one kind of accelerator: a mixed cluster is not modelled"
    )
    assert "a scenario for each kind" in found.help


# --- own models, and lists

OWN = """  schema: costmodel/model/v1
  name: mine
  title: Mine
  vocab: 32000
  hidden: 2048
  positions: rotary
  max_sequence: 8192
  tied: true
  norm: rmsnorm
  layers: [{count: 16, attention: {heads: 16, kv_heads: 16, head_dim: 128}, mlp: {ffn_hidden: 8192, gated: true}}]
"""


def test_a_model_of_your_own_needs_no_source(tmp_path: Path, run: Any) -> None:
    inline = CASE.replace("model: meta-llama/Llama-3.1-8B\n", f"model:\n{OWN}")
    (tmp_path / "mine.yaml").write_text("".join(line[2:] for line in OWN.splitlines(keepends=True)), "utf-8")
    named = run("estimate", "-", stdin=CASE.replace("meta-llama/Llama-3.1-8B", "mine.yaml"), cwd=tmp_path)
    assert named.code == 0, named.err
    assert run("estimate", "-", stdin=inline).answer == named.answer
    explained = run("explain", "-", "step_time", "--depth", "12", stdin=inline)
    assert "(model.hidden)" in explained.out
    assert run("memory", "mine.yaml", cwd=tmp_path).code == 0


@pytest.mark.parametrize(
    ("word", "group"),
    [
        ("gpus", "accelerators"),
        ("GPU", "accelerators"),
        ("accelerator", "accelerators"),
        ("clusters", "nodes"),
        ("machines", "nodes"),
        ("node", "nodes"),
        ("model", "models"),
        ("networks", "fabrics"),
        ("frameworks", "stacks"),
        ("scenario", "scenarios"),
    ],
)
def test_a_group_of_documents_by_another_word(word: str, group: str, run: Any) -> None:
    assert run("list", word) == run("list", group)


def test_a_group_that_is_not_there_has_a_hint(run: Any, faults: Faults) -> None:
    (found,) = faults(run("list", "acelerators"))
    assert (found.code, found.help) == ("D009", "did you mean 'accelerators'?")
    (found,) = faults(run("list", "zzz"))
    assert found.help.startswith("known: scenarios, models")


def test_the_readable_name_is_used_in_faults_of_a_library() -> None:
    with pytest.raises(CostModelError, match="no shipped model goes by 'foo/bar'"):
        load("quickstart", ["model=foo/bar"])


def test_another_name_of_a_stack_is_taken_and_said(run: Any) -> None:
    assert "what torchtitan is taken for" in run("estimate", "quickstart", "--set", "stack=torchtitan", "-v").out


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ("plan.n_cpu_moe=8", "did you mean 'host_experts'?"),
        ("stack.cpu_offload_gb=8", "workload.weights: q4_k_m"),
        ("workload.gguf=q4_k", "did you mean 'weights'?"),
    ],
)
def test_weights_on_the_host_are_refused_with_the_road_that_there_is(stated: str, words: str, run: Any) -> None:
    served = ("--model", "qwen-3-30b-a3b", "--gpu", "h100", "--gpus", "1", "--concurrency", "8", "--prompt", "512")
    ran = run("estimate", *served, "--answer", "64", "--set", stated)
    assert (ran.code, words in ran.err) == (2, True), ran.err
    for kind in ("q2_k", "q4_k", "q8_0"):
        assert run("estimate", *served, "--answer", "64", "--set", f"workload.weights={kind}").code == 0
