"""The vision tower of a multimodal config.json, where its class is known and the file states its sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from costmodel.documents.text.yaml_tree import Mapping
from costmodel.exchange.imported import Origin, OriginValue
from costmodel.exchange.importers.huggingface.family import TRANSFORMERS, Half

_LARGEST = 10**7


class UnreadableSizeError(Exception):
    """A size of the tower that is missing or no whole number."""


class _Sizes(NamedTuple):
    """The mapping of a tower, and the class of its configuration."""

    tree: Mapping
    owner: str

    def __call__(self, name: str, default: int | None = None) -> OriginValue:
        """A size that the file states, or the default of the class."""
        key = next((key for key in self.tree if key == name), None)
        if key is None and default is not None:
            return OriginValue(default, Origin("default", f"{name}: default of {self.owner}, {TRANSFORMERS}"))
        value = None if key is None else self.tree[key]
        if key is None or isinstance(value, bool) or not isinstance(value, int) or not 0 < value < _LARGEST:
            raise UnreadableSizeError(name)
        return OriginValue(value, Origin("file", name, key.at))

    def fixed(self, value: Any) -> OriginValue:
        """A fact of the class' code."""
        return OriginValue(value, Origin("class", f"{self.owner}, transformers {TRANSFORMERS}"))

    def derived(self, value: Any, text: str) -> OriginValue:
        """A value computed from sizes."""
        return OriginValue(value, Origin("derived", text))


def _layer(sizes: _Sizes, count: OriginValue, hidden: OriginValue, heads: OriginValue, ffn: OriginValue) -> Half:
    """A layer of a vision transformer: attention of all patches to all, and an MLP, all with biases."""
    if hidden.value % heads.value:
        raise UnreadableSizeError("heads")
    head_dim = sizes.derived(hidden.value // heads.value, "hidden size / heads")
    attention = {"heads": heads, "kv_heads": heads, "head_dim": head_dim}
    attention |= {key: sizes.fixed(True) for key in ("biases", "output_bias", "bidirectional")}
    mlp = {"ffn_hidden": ffn, "gated": sizes.fixed(False), "biases": sizes.fixed(True)}
    return {"count": count, "attention": attention, "mlp": mlp}


def _qwen(sizes: _Sizes, _outer: Mapping, *, inner_layers: bool) -> Half:
    """Qwen3-VL's: rotary and learned positions, four patches to a token; inner layers may have projectors too."""
    hidden, side, merge = sizes("hidden_size", 1152), sizes("patch_size", 16), sizes("spatial_merge_size", 2)
    frames, channels = sizes("temporal_patch_size", 2), sizes("in_channels", 3)
    layer = _layer(sizes, sizes("depth"), hidden, sizes("num_heads", 16), sizes("intermediate_size", 4304))
    joined = sizes.derived(hidden.value * merge.value**2, "hidden size x spatial_merge_size squared")
    common = {"inputs": joined, "inner": joined, "biases": sizes.fixed(True), "norm": sizes.fixed("layernorm")}
    projectors = [{**common, "norm_width": hidden}]
    listed = sizes.tree.get("deepstack_visual_indexes", [8, 16, 24]) if inner_layers else []
    if not isinstance(listed, list):
        raise UnreadableSizeError("deepstack_visual_indexes")
    if listed:
        projectors.append({"count": sizes.derived(len(listed), "length of deepstack_visual_indexes"), **common})
    patch = channels.value * frames.value * side.value**2
    return {
        "hidden": hidden,
        "patch": sizes.derived(patch, "in_channels x temporal_patch_size x patch_size squared"),
        "patch_bias": sizes.fixed(True),
        "positions": sizes.fixed("rotary"),
        "position_rows": sizes("num_position_embeddings", 2304),
        "norm": sizes.fixed("layernorm"),
        "layers": [layer],
        "merge": sizes.derived(merge.value**2, "spatial_merge_size squared"),
        "projectors": projectors,
    }


def _siglip(sizes: _Sizes, outer: Mapping) -> Half:
    """SigLIP's as Gemma 3 has it: learned positions, the mean of neighbouring patches, one matrix to the stream."""
    hidden, side, picture = sizes("hidden_size", 768), sizes("patch_size", 16), sizes("image_size", 224)
    count, heads = sizes("num_hidden_layers"), sizes("num_attention_heads", 12)
    layer = _layer(sizes, count, hidden, heads, sizes("intermediate_size", 3072))
    patches = (picture.value // side.value) ** 2
    tokens = _Sizes(outer, "Gemma3Config")("mm_tokens_per_image", 256)
    if patches % tokens.value:
        raise UnreadableSizeError("mm_tokens_per_image")
    patch = sizes("num_channels", 3).value * side.value**2
    return {
        "hidden": hidden,
        "patch": sizes.derived(patch, "num_channels x patch_size squared"),
        "patch_bias": sizes.fixed(True),
        "positions": sizes.fixed("learned"),
        "position_rows": sizes.derived(patches, "patches of an image"),
        "norm": sizes.fixed("layernorm"),
        "norms": sizes.fixed(1),
        "layers": [layer],
        "merge": sizes.derived(patches // tokens.value, "patches of an image / mm_tokens_per_image"),
        "projectors": [{"inputs": hidden, "norm": sizes.fixed("rmsnorm")}],
    }


class _Tower(NamedTuple):
    configuration: str
    build: Callable[[_Sizes, Mapping], Half]


TOWERS: dict[str, _Tower] = {
    "qwen3_vl": _Tower("Qwen3VLVisionConfig", lambda sizes, outer: _qwen(sizes, outer, inner_layers=True)),
    "qwen3_vl_moe": _Tower("Qwen3VLMoeVisionConfig", lambda sizes, outer: _qwen(sizes, outer, inner_layers=True)),
    "qwen3_5": _Tower("Qwen3_5VisionConfig", lambda sizes, outer: _qwen(sizes, outer, inner_layers=False)),
    "qwen3_5_moe": _Tower("Qwen3_5MoeVisionConfig", lambda sizes, outer: _qwen(sizes, outer, inner_layers=False)),
    "gemma3": _Tower("SiglipVisionConfig", _siglip),
}


def tower_of(model_type: str, tree: Any, outer: Mapping) -> Half | None:
    """The tower of a mapping; nothing where its class is not known, or the file leaves its sizes open."""
    known = TOWERS.get(model_type)
    if known is None or not isinstance(tree, Mapping):
        return None
    try:
        return known.build(_Sizes(tree, known.configuration), outer)
    except UnreadableSizeError:
        return None
