"""What formats of reinforcement learning share: the record of a format, jobs to write, and common options."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any, NamedTuple

from costmodel.documents.schemas.base import InTokens
from costmodel.documents.schemas.engine import Engine
from costmodel.documents.schemas.model import Model
from costmodel.documents.schemas.rl import ModelRanks, Rl, RlStack, RolloutPlan
from costmodel.documents.schemas.scenario import Plan
from costmodel.exchange.foreign_keys import ForeignKeys, Format, because
from costmodel.exchange.import_result import OriginValue
from costmodel.exchange.option_rows import NOTHING, Row, Table, choice, lost, nested_sections, part
from costmodel.exchange.serving.command_options import Spelling
from costmodel.exchange.serving.engine_options import wrapped_command
from costmodel.exchange.training.file_facts import Layer, finished_layer, layer_of_rows
from costmodel.ground.record import record

# Reasons why a format does not state a key, for keys that no row of its table fills.
_USUAL = {
    **because("a property of the data, which no configuration states", "prompt response.mean response.spread filtered",
              "workload"),
    **because("tools and judges are programs", "environment", "workload"),
    **because("replicas agree at every step", "sync sites compression shares"),
    **because("it has one exchange for the context", "cp_type"),
    **because("models beside the policy share its accelerators", "beside beside.critic beside.reference beside.reward"),
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
ENGINES = {"vllm": "vllm-0.20", "sglang": "sglang"}  # of the releases that this software runs
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
    """A fact that is derived from the values of several options, whose names are separated by blanks."""

    key: str
    options: str
    value: Callable[..., Any]


@record
class RlJob:
    """A reinforcement-learning job to write: its workload and its completed plans.

    ranks: accelerators of the trainer, and of the engines if they are separate (else 0)
    """

    file: str
    model: Model
    checkpoint: str
    workload: Rl
    plan: Plan
    beside: ModelRanks
    rollout: RolloutPlan
    trainer: str
    engine: Engine
    stack: RlStack
    ranks: tuple[int, int]
    per_node: int
    scored_by_trainer: bool
    optimizer: str

    @property
    def tokens(self) -> int:
        """Tokens of a micro-batch on each rank that shares its sequences; 0 if the micro-batch counts sequences."""
        held = self.plan.micro_batch
        return round(float(held) / self.count("plan.cp")) if isinstance(held, InTokens) else 0

    @property
    def mini_batch(self) -> int:
        """Answers in one optimizer step."""
        return round(self.workload.mini_batch or self.workload.answers)

    def count(self, key: str) -> int:
        """A count of the plan; 1 if it is not stated."""
        return round(self.value(key) or 1)

    def nodes_of(self, ranks: int) -> tuple[int, int]:
        """The number of nodes, and of accelerators per node, for a number of accelerators."""
        return max(1, ranks // self.per_node), min(ranks, self.per_node)

    def value(self, key: str) -> Any:
        """The value of a key or fact; None if it is not stated."""
        place, _, name = key.rpartition(".")
        prompts = self.mini_batch / self.workload.samples
        own = {
            "model": self.checkpoint,
            "longest_prompt": round(self.workload.prompt),
            "longest": round(self.workload.prompt + self.workload.response.limit),
            "mini_prompts": round(prompts) if prompts.is_integer() else None,
            "workload.mini_batch": self.mini_batch,
            "workload.reference": self.workload.refers,
            "workload.reward": "model" if self.workload.judged_by_model else "rule",
            "workload.old_log_probabilities": "trainer" if self.scored_by_trainer else "engine",
            "workload.optimizer": self.optimizer,
            "plan.rollout.memory": f"{100 * self.rollout.memory:.6g} %" if self.rollout.memory else None,
            "stack.trainer": self.trainer,
            "stack.rollout": next((name for name, at in ENGINES.items() if at == self.engine.name), self.engine.name),
            "stack.sharing.sleeps": self.stack.sharing.sleeps,
        }
        holders = {"workload": self.workload, "workload.response": self.workload.response, "plan": self.plan,
                   "plan.beside": self.beside, "plan.rollout": self.rollout, "stack.rollout": self.engine}  # fmt: skip
        found = own[key] if key in own else getattr(holders.get(place), name, None)
        return round(found) if isinstance(found, float) and float(found).is_integer() else found


def _is_default(row: Row, ours: Any) -> bool:
    """Whether a value is the software's default for an option."""
    return row.default is not None and row.kind.read(row.default) == ours


def yaml_lines(tree: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """A tree of texts, numbers and flags as YAML."""
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield f"{indent}{name}:\n"
            yield from yaml_lines(value, f"{indent}  ")
        else:
            yield f"{indent}{name}: {str(value).lower() if isinstance(value, bool) else value}\n"


@record
class RlFormat(Format):
    """A format of reinforcement learning.

    marks: a pattern that only texts of this format match. program: a pattern for its command. configured: options that
    name a configuration file, which other words override. built_in: shipped configurations, with values that differ
    from the row defaults. base: the last configuration in a chain; if its file is missing, the row defaults are its
    values. spelling: of options; None if words such as a.b=1 are overrides. follows: facts derived from several
    options. beyond: reads what no row expresses. program_of: the start of the command to write; without it a YAML file
    is written. several: options that combine several keys.
    """

    marks: re.Pattern[str] = re.compile("(?!)")
    program: re.Pattern[str] = re.compile("(?!)")
    configured: tuple[str, ...] = ("--config", "--config-name", "--config-path")
    built_in: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    base: str = ""
    spelling: Spelling | None = None
    follows: tuple[Follows, ...] = ()
    beyond: Callable[[ForeignKeys, Layer], None] = field(default=lambda keys, layer: None, repr=False)
    program_of: Callable[[RlJob], str] = field(default=lambda job: "", repr=False)
    several: Callable[[RlJob], dict[str, Any]] = field(default=lambda job: {}, repr=False)

    def write(self, job: RlJob, refuse: Callable[[str, str], None]) -> str:
        """The job as a command, or as YAML; options that have their default are left out."""
        options, several = dict[str, Any](), self.several(job)
        for name, row in self.table.items():
            if name in several or not row.is_stated_alone or not self._counts(row, job, several):
                continue
            ours = job.value(row.key)
            theirs = None if ours is None else row.kind.write(ours)
            if ours is not None and theirs is None:
                refuse(row.key, f"{ours} {row.cannot}")
            elif theirs is not None and theirs != NOTHING and not _is_default(row, ours):
                options[name] = theirs
        options |= {name: value for name, value in several.items() if value is not None}
        program = self.program_of(job)
        if not program:
            return "".join(yaml_lines(nested_sections(options)))
        if self.spelling is None:
            return wrapped_command([program, *(f"{name}={value}" for name, value in options.items())])
        words = [f"--{name}" if value is True else f"--{name} {value}" for name, value in options.items()]
        return wrapped_command([program, *words])

    def _counts(self, row: Row, job: RlJob, several: Mapping[str, Any]) -> bool:
        """Whether an option has an effect, given the other options of a job."""
        if row.beside is None:
            return True
        name, wanted = row.beside
        beside = self.table[name]
        value = several[name] if name in several else job.value(beside.key) if beside.is_stated_alone else None
        return bool(wanted(value) if callable(wanted) else value == wanted or (not value and not wanted))

    def read(self, tree: Mapping[Any, Any], file: str) -> Layer:
        """The facts that a text states, including those derived from several options."""
        keys = ForeignKeys(tree, self.table, file, self.version, open_numbers=False)
        layer = layer_of_rows(keys, self.title)
        layer.facts["stack"] = keys.derived(self.name, self.version.rpartition(" ")[0], next(iter(keys.stated), ""))
        for row in self.follows:
            options = row.options.split()
            stated_if(keys, layer, row.key, row.value(*(keys[name].value for name in options)), *options)
        self.beyond(keys, layer)
        return finished_layer(keys, layer)


def not_stated(table: Table, own: Mapping[str, str]) -> dict[str, str]:
    """The keys that no option of a table states, with the usual reasons and those of this format."""
    filled = {path for row in table.values() for path in row.fills.split()}
    return {**{key: reason for key, reason in _USUAL.items() if key not in filled}, **own}


def tool_options(names: str, *harmless: Any) -> list[Row]:
    """Options for tools and other calls outside the model, for which an answer waits."""
    return lost("not expressible", "turns with tools or an environment: state workload.environment", names, *harmless)


def eager_option(name: str) -> Row:
    """An option that makes engines run without CUDA graphs."""
    return part(name, "", "flag", False, loss=("approximated", "engines without graphs: here with them"))


def fill_algorithm(keys: ForeignKeys, layer: Layer, name: str, exact: tuple[str, ...], dropping: str) -> None:
    """Fills the algorithm: dapo if prompts are dropped; other algorithms without a critic cost as much as grpo."""
    kind, written = keys[name], str(keys.stated.get(name, (keys.table[name].default,))[0])
    if kind.value == "grpo" and written not in exact:
        lose_algorithm(keys, written, name)
    dropped = keys[dropping]
    layer.fill("workload.algorithm", dropped._replace(value="dapo") if dropped.value else kind)


def lose_algorithm(keys: ForeignKeys, written: object, name: str) -> None:
    """Records a loss for an algorithm that costmodel treats as grpo."""
    keys.lose("approximated", f"{str(written)[:40]} has no critic: what it costs is what grpo costs", name)


def fill_engine(keys: ForeignKeys, name: str, layer: Layer) -> None:
    """Fills the engine that generates answers; a fault if no document describes it."""
    found = keys[name]
    if found.value in ENGINES:
        layer.fill("stack.rollout", found._replace(value=ENGINES[found.value]))
    elif found.value:
        keys.refuse("X003", f"{name} {str(found.value)[:40]}: {UNDESCRIBED}", name, "--set stack.rollout=vllm")


def tokens_of_micro_batch(value: OriginValue, ranks: int) -> OriginValue:
    """A micro-batch in tokens: tokens per rank × the ranks that share a sequence."""
    text = value.origin.text if ranks == 1 else f"{value.origin.text} × cp {ranks}"
    return value._replace(value=f"{value.value * ranks} tokens", origin=value.origin._replace(text=text))


def stated_if(keys: ForeignKeys, layer: Layer, path: str, value: Any, *names: str) -> None:
    """Fills a fact derived from several keys; it counts as a default if the text states none of them."""
    first = next((name for name in names if keys.given(name)), "")
    if first:
        layer.facts[path] = keys.derived(value, ", ".join(names), first)
    else:
        layer.weak[path] = keys.assumed(value, f"{', '.join(names)}: left out")
