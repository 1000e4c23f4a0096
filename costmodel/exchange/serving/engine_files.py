"""Reads commands that start engines, with option files and a benchmark, as one serving scenario."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from costmodel.documents.schemas.default_values import USUAL_LOAD
from costmodel.documents.schemas.model import Model
from costmodel.documents.schemas.serving import ACCEPTED, ServingPlan
from costmodel.documents.text.yaml_tree import Mapping, key_at
from costmodel.exchange.import_result import Imported, Origin, OriginValue
from costmodel.exchange.launcher_options import environment_facts
from costmodel.exchange.serving import benchmark, sglang, tensorrt_llm, vllm
from costmodel.exchange.serving.command_options import OptionWords, option_words, unknown_value
from costmodel.exchange.serving.containers import (
    BENCHMARK,
    IMAGE,
    SGLANG,
    TRT_LLM,
    VLLM,
    ServeCommand,
    is_manifest,
    manifest_trees,
    serve_commands,
    settle_release,
)
from costmodel.exchange.serving.deployments import APART, APART_HINT, keys_around
from costmodel.exchange.serving.engine_options import (
    ADAPTERS,
    RANK,
    cache_of_checkpoint,
    experts_of_checkpoint,
    types_of_checkpoint,
)
from costmodel.exchange.training.config_text import tree_of
from costmodel.exchange.training.file_facts import Layer
from costmodel.exchange.training.merge_training import MergedFacts, nested_facts
from costmodel.ground.errors import CostModelError, Place, fail

# --- commands that start vLLM, SGLang or TensorRT-LLM, and files of their options, to a serving scenario


_TABLES = {
    VLLM: (vllm.TABLE, vllm.SPELLING, vllm.read_vllm),
    SGLANG: (sglang.TABLE, sglang.SPELLING, sglang.read_sglang),
    TRT_LLM: (tensorrt_llm.TABLE, tensorrt_llm.SPELLING, tensorrt_llm.read_trtllm),
}
_PROMPTS = re.compile(r"--is-prefill-worker|--disaggregation-mode[= ]prefill|\bkv_producer\b")
_LONGEST = 400_000  # letters of a script that are looked at for files it writes
_WRITTEN = re.compile(
    r"(?m)^[ \t]*(?:cat|tee)\b(?=[^\n]*<<-?[ \t]*['\"]?(?P<end>\w+))[^\n>]*?(?:<<-?[ \t]*['\"]?\w+['\"]?[ \t]*)?"
    r">{1,2}[ \t]*(?P<file>[^\s<>|]+)[^\n]*\n(?P<body>(?:[^\n]*\n)*?)[ \t]*(?P=end)[ \t]*$"
)
_HINT = "vllm serve, python -m sglang.launch_server or trtllm-serve, in a script, a manifest or a line of its own"


def read_serve_command(text: str, file: str) -> list[Layer]:
    """The engine that a text starts, and the benchmark in the text, each as a layer."""
    commands = serve_commands(text, file)
    engines = [command for command in commands if command.starts != BENCHMARK]
    if not engines and not commands:
        raise fail("X001", "the file has no command of a serving engine", Place(file), _HINT)
    found = _with_option_files(_engine_layer(engines, file), engines[0].starts, text, file) if engines else []
    of_sglang = any(command.starts == SGLANG for command in engines)
    for command in (command for command in commands if command.starts == BENCHMARK):
        options = option_words(command.words, benchmark.TABLE, benchmark.SPELLING)
        layer = benchmark.read_benchmark(options.tree, file, of_sglang=of_sglang)
        layer.faults += options.faults
        layer.unless += options.unless
        layer.facts.pop("model", None)
        found.append(layer)
        break
    if is_manifest(text):
        found += [keys_around(tree, file) for tree in manifest_trees(text, file)]
    return found


def _engine_layer(commands: list[ServeCommand], file: str) -> Layer:
    """The engine that the commands start; a fault if several commands differ."""
    first = commands[0]
    for other in commands[1:]:
        if (other.starts, [word.text for word in other.words]) != (first.starts, [word.text for word in first.words]):
            if any(_PROMPTS.search(" ".join(word.text for word in each.words)) for each in (first, other)):
                raise fail("X003", APART, other.place, APART_HINT)
            hint = f"the first is on line {first.place.line}; keep one of the two"
            raise fail("X004", "more than one engine is started", other.place, hint)
    table, spelling, read = _TABLES[first.starts]
    options = option_words(first.words, table, spelling)
    _name_model(options)
    layer = read(options.tree, file)
    layer.faults += options.faults
    layer.unless += options.unless
    layer.join(environment_facts(first.environment, file))
    if first.gpus is not None:
        layer.weak["visible"] = first.gpus
    if first.copies is not None:
        layer.facts["copies"] = first.copies
    if first.image is not None:
        layer.facts[IMAGE] = first.image
    for name in ("config", "extra_llm_api_options"):
        key = next((key for key in options.tree if key == name), None)
        if key is not None and isinstance(options.tree[key], str) and options.tree[key]:
            layer.named.append((str(options.tree[key]), key.place))
    return _defaults_give_way(layer)


def _with_option_files(layer: Layer, engine: str, text: str, file: str) -> list[Layer]:
    """The layer, followed by the option files that the script writes before it starts the engine."""
    found, open_names = [layer], []
    here = {match.group("file").strip("'\""): match for match in _WRITTEN.finditer(text[:_LONGEST])}
    for name, place in layer.named:
        body = here.get(name) or (next(iter(here.values())) if len(here) == 1 else None)
        if body is None:
            open_names.append((name, place))
        else:
            lines = "\n" * text.count("\n", 0, body.start("body"))
            found.append(read_option_file(lines + body.group("body"), file, engine))
    layer.named = open_names
    return found


def _defaults_give_way(layer: Layer) -> Layer:
    """The layer with its defaults marked as weak, so that another layer overrides them."""
    layer.weak |= {path: value for path, value in layer.facts.items() if value.origin.kind == "default"}
    layer.facts = {path: value for path, value in layer.facts.items() if value.origin.kind != "default"}
    return layer


def _name_model(options: OptionWords) -> None:
    """Takes the first word without an option as the model, unless an option names it."""
    named = any(name in options.tree for name in ("model", "model-path"))
    if not options.plain or named:
        return
    word = options.plain[0]
    if word.doubt is not None:
        options.unless.append(unknown_value("the model", word.doubt, word.place, "model", "the model"))
    else:
        tree = Mapping({key_at("model", word.place, word.place): word.text, **options.tree})
        tree.place = word.place
        options.tree = tree


def read_option_file(text: str, file: str, engine: str) -> Layer:
    """The facts of an option file, such as one that --config names."""
    tree = tree_of(text, file)
    if engine != TRT_LLM:
        between = Mapping({key_at(key.replace("_", "-"), key.place, key.at): value for key, value in tree.items()})
        between.place = tree.place
        tree = between
    return _defaults_give_way(_TABLES[engine][2](tree, file))


# --- layers of a serving command, its files and its benchmark to one scenario


_TREE = ("model", "workload", "stack", "plan", "assume", "limits")
_LOADS = ("workload.rate", "workload.concurrency", "workload.users", "workload.requests")


def merged_serving(layers: Sequence[Layer], file: str, model: Model | None, shipped: str = "") -> Imported:
    """A scenario from layers in order of priority.

    model: the model, if it is known. shipped: its name in the library.
    """
    found = MergedFacts(layers, file)
    if found.faults:
        raise CostModelError(*found.faults)
    _settle_replicas(found, model)
    found.warnings += settle_release(found)
    _settle_types(found, model, shipped)
    _settle_context(found, model)
    _settle_load(found)
    if "model" not in found.facts:
        found.need("the model is not stated", "add its config.json, or --set model=llama-3.1-8b, for example")
    stated = any(f"plan.speculation.{name}" in found.facts for name in ACCEPTED)
    if "plan.speculation.draft" in found.facts and not stated:
        hint = "--set plan.speculation.acceptance='70 %' as vLLM prints it, or length=2.7 as SGLang does"
        found.need("how many drafted tokens are accepted is not stated", hint)
    if ADAPTERS in found.facts and RANK not in found.facts:
        found.need("the rank of the adapters is not stated", f"--set {RANK}=16, for example")
    if found.faults:
        raise CostModelError(*found.faults, *found.missing)
    return found.imported(_scenario_tree(found), ServingPlan, ("accelerators",))


def _settle_replicas(found: MergedFacts, model: Model | None) -> None:
    """Fills degrees that depend on the model or on each other, and the accelerators of all replicas."""
    facts = found.facts
    sparse = model is not None and model.has_experts
    whole = facts.pop("tp_size", None)
    apart = facts.pop("attention_apart", None)
    if whole is not None:  # of TensorRT-LLM
        spread = apart is not None and apart.value
        facts["plan.dp_attention" if spread else "plan.tp"] = whole
        if spread:
            facts["plan.tp"] = whole._replace(value=1, origin=Origin("derived", "each rank attends apart", whole.place))
    copies, together = facts.pop("data_parallel", None), facts.pop("expert_parallel", None)
    if copies is not None and copies.value > 1:  # of vLLM
        facts["plan.dp_attention" if sparse else "plan.replicas"] = copies
        if model is None:
            found.need("whether data-parallel-size are replicas hangs on the model", "--set model=NAME")
    _settle_copies(found)
    if (kept := facts.pop("device_experts", None)) is not None:  # of each layer, by SGLang
        counts = [kind.experts.count for kind in model.layers if kind.experts is not None] if model is not None else []
        if not counts or not 0 <= kept.value <= min(counts):
            found.refuse("X005", f"{kept.value} experts on the device: the model has {min(counts, default=0):g}", "")
            return
        share = 1.0 - kept.value / min(counts)
        facts["plan.host_experts"] = kept.derived(share, f"{kept.value} of {min(counts):g} experts on the device")
    if any(found.number(f"plan.{key}") < 1 for key in ("tp", "pp", "ep", "dp_attention", "dcp", "replicas")):
        found.refuse("X005", "a degree of parallelism is 0", "plan.tp")
        return
    group = found.number("plan.tp") * found.number("plan.dp_attention")
    if together is not None and together.value and sparse:
        facts["plan.ep"] = together.derived(group, "enable-expert-parallel: all ranks")
    if model is not None and not sparse:
        facts.pop("plan.ep", None)
    for key in ("ep", "dp_attention", "dcp", "pp"):
        if found.number(f"plan.{key}") == 1:
            facts.pop(f"plan.{key}", None)
    _settle_machine(found, group * found.number("plan.pp"))


def _settle_copies(found: MergedFacts) -> None:
    """Multiplies the replicas of the command by the replicas of the manifest, unless the user gives the number."""
    facts, copies = found.facts, found.facts.pop("copies", None)
    own = facts.get("plan.replicas")
    if copies is None or (own is not None and own.origin.kind == "assumed"):
        return
    if copies.value < 1:
        raise fail("X005", "the manifest runs no replica", copies.place, "state one or more, or --set plan.replicas=…")
    each = found.number("plan.replicas")
    text = "replicas of the manifest" if each == 1 else f"replicas of the manifest, {each} of a command in each"
    facts["plan.replicas"] = copies.derived(copies.value * each, text)


def _settle_machine(found: MergedFacts, ranks: int) -> None:
    """Fills the accelerators of all replicas; if more are given, the number of replicas that they hold."""
    facts, world = found.facts, found.facts.get("accelerators")
    stated = facts.get("plan.replicas")
    least = ranks * found.number("plan.replicas")
    seen = facts.pop("visible", None)
    if seen is not None and seen.value < ranks and found.number("nodes") == 1:
        where = f" ({seen.place.file}:{seen.place.line})" if seen.place is not None else ""
        sentence = f"a command for {ranks} accelerators, of which {seen.origin.text} names {seen.value}{where}"
        found.refuse("X004", sentence, "plan.tp", "keep one of the two")
    at = facts.get("plan.tp")
    place = at.place if at is not None else None
    if world is None:
        facts["accelerators"] = OriginValue(least, Origin("derived", "ranks of all replicas", place))
    elif world.value < least:
        sentence = f"a command for {least} accelerators, of which {world.value} are given"
        found.refuse("X005", sentence, "plan.tp", "name more with --nodes")
    if stated is None:
        held = 1 if world is None else max(1, world.value // ranks)
        text = "one command starts one" if world is None else f"as many as {world.value} accelerators hold"
        facts["plan.replicas"] = OriginValue(held, Origin("derived", text, place))


def _settle_types(found: MergedFacts, shape: Model | None, shipped: str) -> None:
    """Fills the types of the checkpoint if no option states them."""
    facts, model = found.facts, found.facts.get("model")
    precision, weights = facts.get("workload.precision"), facts.get("workload.weights")
    named, experts = types_of_checkpoint(shape, shipped), experts_of_checkpoint(shape, shipped)
    made = Origin("assumed", "the checkpoint, by its name", model.place if model is not None else None)
    plain = precision is None or precision.value in ("bf16", "fp16")
    if weights is None and plain and named.precision is not None:
        facts["workload.precision"] = OriginValue(named.precision, made)
    if weights is None and plain and named.weights is not None:
        facts["workload.weights"] = OriginValue(named.weights, made)
    if experts is not None and "workload.expert_weights" not in facts:
        facts["workload.expert_weights"] = OriginValue(experts, made)
    if "workload.precision" not in facts:
        facts["workload.precision"] = OriginValue("bf16", Origin("assumed", "a checkpoint in 16 bits"))
    if "workload.cache" not in facts:
        kind, why = cache_of_checkpoint(shape, str(facts["workload.precision"].value))
        facts["workload.cache"] = OriginValue(kind, Origin("default", why))


def _settle_load(found: MergedFacts) -> None:
    """Fills lengths and load that nothing states, as flags do: a command that starts an engine has neither."""
    for path, (usual, origin) in USUAL_LOAD.items():
        stated = _LOADS if path in _LOADS else (path, f"{path}.mean")
        if not any(each in found.facts for each in stated):
            found.facts[path] = OriginValue(usual, Origin("assumed", origin))


def _settle_context(found: MergedFacts, model: Model | None) -> None:
    longest = None if model is None else model.max_sequence
    if "workload.context" not in found.facts and longest is not None:
        origin = Origin("default", "the longest sequence of the model")
        found.facts["workload.context"] = OriginValue(round(longest), origin)


def _scenario_tree(found: MergedFacts) -> dict[str, Any]:
    tree = nested_facts(found.facts, _TREE)
    kind = OriginValue("serving", Origin("class", "a serving program"))
    tree["workload"] = {"kind": kind, **tree.get("workload", {})}
    return tree
