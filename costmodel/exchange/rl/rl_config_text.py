"""Texts of reinforcement learning as trees: YAML, words such as a.b=1 over it, and options of a command."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import PurePath
from typing import Any

from costmodel.documents.keys.paths import at
from costmodel.documents.text.yaml_tree import Mapping, Text, key_at, put_at
from costmodel.exchange.launcher_options import launched_accelerators, of_environment, of_launcher
from costmodel.exchange.option_rows import Table, whole
from costmodel.exchange.rl.rl_format import RlFormat
from costmodel.exchange.serving.command_options import option_words, unknown_value
from costmodel.exchange.shell import ShellCommand, Word, read_script
from costmodel.exchange.training.accelerate import read_launcher
from costmodel.exchange.training.config_text import tree_of
from costmodel.exchange.training.file_facts import Layer
from costmodel.ground.errors import Fault, Place, fail

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
        return _of_configuration(tree_of(text, file))
    script = read_script(text, file)
    found = [(begin, command) for command in script.commands for begin in _begins(command, entry)]
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
        _overrides(rest, entry.table, read)
    else:
        options = option_words(rest, entry.table, entry.spelling)
        read.tree, read.faults, read.unless = options.tree, options.faults, options.unless
    if PROGRAM in entry.table:
        program = command.words[begin - 1]
        read.tree.setdefault(key_at(PROGRAM, program.place, program.place), Text(PurePath(program.text).name))
    read.ahead = [of_environment(command.environment, file), _of_launcher(launcher, file, read)]
    return read


def is_command(text: str, entry: RlFormat) -> bool:
    """Whether a text starts a program of the format."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    return any(entry.program.search(word) for line in lines for word in line.split())


def _begins(command: ShellCommand, entry: RlFormat) -> Iterator[int]:
    """The positions of the first word after the program."""
    for index, word in enumerate(command.words):
        if entry.program.search(word.text) and not word.text.startswith("-"):
            yield index + 1
            return


def _of_launcher(words: Sequence[Word], file: str, read: RlText) -> Layer:
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
        layer = of_launcher(words)
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


def _overrides(words: Sequence[Word], table: Table, read: RlText) -> None:
    """Adds overrides such as a.b=1 to the tree; other words of the command are ignored."""
    for word in words:
        found = _WORD.fullmatch(word.text)
        if found is None or (found[3] is None and found[1] != "~"):
            continue
        rule = table.get(found[2])
        if word.doubt is not None and rule is not None and rule.fills:
            read.unless.append(unknown_value(found[2], word.doubt, word.place, rule.fills, found[2]))
            continue
        put_word(read.tree, found[2], None if word.doubt is not None else found[3], word.place)


def put_word(tree: Mapping, name: str, value: str | None, place: Place) -> None:
    """Sets the value of a path such as a.b; a word such as null is no value."""
    put_at(tree, name, None if value is None or value.lower() in _NOTHING else Text(value), place)


def _of_configuration(tree: Mapping) -> RlText:
    """A YAML configuration, with the files that it names under `defaults`."""
    key = next((key for key in tree if key == DEFAULTS), None)
    if key is None:
        return RlText(tree)
    place, listed = getattr(key, "place", None) or tree.place, tree.pop(key)
    names = [each for each in (listed if isinstance(listed, list) else [listed]) if isinstance(each, str)]
    paths = [name if "." in PurePath(name).name else f"{name}.yaml" for name in names if name != _ITSELF]
    return RlText(tree, [(path, place) for path in paths])


def put_beneath(tree: Mapping, other: Mapping) -> None:
    """Adds the values of a base configuration that the tree does not state."""
    for key, value in other.items():
        if key not in tree:
            tree[key] = value
        elif isinstance(tree[key], Mapping) and isinstance(value, Mapping):
            put_beneath(tree[key], value)


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
        numbers = [number for number in map(whole, parts) if number is not None]
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
