"""Variables of a container, and their values in the words that it starts: put in as letters, never run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from costmodel.exchange.shell import Doubt, Word
from costmodel.ground.errors import Place

Environment = Mapping[str, Word]  # by name; a value that the text does not hold has a doubt
SHELLS = ("bash", "sh", "zsh", "dash")
_NAME = r"[A-Za-z_]\w*"
_MOST_LETTERS = 100_000  # of a word with its variables
_MOST_VARIABLES = 1_000
# A dollar that is meant, then the forms of a variable: of Kubernetes, with a default, and of a shell.
_VARIABLE = re.compile(
    rf"\$\$|\$\((?P<round>{_NAME})\)|\$\{{(?P<held>{_NAME})(?::?-(?P<other>[^}}$]*))?\}}|\$(?P<bare>{_NAME})"
)
_PLAIN = re.compile(r"[\w./:@%+,=-]*")  # which means the same in a shell
_OF_KUBERNETES = re.compile(rf"\$\$\(|\$\((?P<name>{_NAME})\)")


def environment_of(tree: Mapping[Any, Any], place: Place, *, composed: bool) -> dict[str, Word]:
    """The variables that a container states, in their order; later ones may name earlier ones."""
    found: dict[str, Word] = {}
    for name, value in _stated(tree.get("environment" if composed else "env"), composed):
        if len(found) >= _MOST_VARIABLES:
            break
        if isinstance(value, Doubt):
            found[name] = Word("", place, value)
        else:
            found[name] = expanded(Word(value, place), found, composed=composed)
    return found


def _stated(tree: Any, composed: bool) -> Iterator[tuple[str, str | Doubt]]:
    """Names with their values: of a list of names and values, a mapping, or a list of NAME=VALUE; with a doubt where a
    value stands elsewhere.
    """
    if isinstance(tree, Mapping):
        for name, value in tree.items():
            yield str(name), _elsewhere(str(name)) if value is None and composed else _text(value)
    for item in tree if isinstance(tree, list) else ():
        if isinstance(item, Mapping) and "name" in item:
            name = str(item["name"])
            yield name, _from(name, item["valueFrom"]) if "valueFrom" in item else _text(item.get("value"))
        elif isinstance(item, str):
            name, equals, value = item.partition("=")
            yield name, value if equals else _elsewhere(name)


def _text(value: Any) -> str:
    """A value as the container has it."""
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _from(name: str, source: Any) -> Doubt:
    kinds = ", ".join(str(kind)[:40] for kind in source) if isinstance(source, Mapping) else ""
    return Doubt("unset", f"${name}, which env takes from valueFrom{f' ({kinds})' if kinds else ''}")


def _elsewhere(name: str) -> Doubt:
    return Doubt("unset", f"${name}, which the manifest takes from where it is started")


def expanded(word: Word, environment: Environment, *, composed: bool) -> Word:
    """A word with the values of its variables; of one that is not known, a doubt."""
    text, at, doubt = "", 0, word.doubt
    for match in _VARIABLE.finditer(word.text):
        value, unknown = _value(match, environment, composed)
        text, at, doubt = text + word.text[at : match.start()] + value, match.end(), doubt or unknown
        if len(text) > _MOST_LETTERS:
            return Word("", word.place, Doubt("code", "a word of variables of variables, which grows without end"))
    return word._replace(text=text + word.text[at:], doubt=doubt)


def _value(match: re.Match[str], environment: Environment, composed: bool) -> tuple[str, Doubt | None]:
    """What stands for one variable, and the doubt in it."""
    name = match["round"] or match["held"] or match["bare"]
    if name is None:
        return "$", None
    if match["round"] and composed:  # a compose file does not know this form
        return match[0], None
    if name in environment:
        return environment[name].text, environment[name].doubt
    if match["other"] is not None:
        return match["other"], None
    return "", Doubt("unset", f"{match[0]}, which the text does not set")


def words_with_values(words: Sequence[Word], environment: Environment, *, composed: bool) -> list[Word]:
    """The words of a container with their variables' values; those of a shell's text are the shell's to put in, but for
    the form of Kubernetes, which comes before it.
    """
    found: list[Word] = []
    for word in words:
        if _is_text_of_shell(found):
            found.append(word._replace(text=_for_shell(word.text, environment, composed)))
        else:
            found.append(expanded(word, environment, composed=composed))
    return found


def _is_text_of_shell(ahead: Sequence[Word]) -> bool:
    """Whether the next word is the text that a shell is given behind -c."""
    if not ahead or not re.fullmatch(r"-[a-z]*c", ahead[-1].text):
        return False
    return any(PurePosixPath(word.text).name in SHELLS for word in ahead[-4:-1])


def _for_shell(text: str, environment: Environment, composed: bool) -> str:
    """A text for a shell, in which variables are in the form of a shell."""
    if composed:
        return text.replace("$$", "$")

    def one(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None:
            return "$("  # which Kubernetes leaves to the shell
        known = environment.get(name)
        if known is None:
            return match[0]
        plain = known.doubt is None and _PLAIN.fullmatch(known.text)
        return known.text if plain else f"${{{name}}}"

    return _OF_KUBERNETES.sub(one, text)
