"""Families with Mamba mixers: Mamba-1 or Mamba-2 alone, mixed with attention layers, or in parallel (Hymba)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from costmodel.exchange.huggingface.families.llama import LLAMA
from costmodel.exchange.huggingface.families.remote_code import REMOTE
from costmodel.exchange.huggingface.family import (
    Config,
    DerivedValue,
    Fact,
    Half,
    LayerHalves,
    Mixer,
    Refusal,
    attention,
    mlp,
    option,
    selective_scan,
    single_half,
    standard_layer,
)
from costmodel.exchange.huggingface.layer_patterns import (
    HIDDEN_BY_HEADS,
    MOST_LAYERS,
    all_experts,
    all_mlps,
    assumed_value,
    copy_of,
    everywhere,
    layer_count,
    layers,
    listed_layers,
)
from costmodel.exchange.import_result import OriginValue
from costmodel.exchange.values import as_text

# --- families with Mamba-2 mixers, alone or among layers of attention


YES, NO = Fact(True), Fact(False)
_MAMBA_QUIET = (
    "time_step_rank", "time_step_min", "time_step_max", "time_step_floor", "time_step_limit", "residual_in_fp32",
    "rescale_prenorm_residual", "use_mamba_kernels", "mamba_hidden_act", "mamba_ssm_cache_dtype", "num_logits_to_keep",
    "mamba_dt_min", "mamba_dt_max", "mamba_dt_limit", "mamba_dt_init_floor", "z_loss_coefficient", "hidden_dropout",
)  # fmt: skip
_PLAIN_MIXER = (
    Refusal("mamba_proj_bias", (False,), "the projections of the document's state space have no biases"),
    Refusal("mamba_conv_bias", (True,), "the convolution of the document's state space has a bias"),
    Refusal("use_bias", (False,), "the projections of the document's state space have no biases"),
    Refusal("use_conv_bias", (True,), "the convolution of the document's state space has a bias"),
)


# --- the width of a state space, which two options state


def _expanded_head(config: Config) -> OriginValue:
    """The width of a head: expansion factor × hidden size / heads of the state space."""
    wide, heads = config["expansion"].value, config.number("state_heads")
    inner = int(config.number("hidden") * wide) if isinstance(wide, int | float) else 0
    return config.derived(max(1, inner // heads), "expand x hidden / heads of the state space", "expansion", "hidden")


def _head_dim(config: Config) -> OriginValue | None:
    """The width of a head; a fault if all heads together do not have the width of the mixer."""
    written = config["written_head_dim"]
    if written.value is None or written.value == "auto":
        return _expanded_head(config)
    width, wide = config.number("state_heads") * int(written.value), config["expansion"].value
    inner = int(config.number("hidden") * wide) if isinstance(wide, int | float) else width
    if inner != width:
        heads = config.number("state_heads")
        sentence = f"{heads} heads of {written.value} make {width}, and the mixer is {inner} wide"
        config.refuse("X005", sentence, written.place, "expand x hidden size has to be heads x width of a head")
    return written


HEAD_DIM = DerivedValue("as stated, else expand x hidden / heads of the state space", _head_dim)


def _stated_or_derived_head_dim(config: Config) -> OriginValue:
    """The width of a head: as stated, else the mixer width over its heads, else from the expansion factor."""
    written, width = config["written_head_dim"], config["mixer_width"].value
    if written.value is not None and written.value != "auto":
        return written
    if not width:
        return _expanded_head(config)
    heads = config.number("state_heads")
    return config.derived(max(1, int(width) // heads), "d_ssm / heads of the state space", "mixer_width")


# --- orders


def _mixers_by_name(config: Config, types: Sequence[object], known: dict[str, Mixer]) -> list[Mixer]:
    """The mixer of each layer from a list of type names; a fault for an unknown name."""
    mixers: list[Mixer] = []
    for item in types:
        kind = known.get(item) if isinstance(item, str) else None
        if kind is None:
            place = config["block_types"].place
            config.refuse(
                "X003", f"{config.family.classes[0]} with a layer {as_text(item)}", place, "no such layer here"
            )
        mixers.append(kind or "full")
    return mixers


_MIXERS: dict[str, Mixer] = {
    "mamba": "state", "linear_attention": "state", "attention": "full", "full_attention": "full",
}  # fmt: skip


def _listed_mixers(config: Config) -> list[Mixer]:
    """The mixer of every layer as listed; a state space in every layer if there is no list."""
    types, count = config["block_types"], layer_count(config)
    if types.value is None:
        return ["state"] * count
    if len(types.value) != count:
        config.refuse("X005", f"{len(types.value)} kinds are listed for {count} layers", types.place)
        return ["full"] * count
    return _mixers_by_name(config, types.value, _MIXERS)


def _bamba_mixers(config: Config) -> list[Mixer]:
    """Attention in the layers listed, a state space in all others."""
    listed = listed_layers(config)
    return ["full" if index in listed else "state" for index in range(layer_count(config))]


_NEMOTRON: dict[str, LayerHalves] = {
    "M": LayerHalves("state", ""), "E": LayerHalves("", "experts"), "*": LayerHalves("full", ""),
    "-": LayerHalves("", "mlp"),
    "mamba": LayerHalves("state", ""), "linear_attention": LayerHalves("state", ""), "moe": LayerHalves("", "experts"),
    "attention": LayerHalves("full", ""), "full_attention": LayerHalves("full", ""), "mlp": LayerHalves("", "mlp"),
}  # fmt: skip


def _nemotron_types(config: Config) -> list[object]:
    listed, pattern = config["block_types"].value, config["pattern"].value
    if listed is not None:
        return list(listed)
    return list(pattern) if pattern is not None else ["linear_attention", "moe", "full_attention", "mlp"]


def _nemotron_layers(config: Config) -> Sequence[LayerHalves]:
    """One half (mixer or feed-forward) for every layer, in the order of a list or a pattern of letters."""
    types = _nemotron_types(config)
    place = config["block_types"].place or config["pattern"].place
    if not 0 < len(types) <= MOST_LAYERS:
        config.refuse("D008", f"{len(types):,} layers are out of range: 1 to {MOST_LAYERS:,}", place)
        return [LayerHalves("full", "")]
    unknown = next((item for item in types if not isinstance(item, str) or item not in _NEMOTRON), None)
    if unknown is not None:
        config.refuse(
            "X003", f"{config.family.classes[0]} with a layer {as_text(unknown)}", place, "no such layer here"
        )
        return [LayerHalves("full", "")]
    return [_NEMOTRON[str(item)] for item in types]


def _nemotron_prediction(config: Config) -> Half:
    """The multi-token-prediction module: two single-half layers that together form one full layer."""
    listed, pattern = config["prediction_types"], config["prediction_pattern"]
    types = listed.value or list(pattern.value or "*E")
    known = [
        _NEMOTRON.get(item, LayerHalves("", "")) if isinstance(item, str) else LayerHalves("", "") for item in types
    ]
    mixers, feeds = [half.mixer for half in known if half.mixer], [half.feed for half in known if half.feed]
    if len(mixers) != 1 or len(feeds) != 1 or len(types) != 2:
        sentence = f"{config.family.classes[0]} with a prediction module of {as_text(types)}"
        config.refuse(
            "X003", sentence, listed.place or pattern.place, "a module is one layer of a mixer and an MLP or experts"
        )
    return standard_layer(config, LayerHalves((mixers or ["full"])[0], (feeds or ["mlp"])[0]))


def _nemotron_count(config: Config) -> OriginValue:
    return config.derived(max(1, len(_nemotron_types(config))), "length of the pattern", "block_types", "pattern")


NEMOTRON_COUNT = DerivedValue("as many as the pattern has", _nemotron_count)

FAMILIES = [
    LLAMA.like(
        "mamba2", ("Mamba2ForCausalLM",), "Mamba2Config", types=("mamba2",), vocab=32768, layer_count=64,
        max_sequence=assumed_value(1_048_576, "a state space has no longest sequence"),
        without=("heads", "kv_heads", "head_dim", "ffn_hidden", "biases", "output_bias", "mlp_biases"),
        state_heads=option("num_heads", default=128), written_head_dim=option("head_dim", default=64),
        expansion=option("expand", default=2), state_head_dim=HEAD_DIM, state_groups=option("n_groups", default=8),
        state_size=option("state_size", default=128), state_conv=option("conv_kernel", default=4),
        state_chunk=option("chunk_size", default=256),
        layers=lambda config: [LayerHalves("state", "")] * layer_count(config),
        build=single_half, refusals=_PLAIN_MIXER, quiet=(*_MAMBA_QUIET, "rms_norm", "norm_before_gate"),
    ),
    LLAMA.like(
        "bamba", ("BambaForCausalLM",), "BambaConfig", types=("bamba",), vocab=128000, ffn_hidden=14336, kv_heads=8,
        max_sequence=262144, state_heads=option("mamba_n_heads", default=128),
        expansion=option("mamba_expand", default=2),
        written_head_dim=option("mamba_d_head", default="auto"), state_head_dim=HEAD_DIM,
        state_groups=option("mamba_n_groups", default=1), state_size=option("mamba_d_state", default=256),
        state_conv=option("mamba_d_conv", default=4), state_chunk=option("mamba_chunk_size", default=256),
        numbered_layers=option("attn_layer_indices"),
        layers=layers(_bamba_mixers, all_mlps), refusals=_PLAIN_MIXER, quiet=_MAMBA_QUIET,
    ),
    LLAMA.like(
        "falcon_h1", ("FalconH1ForCausalLM",), "FalconH1Config", types=("falcon_h1",), vocab=128000, ffn_hidden=14336,
        kv_heads=8, max_sequence=8192, state_heads=option("mamba_n_heads", default=128),
        mixer_width=option("mamba_d_ssm", default=1024), expansion=option("mamba_expand", default=2),
        written_head_dim=option("mamba_d_head", default="auto"),
        state_head_dim=DerivedValue("as stated, else d_ssm / heads of the state space", _stated_or_derived_head_dim),
        state_groups=option("mamba_n_groups", default=1), state_size=option("mamba_d_state", default=256),
        state_conv=option("mamba_d_conv", default=4), state_chunk=option("mamba_chunk_size", default=256),
        state_norm=option("mamba_rms_norm", default=False),
        layers=layers(everywhere("both"), all_mlps),
        refusals=(
            *_PLAIN_MIXER, Refusal("projectors_bias", (False,), "the projections of the document have no biases"),
        ),
        quiet=(*_MAMBA_QUIET, "mamba_norm_before_gate", "lm_head_multiplier", "embedding_multiplier",
               "mlp_multipliers", "key_multiplier", "attention_out_multiplier", "attention_in_multiplier",
               "ssm_multipliers", "ssm_in_multiplier", "ssm_out_multiplier", "mlp_expansion_factor",
               "mamba_use_mlp", "attn_layer_indices"),
    ),
    LLAMA.like(
        "granitemoehybrid", ("GraniteMoeHybridForCausalLM",), "GraniteMoeHybridConfig", types=("granitemoehybrid",),
        head_dim=HIDDEN_BY_HEADS, mlp_biases=NO, state_heads=option("mamba_n_heads", default=128),
        expansion=option("mamba_expand", default=2), written_head_dim=option("mamba_d_head", default="auto"),
        state_head_dim=HEAD_DIM, state_groups=option("mamba_n_groups", default=1),
        state_size=option("mamba_d_state", default=256), state_conv=option("mamba_d_conv", default=4),
        state_chunk=option("mamba_chunk_size", default=256), experts=option("num_local_experts", default=8),
        top_k=option("num_experts_per_tok", default=2), expert_hidden=option("intermediate_size", default=11008),
        shared_hidden=option("shared_intermediate_size", default=1024), ffn_hidden=copy_of("shared_hidden"),
        block_types=option("layer_types", "layers_block_type"), layers=layers(_listed_mixers, all_experts),
        refusals=_PLAIN_MIXER,
        quiet=(*_MAMBA_QUIET, "embedding_multiplier", "logits_scaling", "residual_multiplier", "attention_multiplier",
               "position_embedding_type", "normalization_function", "init_method"),
    ),
    LLAMA.like(
        "nemotron_h", ("NemotronHForCausalLM",), "NemotronHConfig", types=("nemotron_h",), vocab=131072,
        layer_count=NEMOTRON_COUNT, kv_heads=8, head_dim=option("head_dim", default=128),
        ffn_hidden=21504, max_sequence=4096, biases=NO, output_bias=NO, gated=NO,
        block_types=option("layers_block_type", "layer_types"), pattern=option("hybrid_override_pattern"),
        state_heads=option("mamba_num_heads", default=128), state_head_dim=option("mamba_head_dim", default=64),
        state_groups=option("n_groups", "mamba_n_groups", default=8), state_size=option("ssm_state_size", default=128),
        state_conv=option("conv_kernel", "mamba_d_conv", default=4),
        state_chunk=option("chunk_size", "mamba_chunk_size", default=128),
        experts=option("n_routed_experts", "num_local_experts", default=8),
        top_k=option("num_experts_per_tok", default=2),
        expert_hidden=option("moe_intermediate_size", default=7688), router_bias=YES, tied=NO,
        shared_hidden=option("moe_shared_expert_intermediate_size", default=7688),
        groups=option("n_group", default=1), group_limit=option("topk_group", default=1),
        expert_latent=option("moe_latent_size"), prediction_depth=option("num_nextn_predict_layers"),
        prediction_types=option("mtp_layers_block_type"), prediction_pattern=option("mtp_hybrid_override_pattern"),
        ahead=_nemotron_prediction, norms=2,
        layers=_nemotron_layers, build=single_half,
        refusals=(
            *_PLAIN_MIXER,
            Refusal("tie_word_embeddings", (False,), "the class ties nothing"),
            Refusal("mlp_bias", (False,), "its experts have none, and the document has one for both"),
        ),
        quiet=(*_MAMBA_QUIET, "num_hidden_layers", "expand", "mamba_expand", "mlp_hidden_act", "n_shared_experts",
               "attention_bias", "moe_shared_expert_overlap",
               "attention_head_dim", "norm_eps", "layer_norm_epsilon", "sliding_window"),
    ),
]  # fmt: skip


# --- families with Mamba-1 mixers, alone or among layers of attention


_QUIET = (
    "intermediate_size", "time_step_scale", "time_step_min", "time_step_max", "time_step_init_scheme",
    "time_step_floor", "rescale_prenorm_residual", "use_mambapy", "use_falcon_mambapy", "use_associative_scan",
    "residual_in_fp32", "mixer_rms_eps",
)  # fmt: skip
_BIASED_CONVOLUTION = "the convolution of the document's selective scan has a bias"


def _inner_width(config: Config) -> OriginValue:
    wide = config["expansion"].value
    inner = int(config.number("hidden") * wide) if isinstance(wide, int | float) else 1
    return config.derived(max(1, inner), "expand x hidden size", "expansion", "hidden")


def _rank(config: Config) -> OriginValue:
    """The rank as stated, else a sixteenth of the hidden size."""
    written = config["written_rank"]
    if written.value is not None and written.value != "auto":
        return written
    return config.derived(-(-config.number("hidden") // 16), "hidden size / 16, rounded up", "hidden")


INNER = DerivedValue("expand x hidden size", _inner_width)
RANK = DerivedValue("as stated, else hidden size / 16, rounded up", _rank)


def _periodic(config: Config, step: str, first: str) -> list[bool]:
    """Whether each layer belongs to a pattern with this period and offset."""
    period, offset = config.number(step), int(config[first].value or 0)
    if offset >= period:
        sentence = f"the {offset + 1}. of every {period} layers is asked for"
        config.refuse("X005", sentence, config[first].place, "an offset is less than its period")
    return [index % max(period, 1) == offset for index in range(layer_count(config))]


def _jamba_layers(config: Config) -> Sequence[LayerHalves]:
    """The layers from two periods: attention in one layer of each period, and experts in one layer of each period."""
    attention, sparse = (
        _periodic(config, "window_pattern", "window_from"),
        _periodic(config, "sparse_step", "expert_offset"),
    )
    several = config.number("experts") > 1
    return [
        LayerHalves("full" if full else "scan", "experts" if many and several else "mlp")
        for full, many in zip(attention, sparse, strict=True)
    ]


MAMBA = LLAMA.like(
    "mamba", ("MambaForCausalLM",), "MambaConfig", types=("mamba",), vocab=50280, hidden=768, layer_count=32,
    tied=True, max_sequence=assumed_value(1_048_576, "a state space has no longest sequence"),
    without=("heads", "kv_heads", "head_dim", "ffn_hidden", "biases", "output_bias", "mlp_biases"),
    expansion=option("expand", default=2), scan_inner=INNER, scan_state=option("state_size", default=16),
    written_rank=option("time_step_rank", default="auto"), scan_rank=RANK, scan_conv=option("conv_kernel", default=4),
    scan_norms=NO, scan_biases=option("use_bias", default=False),
    layers=lambda config: [LayerHalves("scan", "")] * layer_count(config), build=single_half,
    refusals=(Refusal("use_conv_bias", (True,), _BIASED_CONVOLUTION),), quiet=_QUIET,
)  # fmt: skip

MAMBA_1_FAMILIES = [
    MAMBA,
    MAMBA.like("falcon_mamba", ("FalconMambaForCausalLM",), "FalconMambaConfig", types=("falcon_mamba",)),
    LLAMA.like(
        "jamba", ("JambaForCausalLM",), "JambaConfig", types=("jamba",), vocab=65536, ffn_hidden=14336,
        kv_heads=option("num_key_value_heads", default=8, null=LLAMA.options["kv_heads"].null),
        head_dim=HIDDEN_BY_HEADS, biases=NO, mlp_biases=NO, max_sequence=262144,
        expansion=option("mamba_expand", default=2), scan_inner=INNER, scan_state=option("mamba_d_state", default=16),
        written_rank=option("mamba_dt_rank", default="auto"), scan_rank=RANK,
        scan_conv=option("mamba_d_conv", default=4), scan_norms=YES,
        scan_biases=option("mamba_proj_bias", default=False),
        experts=option("num_experts", "num_local_experts", default=16), top_k=option("num_experts_per_tok", default=2),
        expert_hidden=option("intermediate_size", default=14336),
        sparse_step=option("expert_layer_period", default=2), expert_offset=option("expert_layer_offset", default=1),
        window_pattern=option("attn_layer_period", default=8), window_from=option("attn_layer_offset", default=4),
        layers=_jamba_layers, refusals=(Refusal("mamba_conv_bias", (True,), _BIASED_CONVOLUTION),),
        quiet=(*_QUIET, "use_mamba_kernels", "num_logits_to_keep", "calc_logits_for_entire_prompt", "n_ctx",
               "mamba_inner_layernorms", "sliding_window"),
    ),
]  # fmt: skip


# --- hymba


_CONVOLUTION = "the convolution of the document's selective scan has a bias"
_REUSE = "keys are shared in the groups of kv_reuse_group"


class HymbaLayer(NamedTuple):
    """Whether a layer has a window, and whether it reuses the keys and values of the first layer of its group."""

    windowed: bool
    shared: bool


def _hymba_layers(config: Config) -> Sequence[HymbaLayer]:
    """A mark for every layer: listed layers have no window; the first layer of a group makes its keys and values."""
    count, whole = layer_count(config), _layer_numbers(config["numbered_layers"].value)
    groups = [_layer_numbers(group) for group in config["block_types"].value or []]
    named = [*whole, *(index for group in groups for index in group)]
    if any(not 0 <= index < count for index in named) or not all(groups):
        sentence = f"layers of global_attn_idx and kv_reuse_group have to lie in the {count} layers"
        config.refuse("X005", sentence, config["block_types"].place, "layers count from 0")
        return [HymbaLayer(False, False)] * count
    readers = {index for group in groups for index in group[1:]}
    return [HymbaLayer(index not in whole, index in readers) for index in range(count)]


def _layer_numbers(listed: Any) -> list[int]:
    """The layer numbers in a list; empty for anything else."""
    whole = isinstance(listed, list | tuple) and all(isinstance(each, int) for each in listed)
    return [int(each) for each in listed] if whole else []


def _hymba_layer(config: Config, mark: HymbaLayer) -> Half:
    """The document of one layer: attention and a Mamba scan in parallel, then an MLP."""
    half = attention(config, windowed=mark.windowed) | {"value_dim": config["attention_value_dim"]}
    if mark.shared:
        half["shared_kv"] = config.derived(True, "not the first of its group", "block_types")
    return {
        "norms": config["norms"],
        "attention": half,
        "selective_scan": selective_scan(config),
        "shared_output": config["shared_output"],
        "mlp": mlp(config),
    }


def _hymba_window(config: Config) -> OriginValue | None:
    """The window plus the memory tokens in front of the sequence: a query sees both."""
    if config["window_pattern"].value is None:
        return None
    seen = config.number("window_pattern") + config.number("meta_tokens")
    return config.derived(seen, "sliding_window + num_memory_tokens", "window_pattern", "meta_tokens")


def _value_dim(config: Config) -> OriginValue:
    width = config.number("scan_inner") // max(1, config.number("heads"))
    return config.derived(max(1, width), "channels of the scan / heads", "heads")


HYMBA = REMOTE.like(
    "hymba", ("HymbaForCausalLM",), "HymbaConfig", types=("hymba",), head_dim=HIDDEN_BY_HEADS,
    biases=NO, output_bias=NO, mlp_biases=NO, shared_output=YES,
    attention_value_dim=DerivedValue("channels of the scan / heads", _value_dim),
    expansion=option("mamba_expand"), scan_inner=INNER, scan_state=option("mamba_d_state"),
    written_rank=option("mamba_dt_rank"), scan_rank=RANK, scan_conv=option("mamba_d_conv"),
    scan_norms=option("mamba_inner_layernorms"), scan_biases=option("mamba_proj_bias"),
    meta_tokens=option("num_memory_tokens"), window_pattern=option("sliding_window"),
    window=DerivedValue("sliding_window + num_memory_tokens", _hymba_window),
    numbered_layers=option("global_attn_idx"), block_types=option("kv_reuse_group"),
    layers=_hymba_layers, build=_hymba_layer,
    refusals=(
        Refusal("mamba_conv_bias", (True,), _CONVOLUTION), Refusal("mamba_proj_bias", (False,), "one matrix has both"),
        Refusal("kv_reuse_every_i_layer", (-1, None), _REUSE), Refusal("kv_weight_reuse", (False,), _REUSE),
        Refusal("num_experts", (1, None), "experts of Hymba are not in this table"),
        Refusal("num_mamba", (1, None), "a layer has one scan"),
        Refusal("kq_norm", ("none", None), "norms of its queries and keys are not in this table"),
        Refusal("kq_head_dim", (-1, None), "the width of queries is hidden size / heads"),
        Refusal("attn_hidden_size", (-1, None), "attention reads the stream"),
        Refusal("memory_tokens_interspersed_every", (0, None), "learned tokens stand ahead of a sequence alone"),
    ),
    quiet=(
        "attn_implementation", "attn_implementation_new", "calc_logits_for_entire_prompt", "conv_dim", "layer_type",
        "mlp_hidden_act", "num_experts_per_tok", "orig_max_position_embeddings", "output_router_logits", "rope",
        "rope_type", "router_aux_loss_coef", "seq_length", "use_mamba_kernels", "v_head_dim",
    ),
    code="modeling_hymba.py of the checkpoint",
)  # fmt: skip

HYMBA_FAMILIES = [HYMBA]
