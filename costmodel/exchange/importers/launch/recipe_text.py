"""A recipe of torchtitan in Python as a tree of its keyword arguments: parsed, walked, never run."""

from __future__ import annotations

import ast
from typing import Any

from costmodel.documents.text.yaml_tree import Mapping, key_at
from costmodel.exchange.values.integer_expressions import evaluated
from costmodel.exchange.values.places import Lines
from costmodel.ground.errors import CostModelError, Fault, Place, fail

_DEEPEST = 8  # configurations inside one another
_LONGEST = 400_000  # letters
_SECTIONS = {"training", "parallelism", "activation_checkpoint", "optimizer", "model_spec"}


def recipe_tree(text: str, file: str) -> Mapping:
    """The keyword arguments of the one configuration that a recipe builds."""
    if len(text) > _LONGEST:
        raise fail("X010", f"{len(text):,} letters of Python are more than are read", Place(file))
    try:
        module = ast.parse(text)
        found = [(name, call) for name, call in _configurations(module)]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise fail("D002", f"not Python: {type(error).__name__}", Place(file)) from None
    if not found:
        raise fail("X008", "no configuration with training= or parallelism= stands here", Place(file), _HINT)
    lines = Lines(text, file)
    if len(found) > 1:
        names = ", ".join(name[:40] for name, _ in found[:6])
        hint = "keep one of the functions in a file of its own"
        raise fail("X004", f"several recipes stand here: {names}", _place(lines, text, found[1][1]), hint)
    return _Recipe(lines, text, file).tree(*found[0])


_HINT = "write its values out, or give the configuration that the program prints"


def _configurations(module: ast.Module) -> list[tuple[str, ast.Call]]:
    """Every outermost call that builds a whole configuration, with the function it stands in."""
    found = []
    for function in (node for node in module.body if isinstance(node, ast.FunctionDef)):
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and len(_SECTIONS & {word.arg or "" for word in node.keywords}) >= 2:
                found.append((function.name, node))
    return found


def _place(lines: Lines, text: str, node: ast.expr) -> Place:
    starts = text.encode().splitlines(keepends=True)
    before = b"".join(starts[: node.lineno - 1]).decode(errors="ignore")
    inside = starts[node.lineno - 1][: node.col_offset].decode(errors="ignore") if starts else ""
    return lines.place(min(len(before) + len(inside), len(text)))


class _Recipe:
    """One call and what stands in it."""

    def __init__(self, lines: Lines, text: str, file: str) -> None:
        self.lines, self.text, self.file = lines, text, file
        self.faults: list[Fault] = []

    def tree(self, name: str, call: ast.Call) -> Mapping:
        """The tree, with the model that the function's name and its registry state."""
        found = self.keywords(call, 0)
        found.pop("model_spec", None)
        spec = next((word.value for word in call.keywords if word.arg == "model_spec"), None)
        if isinstance(spec, ast.Call) and spec.args and isinstance(spec.args[0], ast.Constant):
            flavor, place = str(spec.args[0].value), _place(self.lines, self.text, spec)
            family = name.lower().partition(f"_{flavor.lower().replace('.', '_')}")[0]
            model = Mapping({key_at("name", place, place): family, key_at("flavor", place, place): flavor})
            model.place = place
            found[key_at("model", place, place)] = model
        if self.faults:
            raise CostModelError(*self.faults)
        return found

    def keywords(self, call: ast.Call, depth: int) -> Mapping:
        """The keyword arguments of a call."""
        built = Mapping()
        built.place = _place(self.lines, self.text, call)
        for word in call.keywords:
            if word.arg is None or depth > _DEEPEST:
                self.refuse("** hands arguments on", call)
                continue
            place = _place(self.lines, self.text, word.value)
            built[key_at(word.arg, place, place)] = self.value(word.arg, word.value, depth)
        return built

    def value(self, name: str, node: ast.expr, depth: int) -> Any:
        """A value: plain, a whole number that is written as a product, or a configuration inside."""
        if isinstance(node, ast.Call):
            built_of = ast.unparse(node.func)
            if name == "activation_checkpoint":
                return built_of
            if node.keywords or built_of.endswith("Config"):
                return self.keywords(node, depth + 1)
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bool | int | float | None):
            return node.value
        try:
            return evaluated(ast.unparse(node))
        except ValueError:
            if name in ("training", "parallelism") or depth:
                self.refuse(f"{name} hangs on {ast.unparse(node)[:60]}", node)
            return None

    def refuse(self, sentence: str, node: ast.expr) -> None:
        """A value for which code would have to run."""
        place = _place(self.lines, self.text, node)
        self.faults.append(Fault("X008", f"{sentence}: nothing is run here", place, _HINT))
