"""Rendering computes nothing: what report/ imports evaluates no plan."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
EVALUATE = {
    ("costmodel.estimate.evaluate.evaluate_plans", "evaluate"),
    ("costmodel.estimate.serving.evaluate_layouts", "evaluate"),
}
Name = tuple[str, str]


def imported(tree: ast.AST, *, at_run_time: bool = False) -> dict[str, Name]:
    """The names that a tree imports from the project; at run time without those for types alone."""
    found: dict[str, Name] = {}
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("costmodel."):
            found |= {alias.asname or alias.name: (str(node.module), alias.name) for alias in node.names}
        elif not (at_run_time and isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"):
            found |= imported(node, at_run_time=at_run_time)
    return found


def functions() -> dict[Name, set[Name]]:
    """Every function of a module, with what of the project it names."""
    found: dict[Name, set[Name]] = {}
    for path in (ROOT / "costmodel").rglob("*.py"):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        here = {node.name: (module, node.name) for node in tree.body if isinstance(node, ast.FunctionDef)}
        known = {**imported(tree), **here}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                named = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
                found[module, node.name] = {known[name] for name in named & known.keys()}
    return found


def evaluating() -> set[Name]:
    """The functions that evaluate plans, by themselves or by what they call."""
    named, found = functions(), set(EVALUATE)
    while more := {name for name, inner in named.items() if inner & found} - found:
        found |= more
    return found


def test_rendering_evaluates_no_plan() -> None:
    found = evaluating()
    assert found >= {*EVALUATE, ("costmodel.explore.explain.fixes", "remedies")}
    breaches = []
    for path in sorted((ROOT / "costmodel" / "report").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        breaches += [f"{path.name}: {name}" for name in imported(tree, at_run_time=True).values() if name in found]
    assert not breaches
