"""Equations are closed forms and composition only adds: rules over the syntax tree, each with faults planted for it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest
from each import each

from .catalogue import PACKAGE, nodes, parsed, python_files, registered, relative

Fault = tuple[int, str]
Rule = Callable[[ast.Module], Iterator[Fault]]

_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_ALLOWED = (
    "numpy",
    "typing",
    "__future__",
    "costmodel.ground.counts",
    "costmodel.ground.equation",
    "costmodel.equations",
)
_DECIDING = {"min", "max", "bool", "int", "float", "round", "any", "all", "sorted", "len", "range"}
_PRODUCTS = (ast.Mult, ast.Div)
_POWERS = (ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult)
_PRODUCT_LIBRARIES = {"np", "numpy", "math", "operator"}
# fmt: off
_PRODUCT_NAMES = {
    "multiply", "divide", "true_divide", "floor_divide", "power", "float_power", "mod", "remainder", "fmod", "divmod",
    "square", "reciprocal", "prod", "cumprod", "dot", "vdot", "inner", "outer", "matmul", "einsum", "tensordot", "kron",
    "mul", "truediv", "floordiv", "pow",
}
# fmt: on
_REDUCTIONS = {"sum", "max", "min", "amax", "amin", "mean", "nansum", "nanmax", "nanmin", "cumsum"}


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda]:
    yield from (node for node in ast.walk(tree) if isinstance(node, _FUNCTION))


def _positional(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    arguments = function.args
    found = {item.arg for item in (*arguments.posonlyargs, *arguments.args)}
    return found | ({arguments.vararg.arg} if arguments.vararg else set())


def _names(node: ast.AST) -> set[str]:
    return {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}


def _body(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[ast.AST]:
    return [function.body] if isinstance(function, ast.Lambda) else list(function.body)


def _inside(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Iterator[ast.AST]:
    for statement in _body(function):
        yield from ast.walk(statement)


def _numbers(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    """Positional arguments and every local computed from one."""
    known = _positional(function)
    while True:
        before = len(known)
        for node in _inside(function):
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if _names(node.value) & known:
                    known |= {name for target in targets for name in _names(target)}
        if len(known) == before:
            return known


def loops(tree: ast.Module) -> Iterator[Fault]:
    """No for, while or comprehension."""
    for node in ast.walk(tree):
        if isinstance(node, _LOOPS):
            yield node.lineno, f"a loop ({type(node).__name__})"


def raising(tree: ast.Module) -> Iterator[Fault]:
    """No raise, and no assert, which raises too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise | ast.Assert):
            yield node.lineno, "an equation never raises"


def item_assignment(tree: ast.Module) -> Iterator[Fault]:
    """Nothing is written into an array, and no argument is changed in place."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node.lineno, "an item assignment"
    for function in _functions(tree):
        for node in _inside(function):
            if isinstance(node, ast.AugAssign) and _names(node.target) & _positional(function):
                yield node.lineno, "an argument changed in place"


def _decides(node: ast.AST) -> list[ast.AST]:
    """The parts of a node whose truth or order Python itself looks at."""
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        return [node.test]
    if isinstance(node, ast.BoolOp):
        return list(node.values)
    if isinstance(node, ast.Match):
        return [node.subject, *(case.guard for case in node.cases if case.guard)]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return [node.operand]
    if isinstance(node, ast.Compare) and (
        len(node.ops) > 1 or any(isinstance(operator, ast.In | ast.NotIn) for operator in node.ops)
    ):
        return [node]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _DECIDING:
        return [*node.args, *(keyword.value for keyword in node.keywords)]
    return []


def branches(tree: ast.Module) -> Iterator[Fault]:
    """Only keyword-only choices are branched on."""
    for function in _functions(tree):
        numbers = _numbers(function)
        for node in _inside(function):
            for part in _decides(node):
                for name in sorted(_names(part) & numbers):
                    yield getattr(node, "lineno", 0), f"a branch on the number '{name}'; use np.where, np.maximum, …"


def imports(tree: ast.Module) -> Iterator[Fault]:
    """Only NumPy, typing, words of choices, costmodel.ground.equation and sibling equations."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [item.name for item in node.names]
        elif isinstance(node, ast.ImportFrom):
            siblings = node.level == 1 or (node.level == 0 and node.module == "costmodel")
            modules = [f"costmodel.{item.name}" for item in node.names] if siblings and node.level == 0 else []
            modules = modules if siblings else [node.module or "a package above"]
        else:
            continue
        for module in modules:
            if not any(module == allowed or module.startswith(f"{allowed}.") for allowed in _ALLOWED):
                yield node.lineno, f"imports {module}"


def unused(tree: ast.Module) -> Iterator[Fault]:
    """Every argument is used in the body."""
    for function in _functions(tree):
        arguments = function.args
        used = {name for statement in _body(function) for name in _names(statement)}
        for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if item.arg not in used:
                yield item.lineno, f"the argument '{item.arg}' is not used"


def products(tree: ast.Module) -> Iterator[Fault]:
    """Composition multiplies what stands in a plan by what one of it takes; a longer product is a formula, so an
    equation with a name and a source. So is any power, and NumPy's own products hide what they are of.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, _POWERS):
            yield node.lineno, f"a power or a remainder: {ast.unparse(node)}"
        elif isinstance(node, ast.BinOp) and isinstance(node.op, _PRODUCTS) and _factors(node) > 3:
            yield node.lineno, f"a formula: {ast.unparse(node)}"
        elif isinstance(node, ast.Attribute) and node.attr in _PRODUCT_NAMES:
            if isinstance(node.value, ast.Name) and node.value.id in _PRODUCT_LIBRARIES - {"operator"}:
                yield node.lineno, f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.ImportFrom) and node.module in _PRODUCT_LIBRARIES:
            for item in node.names:
                if item.name in _PRODUCT_NAMES:
                    yield node.lineno, f"{node.module}.{item.name}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("pow", "divmod"):
            yield node.lineno, f"{node.func.id}()"


def _factors(node: ast.expr) -> int:
    """How many factors a product has, those of its factors counted."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, _PRODUCTS):
        return _factors(node.left) + _factors(node.right)
    return 1


def reductions(tree: ast.Module) -> Iterator[Fault]:
    """No reduction: it would mix the rows of a block, and over a list NumPy forgets where the numbers came from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            library = isinstance(node.value, ast.Name) and node.value.id in ("np", "numpy")
            if node.attr in ("reduce", "accumulate") or (library and node.attr in _REDUCTIONS):
                yield node.lineno, f"{ast.unparse(node)}; use sum(), + or np.maximum on two"


EQUATION_RULES: list[Rule] = [loops, raising, item_assignment, branches, imports, unused]
COMPOSITION_RULES: list[Rule] = [products, reductions]
WINGS = ("run", "serving")  # of equations; until its folder in estimate is there, nothing calls those of a wing
EQUATION_FILES = python_files(PACKAGE / "equations")
COMPOSITION_FILES = python_files(PACKAGE / "estimate")


def _faults(rule: Rule, path: Path) -> list[str]:
    return [f"{relative(path)}:{line}: {sentence}" for line, sentence in rule(parsed(path))]


@each("path, rule", product(EQUATION_FILES, EQUATION_RULES))
def test_equations_are_closed_forms(path: Path, rule: Rule) -> None:
    assert not _faults(rule, path), "\n".join([rule.__doc__ or "", *_faults(rule, path)])


@each("path, rule", product(COMPOSITION_FILES, COMPOSITION_RULES))
def test_composition_only_adds(path: Path, rule: Rule) -> None:
    assert not _faults(rule, path), "\n".join([rule.__doc__ or "", *_faults(rule, path)])


PLANTED: list[tuple[Rule, str]] = [
    (loops, "for i in x: pass"),
    (loops, "while True: pass"),
    (loops, "y = [i for i in x]"),
    (loops, "y = {i for i in x}"),
    (loops, "y = {i: i for i in x}"),
    (loops, "y = sum(i for i in x)"),
    (raising, "raise ValueError"),
    (raising, "assert x"),
    (item_assignment, "y[x < 0] = 0"),
    (item_assignment, "y[0] += 1"),
    (item_assignment, "y[0]: float = 1"),
    (item_assignment, "(y[0], z) = 1, 2"),
    (item_assignment, "def f(x):\n    x += 1\n    return x"),
    (branches, "def f(x):\n    if x > 0:\n        return x"),
    (branches, "def f(x):\n    return x if x > 0 else 0"),
    (branches, "def f(x, y):\n    return x and y"),
    (branches, "def f(x):\n    return not x"),
    (branches, "def f(x):\n    y = x - 1\n    z: float = y\n    return 1 if z else 2"),
    (branches, "def f(x):\n    if (y := x - 1):\n        return y"),
    (branches, "def f(x):\n    a, b = x, 1\n    return 1 if b > a else 2"),
    (branches, "def f(x):\n    return np.where(0 < x < 1, x, 0)"),
    (branches, "def f(x):\n    return x in (1, 2)"),
    (branches, "def f(x):\n    match x:\n        case 1: return 2"),
    (branches, "def f(x):\n    return max(x, 0)"),
    (branches, "def f(x, *, how):\n    return 1 if how == 'a' and np.any(x) else 2"),
    (branches, "g = lambda x: 1 if x else 2"),
    (branches, "def f(x, /, *rest):\n    return 1 if rest else x"),
    (imports, "import pandas"),
    (imports, "import math"),
    (imports, "from costmodel.documents.schemas.model import Model"),
    (imports, "from costmodel import documents"),
    (imports, "from costmodel.equation_parts import x"),
    (imports, "from ..documents import model"),
    (imports, "from numpyro import x"),
    (unused, "def f(x, y):\n    return x"),
    (unused, "def f(x, *, how):\n    '''how'''\n    return x"),
    (products, "y = a * b * c * d"),
    (products, "y = a * (b / c) / (d * e)"),
    (products, "y = a // b"),
    (products, "y = a % b"),
    (products, "y = '%s' % b"),
    (products, "y = a ** 2"),
    (products, "y = a @ b"),
    (products, "y **= 2"),
    (products, "y = np.multiply(a, b)"),
    (products, "y = np.divide(a, b)"),
    (products, "y = np.power(a, b)"),
    (products, "y = math.prod(a)"),
    (products, "from operator import mul"),
    (products, "y = pow(a, 2)"),
    (reductions, "y = np.maximum.reduce([a, b])"),
    (reductions, "y = np.sum([a, b])"),
]

INNOCENT: list[tuple[Rule, str]] = [
    (branches, "def f(x, *, how):\n    if how == 'a' or how in ('b', 'c'):\n        return x\n    return 2 * x"),
    (branches, "def f(x, *, how):\n    y = 2 if how else 3\n    return x * y if y > 2 else np.where(x > 0, x, 0)"),
    (branches, "def f(x):\n    return np.maximum(x, 0) + abs(x)"),
    (imports, "from __future__ import annotations\nfrom typing import Literal\nimport numpy as np"),
    (imports, "from numpy.typing import NDArray\nfrom costmodel.ground.equation import Number, equation"),
    (
        imports,
        "from costmodel.equations.network.overlap import f\nfrom costmodel.equations import roofline\nfrom .a import b",
    ),
    (item_assignment, "def f(x):\n    y = x + 1\n    z = T['a']\n    return y + z"),
    (unused, "def f(x, *, how):\n    return x + T[how]"),
    (products, "def f(*a: float | None, **b: int) -> list[int] | None:\n    return g(*a, **b, c=[*a]) + 1 - 2"),
    (products, "y = a * (b + c / d) * e"),
    (products, "y = np.maximum(a, b) + np.where(c, a, b) + sum([a, b])"),
    (reductions, "y = np.maximum(a, np.maximum(b, c)) + sum([a, b])"),
]


@each("rule, source", PLANTED)
def test_a_planted_fault_is_caught(rule: Rule, source: str) -> None:
    assert list(rule(ast.parse(source)))


@pytest.mark.parametrize(("rule", "source"), INNOCENT)
def test_innocent_code_passes(rule: Rule, source: str) -> None:
    assert not list(rule(ast.parse(source)))


def test_every_rule_has_a_planted_fault() -> None:
    assert {rule for rule, _ in PLANTED} == {*EQUATION_RULES, *COMPOSITION_RULES}


def test_there_is_something_to_look_at() -> None:
    assert len(EQUATION_FILES) > 1
    assert len(COMPOSITION_FILES) > 1


def test_what_no_estimate_calls_says_so() -> None:
    """An equation that stands there for the reader is not taken for part of the model."""
    called = set[str]()
    for path in python_files(PACKAGE):
        if "equations" not in path.parts and "costmodel.equations" not in path.read_text("utf-8"):
            continue
        for node in nodes(path):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("costmodel.equations."):
                called.update(item.name for item in node.names)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                called.add(node.func.id)
    alone = {item.name for item in registered() if "no estimate calls it" in item.contract.holds}
    early = [f"equations.{wing}." for wing in WINGS if not (PACKAGE / "estimate" / wing).is_dir()]
    waiting = {item.name for item in registered() if item.room.startswith(tuple(early))}
    assert {item.name for item in registered()} - called - waiting <= alone
    assert {item.name for item in registered() if item.name in alone & called} <= {"switch_reduce_bytes"}
