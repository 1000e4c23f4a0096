"""The types that a checkpoint keeps its weights in, as its name on the hub or its path states them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from costmodel.documents.reader.hub_names import is_hub_name, last_part
from costmodel.documents.schemas.precision import STORED, STORED_EXPERTS

# Types by words of a name; the first that stands in it counts.
_WORDS = (
    (r"unquantized", None),
    (r"nvfp4|fp4", "nvfp4"),
    (r"mxfp4", "mxfp4"),
    (r"fp8[-_]block", "fp8-block"),
    (r"fp8", "fp8"),
    (r"w8a8|w8a16|int8|8bit|q8(?:_\w+)?", "int8"),
    (r"mlx-4bit|4bit-mlx|q4(?:_\w+)?|iq4(?:_\w+)?", "int4-g32"),
    (r"awq|gptq|int4|w4a16|4bit|autoround", "int4-g128"),
)
_TYPES = tuple((re.compile(rf"(?:^|[-_.:])(?:{words})(?=$|[-_.:])"), kind) for words, kind in _WORDS)
_WIDE = re.compile(r"[-_.](?:bf16|fp16|unquantized)(?=$|[-_.:])")
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
    """Keys of the model document that the name of a checkpoint of that shipped shape states.

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
    kind = next((kind for pattern, kind in _TYPES if pattern.search(last)), None)
    if kind is None:
        narrow = {"stored": STORED.get(shape), "stored_experts": STORED_EXPERTS.get(shape)}
        return {key: "bf16" for key, held in narrow.items() if held} if _WIDE.search(last) else {}
    found = {"stored": kind} | ({"stored_experts": kind} if shape in STORED_EXPERTS else {})
    scaled = kind in ("fp8", "nvfp4") and _SCALED.match(name.lower())
    return found | ({"stored_cache": "fp8"} if scaled else {})


def name_words(name: str, shape: str) -> str:
    """What the name of a checkpoint was taken for, in words.

    >>> name_words("/models/Qwen3-8B-AWQ", "qwen-3-8b")
    'the shape of Qwen3-8B-AWQ, by the last part of the path; weights in int4-g128, by its name'
    """
    of = f"{name} on the hub" if is_hub_name(name) else f"{last_part(name)}, by the last part of the path"
    types = types_by_name(name, shape)
    kinds = [types[key] + (" of experts" if key == "stored_experts" else "") for key in types if key in _NAMED]
    if not kinds and re.search(r"[-_.]gguf", name.lower()):
        return f"the shape of {of}; its name does not state the type of its weights"
    return f"the shape of {of}" + (f"; weights in {' and '.join(kinds)}, by its name" if kinds else "")


_NAMED = ("stored", "stored_experts")
