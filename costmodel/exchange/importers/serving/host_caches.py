"""Options of engines that keep cache on the host, as memory of the host for each rank."""

from __future__ import annotations

import math
from typing import Any

from costmodel.exchange.importers.launch.layer import Layer
from costmodel.exchange.importers.serving.drafts import json_option
from costmodel.exchange.values.foreign_keys import ForeignKeys

GIB, GB = 2.0**30, 1e9
SIZE, RATIO = "stack.host_cache.size", "stack.host_cache.ratio"
_OFFLOADING = "OffloadingConnector"
_OF_CONNECTOR = "cpu_bytes_to_use"
_ELSEWHERE = "prompts and answers are computed apart, or another program keeps the cache"
_THROUGH = ("write_through", "write_through_selective")


def fill_vllm_host_cache(keys: ForeignKeys, layer: Layer) -> None:
    """A size of all ranks of an engine together, in GiB; or the connector that it stands for, in bytes."""
    whole, name = keys["kv-offloading-size"].value, "kv-offloading-size"
    if whole is not None:
        whole = float(whole) * GIB
    elif (found := json_option(keys, "kv-transfer-config")) is not None:
        name = "kv-transfer-config"
        extra = found.get("kv_connector_extra_config")
        whole = _number(extra.get(_OF_CONNECTOR)) if isinstance(extra, dict) else None
        if found.get("kv_connector") != _OFFLOADING or whole is None:
            keys.lose("not expressible", _ELSEWHERE, name)
            return
    ranks = (keys["tensor-parallel-size"].value or 1) * (keys["pipeline-parallel-size"].value or 1)
    if whole:
        _fill_size(keys, layer, name, whole / max(ranks, 1), f"{name} over {ranks} ranks")


def fill_sglang_host_cache(keys: ForeignKeys, layer: Layer) -> None:
    """A size of each rank in GB, or else a multiple of the device's pool; nothing without the switch."""
    if not keys["enable-hierarchical-cache"].value:
        return
    policy = keys["hicache-write-policy"].value
    if policy not in _THROUGH:
        keys.lose("approximated", f"{policy}: what leaves the device is written to the host", "hicache-write-policy")
    size, ratio = keys["hicache-size"].value, keys["hicache-ratio"]
    if size:
        _fill_size(keys, layer, "hicache-size", float(size) * GB, "hicache-size, of each rank")
    elif ratio.value > 0:
        layer.facts[RATIO] = ratio
    else:
        sentence = f"hicache-ratio is {ratio.value:g} and no hicache-size is stated"
        keys.refuse("X005", sentence, "hicache-ratio")


def fill_trtllm_host_cache(keys: ForeignKeys, layer: Layer) -> None:
    """A size of each rank in bytes."""
    name = "kv_cache_config.host_cache_size"
    size = keys[name].value
    if size:
        _fill_size(keys, layer, name, float(size), "host_cache_size, of each rank")


def _number(value: Any) -> float | None:
    text = str(value)
    return float(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def _fill_size(keys: ForeignKeys, layer: Layer, name: str, nbytes: float, origin: str) -> None:
    if not (math.isfinite(nbytes) and 0 < nbytes <= 2.0**60):
        keys.refuse("X005", f"{name} is no size of memory", name)
        return
    layer.facts[SIZE] = keys.derived(size_text(nbytes), origin, name)


def size_text(nbytes: float) -> str:
    """Bytes as a scenario writes them.

    >>> size_text(64 * 2.0**30), size_text(30e9)
    ('64 GiB', '30 GB')
    """
    return f"{nbytes / GB:.0f} GB" if nbytes % GB == 0 else f"{nbytes / GIB:.10g} GiB"
