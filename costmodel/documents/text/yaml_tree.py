"""YAML text to a tree: hostile until parsed, every key and value remembering where it was written."""

from __future__ import annotations

import copy
import functools
import re
import warnings
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import YAMLError, YAMLWarning
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from costmodel.documents.reader.folders import is_near, place_in
from costmodel.documents.text.files import MAXIMUM_BYTES
from costmodel.documents.text.json_tree import composed, fault_of, looks_like_json
from costmodel.ground.errors import COMMAND_LINE, CostModelError, Fault, Place, fail

MAXIMUM_YAML = 1_000_000  # letters; its reader takes half a minute for four times as many
LONGEST_WORD = 10_000  # letters; the scanner looks at each by itself
WORTH_KEEPING = 50_000  # longer texts are read again, rather than held in memory
_MAXIMUM_DEPTH = 32
_HOPELESS_DEPTH = 4 * _MAXIMUM_DEPTH
_BRACKETS = re.compile(rf"[\[{{]{{{_HOPELESS_DEPTH}}}")
_BETWEEN_WORDS = re.compile(r"[\s,:'\"\[\]{}]+")
_PLAIN_TAGS = {"map", "seq", "str", "int", "float", "bool", "null", "timestamp"}
_LINE_END = re.compile(r"\r\n|\r|\n")
# What moves the cursor or turns what follows round, ends a line unseen, and halves of characters, which nothing prints.
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)
_NOT_FINITE = {".inf": "inf", "+.inf": "inf", "-.inf": "-inf", ".nan": "nan"}


class Text(str):
    """Text that remembers its place; a key also remembers the place of its value."""

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


def _placed(kind: type, value: Any, place: Place) -> Any:
    item = kind(value)
    item.place = place
    return item


def key_at(name: Any, place: Place, at: Place | None = None) -> Text:
    """A key with its own place and that of its value."""
    key: Text = _placed(Text, name, place)
    key.at = at or place
    return key


def copied(tree: Any) -> Any:
    """A copy for changes: new mappings and lists; keys, values and places, which are never changed, are shared."""
    if isinstance(tree, Mapping):
        mapping: Mapping = _placed(Mapping, {key: copied(value) for key, value in tree.items()}, tree.place)
        return mapping
    if isinstance(tree, Items):
        items = Items(copied(item) for item in tree)
        items.places = list(tree.places)
        return items
    return copy.deepcopy(tree) if isinstance(tree, dict | list) else tree


class _Builder:
    """Turns composed YAML nodes into mappings, lists and scalars that know their place."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.private = file, not is_near(file)
        self.lines = _LINE_END.split(text)
        self.faults: list[Fault] = []
        self.seen: set[int] = set()

    def place(self, node: Node, path: str) -> Place:
        if isinstance(node, MappingNode) and node.value and not node.flow_style:
            node = node.value[0][0]
        line, column = node.start_mark.line, node.start_mark.column
        source = self.lines[line] if line < len(self.lines) else ""
        same_line = node.end_mark.line == line and isinstance(node, ScalarNode)
        width = node.end_mark.column - column if same_line else 1
        return Place(self.file, line + 1, column + 1, path, source, max(1, width), private=self.private)

    def refuse(self, sentence: str, place: Place, hint: str) -> None:
        self.faults.append(Fault("D012", sentence, place, hint))

    def build(self, node: Node, path: str = "", depth: int = 0) -> Any:
        place = self.place(node, path)
        if id(node) in self.seen:
            return None
        self.seen.add(id(node))
        if node.anchor:
            self.refuse("anchors and aliases are not used here", place, "write the value out where it is wanted")
            return None
        if depth > _MAXIMUM_DEPTH:
            self.refuse(f"nested more than {_MAXIMUM_DEPTH} deep", place, "")
            return None
        tag = str(node.tag).removeprefix("tag:yaml.org,2002:")
        if tag not in _PLAIN_TAGS:
            written = tag if tag.startswith("!") else f"!!{tag}"
            self.refuse(f"the tag '{written}' is not used here", place, "write plain values")
            return None
        if isinstance(node, MappingNode):
            return self.mapping(node, path, depth)
        if isinstance(node, SequenceNode):
            items = Items(self.build(item, f"{path}.{index}", depth + 1) for index, item in enumerate(node.value))
            items.places = [self.place(item, f"{path}.{index}") for index, item in enumerate(node.value)]
            return items
        return self.scalar(tag, node.value, place)

    def mapping(self, node: MappingNode, path: str, depth: int) -> Mapping:
        built: Mapping = _placed(Mapping, (), self.place(node, path))
        first: dict[str, int] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode) or key_node.anchor or _CONTROL.search(key_node.value):
                self.faults.append(Fault("D006", "a key must be plain text", self.place(key_node, path)))
                continue
            inner = f"{path}.{key_node.value}" if path else str(key_node.value)
            empty = value_node.start_mark.index == value_node.end_mark.index
            at = self.place(key_node if empty else value_node, inner)
            key = key_at(key_node.value, self.place(key_node, inner), at)
            if key in first:
                hint = f"it stands first on line {first[key]}; keep one of the two"
                self.faults.append(Fault("D005", f"the key '{key}' stands twice", key.place, hint))
            first.setdefault(key, key.place.line)
            built[key] = self.build(value_node, inner, depth + 1)
        return built

    def scalar(self, tag: str, value: str, place: Place) -> Any:
        if _CONTROL.search(value):
            self.faults.append(Fault("D006", "control characters are not used here", place, "write plain text"))
            return None
        if tag == "null":
            return None
        if tag == "bool" and value.lower() in ("true", "false"):
            return value.lower() == "true"
        try:
            if tag == "int":
                return _placed(PlacedInteger, int(value.replace("_", ""), 0), place)
            if tag == "float":
                return _placed(Real, float(_NOT_FINITE.get(value.lower(), value.replace("_", ""))), place)
        except ValueError:
            return _placed(Text, value, place)
        return _placed(Text, value, place)


class _Shallow(Composer):
    """Stops at nesting far deeper than any document needs, because reading time grows with its square."""

    depth = 0

    def compose_node(self, parent: Any, index: int) -> Any:
        """One node, unless it lies too deep."""
        if self.depth > _HOPELESS_DEPTH:
            raise RecursionError
        self.depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


@functools.lru_cache(maxsize=512)
def _composed(text: str) -> Node | None:
    """The nodes of a YAML text, cached; scenarios that name the same document share them, so they are read-only."""
    if _BRACKETS.search(text):  # the scanner's time grows with their square
        raise RecursionError
    node: Node | None = composed(text) if looks_like_json(text) else None
    if node is not None:
        return node
    yaml = YAML(typ="safe", pure=True)
    yaml.Composer = _Shallow
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", YAMLWarning)  # an anchor that stands twice: anchors are refused below
        found: Node | None = yaml.compose(text)
    return found


def read_tree(text: str, file: str, *, or_nothing: bool = False) -> tuple[Any, tuple[Fault, ...]]:
    """The tree of a YAML text, and what was found wrong with it although it could be read."""
    if len(text) > MAXIMUM_BYTES:
        raise fail("D001", f"the text is over {MAXIMUM_BYTES / 1e6:.0f} MB", Place(file))
    if len(text) > LONGEST_WORD:
        _of_words(text, file)
    if len(text) > WORTH_KEEPING:
        _of_length(text, file)
    try:
        node = _composed(text) if len(text) < WORTH_KEEPING else _composed.__wrapped__(text)
    except YAMLError as error:
        raise CostModelError(_syntax_fault(error, text, file)) from None
    except RecursionError:
        raise fail("D012", f"nested more than {_MAXIMUM_DEPTH} deep", Place(file)) from None
    except ValueError as error:
        raise fail("D002", f"this is not YAML that can be read: {error}", place_in(file)) from None
    builder = _Builder(file, text)
    tree = None if node is None else builder.build(node)
    if tree is None and not builder.faults and not (or_nothing and node is not None):
        raise fail("D002", "the document is empty", Place(file), "costmodel show llama-3-70b-512 shows one")
    return tree, tuple(builder.faults)


def _of_length(text: str, file: str) -> None:
    """A fault for a long text that is not quite JSON, or long for YAML: its reader would take minutes to state it."""
    if looks_like_json(text):
        fault = fault_of(text)
        if fault is not None:
            problem, line, column = fault
            shown = _LINE_END.split(text)[line - 1] if len(text) else ""
            raise fail("D002", f"this is not JSON: {problem}", Place(file, line, column, "", shown))
    elif len(text) > MAXIMUM_YAML:
        raise fail("D001", f"the text is over {MAXIMUM_YAML / 1e6:.0f} MB", Place(file), "as JSON it may be longer")


def _of_words(text: str, file: str) -> None:
    """A fault for what is written without an end in sight."""
    begun = 0
    for between in (*_BETWEEN_WORDS.finditer(text), None):
        ended = len(text) if between is None else between.start()
        if ended - begun > LONGEST_WORD:
            before = _LINE_END.split(text[:begun])
            line, column = len(before), len(before[-1])
            shown = _LINE_END.split(text)[line - 1]
            place = place_in(file, line, column + 1, shown)
            raise fail("D001", f"a word of {ended - begun:,} letters", place, f"at most {LONGEST_WORD:,} are read")
        begun = ended if between is None else between.end()


def parse(text: str, file: str) -> Any:
    """The tree of a YAML text: dicts, lists and scalars that know where they were written."""
    tree, faults = read_tree(text, file)
    if faults:
        raise CostModelError(*faults)
    return tree


def _syntax_fault(error: YAMLError, text: str, file: str) -> Fault:
    lines = _LINE_END.split(text)
    opened, mark = getattr(error, "context_mark", None), getattr(error, "problem_mark", None)
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or str(error).splitlines()[0])
    hint = ""
    if "\\t" in problem:
        hint = "YAML is indented with blanks, never with tabs"
    elif opened is not None and mark is not None and opened.line != mark.line:
        hint = f"{getattr(error, 'context', None) or 'it began'}, which starts on line {opened.line + 1}"
    if mark is None or (opened is not None and not "".join(lines[mark.line :]).strip()):
        mark = opened or mark
    if mark is not None:
        line, column = mark.line, mark.column
    elif isinstance(getattr(error, "position", None), int):
        before = _LINE_END.split(text[: error.position])  # type: ignore[attr-defined]
        line, column = len(before) - 1, len(before[-1])
    else:
        return Fault("D002", f"this is not YAML: {problem}", place_in(file), hint)
    place = place_in(file, line + 1, column + 1, lines[line] if line < len(lines) else "")
    return Fault("D002", f"this is not YAML: {problem}", place, hint)


def assigned(path: str, text: str, option: str = "") -> tuple[Place, Any]:
    """A value given with --set, or with another option, read as the same text would be in YAML, and its place."""
    written = f"{option} {text}" if option else f"--set {path}={text}"
    place = Place(COMMAND_LINE, 0, len(written) - len(text) + 1, path, written, max(1, len(text)))
    if not text.strip():
        after = option or "the '='"
        raise fail("C001", f"nothing stands after {after}", place, "null leaves a key out")
    try:
        tree, faults = read_tree(text, COMMAND_LINE, or_nothing=True)
    except CostModelError as error:
        faults = error.faults
    if faults:
        raise fail("C001", f"'{text}' is not a value", place, faults[0].sentence)
    return place, _at(tree, place)


def _at(tree: Any, place: Place) -> Any:
    if isinstance(tree, dict):
        mapping: Mapping = _placed(Mapping, (), place)
        mapping.update({key_at(key, place): _at(value, place) for key, value in tree.items()})
        return mapping
    if isinstance(tree, list):
        items = Items(_at(item, place) for item in tree)
        items.places = [place] * len(items)
        return items
    kind = next((kind for kind in (Text, PlacedInteger, Real) if isinstance(tree, kind)), None)
    return _placed(kind, tree, place) if kind else tree
