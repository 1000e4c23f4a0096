"""What a layer consists of: attention, latent attention or a state space, and an MLP or experts, from fields."""

from __future__ import annotations

from typing import Literal, NamedTuple

from costmodel.exchange.huggingface.family import Config, Half
from costmodel.exchange.imported import OriginValue

Mixer = Literal["full", "window", "latent", "state", "linear", "scan", "both", ""]
Feed = Literal["mlp", "experts", ""]


class LayerHalves(NamedTuple):
    """The mixer and feed-forward half of a layer; window: sliding-window attention; both: attention and state space."""

    mixer: Mixer
    feed: Feed


def standard_layer(config: Config, mark: LayerHalves) -> Half:
    """A layer with the given mixer and feed-forward half."""
    layer: Half = _flags(config, "parallel") | {"norms": config["norms"]}
    if mark.mixer in ("full", "window", "both"):
        layer["attention"] = attention(config, windowed=mark.mixer == "window")
    elif mark.mixer == "latent":
        layer["latent"] = latent_attention(config)
    elif mark.mixer == "linear":
        layer["linear"] = linear_attention(config)
    elif mark.mixer == "scan":
        layer["selective_scan"] = selective_scan(config)
    if mark.mixer in ("state", "both"):
        layer["state_space"] = state_space(config)
    if mark.feed == "mlp":
        layer["mlp"] = mlp(config)
    elif mark.feed == "experts":
        layer["experts"] = experts(config)
    return layer


def single_half(config: Config, mark: LayerHalves) -> Half:
    """A layer that is only a mixer or only a feed-forward half, with one normalisation."""
    layer = standard_layer(config, mark)
    layer["norms"] = OriginValue(1, config["norms"].origin)
    return layer


def attention(config: Config, *, windowed: bool) -> Half:
    """Multi-head or grouped-query attention, with or without a window."""
    half = {key: config[key] for key in ("heads", "kv_heads", "head_dim")}
    half |= _flags(config, "biases", "output_bias", "qk_norm", "qk_norm_whole", "sinks", "output_gate", "bidirectional")
    if windowed and config["window"].value is not None:
        half["window"] = config["window"]
    return half


def latent_attention(config: Config) -> Half:
    """Keys of multi-head latent attention, and of its indexer, from a Hugging Face config."""
    half = {key: config[key] for key in ("heads", "query_rank", "kv_rank", "nope_dim", "rope_dim", "value_dim")}
    found: Half = {key: value for key, value in half.items() if value.value is not None}
    if "index_heads" in config.family.fields:
        found["indexer"] = {"heads": config["index_heads"], "head_dim": config["index_dim"]}
        found["indexer"]["top_k"] = config["index_top_k"]
    return found


def compressed_attention(config: Config, *, rate: str | None, indexed: bool) -> Half:
    """Attention over a window and over compressed entries; `indexed`: an indexer picks the entries."""
    keys = ("heads", "head_dim", "rope_dim", "query_rank", "window", "output_groups", "output_rank", "sinks")
    half: Half = {key: config[key] for key in keys}
    if rate is not None:
        half["entries"] = {"rate": config[rate]}
        if indexed:
            half["entries"]["overlap"] = config.derived(True, "as the class makes entries that are picked", rate)
            half["entries"]["indexer"] = {"heads": config["index_heads"], "head_dim": config["index_dim"]}
            half["entries"]["indexer"]["top_k"] = config["index_top_k"]
    return half


def linear_attention(config: Config) -> Half:
    """Linear attention of any rule."""
    keys = ("rule", "heads", "value_dim", "key_heads", "key_dim", "conv", "chunk")
    half = {key: config[f"linear_{key}"] for key in keys}
    return {key: value for key, value in half.items() if value.value is not None}


def state_space(config: Config) -> Half:
    """A Mamba-2 mixer."""
    keys = {"heads": "state_heads", "head_dim": "state_head_dim", "groups": "state_groups", "state": "state_size"}
    keys |= {"conv": "state_conv", "chunk": "state_chunk"}
    half = {key: config[name] for key, name in keys.items()}
    plain = "state_norm" in config.family.fields and not config.flag("state_norm")
    return half | ({"norm": config["state_norm"]} if plain else {})


def selective_scan(config: Config) -> Half:
    """A Mamba-1 mixer."""
    half = {key: config[f"scan_{key}"] for key in ("inner", "state", "rank", "conv")}
    return half | {key: config[f"scan_{key}"] for key in ("norms", "biases") if config.flag(f"scan_{key}")}


def mlp(config: Config) -> Half:
    """The feed-forward half of a dense layer."""
    half = {"ffn_hidden": config["ffn_hidden"], "gated": config["gated"]}
    return half | ({"biases": config["mlp_biases"]} if config.flag("mlp_biases") else {})


def experts(config: Config) -> Half:
    """Routed experts, and the shared experts as one MLP."""
    if config["experts"].value is None:
        config.refuse("X005", "a layer of experts is listed, and the file has no experts", config["experts"].place)
    count = OriginValue(config["experts"].value or 1, config["experts"].origin)
    half: Half = {"count": count, "top_k": config["top_k"], "ffn_hidden": config["expert_hidden"]}
    half["gated"] = config["gated"]
    if config.flag("expert_biases"):
        half["biases"] = config["expert_biases"]
    half |= _flags(config, "router_bias", "shared_gate")
    if config["expert_latent"].value is not None:
        half["latent_dim"] = config["expert_latent"]
    if config["module_runs"].value is not None:
        half["module_runs"] = config["module_runs"]
    if config["shared_hidden"].value is not None:
        half["shared"] = {"ffn_hidden": config["shared_hidden"], "gated": config["gated"]}
        if config.flag("expert_biases"):
            half["shared"]["biases"] = config["expert_biases"]
    if _grouped(config):
        half |= {"groups": config["groups"], "group_limit": config["group_limit"]}
    return half


def _grouped(config: Config) -> bool:
    """Whether routing limits a token to some groups of experts; one group or greedy routing limits nothing."""
    limited = config["groups"].value is not None and config["group_limit"].value is not None
    return limited and config.number("groups") > 1 and config["routing_method"].value != "greedy"


def _flags(config: Config, *names: str) -> Half:
    """The flags that are true; the others have the default of the document."""
    return {name: config[name] for name in names if config.flag(name)}
