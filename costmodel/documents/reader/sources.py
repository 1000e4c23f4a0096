"""Sources of figures: bibliography, glossary, strategies, and the source of the group that contains a figure."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costmodel.documents.keys.suggestions import nearest
from costmodel.documents.text.yaml_tree import parse
from costmodel.ground.errors import Fault, Place
from costmodel.ground.record import record

if TYPE_CHECKING:
    from costmodel.ground.equation import Argument

_EQUATIONS = Path(__file__).resolve().parents[2] / "equations"


@record
class Provenance:
    """The place of a figure, and the source of its group."""

    place: Place
    source: str = ""
    title: str = ""
    check: str = ""
    note: str = ""


@functools.cache
def _beside_the_equations(name: str) -> dict[str, Any]:
    tree: dict[str, Any] = parse((_EQUATIONS / name).read_text(encoding="utf-8"), f"costmodel/equations/{name}")
    return tree


def bibliography() -> dict[str, Any]:
    """The sources that equations and documents name, by key."""
    return _beside_the_equations("sources.yaml")


def glossary() -> dict[str, Any]:
    """The words for arguments and plan keys, with meaning and unit."""
    return _beside_the_equations("vocabulary.yaml")


def argument_meaning(argument: Argument) -> str:
    """The meaning of an equation's argument, with its symbol: from its docstring, else from the glossary."""
    words = argument.words or str(glossary()[argument.name]["meaning"])
    return f"{words}, {argument.symbol}" if argument.symbol else words


def strategies() -> dict[str, Any]:
    """Strategies for parallelism and execution: what each is, when it pays off, and what it costs."""
    return _beside_the_equations("strategies.yaml")


def serving_words() -> dict[str, Any]:
    """Serving terms: what each means, with the equations behind it."""
    return _beside_the_equations("serving_words.yaml")


def phrases() -> dict[str, list[str]]:
    """Common phrases, each with the term whose page explains it."""
    return _beside_the_equations("phrases.yaml")


@functools.cache
def labels() -> dict[str, tuple[str, str]]:
    """The meaning of each label in an answer, and the term whose page explains more; either may be empty."""
    rows = ([*map(str, row), ""] for row in _beside_the_equations("labels.yaml")["labels"])
    return {label: (meaning, see) for label, meaning, see, *_ in rows}


def rl_words() -> dict[str, Any]:
    """Terms of reinforcement learning: what each means, with the equations behind it."""
    return _beside_the_equations("rl_words.yaml")


def provenance(trees: Mapping[str, Any], place: Place) -> Provenance:
    """The source of a figure: that of the nearest enclosing group that names one; its check is "seen" (read in that
    source) unless the group has "known".
    """
    here: Any = trees.get(place.file)
    group: dict[str, Any] = {}
    listed: dict[Any, Any] = {}
    for part in (*place.path.split("."), ""):  # the last round, for "", looks at the figure itself
        if isinstance(here, dict):
            group = here if "source" in here else group
            listed.update(_sources_of_document(here))
        here = _child_at(here, part)
    key = str(group.get("source", ""))
    entry = (listed.get(key) if key in listed or not key else bibliography().get(key)) or {}
    check = str(group.get("check", "seen")) if key else ""
    return Provenance(place, key, str(entry.get("title", "")), check, str(group.get("note", "")))


def uncited(tree: Any, listed: frozenset[str] = frozenset()) -> Iterator[Fault]:
    """A fault for every group whose source is neither in the document nor in the bibliography."""
    if isinstance(tree, dict):
        listed = listed.union(_sources_of_document(tree))
        for key, value in tree.items():
            if (
                key == "source"
                and isinstance(value, str)
                and value not in listed
                and value not in keys_of_bibliography()
            ):
                close = nearest(value, sorted(listed), 0.6)
                hint = f"did you mean '{close}'?" if close else f"add it: sources: {{{value}: {{title: …}}}}"
                yield Fault("D013", f"the source '{value}' has no entry", getattr(value, "place", None), hint)
            else:
                yield from uncited(value, listed)
    elif isinstance(tree, list):
        for item in tree:
            yield from uncited(item, listed)


@functools.cache
def keys_of_bibliography() -> frozenset[str]:
    """The keys of the bibliography, found without parsing the file, which is slow."""
    text = (_EQUATIONS / "sources.yaml").read_text(encoding="utf-8")
    return frozenset(re.findall(r"^([^\s#:][^:\n]*):", text, re.MULTILINE))


def _sources_of_document(tree: dict[Any, Any]) -> dict[Any, Any]:
    sources = tree.get("sources")
    return sources if isinstance(sources, dict) else {}


def _child_at(here: Any, part: str) -> Any:
    if isinstance(here, list) and part.isdigit() and int(part) < len(here):
        return here[int(part)]
    return here.get(part) if isinstance(here, dict) else None
