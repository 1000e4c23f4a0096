"""Formats of other tools: which there are, which of their options fill which key, and what each does not state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from costmodel.exchange.exporters.export import TARGETS
from costmodel.exchange.formats import (
    ACCELERATE,
    ARGUMENTS,
    AXOLOTL,
    BRIDGE,
    DEEPSPEED,
    LLAMA_FACTORY,
    MAXTEXT,
    MEGATRON,
    NANOTRON,
    TORCHTITAN,
    TORCHTUNE,
)
from costmodel.exchange.importers.launch import (
    accelerate,
    axolotl,
    bridge,
    deepspeed,
    llama_factory,
    maxtext,
    nanotron,
    torchtitan_keys,
    torchtune,
    training_arguments,
)
from costmodel.exchange.importers.launch.not_stated import NOT_STATED
from costmodel.exchange.importers.megatron.table import OPTIONS, UNFILLED_KEYS
from costmodel.exchange.importers.serving import sglang_options, trtllm_options, vllm_options
from costmodel.exchange.importers.serving.not_in_commands import NOT_STATED_BY_ENGINES
from costmodel.exchange.values.foreign_keys import ForeignKey

_VLLM, _SGLANG, _TRT = (f"command of {name}" for name in ("vLLM 0.33", "SGLang 0.5", "TensorRT-LLM"))
TABLES: dict[str, tuple[str, Mapping[str, ForeignKey]]] = {
    BRIDGE: ("bridge", bridge.TABLE),
    DEEPSPEED: ("deepspeed", deepspeed.TABLE),
    ACCELERATE: ("accelerate", accelerate.TABLE),
    ARGUMENTS: ("hf", training_arguments.TABLE),
    TORCHTITAN: ("torchtitan", torchtitan_keys.TABLE),
    AXOLOTL: ("axolotl", axolotl.TABLE),
    LLAMA_FACTORY: ("llama-factory", llama_factory.TABLE),
    TORCHTUNE: ("torchtune", torchtune.TABLE),
    NANOTRON: ("nanotron", nanotron.TABLE),
    MAXTEXT: ("maxtext", maxtext.TABLE),
    _VLLM: ("vllm", vllm_options.TABLE),
    _SGLANG: ("sglang", sglang_options.TABLE),
    _TRT: ("trt-llm", trtllm_options.TABLE),
}
ENGINES = ("vllm", "sglang", "trt-llm")


class FormatOption(NamedTuple):
    """An option with the keys that it fills, or what is lost of it; neither where it costs nothing."""

    option: str
    fills: str
    lost: str


class LaunchFormat(NamedTuple):
    """A format by a short name, with its options, keys it does not state, and whether export writes it."""

    name: str
    title: str
    options: tuple[FormatOption, ...]
    not_stated: Mapping[str, str]
    written: bool


def launch_formats(prefix: str = "") -> list[LaunchFormat]:
    """The formats whose short name begins so."""
    return [entry for entry in _formats() if entry.name.startswith(prefix.lower())]


def _formats() -> Iterator[LaunchFormat]:
    options = (FormatOption(f"--{name}", option.fills, "") for name, option in OPTIONS.items())
    yield LaunchFormat("megatron", MEGATRON, tuple(options), UNFILLED_KEYS, True)
    for title, (name, table) in TABLES.items():
        written = name in TARGETS or name in ENGINES
        not_stated = NOT_STATED_BY_ENGINES[name] if name in ENGINES else NOT_STATED[title]
        yield LaunchFormat(name, title, tuple(_options(table.items())), not_stated, written)


def _options(table: Iterable[tuple[str, ForeignKey]]) -> Iterator[FormatOption]:
    for name, rule in table:
        yield FormatOption(name, rule.fills, f"{rule.loss[0]}: {rule.loss[1]}" if rule.loss is not None else "")
