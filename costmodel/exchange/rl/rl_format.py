"""What formats of reinforcement learning share: how their texts are recognised, and keys that none of them states."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from costmodel.exchange.foreign_keys import ForeignKeys
from costmodel.exchange.format import Format, because
from costmodel.exchange.imported import OriginValue
from costmodel.exchange.rows import Row, lost
from costmodel.exchange.serving.option_words import Spelling
from costmodel.exchange.training.layer import Layer
from costmodel.ground.record import record

AS_GRPO = "has no critic: what it costs is what grpo costs"

# Keys that no software of reinforcement learning states in a file of its own, with the reasons.
NOWHERE = {
    **because("a property of the data, which no configuration states", "prompt response.mean response.spread filtered",
              "workload"),
    **because("tools and judges are programs", "environment", "workload"),
    **because("replicas agree at every step", "sync sites compression shares"),
    "stack.trainer": "the software has one trainer",
    "workload.kind": "always reinforcement learning",
}  # fmt: skip
ENGINES = {"vllm": "vllm", "sglang": "sglang"}
UNDESCRIBED = "no document describes it as an engine that generates here"
TOOLS = ("not expressible", "turns with tools or an environment: state workload.environment")
ADAPTERS = "adapters: here all weights are trained"


@record
class RlFormat(Format):
    """A format of reinforcement learning.

    marks: what only texts of it have. program: a command that is of it. configured: options that name a configuration
    which its words stand over. built_in: configurations that are the software's own, with what they state beyond the
    defaults of rows. base: the last of a row of
    configurations, whose values are the defaults of the rows where it is not there. spelling: of options; None where
    words such as a.b=1 stand over the configuration.
    """

    marks: re.Pattern[str] = re.compile("(?!)")
    program: re.Pattern[str] = re.compile("(?!)")
    configured: tuple[str, ...] = ("--config", "--config-name", "--config-path")
    built_in: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    base: str = ""
    spelling: Spelling | None = None
    read: Callable[[Mapping[Any, Any], str], Layer] = field(default=lambda tree, file: Layer(""), repr=False)


def tools(names: str, *harmless: Any) -> list[Row]:
    """Options by which an answer waits for something outside of the model."""
    return lost("not expressible", TOOLS[1], names, *harmless)


def engine_of(keys: ForeignKeys, name: str, layer: Layer) -> None:
    """The engine that generates, where a document describes it."""
    found = keys[name]
    if found.value in ENGINES:
        layer.fill("stack.rollout", found._replace(value=ENGINES[found.value]))
    elif found.value:
        keys.refuse("X003", f"{name} {str(found.value)[:40]}: {UNDESCRIBED}", name, "--set stack.rollout=vllm")


def tokens_of(value: OriginValue, ranks: int) -> OriginValue:
    """A micro-batch that holds so many tokens of each rank that shares a sequence."""
    text = value.origin.text if ranks == 1 else f"{value.origin.text} × cp {ranks}"
    return value._replace(value=f"{value.value * ranks} tokens", origin=value.origin._replace(text=text))


def stated_if(keys: ForeignKeys, layer: Layer, path: str, value: Any, *names: str) -> None:
    """A fact that follows from keys, at the place of the first that is stated; a default where none is."""
    first = next((name for name in names if keys.given(name)), "")
    if first:
        layer.facts[path] = keys.derived(value, ", ".join(names), first)
    else:
        layer.weak[path] = keys.assumed(value, f"{', '.join(names)}: left out")
