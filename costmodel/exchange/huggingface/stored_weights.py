"""The types that a checkpoint keeps its weights and the cache in, of quantization_config in a config.json.

Methods are those of transformers 5 that engines serve: fp8, fbgemm_fp8, awq, gptq, bitsandbytes, compressed-tensors,
mxfp4, and modelopt of NVIDIA.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costmodel.exchange.huggingface.family import Config
from costmodel.exchange.imported import Loss, Origin, OriginValue
from costmodel.exchange.values.foreign_values import shown
from costmodel.ground.errors import Place
from costmodel.ground.record import record

KEYS = ("quantization_config", "compression_config")
GROUP = 128  # weights that share a scale, of int4-g128
_INTEGERS = {4.0: "int4-g128", 8.0: "int8"}  # by bits
_FLOATS = {16.0: "nvfp4", 32.0: "mxfp4"}  # of four bits, by weights that share a scale
_ALGORITHMS = {
    "fp8": "fp8",
    "nvfp4": "nvfp4",
    "w4a16_nvfp4": "nvfp4",
    "w4a8_nvfp4_fp8": "nvfp4",
    "w4a8_mxfp4_fp8": "mxfp4",
    "fp8_pb_wo": "fp8-block",
    "fp8_pb_real": "fp8-block",
    "w4a16_awq": "int4-g128",
    "w4a8_awq": "int4-g128",
    "int4_awq": "int4-g128",
    "w8a16": "int8",
    "w8a8_sq_per_channel": "int8",
}


@record
class _Kept:
    """What the settings come to: a type, or nothing, and whether weights share scales in other groups."""

    type: str | None
    group: float = GROUP


def stored_weights(config: Config, *, mixture: bool) -> tuple[dict[str, OriginValue], list[Loss]]:
    """Keys of the model document, and what is lost where the settings name a type that no engine document has."""
    key = next((key for key in config.tree if str(key) in KEYS and config.tree[key]), None)
    if key is None:
        return {}, []
    settings, place = config.tree[key], getattr(key, "place", None)
    method = str(settings.get("quant_method", "")).lower() if isinstance(settings, Mapping) else ""
    kept = _kept(method, settings) if isinstance(settings, Mapping) else _Kept(None)
    named = f"{key}: {method or 'no quant_method'}"
    cache, losses = _cache(settings, key, place) if isinstance(settings, Mapping) else ({}, [])
    if kept.type is None:
        sentence = f"{named}: no type of weights here stands for it; workload.weights states the nearest"
        return cache, [Loss("not expressible", sentence, place), *losses]
    of = "stored_experts" if mixture and (method == "mxfp4" or _experts_alone(settings)) else "stored"
    if kept.type == "int4-g128" and kept.group != GROUP:
        words = "a whole column" if kept.group <= 0 else shown(kept.group).strip("'")
        losses.append(Loss("approximated", f"{named}: scales of {words} weights, taken as of {GROUP}", place))
    found = cache | {of: OriginValue(kept.type, Origin("file", f"{key}.quant_method", place))}
    return found | (_of_experts(config, settings) if mixture else {}), losses


def _cache(settings: Mapping[str, Any], key: object, place: Place | None) -> tuple[dict[str, OriginValue], list[Loss]]:
    """The type of keys and values that the checkpoint has scales for, and the loss of one that no workload has."""
    inner = settings.get("quantization")
    for part in (settings, inner if isinstance(inner, Mapping) else {}):
        scheme, algorithm = part.get("kv_cache_scheme"), part.get("kv_cache_quant_algo")
        if isinstance(scheme, Mapping):
            name, kind = "kv_cache_scheme", f"{scheme.get('type', 'int')}{shown(scheme.get('num_bits'))}"
        elif algorithm:
            name, kind = "kv_cache_quant_algo", str(algorithm).lower()
        else:
            continue
        if kind in ("float8", "fp8"):
            return {"stored_cache": OriginValue("fp8", Origin("file", f"{key}.{name}", place))}, []
        sentence = f"{key}.{name} {kind}: no type of the cache here stands for it; workload.cache states the nearest"
        return {}, [Loss("not expressible", sentence, place)]
    return {}, []


def _of_experts(config: Config, settings: Mapping[str, Any]) -> dict[str, OriginValue]:
    """The type of routed experts where expert_dtype states a narrower one; its groups have scales of powers of two."""
    value, place = config.written("expert_dtype")
    stated = settings.get("expert_dtype", value)
    return {"stored_experts": OriginValue("mxfp4", Origin("file", "expert_dtype", place))} if stated == "fp4" else {}


def _kept(method: str, settings: Mapping[str, Any]) -> _Kept:
    bits = _number(settings.get("bits", settings.get("w_bit", 4)))
    group = _number(settings.get("group_size", GROUP))
    if method in ("fp8", "fbgemm_fp8"):
        return _Kept("fp8-block" if settings.get("weight_block_size") else "fp8")
    if method in ("awq", "gptq"):
        return _Kept(_INTEGERS.get(bits), group)
    if method == "bitsandbytes":
        return _Kept("int8" if settings.get("load_in_8bit") else None)
    if method == "mxfp4":
        return _Kept("mxfp4")
    if method in ("modelopt", "modelopt_fp4") and not settings.get("config_groups"):
        inner = settings.get("quantization")
        algorithm = settings.get("quant_algo") or (inner.get("quant_algo") if isinstance(inner, Mapping) else None)
        return _Kept(_ALGORITHMS.get(str(algorithm).lower()))
    if method in ("compressed-tensors", "modelopt", "modelopt_fp4"):
        return _of_groups(settings.get("config_groups"))
    return _Kept(None)


def _of_groups(groups: object) -> _Kept:
    """Of compressed-tensors: the weights of the first group, as all that are known have one."""
    first = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    weights = first.get("weights") if isinstance(first, Mapping) else None
    if not isinstance(weights, Mapping):
        return _Kept(None)
    bits, group = _number(weights.get("num_bits")), _number(weights.get("group_size"))
    kind = weights.get("type", "int")
    if kind == "float" and bits == 8:
        return _Kept("fp8-block" if weights.get("strategy") == "block" or weights.get("block_structure") else "fp8")
    if kind == "float" and bits == 4:
        return _Kept(_FLOATS.get(group))
    return _Kept(_INTEGERS.get(bits) if kind == "int" else None, group)


def _number(value: object) -> float:
    """A group size; nothing, or -1, is a whole column."""
    return float(value) if isinstance(value, int | float) else -1.0


def _experts_alone(settings: Mapping[str, Any]) -> bool:
    """Whether attention is among the modules that stay wide."""
    lists = (settings.get(name) for name in ("ignore", "modules_to_not_convert", "exclude_modules"))
    return any("attn" in str(module) for each in lists if isinstance(each, list) for module in each)
