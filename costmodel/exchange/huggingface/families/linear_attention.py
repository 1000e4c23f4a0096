"""Families that mix layers of linear attention with layers of full attention."""

from __future__ import annotations

from typing import Any

from costmodel.exchange.huggingface.families.deepseek import DEEPSEEK_V3
from costmodel.exchange.huggingface.families.llama import LLAMA, PLAIN
from costmodel.exchange.huggingface.families.mixtures import QWEN_2_MOE
from costmodel.exchange.huggingface.family import Config, Fact, Mixer, Refusal, option
from costmodel.exchange.huggingface.layer_patterns import (
    all_experts,
    all_mlps,
    copy_of,
    experts_after_dense,
    experts_every_nth,
    latent_biases,
    layer_count,
    layers,
    listed_feeds,
    listed_layers,
    listed_mixers,
    uncounted_parameters,
)

YES, NO = Fact(True), Fact(False)


def _full_every_nth(config: Config) -> list[Mixer]:
    """Attention in every nth layer, linear attention in the others."""
    step, count = config["window_pattern"].value, layer_count(config)
    if not isinstance(step, int) or step < 1:
        config.refuse("D008", "full_attention_interval has to be a whole number of 1 or more", config.place)
        return ["full"] * count
    return ["linear" if (index + 1) % step else "full" for index in range(count)]


def _alternating(config: Config) -> list[Mixer]:
    """Attention and linear attention in turn, attention first."""
    return ["linear" if index % 2 else "full" for index in range(layer_count(config))]


def _kimi_mixers(config: Config) -> list[Mixer]:
    """Latent attention in the layers listed (counted from 1) or in every fourth; linear attention in the others."""
    listed, count = listed_layers(config), layer_count(config)
    if config["numbered_layers"].value is None:
        listed = {index + 1 for index in range(4, count, 4)}
    return ["full" if index + 1 in listed else "linear" for index in range(count)]


def _kimi_layer_mixers(config: Config) -> list[Mixer]:
    return ["latent" if mixer == "full" else mixer for mixer in listed_mixers(_kimi_mixers)(config)]


_KIMI_BIASES = uncounted_parameters(
    "the matrices down to the latent vectors and the output have biases",
    lambda config: _kimi_layer_mixers(config).count("latent") * latent_biases(config),
    lambda config: config.flag("biases"),
)

_DELTA: dict[str, Any] = {
    "linear_rule": Fact("gated-delta"),
    "linear_heads": option("linear_num_value_heads", default=32),
    "linear_value_dim": option("linear_value_head_dim", default=128),
    "linear_key_heads": option("linear_num_key_heads", default=16),
    "linear_key_dim": option("linear_key_head_dim", default=128),
    "linear_conv": option("linear_conv_kernel_dim", default=4),
    "linear_chunk": Fact(64),
    "window_pattern": option("full_attention_interval", default=4),
    "layer_types": option("layer_types"),
    "qk_norm": YES,
    "output_gate": YES,
    "head_dim": option("head_dim", default=256),
    "biases": option("attention_bias", default=False),
    "output_bias": copy_of("biases"),
}
_GATED = Refusal("attn_output_gate", (True,), "the class has a gate on the result of attention always")
_QUIET = ("mtp_use_dedicated_embeddings", "mamba_ssm_dtype", "partial_rotary_factor", "mlp_only_layers")
_WITHOUT = ("window", "windowed", "window_from")

_QWEN_3_NEXT = QWEN_2_MOE.like(
    "qwen3_next", ("Qwen3NextForCausalLM",), "Qwen3NextConfig", types=("qwen3_next",), without=_WITHOUT,
    vocab=151936, layer_count=48, heads=16, kv_heads=2, ffn_hidden=5632,
    experts=option("num_experts", "num_local_experts", default=512), top_k=10, expert_hidden=512, shared_hidden=512,
    layers=layers(listed_mixers(_full_every_nth), experts_every_nth), refusals=(_GATED,), **_DELTA,
)  # fmt: skip

FAMILIES = [
    _QWEN_3_NEXT,
    _QWEN_3_NEXT.like(
        "qwen3_5_moe_text", ("Qwen3_5MoeForCausalLM",), "Qwen3_5MoeTextConfig",
        types=("qwen3_5_moe_text",), without=("sparse_step", "numbered_layers"), vocab=248320, layer_count=40,
        experts=option("num_experts", "num_local_experts", default=256), top_k=8, ffn_hidden=copy_of("expert_hidden"),
        prediction_depth=option("mtp_num_hidden_layers"),
        layers=layers(listed_mixers(_full_every_nth), all_experts), quiet=_QUIET,
    ),
    PLAIN.like(
        "qwen3_5_text", ("Qwen3_5ForCausalLM",), "Qwen3_5TextConfig", types=("qwen3_5_text",),
        vocab=248320, hidden=4096, ffn_hidden=12288, layer_count=32, heads=16, kv_heads=4, max_sequence=32768,
        prediction_depth=option("mtp_num_hidden_layers"), layers=layers(listed_mixers(_full_every_nth), all_mlps),
        refusals=(_GATED,), quiet=_QUIET, **_DELTA,
    ),
    LLAMA.like(
        "minimax", ("MiniMaxForCausalLM", "MiniMaxText01ForCausalLM", "MiniMaxM1ForCausalLM"), "MiniMaxConfig",
        types=("minimax", "minimax_text_01", "minimax_m1"), vocab=32000, ffn_hidden=copy_of("expert_hidden"),
        kv_heads=8, max_sequence=131072, biases=NO, mlp_biases=NO,
        experts=option("num_local_experts", "num_experts", default=8),
        top_k=option("num_experts_per_tok", default=2), expert_hidden=option("intermediate_size", default=14336),
        linear_rule=Fact("lightning"), linear_heads=copy_of("heads"), linear_value_dim=copy_of("head_dim"),
        linear_key_heads=copy_of("heads"), linear_key_dim=copy_of("head_dim"), linear_conv=Fact(None),
        linear_chunk=option("block_size", default=256), layer_types=option("layer_types"),
        layers=layers(listed_mixers(_alternating), all_experts),
        quiet=("full_attn_alpha_factor", "full_attn_beta_factor", "linear_attn_alpha_factor", "sliding_window",
               "linear_attn_beta_factor", "mlp_alpha_factor", "mlp_beta_factor", "router_jitter_noise"),
    ),
    DEEPSEEK_V3.like(
        "kimi_linear", ("KimiLinearForCausalLM",), "KimiLinearConfig", types=("kimi_linear",), vocab=163840,
        hidden=2304, ffn_hidden=9216, layer_count=27, heads=32, query_rank=option("q_lora_rank"),
        max_sequence=option("model_max_length", "max_position_embeddings", default=1048576),
        experts=option("num_experts", "num_local_experts", default=256), expert_hidden=1024,
        top_k=option("num_experts_per_token", "num_experts_per_tok", default=8),
        shared_experts=option("num_shared_experts", "n_shared_experts", default=1),
        groups=option("num_expert_group", "n_group", default=1), group_limit=1, leading_dense=1,
        linear_rule=Fact("kimi-delta"),
        linear_heads=option("linear_attn_config.num_heads", "linear_num_heads", default=32),
        linear_value_dim=option("linear_attn_config.head_dim", "linear_head_dim", default=128),
        linear_key_heads=copy_of("linear_heads"), linear_key_dim=copy_of("linear_value_dim"),
        linear_conv=option("linear_attn_config.short_conv_kernel_size", "linear_conv_kernel_dim", default=4),
        linear_chunk=Fact(64), numbered_layers=option("linear_attn_config.full_attn_layers"),
        layer_types=option("layer_types"), mlp_types=option("mlp_layer_types"), prediction_depth=Fact(None),
        layers=layers(_kimi_layer_mixers, listed_feeds(experts_after_dense)), tied=NO,
        losses=(_KIMI_BIASES,),
        refusals=(*DEEPSEEK_V3.refusals, Refusal("tie_word_embeddings", (False,), "the class ties nothing")),
        quiet=(*DEEPSEEK_V3.quiet, "mla_use_nope", "moe_renormalize", "moe_router_activation_func",
               "use_grouped_topk", "num_nextn_predict_layers"),
    ),
]  # fmt: skip
