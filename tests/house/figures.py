"""Sizes and imports of a checkout, in figures: `python -m tests.house.figures [folder]` prints them."""

from __future__ import annotations

import ast
import functools
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from importlib.util import resolve_name
from pathlib import Path
from typing import NamedTuple

from .catalogue import ROOT, nodes, python_files

SHORT = 60  # a file with fewer lines and a single importer belongs into that importer
COMMANDS = ("estimate quickstart", "search quickstart", "estimate serve-llama-3.1-70b")
_COUNT = """
import atexit, os, runpy, sys
atexit.register(lambda: os.write(2, b"\\n%d" % sum(name.split(".")[0] == "costmodel" for name in sys.modules)))
sys.argv[0] = "costmodel"
runpy.run_module("costmodel", run_name="__main__")
"""

Graph = dict[str, set[str]]  # a module, and the modules that it imports


class Size(NamedTuple):
    """Lines of a file, those with code (no blank line, comment or docstring), and those of import statements."""

    lines: int
    code: int
    imports: int


class Figure(NamedTuple):
    """A figure, and what it counts."""

    value: float
    names: list[str]


def _lines(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


@functools.cache
def size(path: Path) -> Size:
    """The size of a file; a string that stands alone is a docstring."""
    lines = path.read_text("utf-8").split("\n")
    written = {number for number, line in enumerate(lines, 1) if line.strip() and not line.lstrip().startswith("#")}
    imports: set[int] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.update(_lines(node))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            written.difference_update(_lines(node))
    return Size(len(lines) - 1, len(written), len(imports & written))


def total(paths: Iterable[Path]) -> Size:
    """The size of several files."""
    return Size(*(sum(column) for column in zip(*map(size, paths), strict=True)))


def modules(root: Path) -> dict[str, Path]:
    """The modules of a checkout's package by name, without the package's own, which every import runs."""
    found = {path.relative_to(root).with_suffix(""): path for path in python_files(root / "costmodel")}
    names = {".".join(path.parts).removesuffix(".__init__"): file for path, file in found.items()}
    return {name: file for name, file in names.items() if name != "costmodel"}


def imports(root: Path) -> Graph:
    """What each module imports of the package, also late (in a function) and for types only."""
    known = modules(root)
    graph: Graph = {name: set() for name in known}
    for name, path in known.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for node in nodes(path):
            if isinstance(node, ast.Import):
                graph[name].update(item.name for item in node.names if item.name in known)
            elif isinstance(node, ast.ImportFrom):
                source = resolve_name("." * node.level + (node.module or ""), package)
                found = {item if (item := f"{source}.{alias.name}") in known else source for alias in node.names}
                graph[name].update(found & known.keys())
        graph[name].discard(name)
    return graph


def groups(graph: Graph) -> list[list[str]]:
    """Modules that import each other in one group, others alone; each group after all that it imports (Tarjan)."""
    found: list[list[str]] = []
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        path.append(module)
        for other in sorted(graph[module]):
            if other not in order:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in path:
                lowest[module] = min(lowest[module], order[other])
        if lowest[module] == order[module]:
            start = path.index(module)
            found.append(path[start:])
            del path[start:]

    for module in graph:
        if module not in order:
            visit(module)
    return found


def longest_chain(graph: Graph) -> list[str]:
    """The modules of the longest chain of imports; a circle counts with all of its modules."""
    chains: dict[str, list[str]] = {}
    for group in groups(graph):
        beneath = (chains[other] for module in group for other in graph[module] if other not in group)
        chain = [*group, *max(beneath, key=len, default=[])]
        chains.update((module, chain) for module in group)
    return max(chains.values(), key=len, default=[])


def single_importers(root: Path, graph: Graph) -> list[str]:
    """Short files that one module alone imports, with that module."""
    importers: dict[str, list[str]] = defaultdict(list)
    for module, imported in graph.items():
        for other in imported:
            importers[other].append(module)
    short = [name for name, path in modules(root).items() if path.stem[0] != "_" and size(path).lines < SHORT]
    return [f"{name} into {importers[name][0]}" for name in short if len(importers[name]) == 1]


def figures(root: Path) -> dict[str, Figure]:
    """Every figure that has a ceiling."""
    files = python_files(root / "costmodel")
    graph, whole = imports(root), total(files)
    circles = [sorted(group) for group in groups(graph) if len(group) > 1]
    chain, short = longest_chain(graph), single_importers(root, graph)
    return {
        "imports, % of code lines": Figure(100 * whole.imports / whole.code, []),
        "files": Figure(len(files), []),
        f"files under {SHORT} lines with one importer": Figure(len(short), short),
        "imports in the longest chain": Figure(len(chain) - 1, [" → ".join(chain)]),
        "import circles": Figure(len(circles), [" ↔ ".join(circle) for circle in circles]),
        "modules in import circles": Figure(sum(map(len, circles)), []),
    }


def loaded(root: Path, command: str) -> int:
    """Modules of the package that a command has loaded when it ends."""
    program = [sys.executable, "-c", _COUNT, *command.split()]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    result = subprocess.run(program, cwd=root, env=environment, capture_output=True, timeout=1800, check=False)
    return int(result.stderr.rsplit(b"\n", 1)[-1])


def main(root: Path) -> None:
    """Print all figures of a checkout."""
    package = root / "costmodel"
    floors = {path.name: python_files(path) for path in sorted(package.iterdir()) if path.is_dir()}
    for name, files in {**floors, "top level": sorted(package.glob("*.py")), "all": python_files(package)}.items():
        if not files:
            continue
        lines, code, imported = total(files)
        share = f"imports {imported / code:.1%} of code lines, {code - imported:6,} others"
        print(f"{name:12} {lines:8,} lines in {len(files):4} files, {share}")
    print(f"{'tests':12} {total(python_files(root / 'tests')).lines:8,} lines")
    for name, figure in figures(root).items():
        print(f"{name}: {figure.value:.4g}", *figure.names, sep="\n  ")
    for command in COMMANDS:
        print(f"modules loaded by {command}: {loaded(root, command)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT)
