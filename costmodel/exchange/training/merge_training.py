"""Merges the facts of several files to one training scenario: conflicts, degrees, batch, and missing values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from costmodel.documents.reader.validation_errors import validate
from costmodel.documents.schemas.rl import Rl, RlPlan
from costmodel.documents.schemas.scenario import Plan, Training
from costmodel.documents.schemas.serving import Serving, ServingPlan
from costmodel.exchange.import_result import Imported, Origin, OriginValue
from costmodel.exchange.training import accelerate, axolotl, llama_factory, transformers
from costmodel.exchange.training.file_facts import Layer
from costmodel.exchange.values import as_text, placed_document
from costmodel.ground.errors import CostModelError, Fault, Place

_DEGREES = ("tp", "cp", "pp")
_BATCH = "the batch"
CONFIG_FILE = "config.json"  # the origin of a model of transformers
_TREE = ("model", "workload", "stack", "plan", "assume")
_DOCUMENTS = (  # where several state a key, the order of the last counts
    ("plan", RlPlan), ("plan", Plan), ("plan", ServingPlan), ("workload", Rl), ("workload", Training),
    ("workload", Serving),
)  # fmt: skip
_ORDER = {f"{top}.{name}": at for top, schema in _DOCUMENTS for at, name in enumerate(schema.model_fields)}


# Programs that train models of transformers, and their stacks over an engine.
_TRANSFORMERS = {module.TITLE for module in (accelerate, transformers, axolotl, llama_factory)}
UNDER_TRANSFORMERS = {"deepspeed": "transformers-deepspeed", "fsdp1": "transformers-fsdp"}


class MergedFacts:
    """The facts of several layers together; two files that differ are a fault with both places."""

    def __init__(self, layers: Sequence[Layer], file: str) -> None:
        self.file, self.layers = file, layers
        self.facts: dict[str, OriginValue] = {}
        self.faults: list[Fault] = [fault for layer in layers for fault in layer.faults]
        self.warnings: list[Fault] = [fault for layer in layers for fault in layer.warnings]
        self.missing: list[Fault] = []
        self.unless: list[tuple[str, Fault]] = []
        for layer in layers:
            for path, value in layer.facts.items():
                self._state(path, value)
            self.unless += layer.unless
        self.faults += [fault for path, fault in self.unless if path not in self.facts]
        weak = [entry for layer in layers for entry in layer.weak.items()]
        for path, value in sorted(weak, key=lambda entry: entry[1].origin.kind == "assumed"):
            self.facts.setdefault(path, value)  # a default of one format counts more than what another assumes

    def _state(self, path: str, value: OriginValue) -> None:
        """Adds a fact; a fault if another file states another value."""
        before = self.facts.get(path)
        if before is not None and before.value != value.value and value.origin.kind != "assumed":
            place = before.place
            first = f"{place.file}:{place.line}" if place is not None else "another file"
            sentence = f"{path} is {as_text(value.value)} here and {as_text(before.value)} in {first}"
            self.faults.append(Fault("X004", sentence, value.place, "keep one of the two"))
        self.facts[path] = value

    def number(self, path: str, otherwise: int = 1) -> int:
        """A count, or a default if no file states it."""
        value = self.facts.get(path)
        return otherwise if value is None else int(value.value)

    def refuse(self, code: str, sentence: str, path: str, hint: str = "") -> None:
        """A fault at the place of a fact."""
        value = self.facts.get(path)
        self.faults.append(Fault(code, sentence, (value.place if value else None) or Place(self.file), hint))

    def need(self, sentence: str, hint: str) -> None:
        """Records a value that is needed and that no file states."""
        self.missing.append(Fault("X002", sentence, Place(self.file), hint))

    def imported(
        self,
        values: dict[str, Any],
        plan: type[Plan | RlPlan | ServingPlan],
        counts: tuple[str, ...] = ("accelerators", "nodes"),
    ) -> Imported:
        """The imported scenario, with the losses and warnings of its layers; `counts` are the facts of its size."""
        tree, origins = placed_document(values, Place(self.file))
        if "plan" in tree and (plan is Plan or not self.missing):
            validate(plan, tree["plan"], self.file)
        layers = self.layers
        return Imported(
            " with ".join(dict.fromkeys(layer.format for layer in layers if layer.format)),
            tree,
            origins,
            tuple(loss for layer in layers for loss in layer.losses),
            tuple(self.warnings),
            {path: value for path, value in self.facts.items() if path in counts},
            tuple(self.missing),
            tuple(key for layer in layers for key in layer.keys),
        )


def merged_training(layers: Sequence[Layer], file: str, depth: int | None = None) -> Imported:
    """A scenario from layers in order of priority.

    `depth` is the number of layers of the model, if it is known.
    """
    found = MergedFacts(layers, file)
    _settle_engine(found, layers)
    _settle_degrees(found)
    _settle_batch(found)
    _settle_chunks(found, depth)
    _settle_tokens(found)
    for path, what, hint in (
        ("model", "the model is not stated", "add its config.json, or --set model=llama-3.1-8b, for example"),
        ("workload.sequence", "the tokens of a sequence are not stated", "--set workload.sequence=4096, for example"),
        ("workload.precision", "the type to train in is not stated", "--set workload.precision=bf16, for example"),
    ):
        if path not in found.facts:
            found.need(what, hint)
    if found.faults:
        raise CostModelError(*found.faults, *found.missing)
    return found.imported(_scenario_tree(found), Plan)


def _settle_engine(found: MergedFacts, layers: Sequence[Layer]) -> None:
    """Chooses the stack for an engine that trains a transformers model, which has fused attention."""
    stack, models = found.facts.get("stack"), [layer.facts.get("model") for layer in layers]
    by_config = any(model is not None and model.origin.text == CONFIG_FILE for model in models)
    by_trainer = any(layer.format in _TRANSFORMERS for layer in layers)
    if stack is None or stack.origin.kind == "assumed" or not (by_config or by_trainer):
        return
    if stack.value in UNDER_TRANSFORMERS:
        found.facts["stack"] = stack.derived(
            UNDER_TRANSFORMERS[stack.value], f"{stack.value}, and a model of transformers"
        )


def nested_facts(facts: Mapping[str, OriginValue], tops: Sequence[str]) -> dict[str, Any]:
    """Facts as nested mappings, with the keys of plan and workload in document order."""
    own = any(path.startswith("stack.") for path in facts)  # a stack with values of its own
    ordered = sorted(facts, key=lambda path: _ORDER.get(".".join(path.split(".")[:2]), len(_ORDER)))
    tree: dict[str, Any] = {}
    for top in tops:
        for path in (path for path in ordered if path.partition(".")[0] == top):
            parts = ["stack", "like"] if own and path == "stack" else path.split(".")
            here = tree
            for part in parts[:-1]:
                here = here.setdefault(part, {})
            here[parts[-1]] = facts[path]
    return tree


def _scenario_tree(found: MergedFacts) -> dict[str, Any]:
    tree = nested_facts(found.facts, _TREE)
    if "workload" in tree:
        kind = OriginValue("training", Origin("class", "a training program"))
        tree["workload"] = {"kind": kind, **tree["workload"]}
    return tree


def _settle_degrees(found: MergedFacts) -> None:
    """Fills data parallelism from the number of accelerators, or the accelerators from a stated shard degree."""
    inner = 1
    for key in _DEGREES:
        inner *= found.number(f"plan.{key}")
    if inner < 1:
        found.refuse("X005", "a degree of parallelism is 0", "plan.tp")
        return
    shards, copies = found.facts.get("shards"), found.number("plan.dp_replicate")
    if shards is not None:
        _settle_shards(found, shards, copies, inner)
        copies = found.number("plan.dp_replicate")
    world = _visible_accelerators(found)
    if world is None:
        found.need("the number of accelerators is not stated", "--gpu h100 --nodes 4, for example")
        return
    if world.value % inner:
        sentence = f"tp × pp × cp is {inner}, which does not divide {world.value} accelerators"
        found.refuse("X005", sentence, "accelerators")
        return
    dp = world.value // inner
    found.facts["plan.dp"] = world.derived(dp, "accelerators over tp, pp and cp")
    mics = found.facts.get("mics")
    if mics is not None and dp % mics.value == 0:
        copies = dp // mics.value
        found.facts["plan.dp_replicate"] = mics._replace(value=copies)
    elif mics is not None:
        found.refuse("X005", f"shards over {mics.value} ranks do not divide dp {dp}", "mics")
    if copies < 1 or dp % copies:
        found.refuse("X005", f"{copies} replicas of the shards do not divide dp {dp}", "plan.dp_replicate")


def _visible_accelerators(found: MergedFacts) -> OriginValue | None:
    """The number of accelerators; a fault if the environment makes fewer visible."""
    world, seen = found.facts.get("accelerators"), found.facts.pop("visible", None)
    if seen is None:
        return world
    if world is None:
        found.facts["accelerators"] = seen
        return seen
    if world.value > seen.value and found.number("nodes") == 1:
        where = f" ({seen.place.file}:{seen.place.line})" if seen.place is not None else ""
        sentence = f"{world.value} accelerators are started, of which {seen.origin.text} names {seen.value}{where}"
        found.refuse("X004", sentence, "accelerators", "keep one of the two")
    return world


def _settle_shards(found: MergedFacts, shards: OriginValue, copies: int, inner: int) -> None:
    """Fills the accelerators as the product of all degrees, or the replicas if the accelerators are stated."""
    total = shards.value * copies * inner
    world = found.facts.get("accelerators")
    rest = found.facts.get("open_replicas")
    if rest is not None and world is not None and world.value % total == 0 and world.value > total:
        found.facts["plan.dp_replicate"] = rest.derived(
            copies * world.value // total, "accelerators over those of a copy"
        )
        return
    if world is None:
        found.facts["accelerators"] = shards.derived(total, "the product of all degrees")
    elif world.value != total:
        sentence = f"dp {shards.value * copies} × tp × pp × cp {inner} is {total}, not {world.value} accelerators"
        found.refuse("X005", sentence, "shards")


def _settle_batch(found: MergedFacts) -> None:
    """Fills the third of global batch = micro-batch × accumulation × dp from the other two."""
    dp = found.number("plan.dp", 0)
    batch, micro, steps = (
        found.facts.get(path) for path in ("workload.global_batch", "plan.micro_batch", "accumulation")
    )
    if batch is None and micro is None:
        hint = "--set plan.micro_batch=1 --set workload.global_batch=64, for example"
        found.need(f"{_BATCH} is not stated", hint)
        return
    if any(value is not None and value.value < 1 for value in (batch, micro, steps)):
        found.refuse("X005", f"{_BATCH} is 0", "plan.micro_batch")
        return
    if not dp:
        return
    if batch is not None and micro is not None:
        _check_batch(found, batch, micro, steps, dp)
    elif micro is not None:
        often = steps.value if steps is not None else 1
        found.facts["workload.global_batch"] = micro.derived(
            micro.value * often * dp, f"micro-batch × {often} × dp {dp}"
        )
    elif batch is not None:
        often = steps.value if steps is not None else 1
        size, left = divmod(batch.value, often * dp)
        if left or not size:
            sentence = f"the batch {batch.value} is no multiple of accumulation {often} × dp {dp}"
            found.refuse("X005", sentence, "workload.global_batch")
            return
        found.facts["plan.micro_batch"] = batch.derived(size, f"batch over accumulation {often} and dp {dp}")


def _check_batch(
    found: MergedFacts, batch: OriginValue, micro: OriginValue, steps: OriginValue | None, dp: int
) -> None:
    """Records a fault unless global batch = micro-batch × accumulation × dp."""
    if steps is not None and batch.value != micro.value * steps.value * dp:
        product = micro.value * steps.value * dp
        sentence = (
            f"batch {batch.value} is not micro-batch {micro.value} × accumulation {steps.value} × dp {dp}, {product}"
        )
        unit = micro.value * steps.value
        fits = f"at dp {batch.value // unit} it would be" if batch.value % unit == 0 else "at no dp is it"
        found.refuse("X005", sentence, "workload.global_batch", f"leave one of the three out; {fits}")
    elif batch.value % (micro.value * dp):
        sentence = f"batch {batch.value} is no multiple of micro-batch {micro.value} × dp {dp}"
        found.refuse("X005", sentence, "workload.global_batch")


def _settle_chunks(found: MergedFacts, depth: int | None) -> None:
    """Fills the pipeline chunks of a rank from the layers per chunk; the first and last may have one layer fewer."""
    each, stages = found.facts.pop("layers_per_stage", None), found.number("plan.pp")
    if each is None:
        return
    if depth is None:
        found.need("the layers of the model are not known, and how many chunks they make", "add its config.json")
        return
    split = found.facts.get("plan.split")
    fewer = {"lighter-ends": 2, "lighter-first": 1, "lighter-last": 1}.get(split.value if split else "", 0)
    chunks = -(-(depth + fewer) // max(1, each.value))
    if chunks % stages:
        sentence = f"{depth} layers make {chunks} stages of {each.value}, which {stages} ranks do not share evenly"
        found.faults.append(Fault("X005", sentence, each.place or Place(found.file)))
        return
    found.facts["plan.vpp"] = each.derived(chunks // stages, f"{chunks} stages over {stages} ranks")


def _settle_tokens(found: MergedFacts) -> None:
    """Adds the tokens of the run from steps, batch and sequence length."""
    steps = found.facts.pop("steps", None)
    batch, sequence = found.facts.get("workload.global_batch"), found.facts.get("workload.sequence")
    if steps is None or steps.value < 1 or batch is None or sequence is None:
        return
    value = steps.derived(steps.value * batch.value * sequence.value, "steps × global batch × sequence")
    found.facts.setdefault("workload.tokens", value)
