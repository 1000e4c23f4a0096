"""Families whose code comes with the checkpoint, without a class in transformers.

What their code fixes is stated here; their options have no defaults here, so a file has to state them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import NamedTuple

from costmodel.exchange.huggingface.families.llama import LLAMA, PLAIN
from costmodel.exchange.huggingface.family import (
    Config,
    DerivedValue,
    Fact,
    Family,
    Feed,
    ForeignOption,
    Half,
    LayerHalves,
    Refusal,
    option,
    standard_layer,
)
from costmodel.exchange.huggingface.layer_patterns import (
    all_experts,
    all_mlps,
    copy_of,
    everywhere,
    has_one_per_layer,
    layer_count,
    layers,
    listed_feeds,
    listed_layers,
    listed_mixers,
    sparse_feed,
    uncounted_parameters,
    windows_after_first,
)
from costmodel.exchange.import_result import Origin, OriginValue
from costmodel.exchange.values import as_text

YES, NO = Fact(True), Fact(False)


def _without_defaults(family: Family) -> Family:
    """A copy of a family in which no option has a default."""
    fields = {
        name: replace(source, default=None) if isinstance(source, ForeignOption) else source
        for name, source in family.fields.items()
    }
    return replace(family, fields=fields)


REMOTE = _without_defaults(PLAIN)


# --- Baichuan: positions by size


def _positions_by_width(config: Config) -> OriginValue:
    rotary = config.number("hidden") == 4096
    return config.derived("rotary" if rotary else "alibi", "rotary at a width of 4096, else ALiBi", "hidden")


# --- Nemotron-NAS: every layer has sizes of its own


class _Block(NamedTuple):
    """Key-value heads of a layer and the width of its MLP; 0 if the layer has no attention or no MLP."""

    kv_heads: int
    ffn_hidden: int


def _rounded_width(width: float) -> int:
    """A width rounded up to the next multiple of 256."""
    return -(-int(width) // 256) * 256


def _block_sizes(config: Config, entry: object) -> _Block | None:
    """The sizes in one entry of block_configs; None if the entry does not have the known form."""
    attention, feed = (entry.get(key) if isinstance(entry, dict) else None for key in ("attention", "ffn"))
    if not isinstance(attention, dict) or not isinstance(feed, dict):
        return None
    if any(half.get("replace_with_linear") or half.get("sparsify") for half in (attention, feed)):
        return None
    group, wide = attention.get("n_heads_in_group"), feed.get("ffn_mult")
    heads, hidden = config.number("heads"), config.number("hidden")
    kv_heads = 0 if attention.get("no_op") else heads // group if isinstance(group, int) and 0 < group <= heads else -1
    width = 0 if feed.get("no_op") else -1
    if width and isinstance(wide, int | float) and 0 < wide < 1000:
        width = _rounded_width(2 * wide * hidden / 3)
    return None if min(kv_heads, width) < 0 or kv_heads == width == 0 else _Block(kv_heads, width)


def _nas_layers(config: Config) -> Sequence[Hashable]:
    """The blocks of a model from architecture search, one per layer; a fault for entries that are not modelled."""
    listed, count = config["block_types"], layer_count(config)
    if not listed.value or len(listed.value) != count:
        config.refuse("X005", f"block_configs has to have {count} entries", listed.place, "one for every layer")
        return [_Block(1, 1)]
    blocks = [_block_sizes(config, entry) for entry in listed.value]
    if None in blocks:
        at = blocks.index(None)
        sentence = f"{config.family.classes[0]} with block_configs.{at} {as_text(listed.value[at])}"
        config.refuse("X003", sentence, listed.place, "a layer is attention in groups, an MLP of ffn_mult, or both")
        return [_Block(1, 1)]
    return blocks


def _nas_layer(config: Config, block: _Block) -> Half:
    """A layer with the sizes of one block: attention, an MLP, or both."""
    origin = Origin("derived", "block_configs", config["block_types"].place)
    layer = standard_layer(config, LayerHalves("full" if block.kv_heads else "", "mlp" if block.ffn_hidden else ""))
    if block.kv_heads:
        layer["attention"]["kv_heads"] = OriginValue(block.kv_heads, origin)
    if block.ffn_hidden:
        layer["mlp"]["ffn_hidden"] = OriginValue(block.ffn_hidden, origin)
    if not block.kv_heads or not block.ffn_hidden:
        layer["norms"] = OriginValue(1, origin)
    return layer


# --- Laguna: heads by layer, and a gate for each head


class _LagunaLayer(NamedTuple):
    """The halves (mixer and feed-forward) of a layer, and its query heads."""

    halves: LayerHalves
    heads: int


def _laguna_feeds(config: Config) -> list[Feed]:
    dense_ones = listed_layers(config) or {0}
    return ["mlp" if index in dense_ones else sparse_feed(config) for index in range(layer_count(config))]


_LAGUNA_HALVES = layers(listed_mixers(everywhere("full")), listed_feeds(_laguna_feeds))


def _laguna_heads(config: Config) -> list[int]:
    """The number of query heads of every layer: as listed, else the same number for all layers."""
    listed, count = config["block_types"], layer_count(config)
    if listed.value is None:
        return [config.number("heads")] * count
    most = config.number("hidden")
    if not has_one_per_layer(config, listed.value, count, "block_types"):
        return [1] * count
    if not all(isinstance(each, int) and not isinstance(each, bool) and 0 < each <= most for each in listed.value):
        config.refuse("D006", "num_attention_heads_per_layer lists whole numbers of heads", listed.place)
        return [1] * count
    return list(listed.value)


def _laguna_layers(config: Config) -> Sequence[Hashable]:
    halves = _LAGUNA_HALVES(config)
    return [_LagunaLayer(each, heads) for each, heads in zip(halves, _laguna_heads(config), strict=True)]


def _gated_by_head(config: Config) -> bool:
    gating, place = config.written("gating")
    return place is None or gating is True or gating == "per-head"


def _laguna_layer(config: Config, layer: _LagunaLayer) -> Half:
    half = standard_layer(config, layer.halves)
    half["attention"]["heads"] = OriginValue(layer.heads, Origin("derived", "heads of the layer", None))
    if not _gated_by_head(config):
        half["attention"]["output_gate"] = OriginValue(True, Origin("file", "gating", config.written("gating")[1]))
    return half


_HEAD_GATES = uncounted_parameters(
    "a gate for each head on the result of attention",
    lambda config: config.number("hidden") * sum(_laguna_heads(config)),
    _gated_by_head,
)

FAMILIES = [
    LLAMA.like(
        "laguna", ("LagunaForCausalLM",), "LagunaConfig", types=("laguna",), vocab=100352, hidden=2048,
        ffn_hidden=8192, layer_count=40, heads=48, kv_heads=8, head_dim=option("head_dim", default=128),
        max_sequence=131072, mlp_biases=NO, qk_norm=YES, window=option("sliding_window", default=512),
        layer_types=option("layer_types"), mlp_types=option("mlp_layer_types"),
        numbered_layers=option("mlp_only_layers"), block_types=option("num_attention_heads_per_layer"),
        experts=option("num_experts", "num_local_experts", default=256), router_bias=YES,
        top_k=option("num_experts_per_tok", default=8), expert_hidden=option("moe_intermediate_size", default=512),
        shared_hidden=option("shared_expert_intermediate_size", default=512),
        layers=_laguna_layers, build=_laguna_layer, losses=(_HEAD_GATES,),
        quiet=("gating", "moe_routed_scaling_factor", "moe_apply_router_weight_on_input",
               "moe_router_logit_softcapping", "router_aux_loss_coef", "partial_rotary_factor",
               "swa_rope_parameters", "qk_norm_type"),
    ),
    REMOTE.like(
        "baichuan", ("BaichuanForCausalLM", "BaiChuanForCausalLM"), "BaichuanConfig", types=("baichuan",),
        kv_heads=copy_of("heads"), max_sequence=option("max_position_embeddings", "model_max_length"),
        tied=option("tie_word_embeddings", default=False), positions=DerivedValue("by width", _positions_by_width),
        quiet=("gradient_checkpointing", "z_loss_weight"), code="modeling_baichuan.py of the checkpoint",
    ),
    REMOTE.like(
        "internlm", ("InternLMForCausalLM",), "InternLMConfig", types=("internlm",), kv_heads=copy_of("heads"),
        biases=option("bias"), output_bias=copy_of("biases"), code="modeling_internlm.py of the checkpoint",
    ),
    REMOTE.like(
        "internlm2", ("InternLM2ForCausalLM",), "InternLM2Config", types=("internlm2",),
        biases=option("bias"), output_bias=copy_of("biases"), code="modeling_internlm2.py of the checkpoint",
    ),
    REMOTE.like(
        "minicpm", ("MiniCPMForCausalLM",), "MiniCPMConfig", types=("minicpm",),
        quiet=("scale_emb", "scale_depth", "dim_model_base"), code="modeling_minicpm.py of the checkpoint",
        refusals=(
            Refusal("num_experts", (0, None), "experts of MiniCPM are not in this table"),
            Refusal("sparse_config", (None,), "the model document has no sparse attention"),
        ),
    ),
    REMOTE.like(
        "mimo", ("MiMoForCausalLM",), "MiMoConfig", types=("mimo",), biases=option("attention_bias"), output_bias=NO,
        window=option("sliding_window"), windowed=option("use_sliding_window", default=False),
        window_from=option("max_window_layers"), prediction_depth=option("num_nextn_predict_layers"),
        layers=layers(windows_after_first, all_mlps), quiet=("use_mrope",), code="modeling_mimo.py of the checkpoint",
    ),
    REMOTE.like(
        "xverse", ("XverseForCausalLM",), "XverseConfig", types=("xverse",),
        kv_heads=option("num_key_value_heads", null=copy_of("heads")),
        quiet=("max_tokenizer_truncation",), code="modeling_xverse.py of the checkpoint",
        refusals=(Refusal("num_experts", (0, None), "experts of XVERSE are not in this table"),),
    ),
    REMOTE.like(
        "qwen", ("QWenLMHeadModel",), "QWenConfig", types=("qwen",), kv_heads=copy_of("heads"),
        head_dim=option("kv_channels"), both_halves=option("intermediate_size"),
        ffn_hidden=DerivedValue(
            "intermediate_size / 2",
            lambda config: config.derived(config.number("both_halves") // 2, "intermediate_size / 2", "both_halves"),
        ),
        max_sequence=option("seq_length", "max_position_embeddings"), biases=YES, output_bias=NO,
        quiet=("use_dynamic_ntk", "use_logn_attn", "use_flash_attn", "rotary_pct",
               "rotary_emb_base", "onnx_safe", "fp32", "fp16", "bf16", "scale_attn_weights", "tokenizer_type",
               "use_cache_quantization", "use_cache_kernel", "softmax_in_fp32", "emb_dropout_prob",
               "attn_dropout_prob"),
        refusals=(Refusal("no_bias", (True,), "the MLP of the code has no biases"),),
        code="modeling_qwen.py of the checkpoint",
    ),
    REMOTE.like(
        "chatglm", ("ChatGLMModel", "ChatGLMForConditionalGeneration"), "ChatGLMConfig", types=("chatglm",),
        vocab=option("padded_vocab_size", "vocab_size"), layer_count=option("num_layers", "num_hidden_layers"),
        multi_query=option("multi_query_attention"), query_groups=option("multi_query_group_num"),
        kv_heads=DerivedValue(
            "multi_query_group_num with multi_query_attention, else heads",
            lambda config: config["query_groups"] if config.flag("multi_query") else config["heads"],
        ),
        head_dim=option("kv_channels"), ffn_hidden=option("ffn_hidden_size"), max_sequence=option("seq_length"),
        biases=option("add_qkv_bias"), output_bias=NO,
        tied=option("tie_word_embeddings", default=False),
        refusals=(
            Refusal("add_bias_linear", (False,), "biases of this code are not in this table"),
            Refusal("rmsnorm", (True,), "layer norms of this code are not in this table"),
            Refusal("post_layer_norm", (True,), "the document has a normalisation before the head"),
            Refusal("pre_seq_len", (None, 0), "a learned prefix has no place in the document"),
        ),
        quiet=("apply_residual_connection_post_layernorm", "bias_dropout_fusion", "apply_query_key_layer_scaling",
               "attention_softmax_in_fp32", "fp32_residual_connection", "prefix_projection", "quantization_bit",
               "layernorm_epsilon", "interleaved_qkv", "original_rope", "rope_ratio"),
        code="modeling_chatglm.py of the checkpoint",
    ),
    REMOTE.like(
        "grok-1", ("Grok1ModelForCausalLM", "Grok1ForCausalLM"), "Grok1Config", types=("grok-1",), norms=4,
        experts=option("num_experts", "num_local_experts"), top_k=option("num_experts_per_tok"),
        expert_hidden=copy_of("ffn_hidden"), layers=layers(everywhere("full"), all_experts),
        refusals=(Refusal("residual_moe", (False, None), "experts beside an MLP are not in this table"),),
        quiet=("attn_output_multiplier", "embedding_multiplier_scale", "output_multiplier_scale", "max_attn_value"),
        code="modeling_grok1.py of the checkpoint",
    ),
    LLAMA.like(
        "nemotron-nas", ("DeciLMForCausalLM",), "DeciLMConfig", types=("nemotron-nas",), kv_heads=copy_of("heads"),
        ffn_hidden=copy_of("hidden"), block_types=option("block_configs"), layers=_nas_layers, build=_nas_layer,
        quiet=("intermediate_size", "num_key_value_heads"), code="modeling_decilm.py of the checkpoint",
    ),
]  # fmt: skip
