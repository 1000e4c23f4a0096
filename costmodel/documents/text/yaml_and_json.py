"""Parses plain YAML, and JSON, to the nodes of ruamel.yaml, ten times as fast."""

from __future__ import annotations

import bisect
import contextlib
import json
import re
from typing import Any, ClassVar, NamedTuple

# --- parses plain YAML to the nodes of ruamel.yaml, ten times as fast


# Nodes of parsed JSON and plain YAML, like those of ruamel.yaml, without importing it.


class Mark(NamedTuple):
    """A place in the text, counted from zero."""

    line: int
    column: int


class _Node:
    """The value between two places in the text."""

    __slots__ = ("end_mark", "flow_style", "start_mark", "tag", "value")
    id: ClassVar[str]
    anchor: ClassVar[None] = None  # a text with anchors is left to ruamel.yaml

    def __init__(self, tag: str, value: Any, start: Mark, end: Mark, *, flow_style: bool = False) -> None:
        self.tag, self.value, self.start_mark, self.end_mark, self.flow_style = tag, value, start, end, flow_style


class ScalarNode(_Node):
    """One value, as text."""

    __slots__ = ()
    id = "scalar"


class SequenceNode(_Node):
    """A list of nodes."""

    __slots__ = ()
    id = "sequence"


class MappingNode(_Node):
    """A list of pairs of nodes."""

    __slots__ = ()
    id = "mapping"


Node = ScalarNode | SequenceNode | MappingNode


class NotYaml(Exception):
    """A text is not YAML: a sentence, a remedy, and the line and column where they are known."""

    def __init__(self, sentence: str, hint: str, at: tuple[int, int] | None) -> None:
        super().__init__(sentence)
        self.sentence, self.hint, self.at = sentence, hint, at


_DEEPEST = 40
# Tabs, line ends other than LF and whatever ruamel.yaml refuses to read.
_UNUSUAL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_SPECIAL = r",\[\]{}#&*!|>'\"%@`"
_KEY = re.compile(r"([A-Za-z0-9_](?:[A-Za-z0-9_./+*-]| (?=[A-Za-z0-9_+])){0,127}):(?= |$)")
_ITEM = re.compile(r"-( +|$)")
_SPACES = re.compile(r" *")
_REST = re.compile(r" *$| +#.*$")
_PLAIN = re.compile(rf"(?:[^ {_SPECIAL}?:-]|[?:-](?=[^ ]))(?:[^ :]|:(?=[^ ])| +(?=[^ #]))*(?= *$| +#)")
_CONTINUED = re.compile(r"(?:[^ :]|:(?=[^ ])| +(?=[^ #]))+")
_QUOTED = re.compile(r"\"([^\"\\]*)\"|'([^']*)'(?!')")
_OPEN_QUOTE = re.compile(r"\"[^\"\\]*$|'[^']*$")
_IN_FLOW = re.compile(
    rf"(?:[^ {_SPECIAL}?:-]|-(?=[^ ,\[\]{{}}:?]))(?:[^ ,\[\]{{}}:?]|:(?=[A-Za-z0-9_/])| +(?=[^ ,\[\]{{}}:?#]))*"
)
_FLOAT = re.compile(
    r"[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+|[-+]?\.[0-9_]+(?:[eE][-+][0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_INTEGER = re.compile(r"[-+]?0b[0-1_]+|[-+]?0o?[0-7_]+|[-+]?[0-9_]+|[-+]?0x[0-9a-fA-F_]+")
_WORDS = {
    **dict.fromkeys(("true", "True", "TRUE", "false", "False", "FALSE"), "bool"),
    **dict.fromkeys(("~", "null", "Null", "NULL"), "null"),
}


class _NotPlain(Exception):
    """The text contains YAML that is left to ruamel.yaml."""


def composed(text: str) -> Node | None:
    """The nodes of a plain YAML text; None if ruamel.yaml has to read it."""
    if _UNUSUAL.search(text):
        return None
    reader = _BlockReader(text)
    try:
        return reader.whole()
    except _NotPlain:
        return None


def first_not_plain(text: str) -> tuple[int, int]:
    """The line and column, from zero, of what keeps a text from being plain YAML; of a construct where it starts."""
    if unusual := _UNUSUAL.search(text):
        before = text[: unusual.start()].split("\n")
        return len(before) - 1, len(before[-1])
    reader = _BlockReader(text)
    with contextlib.suppress(_NotPlain):
        reader.whole()
    return reader.reading, len(_SPACES.match(reader.raw[reader.reading])[0])  # type: ignore[index]  # matches everywhere


def _tag(value: str) -> str:
    """The type of a plain value."""
    if value[0] in "-+.0123456789":
        return "float" if _FLOAT.fullmatch(value) else "int" if _INTEGER.fullmatch(value) else "str"
    if value in ("<<", "="):
        raise _NotPlain
    return _WORDS.get(value, "str")


def _scalar_node(tag: str, value: str, line: int, start: int, end: int) -> ScalarNode:
    return ScalarNode(tag, value, Mark(line, start), Mark(line, end))


class _BlockReader:
    """Reads block-style YAML line by line; each line is its number, its indentation and its content."""

    def __init__(self, text: str) -> None:
        self.lines: list[tuple[int, int, str]] = []
        self.raw = text.split("\n")
        for number, line in enumerate(self.raw):
            content = line.lstrip(" ")
            if content and content[0] != "#":
                self.lines.append((number, len(line) - len(content), content))
        self.at, self.depth, self.reading = 0, 0, 0

    def whole(self) -> Node | None:
        """The node of all lines."""
        if not self.lines or any(content[:3] in ("---", "...") for _, indent, content in self.lines if not indent):
            raise _NotPlain
        node = self.block()
        if self.at < len(self.lines):
            raise _NotPlain
        return node

    def block(self) -> Node:
        """The node that starts on this line."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise _NotPlain
        line, indent, content = self.lines[self.at]
        self.reading = line
        if _ITEM.match(content):
            node: Node = self.sequence(indent)
        elif _KEY.match(content):
            node = self.mapping(indent)
        else:
            self.at += 1
            node = self.value(line, indent, content)
        self.depth -= 1
        return node

    def level(self, indent: int) -> str | None:
        """The content of the next line, if it has this indentation; None if it is indented less."""
        if self.at == len(self.lines) or self.lines[self.at][1] < indent:
            return None
        self.reading, line, content = self.lines[self.at]
        if line > indent:
            raise _NotPlain
        return content

    def mapping(self, indent: int) -> MappingNode:
        """A mapping: keys on successive lines."""
        pairs: list[tuple[Node, Node]] = []
        start = Mark(self.lines[self.at][0], indent)
        while (content := self.level(indent)) is not None:
            match = _KEY.match(content)
            if match is None:
                raise _NotPlain
            line, name, after = self.lines[self.at][0], match[1], match.end()
            key = _scalar_node("str", name, line, indent, indent + after - 1)
            self.at += 1
            pairs.append((key, self.after_key(line, indent, content, after)))
        return MappingNode("map", pairs, start, Mark(start.line + 1, 0))

    def after_key(self, line: int, indent: int, content: str, after: int) -> Node:
        """The value of a key, on the same line or below it."""
        if not _REST.match(content, after):
            origin = _SPACES.match(content, after).end()  # type: ignore[union-attr]  # matches everywhere
            if content[origin:] == ">-":
                return self.folded(line, indent, Mark(line, indent + origin))
            if (first := _PLAIN.match(content, origin)) and first.end() == len(content):
                return self.continued(line, indent, indent + origin, first[0])
            return self.value(line, indent + origin, content[origin:])
        if self.at < len(self.lines):
            _, found, below = self.lines[self.at]
            if found > indent or (found == indent and _ITEM.match(below)):
                return self.block()
        return _scalar_node("null", "", line, indent + after, indent + after)

    def continued(self, line: int, indent: int, column: int, first: str) -> ScalarNode:
        """A plain value with its continuation lines, which are indented further than its key and not empty."""
        texts, ended = [first], Mark(line, column + len(first))
        while self.at < len(self.lines) and self.lines[self.at][0] == ended.line + 1:
            _, found, content = self.lines[self.at]
            if found <= indent or not _CONTINUED.fullmatch(content):
                break
            texts.append(content)
            ended = Mark(ended.line + 1, found + len(content))
            self.at += 1
        text = " ".join(texts)
        return ScalarNode("str" if texts[1:] else _tag(text), text, Mark(line, column), ended)

    def folded(self, line: int, indent: int, start: Mark) -> ScalarNode:
        """A folded text (>-) below a key: lines of one indentation without an empty line."""
        origin = ended = line + 1
        width = _SPACES.match(self.raw[origin]).end() if origin < len(self.raw) else 0  # type: ignore[union-attr]
        while ended < len(self.raw) and self.raw[ended][:width].isspace() and self.raw[ended][width:].strip(" "):
            if self.raw[ended][width] == " ":
                raise _NotPlain
            ended += 1
        after = next((text for text in self.raw[ended:] if text), "")
        if width <= indent or origin == ended or (after[:width].isspace() and len(after) >= width):
            raise _NotPlain
        while self.at < len(self.lines) and self.lines[self.at][0] < ended:
            self.at += 1
        return ScalarNode("str", " ".join(text[width:] for text in self.raw[origin:ended]), start, Mark(ended, 0))

    def sequence(self, indent: int) -> SequenceNode:
        """A list: items on successive lines; the text after a dash is read as a separate line."""
        items: list[Node] = []
        start = Mark(self.lines[self.at][0], indent)
        while (content := self.level(indent)) is not None and (match := _ITEM.match(content)):
            width, line = match.end(), self.lines[self.at][0]
            if width == len(content) or content[width] == "#":
                raise _NotPlain
            self.lines[self.at] = (line, indent + width, content[width:])
            items.append(self.block())
        return SequenceNode("seq", items, start, Mark(start.line + 1, 0))

    def quoted(self, line: int, column: int, content: str) -> tuple[Node, int, str]:
        """A text in quotes of several lines, none of them empty; where it ends on its last line; and that line."""
        quote, texts, last = content[0], [content[1:].rstrip(" ")], line
        while self.at < len(self.lines) and self.lines[self.at][0] == last + 1:
            last, indent, content = self.lines[self.at]
            self.at += 1
            if match := _QUOTED.match(quote + content):
                text, end = " ".join([*texts, match[1] or match[2] or ""]), match.end() - 1
                return ScalarNode("str", text, Mark(line, column), Mark(last, indent + end)), end, content
            if not _OPEN_QUOTE.match(quote + content):
                break
            texts.append(content.rstrip(" "))
        raise _NotPlain

    def value(self, line: int, column: int, content: str) -> Node:
        """A value, optionally followed by a comment."""
        if content[0] in "[{":
            flow = _FlowReader(self, line, column, content)
            node, end, content = flow.node(0), flow.end, flow.content
        elif _OPEN_QUOTE.match(content):
            node, end, content = self.quoted(line, column, content)
        elif quoted := _QUOTED.match(content):
            node, end = (
                _scalar_node("str", quoted[1] or quoted[2] or "", line, column, column + quoted.end()),
                quoted.end(),
            )
        elif plain := _PLAIN.match(content):
            node, end = _scalar_node(_tag(plain[0]), plain[0], line, column, column + plain.end()), plain.end()
        else:
            raise _NotPlain
        if not _REST.match(content, end):
            raise _NotPlain
        return node


class _FlowReader:
    """Reads a list or mapping in brackets; after its first line it takes lines from the reader of blocks."""

    def __init__(self, block: _BlockReader, line: int, column: int, content: str) -> None:
        self.block, self.line, self.column, self.content, self.end = block, line, column, content, 0

    def next(self) -> str:
        """The next character after blanks, comments and line ends; empty after the last."""
        if self.content[self.end : self.end + 1] not in ("", " "):
            return self.content[self.end]
        while match := _REST.match(self.content, self.end):
            if self.block.at == len(self.block.lines):
                self.end = match.end()
                return ""
            self.line, self.column, self.content = self.block.lines[self.block.at]
            self.block.reading = self.line
            self.end, self.block.at = 0, self.block.at + 1
        self.end = _SPACES.match(self.content, self.end).end()  # type: ignore[union-attr]  # matches everywhere
        return self.content[self.end]

    def node(self, depth: int) -> Node:
        """The node that starts here."""
        first, start = self.next(), self.mark()
        if depth > _DEEPEST:
            raise _NotPlain
        if first == "[":
            return SequenceNode("seq", self.items(depth), start, self.mark(), flow_style=True)
        if first == "{":
            return MappingNode("map", self.pairs(depth), start, self.mark(), flow_style=True)
        origin = self.end
        quoted = _QUOTED.match(self.content, origin)
        match = quoted or _IN_FLOW.match(self.content, origin)
        if match is None:
            raise _NotPlain
        self.end = match.end()
        tag, value = ("str", quoted[1] or quoted[2] or "") if quoted else (_tag(match[0]), match[0])
        return _scalar_node(tag, value, self.line, self.column + origin, self.column + self.end)

    def mark(self) -> Mark:
        """The place that is read next."""
        return Mark(self.line, self.column + self.end)

    def items(self, depth: int) -> list[Node]:
        """The items of a list."""
        self.end += 1
        nodes: list[Node] = []
        while self.next() != "]":
            if nodes:
                self.comma()
            nodes.append(self.node(depth + 1))
        self.end += 1
        return nodes

    def pairs(self, depth: int) -> list[tuple[Node, Node]]:
        """The entries of a mapping."""
        self.end += 1
        key_values: list[tuple[Node, Node]] = []
        while self.next() != "}":
            if key_values:
                self.comma()
                self.next()
            name = _KEY.match(self.content, self.end)
            if name is None:
                raise _NotPlain
            key = _scalar_node("str", name[1], self.line, self.column + name.start(), self.column + name.end() - 1)
            self.end = name.end()
            key_values.append((key, self.node(depth + 1)))
        self.end += 1
        return key_values

    def comma(self) -> None:
        """Skips the comma between two entries."""
        if self.next() != ",":
            raise _NotPlain
        self.end += 1


# --- parses JSON to the nodes of the YAML reader, many times as fast, because a stored result can be long


_TOKEN = re.compile(
    r'[ \t\r\n]*(?:("(?:[^"\\\x00-\x1f]|\\.)*")|(-?(?:0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?)'
    r"|(true|false|null)|([{}\[\],:])|\Z)",
    re.ASCII,
)
_LINE_END = re.compile(r"\r\n|\r|\n")
_KINDS = ("str", "int", "float", "bool", "null")
_DEEPEST_JSON = 64


class _NoJson(Exception):
    """The text is not JSON."""


def composed_json(text: str) -> Node | None:
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
        if kind == "{" and depth < _DEEPEST_JSON:
            return MappingNode("map", self.pairs(depth), start, self.mark(self.end), flow_style=True)
        if kind == "[" and depth < _DEEPEST_JSON:
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
