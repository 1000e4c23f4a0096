"""A document as YAML text; a comment behind every value gives its origin."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from costmodel.documents.text.yaml_tree import parse

_COLUMN = 32  # where comments begin behind short values
_WIDTH = 10_000  # no value is wrapped; comments would end up between its lines


def document_text(tree: Mapping[str, Any], comments: Mapping[str, str], head: Iterable[str] = ()) -> str:
    """The YAML of a document: lines of comment at its head, and one behind each value whose path is among `comments`.

    >>> print(document_text({"plan": {"tp": 8, "offload": ["optimizer"]}}, {"plan.tp": "train.sh:3"}), end="")
    plan:
      tp: 8                         # train.sh:3
      offload: [optimizer]
    """
    yaml = YAML()
    yaml.width = _WIDTH
    yaml.indent(mapping=2, sequence=4, offset=2)
    stream = io.StringIO()
    yaml.dump(_mapping(tree, "", comments), stream)
    text = "".join(f"# {_one_line(line)}\n" for line in head) + stream.getvalue()
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
    if isinstance(value, str) and value.startswith("?"):  # in a list ruamel.yaml writes it bare, which is a key
        return DoubleQuotedScalarString(value)
    kind = next((kind for kind in (bool, int, float, str) if isinstance(value, kind)), None)
    return value if kind is None else kind(value)


def _is_block(value: Any) -> bool:
    """Whether a value stands on lines of its own."""
    return isinstance(value, Mapping) or (isinstance(value, list) and any(isinstance(item, Mapping) for item in value))


def _one_line(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)
