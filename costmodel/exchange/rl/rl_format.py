"""What formats of reinforcement learning share: how their texts are recognised and read, and keys that few state."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, NamedTuple

from costmodel.exchange.foreign_keys import ForeignKeys
from costmodel.exchange.format import Format, because
from costmodel.exchange.imported import OriginValue
from costmodel.exchange.rows import Row, Table, choice, lost, part
from costmodel.exchange.serving.option_words import Spelling
from costmodel.exchange.training.layer import Layer, layer_of_rows, with_remarks
from costmodel.ground.record import record

# Reasons why a format does not state a key, for keys that no row of its table fills.
_USUAL = {
    **because("a property of the data, which no configuration states", "prompt response.mean response.spread filtered",
              "workload"),
    **because("tools and judges are programs", "environment", "workload"),
    **because("replicas agree at every step", "sync sites compression shares"),
    **because("it has one exchange for the context", "cp_type"),
    **because("ranks lie in its own order", "order"),
    **because("the host is the only place", "offload_to offload_layers"),
    "stack.trainer": "the software has one trainer",
    "workload.kind": "always reinforcement learning",
    "workload.epochs": "each answer is trained on once",
    "workload.reward": "a program gives it",
    "workload.old_log_probabilities": "its trainer computes them",
    "workload.gradients": "the trainer has one type of sums",
    "workload.rollout_precision": "engines read the trainer's type",
}  # fmt: skip
ENGINES = {"vllm": "vllm", "sglang": "sglang"}
UNDESCRIBED = "no document describes it as an engine that generates here"
ADAPTERS = "adapters: here all weights are trained"
UNEXPRESSED = "no workload expresses it"
TYPES = choice({"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"})
GRANULARITY = choice({"full": "full", "selective": "selective", "null": "none"})
DEGREES = {
    "tensor_model_parallel_size": "plan.tp",
    "pipeline_model_parallel_size": "plan.pp",
    "context_parallel_size": "plan.cp",
    "expert_model_parallel_size": "plan.ep",
    "expert_tensor_parallel_size": "plan.etp",
}  # of Megatron Core


class Follows(NamedTuple):
    """A fact that follows from the values of options, between blanks."""

    key: str
    options: str
    value: Callable[..., Any]


@record
class RlFormat(Format):
    """A format of reinforcement learning.

    marks: what only texts of it have. program: a command that is of it. configured: options that name a configuration
    which its words override. built_in: configurations that are the software's own, with what they state beyond the
    defaults of rows. base: the last of a row of configurations; where its file is missing, the defaults of the rows
    are its values. spelling: of options; None where words such as a.b=1 override the configuration. follows: facts
    that follow from several options. beyond: reads what no row expresses.
    """

    marks: re.Pattern[str] = re.compile("(?!)")
    program: re.Pattern[str] = re.compile("(?!)")
    configured: tuple[str, ...] = ("--config", "--config-name", "--config-path")
    built_in: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    base: str = ""
    spelling: Spelling | None = None
    follows: tuple[Follows, ...] = ()
    beyond: Callable[[ForeignKeys, Layer], None] = field(default=lambda keys, layer: None, repr=False)

    def read(self, tree: Mapping[Any, Any], file: str) -> Layer:
        """What a text states, with the configurations that it overrides."""
        keys = ForeignKeys(tree, self.table, file, self.version, open_numbers=False)
        layer = layer_of_rows(keys, self.title)
        layer.facts["stack"] = keys.derived(self.name, self.version.rpartition(" ")[0], next(iter(keys.stated), ""))
        for row in self.follows:
            options = row.options.split()
            stated_if(keys, layer, row.key, row.value(*(keys[name].value for name in options)), *options)
        self.beyond(keys, layer)
        return with_remarks(keys, layer)


def not_stated(table: Table, own: Mapping[str, str]) -> dict[str, str]:
    """The keys that no option of a table states, with the usual reasons and those of the format alone."""
    filled = {path for row in table.values() for path in row.fills.split()}
    return {**{key: reason for key, reason in _USUAL.items() if key not in filled}, **own}


def tools(names: str, *harmless: Any) -> list[Row]:
    """Options by which an answer waits for something outside of the model."""
    return lost("not expressible", "turns with tools or an environment: state workload.environment", names, *harmless)


def eager(name: str) -> Row:
    """An option by which engines run without CUDA graphs."""
    return part(name, "", "flag", False, loss=("approximated", "engines without graphs: here with them"))


def fill_algorithm(keys: ForeignKeys, layer: Layer, name: str, exact: tuple[str, ...], dropping: str) -> None:
    """The algorithm: dapo where prompts are dropped; those without a critic cost what grpo costs, not all `exact`."""
    kind, written = keys[name], str(keys.stated.get(name, (keys.table[name].default,))[0])
    if kind.value == "grpo" and written not in exact:
        lose_algorithm(keys, written, name)
    dropped = keys[dropping]
    layer.fill("workload.algorithm", dropped._replace(value="dapo") if dropped.value else kind)


def lose_algorithm(keys: ForeignKeys, written: object, name: str) -> None:
    """A loss for an algorithm that costs what grpo costs."""
    keys.lose("approximated", f"{str(written)[:40]} has no critic: what it costs is what grpo costs", name)


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
