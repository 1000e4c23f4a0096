"""YAML text to documents: hostile until parsed, every fault with its line, column and a remedy."""

from __future__ import annotations

import difflib
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from costmodel.errors import CostModelError, Fault, Place, fail

D = TypeVar("D", bound=BaseModel)

MAXIMUM_BYTES = 4_000_000
_MAXIMUM_DEPTH = 32
_COMMAND_LINE = "command line"


class Text(str):
    """Text that remembers its place."""

    __slots__ = ("place",)
    place: Place


class Whole(int):
    """A whole number that remembers its place (int subclasses cannot have slots)."""

    place: Place


class Real(float):
    """A number that remembers its place."""

    __slots__ = ("place",)
    place: Place


def _placed(kind: type, value: Any, place: Place) -> Any:
    item = kind(value)
    item.place = place
    return item


class _Builder:
    """Turns composed YAML nodes into dicts and lists whose keys and scalars know their place."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.lines = text.splitlines()
        self.faults: list[Fault] = []
        self.seen: set[int] = set()

    def place(self, node: Node, path: str) -> Place:
        line, column = node.start_mark.line, node.start_mark.column
        source = self.lines[line] if line < len(self.lines) else ""
        same_line = node.end_mark.line == line and isinstance(node, ScalarNode)
        width = node.end_mark.column - column if same_line else 1
        return Place(self.file, line + 1, column + 1, path, source, max(1, width))

    def build(self, node: Node, path: str = "", depth: int = 0) -> Any:
        place = self.place(node, path)
        if id(node) in self.seen or node.anchor or depth > _MAXIMUM_DEPTH:
            self.faults.append(
                Fault("D012", "anchors, aliases and deep nesting are not used here", place, "write the value out")
            )
            return None
        self.seen.add(id(node))
        if isinstance(node, MappingNode):
            return self.mapping(node, path, depth)
        if isinstance(node, SequenceNode):
            return [self.build(item, f"{path}.{index}", depth + 1) for index, item in enumerate(node.value)]
        return self.scalar(node, place)

    def mapping(self, node: MappingNode, path: str, depth: int) -> dict[Any, Any]:
        built: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                self.faults.append(Fault("D006", "a key must be plain text", self.place(key_node, path)))
                continue
            inner = f"{path}.{key_node.value}" if path else str(key_node.value)
            key = _placed(Text, key_node.value, self.place(key_node, inner))
            if key in built:
                self.faults.append(Fault("D005", f"the key '{key}' stands twice", key.place, "keep one of the two"))
            built[key] = self.build(value_node, inner, depth + 1)
        return built

    def scalar(self, node: Node, place: Place) -> Any:
        tag, value = str(node.tag).removeprefix("tag:yaml.org,2002:"), node.value
        if tag == "null":
            return None
        if tag == "bool":
            return value.lower() == "true"
        try:
            if tag == "int":
                return _placed(Whole, int(value.replace("_", ""), 0), place)
            if tag == "float":
                return _placed(Real, float(value.replace("_", "")), place)
        except ValueError:
            return _placed(Text, value, place)
        if tag not in ("str", "timestamp"):
            self.faults.append(Fault("D012", f"the tag '{node.tag}' is not used here", place, "write plain values"))
        return _placed(Text, value, place)


def parse(text: str, file: str) -> Any:
    """The tree of a YAML text: dicts, lists and scalars that know where they were written."""
    if len(text) > MAXIMUM_BYTES:
        raise fail("D001", f"the text is over {MAXIMUM_BYTES / 1e6:.0f} MB", Place(file))
    yaml = YAML(typ="rt", pure=True)
    try:
        node = yaml.compose(text)
    except YAMLError as error:
        raise CostModelError(_syntax_fault(error, text, file)) from None
    except (RecursionError, ValueError) as error:
        raise fail("D002", f"this is not YAML that can be read: {error}", Place(file)) from None
    if node is None:
        raise fail("D002", "the document is empty", Place(file), "costmodel show llama-3-70b-512 shows one")
    builder = _Builder(file, text)
    tree = builder.build(node)
    if builder.faults:
        raise CostModelError(*builder.faults)
    return tree


def _syntax_fault(error: YAMLError, text: str, file: str) -> Fault:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    place = Place(file)
    if mark is not None:
        lines = text.splitlines()
        place = Place(file, mark.line + 1, mark.column + 1, "", lines[mark.line] if mark.line < len(lines) else "")
    hint = "YAML is indented with blanks, never with tabs" if "\\t" in problem else ""
    return Fault("D002", f"this is not YAML: {problem}", place, hint)


def scalar(text: str, path: str) -> Any:
    """A value given on the command line, read as the same text would be in YAML."""
    place = Place(_COMMAND_LINE, path=path)
    try:
        tree = parse(text, _COMMAND_LINE)
    except CostModelError:
        raise fail("C001", f"'{text}' is not a value", place, "for example --set plan.tp=4") from None
    return _at(tree, place)


def _at(tree: Any, place: Place) -> Any:
    if isinstance(tree, dict):
        return {_placed(Text, key, place): _at(value, place) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_at(item, place) for item in tree]
    kind = next((kind for kind in (Text, Whole, Real) if isinstance(tree, kind)), None)
    return _placed(kind, tree, place) if kind else tree


def validate(kind: type[D], tree: Any, file: str) -> D:
    """The tree as a document, or every fault in it at once."""
    if not isinstance(tree, dict):
        raise fail("D006", "a document is a mapping of keys to values", Place(file, 1, 1))
    try:
        return kind.model_validate(tree)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=True)
        faults = [_fault(detail, tree, kind, file) for detail in details]
        raise CostModelError(*dict.fromkeys(faults)) from None


_CODES = {
    "extra_forbidden": "D003",
    "missing": "D004",
    "quantity_unit": "D007",
    "quantity_range": "D008",
    "literal_error": "D010",
}


def _fault(detail: ErrorDetails, tree: Any, kind: type[BaseModel], file: str) -> Fault:
    location = _inside(tree, list(detail["loc"]))
    place, path = _find(tree, location, file)
    code = "D011" if location[-1:] == ["schema"] else _CODES.get(detail["type"], "D006")
    if detail["type"] == "extra_forbidden":
        known = _known_keys(kind, detail["loc"][:-1])
        return Fault(code, f"unknown key '{location[-1]}'", place, _nearest(str(location[-1]), known))
    if detail["type"] == "missing":
        return Fault(code, f"the key '{path}' is missing", place, _description(kind, detail["loc"]))
    if detail["type"] == "literal_error":
        expected, given = str(detail["ctx"]["expected"]), str(detail["input"])
        choices = expected.replace("'", "").replace(" or ", ", ").split(", ")
        return Fault(code, f"'{given}' is not one of {expected}", place, _nearest(given, choices))
    return Fault(code, f"{path}: {detail['msg']}" if path else detail["msg"], place)


def _has(here: Any, part: int | str) -> bool:
    if isinstance(here, list):
        return isinstance(part, int) and part < len(here)
    return isinstance(here, dict) and part in here


def _inside(tree: Any, location: list[int | str]) -> list[int | str]:
    """The location without the tags pydantic adds for unions."""
    kept: list[int | str] = []
    here = tree
    for position, part in enumerate(location):
        last = position == len(location) - 1
        if _has(here, part):
            kept.append(part)
            here = here[part]
        elif last and part not in ("name", "inline"):
            kept.append(part)
    return kept


def _find(tree: Any, location: list[int | str], file: str) -> tuple[Place, str]:
    """The place of what a location names, or of the nearest parent that has one."""
    path = ".".join(map(str, location))
    best = Place(file, 1, 1, path)
    here = tree
    for part in location:
        if isinstance(here, dict):
            key = next((key for key in here if key == part), None)
            if key is None:
                break
            best = getattr(key, "place", best)
            here = here[part]
        elif isinstance(here, list) and isinstance(part, int) and part < len(here):
            here = here[part]
        else:
            break
    else:
        best = getattr(here, "place", best)
    return best, path


def _schema_at(kind: type[BaseModel], location: tuple[int | str, ...]) -> dict[str, Any]:
    schema: dict[str, Any] = TypeAdapter(kind).json_schema(by_alias=True)
    definitions = schema.get("$defs", {})

    def resolve(node: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in node:
            node = definitions[node["$ref"].rsplit("/", 1)[-1]]
        for choice in node.get("anyOf", []) + node.get("oneOf", []):
            inner = resolve(choice)
            if "properties" in inner or "items" in inner or "additionalProperties" in inner:
                return inner
        return node

    node = resolve(schema)
    for part in location:
        if isinstance(part, int):
            node = resolve(node.get("items", node))
        elif part in node.get("properties", {}):
            node = resolve(node["properties"][part])
        elif isinstance(node.get("additionalProperties"), dict):
            node = resolve(node["additionalProperties"])
    return node


def _known_keys(kind: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    return list(_schema_at(kind, location).get("properties", {}))


def _description(kind: type[BaseModel], location: tuple[int | str, ...]) -> str:
    properties = _schema_at(kind, location[:-1]).get("properties", {})
    return str(properties.get(location[-1], {}).get("description", "")) if location else ""


def _nearest(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if close:
        return f"did you mean '{close[0]}'?"
    return "known: " + ", ".join(known) if known else ""
