"""Questions, commands and reports do not compare a scenario's kind of workload: they ask the workload itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from each import each

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.reader.rl_scenario import RlCase
from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.rl import Rl, RlAssumptions, RlScenario
from costmodel.documents.schemas.scenario import Assumptions, Scenario, Training
from costmodel.documents.schemas.serving import Serving, ServingAssumptions, ServingScenario

from .catalogue import PACKAGE, nodes, python_files

ROOMS = {"commands", "report", "explore", "server", "library.py"}
REGISTRIES = {
    "explore/workloads.py",
    "explore/workload_flags.py",
    "report/workload_words.py",
    "commands/by_workload.py",
}  # the tables of what each workload has
KINDS = {"training", "serving", "rl"}
TYPES = ("Training", "Serving", "Rl")  # begin the names of a workload's classes
UNMARKED = {"Answer", "Facts", "PlanFacts", "ResolvedScenario", "Scenario"}  # classes of training
HOLDERS = {"case", "asked", "before", "after", "side", "workload"}  # whose `kind` is that of a workload
FINDERS = {"kind_of", "kind_by_flags", "_kind_of_stack", "_kind_set"}  # functions that return the kind of a workload
FAULT = f"Do not compare the kind of workload: state what differs in {' or '.join(sorted(REGISTRIES))}."


def own_fields() -> set[str]:
    """Fields of scenarios, cases and their parts that not every workload has: who asks for one asks for the kind."""
    of_all = [
        (ResolvedScenario, ServingCase, RlCase),
        (Scenario, ServingScenario, RlScenario),
        (Training, Serving, Rl),
        (Assumptions, ServingAssumptions, RlAssumptions),
    ]
    found = set[str]()
    for classes in of_all:
        names = [{*getattr(one, "model_fields", {}), *getattr(one, "__dataclass_fields__", {})} for one in classes]
        found |= set.union(*names) - set.intersection(*names)
    return found


def names_workload(node: ast.AST) -> bool:
    """Whether an operand, or a pattern of `match`, is the kind of a workload or a class of one, or contains it."""
    match node:
        case ast.Constant(value=value):
            return value in KINDS
        case ast.Attribute(attr="kind", value=ast.Name(id=name) | ast.Attribute(attr=name)) if name in HOLDERS:
            return True
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in UNMARKED or name.startswith(TYPES)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in FINDERS:
            return True
        case ast.Call() | ast.Subscript():  # their value is another
            return False
    return any(map(names_workload, ast.iter_child_nodes(node)))


def asks_for_results(node: ast.Compare) -> bool:
    """Whether a comparison asks if a workload has a certain result."""
    match node:
        case ast.Compare(left=ast.Constant(), ops=[ast.In() | ast.NotIn()], comparators=[where]):
            where = where.value if isinstance(where, ast.Subscript) else where
            return getattr(where, "id", getattr(where, "attr", "")) in ("COLUMNS", "columns")
    return False


def foreign_classes(found: Iterable[ast.AST], place: str) -> set[str]:
    """Names that a module imports from one about a workload, other than its own; formats are of no workload."""
    names, own = set[str](), {*re.split(r"\W|_", place.replace("service", "serving"))}
    for node in found:
        if isinstance(node, ast.ImportFrom) and node.module and ".exchange." not in node.module:
            about = KINDS.intersection(re.split(r"\W|_", node.module))
            if about - own and place not in REGISTRIES:
                names |= {item.asname or item.name for item in node.names}
    return names


def compared(found: Iterable[ast.AST], place: str = "", *, tables: bool = True) -> Iterator[int]:
    """Lines that compare with the kind, a class or a field of a workload, and tables with entries for its kinds.

    An assertion only narrows a type, so it may.
    """
    found = tuple(found)
    asserted = {part for node in found if isinstance(node, ast.Assert) for part in ast.walk(node)}
    foreign, of_some = foreign_classes(found, place), own_fields()
    kept = {
        target.id
        for node in found
        if isinstance(node, ast.Assign) and names_workload(node.value) and not isinstance(node.value, ast.Tuple)
        for target in node.targets
        if isinstance(target, ast.Name)
    }  # names of the kind
    for node in found:
        match node:
            case ast.Compare(left=left, comparators=others):
                names = {part.id for part in (left, *others) if isinstance(part, ast.Name)}
                is_one = any(map(names_workload, (left, *others))) or bool(names & kept) or asks_for_results(node)
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, types]):
                is_one = names_workload(types) or any(
                    isinstance(part, ast.Name) and part.id in foreign for part in ast.walk(types)
                )
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=name), _]):
                is_one = name in of_some
            case ast.Call(func=ast.Name(id="hasattr"), args=[_, ast.Constant(value=name)]):
                is_one = name in of_some
            case ast.match_case(pattern=pattern):
                is_one, node = names_workload(pattern), pattern
            case ast.Call(func=ast.Attribute(attr="fromkeys"), args=[keys, *_]) if tables:
                is_one = names_workload(keys)
            case ast.Dict(keys=keys) if tables:
                count = sum(map(names_workload, filter(None, keys)))
                is_one = count > 1 or count == len(keys) > 0
            case _:
                continue
        if is_one and node not in asserted:
            yield node.lineno


def test_questions_compare_no_kind_of_workload() -> None:
    names = {path.relative_to(PACKAGE).as_posix(): path for path in python_files(PACKAGE)}
    rooms = {name: path for name, path in names.items() if name.partition("/")[0] in ROOMS}
    faults = [
        f"{name}:{line}: {FAULT}"
        for name, path in sorted(rooms.items())
        for line in sorted(compared(nodes(path), name, tables=name not in REGISTRIES))
    ]
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
        ('x = {"serving": 1}.get(kind)', 1),
        ('x = dict.fromkeys(("training", "rl"), 1)', 1),
        ("x = found.before.kind != found.after.kind", 1),
        ("x = [view for view in views if view.case.kind == kind]", 1),
        ("kind = checked.case.kind\nx = kind == other", 1),
        ("x = kind_of(left) == kind", 1),
        ('x = COLUMNS[kind] if "step_time" in COLUMNS[kind] else {}', 1),
        ('x = getattr(scenario, "run", None) or hasattr(case, "optimizer")', 2),
        ("from costmodel.explore.serving.export import ExportedEngine\nx = isinstance(y, ExportedEngine)", 1),
        ('x = words_of("serving"), words_of(view.case.kind), COLUMNS[case.kind][name]', 0),
        ('x = getattr(value, "place", None), getattr(plan, name), name in asked.columns', 0),
        ('x = y in KEYS["serving"] and float(RlPlan().micro_batch) > 1', 0),
        ('match limit.kind:\n    case "at_most": ...', 0),
    ],
)
def test_planted_comparisons_alone_are_caught(code: str, count: int) -> None:
    assert len([*compared(ast.walk(ast.parse(code)))]) == count


def test_registries_may_have_tables() -> None:
    code = 'x = {"serving": 1, "rl": 2}\ny = x[kind] if kind == "rl" else 0'
    assert [*compared(ast.walk(ast.parse(code)), tables=False)] == [2]
