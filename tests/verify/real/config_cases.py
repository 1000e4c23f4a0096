"""Configurations of every family that the reader of config.json knows: small ones, each option changed in turn."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from costmodel.exchange.huggingface.families import FAMILIES
from costmodel.exchange.huggingface.family import FIELDS, Family

Changes = dict[str, Any]

# Sizes that are unlike one another, so that one taken for another shows in the count.
SIZES = {
    "vocab": 262400, "hidden": 1536, "layer_count": 6, "max_sequence": 4096, "heads": 12, "kv_heads": 4, "head_dim": 96,
    "window": 512, "query_rank": 384, "kv_rank": 192, "nope_dim": 64, "rope_dim": 32, "value_dim": 80,
    "state_heads": 48, "state_head_dim": 64, "state_groups": 4, "state_size": 64, "state_conv": 4, "state_chunk": 128,
    "ffn_hidden": 4000, "experts": 8, "top_k": 2, "expert_hidden": 768, "shared_hidden": 640, "shared_experts": 2,
    "groups": 1, "group_limit": 1, "leading_dense": 1, "sparse_step": 1, "leading_pattern": 2, "window_pattern": 3,
    "window_from": 2, "expansion": 2, "falcon_kv_heads": 4, "mixer_width": 3072, "linear_heads": 8,
    "linear_value_dim": 96, "linear_key_heads": 4, "linear_key_dim": 64, "linear_conv": 4, "linear_chunk": 128,
    "scan_inner": 3072, "scan_state": 16, "scan_rank": 96,
    "scan_conv": 4, "written_rank": 80, "expert_latent": 384, "entry_rows": 262400, "entry_width": 64,
    "global_head_dim": 160, "global_kv_heads": 2,  "written_experts": 8, "expert_offset": 0,
    "output_groups": 4, "output_rank": 160, "sparse_rate": 8, "heavy_rate": 64, "streams": 3, "hash_layers": 2,
    "written_rope": 24, "side_rank": 48, "index_heads": 8, "index_dim": 64, "index_top_k": 256,
}  # fmt: skip
OWN = {
    "helium": {"head_dim": 128},  # heads together are as wide as the model
    "gemma3n_text": {"shared_layers": 1},  # its default shares more layers than a small model has
}
LISTED = ["sliding_attention", "full_attention", "full_attention", "sliding_attention", "full_attention",
          "full_attention"]  # fmt: skip

# What no option alone reaches: orders of layers, and options that count together.
MORE: dict[str, list[Changes]] = {
    "falcon": [
        {"new_decoder_architecture": True, "multi_query": False},
        {"new_decoder_architecture": True, "num_ln_in_parallel_attn": 1},
        {"parallel_attn": False, "multi_query": False, "bias": True},
        {"num_ln_in_parallel_attn": 2},
    ],
    "gpt_neo": [
        {"attention_types": [[["global", "local"], 3]]},
        {"attention_types": [[["global"], 2], [["local", "local"], 2]], "tie_word_embeddings": False},
    ],
    "gpt_bigcode": [{"multi_query": False, "n_inner": None}],
    "mpt": [{"attn_config": {"alibi": True, "clip_qkv": 8}}],
    "opt": [{"do_layer_norm_before": False, "word_embed_proj_dim": 1536}, {"word_embed_proj_dim": 1536}],
    "qwen2": [
        {"use_sliding_window": True, "max_window_layers": 4},
        {"layer_types": LISTED, "use_sliding_window": True},
    ],
    "qwen3": [{"use_sliding_window": True, "max_window_layers": 0}],
    "qwen2_moe": [
        {"decoder_sparse_step": 2},
        {"mlp_only_layers": [0, 3]},
        {"use_sliding_window": True, "max_window_layers": 4},
    ],
    "qwen3_moe": [{"decoder_sparse_step": 3, "mlp_only_layers": [2]}],
    "gemma2": [{"layer_types": LISTED}],
    "gemma3_text": [{"layer_types": LISTED}, {"sliding_window_pattern": 2}],
    "cohere2": [{"layer_types": LISTED}],
    "olmo3": [{"layer_types": LISTED}],
    "exaone4": [{"layer_types": LISTED}],
    "gpt_oss": [{"layer_types": LISTED}],
    "smollm3": [{"use_sliding_window": True, "no_rope_layer_interval": 2}],
    "hyperclovax": [{"use_post_norm": False}],
    "phimoe": [{"lm_head_bias": True}],
    "llama4_text": [
        {"interleave_moe_layer_step": 2},
        {"moe_layers": [1, 2, 5]},
        {"no_rope_layers": [1, 0, 1, 0, 1, 0]},
        {"attention_chunk_size": None},
    ],
    "ernie4_5_moe": [
        {"moe_layer_start_index": 2, "moe_layer_end_index": 4},
        {"moe_layer_interval": 2, "moe_layer_end_index": -1},
        {"moe_num_shared_experts": 0},
    ],
    "deepseek_v2": [{"n_group": 4, "topk_group": 2, "topk_method": "group_limited_greedy"}, {"n_shared_experts": 1}],
    "deepseek_v3": [{"n_group": 4, "topk_group": 2}, {"first_k_dense_replace": 0}, {"first_k_dense_replace": 6}],
    "qwen3_next": [{"decoder_sparse_step": 2}, {"mlp_only_layers": [0, 3]}, {"full_attention_interval": 2}],
    "minimax": [{"layer_types": ["full_attention"] * 2 + ["linear_attention"] * 4}],
    "kimi_linear": [{"linear_attn_config": {"full_attn_layers": [2, 6], "kda_layers": [1, 3, 4, 5]}}],
    "falcon_h1": [{"mamba_d_ssm": None, "mamba_d_head": "auto"}, {"mamba_rms_norm": True}],
    "axk1": [{"mlp_layer_types": ["dense", "dense", "sparse", "sparse", "sparse", "sparse"]}],
    "glm4_moe_lite": [{"mlp_layer_types": ["sparse"] * 6}],
    "exaone_moe": [{"mlp_layer_types": ["sparse"] * 6}, {"layer_types": LISTED}],
    "hy_v3": [{"mlp_layer_types": ["dense", "sparse"] * 3}],
    "mellum": [{"mlp_layer_types": ["sparse", "dense"] * 3}, {"layer_types": LISTED}],
    "cohere2_moe": [
        {"first_k_dense_replace": 2, "prefix_dense_intermediate_size": 4096},
        {"num_shared_experts": 0, "rms_norm_eps": 1e-6},
    ],
    "granitemoeshared": [{"shared_intermediate_size": 0}],
    "granitemoehybrid": [
        {"layer_types": ["mamba", "attention", "mamba", "mamba", "attention", "mamba"]},
        {"num_local_experts": 0},
    ],
    "bamba": [{"attn_layer_indices": [1, 4]}, {"mamba_d_head": "auto"}],
    "nemotron_h": [
        {"hybrid_override_pattern": "M-M*-M"},
        {"hybrid_override_pattern": "MEME*EM-", "n_group": 4, "topk_group": 2},
        {"layers_block_type": ["mamba", "moe", "attention", "mlp"], "moe_latent_size": None},
    ],
    "gemma4_text": [
        {"enable_moe_block": True, "attention_k_eq_v": True},
        {"layer_types": LISTED, "num_kv_shared_layers": 2, "use_double_wide_mlp": True},
        {"layer_types": LISTED, "num_kv_shared_layers": 3, "attention_k_eq_v": True, "hidden_size_per_layer_input": 0},
        {"layer_types": [*LISTED[:4], "sliding_attention", "sliding_attention"]},
    ],
    "gemma3n_text": [{"layer_types": LISTED, "num_kv_shared_layers": 2}, {"intermediate_size": [4000] * 6}],
    "jamba": [
        {"attn_layer_period": 3, "attn_layer_offset": 1},
        {"expert_layer_period": 3, "expert_layer_offset": 2},
        {"num_experts": 1},
    ],
    "dots1": [{"first_k_dense_replace": 2, "max_window_layers": 3, "n_shared_experts": 1}],
    "deepseek_v4": [
        {"compress_ratios": [0, 0, 4, 128, 4, 128, 0], "num_hash_layers": 0},
        {"layer_types": [f"{kind}_attention" for kind in ("sliding", "compressed_sparse", "heavily_compressed")] * 2},
        {"mlp_layer_types": ["moe", "hash_moe", "hash_moe", "moe", "moe", "moe"], "partial_rotary_factor": 0.25},
    ],
    "minimax_m2": [{"num_experts_per_tok": 4}],
}


def families() -> list[Family]:
    """Those whose classes transformers has."""
    return [family for family in FAMILIES if family.code.startswith("transformers")]


def named(family: Family) -> Changes:
    """The keys by which a file names its family."""
    return {"architectures": [family.classes[0]], "model_type": family.types[0]}


def small(family: Family) -> Changes:
    """Every size that the family has an option for, set."""
    config: Changes = {}
    for name, option in family.options.items():
        sizes = SIZES | OWN.get(family.name, {})
        if name in sizes:
            put(config, option.names[0], sizes[name])
    return config


def changes(family: Family) -> Iterator[Changes]:
    """The small configuration as it is, with each flag turned over, with each other option null, and those of MORE."""
    yield {}
    for name, option in family.options.items():
        if FIELDS[name].kind == "flag":
            yield {option.names[0]: not option.default}
        elif option.null is not None or (FIELDS[name].optional and name in SIZES):
            yield {option.names[0]: None}
    yield from MORE.get(family.name, [])


def put(config: Changes, name: str, value: Any) -> None:
    """Set a key, one inside another mapping by its path with dots."""
    *outer, last = name.split(".")
    for part in outer:
        config = config.setdefault(part, {})
    config[last] = value


def changed(config: Changes, given: Changes) -> Changes:
    """A configuration with changes."""
    found = copy.deepcopy(config)
    for name, value in given.items():
        put(found, name, value)
    return found
