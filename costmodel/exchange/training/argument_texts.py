"""Arguments of transformers outside of a YAML: words of a command, or a call such as TrainingArguments(bf16=True)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any, NamedTuple

from costmodel.documents.text.yaml_tree import Mapping, key_at
from costmodel.exchange.imported import OriginValue
from costmodel.exchange.launcher_options import launched_accelerators, of_environment, of_launcher
from costmodel.exchange.rows import Table
from costmodel.exchange.serving.option_words import Spelling, option_words
from costmodel.exchange.shell import ShellCommand, Word, read_script
from costmodel.exchange.training.accelerate import read_launcher
from costmodel.exchange.training.layer import Layer
from costmodel.exchange.training.recipe_text import call_tree
from costmodel.ground.errors import Fault, Place, fail

_FEWEST = 2  # arguments that make a command one of a training
CALLED = r"\w*TrainingArguments|SFTConfig|DPOConfig|RewardConfig|GRPOConfig|RLOOConfig"
_CALL = re.compile(rf"\b(?:{CALLED})\(")
_ACCELERATE = ("accelerate", "accelerate.commands.accelerate_cli")
_LAUNCH = "launch"
_CONFIGURED = "--config_file"  # of accelerate launch


class ArgumentText(NamedTuple):
    """The training arguments as a tree, the facts of the launcher, and the configuration files that they name."""

    tree: Mapping
    launched: dict[str, OriginValue]
    named: list[tuple[str, Place]]
    faults: list[Fault]
    ahead: tuple[Layer, ...] = ()


def is_call(text: str) -> bool:
    """Whether a text contains a call with training arguments.

    >>> is_call("args = TrainingArguments(bf16=True)"), is_call("bf16: true")
    (True, False)
    """
    return _CALL.search(text) is not None


def is_command(text: str, table: Table) -> bool:
    """Whether a text contains training options as words of a command."""
    names = {match.group(1) for match in re.finditer(r"(?:^|\s)--([a-z_0-9]+)(?=[=\s]|$)", text)}
    return len(names & table.keys()) >= _FEWEST


def arguments_of(text: str, file: str, table: Table) -> ArgumentText:
    """The training arguments in a shell script or a Python program."""
    return _of_call(text, file, table) if is_call(text) else _of_command(text, file, table)


def _of_call(text: str, file: str, table: Table) -> ArgumentText:
    """The arguments of a call in Python, with the model loaded and the rank of its adapters."""
    costly = frozenset(["", *(name for name, key in table.items() if key.fills)])
    tree, others = call_tree(text, file, CALLED, costly)
    for name, words in others:
        if name.endswith("Trainer") and isinstance(words.get("model"), str):
            _put(tree, "model_name_or_path", words["model"], words.place)
        if name == "LoraConfig":
            _put(tree, "use_peft", True, words.place)
            _put(tree, "lora_r", words.get("r", 8), words.place)
        if name == "BitsAndBytesConfig" and words.get("load_in_4bit"):
            _put(tree, "load_in_4bit", True, words.place)
    return ArgumentText(tree, {}, [], [])


def _put(tree: Mapping, name: str, value: Any, place: Place) -> None:
    tree.setdefault(key_at(name, place, place), value)


def _of_command(text: str, file: str, table: Table) -> ArgumentText:
    script = read_script(text, file)
    scored = [(_known(command, table), command) for command in script.commands]
    chosen = [command for score, command in scored if score >= _FEWEST]
    if not chosen:
        raise fail("X001", "the file has no command with arguments of a training", Place(file))
    if len(chosen) > 1:
        hint = f"the first stands on line {chosen[0].words[0].place.line}; keep one of the two"
        raise fail("X004", "the script starts more than one training", chosen[1].words[0].place, hint)
    words = chosen[0].words
    begin = next((index + 1 for index, word in enumerate(words) if _is_program(word)), 0)
    found = option_words(words[begin:], table, Spelling(between="_", negated=True))
    launcher = (*script.directives, *words[:begin])
    pairs = itertools.pairwise(launcher)
    named = [(behind.text, behind.place) for word, behind in pairs if word.text == _CONFIGURED and behind.doubt is None]
    unknown = (replace(fault, hint="write its value into the text") for _, fault in found.unless)
    environment = of_environment(chosen[0].environment, file)
    start = next((index + 1 for index, word in enumerate(words[:begin]) if word.text == _LAUNCH), 0)
    ahead = (
        (environment, read_launcher(_before_program(words[start:begin]), file), of_launcher(script.directives))
        if start and PurePath(words[start - 2].text).name in _ACCELERATE
        else (environment, of_launcher(launcher))
    )
    return ArgumentText(found.tree, launched_accelerators(launcher), named, [*found.faults, *unknown], ahead)


def _before_program(words: Sequence[Word]) -> Sequence[Word]:
    """The options of a launcher, without the program or module after them."""
    return words[:-1] if words and not words[-1].text.startswith("-") else words


def _known(command: ShellCommand, table: Table) -> int:
    names = {word.text.lstrip("-").split("=", 1)[0] for word in command.words if word.text.startswith("--")}
    return len(names & table.keys())


def _is_program(word: Word) -> bool:
    return PurePath(word.text).suffix == ".py" or word.text in ("llamafactory-cli", "trl")
