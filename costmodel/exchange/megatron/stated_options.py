"""The options that a launch of Megatron-LM states: flags of a script, keys of YAML, or arguments in a log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from costmodel.documents.text.yaml_tree import Mapping, parse
from costmodel.exchange.import_result import VERDICTS, Loss, LossKind, Origin, OriginValue, StatedKey, Verdict
from costmodel.exchange.launcher_options import launched_accelerators
from costmodel.exchange.megatron.options import READ, TABLE, VERSION
from costmodel.exchange.option_rows import Row, whole_number
from costmodel.exchange.shell import Doubt, Script, ShellCommand, Word, read_script
from costmodel.exchange.values import Lines, as_text, printable
from costmodel.ground.errors import Fault, Place, fail

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
        return _options_of_log(text, file)
    if sum(match.group(1).replace("_", "-") in TABLE for match in _ENTRY.finditer(text)) >= _FEWEST:
        return _options_of_yaml(text, file)
    return _options_of_script(text, file)


# --- a script


def _options_of_script(text: str, file: str) -> Statement:
    """The options of the training command in a shell script."""
    script = read_script(text, file)
    commands = [command._replace(words=_split_commands(command.words)) for command in script.commands]
    scored = [(_count_known_options(command.words), command) for command in commands]
    best = max((score for score, _ in scored), default=0)
    if best < _FEWEST:
        return _options_of_variables(script, file)
    chosen = [command for score, command in scored if 2 * score >= best]
    first = _options_of_command(chosen[0], script)
    for other in chosen[1:]:
        if _option_texts(_options_of_command(other, script)) != _option_texts(first):
            hint = f"the first is on line {chosen[0].words[0].place.line}; keep one of the two"
            raise fail("X004", "the script starts more than one training", other.words[0].place, hint)
    if chosen[0].doubt is not None:
        sentence = f"the training hangs on {chosen[0].doubt.sentence}: it is read as if it came about"
        first.losses.append(Loss("ignored", sentence, chosen[0].words[0].place))
    return first


def _option_texts(statement: Statement) -> list[list[str]]:
    return [[option.name, *(word.text for word in option.words)] for option in statement.options]


def _split_commands(words: Sequence[Word]) -> tuple[Word, ...]:
    """The words of a command, with a word that contains a whole command split up."""
    found: list[Word] = []
    for word in words:
        texts = word.text.split()
        if len(texts) < 2 or not any(text.startswith("--") for text in texts):
            found.append(word)
            continue
        found.extend(Word(text, word.place, word.doubt) for text in texts if text != "\\")
    return tuple(found)


def _count_known_options(words: Iterable[Word]) -> int:
    return sum(word.text.startswith("--") and _option_name(word.text) in TABLE for word in words)


def _option_name(spelling: str) -> str:
    return spelling.lstrip("-").split("=", 1)[0]


def _options_of_variables(script: Script, file: str) -> Statement:
    """The options in the variables of a script fragment that starts no program."""
    held = sorted(script.variables.values(), key=_count_known_options, reverse=True)
    taken: list[Word] = []
    for words in held:
        names = {_option_name(word.text) for word in taken if word.text.startswith("--")}
        fresh = {_option_name(word.text) for word in words if word.text.startswith("--")}
        if _count_known_options(words) >= _FEWEST and names.isdisjoint(fresh):
            taken.extend(words)
    if not taken:
        known = {
            _option_name(word.text) for command in script.commands for word in _split_commands(command.words)
        } & set(TABLE)
        found = f"only --{', --'.join(sorted(known))}" if known else "no options"
        hint = f"at least {_FEWEST} options, in a script, a YAML file or at the head of a log; are others misspelt?"
        raise fail("X001", f"there are {found} of Megatron-LM here", Place(file), hint)
    statement = _options_of_command(ShellCommand(tuple(taken)), script)
    sentence = "the text starts no training: the options that its variables hold are read"
    statement.losses.append(Loss("ignored", sentence, taken[0].place))
    return statement


def _options_of_command(command: ShellCommand, script: Script) -> Statement:
    """The options of one command, and what stands before its program."""
    words = command.words
    first = next(
        index for index, word in enumerate(words) if word.text.startswith("--") and _option_name(word.text) in TABLE
    )
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
            statement.options.append(Stated(_option_name(spelling), inside, word.place, word.doubt))
        elif statement.options and _is_value_of(statement.options[-1], word):
            last = statement.options[-1]
            statement.options[-1] = last._replace(words=(*last.words, word))
        else:
            statement.stray.append(word)


def _is_value_of(option: Stated, word: Word) -> bool:
    """Whether a word is a value of the preceding option; an unknown variable is one only where a value is expected."""
    if word.text or word.doubt is None or word.doubt.kind not in ("unset", "argument"):
        return True
    known = READ.get(option.name)
    return not option.words and not (known is not None and known.kind.name == "flag")


# --- YAML


def _options_of_yaml(text: str, file: str) -> Statement:
    """The options in a YAML text."""
    tree = parse(text, file, quoted=True)
    if not isinstance(tree, Mapping):
        raise fail("X001", "there are no options of Megatron-LM here", Place(file))
    inner = tree.get("MODEL_ARGS")
    statement = Statement("options in YAML", [])
    _add_entries(statement, inner if isinstance(inner, Mapping) else tree, depth=0)
    return statement


def _add_entries(statement: Statement, tree: Mapping, depth: int) -> None:
    """Adds the entries of a YAML mapping as options; nested mappings too."""
    for key, value in tree.items():
        name = _option_name(str(key)).replace("_", "-")
        if isinstance(value, Mapping) and name not in TABLE and depth < 2:
            _add_entries(statement, value, depth + 1)  # language_model: and model_parallel: of a configuration
        elif value is None or value is False:
            continue
        elif value is True:
            statement.options.append(Stated(name, (), key.place))
        else:
            words = tuple(Word(str(item), key.at) for item in (value if isinstance(value, list) else [value]))
            statement.options.append(Stated(name, words, key.place))


# --- the arguments at the head of a log


def _options_of_log(text: str, file: str) -> Statement:
    """The options in the arguments that Megatron prints at the head of its log."""
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
            _add_attribute(statement, row.group(1), row.group(2), place)
    if not statement.options:
        raise fail("X001", "there are no arguments under the head", lines.place(head.start()))
    return statement


def _add_attribute(statement: Statement, attribute: str, value: str, place: Place) -> None:
    """Adds an argument of a log as an option, unless it is derived or costs nothing."""
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


_ITEMS = re.compile(r"[^\s,'\"\[\]()]+")


class MegatronFlags:
    """Reads and checks the option values of one text.

    A fault is recorded and a harmless value replaces the faulty one, so that all faults of a text are found at once.
    """

    def __init__(self, statement: Statement, file: str) -> None:
        self.statement, self.file = statement, file
        self.faults: list[Fault] = []
        self.missing: list[Fault] = []
        self.warnings: list[Fault] = []
        self.losses: list[Loss] = list(statement.losses)
        self.stated: dict[str, Stated] = {}
        for option in statement.options:
            self._state(option)
        self._values: dict[str, OriginValue] = {}
        self._unsound: set[str] = set()
        self._asked: set[str] = set()  # options whose value was looked at
        self._lost: dict[str, Verdict] = {}

    def _state(self, option: Stated) -> None:
        """Records an option; of several occurrences the last one counts, and a different earlier value is a loss."""
        before = self.stated.get(option.name)
        self.stated[option.name] = option
        if before is None or option.name not in READ:
            return
        if [word.text for word in before.words] != [word.text for word in option.words]:
            sentence = f"--{option.name} of line {before.place.line}: that of line {option.place.line} counts"
            self.losses.append(Loss("ignored", sentence, before.place))

    def __getitem__(self, name: str) -> OriginValue:
        """The value of an option; None where it is left out and has no default."""
        self._asked.add(name)
        if name not in self._values:
            self._values[name] = self._read(name, READ[name])
        return self._values[name]

    def given(self, name: str) -> bool:
        """Whether the text states an option."""
        return name in self.stated

    def on(self, name: str) -> bool:
        """Whether a flag is given."""
        return bool(self[name].value)

    def sound(self, *names: str) -> bool:
        """Whether these options are stated without a fault, so that rules that combine them can be checked."""
        for name in names:
            self[name]  # reading it finds its faults
        return self._unsound.isdisjoint(names)

    def number(self, name: str, otherwise: int = 0) -> int:
        """The count of an option."""
        value = self[name].value
        return otherwise if value is None else int(value)

    def first(self, *names: str) -> OriginValue:
        """The first of several options that has a value."""
        return next((self[name] for name in names if self[name].value is not None), self[names[0]])

    def derived(self, value: Any, text: str, *names: str) -> OriginValue:
        """A value computed from options, with the place of the first that the text states."""
        places = (self[name].place for name in names)
        return OriginValue(value, Origin("derived", text, next((place for place in places if place is not None), None)))

    def fixed(self, value: Any, text: str) -> OriginValue:
        """A value that the code of Megatron-LM fixes."""
        return OriginValue(value, Origin("class", f"{text}, {VERSION}"))

    def refuse(self, code: str, sentence: str, place: Place | None = None, hint: str = "") -> None:
        """Records a fault, at the place of the text if no other place is given."""
        fault = Fault(code, sentence, place or Place(self.file), hint)
        if fault not in self.faults:
            self.faults.append(fault)

    def need(self, sentence: str, hint: str, place: Place | None = None) -> None:
        """Records a missing value that the user can give in another way."""
        self.missing.append(Fault("X002", sentence, place or Place(self.file), hint))

    def need_option(self, names: tuple[str, ...]) -> None:
        """Records a fault for a required option that is missing or 0."""
        if not self.sound(*names):
            return
        place = self.first(*names).place
        sentence = f"--{names[0]} is 0" if place else f"--{names[0]} is needed and not given"
        self.refuse("X002", sentence, place, "write it into the text")

    def lose(self, kind: LossKind, sentence: str, name: str = "", parameters: float = 0.0) -> None:
        """Records an option that a scenario cannot express."""
        place = self.stated[name].place if name in self.stated else None
        self._lost[name] = VERDICTS[kind]
        loss = Loss(kind, sentence, place, parameters)
        if loss not in self.losses:
            self.losses.append(loss)

    def verdicts(self) -> list[StatedKey]:
        """The verdict for every option that the text states."""
        return [
            StatedKey(printable(f"--{name}"), self._verdict(name), stated.place) for name, stated in self.stated.items()
        ]

    def _verdict(self, name: str) -> Verdict:
        if name not in TABLE:
            return "not expressible"
        return self._lost.get(name, "read" if name in self._asked else "no effect")

    # --- reading one option

    def _read(self, name: str, option: Row) -> OriginValue:
        """The value of an option with its origin: as stated, or Megatron's default."""
        stated = self.stated.get(name)
        if stated is None:
            default = False if option.kind.name == "flag" else option.default
            if option.kind.name == "flag" or (option.kind.name == "word" and default):
                default = option.kind.read(default)
            return OriginValue(default, Origin("default", f"--{name}: default of {VERSION}"))
        if option.old:
            sentence = f"--{name} is of an older Megatron-LM"
            self.warnings.append(Fault("X006", sentence, stated.place, f"today {option.old} states it"))
        doubt = stated.doubt or next((word.doubt for word in stated.words if word.doubt), None)
        if doubt is not None:
            self._doubtful(name, stated, doubt)
            return OriginValue(_harmless(option), Origin("file", f"--{name}", stated.place))
        faults = len(self.faults)
        value = self._checked(name, option, stated)
        if len(self.faults) > faults:
            self._unsound.add(name)
        return OriginValue(value, Origin("file", f"--{name}", stated.place))

    def _doubtful(self, name: str, stated: Stated, doubt: Doubt) -> None:
        """Records a fault for an option whose value the text does not decide."""
        self._unsound.add(name)
        if doubt.kind in ("unset", "argument"):
            self.refuse("X002", f"--{name} is {doubt.sentence}", stated.place, "write its value into the text")
            return
        hint = "write its value into the text, or give the arguments that the program prints at the head of its log"
        self.refuse("X008", f"--{name} hangs on {doubt.sentence}: nothing is run here", stated.place, hint)

    def _checked(self, name: str, option: Row, stated: Stated) -> Any:
        """The value of an option from its words; a fault if they do not fit its kind."""
        texts = [word.text for word in stated.words]
        kind = option.kind
        if kind.name == "flag":
            if texts:
                self.refuse("X005", f"--{name} takes no value, and {as_text(texts[0])} follows it", stated.place)
            return kind.read(True)
        if not texts:
            self.refuse("X005", f"no value follows --{name}", stated.place)
            return _harmless(option)
        if kind.name in ("words", "ramp", "window"):
            items = _ITEMS.findall(" ".join(texts))
            return self._items(name, option, stated, items)
        if len(texts) > 1 and kind.name != "pattern":
            self.refuse("X005", f"--{name} takes one value, not {len(texts)}", stated.place)
        text = texts[0] if kind.name != "pattern" else "".join(texts)
        if text.lower() in ("none", "null"):
            return None if "none" not in kind.words else text
        value = kind.read(text)
        if value is None and kind.words:
            self.refuse("X005", f"--{name} {as_text(text[:80])} is none of {', '.join(kind.words)}", stated.place)
            return kind.read(option.default or next(iter(kind.words)))
        if value is None:
            self.refuse("X005", f"--{name} is {as_text(text[:80])}, not {kind.wanted}", stated.place)
        return value

    def _items(self, name: str, option: Row, stated: Stated, items: list[str]) -> tuple[Any, ...] | None:
        """The values of an option that takes several; None with a fault if their number is wrong."""
        if option.kind.name == "words":
            words = option.kind.words
            wrong = [item for item in items if words and item not in words]
            if wrong:
                self.refuse("X005", f"--{name} {as_text(wrong[0][:80])} is none of {', '.join(words)}", stated.place)
            return tuple(item for item in items if item not in wrong)
        wanted = 3 if option.kind.name == "ramp" else 2
        numbers = tuple(whole_number(item) for item in items)
        if len(numbers) != wanted or None in numbers:
            self.refuse("X005", f"--{name} takes {wanted} whole numbers", stated.place)
            return None
        return numbers


def _harmless(option: Row) -> Any:
    """The value that replaces an invalid one."""
    return option.kind.read(False) if option.kind.name == "flag" else None


# --- accelerators


def accelerator_count(flags: MegatronFlags) -> dict[str, OriginValue]:
    """The number of accelerators: the world size in a log, else the counts of the launcher, with its nodes."""
    if flags["world-size"].value:
        return {"accelerators": flags["world-size"]}
    return launched_accelerators(flags.statement.launch)
