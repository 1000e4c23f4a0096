"""quantization_config of a config.json: every method that engines serve, and what the weights then take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from estimate.serving.cases import one

from costmodel.documents.reader.load_scenario import load_any
from costmodel.documents.reader.serving_scenario import serving
from costmodel.estimate.serving.predict_serving import predict
from costmodel.exchange.huggingface import read_config

DENSE = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 8192, "tie_word_embeddings": False,
}  # fmt: skip
MIXTURE = {
    **DENSE, "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "num_local_experts": 8,
    "num_experts_per_tok": 2,
}  # fmt: skip
FP8 = {"num_bits": 8, "type": "float", "strategy": "channel"}
INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}


def packed(weights: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Settings of compressed-tensors."""
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": weights}}, **more}


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8-block"),
        ({"quant_method": "fbgemm_fp8"}, "fp8"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4-g128"),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, "int8"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8"),
        (packed(FP8), "fp8"),
        (packed({**FP8, "strategy": "block"}), "fp8-block"),
        (packed(INT4), "int4-g128"),
        (packed({"num_bits": 8, "type": "int", "strategy": "channel"}), "int8"),
        (packed({"num_bits": 4, "type": "float", "group_size": 16}), "nvfp4"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_method": "modelopt", "quantization": {"quant_algo": "FP8"}}, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "W4A16_AWQ", "group_size": 32}, "int4-g32"),
        ({"quant_method": "torchao", "quant_type": "int8_weight_only"}, "int8"),
        ({"quant_method": "torchao", "quant_type": "int4_weight_only", "quant_type_kwargs": {"group_size": 128}},
         "int4-g128"),
        ({"quant_method": "torchao", "quant_type": {"default": {
            "_type": "Float8DynamicActivationFloat8WeightConfig", "_version": 1, "_data": {"granularity": []}}}},
         "fp8"),
        ({"quant_method": "quanto", "weights": "int8"}, "int8"),
    ],
)  # fmt: skip
def test_a_method_names_the_type(settings: dict[str, Any], kept: str) -> None:
    found = read_config(json.dumps({**DENSE, "quantization_config": settings}), "config.json")
    assert found.document["stored"] == kept
    assert found.losses == read_config(json.dumps(DENSE), "config.json").losses
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"quant_method": "aqlm"}, "aqlm: no type of weights"),
        ("fp8", "no quant_method"),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": [1e999]}}, "no type of weights"),
        ({"quant_method": "gptq", "bits": [4], "group_size": {}}, "gptq: no type of weights"),
    ],
)
def test_what_no_type_stands_for_is_listed(settings: Any, words: str) -> None:
    found = read_config(json.dumps({**DENSE, "quantization_config": settings}), "config.json")
    assert "stored" not in found.document
    assert any(words in loss.sentence for loss in found.losses)


@pytest.mark.parametrize(
    ("settings", "kept", "words"),
    [
        ({"quant_method": "torchao", "quant_type": "int8_dynamic_activation_int4_weight"}, "int4-g32",
         "products in int8, taken in 16 bits"),
        ({"quant_method": "torchao", "quant_type": {"default": {
            "_type": "Int8DynamicActivationInt4WeightConfig", "_data": {"group_size": 128}}}}, "int4-g128",
         "products in int8, taken in 16 bits"),
        ({"quant_method": "gptq", "group_size": 128}, "int4-g128", "bits are not stated, taken as 4"),
        ({"quant_method": "hqq"}, "int4-g32", "bits are not stated, taken as 4; scales of 64 weights"),
        ({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 8, "group_size": 64}}}, "int8", ""),
        ({"quant_method": "modelopt", "quant_algo": "W4A16_AWQ", "group_size": 256}, "int4-g128", "of 256 weights"),
    ],
)  # fmt: skip
def test_what_a_type_stands_for_nearly_is_approximated(settings: dict[str, Any], kept: str, words: str) -> None:
    found = read_config(json.dumps({**DENSE, "quantization_config": settings}), "config.json")
    assert found.document["stored"] == kept
    lost = [loss for loss in found.losses if "quantization_config" in loss.sentence]
    assert [loss.kind for loss in lost] == ["approximated"] * bool(words)
    assert all(words in loss.sentence for loss in lost)


@pytest.mark.parametrize(("stated", "kept", "lost"), [
    ("bf16", "bf16", False), ("fp4", "mxfp4", False), ("int3", None, True), ([4], None, True), (None, None, False),
])  # fmt: skip
def test_a_type_of_experts_alone_is_read_or_listed(stated: Any, kept: str | None, lost: bool) -> None:
    settings = {**settings_of("fp8", modules_to_not_convert=["block_sparse_moe"]), "expert_dtype": stated}
    for tree in ({**MIXTURE, "expert_dtype": stated}, {**MIXTURE, "quantization_config": settings}):
        found = read_config(json.dumps(tree), "config.json")
        wide = "bf16" if "quantization_config" in tree and stated in (None, "int3", [4]) else kept
        assert found.document.get("stored_experts") == wide
        assert any("expert_dtype" in loss.sentence for loss in found.losses) is lost


def test_many_patterns_are_read_soon_and_the_rest_is_listed() -> None:
    """Those of single layers are looked up by their number; of others no more than 64 are tried on each name."""
    small = {**DENSE, "num_hidden_layers": 4}
    of_layers = [f"model.layers.{index % 4}.self_attn.{name}*" for index in range(750) for name in "qkvo"]
    of_all = [f"*attn.z{index}*" for index in range(3000)]
    for patterns, unread in ((of_layers, 0), (of_all, 13)):
        found = read_config(
            json.dumps({**small, "quantization_config": settings_of("fp8", ignore=patterns)}), "config.json"
        )
        assert len([loss for loss in found.losses if ": modules " in loss.sentence]) == unread
        assert ("stored_wide" in found.document) is (unread == 0)
    assert "2,924 more" in found.losses[-1].sentence


def test_other_groups_are_stated_and_experts_alone_have_a_key() -> None:
    wide = packed({**INT4, "group_size": 64}, ignore=["re:.*self_attn.*", "lm_head"])
    found = read_config(json.dumps({**MIXTURE, "quantization_config": wide}), "config.json")
    assert found.document["stored_experts"] == "int4-g32"
    assert "stored" not in found.document
    assert any("scales of 64 weights" in loss.sentence for loss in found.losses)
    nested = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    for doubled, kept in ((False, "int4-g32"), (True, "int4-g128")):
        found = read_config(
            json.dumps({**DENSE, "quantization_config": {**nested, "bnb_4bit_use_double_quant": doubled}}),
            "config.json",
        )
        assert found.document["stored"] == kept
        assert [loss.kind for loss in found.losses if "bitsandbytes" in loss.sentence] == ["approximated"]


def test_serving_takes_the_type_and_a_stated_one_counts_more(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**DENSE, "quantization_config": packed(INT4)}), "utf-8")

    def weights(*more: str) -> float:
        answer = predict(serving(load_any("serve-llama-3.1-70b", [f"model={file}", "plan.tp=1", *more])))
        assert any(item.path == "workload.weights" for item in answer.assumed) == (not more)
        return one(answer.evaluation.memory.weights)

    linear, tables = 32 * (2 * 4096 * (4096 + 1024) + 3 * 4096 * 14336), 2 * 128256 * 4096 * 2
    assert weights() == pytest.approx(linear * (0.5 + 2.5 / 128) + tables, rel=2e-3)
    assert weights("workload.weights=bf16") == pytest.approx(linear * 2 + tables, rel=2e-3)


SCALED = {"num_bits": 8, "type": "float", "dynamic": False}  # of a cache
NVFP4 = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"],
         "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "float", "group_size": 16},
                                       "targets": ["Linear"]}}}  # fmt: skip
LARGE = {**DENSE, "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64,
         "max_position_embeddings": 131072, "torch_dtype": "bfloat16"}  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (packed(FP8, kv_cache_scheme=SCALED), ""),
        ({**NVFP4, "kv_cache_scheme": SCALED}, ""),
        ({**NVFP4, "kv_cache_quant_algo": "FP8"}, ""),
        ({"quant_method": "modelopt", "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}, ""),
        (packed(FP8, kv_cache_scheme=None), "none"),
        (packed(FP8, kv_cache_scheme={"num_bits": 8, "type": "int"}), "quantization_config.kv_cache_scheme int8"),
        ({**NVFP4, "kv_cache_quant_algo": "NVFP4"}, "quantization_config.kv_cache_quant_algo nvfp4"),
    ],
)
def test_a_cache_with_scales_of_the_checkpoint_is_read(settings: dict[str, Any], words: str) -> None:
    """Eight bits in floating point are the model's stored_cache; another type is listed as not expressible."""
    found = read_config(json.dumps({**DENSE, "quantization_config": settings}), "config.json")
    assert found.document.get("stored_cache") == (None if words else "fp8")
    sentences = [loss.sentence for loss in found.losses if "cache" in loss.sentence]
    assert [sentence.partition(":")[0] for sentence in sentences] == ([words] if words.startswith("quant") else [])


def test_the_type_of_the_cache_is_of_the_user_the_checkpoint_the_engine_or_16_bits(tmp_path: Path) -> None:
    """A token has a key and a value of 8 heads by 128 in 80 layers: 160 KiB with a byte each, 320 KiB with two."""
    file, other = tmp_path / "config.json", tmp_path / "without" / "config.json"
    scaled = {**NVFP4, "kv_cache_scheme": SCALED}
    other.parent.mkdir()
    for path, settings in ((file, scaled), (other, NVFP4)):
        path.write_text(json.dumps({**LARGE, "quantization_config": settings}), "utf-8")
    load = "workload={{kind: serving, prompt: 2048, output: 512, concurrency: 64{}}}"

    def of_token(path: Path, stack: str, more: str = "") -> tuple[float, list[str]]:
        keys = [f"model={path}", "cluster.node=dgx-b200", f"stack={stack}", load.format(more), "limits={}"]
        answer = predict(serving(load_any("serve-llama-3.1-70b", keys)), bands=False)
        origins = [item.origin for item in answer.assumed if item.path == "workload.cache"]
        return answer.costs["kv_bytes_per_token"] / 1024, origins

    scales = ["the checkpoint, as the model states"]
    assert of_token(file, "vllm", ", cache: bf16") == (320, [])
    assert of_token(file, "vllm") == of_token(file, "trt-llm") == (160, scales)
    assert of_token(other, "trt-llm", ", precision: nvfp4") == (
        160,
        ["stacks/trt-llm, of checkpoints in nvfp4"],
    )
    assert of_token(other, "trt-llm", ", precision: nvfp4, cache: bf16") == (320, [])
    assert of_token(other, "vllm") == (320, [])


def settings_of(name: str, **settings: Any) -> dict[str, Any]:
    return {"quant_method": name, **settings}


ATTENTION = 2 * 4096 * 4096 + 2 * 4096 * 1024  # parameters of a layer of DENSE and of MIXTURE
MLP = 3 * 4096 * 14336
FIRST = [f"model.layers.0.self_attn.{name}_proj" for name in "qkvo"] + [
    f"model.layers.31.mlp.{name}_proj" for name in ("gate", "up", "down")
]


@pytest.mark.parametrize(
    ("config", "settings", "kept", "experts", "wide"),
    [
        (DENSE, settings_of("fbgemm_fp8", modules_to_not_convert=["lm_head", *FIRST]), "fp8", None, ATTENTION + MLP),
        (DENSE, settings_of("fp8", ignored_layers=["model.layers.0.self_attn", "model.layers.7"]), "fp8", None,
         2 * ATTENTION + MLP),
        (DENSE, settings_of("modelopt", quant_algo="NVFP4", exclude_modules=["model.layers.*.self_attn*"]), "nvfp4",
         None, 32 * ATTENTION),
        (DENSE, packed(INT4, ignore=["re:.*down_proj", "lm_head"]), "int4-g128", None, 32 * MLP / 3),
        (DENSE, settings_of("awq", bits=4, modules_to_not_convert=["self_attn", "visual"]), "int4-g128", None,
         32 * ATTENTION),
        (MIXTURE, settings_of("fp8", modules_to_not_convert=["gate", "lm_head"]), "fp8", None, None),
        (MIXTURE, settings_of("mxfp4"), None, "mxfp4", None),
        (MIXTURE, settings_of("fp8", modules_to_not_convert=["block_sparse_moe"]), "fp8", "bf16", None),
        (MIXTURE, settings_of("fp8", modules_to_not_convert=["self_attn"]), None, "fp8", None),
        (MIXTURE, {"quant_method": "compressed-tensors", "config_groups": {
            "a": {"targets": ["re:.*self_attn.*"], "weights": FP8},
            "b": {"targets": ["re:.*experts.*"], "weights": INT4}}}, "fp8", "int4-g128", None),
        (MIXTURE, {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": {
            **{f"model.layers.{index}.self_attn": {"quant_algo": "FP8"} for index in range(16)},
            **{f"model.layers.{index}.block_sparse_moe.experts.0": {"quant_algo": "NVFP4"} for index in range(32)}}},
         "fp8", "nvfp4", 16 * ATTENTION),
    ],
)  # fmt: skip
def test_modules_that_stay_wide_or_are_in_a_type_of_their_own_are_counted(
    config: dict[str, Any], settings: dict[str, Any], kept: str, experts: str, wide: float
) -> None:
    """Parameters by hand: attention of 32 query and 8 key heads by 128, and an MLP of three matrices."""
    for of in (config, {"architectures": ["Mistral3ForConditionalGeneration"], "text_config": config}):
        found = read_config(json.dumps({**of, "quantization_config": settings}), "config.json")
        assert [found.document.get(key) for key in ("stored", "stored_experts", "stored_wide")] == [kept, experts, wide]
        assert not [loss for loss in found.losses if "quant" in loss.sentence]


def test_weights_in_16_bits_take_two_bytes_of_the_memory(tmp_path: Path) -> None:
    """Of 8 ranks each holds an eighth of every matrix: fp8 all but the attention of the first half of the layers."""
    kept = [f"model.layers.{index}.self_attn" for index in range(16)]
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**DENSE, "quantization_config": settings_of("fp8", ignored_layers=kept)}), "utf-8")
    keys = [f"model={file}", "plan.tp=8", "workload.prompt=512", "limits={}"]
    answer = predict(serving(load_any("serve-llama-3.1-70b", keys)), bands=False)
    matrices = 32 * (ATTENTION + MLP) + 16 * ATTENTION
    tables = 2 * 128256 * 4096 * 2
    assert one(answer.evaluation.memory.weights) == pytest.approx((matrices + tables) / 8, rel=2e-3)


def test_settings_beside_a_config_count_where_it_states_none(tmp_path: Path) -> None:
    settings = {
        "quant_algo": "FP8",
        "kv_cache_quant_algo": "FP8",
        "exclude_modules": ["lm_head", "model.layers.0.mlp*"],
    }
    beside = {"producer": {"name": "modelopt"}, "quantization": settings}
    config, other = tmp_path / "config.json", tmp_path / "hf_quant_config.json"
    config.write_text(json.dumps(DENSE), "utf-8")
    other.write_text(json.dumps(beside), "utf-8")
    for name in (config, tmp_path):
        model = load_any("serve-llama-3.1-70b", [f"model={name}"]).model
        assert (model.stored, model.stored_cache, model.stored_wide) == ("fp8", "fp8", MLP)
    config.write_text(json.dumps({**DENSE, "quantization_config": settings_of("awq", bits=4)}), "utf-8")
    assert load_any("serve-llama-3.1-70b", [f"model={config}"]).model.stored == "int4-g128"


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({"planted": 3}, "planted"),
        ({"dynamic": {"-:.*down.*": {}}}, "dynamic"),
        ({"config_groups": {"group_0": {"weights": {**FP8, "planted": 3}}}}, "config_groups.group_0.weights.planted"),
        ({"kv_cache_scheme": {**SCALED, "planted": 3}}, "kv_cache_scheme.planted"),
        ({"ignore": ["re:(a+)+b"]}, ""),
    ],
)
def test_a_key_of_the_settings_that_is_not_known_is_not_expressible(more: dict[str, Any], key: str) -> None:
    found = read_config(json.dumps({**DENSE, "quantization_config": {**packed(FP8), **more}}), "config.json")
    verdicts = {each.name: each.verdict for each in found.keys}
    assert not key or verdicts[f"quantization_config.{key}"] == "not expressible"
    assert any(loss.kind == "not expressible" and (key or "re:") in loss.sentence for loss in found.losses)
