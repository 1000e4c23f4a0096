"""The types that a checkpoint keeps its weights in, as its name on the hub or its path states them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from costmodel.documents.reader.hub_names import STORED_WORDS, is_hub_name, last_part
from costmodel.documents.schemas.precision import STORED, STORED_EXPERTS, WeightType

_ROWS = tuple(
    (re.compile(rf"(?:^|[-_.:])({'|'.join(row.words.split())})(?=$|[-_.:])"), row.type) for row in STORED_WORDS
)
_SCALED = re.compile(r"\Anvidia/.*|.*-kv\Z")  # of checkpoints with scales for the cache
_OF_ATTENTION = 126 * 2 * 16384 * (16384 + 1024)  # parameters of Llama 3.1 405B
_KIMI = {"stored": "bf16", "stored_experts": "int4-g32"}
_LLAMA_405B = {"stored": "fp8", "stored_wide": _OF_ATTENTION + 2 * 3 * 16384 * 53248}
# Checkpoints whose own files state more than their names, in small letters; of a path, the last part counts.
_PUBLISHED: dict[str, dict[str, Any]] = {
    "moonshotai/kimi-k2-thinking": _KIMI,
    "moonshotai/kimi-k2.5": _KIMI,
    "moonshotai/kimi-k2.6": _KIMI,
    # attention, and the first and last MLP, stay in 16 bits
    "meta-llama/llama-3.1-405b-fp8": _LLAMA_405B,
    "meta-llama/llama-3.1-405b-instruct-fp8": _LLAMA_405B,
    "meta-llama/llama-4-maverick-17b-128e-instruct-fp8": {"stored": "bf16", "stored_experts": "fp8"},
    **{f"mistralai/ministral-3-{size}-instruct-2512": {"stored": "fp8"} for size in ("3b", "8b", "14b")},
    "mistralai/devstral-small-2-24b-instruct-2512": {"stored": "fp8"},
}


def types_by_name(name: str, shape: str) -> Mapping[str, Any]:
    """The document keys for stored weight types that the name of a checkpoint implies.

    >>> types_by_name("RedHatAI/Llama-3.1-8B-Instruct-FP8-dynamic", "llama-3.1-8b"), types_by_name("qwen-3-8b", "")
    ({'stored': 'fp8'}, {})
    >>> types_by_name("/models/Kimi-K2.5", "kimi-k2")
    {'stored': 'bf16', 'stored_experts': 'int4-g32'}
    """
    last = last_part(name).lower()
    plain = re.sub(r"\A(.*/)?meta-(?=llama)", r"\1", name.lower())
    published = _PUBLISHED.get(plain) if is_hub_name(name) else None
    if published is None and not is_hub_name(name):
        published = next((keys for own, keys in _PUBLISHED.items() if last_part(own) == last), None)
    if published is not None:
        return published
    kind, _ = _stated(name)
    if kind is None:
        return {}
    if kind == "bf16":
        narrow = {"stored": STORED.get(shape), "stored_experts": STORED_EXPERTS.get(shape)}
        return {key: kind for key, held in narrow.items() if held}
    found = {"stored": kind} | ({"stored_experts": kind} if shape in STORED_EXPERTS else {})
    scaled = kind in ("fp8", "nvfp4") and _SCALED.match(name.lower())
    return found | ({"stored_cache": "fp8"} if scaled else {})


def _stated(name: str) -> tuple[WeightType | None, str]:
    """The weight type in a checkpoint name, and the matched word; empty if the name states none."""
    last = last_part(name).lower() + ".gguf" * name.lower().endswith(".gguf")
    found = ((kind, pattern.search(last)) for pattern, kind in _ROWS)
    return next(((kind, match.group(1)) for kind, match in found if match is not None), (None, ""))


def name_words(name: str, shape: str) -> str:
    """A sentence on how costmodel interprets the name of a checkpoint.

    >>> name_words("/models/Qwen3-8B-AWQ", "qwen-3-8b")
    'the shape of Qwen3-8B-AWQ, by the last part of the path; weights in int4-g128, by its name'
    """
    of = f"{name} on the hub" if is_hub_name(name) else f"{last_part(name)}, by the last part of the path"
    types = types_by_name(name, shape)
    kinds = [types[key] + (" of experts" if key == "stored_experts" else "") for key in types if key in _NAMED]
    if kinds:
        most = "most " * any(kind.endswith("_k") for kind in kinds)  # GGUF keeps some maps in wider types
        return f"the shape of {of}; {most}weights in {' and '.join(kinds)}, by its name"
    kind, word = _stated(name)
    if kind is not None or not word:
        return f"the shape of {of}"
    kept = STORED.get(shape) or STORED_EXPERTS.get(shape)
    counted = f"counted as the published checkpoint, in {kept}" if kept else "counted in 16 bits"
    return f"the shape of {of}; no type here stands for {word.upper()}: {counted}; workload.weights states another"


_NAMED = ("stored", "stored_experts")
