"""Options of Megatron-LM as a text states them: a script, a YAML file, or the arguments at the head of a log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from costmodel.documents.text.yaml_tree import Mapping, parse
from costmodel.exchange.imported import Loss
from costmodel.exchange.megatron.options import READ, TABLE
from costmodel.exchange.shell import Doubt, Script, ShellCommand, Word, read_script
from costmodel.exchange.values.foreign_values import Lines
from costmodel.ground.errors import Place, fail

_FEWEST = 3  # known options that make a text one of this format
_OPTION = re.compile(r"--?[A-Za-z]")
_ENTRY = re.compile(r"^[ \t]*(?:--)?([A-Za-z][\w-]*):(?:[ \t]|$)", re.MULTILINE)
_HEAD = re.compile(r"^(?P<before>.*?)-{5,} arguments -{5,}", re.MULTILINE)
_ROW = re.compile(r"^.*?\s{2}([A-Za-z_]\w*) \.{2,} (.*?)\s*$")
_TYPES = {"torch.float32": "fp32", "torch.bfloat16": "bf16", "torch.float16": "fp16", "torch.uint8": "fp8"}
# Attributes that the program prints under another name than that of their option; False stands for a flag given.
_RENAMED = {
    "fp8": "fp8-format",
    "fp4": "fp4-format",
    "use_layer_wise_distributed_optimizer": "use-distributed-optimizer",
}
_INVERTED = {
    "add_bias_linear": "disable-bias-linear",
    "add_position_embedding": "no-position-embedding",
    "pad_vocab_size": "no-pad-vocab-size",
    **{name[3:].replace("-", "_"): name for name, row in TABLE.items() if row.loss and name.startswith("no-")},
}
_DERIVED = frozenset({"tensor_parallel_num_weight_shards", "expert_tensor_parallel_num_weight_shards"})


class Stated(NamedTuple):
    """An option, its value words, and its place."""

    name: str
    words: tuple[Word, ...]
    place: Place
    doubt: Doubt | None = None


@dataclass
class Statement:
    """All options that a text states.

    launch: words of the launcher, before the program. stray: words that belong to no option. resolved: whether the
    program printed the options itself, including defaults and derived values.
    """

    form: str
    options: list[Stated]
    launch: tuple[Word, ...] = ()
    program: str = ""
    stray: list[Word] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    resolved: bool = False
    environment: tuple[tuple[str, Word], ...] = ()

    def named(self, name: str) -> str:
        """The first value of an option, or an empty text."""
        words = next((stated.words for stated in self.options if stated.name == name), ())
        return words[0].text if words and words[0].doubt is None else ""


def read_statement(text: str, file: str) -> Statement:
    """The options of a text in any supported form: script, YAML, or arguments in a log."""
    if _HEAD.search(text):
        return _of_log(text, file)
    if sum(match.group(1).replace("_", "-") in TABLE for match in _ENTRY.finditer(text)) >= _FEWEST:
        return _of_yaml(text, file)
    return _of_script(text, file)


# --- a script


def _of_script(text: str, file: str) -> Statement:
    script = read_script(text, file)
    commands = [command._replace(words=_flat(command.words)) for command in script.commands]
    scored = [(_known(command.words), command) for command in commands]
    best = max((score for score, _ in scored), default=0)
    if best < _FEWEST:
        return _of_variables(script, file)
    chosen = [command for score, command in scored if 2 * score >= best]
    first = _of_command(chosen[0], script)
    for other in chosen[1:]:
        if _texts(_of_command(other, script)) != _texts(first):
            hint = f"the first stands on line {chosen[0].words[0].place.line}; keep one of the two"
            raise fail("X004", "the script starts more than one training", other.words[0].place, hint)
    if chosen[0].doubt is not None:
        sentence = f"the training hangs on {chosen[0].doubt.sentence}: it is read as if it came about"
        first.losses.append(Loss("ignored", sentence, chosen[0].words[0].place))
    return first


def _texts(statement: Statement) -> list[list[str]]:
    return [[option.name, *(word.text for word in option.words)] for option in statement.options]


def _flat(words: Sequence[Word]) -> tuple[Word, ...]:
    """The words of a command, with a word that contains a whole command split up."""
    found: list[Word] = []
    for word in words:
        texts = word.text.split()
        if len(texts) < 2 or not any(text.startswith("--") for text in texts):
            found.append(word)
            continue
        found.extend(Word(text, word.place, word.doubt) for text in texts if text != "\\")
    return tuple(found)


def _known(words: Iterable[Word]) -> int:
    return sum(word.text.startswith("--") and _name(word.text) in TABLE for word in words)


def _name(spelling: str) -> str:
    return spelling.lstrip("-").split("=", 1)[0]


def _of_variables(script: Script, file: str) -> Statement:
    """The options in the variables of a script fragment that starts no program."""
    held = sorted(script.variables.values(), key=_known, reverse=True)
    taken: list[Word] = []
    for words in held:
        names = {_name(word.text) for word in taken if word.text.startswith("--")}
        fresh = {_name(word.text) for word in words if word.text.startswith("--")}
        if _known(words) >= _FEWEST and names.isdisjoint(fresh):
            taken.extend(words)
    if not taken:
        hint = "a script, a YAML file or the arguments at the head of a log, with options such as --num-layers"
        raise fail("X001", "no options of Megatron-LM stand here", Place(file), hint)
    statement = _of_command(ShellCommand(tuple(taken)), script)
    sentence = "the text starts no training: the options that its variables hold are read"
    statement.losses.append(Loss("ignored", sentence, taken[0].place))
    return statement


def _of_command(command: ShellCommand, script: Script) -> Statement:
    words = command.words
    first = next(index for index, word in enumerate(words) if word.text.startswith("--") and _name(word.text) in TABLE)
    programs = [index for index, word in enumerate(words[:first]) if word.text.endswith(".py")]
    begin = programs[-1] + 1 if programs else 0
    launch = (*script.directives, *words[:begin]) if programs else script.directives
    statement = Statement("options in a shell script", [], launch, environment=command.environment)
    statement.program = words[begin - 1].text.rsplit("/", 1)[-1] if programs else ""
    if script.without_arguments:
        statement.losses.append(Loss("ignored", "the script is read as if it were run without arguments"))
    _gather(statement, words[begin:])
    return statement


def _gather(statement: Statement, words: Sequence[Word]) -> None:
    """Adds each option with its value words."""
    for word in words:
        if _OPTION.match(word.text):
            spelling, equals, value = word.text.partition("=")
            inside = (word._replace(text=value),) if equals else ()
            statement.options.append(Stated(_name(spelling), inside, word.place, word.doubt))
        elif statement.options and _belongs(statement.options[-1], word):
            last = statement.options[-1]
            statement.options[-1] = last._replace(words=(*last.words, word))
        else:
            statement.stray.append(word)


def _belongs(option: Stated, word: Word) -> bool:
    """Whether a word is a value of the preceding option; an unknown variable is one only where a value is expected."""
    if word.text or word.doubt is None or word.doubt.kind not in ("unset", "argument"):
        return True
    known = READ.get(option.name)
    return not option.words and not (known is not None and known.kind.name == "flag")


# --- YAML


def _of_yaml(text: str, file: str) -> Statement:
    tree = parse(text, file, quoted=True)
    if not isinstance(tree, Mapping):
        raise fail("X001", "no options of Megatron-LM stand here", Place(file))
    inner = tree.get("MODEL_ARGS")
    statement = Statement("options in YAML", [])
    _entries(statement, inner if isinstance(inner, Mapping) else tree, depth=0)
    return statement


def _entries(statement: Statement, tree: Mapping, depth: int) -> None:
    for key, value in tree.items():
        name = _name(str(key)).replace("_", "-")
        if isinstance(value, Mapping) and name not in TABLE and depth < 2:
            _entries(statement, value, depth + 1)  # language_model: and model_parallel: of a configuration
        elif value is None or value is False:
            continue
        elif value is True:
            statement.options.append(Stated(name, (), key.place))
        else:
            words = tuple(Word(str(item), key.at) for item in (value if isinstance(value, list) else [value]))
            statement.options.append(Stated(name, words, key.place))


# --- the arguments at the head of a log


def _of_log(text: str, file: str) -> Statement:
    lines = Lines(text, file)
    statement = Statement("arguments at the head of a log", [], resolved=True)
    head = _HEAD.search(text)
    assert head is not None
    at = head.end()
    while at < len(text):
        at = text.find("\n", at) + 1 or len(text)
        end = text.find("\n", at)
        line = text[at : end if end >= 0 else len(text)]
        row = _ROW.match(line[:100_000])
        if "end of arguments" in line:
            break
        if row is not None:
            place = lines.place(at + row.start(1), width=len(row.group(1)))
            _attribute(statement, row.group(1), row.group(2), place)
    if not statement.options:
        raise fail("X001", "no arguments stand under the head", lines.place(head.start()))
    return statement


def _attribute(statement: Statement, attribute: str, value: str, place: Place) -> None:
    if value == "None" or attribute in _DERIVED:
        return
    if attribute in _INVERTED:
        if value == "False":
            statement.options.append(Stated(_INVERTED[attribute], (), place))
        return
    name = _RENAMED.get(attribute, attribute.replace("_", "-"))
    if name not in TABLE or TABLE[name].costs_nothing:
        return
    if value in ("True", "False"):
        if value == "True":
            statement.options.append(Stated(name, (), place))
        return
    statement.options.append(Stated(name, (Word(_TYPES.get(value, value), place),), place))
