"""Reads a configuration as a tree whose values know their places: JSON, YAML, TOML, or a recipe in Python."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Set
from typing import Any

from costmodel.documents.text.files import MAXIMUM_BYTES
from costmodel.documents.text.yaml_tree import Items, Mapping, key_at, parse, put_at
from costmodel.exchange.values import Lines, evaluate_expression, parse_json
from costmodel.ground.errors import CostModelError, Fault, Place, fail

# --- the text of a configuration as a tree that knows its places: JSON, YAML, TOML


_DEEPEST = 16  # levels of a configuration
_SECTION = re.compile(r"(?m)^[ \t]*\[([^\[\]\n]{1,200})\]")
_ENTRY = re.compile(r"(?m)^[ \t]*([A-Za-z0-9_.-]{1,80})[ \t]*=")


def tree_of(text: str, file: str) -> Mapping:
    """The mapping that a YAML, JSON or TOML text states."""
    if not is_toml(text):
        tree = parse_json(text, file) if text.lstrip().startswith("{") else parse(text, file, quoted=True)
    else:
        tree = _parse_toml(text, file)
    if not isinstance(tree, Mapping):
        raise fail("X001", "the text is no mapping of keys to values", Place(file))
    return tree


def is_toml(text: str) -> bool:
    """Whether a text is TOML: it has sections in brackets and entries with an equals sign.

    >>> is_toml("[training]\\nseq_len = 8192"), is_toml("training:\\n  seq_len: 8192")
    (True, False)
    """
    return _SECTION.search(text) is not None and _ENTRY.search(text) is not None


def _parse_toml(text: str, file: str) -> Mapping:
    """The tree of a TOML text, with the places of its keys."""
    if len(text) > MAXIMUM_BYTES // 4:
        raise fail("X010", f"{len(text):,} letters of TOML are more than are read", Place(file))
    try:
        plain = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise fail("D002", f"not TOML: {str(error)[:200]}", Place(file)) from None
    places = _places(text, file)
    return _with_places(plain, "", places, Place(file), 0)


def _places(text: str, file: str) -> dict[str, Place]:
    """The place of each key, by its dotted path."""
    lines, found, section = Lines(text, file), dict[str, Place](), ""
    marks = sorted([*_SECTION.finditer(text), *_ENTRY.finditer(text)], key=lambda match: match.start())
    for match in marks:
        if match.re is _SECTION:
            section = match.group(1).strip()
            continue
        path = f"{section}.{match.group(1)}" if section else match.group(1)
        found.setdefault(path, lines.place(match.start(1), path, len(match.group(1))))
    return found


def _with_places(plain: dict[str, Any], above: str, places: dict[str, Place], whole: Place, depth: int) -> Mapping:
    """The same tree with places; `above` is the path of the mapping."""
    if depth > _DEEPEST:
        raise fail("X010", f"nested over {_DEEPEST} levels", whole)
    built = Mapping()
    built.place = whole
    for name, value in plain.items():
        path = f"{above}.{name}" if above else name
        place = places.get(path, whole)
        if isinstance(value, dict):
            built[key_at(name, place, place)] = _with_places(value, path, places, whole, depth + 1)
        elif isinstance(value, list):
            items = Items(value)
            items.places = [place] * len(items)
            built[key_at(name, place, place)] = items
        else:
            built[key_at(name, place, place)] = value
    return built


# --- A recipe of torchtitan in Python as a tree of its keyword arguments: parsed, walked, never run


_DEEPEST_RECIPE = 8  # configurations inside one another
_LONGEST = 400_000  # letters
_COSTLY = frozenset({"", "training", "parallelism"})
_SECTIONS = {"training", "parallelism", "activation_checkpoint", "optimizer", "model_spec"}


def recipe_tree(text: str, file: str) -> Mapping:
    """The keyword arguments of the single configuration that a Python recipe builds."""
    if len(text) > _LONGEST:
        raise fail("X010", f"{len(text):,} letters of Python are more than are read", Place(file))
    try:
        module = ast.parse(text)
        found = [(name, call) for name, call in _configurations(module)]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise fail("D002", f"not Python: {type(error).__name__}", Place(file)) from None
    if not found:
        raise fail("X008", "the file has no configuration with training= or parallelism=", Place(file), _HINT)
    lines = Lines(text, file)
    if len(found) > 1:
        names = ", ".join(function.name[:40] for function, _ in found[:6])
        hint = "keep one of the functions in a file of its own"
        raise fail("X004", f"there are several recipes here: {names}", _place_of_node(lines, text, found[1][1]), hint)
    function, call = found[0]
    assigned = {**_assigned_once(module.body), **_assigned_once(function.body)}
    recipe = _Recipe(lines, text, file, assigned, _COSTLY)
    recipe.family = _imported_family(module)
    return recipe.tree(function, call)


def _imported_family(module: ast.Module) -> str:
    """The model family whose registry a recipe imports; empty if the recipe belongs to that registry's module."""
    imported = [node.module or "" for node in module.body if isinstance(node, ast.ImportFrom)
                and any(name.name == "model_registry" for name in node.names)]  # fmt: skip
    return next((name.rpartition(".")[2] for name in imported if name.startswith("torchtitan.models.")), "")


def call_tree(text: str, file: str, called: str, costly: Set[str]) -> tuple[Mapping, list[tuple[str, Mapping]]]:
    """The keyword arguments of the single call of a class, and of all other calls with their names.

    called: a pattern for the name. costly: arguments whose values must be literals in the text.
    """
    if len(text) > _LONGEST:
        raise fail("X010", f"{len(text):,} letters of Python are more than are read", Place(file))
    try:
        module = ast.parse(text)
        calls = [node for node in ast.walk(module) if isinstance(node, ast.Call)]
        named = [(ast.unparse(node.func).rpartition(".")[2], node) for node in calls]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise fail("D002", f"not Python: {type(error).__name__}", Place(file)) from None
    lines = Lines(text, file)
    bodies = [module.body, *(node.body for node in module.body if isinstance(node, ast.FunctionDef))]
    names = {name: value for body in bodies for name, value in _assigned_once(body).items()}
    chosen = [node for name, node in named if re.fullmatch(called, name)]
    if len(chosen) != 1:
        sentence = f"{len(chosen)} calls here state the arguments of a training"
        raise fail("X004" if chosen else "X008", sentence, Place(file), "keep one of them in a file of its own")
    reader, rest = _Recipe(lines, text, file, names, costly), _Recipe(lines, text, file, names, frozenset())
    found = reader.keywords(chosen[0], "", 0)
    if reader.faults:
        raise CostModelError(*reader.faults)
    return found, [(name, rest.keywords(node, "", 0)) for name, node in named if node is not chosen[0]]


_HINT = "write its values out, or give the configuration that the program prints"


def _configurations(module: ast.Module) -> list[tuple[ast.FunctionDef, ast.Call]]:
    """Every call that builds a whole configuration, with the function that contains it."""
    found = []
    for function in (node for node in module.body if isinstance(node, ast.FunctionDef)):
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and len(_SECTIONS & {word.arg or "" for word in node.keywords}) >= 2:
                found.append((function, node))
    return found


def _assigned_once(body: list[ast.stmt]) -> dict[str, ast.expr]:
    """The expressions assigned to names in a function body, for names that are assigned once."""
    found: dict[str, list[ast.expr]] = {}
    for node in body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(node.value)
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def _place_of_node(lines: Lines, text: str, node: ast.expr) -> Place:
    starts = text.encode().splitlines(keepends=True)
    before = b"".join(starts[: node.lineno - 1]).decode(errors="ignore")
    inside = starts[node.lineno - 1][: node.col_offset].decode(errors="ignore") if starts else ""
    return lines.place(min(len(before) + len(inside), len(text)))


class _Recipe:
    """Reads the arguments of calls in a recipe; `names` are the expressions of assigned names."""

    def __init__(self, lines: Lines, text: str, file: str, names: dict[str, ast.expr], costly: Set[str]) -> None:
        self.lines, self.text, self.file, self.names, self.costly = lines, text, file, names, costly
        self.faults: list[Fault] = []
        self.family = ""  # of the model, where the recipe imports its registry

    def tree(self, function: ast.FunctionDef, call: ast.Call) -> Mapping:
        """The tree, with the model that the function's name and its registry state."""
        found = self.keywords(call, "", 0)
        found.pop("model_spec", None)
        spec = self.meant(next((word.value for word in call.keywords if word.arg == "model_spec"), None))
        for target, value in _attribute_assignments(function):
            if target == ["model_spec"]:
                spec = self.meant(value)
            else:
                here = _place_of_node(self.lines, self.text, value)
                put_at(found, ".".join(target), self.value(target[-1], value, target[0], 0), here)
        if isinstance(spec, ast.Call) and spec.args and isinstance(spec.args[0], ast.Constant):
            flavor, place = str(spec.args[0].value), _place_of_node(self.lines, self.text, spec)
            named = function.name.lower().removeprefix("sft_")
            family = self.family or named.partition(f"_{re.sub('[.-]', '_', flavor.lower())}")[0]
            model = Mapping({key_at("name", place, place): family, key_at("flavor", place, place): flavor})
            model.place = place
            found[key_at("model", place, place)] = model
            self.convert(spec, model, found, place)
        if self.faults:
            raise CostModelError(*self.faults)
        return found

    def convert(self, spec: ast.Call, model: Mapping, found: Mapping, place: Place) -> None:
        """Reads the converters of the model's layers, and the recipe of an fp8 converter."""
        listed = self.meant(next((word.value for word in spec.keywords if word.arg == "converters"), None))
        calls = [node for node in getattr(listed, "elts", []) if isinstance(node, ast.Call)]
        if not calls:
            return
        names = [ast.unparse(node.func).removesuffix(".Config") for node in calls]
        model[key_at("converters", place, place)] = " ".join(names)
        for node, name in zip(calls, names, strict=True):
            words = {word.arg: word.value for word in node.keywords}
            recipe = words.get("recipe_name")
            if "Float8Linear" in name:
                stated = recipe.value if isinstance(recipe, ast.Constant) else "rowwise"
                found[key_at("quantize.linear.float8.recipe_name", place, place)] = stated

    def keywords(self, call: ast.Call, section: str, depth: int) -> Mapping:
        """The keyword arguments of a call."""
        built = Mapping()
        built.place = _place_of_node(self.lines, self.text, call)
        for word in call.keywords:
            inner = section or (word.arg or "")
            if word.arg is None or depth > _DEEPEST_RECIPE:
                self.refuse("** hands arguments on", call, section)
                continue
            place = _place_of_node(self.lines, self.text, word.value)
            built[key_at(word.arg, place, place)] = self.value(word.arg, word.value, inner, depth)
        return built

    def value(self, name: str, node: ast.expr, section: str, depth: int) -> Any:
        """The value of an expression: a constant, a product of whole numbers, or a nested configuration."""
        node = self.meant(node) or node
        if isinstance(node, ast.Call):
            built_of = ast.unparse(node.func)
            if name == "activation_checkpoint":
                return built_of
            if node.keywords or built_of.endswith("Config"):
                return self.keywords(node, section, depth + 1)
        if isinstance(node, ast.Dict | ast.List):
            return self.held(name, node, section, depth)
        if name == "activation_checkpoint" and isinstance(node, ast.Constant) and node.value is None:
            return "none"
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bool | int | float | None):
            return node.value
        try:
            return evaluate_expression(ast.unparse(self.filled(node)))
        except (ValueError, RecursionError):
            self.refuse(f"{name} hangs on {self.text_of(node)[:60]}", node, section)
            return None

    def held(self, name: str, node: ast.Dict | ast.List, section: str, depth: int) -> Any:
        """A dictionary or a list of values."""
        place = _place_of_node(self.lines, self.text, node)
        if depth > _DEEPEST_RECIPE:
            self.refuse(f"{name} is nested too deep", node, section)
            return None
        if isinstance(node, ast.List):
            items = Items(self.value(name, item, section, depth + 1) for item in node.elts)
            items.places = [place] * len(items)
            return items
        built = Mapping()
        built.place = place
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant):
                built[key_at(str(key.value), place, place)] = self.value(str(key.value), value, section, depth + 1)
        return built

    def text_of(self, node: ast.expr) -> str:
        """The text of a node, as it is written."""
        return (ast.get_source_segment(self.text, node) or "").partition("\n")[0]

    def meant(self, node: ast.expr | None) -> ast.expr | None:
        """The expression assigned to a name; any other expression is returned as it is."""
        return self.names.get(node.id, node) if isinstance(node, ast.Name) else node

    def filled(self, node: ast.expr) -> ast.expr:
        """A product in which names are replaced by their numbers."""
        if isinstance(node, ast.BinOp):
            return ast.BinOp(self.filled(node.left), node.op, self.filled(node.right))
        return self.meant(node) or node

    def refuse(self, sentence: str, node: ast.expr, section: str) -> None:
        """Records a fault for a value that only running code would give, in a section that affects the cost."""
        if section in self.costly:
            place = _place_of_node(self.lines, self.text, node)
            self.faults.append(Fault("X008", f"{sentence}: nothing is run here", place, _HINT))


def _attribute_assignments(function: ast.FunctionDef) -> list[tuple[list[str], ast.expr]]:
    """Assignments to attributes of the configuration, with their paths."""
    found = []
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        path, here = [], node.targets[0]
        while isinstance(here, ast.Attribute):
            path.append(here.attr)
            here = here.value
        if path and path[-1] in _SECTIONS:
            found.append((path[::-1], node.value))
    return found
