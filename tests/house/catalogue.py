"""What the house tests look at: the checkout, its modules, every equation with its choices and its numbers."""

from __future__ import annotations

import ast
import functools
import importlib
import itertools
import pkgutil
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import costmodel.equations
from costmodel.documents.text.yaml_tree import parse
from costmodel.ground.equation import EQUATIONS, Argument, Equation

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "costmodel"
SOURCES = PACKAGE / "equations" / "sources.yaml"
VOCABULARY = PACKAGE / "equations" / "vocabulary.yaml"

MODULES = [
    importlib.import_module(found.name)
    for found in pkgutil.walk_packages(costmodel.equations.__path__, "costmodel.equations.")
]

# Plain functions beside the equations: algorithms on whole lists, where an equation takes single numbers.
ALGORITHMS = {"balanced_shares", "whole_shares"}


def registered() -> list[Equation]:
    """Every equation of the package; toys that other tests register are no part of it."""
    found = [item for item in EQUATIONS.values() if item.function.__module__.startswith("costmodel.equations.")]
    return sorted(found, key=lambda item: (item.room, item.name))


@functools.cache
def read_yaml(path: Path) -> Any:
    """A YAML file as dicts and lists; an absent one is empty."""
    return parse(path.read_text("utf-8"), str(path)) if path.is_file() else {}


def python_files(folder: Path) -> list[Path]:
    """Every module in a folder and beneath it."""
    return sorted(folder.rglob("*.py"))


@functools.cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a module: many tests look at it, and none changes it."""
    return ast.parse(path.read_text("utf-8"))


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a module, in the order of `ast.walk`."""
    return tuple(ast.walk(parsed(path)))


def relative(path: Path) -> str:
    """A path as seen from the root of the checkout."""
    return path.relative_to(ROOT).as_posix()


def numbers(equation: Equation) -> list[Argument]:
    """The positional arguments, in order, as the docstring declares them."""
    declared = {argument.name: argument for argument in equation.contract.arguments}
    parameters = equation.signature.parameters.values()
    return [declared[item.name] for item in parameters if item.kind is not item.KEYWORD_ONLY]


def _values(hint: Any) -> Iterator[Any]:
    if hint is bool:
        yield from (False, True)
    elif hint is type(None):
        yield None
    elif typing.get_origin(hint) is typing.Literal:
        yield from typing.get_args(hint)
    elif typing.get_origin(hint) in (typing.Union, types.UnionType):
        for member in typing.get_args(hint):
            yield from _values(member)
    else:
        raise TypeError(f"a choice is bool or Literal, not {hint}")


def choices(equation: Equation) -> list[dict[str, Any]]:
    """Every combination of the keyword-only arguments."""
    hints = typing.get_type_hints(equation.function)
    names = [item.name for item in equation.signature.parameters.values() if item.kind is item.KEYWORD_ONLY]
    return [
        dict(zip(names, values, strict=True)) for values in itertools.product(*(list(_values(hints[n])) for n in names))
    ]
