"""Foreign values and their places: JSON with positions, whole-number expressions, and layers by kind."""

from __future__ import annotations

import ast
import bisect
import json.decoder
import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from collections.abc import Mapping as Names
from typing import Any, TypeVar

from costmodel.documents.keys.suggestions import nearest
from costmodel.documents.text.yaml_tree import Items, Mapping, PlacedInteger, Real, Text, key_at
from costmodel.exchange.import_result import Loss, Origin, OriginValue
from costmodel.ground.errors import CostModelError, Fault, Place, fail, quoted_value

# --- foreign values


LONGEST_NAME = 64  # letters
_MOST_UNKNOWN = 12
_SLIP = 0.9  # likeness of a name that is meant to be another
_BETWEEN = re.compile(r"[^a-z0-9.+-]+")


def as_text(value: Any) -> str:
    """A value as text on one line; unprintable characters become question marks."""
    return printable(quoted_value(value))


def printable(text: str) -> str:
    """A text on one line; unprintable characters become question marks.

    >>> printable("bf\\x1b[31m16")
    'bf?[31m16'
    """
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def likely_name(name: str, known: Iterable[str]) -> str:
    """The known name that another one is a likely typo of; empty if there is none."""
    return nearest(name, sorted(known), cutoff=_SLIP)


def unknown_names(
    words: str, unknown: Sequence[tuple[str, Place]], likely: Callable[[str], str] = lambda _name: ""
) -> list[Fault]:
    """One warning that lists names unknown to a format, each with the known name that was probably meant."""
    if not unknown:
        return []
    names = [as_text(name[:80])[1:-1] for name, _ in unknown[:_MOST_UNKNOWN]]
    more = f" and {len(unknown) - _MOST_UNKNOWN} more" if len(unknown) > _MOST_UNKNOWN else ""
    hints = [f"did you mean {close} for {name}?" for name in names if (close := likely(name))]
    hint = f"{' '.join(hints)} What is read lacks them: correct the text and import it again" if hints else ""
    return [Fault("X007", f"{words}: {', '.join(names)}{more}", unknown[0][1], hint or "they are left out")]


def document_name(text: str) -> str:
    """A document name made from a text: lower-case letters, digits and . + -.

    >>> document_name("Train 8B (final)"), document_name("§")
    ('train-8b-final', 'model')
    """
    return _BETWEEN.sub("-", text.lower())[:LONGEST_NAME].strip("-.+") or "model"


_LINE_END = re.compile(r"\r\n|\r|\n")


class Lines:
    """The lines of a text, to find the line and column of a position."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
        self._lines = _LINE_END.split(text)

    def place(self, at: int, path: str = "", width: int = 1) -> Place:
        """The place of a character position, counted from 0."""
        line = bisect.bisect_right(self._starts, at) - 1
        return Place(self.file, line + 1, at - self._starts[line] + 1, path, self._lines[line], max(1, width))


def placed_document(tree: dict[str, Any], whole: Place) -> tuple[Mapping, dict[str, Origin]]:
    """The document with places in the foreign text, and the origin of every value by path."""
    origins: dict[str, Origin] = {}
    return _placed_mapping(tree, whole, "", origins), origins


def _placed_mapping(tree: dict[str, Any], whole: Place, path: str, origins: dict[str, Origin]) -> Mapping:
    """A document's mapping whose keys have places; records the origin of each value by its path."""
    built = Mapping()
    built.place = whole
    for name, value in tree.items():
        inner = f"{path}.{name}" if path else name
        at = (value.place if isinstance(value, OriginValue) else None) or whole
        built[key_at(name, at, at)] = _placed_value(value, whole, inner, origins)
    return built


def _placed_value(value: Any, whole: Place, path: str, origins: dict[str, Origin]) -> Any:
    """A document's value with places; records its origin by its path."""
    if isinstance(value, dict):
        return _placed_mapping(value, whole, path, origins)
    if isinstance(value, list):
        items = Items(_placed_value(item, whole, f"{path}.{index}", origins) for index, item in enumerate(value))
        items.places = [whole] * len(items)
        return items
    origins[path] = value.origin
    return _placed_leaf(value.value, value.place or whole)


def _placed_leaf(plain: Any, place: Place) -> Any:
    """A plain value in which everything has this place."""
    if isinstance(plain, list):
        items = Items(_placed_leaf(item, place) for item in plain)
        items.places = [place] * len(items)
        return items
    if isinstance(plain, dict):
        built = Mapping({key_at(name, place, place): _placed_leaf(value, place) for name, value in plain.items()})
        built.place = place
        return built
    if plain is None or isinstance(plain, bool):
        return plain
    kind = Text if isinstance(plain, str) else PlacedInteger if isinstance(plain, int) else Real
    item: Any = kind(plain)
    item.place = place
    return item


def as_placed(tree: dict[str, Any], file: str) -> Mapping:
    """A plain tree as if it were read from a file, without line numbers."""
    built = Mapping()
    built.place = Place(file)
    for name, value in tree.items():
        built[key_at(name, built.place, built.place)] = as_placed(value, file) if isinstance(value, dict) else value
    return built


# JSON text to a tree: hostile until parsed, every key and value remembering where it was written.
#
# `json` of the standard library keeps no places and takes the last of two equal keys, so this is a small reader of our
# own. It reads what Python writes, NaN and Infinity too; a value that is used is checked where it is used.

LONGEST = 4 * 2**20  # letters
DEEPEST = 64
MOST_VALUES = MOST_LINES = 50_000
_MOST_FAULTS = 20
_LONGEST_PATH = 300  # letters of a path that places remember
_LONGEST_NUMBER = 300  # digits; a float holds no more
_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORD = re.compile(r"-?[A-Za-z_]\w*")
_WORDS = {"true": True, "false": False, "null": None}
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def parse_json(text: str, file: str) -> Any:
    """The tree of a JSON text, with the same types and places as the tree of a YAML document."""
    if len(text) > LONGEST:
        raise fail("X010", f"the text has {len(text):,} letters, of which {LONGEST:,} are read", Place(file))
    if text.count("\n") + text.count("\r") > MOST_LINES:
        raise fail("X010", f"the text has over {MOST_LINES:,} lines", Place(file))
    reader = _TextReader(text.removeprefix("\ufeff"), file)
    tree = reader.document()
    if reader.faults:
        raise CostModelError(*reader.faults)
    return tree


def _joined_path(path: str, name: str | int) -> str:
    """The path of an entry; paths that are too long are cut."""
    inner = f"{path}.{name}" if path else str(name)
    return inner if len(inner) <= _LONGEST_PATH else path


class _TextReader:
    """A JSON parser that records the place of every value."""

    def __init__(self, text: str, file: str) -> None:
        self.text, self.lines = text, Lines(text, file)
        self.at, self.depth, self.values = 0, 0, 0
        self.faults: list[Fault] = []

    def broken(self, wanted: str, hint: str = "") -> CostModelError:
        found = repr(self.text[self.at]) if self.at < len(self.text) else "the end of the text"
        return fail(
            "D002", f"this is not JSON: {wanted} is expected here, not {found}", self.lines.place(self.at, ""), hint
        )

    def skip(self) -> str:
        """The next character after blanks, or an empty text at the end."""
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
        return self.text[self.at : self.at + 1]

    def document(self) -> Any:
        """The tree of the whole JSON text."""
        found = _UNPRINTABLE.search(self.text)
        if found:
            raise fail("D006", "control characters are not used here", self.lines.place(found.start(), ""))
        if not self.skip():
            raise fail("D002", "the text is empty", Place(self.lines.file))
        tree = self.value("")
        if self.skip():
            raise self.broken("the end of the text")
        return tree

    def value(self, path: str) -> Any:
        """Parses the next value; a fault if the text has too many values or is nested too deep."""
        self.values += 1
        if self.values > MOST_VALUES:
            raise fail("X010", f"the text has over {MOST_VALUES:,} values", self.lines.place(self.at, path))
        letter = self.text[self.at : self.at + 1]
        if letter not in ("{", "["):
            return self.scalar(letter, path)
        if self.depth == DEEPEST:
            raise fail("X010", f"nested more than {DEEPEST} deep", self.lines.place(self.at, path))
        self.depth += 1
        tree = self.mapping(path) if letter == "{" else self.items(path)
        self.depth -= 1
        return tree

    def mapping(self, path: str) -> Mapping:
        """Parses the next JSON object to a mapping with places."""
        built = Mapping()
        built.place = self.lines.place(self.at, path)
        self.at += 1
        if self.skip() == "}":
            self.at += 1
            return built
        lines: dict[str, int] = {}
        while True:
            self.entry(built, path, lines)
            if self.another("}"):
                return built
            if self.skip() != '"':
                raise self.broken("a key in double quotes", "remove the comma after the last entry")

    def entry(self, built: Mapping, path: str, lines: dict[str, int]) -> None:
        """Adds the next key and value to a mapping."""
        if self.skip() != '"':
            raise self.broken("a key in double quotes")
        start = self.at
        name = self.string(path)
        inner = _joined_path(path, name)
        place = self.lines.place(start, inner, self.at - start)
        if self.skip() != ":":
            raise self.broken("a colon")
        self.at += 1
        self.skip()
        if name in lines:
            hint = f"it is first on line {lines[name]}; keep one of the two"
            self.faults.append(Fault("D005", f"the key {as_text(name)} occurs twice", place, hint))
            if len(self.faults) == _MOST_FAULTS:
                raise CostModelError(*self.faults)
        lines.setdefault(name, place.line)
        value_start = self.at
        value = self.value(inner)
        width = self.at - value_start if not isinstance(value, dict | list) else 1
        built[key_at(name, place, self.lines.place(value_start, inner, width))] = value

    def items(self, path: str) -> Items:
        """Parses the next JSON array to a list with places."""
        built = Items()
        built.places = []
        self.at += 1
        if self.skip() == "]":
            self.at += 1
            return built
        while True:
            self.skip()
            inner = _joined_path(path, len(built))
            built.places.append(self.lines.place(self.at, inner))
            built.append(self.value(inner))
            if self.another("]"):
                return built

    def another(self, end: str) -> bool:
        """Whether the list or mapping ends here; otherwise reads the comma before the next item."""
        letter = self.skip()
        if letter not in (",", end):
            raise self.broken(f"a comma or '{end}'")
        self.at += 1
        return letter == end

    def scalar(self, letter: str, path: str) -> Any:
        """The next string, number, truth value or null, with its place."""
        start = self.at
        value = self.string(path) if letter == '"' else self.word(path)
        if value is None or isinstance(value, bool):
            return value
        kind = Text if isinstance(value, str) else PlacedInteger if isinstance(value, int) else Real
        placed: Any = kind(value)
        placed.place = self.lines.place(start, path, self.at - start)
        return placed

    def string(self, path: str) -> str:
        """The next text in double quotes."""
        start = self.at
        try:
            text, self.at = json.decoder.scanstring(self.text, self.at + 1)  # type: ignore[attr-defined]
        except ValueError as error:
            self.at = min(max(getattr(error, "pos", start), start), len(self.text))
            raise self.broken("the rest of a text in double quotes", str(getattr(error, "msg", ""))) from None
        if _UNPRINTABLE.search(text):
            raise fail(
                "D006", "control characters are not used here", self.lines.place(start, path), "write plain text"
            )
        return str(text)

    def word(self, path: str) -> Any:
        """The next number, truth value, null or infinity."""
        number = _NUMBER.match(self.text, self.at)
        if number:
            self.at = number.end()
            whole, fraction, exponent = number.groups()
            if fraction or exponent or len(whole) > _LONGEST_NUMBER:
                return float(number.group())
            return int(whole)
        word = _WORD.match(self.text, self.at)
        if word and word.group() in (_WORDS | _NOT_FINITE):
            self.at = word.end()
            return (_WORDS | _NOT_FINITE)[word.group()]
        raise self.broken("a value")


# --- whole numbers and lists written as an expression: `[0]*3+[1]*58`, or the inside of `$((…))`


LONGEST_EXPRESSION = 1_000  # letters
_LARGEST = 10**15
_LONGEST_LIST = 10_000


def _towards_zero(dividend: int, divisor: int) -> int:
    """Integer division rounded towards zero, as in a shell."""
    if divisor == 0:
        raise ValueError("an integer expression divides by 0")
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def _remainder(dividend: int, divisor: int) -> int:
    return dividend - divisor * _towards_zero(dividend, divisor)


_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _towards_zero,
    ast.FloorDiv: _towards_zero,
    ast.Mod: _remainder,
}


def evaluate_expression(text: str, names: Names[str, int] | None = None) -> Any:
    """The whole number, or the list of them, that an expression evaluates to; `names` give values of names."""
    if len(text) > LONGEST_EXPRESSION:
        raise ValueError(f"over {LONGEST_EXPRESSION:,} letters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        return _evaluate(tree, names or {})
    except (SyntaxError, RecursionError, MemoryError, OverflowError):
        raise ValueError("not an expression of whole numbers and lists") from None


def _evaluate(node: ast.expr, names: Names[str, int]) -> Any:
    """The integer or list of integers that a parsed expression stands for."""
    if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) <= _LARGEST:
        return node.value
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id]
    if isinstance(node, ast.List):
        return [_as_integer(_evaluate(item, names)) for item in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        number = _as_integer(_evaluate(node.operand, names))
        return -number if isinstance(node.op, ast.USub) else number
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _apply_operator(type(node.op), _evaluate(node.left, names), _evaluate(node.right, names))
    raise ValueError("not an expression of whole numbers and lists")


def _apply_operator(kind: type[ast.operator], left: Any, right: Any) -> Any:
    """The result of an operator on integers, or on lists that are joined or repeated."""
    lists = [side for side in (left, right) if isinstance(side, list)]
    if lists:
        wanted = {1: ast.Mult, 2: ast.Add}[len(lists)]
        factors = [len(side) if isinstance(side, list) else side for side in (left, right)]
        length = factors[0] * factors[1] if wanted is ast.Mult else sum(factors)
        if kind is not wanted or length > _LONGEST_LIST:
            raise ValueError(f"lists are joined and repeated, to at most {_LONGEST_LIST:,} entries")
    found = _OPERATORS[kind](left, right)
    return found if isinstance(found, list) else _as_integer(found)


def _as_integer(value: Any) -> int:
    if not isinstance(value, int) or abs(value) > _LARGEST:
        raise ValueError(f"a number over {_LARGEST:,}, or none")
    return value


# --- layers one by one to the short list of kinds with counts that a model document has


_MOST_KINDS = 64  # that may be mixed evenly
_UNEVEN = 1.0  # layers by which a kind may run ahead of or behind its share and still count as evenly mixed

Mark = TypeVar("Mark", bound=Hashable)


def layers_by_kind(
    marks: Sequence[Mark], build: Callable[[Mark], dict[str, Any]], count: Origin
) -> tuple[list[dict[str, Any]], list[Loss]]:
    """One document entry for each kind of layer, in order of first occurrence; a loss if their order is lost.

    `marks` has one mark for each layer; layers with equal marks are of one kind.
    """
    counts = Counter(marks)
    found = []
    for mark, often in counts.items():
        entry: dict[str, Any] = {"count": OriginValue(often, count)}
        if mark == marks[0] and _leading_count(marks):
            entry["leading"] = OriginValue(True, Origin("derived", "the first layers are of this kind, no others"))
        found.append(entry | build(mark))
    if _is_evenly_mixed(marks[_leading_count(marks) :]):
        return found, []
    sentence = f"the {len(marks)} layers are mixed evenly here; in the file their order is another"
    return found, [Loss("approximated", sentence, count.place)]


def _leading_count(marks: Sequence[Hashable]) -> int:
    """The number of leading layers of a kind that occurs nowhere else; 0 if all layers are of one kind."""
    ahead = next((index for index, mark in enumerate(marks) if mark != marks[0]), len(marks))
    return ahead if ahead < len(marks) and marks[0] not in marks[ahead:] else 0


def _is_evenly_mixed(marks: Sequence[Hashable]) -> bool:
    """Whether the kinds of layers are mixed evenly: every prefix has nearly the overall shares."""
    counts = Counter(marks)
    for kind, often in counts.items() if len(counts) <= _MOST_KINDS else ():
        share, seen = often / len(marks), 0
        for index, mark in enumerate(marks):
            seen += mark == kind
            if abs(seen - share * (index + 1)) > _UNEVEN:
                return False
    return len(counts) <= _MOST_KINDS
