"""Questions, commands and reports do not compare a scenario's kind of workload: they ask the workload itself."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from each import each

from .catalogue import PACKAGE, nodes, python_files

ROOMS = {"commands", "report", "explore", "questions", "library.py"}
REGISTRIES = {
    "explore/workloads.py",
    "report/workload_words.py",
    "commands/by_workload.py",
}  # the tables of what each workload has
KINDS = {"training", "serving", "rl"}
TYPES = ("Training", "Serving", "Rl")  # begin the names of a workload's classes
UNMARKED = {"Answer", "Facts", "PlanFacts", "ResolvedScenario", "Scenario"}  # classes of training
FAULT = f"Do not compare the kind of workload: state what differs in {' or '.join(sorted(REGISTRIES))}."

# Comparisons that are left, by file: lower a number with each that goes.
LEFT = {
    "commands/help_text.py": 4,
    "explore/flag_defaults.py": 4,
    "explore/flag_keys.py": 2,
    "explore/import_file.py": 1,
    "explore/import_serving.py": 1,
    "explore/serving/rate_sizes.py": 1,
    "explore/short_form.py": 3,
    "explore/sides.py": 1,
    "report/page/scenarios_page.py": 1,
    "report/terminal/evidence/evidence.py": 2,
    "report/terminal/serving/serving_sizes.py": 3,
    "report/terminal/style/head.py": 2,
}


def names_workload(node: ast.AST) -> bool:
    """Whether an operand, or a pattern of `match`, is the kind of a workload or a class of one, or contains it."""
    match node:
        case ast.Constant(value=value):
            return value in KINDS
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in UNMARKED or name.startswith(TYPES)
        case ast.Call() | ast.Subscript():  # their value is another
            return False
    return any(map(names_workload, ast.iter_child_nodes(node)))


def compared(found: Iterable[ast.AST], *, tables: bool = True) -> Iterator[int]:
    """Lines that compare with the kind or a class of a workload, and tables with entries for several of them.

    An assertion only narrows a type, so it may.
    """
    found = tuple(found)
    asserted = {part for node in found if isinstance(node, ast.Assert) for part in ast.walk(node)}
    operands: list[ast.AST]
    for node in found:
        match node:
            case ast.Compare(lineno=line):
                operands, least = [node.left, *node.comparators], 1
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, types], lineno=line):
                operands, least = [types], 1
            case ast.match_case(pattern=pattern):
                operands, least, line = [pattern], 1, pattern.lineno
            case ast.Dict(keys=keys, lineno=line) if tables:
                operands, least = [key for key in keys if key], 2
            case _:
                continue
        if sum(map(names_workload, operands)) >= least and node not in asserted:
            yield line


def test_questions_compare_no_kind_of_workload() -> None:
    names = {path.relative_to(PACKAGE).as_posix(): path for path in python_files(PACKAGE)}
    seen = {
        name: sorted(compared(nodes(path), tables=name not in REGISTRIES))
        for name, path in names.items()
        if name.partition("/")[0] in ROOMS
    }
    faults = []
    for name in sorted({*seen, *LEFT}):
        lines, left = seen.get(name, []), LEFT.get(name, 0)
        if len(lines) != left:
            remedy = FAULT if len(lines) > left else "Lower its number in LEFT."
            faults.append(f"{name}: {len(lines)} comparisons, listed {left}, in lines {lines}. {remedy}")
    assert not faults, "\n".join(faults)


@each(
    "code, count",
    [
        ('if case.kind == "serving": ...', 1),
        ('x = 1 if "rl" != kind else 2', 1),
        ('x = case.scenario.workload.kind in ("rl", "serving")', 1),
        ('x = kind not in {"training"}', 1),
        ('x = case.kind != ("serving" if serves else "training")', 1),
        ("if isinstance(x, ServingCase): ...", 1),
        ("x = [y for y in z if not isinstance(y, int | module.RlAnswer)]", 1),
        ("x = isinstance(y, (ResolvedScenario, str))", 1),
        ("x = type(case) is TrainingScenario", 1),
        ('match case.kind:\n    case "serving" | "other": ...\n    case "rl": ...', 2),
        ("match case:\n    case RlCase(): ...", 1),
        ('x = {"serving": 1, "rl": 2}[case.kind]', 1),
        ("x = {ServingCase: 1, RlCase: 2}[type(case)]", 1),
        ('if limit.kind == "at_most": ...', 0),
        ("assert isinstance(answer, ServingAnswer)", 0),
        ("x = isinstance(answer, Mapping) and one.kind == other.kind", 0),
        ('x = words_of("serving"), {"serving": 1}', 0),
        ('x = y in KEYS["serving"] and float(RlPlan().micro_batch) > 1', 0),
        ('match limit.kind:\n    case "at_most": ...', 0),
    ],
)
def test_planted_comparisons_alone_are_caught(code: str, count: int) -> None:
    assert len([*compared(ast.walk(ast.parse(code)))]) == count


def test_registries_may_have_tables() -> None:
    code = 'x = {"serving": 1, "rl": 2}\ny = x[kind] if kind == "rl" else 0'
    assert [*compared(ast.walk(ast.parse(code)), tables=False)] == [2]
