"""Hymba: attention beside Mamba-1 in every layer, layers that share keys, and learned tokens ahead of a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from costmodel.exchange.huggingface.families.remote import REMOTE
from costmodel.exchange.huggingface.families.selective import INNER, RANK
from costmodel.exchange.huggingface.family import (
    Config,
    DerivedValue,
    Fact,
    Half,
    Refusal,
    attention,
    mlp,
    option,
    selective_scan,
)
from costmodel.exchange.huggingface.patterns import HIDDEN_BY_HEADS, layer_count
from costmodel.exchange.import_result import OriginValue

NO, YES = Fact(False), Fact(True)
_CONVOLUTION = "the convolution of the document's selective scan has a bias"
_REUSE = "keys are shared in the groups of kv_reuse_group"


class HymbaLayer(NamedTuple):
    """Whether a layer has a window, and whether it reuses the keys and values of the first layer of its group."""

    windowed: bool
    shared: bool


def _layers(config: Config) -> Sequence[HymbaLayer]:
    """A mark for every layer: listed layers have no window; the first layer of a group makes its keys and values."""
    count, whole = layer_count(config), _numbers(config["numbered_layers"].value)
    groups = [_numbers(group) for group in config["block_types"].value or []]
    named = [*whole, *(index for group in groups for index in group)]
    if any(not 0 <= index < count for index in named) or not all(groups):
        sentence = f"layers of global_attn_idx and kv_reuse_group have to lie in the {count} layers"
        config.refuse("X005", sentence, config["block_types"].place, "layers count from 0")
        return [HymbaLayer(False, False)] * count
    readers = {index for group in groups for index in group[1:]}
    return [HymbaLayer(index not in whole, index in readers) for index in range(count)]


def _numbers(listed: Any) -> list[int]:
    """The layer numbers in a list; empty for anything else."""
    whole = isinstance(listed, list | tuple) and all(isinstance(each, int) for each in listed)
    return [int(each) for each in listed] if whole else []


def _layer_section(config: Config, mark: HymbaLayer) -> Half:
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


def _window(config: Config) -> OriginValue | None:
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
    window=DerivedValue("sliding_window + num_memory_tokens", _window),
    numbered_layers=option("global_attn_idx"), block_types=option("kv_reuse_group"),
    layers=_layers, build=_layer_section,
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

FAMILIES = [HYMBA]
