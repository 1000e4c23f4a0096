"""Chooses the model family of a config.json, and finds the text model inside a multimodal file."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from costmodel.documents.text.yaml_tree import Mapping, key_at
from costmodel.exchange.huggingface.families import FAMILIES
from costmodel.exchange.huggingface.families.multimodal import WRAPPERS, Wrapper
from costmodel.exchange.huggingface.families.refused import class_stem, reason
from costmodel.exchange.huggingface.family import TRANSFORMERS, Family, Half
from costmodel.exchange.import_result import Loss, Origin, OriginValue
from costmodel.exchange.values import as_text, likely_name
from costmodel.ground.errors import CostModelError, Fault, Place, fail

# Options of any config.json that cost nothing, or little, or belong elsewhere.

# What every configuration class has, and what saving a model adds.
_GENERAL = """
_name_or_path add_cross_attention architectures auto_map begin_suppress_tokens chunk_size_feed_forward
cross_attention_hidden_size custom_pipelines decoder_start_token_id dtype finetuning_task id2label label2id
is_composition is_decoder is_encoder_decoder keys_to_ignore_at_inference language model_type name_or_path
output_attentions output_hidden_states output_past output_scores prefix problem_type pruned_heads return_dict
sub_configs task_specific_params tf_legacy_loss tokenizer_class torch_dtype torchscript transformers_version
use_bfloat16 use_cache use_return_dict classifier_dropout classifier_bias num_labels tie_encoder_decoder
gradient_checkpointing unsloth_version unsloth_fixed model_max_length cache_implementation
"""
_GENERATION = """
bad_words_ids diversity_penalty do_sample early_stopping encoder_no_repeat_ngram_size exponential_decay_length_penalty
forced_bos_token_id forced_eos_token_id length_penalty max_length max_new_tokens min_length no_repeat_ngram_size
num_beam_groups num_beams num_return_sequences remove_invalid_values repetition_penalty return_dict_in_generate
suppress_tokens temperature top_k top_p typical_p
"""
_POSITIONS = """
alibi_bias_max default_rope_theta max_window_layers original_max_position_embeddings partial_rotary_factor rope
rope_interleave rope_local_base_freq rope_parameters rope_ratio rope_scaling rope_theta rotary rotary_base rotary_dim
rotary_emb_base rotary_emb_fraction rotary_pct local_rope_theta position_embedding_type
"""
_NUMERICS = """
activation activation_dropout activation_function attention_dropout attention_probs_dropout_prob attn_pdrop
dropout embd_pdrop embed_dropout emb_pdrop hidden_act hidden_activation hidden_dropout hidden_dropout_prob
init_std initializer_factor initializer_range layer_norm_eps layer_norm_epsilon mlp_hidden_act norm_eps norm_epsilon
rms_norm_eps layernorm_epsilon resid_pdrop residual_dropout embedding_dropout scale_embedding mup_enabled
pretraining_tp use_mtp mtp_transformer_layers tensor_parallel_degree attn_implementation
_flash_attn_2_enabled use_flash_attn flash_attention ep_size
"""
_ROUTING = """
aux_loss_alpha norm_topk_prob output_router_logits routed_scaling_factor router_aux_loss_coef router_jitter_noise
router_z_loss_coef router_aux_loss_alpha scoring_func seq_aux moe_layer_freq topk_method route_scale
"""
_TOKENS = re.compile(r"(.+_)?(token|tokens)(_(id|ids|index))?|.*_token_(id|index)|(bos|eos|pad|unk|sep|cls|mask)_\w+")

WITHOUT_COST = frozenset(" ".join((_GENERAL, _GENERATION, _POSITIONS, _NUMERICS, _ROUTING)).split())

# Options that cost something and that no costmodel key expresses, with the sentence to print where they are set.
APPROXIMATED = {
    "attn_logit_softcapping": "scores are capped by a tanh, whose time is not modelled",
    "final_logit_softcapping": "logits are capped by a tanh, whose time is not modelled",
    "clip_qkv": "queries, keys and values are clipped, whose time is not modelled",
}
CANNOT_BE_SAID = {"num_mtp_modules": "modules of multi-token prediction, whose shape is not in the file"}
# Parts of a multimodal configuration beside the text model.
OTHER_PARTS = re.compile(
    r"(vision|audio|speech|image|video|mm|vq|vqmodel|projector|connector|resampler|encoder|talker|vit|perceiver|q?former)"
    r"(_\w+)?|\w+_(vision|audio)_config|img_processor|embd_layer|audio_processor|visual"
)


def is_token(name: str) -> bool:
    """Whether an option names a token of the vocabulary."""
    return _TOKENS.fullmatch(name) is not None


_TIED = "tie_word_embeddings"
_KNOWN = [name for family in FAMILIES for name in family.classes]


class FamilyChoice(NamedTuple):
    """The chosen family, the mapping that it reads, the losses, and the key of the file that contains the mapping."""

    family: Family
    tree: Mapping
    losses: tuple[Loss, ...]
    outer: frozenset[str]
    vision: Half | None = None
    inside: str = ""


class _ModelNames(NamedTuple):
    """The names that a mapping gives its model: the first architecture and the model type."""

    architecture: str
    model_type: str
    place: Place


def choose(tree: Any, file: str) -> FamilyChoice:
    """The family of a config.json, or a fault that shows the class and the key."""
    if not isinstance(tree, Mapping):
        raise fail("X001", "a config.json is a mapping of keys to values", Place(file, 1, 1))
    named = _model_names(tree, file)
    wrapper = next((one for one in WRAPPERS if _belongs_to_wrapper(one, named)), None)
    if wrapper is None:
        return FamilyChoice(_family_of_class(named), tree, (), frozenset())
    return _text_model_inside(wrapper, tree, named, file)


def _model_names(tree: Mapping, file: str) -> _ModelNames:
    """The names of the model in a mapping; a fault if both are missing."""
    listed, model_type = tree.get("architectures"), tree.get("model_type")
    places = {str(key): key.at for key in tree if str(key) in ("architectures", "model_type")}
    place = places.get("architectures") or places.get("model_type") or Place(file, 1, 1)
    first = listed[0] if isinstance(listed, list) and listed else None
    wrong = (
        [Fault("D006", "architectures is a list of class names", places["architectures"])]
        if _is_odd_list(listed)
        else []
    )
    if model_type is not None and not isinstance(model_type, str):
        wrong.append(Fault("D006", f"model_type is text, not {as_text(model_type)}", places["model_type"]))
    if wrong:
        raise CostModelError(*wrong)
    if first is None and not model_type:
        hint = "a config.json of transformers has architectures and model_type"
        raise fail("X001", "the file states neither architectures nor model_type", Place(file, 1, 1), hint)
    return _ModelNames(as_text(first or "").strip("'"), as_text(model_type or "").strip("'"), place)


def _is_odd_list(listed: Any) -> bool:
    return listed is not None and not (isinstance(listed, list) and all(isinstance(name, str) for name in listed))


def _belongs_to_wrapper(wrapper: Wrapper, named: _ModelNames) -> bool:
    """Whether a file belongs to a wrapper class: by `architectures`, or by `model_type` if no class is named."""
    if named.architecture:
        return named.architecture in wrapper.classes
    return named.model_type in wrapper.types


def _family_of_class(named: _ModelNames) -> Family:
    """The family of a class; the model type chooses between several, and decides alone if no class is named."""
    if named.architecture:
        of_class = [family for family in FAMILIES if named.architecture in family.classes]
        of_both = [family for family in of_class if named.model_type in family.types]
        if of_class:
            return (of_both or of_class)[0]
    else:
        of_type = [family for family in FAMILIES if named.model_type in family.types]
        if of_type:
            return of_type[0]
    raise CostModelError(_unknown_class(named))


def _unknown_class(named: _ModelNames) -> Fault:
    """A fault for an unknown class or type: refused for a stated reason, for another task, or simply unknown."""
    name = named.architecture or f"model type {as_text(named.model_type)}"
    why = reason(named.model_type, named.architecture)
    if why:
        return Fault("X003", f"{name}: the model document cannot express {why}", named.place, "nothing was written")
    close = likely_name(named.architecture, _KNOWN) if named.architecture else ""
    if close:
        return Fault("X003", f"{name} is not a class that is known here", named.place, f"did you mean {close}?")
    stem = class_stem(named.architecture)
    other = next((known for known in _KNOWN if class_stem(known) == stem), "") if stem else ""
    if other:
        hint = f"with {other} in its place the language model of that kind is read"
        return Fault("X003", f"{name} is not a language model that predicts the next token", named.place, hint)
    hint = "its code is not in the table; write a model document instead"
    return Fault("X003", f"{name} is not a class that is known here", named.place, hint)


def _text_model_inside(wrapper: Wrapper, tree: Mapping, named: _ModelNames, file: str) -> FamilyChoice:
    """The text model inside a multimodal file, with the tied-embeddings option that the wrapper applies."""
    key = next((key for key in wrapper.keys if isinstance(tree.get(key), Mapping)), "")
    if not key and not wrapper.flat:
        raise fail("X002", f"{wrapper.keys[0]} is missing: it holds the text model", named.place)
    inner = tree[key] if key else tree
    by_type = {kind: family for family in FAMILIES for kind in family.types}
    if key and (inner.get("architectures") or inner.get("model_type")):
        family = _inner_family(_model_names(inner, file))
    elif wrapper.inner:
        family = by_type[wrapper.inner]
    else:
        raise fail("X002", f"{key} has neither architectures nor model_type", named.place)
    parts = [part for part in tree if part != key and OTHER_PARTS.fullmatch(str(part)) and tree[part]]
    vision = vision_tower(wrapper.types[0], tree.get("vision_config"), tree)
    losses = [
        Loss("not expressible", f"{part}: only the text model is read", part.place)
        for part in parts
        if isinstance(tree[part], Mapping) and not (vision and part == "vision_config")
    ]
    if not losses and vision is None:
        name = named.architecture or named.model_type
        losses = [Loss("not expressible", f"what {name} has beside its text model", named.place)]
    read = _tied_as_outer(wrapper, tree, inner, family)
    return FamilyChoice(family, read, tuple(losses), frozenset(map(str, parts)), vision, key)


def _inner_family(named: _ModelNames) -> Family:
    """The family of a text model inside a wrapper; for an unknown class the model type decides."""
    by_type = [family for family in FAMILIES if named.model_type in family.types]
    return by_type[0] if by_type and named.architecture not in _KNOWN else _family_of_class(named)


def _tied_as_outer(wrapper: Wrapper, tree: Mapping, inner: Mapping, family: Family) -> Mapping:
    """The mapping of the text model, with the wrapper's tied-embeddings option where the wrapper's one counts."""
    if inner is tree or wrapper.ties == "inner":
        return inner
    outer_key = next((key for key in tree if key == _TIED), None)
    own_key = next((key for key in inner if key == _TIED), None)
    outer = tree.get(_TIED, wrapper.tied)
    tied_source = family.fields["tied"]
    own = inner.get(_TIED, getattr(tied_source, "default", False))
    if wrapper.ties == "either" and own is True and outer is not True:
        return inner
    if outer_key is None and outer == own and own_key is not None:
        return inner
    changed = Mapping((key, value) for key, value in inner.items() if key != _TIED)
    changed.place = inner.place
    place = outer_key.place if outer_key is not None else tree.place
    at = outer_key.at if outer_key is not None else tree.place
    changed[key_at(_TIED, place, at)] = outer
    return changed


_LARGEST = 10**7


class UnreadableSizeError(Exception):
    """A size of the tower that is missing or no whole number."""


class _TowerSizes(NamedTuple):
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


def _vision_layer(
    sizes: _TowerSizes, count: OriginValue, hidden: OriginValue, heads: OriginValue, ffn: OriginValue
) -> Half:
    """A layer of a vision transformer: attention of all patches to all, and an MLP, all with biases."""
    if hidden.value % heads.value:
        raise UnreadableSizeError("heads")
    head_dim = sizes.derived(hidden.value // heads.value, "hidden size / heads")
    attention = {"heads": heads, "kv_heads": heads, "head_dim": head_dim}
    attention |= {key: sizes.fixed(True) for key in ("biases", "output_bias", "bidirectional")}
    mlp = {"ffn_hidden": ffn, "gated": sizes.fixed(False), "biases": sizes.fixed(True)}
    return {"count": count, "attention": attention, "mlp": mlp}


def _qwen_tower(sizes: _TowerSizes, _outer: Mapping, *, inner_layers: bool) -> Half:
    """Qwen3-VL's: rotary and learned positions, four patches to a token; inner layers may have projectors too."""
    hidden, side, merge = sizes("hidden_size", 1152), sizes("patch_size", 16), sizes("spatial_merge_size", 2)
    frames, channels = sizes("temporal_patch_size", 2), sizes("in_channels", 3)
    layer = _vision_layer(sizes, sizes("depth"), hidden, sizes("num_heads", 16), sizes("intermediate_size", 4304))
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


def _siglip(sizes: _TowerSizes, outer: Mapping) -> Half:
    """SigLIP's as Gemma 3 has it: learned positions, the mean of neighbouring patches, one matrix to the stream."""
    hidden, side, picture = sizes("hidden_size", 768), sizes("patch_size", 16), sizes("image_size", 224)
    count, heads = sizes("num_hidden_layers"), sizes("num_attention_heads", 12)
    layer = _vision_layer(sizes, count, hidden, heads, sizes("intermediate_size", 3072))
    patches = (picture.value // side.value) ** 2
    tokens = _TowerSizes(outer, "Gemma3Config")("mm_tokens_per_image", 256)
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


class _TowerKind(NamedTuple):
    configuration: str
    build: Callable[[_TowerSizes, Mapping], Half]


TOWERS: dict[str, _TowerKind] = {
    "qwen3_vl": _TowerKind("Qwen3VLVisionConfig", lambda sizes, outer: _qwen_tower(sizes, outer, inner_layers=True)),
    "qwen3_vl_moe": _TowerKind(
        "Qwen3VLMoeVisionConfig", lambda sizes, outer: _qwen_tower(sizes, outer, inner_layers=True)
    ),
    "qwen3_5": _TowerKind("Qwen3_5VisionConfig", lambda sizes, outer: _qwen_tower(sizes, outer, inner_layers=False)),
    "qwen3_5_moe": _TowerKind(
        "Qwen3_5MoeVisionConfig", lambda sizes, outer: _qwen_tower(sizes, outer, inner_layers=False)
    ),
    "gemma3": _TowerKind("SiglipVisionConfig", _siglip),
}


def vision_tower(model_type: str, tree: Any, outer: Mapping) -> Half | None:
    """The vision tower in a mapping; None if its class is unknown or the file leaves sizes open."""
    known = TOWERS.get(model_type)
    if known is None or not isinstance(tree, Mapping):
        return None
    try:
        return known.build(_TowerSizes(tree, known.configuration), outer)
    except UnreadableSizeError:
        return None
