"""Rooms stay small, everything public says what it is, and the top level is as drawn."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from each import each

from .catalogue import PACKAGE, ROOT, nodes, parsed, python_files, relative

MODULE_LINES = 800
FUNCTION_LINES = 60
SHORT_LINES = 8  # of a function that needs no docstring if it is private
TOP_LEVEL = {"pyproject.toml", "README.md", "cli.py", "LICENSE", "costmodel", "docs", "hardware", "scenarios", "tests"}
LEFTOVERS = {"__pycache__", "build", "dist"}  # built, and ignored by git

FILES = python_files(PACKAGE)
every_file = each("path", FILES)


def function_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function from `def` to its end, without its docstring."""
    length = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is not None:
        length -= (first.end_lineno or first.lineno) - first.lineno + 1
    return length


def undocumented(tree: ast.Module | ast.ClassDef) -> Iterator[str]:
    """Public functions, classes and methods without a docstring."""
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if not node.name.startswith("_"):
            if not ast.get_docstring(node):
                yield f"{node.name} (line {node.lineno})"
            if isinstance(node, ast.ClassDef):
                yield from undocumented(node)


def unexplained(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether the first line of a long function's docstring is missing, under four words, or only the name's words."""
    if function_lines(function) <= SHORT_LINES or function.name.startswith("__"):
        return False
    words = (ast.get_docstring(function) or "").partition("\n\n")[0].lower().split()
    return len(words) < 4 or {word.strip(".,:;") for word in words} <= {*function.name.split("_"), "a", "of", "the"}


@every_file
def test_modules_are_short(path: Path) -> None:
    lines = path.read_text("utf-8").count("\n")
    assert lines <= MODULE_LINES


def bound_twice(tree: ast.Module) -> list[str]:
    """Names that the top of a module binds more than once: all functions read the last value, whatever they meant."""
    names = Counter[str]()
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        flat = [part for each in targets for part in (each.elts if isinstance(each, ast.Tuple) else [each])]
        names.update(part.id for part in flat if isinstance(part, ast.Name))
    return [name for name, count in names.items() if count > 1]


@every_file
def test_a_module_binds_a_name_once(path: Path) -> None:
    assert bound_twice(parsed(path)) == []


def borrowed(tree: Iterable[ast.AST]) -> Iterator[str]:
    """Private names imported from another module of ours."""
    for node in tree:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("costmodel"):
            yield from (name.name for name in node.names if name.name.startswith("_"))


@every_file
def test_long_functions_are_explained(path: Path) -> None:
    functions = [node for node in nodes(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    assert [f"{node.name} (line {node.lineno})" for node in functions if unexplained(node)] == []


@every_file
def test_functions_are_short(path: Path) -> None:
    found = [node for node in nodes(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    long = {node.name: lines for node in found if (lines := function_lines(node)) > FUNCTION_LINES}
    assert long == {}


@every_file
def test_everything_public_has_a_docstring(path: Path) -> None:
    tree = parsed(path)
    assert ast.get_docstring(tree)
    assert list(undocumented(tree)) == []


def test_what_is_private_stays_at_home() -> None:
    for path in FILES:
        assert list(borrowed(nodes(path))) == [], relative(path)


def test_the_top_level_is_as_drawn() -> None:
    seen = {path.name for path in ROOT.iterdir() if not path.name.startswith(".") and path.suffix != ".egg-info"}
    assert seen - LEFTOVERS == TOP_LEVEL


def test_planted_faults_are_caught() -> None:
    long = "def f():\n" + '    """Doc.\n\n    more\n    """\n' + "    x = 1\n" * FUNCTION_LINES
    assert function_lines(ast.parse(long).body[0]) == FUNCTION_LINES + 1  # type: ignore[arg-type]
    bare = "class A:\n    '''A.'''\n    def b(self): pass\ndef _c(): pass"
    assert list(undocumented(ast.parse(bare))) == ["b (line 3)"]
    body = "    x = 1\n" * SHORT_LINES
    unclear = ["", '    """The sizes."""\n', '    """Its words."""\n']
    assert all(unexplained(ast.parse(f"def _sizes():\n{doc}{body}").body[0]) for doc in unclear)  # type: ignore[arg-type]
    private = ast.parse("from costmodel.ground.units import _factor, parse\nfrom os import _exit")
    assert list(borrowed(ast.walk(private))) == ["_factor"]
