"""Parses YAML to a tree in which every key and value knows its place; treats all input as hostile."""

from __future__ import annotations

import copy
import functools
import re
from typing import Any

from costmodel.documents.reader.folders import is_near, place_in
from costmodel.documents.text import yaml_and_json
from costmodel.documents.text.files import MAXIMUM_BYTES
from costmodel.documents.text.yaml_and_json import NotYaml, fault_of, looks_like_json
from costmodel.ground.errors import COMMAND_LINE, CostModelError, Fault, Place, fail
from costmodel.ground.parsing import late_pattern

MAXIMUM_YAML = 1_000_000  # letters
MOST_NOT_PLAIN = 100_000  # letters; ruamel.yaml takes a second for them
_NOT_PLAIN = f"this is not YAML, or not as plain as a text of over {MOST_NOT_PLAIN / 1e6} MB has to be"
_PLAIN = "plain are keys, items, [brackets], numbers and words; a JSON text may be longer"
LONGEST_WORD = 10_000  # letters; the scanner looks at each by itself
WORTH_KEEPING = 50_000  # longer texts are read again, rather than held in memory
_MAXIMUM_DEPTH = 32
_BETWEEN_WORDS = late_pattern(r"[\s,:'\"\[\]{}]+")
_PLAIN_TAGS = {"map", "seq", "str", "int", "float", "bool", "null", "timestamp"}
_LINE_END = re.compile(r"\r\n|\r|\n")
# What moves the cursor or turns what follows round, ends a line unseen, and halves of characters, which nothing prints.
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)
_NOT_FINITE = {".inf": "inf", "+.inf": "inf", "-.inf": "-inf", ".nan": "nan"}


class Text(str):
    """A text that remembers its place; if it is a key, also the place of its value."""

    __slots__ = ("at", "place")
    place: Place
    at: Place


class PlacedInteger(int):
    """A whole number that remembers its place (int subclasses cannot have slots)."""

    place: Place


class Real(float):
    """A number that remembers its place."""

    __slots__ = ("place",)
    place: Place


class Mapping(dict[Any, Any]):
    """A mapping that remembers its place."""

    place: Place


class Items(list[Any]):
    """A list that remembers the place of each item."""

    places: list[Place]


def _value_with_place(kind: type, value: Any, place: Place) -> Any:
    """The value as a type that remembers its place."""
    item = kind(value)
    item.place = place
    return item


def key_at(name: Any, place: Place, at: Place | None = None) -> Text:
    """A key with its place and the place of its value."""
    key: Text = _value_with_place(Text, name, place)
    key.at = at or place
    return key


def put_at(tree: Mapping, path: str, value: Any, place: Place, at: Place | None = None) -> None:
    """Sets the value at a path such as a.b; missing mappings are created."""
    *above, last = path.split(".")
    for section in above:
        inner = tree.get(section)
        if not isinstance(inner, Mapping):
            inner = tree[key_at(section, place, at)] = Mapping()
            inner.place = place
        tree = inner
    tree.pop(last, None)
    tree[key_at(last, place, at)] = value


def copied(tree: Any) -> Any:
    """A copy of a tree that may be changed: mappings and lists are new, keys and values are shared."""
    if isinstance(tree, Mapping):
        mapping: Mapping = _value_with_place(Mapping, {key: copied(value) for key, value in tree.items()}, tree.place)
        return mapping
    if isinstance(tree, Items):
        items = Items(copied(item) for item in tree)
        items.places = list(tree.places)
        return items
    return copy.deepcopy(tree) if isinstance(tree, dict | list) else tree


class _Builder:
    """Turns composed YAML nodes into mappings, lists and scalars with places."""

    def __init__(self, file: str, text: str, quoted: bool) -> None:
        self.file, self.private = file, not (quoted or is_near(file))
        self.lines = _LINE_END.split(text)
        self.faults: list[Fault] = []
        self.seen: set[int] = set()

    def place(self, node: Any, path: str) -> Place:
        """The place of a node in the file, with the source line and the width to underline."""
        if node.id == "mapping" and node.value and not node.flow_style:
            node = node.value[0][0]
        line, column = node.start_mark.line, node.start_mark.column
        source = self.lines[line] if line < len(self.lines) else ""
        same_line = node.end_mark.line == line and node.id == "scalar"
        width = node.end_mark.column - column if same_line else 1
        return Place(self.file, line + 1, column + 1, path, source, width or 1, private=self.private)

    def refuse(self, sentence: str, place: Place, hint: str) -> None:
        self.faults.append(Fault("D012", sentence, place, hint))

    def build(self, node: Any, path: str = "", depth: int = 0, place: Place | None = None) -> Any:
        """The value of a node with places; records a fault for anchors, tags and deep nesting."""
        place = place or self.place(node, path)
        if id(node) in self.seen:
            return None
        self.seen.add(id(node))
        if node.anchor:
            self.refuse("anchors and aliases are not used here", place, "write the value out where it is expected")
            return None
        if depth > _MAXIMUM_DEPTH:
            self.refuse(f"nested more than {_MAXIMUM_DEPTH} deep", place, "")
            return None
        tag = str(node.tag).removeprefix("tag:yaml.org,2002:")
        if tag not in _PLAIN_TAGS:
            written = tag if tag.startswith("!") else f"!!{tag}"
            self.refuse(f"the tag '{written}' is not used here", place, "write plain values")
            return None
        if node.id == "mapping":
            return self.mapping(node, path, depth, place)
        if node.id == "sequence":
            items = Items()
            items.places = [self.place(item, f"{path}.{index}") for index, item in enumerate(node.value)]
            for item, at in zip(node.value, items.places, strict=True):
                items.append(self.build(item, at.path, depth + 1, at))
            return items
        return self.scalar(tag, node.value, place)

    def mapping(self, node: Any, path: str, depth: int, place: Place) -> Mapping:
        """The mapping of a node with places; records a fault for repeated keys and keys that are no text."""
        built: Mapping = _value_with_place(Mapping, (), place)
        first: dict[str, int] = {}
        for key_node, value_node in node.value:
            if key_node.id != "scalar" or key_node.anchor or _CONTROL.search(key_node.value):
                self.faults.append(Fault("D006", "a key must be plain text", self.place(key_node, path)))
                continue
            inner = f"{path}.{key_node.value}" if path else str(key_node.value)
            opening, ended = value_node.start_mark, value_node.end_mark
            empty = (opening.line, opening.column) == (ended.line, ended.column)
            at = self.place(key_node if empty else value_node, inner)
            key = key_at(key_node.value, at if empty else self.place(key_node, inner), at)
            if key in first:
                hint = f"it is first on line {first[key]}; keep one of the two"
                self.faults.append(Fault("D005", f"the key '{key}' occurs twice", key.place, hint))
            first.setdefault(key, key.place.line)
            built[key] = self.build(value_node, inner, depth + 1, None if empty else at)
        return built

    def scalar(self, tag: str, value: str, place: Place) -> Any:
        """The value of a scalar of this YAML type, with its place."""
        if _CONTROL.search(value):
            self.faults.append(Fault("D006", "control characters are not used here", place, "write plain text"))
            return None
        if tag == "null":
            return None
        if tag == "bool" and value.lower() in ("true", "false"):
            return value.lower() == "true"
        try:
            if tag == "int":
                return _value_with_place(PlacedInteger, int(value.replace("_", ""), 0), place)
            if tag == "float":
                return _value_with_place(Real, float(_NOT_FINITE.get(value.lower(), value.replace("_", ""))), place)
        except ValueError:
            return _value_with_place(Text, value, place)
        return _value_with_place(Text, value, place)


@functools.lru_cache(maxsize=512)
def _yaml_nodes(text: str) -> Any:
    """The nodes of a YAML text, cached and shared; callers must not change them."""
    node = yaml_and_json.composed_json(text) if looks_like_json(text) else yaml_and_json.composed(text)
    if node is not None:
        return node
    if len(text) > MOST_NOT_PLAIN:
        raise NotYaml(_NOT_PLAIN, _PLAIN, yaml_and_json.first_not_plain(text))
    from costmodel.documents.text.any_yaml import composed  # ruamel.yaml is imported where a text needs it

    return composed(text)


def read_tree(text: str, file: str, *, or_nothing: bool = False, quoted: bool = False) -> tuple[Any, tuple[Fault, ...]]:
    """The tree of a YAML text, and faults that did not prevent reading it."""
    if len(text) > MAXIMUM_BYTES:
        raise fail("D001", f"the text is over {MAXIMUM_BYTES / 1e6:.0f} MB", Place(file))
    if len(text) > LONGEST_WORD:
        _check_words(text, file)
    if len(text) > WORTH_KEEPING:
        _check_length(text, file)
    try:
        node = _yaml_nodes(text) if len(text) < WORTH_KEEPING else _yaml_nodes.__wrapped__(text)
    except NotYaml as error:
        raise CostModelError(_syntax_fault(error, text, file)) from None
    except RecursionError:
        raise fail("D012", f"nested more than {_MAXIMUM_DEPTH} deep", Place(file)) from None
    except ValueError as error:
        raise fail("D002", f"this is not YAML that can be read: {error}", place_in(file)) from None
    builder = _Builder(file, text, quoted)
    tree = None if node is None else builder.build(node)
    if tree is None and not builder.faults and not (or_nothing and node is not None):
        raise fail("D002", "the document is empty", Place(file), "costmodel show llama-3-70b-512 shows one")
    return tree, tuple(builder.faults)


def _check_length(text: str, file: str) -> None:
    """A fault for a long text that is invalid JSON or too long for the slow YAML parser."""
    if looks_like_json(text):
        fault = fault_of(text)
        if fault is not None:
            problem, line, column = fault
            shown = _LINE_END.split(text)[line - 1] if len(text) else ""
            raise fail("D002", f"this is not JSON: {problem}", Place(file, line, column, "", shown))
    elif len(text) > MAXIMUM_YAML:
        raise fail("D001", f"the text is over {MAXIMUM_YAML / 1e6:.0f} MB", Place(file), "as JSON it may be longer")


def _check_words(text: str, file: str) -> None:
    """A fault for a single word that is too long."""
    opening = 0
    for between in (*_BETWEEN_WORDS.finditer(text), None):
        ended = len(text) if between is None else between.start()
        if ended - opening > LONGEST_WORD:
            before = _LINE_END.split(text[:opening])
            line, column = len(before), len(before[-1])
            shown = _LINE_END.split(text)[line - 1]
            place = place_in(file, line, column + 1, shown)
            raise fail("D001", f"a word of {ended - opening:,} letters", place, f"at most {LONGEST_WORD:,} are read")
        opening = ended if between is None else between.end()


def parse(text: str, file: str, *, quoted: bool = False) -> Any:
    """The tree of a YAML text: dicts, lists and scalars with their places.

    quoted: whether faults may show lines of the text even if the file is outside the document folders.
    """
    tree, faults = read_tree(text, file, quoted=quoted)
    if faults:
        raise CostModelError(*faults)
    return tree


def _syntax_fault(error: NotYaml, text: str, file: str) -> Fault:
    """The fault for a text that is not YAML, with the line that is wrong."""
    place = place_in(file)
    if error.at is not None:
        lines, (line, column) = _LINE_END.split(text), error.at
        place = place_in(file, line + 1, column + 1, lines[line] if line < len(lines) else "")
    return Fault("D002", error.sentence, place, error.hint)


_CHANGE = late_pattern(r"[*×]\s*[\d.]+|[+-]\s*[\d.]+\s*%")  # of a value, which has to be computed
_NO_SPACE = late_pattern(r"(?<=[{,])(\s*[A-Za-z_]\w*):(?=[^\s,}])")


def assigned(path: str, text: str, option: str = "") -> tuple[Place, Any]:
    """The place and YAML value of an option such as `--set path=value`; `{key:value}` needs no blank."""
    written = f"{option} {text}" if option else f"--set {path}={text}"
    place = Place(COMMAND_LINE, 0, len(written) - len(text) + 1, path, written, max(1, len(text)))
    if not text.strip():
        after = option or "the '='"
        raise fail("C001", f"nothing follows {after}", place, "null leaves a key out")
    if _CHANGE.fullmatch(text.strip()):
        hint = "costmodel show SCENARIO prints the value it has; costmodel sensitivity changes each value by 10 %"
        raise fail("C001", f"'{text}' is a change; write the new value", place, hint)
    try:
        tree, faults = read_tree(_NO_SPACE.sub(r"\1: ", text), COMMAND_LINE, or_nothing=True)
    except CostModelError as error:
        faults = error.faults
    if faults:
        raise fail("C001", f"'{text}' is not a value", place, faults[0].sentence)
    return place, _tree_at_place(tree, place)


def _tree_at_place(tree: Any, place: Place) -> Any:
    """The same tree in which every key and value has this place."""
    if isinstance(tree, dict):
        mapping: Mapping = _value_with_place(Mapping, (), place)
        mapping.update({key_at(key, place): _tree_at_place(value, place) for key, value in tree.items()})
        return mapping
    if isinstance(tree, list):
        items = Items(_tree_at_place(item, place) for item in tree)
        items.places = [place] * len(items)
        return items
    kind = next((kind for kind in (Text, PlacedInteger, Real) if isinstance(tree, kind)), None)
    return _value_with_place(kind, tree, place) if kind else tree
