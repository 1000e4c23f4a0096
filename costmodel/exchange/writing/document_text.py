"""A document as YAML text; a comment behind every value gives its origin."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from costmodel.documents.text.yaml_tree import parse

_COLUMN = 32  # where comments begin behind short values
_UNWRAPPED = 10_000  # no value is wrapped; comments would end up between its lines
_WIDTH = 80  # of a line with its comment, which else stands above it


def document_text(tree: Mapping[str, Any], comments: Mapping[str, str], head: Iterable[str] = ()) -> str:
    """The YAML of a document, with comment lines at its start and a comment for each path in `comments`:
    after the value or, where the line would be too wide, above it.

    >>> print(document_text({"plan": {"tp": 8, "offload": ["optimizer"]}}, {"plan.tp": "train.sh:3"}), end="")
    plan:
      tp: 8                         # train.sh:3
      offload: [optimizer]
    """
    yaml = YAML()
    yaml.width = _UNWRAPPED
    yaml.indent(mapping=2, sequence=4, offset=2)
    stream = io.StringIO()
    yaml.dump(_mapping(tree, "", comments), stream)
    known = sorted({f" # {_one_line(words)}" for words in comments.values() if words}, key=len, reverse=True)
    lines = [each for line in stream.getvalue().splitlines() for each in _narrow(line, known)]
    text = "".join(f"{line}\n" for words in head for line in _comment(words, "")) + "".join(
        f"{line}\n" for line in lines
    )
    assert parse(text, "") == tree, "the text and the document differ"
    return text


def _mapping(tree: Mapping[str, Any], path: str, comments: Mapping[str, str]) -> CommentedMap:
    built = CommentedMap()
    for name, value in tree.items():
        inner = f"{path}.{name}" if path else str(name)
        built[str(name)] = _node(value, inner, comments)
        if comments.get(inner) and not _is_block(value):
            built.yaml_add_eol_comment(_one_line(comments[inner]), str(name), column=_COLUMN)
    return built


def _node(value: Any, path: str, comments: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return _mapping(value, path, comments)
    if isinstance(value, list):
        items = CommentedSeq(_node(item, f"{path}.{index}", comments) for index, item in enumerate(value))
        if not _is_block(value):
            items.fa.set_flow_style()
        return items
    if isinstance(value, str) and value.startswith(("?", ":")):  # ruamel.yaml writes it bare in a list, as a key
        return DoubleQuotedScalarString(value)
    kind = next((kind for kind in (bool, int, float, str) if isinstance(value, kind)), None)
    return value if kind is None else kind(value)


def _is_block(value: Any) -> bool:
    """Whether YAML writes a value on separate lines below its key."""
    return isinstance(value, Mapping) or (isinstance(value, list) and any(isinstance(item, Mapping) for item in value))


def _narrow(line: str, comments: Iterable[str]) -> Iterator[str]:
    """A line; if it is too wide, its comment is moved above it."""
    comment = next((each for each in comments if line.endswith(each)), "") if len(line) > _WIDTH else ""
    if comment:
        line = line.removesuffix(comment).rstrip()
        yield from _comment(comment.removeprefix(" # "), line[: len(line) - len(line.lstrip())])
    yield line


def _comment(words: str, indent: str) -> list[str]:
    begins = f"{indent}# "
    return textwrap.wrap(
        _one_line(words), _WIDTH, initial_indent=begins, subsequent_indent=begins, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def _one_line(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)
