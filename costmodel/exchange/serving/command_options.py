"""Options of a command, by name, as the tree that a table of options reads."""

from __future__ import annotations

import re
from collections.abc import Mapping as AnyMapping
from collections.abc import Sequence
from dataclasses import dataclass, field

from costmodel.documents.text.yaml_tree import Mapping, Text, key_at
from costmodel.exchange.option_rows import Row, Table
from costmodel.exchange.shell import Doubt, Word
from costmodel.exchange.values import as_text
from costmodel.ground.errors import Fault, Place
from costmodel.ground.record import record

_OPTION = re.compile(r"--?[A-Za-z]")
_NUMBER = re.compile(r"-?\d")
_SWITCH = ("true", "false")


@record
class Spelling:
    """How a program spells its options.

    short: other spellings, with the option that each stands for. between: the character between the words of a name.
    shortened: whether names may be abbreviated. negated: whether --no- switches a flag off,
    and --disable- an --enable- option.
    """

    short: AnyMapping[str, str] = field(default_factory=dict)
    between: str = "-"
    shortened: bool = False
    negated: bool = False


@dataclass
class OptionWords:
    """The options of one command, and the words that belong to no option, such as the model name.

    unless: faults that another file, or --set, removes by stating the key.
    """

    tree: Mapping
    plain: list[Word]
    faults: list[Fault]
    unless: list[tuple[str, Fault]]


def option_words(words: Sequence[Word], table: Table, spelling: Spelling) -> OptionWords:
    """The options in a list of words; if an option occurs several times, the last one counts."""
    found = OptionWords(Mapping(), [], [], [])
    found.tree.place = words[0].place if words else Place("")
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if not _OPTION.match(word.text):
            found.plain.append(word)
            continue
        name, equals, inside = word.text.partition("=")
        known, off = _option_named(name, table, spelling)
        behind = words[index] if index < len(words) else None
        if equals:
            value: Word | None = word._replace(text=inside)
        elif behind is not None and _is_value(behind, table.get(known)):
            value, index = behind, index + 1
        else:
            value = None
        while value is not None and index < len(words) and _is_further_value(words[index], table.get(known)):
            value, index = value._replace(text=f"{value.text} {words[index].text}"), index + 1
        _state_option(found, known, word, value, off=off, rule=table.get(known))
    return found


def _option_named(name: str, table: Table, spelling: Spelling) -> tuple[str, bool]:
    """The option that a spelling denotes, and whether the spelling switches it off."""
    if name in spelling.short:
        return spelling.short[name], False
    plain = re.sub(r"[-_]", spelling.between, name.lstrip("-"))
    head = plain.split(".", 1)[0]
    if plain in table or head == plain:
        pass
    elif head in table:
        plain = head  # --speculative-config.method
    if plain not in table and spelling.negated and plain.startswith("no-") and plain[3:] in table:
        return plain[3:], True
    if plain not in table and spelling.negated:
        word, _, rest = plain.partition("-")
        other = {"disable": f"enable-{rest}", "enable": f"disable-{rest}"}.get(word, "")
        if other in table:
            return other, True
    if plain not in table and spelling.shortened:
        meant = [option for option in table if option.startswith(plain)]
        plain = meant[0] if len(meant) == 1 else plain
    return plain, False


def _is_value(word: Word, rule: Row | None) -> bool:
    """Whether the word after an option is its value; a flag takes only true and false."""
    if _OPTION.match(word.text) and not _NUMBER.match(word.text):
        return False
    if rule is not None and rule.kind.name == "flag":
        return word.text.lower() in _SWITCH
    return True


def _is_further_value(word: Word, rule: Row | None) -> bool:
    """Whether a further word is another value of the option."""
    return rule is not None and rule.kind.name == "text" and not rule.fills and not _OPTION.match(word.text)


def unknown_value(what: str, doubt: Doubt, place: Place, fills: str, ours: str) -> tuple[str, Fault]:
    """The key that an undecidable value fills, and the fault unless another source states the key."""
    key = fills.split()[0]
    code = "X002" if doubt.kind in ("unset", "argument") else "X008"
    hint = f"write its value into the text, or add --set {key}=…"
    return key, Fault(code, f"{what} is {doubt.sentence}", place, hint, f"{ours}, which --set {key}=… states")


def _state_option(
    found: OptionWords, name: str, word: Word, value: Word | None, *, off: bool, rule: Row | None
) -> None:
    """Stores one option of a command in the tree; an option whose value is undecided becomes a fault."""
    doubt = word.doubt or (value.doubt if value is not None else None)
    if doubt is not None:
        if rule is not None and rule.fills:
            written = as_text(word.text.rstrip("="))[1:-1][:60]
            found.unless.append(unknown_value(written, doubt, word.place, rule.fills, f"--{name}"))
        return
    if rule is not None and rule.kind.name == "flag":
        said = True if value is None else value.text.lower() == "true"
        plain: bool | str = said != off
    elif value is None:
        if rule is not None and rule.fills:
            found.faults.append(Fault("X005", f"no value follows --{name}", word.place))
        plain = ""
    else:
        plain = Text(value.text)
    found.tree.pop(name, None)
    found.tree[key_at(name, word.place, value.place if value is not None else word.place)] = plain
