"""Rendering computes nothing: what report/ imports or asks an answer for evaluates no plan."""

from __future__ import annotations

import ast
import functools

from .catalogue import PACKAGE, nodes, parsed, python_files

EVALUATE = {
    ("costmodel.estimate.training_answer.evaluate_training", "evaluate"),
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


@functools.cache
def functions() -> dict[Name, set[Name]]:
    """Every function and method of a module, with what of the project it names."""
    found: dict[Name, set[Name]] = {}
    for path in python_files(PACKAGE):
        module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        tree = parsed(path)
        here = {node.name: (module, node.name) for node in tree.body if isinstance(node, ast.FunctionDef)}
        known = {**imported(tree), **here}
        defined = [(node, node.name) for node in tree.body if isinstance(node, ast.FunctionDef)]
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        defined += [
            (node, f"{of.name}.{node.name}") for of in classes for node in of.body if isinstance(node, ast.FunctionDef)
        ]
        for node, name in defined:
            named = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
            found[module, name] = {known[inner] for inner in named & known.keys()}
    return found


@functools.cache
def evaluating() -> set[Name]:
    """The functions that evaluate plans, by themselves or by what they call."""
    named, found = functions(), set(EVALUATE)
    while more := {name for name, inner in named.items() if inner & found} - found:
        found |= more
    return found


def test_rendering_evaluates_no_plan() -> None:
    found = evaluating()
    assert found >= {*EVALUATE, ("costmodel.explore.explain.plan_remedies", "remedies")}
    breaches = []
    for path in python_files(PACKAGE / "report"):
        tree = parsed(path)
        breaches += [f"{path.name}: {name}" for name in imported(tree, at_run_time=True).values() if name in found]
    assert not breaches


# Functions of evidence/ that write a value as documents do.
WRITTEN = {"unit_value", "written"}


def test_rendering_scores_nothing() -> None:
    """Scores of predictions, of choices and of fits are in the answer before it is drawn."""
    computing = {(module, name) for module, name in functions() if module.startswith("costmodel.evidence.")}
    assert ("costmodel.evidence.validate.scores", "score") in computing
    breaches = []
    for path in python_files(PACKAGE / "report"):
        tree = parsed(path)
        used = {name for name in imported(tree, at_run_time=True).values() if name in computing}
        breaches += [f"{path.name}: {name}" for _, name in used if name not in WRITTEN]
    assert not breaches


def test_answers_that_are_rendered_hold_all_that_is_asked_of_them() -> None:
    """A property that evaluates a plan would do it while something is drawn; pages alone collect as they are drawn."""
    lazy = {tuple(name.split(".")) for module, name in evaluating() if "." in name and ".page." not in module}
    asked: dict[str, set[str]] = {}
    for path in python_files(PACKAGE / "report"):
        tree = parsed(path)
        attributes = {node.attr for node in nodes(path) if isinstance(node, ast.Attribute)}
        for _, name in imported(tree).values():
            asked.setdefault(name, set()).update(attributes)
    assert lazy
    assert not {f"{of}.{method}" for of, method in lazy if method in asked.get(of, set())}
