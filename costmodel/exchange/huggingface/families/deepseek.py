"""DeepSeek and families built like it: latent attention, and the compressed attention of DeepSeek-V4."""

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
    compressed_attention,
    experts,
    option,
)
from costmodel.exchange.huggingface.layer_patterns import (
    HIDDEN_BY_HEADS,
    LATENT_BIASES,
    SHARED_WIDTH,
    all_mlps,
    assumed_value,
    copy_of,
    everywhere,
    experts_after_dense,
    has_one_per_layer,
    layer_count,
    layers,
    listed_feeds,
    uncounted_parameters,
)
from costmodel.exchange.import_result import OriginValue
from costmodel.exchange.values import as_text

# --- families with latent attention: DeepSeek and those built like it


YES, NO = Fact(True), Fact(False)
NO_HEADS = ("kv_heads", "head_dim")  # latent attention has widths of its own
FIRST_DENSE = listed_feeds(experts_after_dense)
_QUIET = (
    "head_dim", "qk_head_dim", "num_key_value_heads", "rope_interleave", "scoring_func", "topk_method", "ep_size",
    "seq_aux", "aux_loss_alpha", "mlp_bias", "routed_scaling_factor", "norm_topk_prob",
)  # fmt: skip

DEEPSEEK_V3 = LLAMA.like(
    "deepseek_v3", ("DeepseekV3ForCausalLM",), "DeepseekV3Config", without=NO_HEADS, types=("deepseek_v3", "kimi_k2"),
    vocab=129280, hidden=7168, ffn_hidden=18432, layer_count=61, heads=128, max_sequence=4096, mlp_biases=NO,
    query_rank=option("q_lora_rank", default=1536), kv_rank=option("kv_lora_rank", default=512),
    nope_dim=option("qk_nope_head_dim", default=128), rope_dim=option("qk_rope_head_dim", default=64),
    value_dim=option("v_head_dim", default=128),
    experts=option("n_routed_experts", "num_local_experts", default=256),
    top_k=option("num_experts_per_tok", default=8), expert_hidden=option("moe_intermediate_size", default=2048),
    shared_experts=option("n_shared_experts", default=1), shared_hidden=SHARED_WIDTH, router_bias=YES,
    groups=option("n_group", default=8), group_limit=option("topk_group", default=4),
    leading_dense=option("first_k_dense_replace", default=3),
    prediction_depth=option("num_nextn_predict_layers", "num_mtp_layers"),
    layers=layers(everywhere("latent"), experts_after_dense), losses=(LATENT_BIASES,),
    refusals=(Refusal("moe_layer_freq", (1,), "the class builds experts in every layer behind the first"),),
    quiet=_QUIET,
)  # fmt: skip

_DEEPSEEK_V32 = DEEPSEEK_V3.like(
    "deepseek_v32", ("DeepseekV32ForCausalLM",), "DeepseekV32Config", types=("deepseek_v32",), max_sequence=163840,
    index_heads=option("index_n_heads", default=64), index_dim=option("index_head_dim", default=128),
    index_top_k=option("index_topk", default=2048), mlp_types=option("mlp_layer_types"),
    layers=layers(everywhere("latent"), FIRST_DENSE),
    refusals=(
        *DEEPSEEK_V3.refusals,
        Refusal("mlp_bias", (False,), "its experts have none, and the document has one for both"),
    ),
    quiet=(*(name for name in _QUIET if name != "mlp_bias"), "layer_types"),
)  # fmt: skip

FAMILIES = [
    DEEPSEEK_V3,
    DEEPSEEK_V3.like(
        "deepseek_v2", ("DeepseekV2ForCausalLM",), "DeepseekV2Config", types=("deepseek_v2",),
        vocab=option("vocab_size", default=102400, was=(("5.16", 32000),)), hidden=4096, ffn_hidden=11008,
        layer_count=32, heads=32, max_sequence=2048, mlp_biases=option("mlp_bias", default=False),
        experts=option("n_routed_experts", "num_experts", default=64), top_k=option("num_experts_per_tok"),
        expert_hidden=1407, shared_experts=option("n_shared_experts", default=2), router_bias=NO,
        groups=option("n_group"), group_limit=option("topk_group"),
        routing_method=option("topk_method", default="greedy"),
        leading_dense=option("first_k_dense_replace", default=0),
        refusals=(
            Refusal("moe_layer_freq", (1,), "the class builds experts in every layer behind the first"),
            Refusal("mlp_bias", (False,), "its experts have none, and the document has one for both"),
        ),
    ),
    _DEEPSEEK_V32,
    _DEEPSEEK_V32.like(
        "glm_moe_dsa", ("GlmMoeDsaForCausalLM",), "GlmMoeDsaConfig", types=("glm_moe_dsa",), vocab=154880, hidden=6144,
        ffn_hidden=12288, layer_count=78, heads=64, max_sequence=202752, query_rank=2048, nope_dim=192, value_dim=256,
        groups=1, group_limit=1, index_heads=32,
        refusals=(
            *_DEEPSEEK_V32.refusals,
            Refusal("indexer_types", (None,), "layers that take the choice of the layer before are not in this table"),
            Refusal("index_topk_freq", (1, None), "layers that take the choice of the layer before are not in it"),
            Refusal("index_topk_pattern", (None,), "layers that take the choice of the layer before are not in it"),
        ),
        quiet=(*_DEEPSEEK_V32.quiet, "indexer_rope_interleave"),
    ),
    DEEPSEEK_V3.like(
        "mistral4", ("Mistral4ForCausalLM",), "Mistral4Config", types=("mistral4",), vocab=131072, hidden=4096,
        ffn_hidden=12288, layer_count=36, heads=32, max_sequence=1048576, query_rank=1024, kv_rank=256, nope_dim=64,
        experts=128, top_k=4, router_bias=NO, groups=1, group_limit=1, leading_dense=0, prediction_depth=Fact(None),
        refusals=(), quiet=(*_QUIET, "pretraining_tp"),
    ),
    DEEPSEEK_V3.like(
        "sarvam_mla", ("DeepseekV3ForCausalLM", "SarvamMLAForCausalLM"), "SarvamMLAConfig", types=("sarvam_mla",),
        vocab=262144, hidden=4096, ffn_hidden=16384, layer_count=32, heads=64, query_rank=option("q_lora_rank"),
        experts=option("n_routed_experts", "num_local_experts", "num_experts", default=128),
        shared_experts=option("n_shared_experts", "num_shared_experts", default=1), groups=1, group_limit=1,
        leading_dense=1,
    ),
    DEEPSEEK_V3.like(
        "axk1", ("AXK1ForCausalLM",), "AXK1Config", types=("axk1",), vocab=163840, heads=64, max_sequence=32768,
        experts=192, leading_dense=Fact(1), mlp_types=option("mlp_layer_types"),
        layers=layers(everywhere("latent"), FIRST_DENSE),
        losses=(
            LATENT_BIASES,
            uncounted_parameters(
                "there is a normalisation after the experts",
                lambda config: config.number("hidden") * FIRST_DENSE(config).count("experts"),
            ),
        ),
        refusals=(),
    ),
    DEEPSEEK_V3.like(
        "glm4_moe_lite", ("Glm4MoeLiteForCausalLM",), "Glm4MoeLiteConfig", types=("glm4_moe_lite",), vocab=154880,
        hidden=2048, ffn_hidden=10240, layer_count=47, heads=20, max_sequence=202752, query_rank=768, nope_dim=192,
        value_dim=256, experts=64, top_k=4, expert_hidden=1536, groups=1, group_limit=1, leading_dense=Fact(1),
        rope_dim=option("qk_rope_head_dim", "head_dim", default=64), mlp_types=option("mlp_layer_types"),
        layers=layers(everywhere("latent"), FIRST_DENSE),
        refusals=(Refusal("first_k_dense_replace", (1,), "the class has one dense layer by default"),),
    ),
    LLAMA.like(
        "minicpm3", ("MiniCPM3ForCausalLM",), "MiniCPM3Config", without=NO_HEADS, types=("minicpm3",), vocab=73448,
        hidden=2560, ffn_hidden=6400, layer_count=62, heads=40, max_sequence=32768, tied=True,
        query_rank=option("q_lora_rank", default=768), kv_rank=option("kv_lora_rank", default=256),
        nope_dim=option("qk_nope_head_dim", default=64), rope_dim=option("qk_rope_head_dim", default=32),
        value_dim=option("v_head_dim", null=HIDDEN_BY_HEADS), layers=layers(everywhere("latent"), all_mlps),
        losses=(LATENT_BIASES,),
        quiet=(*_QUIET, "scale_emb", "scale_depth", "dim_model_base"),
    ),
    LLAMA.like(
        "youtu", ("YoutuForCausalLM",), "YoutuConfig", without=NO_HEADS, types=("youtu",), vocab=128256, hidden=2048,
        ffn_hidden=6144, heads=16, max_sequence=131072, tied=True, mlp_biases=NO,
        query_rank=option("q_lora_rank", default=1536),
        kv_rank=option("kv_lora_rank", default=512), nope_dim=option("qk_nope_head_dim", default=128),
        rope_dim=option("qk_rope_head_dim", default=64), value_dim=option("v_head_dim", default=128),
        layers=layers(everywhere("latent"), all_mlps), losses=(LATENT_BIASES,),
        quiet=(*_QUIET, "embedding_initializer_range"),
    ),
]  # fmt: skip


# --- the family with compressed attention, several residual streams and hashed experts: DeepSeek-V4


_WINDOW, _SPARSE, _HEAVY = "sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"
_BY_RATIO = {0: _WINDOW, 4: _SPARSE, 128: _HEAVY}  # as the class reads compress_ratios
_FEEDS = {"hash_moe": True, "moe": False}


class CompressedLayer(NamedTuple):
    """The kind of attention of a layer, by its name in layer_types, and whether its experts are chosen by a hash."""

    attention: str
    hashed: bool


def _attention_kinds(config: Config) -> list[str]:
    """The attention kind of every layer: from layer_types, else the compression ratios, else the default pattern."""
    count, types, ratios = layer_count(config), config["layer_types"], config["entry_ratios"]
    if types.value is not None:
        if not has_one_per_layer(config, types.value, count, "layer_types"):
            return [_WINDOW] * count
        return [_checked_kind(config, kind, "layer_types", kind in _BY_RATIO.values()) for kind in types.value]
    if ratios.value is not None:
        if len(ratios.value) < count:
            _refuse_short_list(config, count)
            return [_WINDOW] * count
        return [_kind_of_ratio(config, ratio) for ratio in ratios.value[:count]]
    return [_SPARSE if index > 2 and index % 2 else _HEAVY for index in range(count)]


def _refuse_short_list(config: Config, count: int) -> None:
    """Records a fault for a list that is shorter than the number of layers, unless it already has a fault."""
    ratios = config["entry_ratios"]
    if config.sound("entry_ratios", "layer_count"):
        sentence = f"compress_ratios lists {len(ratios.value)} layers, and the model has {count}"
        config.refuse("X005", sentence, ratios.place, "one entry for every layer")


def _kind_of_ratio(config: Config, ratio: object) -> str:
    """The kind of attention that a compression ratio stands for; a fault for an unknown ratio."""
    whole = ratio if isinstance(ratio, int) and not isinstance(ratio, bool) else -1
    return _checked_kind(config, _BY_RATIO.get(whole, ratio), "entry_ratios", whole in _BY_RATIO)


def _checked_kind(config: Config, kind: object, field: str, known: bool) -> str:
    """The kind of attention if it is known; else a fault is recorded and a window returned."""
    if known and isinstance(kind, str):
        return kind
    key = "layer_types" if field == "layer_types" else "compress_ratios"
    config.refuse("X003", f"{config.family.classes[0]} with {key} {as_text(kind)}", config[field].place)
    return _WINDOW


def _hashed_layers(config: Config) -> list[bool]:
    """Whether each layer has hashed experts: from mlp_layer_types, else the first `hash_layers` layers."""
    count, types = layer_count(config), config["mlp_types"]
    if types.value is None:
        ahead = config["hash_layers"].value
        return [index < (ahead or 0) for index in range(count)]
    if not has_one_per_layer(config, types.value, count, "mlp_types"):
        return [False] * count
    for kind in types.value:
        if not isinstance(kind, str) or kind not in _FEEDS:
            config.refuse("X003", f"{config.family.classes[0]} with mlp_layer_types {as_text(kind)}", types.place)
    return [_FEEDS.get(str(kind), False) for kind in types.value]


def _compressed_layers(config: Config) -> Sequence[CompressedLayer]:
    """A mark for every layer: its kind of attention, and whether a hash chooses its experts."""
    return [CompressedLayer(*mark) for mark in zip(_attention_kinds(config), _hashed_layers(config), strict=True)]


def _layer_section(config: Config, mark: CompressedLayer) -> Half:
    """The document of one layer: compressed attention and its experts."""
    rates = {_SPARSE: "sparse_rate", _HEAVY: "heavy_rate"}
    rate, sparse = rates.get(mark.attention), mark.attention == _SPARSE
    own = compressed_attention(config, rate=rate, indexed=sparse)
    feed = experts(config)
    if mark.hashed:
        del feed["router_bias"]
        feed["hashed"] = config.derived(True, "by num_hash_layers or mlp_layer_types", "hash_layers", "mlp_types")
    return {"norms": config["norms"], "compressed": own, "experts": feed}


def _prediction_module(config: Config) -> Half:
    """The multi-token-prediction module: window attention, or the kind that the ratio after the last layer gives."""
    ratios, count = config["entry_ratios"].value or [], layer_count(config)
    kind = _kind_of_ratio(config, ratios[count]) if len(ratios) > count else _WINDOW
    return _layer_section(config, CompressedLayer(kind, hashed=False))


def _rotary_width(config: Config) -> OriginValue:
    """The rotary width of a head: as stated, or a share of the head's width."""
    share = config["rotary_share"].value
    if share is None:
        return config["written_rope"]
    width = int(config.number("head_dim") * float(share))
    return config.derived(max(1, width), "head_dim x partial_rotary_factor", "rotary_share", "head_dim")


COMPRESSED_FAMILIES = [
    LLAMA.like(
        "deepseek_v4", ("DeepseekV4ForCausalLM",), "DeepseekV4Config", types=("deepseek_v4",),
        without=("biases", "output_bias", "mlp_biases", "kv_heads", "ffn_hidden"),
        vocab=129280, hidden=4096, layer_count=43, heads=64, head_dim=option("head_dim", default=512),
        max_sequence=1048576, query_rank=option("q_lora_rank", default=1024),
        written_rope=option("qk_rope_head_dim", default=64), rotary_share=option("partial_rotary_factor"),
        rope_dim=DerivedValue("qk_rope_head_dim, or head_dim x partial_rotary_factor", _rotary_width),
        window=option("sliding_window", default=128), sinks=YES,
        output_groups=option("o_groups", default=8), output_rank=option("o_lora_rank", default=1024),
        sparse_rate=option("compress_rate_csa", "compress_rates.compressed_sparse_attention", default=4),
        heavy_rate=option("compress_rate_hca", "compress_rates.heavily_compressed_attention", default=128),
        entry_ratios=option("compress_ratios"), layer_types=option("layer_types"),
        index_heads=option("index_n_heads", default=64), index_dim=option("index_head_dim", default=128),
        index_top_k=option("index_topk", default=512), streams=option("hc_mult", default=4),
        experts=option("n_routed_experts", "num_local_experts", default=256),
        top_k=option("num_experts_per_tok", default=6),
        expert_hidden=option("moe_intermediate_size", "intermediate_size", default=2048), router_bias=YES,
        shared_hidden=copy_of("expert_hidden"),
        hash_layers=option("num_hash_layers", default=3, null=assumed_value(3, "as the class takes it")),
        mlp_types=option("mlp_layer_types"), prediction_depth=option("num_nextn_predict_layers"),
        layers=_compressed_layers, build=_layer_section, ahead=_prediction_module,
        refusals=(
            Refusal("num_key_value_heads", (1,), "all heads of the class read one key"),
            Refusal("n_shared_experts", (1,), "the class builds one shared expert"),
        ),
        quiet=(
            "compress_rope_theta", "hc_eps", "hc_sinkhorn_iters", "num_key_value_heads", "n_shared_experts",
            "norm_topk_prob", "routed_scaling_factor", "scoring_func", "swiglu_limit", "topk_method", "mlp_bias",
            "attention_bias", "compress_rates", "expert_dtype",
        ),
    ),
]  # fmt: skip
