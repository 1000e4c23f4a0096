"""The Gemma families: wide heads and gated GELU MLPs; layers of Gemma 3n and 4 that share keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from costmodel.exchange.huggingface.families.llama import LLAMA
from costmodel.exchange.huggingface.family import (
    Config,
    DerivedValue,
    Fact,
    Half,
    Refusal,
    attention,
    experts,
    mlp,
    option,
)
from costmodel.exchange.huggingface.layer_patterns import (
    all_mlps,
    copy_of,
    full_every_nth,
    layer_count,
    layers,
    leading_layers,
    listed_mixers,
)
from costmodel.exchange.import_result import OriginValue

NO, YES = Fact(False), Fact(True)
_SOFT_CAPS = ("attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar")

GEMMA = LLAMA.like(
    "gemma", ("GemmaForCausalLM",), "GemmaConfig", types=("gemma",), vocab=256000, hidden=3072, ffn_hidden=24576,
    layer_count=28, heads=16, kv_heads=16, head_dim=256, max_sequence=8192, tied=True, mlp_biases=NO,
    quiet=("hidden_activation", "use_bidirectional_attention"),
)  # fmt: skip
GEMMA_2 = GEMMA.like(
    "gemma2", ("Gemma2ForCausalLM",), "Gemma2Config", types=("gemma2",),
    hidden=option("hidden_size", default=2304, was=(("4.47", 3072),)),
    ffn_hidden=option("intermediate_size", default=9216, was=(("4.47", 24576),)),
    layer_count=option("num_hidden_layers", default=26, was=(("4.47", 28),)),
    heads=option("num_attention_heads", default=8, was=(("4.47", 16),)),
    kv_heads=option("num_key_value_heads", default=4, was=(("4.47", 16),)),
    norms=4, window=option("sliding_window", default=4096), window_pattern=Fact(2), layer_types=option("layer_types"),
    layers=layers(listed_mixers(full_every_nth), all_mlps), quiet=(*GEMMA.quiet, *_SOFT_CAPS),
)  # fmt: skip

FAMILIES = [
    GEMMA,
    GEMMA_2,
    GEMMA_2.like("vaultgemma", ("VaultGemmaForCausalLM",), "VaultGemmaConfig", types=("vaultgemma",), norms=2),
    GEMMA_2.like(
        "gemma3_text", ("Gemma3ForCausalLM",), "Gemma3TextConfig", types=("gemma3_text",), vocab=262208, hidden=2304,
        ffn_hidden=9216, layer_count=26, heads=8, kv_heads=4, max_sequence=131072, qk_norm=YES,
        window_pattern=option(
            "sliding_window_pattern", "_sliding_window_pattern", default=6, old={"sliding_window_pattern": "4.52"}
        ),
    ),
]  # fmt: skip


class SharingLayer(NamedTuple):
    """Whether a layer has a window, and whether it reuses the keys and values of an earlier layer."""

    windowed: bool
    shared: bool


def _layer_marks(config: Config) -> Sequence[SharingLayer]:
    """A mark for every layer: with or without a window; the last `shared_layers` layers share keys and values."""
    mixers = listed_mixers(full_every_nth)(config)
    if config["streams"].value is None:
        mixers[-1] = "full"
    own = layer_count(config) - leading_layers(config, "shared_layers")
    marks = [SharingLayer(mixer == "window", index >= own) for index, mixer in enumerate(mixers)]
    if {mark.windowed for mark in marks if mark.shared} - {mark.windowed for mark in marks if not mark.shared}:
        sentence = "layers share keys and values, and no layer of their kind makes any"
        config.refuse(
            "X005", sentence, config["shared_layers"].place, "one layer with a window and one without make them"
        )
    return marks


def _layer_section(config: Config, mark: SharingLayer) -> Half:
    """The document of one layer: attention, and experts or an MLP."""
    layer: Half = {"norms": config["norms"], "attention": _attention_half(config, mark)}
    if config["side_rank"].value is not None:
        layer["side_rank"] = config["side_rank"]
    if config["experts"].value is not None:
        return layer | {"experts": experts(config)}
    layer["mlp"] = mlp(config)
    if mark.shared and config.flag("wide_when_shared"):
        wide = config.derived(2 * config.number("ffn_hidden"), "twice as wide where keys are shared", "ffn_hidden")
        layer["mlp"] = layer["mlp"] | {"ffn_hidden": wide}
    return layer


def _attention_half(config: Config, mark: SharingLayer) -> Half:
    """The attention of one layer, as a window or over all tokens, with keys of its own or shared ones."""
    half = attention(config, windowed=mark.windowed)
    if not mark.windowed:
        half["head_dim"] = config["global_head_dim"]
        if config.flag("keys_as_values"):
            half["kv_heads"] = config["global_kv_heads"]
    if mark.shared:
        half["shared_kv"] = config.derived(True, "one of the last layers, which share", "shared_layers")
    elif config.flag("keys_as_values") and not mark.windowed:
        half["keys_as_values"] = config["keys_as_values"]
    if not mark.shared:
        half["value_norm"] = config["value_norm"]
    return half


def _norms(config: Config) -> OriginValue:
    """The number of normalisations of a layer: 4, or 8 where experts run in parallel with the MLP."""
    count = 4 if config["experts"].value is None else 8
    return config.derived(count, "8 with experts beside the MLP, the router's own among them, else 4", "experts")


def _routed_experts(config: Config) -> OriginValue | None:
    """The number of routed experts, if expert blocks are switched on."""
    return config["written_experts"] if config.flag("expert_blocks") else None


def _wide_experts(config: Config) -> OriginValue | None:
    return config["ffn_hidden"]


GEMMA_4 = GEMMA.like(
    "gemma4_text", ("Gemma4ForCausalLM",), "Gemma4TextConfig", types=("gemma4_text",), vocab=262144, hidden=2304,
    ffn_hidden=9216, layer_count=30, heads=8, kv_heads=option("num_key_value_heads", default=4), max_sequence=131072,
    head_dim=option("head_dim", default=256), qk_norm=YES, value_norm=YES,
    norms=DerivedValue("8 with experts beside the MLP, else 4", _norms),
    window=option("sliding_window", default=512), window_pattern=Fact(6), layer_types=option("layer_types"),
    global_head_dim=option("global_head_dim", default=512),
    global_kv_heads=option("num_global_key_value_heads", null=copy_of("kv_heads")),
    keys_as_values=option("attention_k_eq_v", default=False),
    shared_layers=option("num_kv_shared_layers", default=0),
    wide_when_shared=option("use_double_wide_mlp", default=False),
    entry_rows=option("vocab_size_per_layer_input", default=262144),
    entry_width=option("hidden_size_per_layer_input", default=256),
    expert_blocks=option("enable_moe_block", default=False), written_experts=option("num_experts"),
    experts=DerivedValue("num_experts, with enable_moe_block", _routed_experts), top_k=option("top_k_experts"),
    expert_hidden=option("moe_intermediate_size"), router_bias=YES,
    shared_hidden=DerivedValue("the MLP beside the experts", _wide_experts),
    layers=_layer_marks, build=_layer_section,
    refusals=(
        Refusal("per_layer_config", (None,), "its layers may have any heads"),
        Refusal("use_bidirectional_attention", (None, "vision"), "every token sees all others, as in an encoder"),
    ),
    quiet=("hidden_activation", "final_logit_softcapping"),
)  # fmt: skip

GEMMA_3N = GEMMA.like(
    "gemma3n_text", ("Gemma3nForCausalLM",), "Gemma3nTextConfig", types=("gemma3n_text",), vocab=262400, hidden=2048,
    ffn_hidden=16384, layer_count=35, heads=8, kv_heads=option("num_key_value_heads", default=2), max_sequence=32768,
    head_dim=option("head_dim", default=256), qk_norm=YES, value_norm=YES, norms=4,
    window=option("sliding_window", default=512), window_pattern=Fact(5), layer_types=option("layer_types"),
    global_head_dim=copy_of("head_dim"), keys_as_values=NO, wide_when_shared=NO,
    shared_layers=option("num_kv_shared_layers", default=15),
    entry_rows=option("vocab_size_per_layer_input", default=262144),
    entry_width=option("hidden_size_per_layer_input", default=256),
    streams=option("altup_num_inputs", default=4), stream_rule=Fact("alternating"),
    side_rank=option("laurel_rank", default=64), layers=_layer_marks, build=_layer_section,
    quiet=("hidden_activation", "final_logit_softcapping", "altup_active_idx", "altup_coef_clip", "altup_correct_scale",
           "activation_sparsity_pattern"),
)  # fmt: skip

FAMILIES += [GEMMA_4, GEMMA_3N]
