"""The number types in which a checkpoint stores its weights and KV cache, by the names of its matrices."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from fnmatch import translate
from typing import Any, NamedTuple

from costmodel.documents.reader.foreign_readers import BESIDE
from costmodel.exchange.huggingface.family import Config, Half
from costmodel.exchange.import_result import Loss, Origin, OriginValue, StatedKey, Verdict
from costmodel.exchange.values import as_text, printable
from costmodel.ground.errors import Place
from costmodel.ground.record import record

# --- the linear maps of a layer by the names that checkpoints give them, and patterns over such names


_ROOTS = ("model.", "model.language_model.", "language_model.model.", "backbone.", "")
_MIXERS = ("self_attn", "linear_attn", "attn", "attention", "mixer", "mamba")
_FEEDS = ("mlp", "block_sparse_moe", "feed_forward", "mixer")
_INSIDE = re.compile(r".*?(?:^|\.)(?:layers|h|blocks)\.(?=[\d*])")  # what stands before the number of a layer
_MOST_REPEATS = 3  # in a regular expression, so that none takes long
_REPEAT = re.compile(r"(?<!\\)[*+{]")
_LONGEST = 300  # letters of a pattern
_NUMBER = re.compile(r"\d+(?=\.)")  # of a layer, at the head of a pattern
_MOST_PATTERNS = 64  # patterns with wildcards of one layer, and of all of them; regular expressions


class WeightModule(NamedTuple):
    """A linear map of a layer: its names after the layer number, its parameters, and whether it is routed."""

    names: tuple[str, ...]
    parameters: float
    routed: bool = False


def weight_modules(hidden: int, layer: Half) -> list[WeightModule]:
    """The weight matrices of a layer, without the router; hidden: the width of the model."""
    found = list[WeightModule]()
    for kind, maps in _MAPS.items():
        if kind in layer:
            sizes = {key: value.value for key, value in layer[kind].items() if hasattr(value, "value")}
            found += [_weight_module(_MIXERS, leaves, size) for leaves, size in maps(float(hidden), sizes)]
    if "mlp" in layer:
        found += _feed_modules(_FEEDS, hidden, layer["mlp"], 1)
    if experts := layer.get("experts"):
        shared = tuple(f"{feed}.{name}" for feed in _FEEDS for name in ("shared_experts", "shared_expert"))
        routed = tuple(f"{feed}.experts{number}" for feed in _FEEDS for number in (".0", ""))
        found += _feed_modules(shared, hidden, experts["shared"], 1) if "shared" in experts else []
        inner = experts["latent_dim"].value if "latent_dim" in experts else hidden
        found += _feed_modules(routed, inner, experts, experts["count"].value, routed=True)
    return found


def _weight_module(parents: Sequence[str], leaves: str, parameters: float, *, routed: bool = False) -> WeightModule:
    """A weight matrix with all names that its checkpoint may have."""
    names = tuple(f"{parent}.{leaf}" for parent, leaf in itertools.product(parents, leaves.split()))
    return WeightModule(names, parameters, routed)


def _feed_modules(
    parents: Sequence[str], hidden: float, half: Half, count: float, *, routed: bool = False
) -> list[WeightModule]:
    """The weight matrices of an MLP or of experts."""
    each = count * hidden * half["ffn_hidden"].value
    ahead = ["gate_proj gate_up_proj w1", "up_proj gate_up_proj w3"] if half["gated"].value else ["up_proj c_fc w1"]
    return [_weight_module(parents, leaves, each, routed=routed) for leaves in (*ahead, "down_proj c_proj w2")]


Maps = Iterator[tuple[str, float]]  # names of a map and its parameters


def _attention_maps(hidden: float, of: dict[str, Any]) -> Maps:
    """Checkpoint name and number of weights of each matrix in attention."""
    queries, keys = of["heads"] * of["head_dim"], of["kv_heads"] * of["head_dim"]
    yield "q_proj qkv_proj query_key_value", hidden * queries * (2 if of.get("output_gate") else 1)
    yield "k_proj qkv_proj query_key_value", hidden * keys
    yield "v_proj qkv_proj query_key_value", hidden * keys
    yield "o_proj out_proj dense", hidden * queries


def _latent_maps(hidden: float, of: dict[str, Any]) -> Maps:
    """Checkpoint name and number of weights of each matrix in latent attention (MLA)."""
    heads, queries = of["heads"], of["heads"] * (of["nope_dim"] + of["rope_dim"])
    if rank := of.get("query_rank"):
        yield "q_a_proj fused_qkv_a_proj", hidden * rank
        yield "q_b_proj", rank * queries
    else:
        yield "q_proj", hidden * queries
    yield "kv_a_proj_with_mqa fused_qkv_a_proj", hidden * (of["kv_rank"] + of["rope_dim"])
    yield "kv_b_proj", of["kv_rank"] * heads * (of["nope_dim"] + of["value_dim"])
    yield "o_proj", hidden * heads * of["value_dim"]


def _compressed_maps(hidden: float, of: dict[str, Any]) -> Maps:
    """Checkpoint name and number of weights of each matrix in compressed attention."""
    queries = of["heads"] * of["head_dim"]
    yield "wq_a q_a_proj", hidden * of["query_rank"]
    yield "wq_b q_b_proj", of["query_rank"] * queries
    yield "wkv kv_proj", hidden * of["head_dim"]
    yield "wo_a", queries / of["output_groups"] * of["output_rank"] * of["output_groups"]
    yield "wo_b", hidden * of["output_rank"] * of["output_groups"]


def _linear_maps(hidden: float, of: dict[str, Any]) -> Maps:
    """Checkpoint name and number of weights of each matrix in linear attention."""
    values = of["heads"] * of["value_dim"]
    keys = of.get("key_heads", of["heads"]) * of.get("key_dim", of["value_dim"])
    yield "in_proj_qkv in_proj_qkvz qkv_proj q_proj", hidden * (2 * keys + values)
    yield "in_proj_z in_proj_qkvz output_gate", hidden * values
    yield "out_proj o_proj", hidden * values


def _state_space_maps(hidden: float, of: dict[str, Any]) -> Maps:
    """Checkpoint name and number of weights of each matrix in a Mamba-2 mixer."""
    inner = of["heads"] * of["head_dim"]
    yield "in_proj", hidden * (2 * inner + 2 * of["groups"] * of["state"] + of["heads"])
    yield "out_proj", hidden * inner


def _scan_maps(hidden: float, of: dict[str, Any]) -> Maps:
    """Checkpoint name and number of weights of each matrix in a Mamba-1 mixer."""
    yield "in_proj", 2 * hidden * of["inner"]
    yield "out_proj", hidden * of["inner"]


_MAPS: dict[str, Callable[[float, dict[str, Any]], Maps]] = {
    "attention": _attention_maps, "latent": _latent_maps, "compressed": _compressed_maps, "linear": _linear_maps,
    "state_space": _state_space_maps, "selective_scan": _scan_maps,
}  # fmt: skip


class Patterns:
    """Patterns over module names; `unread` lists the patterns that could not be read."""

    def __init__(self, patterns: Sequence[object]) -> None:
        self.unread = list[str]()
        self._parts = set[str]()  # names, and parts of names
        self._globs = dict[str, list[str]]()  # by the number of the layer that they begin with, if any
        self._expressions = list[re.Pattern[str]]()
        for pattern in dict.fromkeys(map(str, patterns)):
            self._add(pattern)
        self._wild = {
            number: re.compile("|".join(f"{translate(glob)}|{translate(f'{glob}.*')}" for glob in globs))
            for number, globs in self._globs.items()
        }

    def _add(self, text: str) -> None:
        """Adds a pattern over module names: a regular expression, a wildcard or a plain name."""
        if text.startswith("re:"):
            compiled = _safe_pattern(text.removeprefix("re:"))
            if compiled is None or len(self._expressions) == _MOST_PATTERNS:
                self.unread.append(text[:80])
            else:
                self._expressions.append(compiled)
        elif len(text) > _LONGEST:
            self.unread.append(text[:80])
        elif "*" in text:
            inner = _INSIDE.sub("", text)
            number = _NUMBER.match(inner)
            globs = self._globs.setdefault(number.group() if number else "", [])
            (globs if len(globs) < _MOST_PATTERNS else self.unread).append(inner)
        else:
            self._parts.add(_INSIDE.sub("", text).strip("."))

    @property
    def name_numbers(self) -> bool:
        """Whether any pattern may distinguish layers."""
        texts = [*self._parts, *itertools.chain(*self._globs.values()), *(each.pattern for each in self._expressions)]
        return any(re.search(r"\d", text) for text in texts)

    def match(self, index: int, module: WeightModule) -> bool:
        """Whether a pattern matches a linear map in a given layer."""
        return any(self._matches(index, name) for name in module.names)

    def _matches(self, index: int, name: str) -> bool:
        """Whether any pattern matches the module `name` of layer `index`."""
        words = name.split(".")
        for begin, end in itertools.combinations(range(len(words) + 1), 2):
            part = ".".join(words[begin:end])
            if part in self._parts or (begin == 0 and f"{index}.{part}" in self._parts):
                return True
        if str(index) in self._parts:
            return True
        indexed_name = f"{index}.{name}"
        for wild in (self._wild.get(str(index)), self._wild.get("")):
            if wild is not None and any(wild.match(own) for own in (indexed_name, f"model.layers.{indexed_name}")):
                return True
        return any(
            each.match(f"{root}layers.{indexed_name}") is not None for each in self._expressions for root in _ROOTS
        )


def _safe_pattern(text: str) -> re.Pattern[str] | None:
    """A regular expression that is fast on any name; None if it has nested or many repetitions."""
    if len(text) > _LONGEST or len(_REPEAT.findall(text)) > _MOST_REPEATS or re.search(r"\)[*+{]|\(\?[^:]", text):
        return None
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return None


class TypedModules(NamedTuple):
    """Parameter counts of linear maps by weight type, with routed experts apart; None stands for 16 bits."""

    others: dict[str | None, float]
    routed: dict[str | None, float]


def typed_modules(
    marks: Sequence[Hashable],
    modules: Callable[[Any], list[WeightModule]],
    type_of: Callable[[int, WeightModule], str | None],
    *,
    alike: bool,
) -> TypedModules:
    """Parameter counts by weight type over all layers; equal layers of a kind are evaluated once."""
    found = TypedModules({}, {})
    counts = {mark: marks.count(mark) for mark in dict.fromkeys(marks)}
    built = {mark: modules(mark) for mark in counts}
    layers = [(index, mark, 1) for index, mark in enumerate(marks)]
    if alike:
        layers = [(marks.index(mark), mark, count) for mark, count in counts.items()]
    for index, mark, often in layers:
        for module in built[mark]:
            kinds = found.routed if module.routed else found.others
            kind = type_of(index, module)
            kinds[kind] = kinds.get(kind, 0.0) + often * module.parameters
    return found


# --- the types that a checkpoint keeps its weights and the cache in, of quantization_config in a config.json


KEYS = ("quantization_config", "compression_config")
_GROUPS = {32: "int4-g32", 64: "int4-g32", 128: "int4-g128"}  # weights in 4 bits that share a scale
_FLOATS = {16.0: "nvfp4", 32.0: "mxfp4"}  # of four bits, by weights that share a scale
_ALGORITHMS = {
    "fp8": "fp8",
    "fp8_pb_wo": "fp8-block",
    "fp8_pb_real": "fp8-block",
    "fp8_per_channel_per_token": "fp8",
    "nvfp4": "nvfp4",
    "nvfp4_awq": "nvfp4",
    "w4a16_nvfp4": "nvfp4",
    "w4a8_nvfp4_fp8": "nvfp4",
    "w4a8_mxfp4_fp8": "mxfp4",
    "mxfp4": "mxfp4",
    "w4a16_awq": "int4-g128",
    "w4a8_awq": "int4-g128",
    "int4_awq": "int4-g128",
    "w8a16": "int8",
    "w8a8_sq_per_channel": "int8",
}
_WIDE_PRODUCTS = ("w4a16_nvfp4",)
# Of torchao: int8_dynamic_activation_int4_weight, Int4WeightOnlyConfig; the word before "weight" is theirs.
_WORD = re.compile(r"(float8|nvfp4|mx|int8|int4|u?intx|fpx)(?=weight)")
_NARROW = {"float8": "fp8", "nvfp4": "nvfp4"}
_BITS, _GROUP = ("bits", "w_bit", "nbits"), ("group_size", "q_group_size")
_USUAL_GROUP = {"int8dynamicactivationint4weight": 32, "hqq": 64}  # of their configurations; of others 128
_LISTS = (
    "ignore", "modules_to_not_convert", "ignored_layers", "exclude_modules", "llm_int8_skip_modules", "exclude",
    "skip_modules",
)  # fmt: skip
_READ_KEYS = """
quant_method quant_algo weight_block_size bits w_bit nbits num_bits group_size q_group_size load_in_8bit
load_in_4bit bnb_4bit_use_double_quant kv_cache_scheme kv_cache_quant_algo config_groups expert_dtype
quantized_layers targets weights type strategy block_structure quant_type quant_type_kwargs dtype input_activations
quant_config weight_quant_params default _type _data
"""
_QUIET_KEYS = """
activation_scheme activation_scale_ub fmt scale_fmt desc_act sym symmetric damp_percent damp_auto_increment
true_sequential static_groups model_name_or_path model_file_base_name checkpoint_format version zero_point
has_zero_point backend do_fuse fuse_max_seq_len modules_to_fuse exllama_config use_exllama quantization_status
format global_compression_ratio producer quantizer packing_format autoround_version meta actorder observer
observer_kwargs dynamic output_activations scale_dtype zp_dtype quant_storage_dtype dequantize tokenizer
block_name_to_quantize dataset batch_size pad_token_id cache_block_outputs use_cuda_fp16 model_seqlen
max_input_length iters lr nsamples seqlen low_gpu_mem_usage enable_quanted_input enable_minmax_tuning minmax_lr
data_type amp train_bs gradient_accumulate_steps scale_bits pre_quantized untie_embedding_weights
include_input_output_embeddings is_mx_format mse act_bits act_data_type act_dynamic act_group_size act_sym
channel_wise optimize round_zero axis view_as_float offload_meta scale_quant_params zero_quant_params _version layout
mapping_type act_mapping_type set_inductor_config use_hqq zero_point_domain preserve_zero int4_packing_format
granularity int4_choose_qparams_algorithm activation_dtype weight_dtype mm_config kernel_preference activation_value_lb
activation_value_ub packing_bitwidth inner_k_tiles packing_dtype
format_version _load_in_4bit _load_in_8bit llm_int8_threshold llm_int8_enable_fp32_cpu_offload
llm_int8_has_fp16_weight weight_per_tensor act_per_tensor hf_quant_config name pre_quant_scale rotate
"""
_READ, _QUIET = frozenset([*_LISTS, *_READ_KEYS.split()]), frozenset(_QUIET_KEYS.split())
_DEEPEST, _MOST = 8, 12


@record
class _StoredType:
    """The weight type that quantisation settings describe (None if unknown), and a note on how it is approximated."""

    type: str | None
    nearly: str = ""


class StoredWeights(NamedTuple):
    """The keys of the model document about stored weights, the losses, and the verdict for every settings key."""

    keys: dict[str, OriginValue]
    losses: list[Loss]
    verdicts: list[StatedKey]


class _Settings(NamedTuple):
    """The quantisation settings as written, the name of their key, and its place."""

    written: Any
    name: str
    place: Place | None

    @property
    def values(self) -> Mapping[Any, Any]:
        """The settings, with those of modelopt that are nested one level deeper."""
        inner = self.written.get("quantization")
        return {**self.written, **inner} if isinstance(inner, Mapping) else self.written


def stored_weights(
    config: Config, whole: Mapping[Any, Any], beside: Mapping[Any, Any] | None, *, mixture: bool
) -> StoredWeights:
    """The weight types of a checkpoint, from quantisation settings in config.json or in a file beside it."""
    found, losses = _quantization_settings(config.tree, whole, beside), list[Loss]()
    if found is None:
        expert = _fill_expert_type(config, {}, losses) if mixture else {}
        return StoredWeights(expert, losses, [])
    if not isinstance(found.written, Mapping):
        losses.append(Loss("not expressible", f"{found.name}: no quant_method: {_NO_TYPE}", found.place))
        return StoredWeights({}, losses, [])
    settings = found.values
    types = _Types(
        settings, f"{found.name}: {_quantization_method(settings) or 'no quant_method'}", found.place, mixture=mixture
    )
    keys, lost = _fill_cache_type(settings, found)
    losses += lost
    keys |= _type_keys(config, types, losses, found)
    if mixture:
        keys |= _fill_expert_type(config, settings, losses)
    verdicts = list(_verdicts_inside(found.written, f"{found.name}.", found.place, 0))
    unknown = [key.name for key in verdicts if key.verdict == "not expressible"]
    if unknown:
        losses.append(Loss("not expressible", f"not known: {', '.join(unknown[:_MOST])}", found.place))
    return StoredWeights(keys, losses, verdicts)


_NO_TYPE = "no type of weights here matches it; set workload.weights to the nearest"


def _quantization_settings(
    tree: Mapping[Any, Any], whole: Mapping[Any, Any], beside: Mapping[Any, Any] | None
) -> _Settings | None:
    """The quantisation settings of a checkpoint, from config.json or the file beside it; None without any."""
    for each in (tree, whole):
        for key in (key for key in each if str(key) in KEYS and each[key]):
            return _Settings(each[key], str(key), getattr(key, "place", None))
    if beside is None:
        return None
    place = getattr(next(iter(beside), None), "place", None)
    return _Settings({"quant_method": "modelopt", **beside}, BESIDE, place)


def _quantization_method(settings: Mapping[Any, Any]) -> str:
    """The quantisation method of settings; empty if they state none."""
    return str(settings.get("quant_method", "")).lower()


def _fill_cache_type(settings: Mapping[Any, Any], found: _Settings) -> tuple[dict[str, OriginValue], list[Loss]]:
    """The KV-cache type that the checkpoint has scales for, or a loss for a type that no workload has."""
    scheme, algorithm = settings.get("kv_cache_scheme"), settings.get("kv_cache_quant_algo")
    if isinstance(scheme, Mapping):
        name, kind = "kv_cache_scheme", f"{scheme.get('type', 'int')}{as_text(scheme.get('num_bits'))}"
    elif algorithm:
        name, kind = "kv_cache_quant_algo", str(algorithm).lower()
    else:
        return {}, []
    if kind in ("float8", "fp8"):
        return {"stored_cache": OriginValue("fp8", Origin("file", f"{found.name}.{name}", found.place))}, []
    sentence = f"{found.name}.{name} {kind}: no type of the cache here matches it; set workload.cache to the nearest"
    return {}, [Loss("not expressible", sentence, found.place)]


_EXPERTS = {
    "fp4": "mxfp4", "mxfp4": "mxfp4", "nvfp4": "nvfp4", "fp8": "fp8-block", "bf16": "bf16", "bfloat16": "bf16",
}  # fmt: skip


def _fill_expert_type(config: Config, settings: Mapping[Any, Any], losses: list[Loss]) -> dict[str, OriginValue]:
    """The weight type of routed experts, if expert_dtype states one."""
    value, place = config.written("expert_dtype")
    stated = settings.get("expert_dtype", value if place is not None else None)
    if stated is None:
        return {}
    if str(stated) not in _EXPERTS:
        losses.append(Loss("not expressible", f"expert_dtype {as_text(stated)}: {_NO_TYPE}", place))
        return {}
    return {"stored_experts": OriginValue(_EXPERTS[str(stated)], Origin("file", "expert_dtype", place))}


# --- which map of which layer is in which type


class _Types:
    """The weight type of each linear map: 16 bits if it is excluded, else of its group, else the general type."""

    def __init__(self, settings: Mapping[Any, Any], named: str, place: Place | None, *, mixture: bool) -> None:
        self.named, self.place = named, place
        self.kept: list[_StoredType] = []
        self.lists = [name for name in _LISTS if isinstance(settings.get(name), list | tuple)]
        self._ignored = Patterns([each for name in self.lists for each in settings[name]])
        self._groups = [(self._targets(targets), kept) for targets, kept in _groups(settings)]
        if not self._groups:
            alone = Patterns(["experts"]) if mixture and _quantization_method(settings) == "mxfp4" else None
            self._groups = [(alone, _stored_type(_quantization_method(settings), settings))]
        self.kept = [kept for _, kept in self._groups]

    def _targets(self, targets: object) -> Patterns | None:
        """The modules of a group; None if the group covers all modules."""
        listed = list(targets) if isinstance(targets, list | tuple) else []
        return None if not listed or any(str(each) == "Linear" for each in listed) else Patterns(listed)

    def of(self, index: int, module: WeightModule) -> str | None:
        """The weight type of a linear map in a given layer; None for 16 bits."""
        if self._ignored.match(index, module):
            return None
        for targets, kept in self._groups:
            if targets is None or targets.match(index, module):
                return kept.type
        return None

    @property
    def distinguish_layers(self) -> bool:
        """Whether layers of a kind may differ."""
        groups = (targets for targets, _ in self._groups if targets is not None)
        return self._ignored.name_numbers or any(each.name_numbers for each in groups)

    @property
    def unread(self) -> list[str]:
        """Patterns that could not be read."""
        groups = [targets for targets, _ in self._groups if targets is not None]
        return [text for each in (self._ignored, *groups) for text in each.unread]


def _type_keys(config: Config, types: _Types, losses: list[Loss], found: _Settings) -> dict[str, OriginValue]:
    """The document keys for the weight types of a model's linear maps."""
    place = found.place
    if all(kept.type is None for kept in types.kept):
        losses.append(Loss("not expressible", f"{types.named}: {_NO_TYPE}", place))
        return {}
    losses += [Loss("approximated", f"{types.named}: {kept.nearly}", place) for kept in types.kept if kept.nearly]
    unread = [as_text(text) for text in types.unread[:_MOST]]
    unread += [f"and {len(types.unread) - _MOST:,} more"] if len(types.unread) > _MOST else []
    losses += [Loss("not expressible", f"{types.named}: modules {text}", place) for text in unread]
    typed = _typed_modules(config, types)
    others, routed = _main_type(typed.others), _main_type(typed.routed)
    keys = dict[str, OriginValue]()
    origin = Origin("file", f"{found.name}.quant_method", place)
    if others is not None:
        keys["stored"] = OriginValue(others, origin)
    if routed != others and typed.routed:
        keys["stored_experts"] = OriginValue(routed or "bf16", origin)
    wide = typed.others.get(None, 0.0)
    if others is not None and wide:
        named = f"{found.name}.{' and '.join(types.lists) or 'config_groups'}"
        keys["stored_wide"] = OriginValue(int(wide), Origin("derived", f"linear maps by {named}", place))
    losses += _other_types(types, typed, others, routed)
    return keys


def _typed_modules(config: Config, types: _Types) -> TypedModules:
    """The stored type of each weight matrix, layer by layer."""
    marks: Sequence[Hashable] = config.family.layers(config)
    hidden = config.number("hidden")

    def modules(mark: Any) -> list[WeightModule]:
        """The weight matrices of the layer that a mark stands for."""
        return weight_modules(hidden, config.family.build(config, mark))

    return typed_modules(marks, modules, types.of, alike=not types.distinguish_layers)


def _main_type(kinds: Mapping[str | None, float]) -> str | None:
    """The quantised type that holds most parameters; None if nearly all are in 16 bits."""
    narrow = {kind: size for kind, size in kinds.items() if kind is not None}
    total = sum(kinds.values())
    if not narrow or sum(narrow.values()) < 0.001 * total:
        return None
    return max(narrow, key=lambda kind: narrow[kind])


def _other_types(types: _Types, typed: TypedModules, others: str | None, routed: str | None) -> Iterator[Loss]:
    """Losses for linear maps whose type differs from the most frequent one."""
    for of, kinds, most in (("", typed.others, others), (" of routed experts", typed.routed, routed)):
        for kind, size in kinds.items():
            if kind == most or (kind is None and (not of or most is None)):
                continue
            words = f"{size / 1e9:.4g} G parameters{of} in {kind or '16 bits'}, taken in {most or '16 bits'}"
            yield Loss("approximated", f"{types.named}: {words}", types.place)


# --- what a method comes to


def _groups(settings: Mapping[Any, Any]) -> Iterator[tuple[object, _StoredType]]:
    """Groups of modules, each with the type of its stored weights, of compressed-tensors, modelopt or quark."""
    groups, layers = settings.get("config_groups"), settings.get("quantized_layers")
    if isinstance(groups, Mapping):
        for group in groups.values():
            yield (
                (group.get("targets"), _compressed_tensors_type(group))
                if isinstance(group, Mapping)
                else (None, _StoredType(None))
            )
    elif isinstance(layers, Mapping) and layers:
        algorithms = dict[str, list[object]]()
        for name, each in layers.items():
            algorithm = each.get("quant_algo") if isinstance(each, Mapping) else each
            algorithms.setdefault(str(algorithm).lower(), []).append(name)
        for algorithm, named in algorithms.items():
            yield named, _type_of_algorithm(algorithm, settings)


def _stored_type(method: str, settings: Mapping[Any, Any]) -> _StoredType:
    """The types of stored weights under a quantisation method with these settings."""
    if method in ("fp8", "fbgemm_fp8", "finegrained_fp8", "ptpc_fp8"):
        return _StoredType("fp8-block" if settings.get("weight_block_size") else "fp8")
    if method in ("awq", "awq_marlin", "gptq", "gptq_marlin", "auto-round", "auto_round", "intel/auto-round", "hqq"):
        return _integer_stored_type(method, settings)
    if method == "bitsandbytes":
        return _bitsandbytes_type(settings)
    if method in ("mxfp4", "nvfp4", "petit_nvfp4"):
        return _StoredType(method.removeprefix("petit_"))
    if method in ("eetq", "w8a8_int8", "blockwise_int8", "experts_int8"):
        return _StoredType("int8")
    if method in ("modelopt", "modelopt_fp4", "modelopt_fp8"):
        return _type_of_algorithm(str(settings.get("quant_algo")).lower(), settings)
    if method == "quanto":
        word = str(settings.get("weights", "int8")).lower()
        return _integer_type(4, 128) if word == "int4" else _StoredType({"float8": "fp8", "int8": "int8"}.get(word))
    return _torchao_type(settings) if method == "torchao" else _StoredType(None)


def _integer_stored_type(method: str, settings: Mapping[Any, Any]) -> _StoredType:
    """The type of integer weights with group scales; the settings of hqq are nested two levels deeper."""
    for name in ("quant_config", "weight_quant_params"):
        inner = settings.get(name)
        settings = inner if isinstance(inner, Mapping) else settings
    group = _first_setting(settings, _GROUP, _USUAL_GROUP.get(method, 128))
    found = _integer_type(_group_size(_first_setting(settings, _BITS, 4)), _group_size(group))
    if any(name in settings for name in _BITS):
        return found
    return _StoredType(found.type, "; ".join(filter(None, ("bits are not stated, taken as 4", found.nearly))))


def _first_setting(settings: Mapping[Any, Any], names: Sequence[str], otherwise: object) -> object:
    """The value of the first setting that is stated, else `otherwise`."""
    return next((settings[name] for name in names if name in settings), otherwise)


def _torchao_type(settings: Mapping[Any, Any]) -> _StoredType:
    """The type that torchao settings describe: a name with arguments, or a configuration class with its data."""
    stated, arguments = settings.get("quant_type"), settings.get("quant_type_kwargs")
    whole = stated.get("default") if isinstance(stated, Mapping) else None
    if isinstance(whole, Mapping):
        stated, arguments = whole.get("_type"), whole.get("_data")
    name = str(stated).lower().replace("_", "").removesuffix("config")
    found = _WORD.search(name)
    if found is None or found.group(1) not in (*_NARROW, "int8", "int4"):
        return _StoredType(None)
    word = found.group(1)
    if word != "int4":
        return _StoredType(_NARROW.get(word, word))
    size = _first_setting(arguments if isinstance(arguments, Mapping) else {}, _GROUP, _USUAL_GROUP.get(name, 128))
    kept = _integer_type(4, _group_size(size))
    products = f"products in {name.partition('dynamic')[0]}, taken in 16 bits" if "dynamic" in name else ""
    return _StoredType(kept.type, "; ".join(filter(None, (kept.nearly, products))))


def _type_of_algorithm(algorithm: str, settings: Mapping[Any, Any]) -> _StoredType:
    """The stored type of a quantisation algorithm, with a note if products are computed in 16 bits."""
    if _ALGORITHMS.get(algorithm) == "int4-g128" and "group_size" in settings:
        return _integer_type(4, _group_size(settings["group_size"]))
    return _StoredType(
        _ALGORITHMS.get(algorithm), _wide_product_note(_ALGORITHMS[algorithm]) if algorithm in _WIDE_PRODUCTS else ""
    )


def _wide_product_note(kind: str) -> str:
    """A note that products are computed in 16 bits, but costmodel takes the narrow type."""
    return f"products in 16 bits, taken in {kind} where the accelerator has it"


def _bitsandbytes_type(settings: Mapping[Any, Any]) -> _StoredType:
    """The type of bitsandbytes weights: int8, or nf4 and fp4 as the 4-bit type with the same number of bytes."""
    if settings.get("load_in_8bit"):
        return _StoredType("int8")
    if not settings.get("load_in_4bit"):
        return _StoredType(None)
    kind = "int4-g128" if settings.get("bnb_4bit_use_double_quant") else "int4-g32"
    return _StoredType(kind, f"blocks of 64 with scales of their own, taken as {kind}, which has as many bytes")


def _compressed_tensors_type(group: Mapping[Any, Any]) -> _StoredType:
    """The type of one group of compressed-tensors."""
    weights = group.get("weights")
    if not isinstance(weights, Mapping):
        return _StoredType(None)
    bits, size = _group_size(weights.get("num_bits")), _group_size(weights.get("group_size"))
    kind = weights.get("type", "int")
    found = _StoredType(None)
    if kind == "float" and bits == 8:
        blocks = weights.get("strategy") == "block" or weights.get("block_structure")
        found = _StoredType("fp8-block" if blocks else "fp8")
    elif kind == "float" and bits == 4:
        found = _StoredType(_FLOATS.get(size))
    elif kind == "int":
        return _integer_type(bits, size)
    alone = "input_activations" in group and not group["input_activations"]
    return _StoredType(found.type, _wide_product_note(found.type)) if alone and found.type is not None else found


def _integer_type(bits: float, size: float) -> _StoredType:
    """The stored type for integer weights with this number of bits and weights per scale."""
    if bits == 8:
        return _StoredType("int8")
    if bits != 4:
        return _StoredType(None)
    nearest_type = _GROUPS.get(int(size) if 0 < size < 1e6 else 0, "int4-g128")
    if _GROUPS.get(int(size) if 0 < size < 1e6 else 0) and size != 64:
        return _StoredType(nearest_type)
    words = "a whole column" if size <= 0 else as_text(size).strip("'").removesuffix(".0")
    return _StoredType(nearest_type, f"scales of {words} weights, taken as of {nearest_type.removeprefix('int4-g')}")


def _group_size(value: object) -> float:
    """A group size; -1 (a whole column) if nothing states a number."""
    return float(value) if isinstance(value, int | float) else -1.0


# --- what became of each key


def _verdicts_inside(tree: Mapping[Any, Any], above: str, place: Place | None, depth: int) -> Iterator[StatedKey]:
    """The verdict for every key of the settings at every level of nesting."""
    for key, value in tree.items():
        name, at = str(key), getattr(key, "place", None) or place
        opened = isinstance(value, Mapping) and depth < _DEEPEST and name not in ("producer", "meta")
        if opened and name in ("config_groups", "quantized_layers"):
            for group, inside in value.items():
                if isinstance(inside, Mapping):
                    yield from _verdicts_inside(inside, f"{above}{name}.{group}.", at, depth + 2)
        elif opened and (name in ("quantization", "kv_cache_scheme") or name in _READ):
            yield from _verdicts_inside(value, f"{above}{name}.", at, depth + 1)
        else:
            quiet = _is_without_cost(name, value) and not (value and isinstance(value, Mapping))
            verdict: Verdict = "read" if name in _READ else "no effect" if quiet else "not expressible"
            yield StatedKey(printable(f"{above}{name}"), verdict, at)


def _is_without_cost(name: str, value: Any) -> bool:
    """Whether a setting does not affect types, or has a value without effect."""
    return name in _QUIET or name.startswith("bnb_4bit_") or value in (None, False, 0, "", [], {})
