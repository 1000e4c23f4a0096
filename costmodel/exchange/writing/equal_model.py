"""The model of the library that has the same shape as another model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from costmodel.documents.reader.find_documents import find, said_first
from costmodel.documents.reader.library import names, read
from costmodel.documents.schemas.model import Model
from costmodel.documents.text.files import file_text
from costmodel.ground.errors import CostModelError

_BESIDE = {
    *("schema_", "name", "title", "source", "sources", "check", "note", "published"),
    *("stored", "stored_experts", "stored_wide", "stored_cache"),  # of a checkpoint, not the shape
}


def twin_of(model: Model) -> str:
    """The name of a library model of the same shape, preferably with the same longest sequence; else empty."""
    alike = {name: read("model", name).max_sequence for name in twins_of(model)}
    return next((name for name, longest in alike.items() if longest == model.max_sequence), next(iter(alike), ""))


def twins_of(model: Model) -> tuple[str, ...]:
    """The names of all library models of the same shape, whatever their longest sequence."""
    return tuple(_alike(model))


def _alike(model: Model) -> Iterator[str]:
    for name in names("model"):
        try:
            text = file_text(str(find("model", name)))
            near = said_first(text, "hidden"), said_first(text, "vocab")
            if _figures(near) == (model.hidden, model.vocab) and shape(read("model", name)) == shape(model):
                yield name
        except CostModelError:  # a broken document of the working folder is no twin
            continue


def _figures(written: tuple[str, str]) -> tuple[float, ...]:
    heads = (text.split("#")[0].strip().replace("_", "") for text in written)
    return tuple(float(text) for text in heads if text.isdigit())


def shape(model: Model) -> dict[str, Any]:
    """The properties of a model that affect cost; without names, sources and the order of layer kinds."""
    found = model.model_dump(exclude=_BESIDE if model.positions == "learned" else {*_BESIDE, "max_sequence"})
    found["layers"] = sorted(map(repr, found["layers"]))
    return found


CHECKPOINTS = {
    "deepseek-v2": "deepseek-ai/DeepSeek-V2",
    "deepseek-v3": "deepseek-ai/DeepSeek-V3",
    "gemma-2-27b": "google/gemma-2-27b-it",
    "gemma-2-9b": "google/gemma-2-9b-it",
    "gemma-3-12b": "google/gemma-3-12b-it",
    "gemma-3-27b": "google/gemma-3-27b-it",
    "gemma-3-4b": "google/gemma-3-4b-it",
    "glm-5": "zai-org/GLM-5",
    "gpt-oss-120b": "openai/gpt-oss-120b",
    "gpt-oss-20b": "openai/gpt-oss-20b",
    "kimi-k2": "moonshotai/Kimi-K2-Instruct",
    "llama-2-13b": "meta-llama/Llama-2-13b-hf",
    "llama-2-70b": "meta-llama/Llama-2-70b-hf",
    "llama-2-7b": "meta-llama/Llama-2-7b-hf",
    "llama-3-70b": "meta-llama/Meta-Llama-3-70B",
    "llama-3-8b": "meta-llama/Meta-Llama-3-8B",
    "llama-3.1-405b": "meta-llama/Llama-3.1-405B-Instruct",
    "llama-3.1-70b": "meta-llama/Llama-3.1-70B-Instruct",
    "llama-3.1-8b": "meta-llama/Llama-3.1-8B-Instruct",
    "llama-3.2-1b": "meta-llama/Llama-3.2-1B-Instruct",
    "llama-3.2-3b": "meta-llama/Llama-3.2-3B-Instruct",
    "llama-4-maverick": "meta-llama/Llama-4-Maverick-17B-128E-Instruct",
    "llama-4-scout": "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "minimax-m2": "MiniMaxAI/MiniMax-M2",
    "mistral-7b": "mistralai/Mistral-7B-Instruct-v0.3",
    "mistral-7b-v0.1": "mistralai/Mistral-7B-Instruct-v0.1",
    "mixtral-8x22b": "mistralai/Mixtral-8x22B-v0.3",
    "mixtral-8x7b": "mistralai/Mixtral-8x7B-Instruct-v0.1",
    "nemotron-h-56b": "nvidia/Nemotron-H-56B-Base-8K",
    "nemotron-h-8b": "nvidia/Nemotron-H-8B-Base-8K",
    "qwen-2.5-0.5b": "Qwen/Qwen2.5-0.5B-Instruct",
    "qwen-2.5-1.5b": "Qwen/Qwen2.5-1.5B-Instruct",
    "qwen-2.5-14b": "Qwen/Qwen2.5-14B-Instruct",
    "qwen-2.5-32b": "Qwen/Qwen2.5-32B-Instruct",
    "qwen-2.5-3b": "Qwen/Qwen2.5-3B-Instruct",
    "qwen-2.5-72b": "Qwen/Qwen2.5-72B-Instruct",
    "qwen-2.5-7b": "Qwen/Qwen2.5-7B-Instruct",
    "qwen-3-0.6b": "Qwen/Qwen3-0.6B",
    "qwen-3-1.7b": "Qwen/Qwen3-1.7B",
    "qwen-3-14b": "Qwen/Qwen3-14B",
    "qwen-3-235b-a22b": "Qwen/Qwen3-235B-A22B",
    "qwen-3-30b-a3b": "Qwen/Qwen3-30B-A3B",
    "qwen-3-32b": "Qwen/Qwen3-32B",
    "qwen-3-4b": "Qwen/Qwen3-4B",
    "qwen-3-8b": "Qwen/Qwen3-8B",
    "qwen-3.5-397b-a17b": "Qwen/Qwen3.5-397B-A17B",
}


def checkpoint_name(shipped: str, named: Sequence[str]) -> str:
    """The checkpoint of a model: the scenario's name on the hub, else the published one; may be empty.

    >>> checkpoint_name("qwen-3-8b", []), checkpoint_name("qwen-3-8b", ["me/Qwen3-8B-FP8"]), checkpoint_name("own", [])
    ('Qwen/Qwen3-8B', 'me/Qwen3-8B-FP8', '')
    """
    return named[0] if named else CHECKPOINTS.get(shipped, "")
