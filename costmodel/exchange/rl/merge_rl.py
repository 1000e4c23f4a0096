"""Reads texts of reinforcement-learning formats as trees, and merges their facts to one scenario."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import PurePath
from typing import Any

from costmodel.documents.keys.paths import at
from costmodel.documents.reader.library import read
from costmodel.documents.schemas.model import Model
from costmodel.documents.schemas.rl import RlPlan, RlStack
from costmodel.documents.text.yaml_tree import Mapping, Text, key_at, put_at
from costmodel.exchange.import_result import Imported, Origin, OriginValue
from costmodel.exchange.launcher_options import environment_facts, launched_accelerators, launcher_verdicts
from costmodel.exchange.option_rows import Table, whole_number
from costmodel.exchange.rl.rl_format import RlFormat
from costmodel.exchange.serving.command_options import option_words, unknown_value
from costmodel.exchange.shell import ShellCommand, Word, read_script
from costmodel.exchange.training.accelerate import read_launcher
from costmodel.exchange.training.config_text import tree_of
from costmodel.exchange.training.file_facts import Layer
from costmodel.exchange.training.formats import LAYERED
from costmodel.exchange.training.merge_training import UNDER_TRANSFORMERS, MergedFacts, nested_facts
from costmodel.ground.errors import CostModelError, Fault, Place, fail

# --- layers of a configuration of reinforcement learning, and of files beside it, to one scenario


_TREE = ("model", "workload", "stack", "plan", "assume", "limits")
_DEGREES = ("tp", "cp", "pp")
_ONE = ("tp", "pp", "cp", "ep", "vpp", "dp_replicate", "rollout.tp", "rollout.ep", "rollout.dp_attention")
_COUNT = "write its value into the text, or add --gpus 8, for example"
_OF_TRAINING = ("workload.sequence", "workload.global_batch", "accumulation", "steps", "shards", "open_replicas")


def merged_rl(layers: Sequence[Layer], file: str, model: Model | None, shipped: str = "") -> Imported:
    """A scenario from layers in order of priority; files of the trainer contribute only the layout.

    model: the model, if it is known. shipped: its name in the library, which is not used
    """
    for layer in layers:
        if layer.format in LAYERED:
            facts_of_trainer(layer)
    _check_sizes(layers)
    found = MergedFacts(layers, file)
    if found.faults:
        raise CostModelError(*found.faults)
    _settle_engines(found, model)
    ranks = _settle_ranks(found)
    _settle_batches(found, ranks)
    _settle_lengths(found)
    _record_missing(found)
    if found.faults:
        raise CostModelError(*found.faults, *found.missing)
    _stack_tree(found)
    return found.imported(_scenario_tree(found), RlPlan)


def _check_sizes(layers: Sequence[Layer]) -> None:
    """Requires a number of accelerators beside a text that does not decide it."""
    stated = [layer.facts["accelerators"].origin.kind for layer in layers if "accelerators" in layer.facts]
    given = "assumed" in stated
    for layer in layers:
        counts = [replace(fault, hint=_COUNT) for key, fault in layer.unless if key == "plan.dp"]
        layer.unless = [(key, fault) for key, fault in layer.unless if key != "plan.dp"]
        layer.faults += [] if given else counts


def facts_of_trainer(layer: Layer) -> None:
    """Turns the facts of a trainer's file, such as a DeepSpeed configuration, into facts of the trainer."""
    for facts in (layer.facts, layer.weak):
        for path in [path for path in facts if path in _OF_TRAINING]:
            del facts[path]
        for path in [path for path in facts if path.partition(".")[0] == "stack"]:
            value = facts.pop(path)
            name = UNDER_TRANSFORMERS.get(str(value.value), value.value) if path == "stack" else value.value
            facts[path.replace("stack", "stack.trainer", 1)] = value._replace(value=name)


def _settle_engines(found: MergedFacts, model: Model | None) -> None:
    """Removes or completes degrees that apply only to mixtures of experts."""
    sparse = model is not None and model.has_experts
    if model is not None and not sparse:
        for path in ("plan.ep", "plan.etp", "plan.rollout.ep", "plan.rollout.dp_attention"):
            found.facts.pop(path, None)
    experts, degree = found.facts.get("plan.rollout.ep"), found.number("plan.rollout.tp")
    if experts is not None and experts.value > degree and "plan.rollout.dp_attention" not in found.facts:
        groups = experts.derived(experts.value // degree, "ranks of the experts over tp")
        found.facts["plan.rollout.dp_attention"] = groups


def _settle_ranks(found: MergedFacts) -> int | None:
    """The accelerators in total, from those of the trainer and of the engines."""
    facts = found.facts
    trainer, own, world = facts.pop("trainer_ranks", None), facts.pop("rollout_ranks", None), facts.get("accelerators")
    own = facts.get("plan.rollout.ranks", own)
    if facts.pop("engines_elsewhere", None) is not None:
        if own is None:
            found.need("the accelerators of the server that generates are not stated", "--set plan.rollout.ranks=8")
            return None
        trainer = world if world is not None and world.origin.kind != "assumed" else None
        facts.pop("plan.rollout.memory", None)
    beside = sum(facts[path].value for path in facts if path.startswith("plan.beside."))
    if trainer is not None:
        count = trainer.value + (own.value if own is not None else 0) + beside
        total = trainer.derived(count, "accelerators of the trainer and of engines")
        facts["accelerators"] = world = world if world is not None and world.origin.kind == "assumed" else total
        facts.pop("nodes", None)
    if own is not None and own.value:
        facts["plan.rollout.ranks"] = own
        facts["plan.rollout.colocated"] = own.derived(False, "separate engines")
        for path in ("plan.rollout.offload", "stack.sharing.sleeps"):
            facts.pop(path, None)
    if world is None:
        found.need("the number of accelerators is not stated", "--gpus 16, for example")
        return None
    ranks = int(world.value) - (int(own.value) if own is not None else 0) - int(beside)
    if ranks < 1 and own is not None:
        sentence = f"separate engines have {own.value} of {world.value} accelerators"
        found.refuse("X005", sentence, "plan.rollout.ranks")
        return None
    inner = 1
    for key in _DEGREES:
        inner *= found.number(f"plan.{key}")
    if inner < 1 or ranks % inner:
        sentence = f"tp × pp × cp is {inner}, which does not divide {ranks} accelerators of the trainer"
        found.refuse("X005", sentence, "accelerators")
        return None
    shards = facts.pop("shards", None)
    dp = ranks // inner
    if shards is not None and shards.value < dp and dp % shards.value == 0:
        copies = shards.derived(dp // shards.value, f"dp {dp} over the shards")
        facts["plan.dp_replicate"] = copies
    return dp


def _settle_batches(found: MergedFacts, dp: int | None) -> None:
    """Prompts per iteration and answers per optimizer step, from counts per prompt, rank or part."""
    facts, samples = found.facts, found.number("workload.samples")
    of_rank, mini = facts.pop("rank_answers", None), facts.pop("rank_mini_batch", None)
    by_prompt, parts = facts.pop("mini_prompts", None), facts.pop("mini_batches", None)
    whole = facts.pop("micro_batch_of_all", None)
    answers = facts.pop("answers", None)
    if dp is not None and of_rank is not None:
        answers = of_rank.derived(of_rank.value * dp, f"answers of a rank × dp {dp}")
    if answers is not None and "workload.prompts" not in facts:
        if answers.value % samples or not answers.value:
            sentence = f"{answers.value:,} answers of an iteration are no multiple of {samples} samples of a prompt"
            found.faults.append(Fault("X005", sentence, answers.place or Place(found.file)))
            return
        facts["workload.prompts"] = answers.derived(
            answers.value // samples, f"{answers.value:,} answers over {samples} of a prompt"
        )
    every = found.number("workload.prompts", 0) * samples
    if by_prompt is not None:
        mini = by_prompt.derived(by_prompt.value * samples, f"{by_prompt.origin.text} × {samples} samples")
    elif parts is not None and parts.value > 0 and every:
        mini = parts.derived(-(-every // parts.value), f"{every:,} answers over {parts.value} parts")
    elif mini is not None and dp is not None:
        mini = mini.derived(mini.value * dp, f"answers of a rank × dp {dp}")
    if mini is not None and every and mini.value < every:
        facts["workload.mini_batch"] = mini
    elif (stated := facts.get("workload.mini_batch")) is not None and every and stated.value >= every:
        del facts["workload.mini_batch"]
    if whole is not None and dp is not None and "plan.micro_batch" not in facts:
        each = max(1, whole.value // dp)
        facts["plan.micro_batch"] = whole.derived(each, f"{whole.value} over dp {dp}")


def _settle_lengths(found: MergedFacts) -> None:
    """The limit of an answer, if a file states one limit for prompt and answer together."""
    longest, prompt = found.facts.pop("longest", None), found.facts.pop("longest_prompt", None)
    ahead = prompt if prompt is not None else found.facts.get("workload.prompt")
    if longest is not None and "workload.response.limit" not in found.facts:
        left = longest.value - (int(ahead.value) if ahead is not None else 0)
        text = f"{longest.origin.text}, less the prompt" if ahead is not None else longest.origin.text
        found.facts["workload.response.limit"] = longest.derived(max(1, left), text)
    if prompt is not None and "workload.prompt" not in found.facts:
        hint = f"--prompt 300, for example; at most {prompt.value:,} by {prompt.origin.text}"
        found.need("the tokens of a prompt are not stated", hint)


def _record_missing(found: MergedFacts) -> None:
    """Records each value that the files do not state and the scenario needs, with the option that sets it."""
    limit = found.facts.get("workload.response.limit")
    most = f"; at most {int(limit.value):,} by {limit.origin.text}" if limit is not None else ""
    prompt_asked = any("tokens of a prompt" in fault.sentence for fault in found.missing)
    for path, what, hint in (
        ("model", "the model is not stated", "add its config.json, or --set model=llama-3.1-8b, for example"),
        ("workload.prompts", "the prompts of an iteration are not stated", "--set workload.prompts=512, for example"),
        ("workload.prompt", "the tokens of a prompt are not stated", "--prompt 300, for example"),
        ("workload.response.mean", "the mean tokens of an answer are not stated",
         f"--answer 2k, from the log of an iteration{most}"),
        ("workload.response.limit", "the tokens at which an answer is cut are not stated",
         "--set workload.response.limit=8192, for example"),
    ):  # fmt: skip
        if path not in found.facts and not (path == "workload.prompt" and prompt_asked):
            found.need(what, hint)


def _stack_tree(found: MergedFacts) -> None:
    """The software stack with the stated changes to its parts; its default trainer and engine are not repeated."""
    facts = found.facts
    own: RlStack = read("stack", str(facts["stack"].value))
    for part in ("trainer", "rollout"):
        path, document = f"stack.{part}", getattr(own, part)
        usual = str(getattr(document, "name", document))
        named = facts.pop(path, None)
        further = any(inner.startswith(f"{path}.") for inner in facts)
        chosen = named if named is not None else OriginValue(usual, Origin("default", f"stacks/{own.name}"))
        if further:
            facts[f"{path}.like"] = chosen
        elif named is not None and named.value != usual:
            facts[path] = named
    for key in _ONE:
        if found.number(f"plan.{key}") == 1:
            facts.pop(f"plan.{key}", None)


def _scenario_tree(found: MergedFacts) -> dict[str, Any]:
    tree = nested_facts(found.facts, _TREE)
    kind = OriginValue("rl", Origin("class", "reinforcement learning"))
    tree["workload"] = {"kind": kind, **tree.get("workload", {})}
    return tree


# --- texts of reinforcement learning as trees


PROGRAM = "program"  # what is started, where it states something of the job
DEFAULTS = "defaults"  # of a YAML: the configurations that it overrides
_ITSELF = "_self_"
_WORD = re.compile(r"(\+{0,2}|~)([A-Za-z_][\w.@-]*)(?:=(.*))?", re.DOTALL)
_NOTHING = ("null", "none", "~", "")
_DEEPEST = 8  # values that stand for one another
_REFERENCE = re.compile(r"\$\{(?:oc\.select:)?\s*(\.*[\w.@-]+)\s*(?:,(.*))?\}", re.DOTALL)
_PRODUCT = re.compile(r"\$\{mul:(.*)\}", re.DOTALL)


@dataclass
class RlText:
    """The keys that one text states, and the other files that it names.

    named: configurations that it overrides, the lowest first. of_trainer: files of the trainer that a launcher names.
    unless: faults that --set removes. ahead: facts of the environment and of a launcher before the program.
    """

    tree: Mapping
    named: list[tuple[str, Place]] = field(default_factory=list)
    of_trainer: list[tuple[str, Place]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    unless: list[tuple[str, Fault]] = field(default_factory=list)
    ahead: list[Layer] = field(default_factory=list)


def stated_text(text: str, file: str, entry: RlFormat) -> RlText:
    """The keys of a configuration file, or of the single command of this format in a script."""
    if not is_command(text, entry):
        return _read_configuration(tree_of(text, file))
    script = read_script(text, file)
    found = [(begin, command) for command in script.commands for begin in _positions_after_program(command, entry)]
    if not found:
        raise fail("X001", f"no command of {entry.version} stands here", Place(file))
    begin, command = found[0]
    if len(found) > 1:
        hint = f"the first is on line {command.words[0].place.line}; keep one of the two"
        raise fail("X004", "the script starts more than one training", found[1][1].words[0].place, hint)
    read = RlText(Mapping())
    read.tree.place = command.words[0].place
    words, launcher = command.words[begin:], (*script.directives, *command.words[: begin - 1])
    rest = list(_words_without_configs(words, entry, read))
    if entry.spelling is None:
        _add_overrides(rest, entry.table, read)
    else:
        options = option_words(rest, entry.table, entry.spelling)
        read.tree, read.faults, read.unless = options.tree, options.faults, options.unless
    if PROGRAM in entry.table:
        program = command.words[begin - 1]
        read.tree.setdefault(key_at(PROGRAM, program.place, program.place), Text(PurePath(program.text).name))
    read.ahead = [environment_facts(command.environment, file), _launcher_facts(launcher, file, read)]
    return read


def is_command(text: str, entry: RlFormat) -> bool:
    """Whether a text starts a program of the format."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    return any(entry.program.search(word) for line in lines for word in line.split())


def _positions_after_program(command: ShellCommand, entry: RlFormat) -> Iterator[int]:
    """The positions of the first word after the program."""
    for index, word in enumerate(command.words):
        if entry.program.search(word.text) and not word.text.startswith("-"):
            yield index + 1
            return


def _launcher_facts(words: Sequence[Word], file: str, read: RlText) -> Layer:
    """The facts that the launcher before the program states; Ray states no sizes."""
    names = [PurePath(word.text).name for word in words]
    if "accelerate" in names:
        behind = words[names.index("accelerate") + 1 :]
        pairs = itertools.pairwise(behind)
        read.of_trainer = [(value.text, value.place) for word, value in pairs if word.text == "--config_file"]
        layer = read_launcher(_without_program(behind[1:]), file)
    elif {"torchrun", "deepspeed", "srun"}.isdisjoint(names):
        return Layer("")
    else:
        layer = launcher_verdicts(words)
    for path, value in launched_accelerators(words).items():
        layer.fill(path, value)
    return layer


def _without_program(words: Sequence[Word]) -> Sequence[Word]:
    """The options of a launcher, without the module that it starts."""
    return words[:-1] if words and not words[-1].text.startswith("-") and len(words) % 2 else words


def _words_without_configs(words: Sequence[Word], entry: RlFormat, read: RlText) -> Iterator[Word]:
    """The words that do not name a configuration; the named configurations are recorded."""
    folder = ""
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        name, equals, inside = word.text.partition("=")
        if name not in entry.configured:
            yield word
            continue
        value = word._replace(text=inside) if equals else words[min(index, len(words) - 1)]
        index += 0 if equals else 1
        if value.doubt is not None:
            read.faults.append(Fault("X002", f"{name} is {value.doubt.sentence}", word.place, "write its value there"))
        elif name.endswith("path"):
            folder = value.text
        else:
            named = value.text if "." in PurePath(value.text).name else f"{value.text}.yaml"
            read.named.append((str(PurePath(folder, named)), word.place))


def _add_overrides(words: Sequence[Word], table: Table, read: RlText) -> None:
    """Adds overrides such as a.b=1 to the tree; other words of the command are ignored."""
    for word in words:
        found = _WORD.fullmatch(word.text)
        if found is None or (found[3] is None and found[1] != "~"):
            continue
        rule = table.get(found[2])
        if word.doubt is not None and rule is not None and rule.fills:
            read.unless.append(unknown_value(found[2], word.doubt, word.place, rule.fills, found[2]))
            continue
        set_path(read.tree, found[2], None if word.doubt is not None else found[3], word.place)


def set_path(tree: Mapping, name: str, value: str | None, place: Place) -> None:
    """Sets the value of a path such as a.b; a word such as null is no value."""
    put_at(tree, name, None if value is None or value.lower() in _NOTHING else Text(value), place)


def _read_configuration(tree: Mapping) -> RlText:
    """A YAML configuration, with the files that it names under `defaults`."""
    key = next((key for key in tree if key == DEFAULTS), None)
    if key is None:
        return RlText(tree)
    place, listed = getattr(key, "place", None) or tree.place, tree.pop(key)
    names = [each for each in (listed if isinstance(listed, list) else [listed]) if isinstance(each, str)]
    paths = [name if "." in PurePath(name).name else f"{name}.yaml" for name in names if name != _ITSELF]
    return RlText(tree, [(path, place) for path in paths])


def add_base_values(tree: Mapping, other: Mapping) -> None:
    """Adds the values of a base configuration that the tree does not state."""
    for key, value in other.items():
        if key not in tree:
            tree[key] = value
        elif isinstance(tree[key], Mapping) and isinstance(value, Mapping):
            add_base_values(tree[key], value)


# --- values that stand for others


def fill_references(tree: Mapping) -> list[str]:
    """Replaces references such as ${policy.precision} by their values; returns the unresolved keys."""
    left = list[str]()
    _fill_texts(tree, tree, "", left)
    return left


def _fill_texts(here: Mapping, tree: Mapping, above: str, left: list[str]) -> None:
    """Replaces references such as ${a.b} by their values; appends the paths of unknown ones to `left`."""
    for key, value in here.items():
        path = f"{above}.{key}" if above else str(key)
        if isinstance(value, Mapping):
            _fill_texts(value, tree, path, left)
        elif isinstance(value, str) and "${" in value:
            here[key], known = _resolve_reference(str(value), tree, above, 0)
            if not known:
                left.append(path)


def _resolve_reference(text: str, tree: Mapping, above: str, depth: int) -> tuple[Any, bool]:
    """The value that a reference resolves to, and whether it is known."""
    text = text.strip()
    if depth == _DEEPEST or "${" not in text:
        return (None, False) if depth == _DEEPEST else (None if text.lower() in _NOTHING else text, True)
    if found := _PRODUCT.fullmatch(text):
        parts = [_resolve_reference(part, tree, above, depth + 1)[0] for part in found[1].rsplit(",", 1)]
        numbers = [number for number in map(whole_number, parts) if number is not None]
        return (prod(numbers), True) if len(numbers) == len(parts) else (None, False)
    found = _REFERENCE.fullmatch(text)
    if found is None:
        return None, False
    name = found[1]
    if name.startswith("."):
        up = len(name) - len(name.lstrip("."))
        parts = above.split(".")[: max(0, len(above.split(".")) - up + 1)]
        name = ".".join([*filter(None, parts), name.lstrip(".")])
    value = at(tree, name)
    if value is None and found[2] is not None:
        return _resolve_reference(found[2], tree, above, depth + 1)
    if isinstance(value, str) and "${" in value:
        return _resolve_reference(str(value), tree, name.rpartition(".")[0], depth + 1)
    return (None, False) if isinstance(value, Mapping) else (value, True)
