"""Models by their Hugging Face Hub names: the shipped model of the same shape, without reading the Hub."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Sequence

from costmodel.documents.keys.suggestions import holds, nearest
from costmodel.documents.reader.folders import SUFFIXES

_ADDRESS = re.compile(r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/|hf:(?://)?")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
# What a name ends with that leaves the shape as it is.
_ENDINGS = re.compile(r"(?:[-_](?:instruct|chat|base|hf|it|pt|bf16|fp16|fp8|nvfp4|original|deduped))+\Z")
# Names on the hub, without their owner, that are not those of the documents.
_OTHERS = {
    "bloom": "bloom-176b",
    "bloom-7b1": "bloom-7.1b",
    "c4ai-command-a-03-2025": "command-a",
    "c4ai-command-r-plus": "command-r-plus",
    "c4ai-command-r-v01": "command-r",
    "c4ai-command-r7b-12-2024": "command-r7b",
    "deepseek-r1": "deepseek-v3",
    "deepseek-r1-0528": "deepseek-v3",
    "deepseek-r1-distill-llama-70b": "llama-3.1-70b",
    "deepseek-r1-distill-llama-8b": "llama-3.1-8b",
    "deepseek-r1-distill-qwen-14b": "qwen-2.5-14b",
    "deepseek-r1-distill-qwen-32b": "qwen-2.5-32b",
    "deepseek-r1-distill-qwen-7b": "qwen-2.5-7b",
    "deepseek-r1-nvfp4": "deepseek-v3",
    "deepseek-v3-0324": "deepseek-v3",
    "deepseek-v3.1": "deepseek-v3",
    "deepseek-v3.1-nvfp4": "deepseek-v3",
    "gpt2": "gpt-2-small",
    "granite-4.0-h-micro": "granite-4-h-micro",
    "granite-4.0-h-small": "granite-4-h-small",
    "granite-4.0-h-tiny": "granite-4-h-tiny",
    "granite-4.0-micro": "granite-4-micro",
    "kimi-k2.5": "kimi-k2",
    "llama-3.3-70b": "llama-3.1-70b",
    "llama-3_3-nemotron-super-49b-v1": "nemotron-super-49b",
    "llama-4-maverick-17b-128e": "llama-4-maverick",
    "llama-4-scout-17b-16e": "llama-4-scout",
    "minimax-m2.1": "minimax-m2",
    "minimax-m2.5": "minimax-m2",
    "ministral-3-14b-base-2512": "ministral-3-14b",
    "ministral-3-14b-instruct-2512": "ministral-3-14b",
    "ministral-3-14b-reasoning-2512": "ministral-3-14b",
    "ministral-3-3b-base-2512": "ministral-3-3b",
    "ministral-3-3b-instruct-2512": "ministral-3-3b",
    "ministral-3-3b-reasoning-2512": "ministral-3-3b",
    "ministral-3-8b-base-2512": "ministral-3-8b",
    "ministral-3-8b-instruct-2512": "ministral-3-8b",
    "ministral-3-8b-reasoning-2512": "ministral-3-8b",
    "ministral-8b-instruct-2410": "ministral-8b",
    "mistral-7b-instruct-v0.1": "mistral-7b-v0.1",
    "mistral-7b-instruct-v0.3": "mistral-7b",
    "mistral-7b-v0.3": "mistral-7b",
    "mistral-large-instruct-2407": "mistral-large-2",
    "mistral-large-instruct-2411": "mistral-large-2",
    "mistral-nemo-base-2407": "mistral-nemo-12b",
    "mistral-nemo-instruct-2407": "mistral-nemo-12b",
    "mistral-small-24b-base-2501": "mistral-small-24b",
    "mistral-small-24b-instruct-2501": "mistral-small-24b",
    "mixtral-8x22b-v0.3": "mixtral-8x22b",
    "mixtral-8x7b-instruct-v0.1": "mixtral-8x7b",
    "mixtral-8x7b-v0.1": "mixtral-8x7b",
    "nemotron-h-56b-base-8k": "nemotron-h-56b",
    "nemotron-h-8b-base-8k": "nemotron-h-8b",
    "nvidia-nemotron-3-nano-30b-a3b-bf16": "nemotron-3-nano-30b-a3b",
    "olmo-2-0325-32b": "olmo-2-32b",
    "olmo-2-1124-13b": "olmo-2-13b",
    "olmo-2-1124-7b": "olmo-2-7b",
    "olmo-3-1025-7b": "olmo-3-7b",
    "olmo-3-1125-32b": "olmo-3-32b",
    "olmoe-1b-7b-0924": "olmoe-1b-7b",
    "phi-3-medium-128k": "phi-3-medium",
    "phi-3-medium-4k": "phi-3-medium",
    "phi-3-mini-4k": "phi-3-mini",
}
_NEAR = 0.75


@functools.lru_cache(maxsize=4096)  # a table of runs compares each name with every model
def squeezed(name: str) -> str:
    """A name without what is between its letters and figures."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def is_hub_name(name: str) -> bool:
    """Whether a name is written as on the hub, owner/name, and is no path of a file or folder here.

    >>> is_hub_name("meta-llama/Llama-3.1-8B"), is_hub_name("./mine.yaml"), is_hub_name("llama-3.1-8b")
    (True, False, False)
    """
    plain = _ADDRESS.sub("", name, count=1)
    if not _NAME.fullmatch(plain) or (plain == name and name.endswith(SUFFIXES)):
        return False
    return plain != name or not os.path.isdir(name.split("/")[0])


def shape_of(name: str, known: Sequence[str]) -> str:
    """The shipped model of the shape that a name stands for, of any owner; empty where there is none.

    >>> shape_of("Qwen/Qwen2.5-7B-Instruct", ["qwen-2.5-7b"]), shape_of("Qwen/Qwen2.5-Coder-7B", ["qwen-2.5-7b"])
    ('qwen-2.5-7b', '')
    """
    last = name.rpartition("/")[2].lower().removeprefix("meta-")
    for word in (last, _ENDINGS.sub("", last)):
        if _OTHERS.get(word) in known:
            return _OTHERS[word]
        same = [model for model in known if squeezed(model) == squeezed(word)]
        if same:
            return same[0]
    return ""


def nearest_shape(name: str, known: Sequence[str]) -> str:
    """The shipped model whose name looks most like one on the hub, or nothing."""
    last = _ENDINGS.sub("", name.rpartition("/")[2].lower())
    if any(holds(model, last) for model in known):
        return nearest(last, known)
    by_letters = {squeezed(model): model for model in known}
    return by_letters.get(nearest(squeezed(last), by_letters, _NEAR), "")
