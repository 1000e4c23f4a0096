"""Parses JSON to the nodes of the YAML reader, many times as fast, because a stored result can be long."""

from __future__ import annotations

import bisect
import json
import re
from typing import Any

from costmodel.documents.text.plain_yaml import MappingNode, Mark, Node, ScalarNode, SequenceNode

_TOKEN = re.compile(
    r'[ \t\r\n]*(?:("(?:[^"\\\x00-\x1f]|\\.)*")|(-?(?:0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?)'
    r"|(true|false|null)|([{}\[\],:])|\Z)",
    re.ASCII,
)
_LINE_END = re.compile(r"\r\n|\r|\n")
_KINDS = ("str", "int", "float", "bool", "null")
_DEEPEST = 64


class _NoJson(Exception):
    """The text is not JSON."""


def composed(text: str) -> Node | None:
    """The nodes of a JSON text; None if it is not JSON or is nested too deep."""
    reader = _TokenReader(text)
    try:
        node = reader.value(0)
        reader.next()
    except (_NoJson, ValueError):
        return None
    return node if not reader.token[0] else None


def looks_like_json(text: str) -> bool:
    """Whether a text starts like a JSON object."""
    return re.match(r'\s*\{\s*["}]', text) is not None


def fault_of(text: str) -> tuple[str, int, int] | None:
    """The problem that makes a text invalid JSON, with its line and column; None if it is valid."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.msg, error.lineno, error.colno
    except (ValueError, RecursionError):
        pass
    return None


class _TokenReader:
    """Reads tokens one by one; `token` is the last one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
        self.token: tuple[str, str] = ("", "")  # kind and text
        self.start = self.end = 0

    def next(self) -> tuple[str, str]:
        """The kind and text of the next token; raises `_NoJson` if there is none."""
        match = _TOKEN.match(self.text, self.end)
        if match is None:
            raise _NoJson
        text, number, point, power, word, mark = match.groups()
        self.end = match.end()
        found = text or number or word or mark or ""
        self.start = self.end - len(found)
        kind = "str" if text else "float" if point or power else "int" if number else found
        self.token = kind, found
        return self.token

    def mark(self, index: int) -> Mark:
        """The line and column of a position in the text."""
        line = bisect.bisect_right(self.starts, index) - 1
        return Mark(line, index - self.starts[line])

    def value(self, depth: int) -> Node:
        """Parses the next value of the text to a node."""
        kind, text = self.next()
        start = self.mark(self.start)
        if kind == "{" and depth < _DEEPEST:
            return MappingNode("map", self.pairs(depth), start, self.mark(self.end), flow_style=True)
        if kind == "[" and depth < _DEEPEST:
            return SequenceNode("seq", self.items(depth), start, self.mark(self.end), flow_style=True)
        return self.scalar(kind, text, start)

    def scalar(self, kind: str, text: str, start: Mark) -> Node:
        """The node of a string, number, truth value or null."""
        tag = "bool" if kind in ("true", "false") else kind
        if tag not in _KINDS:
            raise _NoJson
        return ScalarNode(tag, json.loads(text) if tag == "str" else text, start, self.mark(self.end))

    def pairs(self, depth: int) -> list[tuple[Node, Node]]:
        """The entries of an object."""
        key_values: list[tuple[Node, Node]] = []
        while (token := self.next())[0] != "}":
            if key_values:
                if token[0] != ",":
                    raise _NoJson
                token = self.next()
            if token[0] != "str":
                raise _NoJson
            key = self.scalar(*token, self.mark(self.start))
            if self.next()[0] != ":":
                raise _NoJson
            key_values.append((key, self.value(depth + 1)))
        return key_values

    def items(self, depth: int) -> list[Any]:
        """The items of an array."""
        values: list[Any] = []
        before = self.end
        while self.next()[0] != "]":
            if not values:
                self.end = before
            elif self.token[0] != ",":
                raise _NoJson
            values.append(self.value(depth + 1))
        return values
