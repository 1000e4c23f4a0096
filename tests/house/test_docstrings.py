"""Every equation documents itself in the template of the house: formula, units, source, a running example."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import sys
from pathlib import Path

import pytest
from each import each

from costmodel.ground.equation import EQUATIONS, Equation, parse_contract
from costmodel.ground.parsing import parse_unit

from .catalogue import ALGORITHMS, MODULES, SOURCES, parsed, read_yaml, registered

BIBLIOGRAPHY = read_yaml(SOURCES)
ALL = registered()
every_equation = each("equation", ALL)
_SECTION = re.compile(r"^(Args|Returns|Example|Source|Holds|Monotone):", re.MULTILINE)


def source_keys(source: str) -> list[str]:
    """The bibliography keys of a Source line: the first word of each part between semicolons."""
    return [re.split(r"[\s,]", part.strip(), maxsplit=1)[0] for part in source.split(";") if part.strip()]


def source_faults(source: str, known: set[str]) -> list[str]:
    """The keys that neither the bibliography nor the house knows."""
    return [key for key in source_keys(source) if key != "composition" and key not in known] if source else ["(none)"]


def unit_fault(unit: str | None) -> str:
    """Why a declared unit is not one of the house: SI base, no prefix, [u] standing for any."""
    if unit is None:
        return "no unit"
    if unit == "u":
        return ""
    try:
        factor, _ = parse_unit(unit)
    except ValueError as error:
        return str(error)
    return "" if factor == 1.0 else f"[{unit}] is not an SI base unit"


def form_faults(equation: Equation) -> list[str]:
    """Everything about the docstring that is not in the template's form."""
    doc = inspect.getdoc(equation.function) or ""
    contract, lines = parse_contract(doc), doc.splitlines()
    faults = []
    if not contract.title.endswith(".") or lines[:1] != [contract.title] or any(lines[1:2]):
        faults.append("the title is not one line that ends with a full stop, followed by an empty line")
    if not contract.formula and contract.source != "composition":
        faults.append("no formula")
    if not contract.meaning or unit_fault(contract.unit or None):
        faults.append(f"Returns: {unit_fault(contract.unit or None) or 'no meaning'}")
    if not contract.source:
        faults.append("no Source")
    if not re.search(r"^Example:\s+>>> ", doc, re.MULTILINE):
        faults.append("no Example")
    repeated = [name for name in _SECTION.findall(doc) if len(re.findall(f"^{name}:", doc, re.MULTILINE)) > 1]
    return faults + [f"{name} stands twice" for name in sorted(set(repeated))] + _argument_faults(equation, doc)


def _argument_faults(equation: Equation, doc: str) -> list[str]:
    contract, faults = parse_contract(doc), []
    section = re.search(r"^Args:\n((?:[ \t]+.*\n|\n)*)", doc + "\n", re.MULTILINE)
    written = [line for line in section[1].splitlines() if line.strip()] if section else []
    if len(written) != len(contract.arguments):
        faults.append("a line under Args is not 'name: meaning [unit]'")
    names, parameters = [item.name for item in contract.arguments], equation.signature.parameters
    if names != list(parameters):
        faults.append(f"Args names {names}, the signature {list(parameters)}")
        return faults
    for argument in contract.arguments:
        if parameters[argument.name].kind is inspect.Parameter.KEYWORD_ONLY:
            faults += [f"the choice {argument.name} has a unit"] if argument.unit is not None else []
        elif unit_fault(argument.unit):
            faults.append(f"{argument.name}: {unit_fault(argument.unit)}")
    return faults


def monotone_names(tag: str) -> list[tuple[str, str]]:
    """'increasing in message, ranks; decreasing in bandwidth' as pairs of argument and direction."""
    pairs = []
    for part in filter(None, (piece.strip().rstrip(".") for piece in tag.split(";"))):
        match = re.fullmatch(r"(increasing|decreasing) in (\w+(?:, \w+)*)", part)
        if not match:
            raise ValueError(f"'{part}' is not '(in|de)creasing in name, name'")
        pairs += [(name, match[1]) for name in match[2].split(", ")]
    return pairs


def test_there_are_equations() -> None:
    assert ALL


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.removeprefix("costmodel.equations."))
def test_every_public_function_is_registered_under_a_name_of_its_own(module: object) -> None:
    name, file = module.__name__, Path(module.__file__)  # type: ignore[attr-defined]
    tree = parsed(file)
    public = [item.name for item in tree.body if isinstance(item, ast.FunctionDef) and not item.name.startswith("_")]
    assert len(public) == len(set(public))
    equations = [item for item in public if item not in ALGORITHMS]
    owners = {
        item: EQUATIONS[item].function.__module__ if item in EQUATIONS else "not an @equation" for item in equations
    }
    assert {item: owner for item, owner in owners.items() if owner != name} == {}


@every_equation
def test_docstring_is_in_the_template(equation: Equation) -> None:
    assert form_faults(equation) == []


@every_equation
def test_monotone_tag_can_be_read(equation: Equation) -> None:
    names = [name for name, _ in monotone_names(equation.contract.monotone)]
    assert set(names) <= {argument.name for argument in equation.contract.arguments if argument.unit is not None}
    assert len(names) == len(set(names))


@every_equation
def test_source_is_in_the_bibliography(equation: Equation) -> None:
    faults = source_faults(equation.contract.source, set(BIBLIOGRAPHY))
    assert not faults, f"not in {SOURCES.name}: {', '.join(faults)}"


def _says(entry: dict[str, object], word: str) -> bool:
    """Whether the entry has the word; only the house's own reckoning needs no link."""
    return bool(entry.get(word)) or (word == "url" and entry.get("authors") == "costmodel")


def test_bibliography_says_what_each_source_is() -> None:
    assert BIBLIOGRAPHY, f"{SOURCES.name} is absent or empty"
    lacking = {
        key: missing
        for key, entry in BIBLIOGRAPHY.items()
        if (missing := [word for word in ("title", "authors", "year", "url") if not _says(entry or {}, word)])
    }
    assert lacking == {}


@every_equation
def test_example_runs(equation: Equation) -> None:
    module = sys.modules[equation.function.__module__]
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner(verbose=False)
    report: list[str] = []
    examples = finder.find(equation.function, equation.name, module=module, globs=dict(vars(module)))
    assert sum(len(item.examples) for item in examples) > 0
    for example in examples:
        runner.run(example, out=report.append)
    assert runner.failures == 0, "".join(report)


def _good(message: float, *, algorithm: str) -> float:
    """Time of a toy.

    t = S

    Args:
        message: what is sent, S [B]
        algorithm: "ring" or "tree"

    Returns:
        the time [s]

    Example:
        >>> 1 + 1
        2

    Source:
        thakur-2005 §4; nccl-perf
    """
    return message


def _planted(old: str, new: str) -> Equation:
    def toy(message: float, *, algorithm: str) -> float:
        return message

    written = inspect.getdoc(_good) or ""  # without the indentation that Python takes away from 3.13 on
    assert old in written
    toy.__doc__ = written.replace(old, new)
    return Equation(toy)


def test_the_template_itself_passes() -> None:
    assert form_faults(Equation(_good)) == []
    assert source_faults("thakur-2005 §4; nccl-perf", {"thakur-2005", "nccl-perf"}) == []
    assert source_faults("composition", set()) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Time of a toy.", "Time of a toy"),
        ("Time of a toy.", "Time of a toy\nthat runs on."),
        ("t = S\n", ""),
        ("S [B]", "S"),
        ("S [B]", "S [GB]"),
        ("S [B]", "S [parsec]"),
        ("message: what is sent, S [B]", "nbytes: what is sent, S [B]"),
        ("message: what is sent, S [B]\n", "message: what is sent,\n        S [B]\n"),
        ('"ring" or "tree"', '"ring" or "tree" [1]'),
        ('    algorithm: "ring" or "tree"\n', ""),
        ("the time [s]", "the time"),
        ("the time [s]", "the time [hours]"),
        ("Example:\n    >>> 1 + 1\n    2\n", ""),
        ("Source:\n    thakur-2005 §4; nccl-perf", ""),
        ("Source:", "Source: x\n\nSource:"),
    ],
)
def test_a_planted_fault_in_a_docstring_is_caught(old: str, new: str) -> None:
    assert form_faults(_planted(old, new))


def test_unknown_sources_and_tags_are_caught() -> None:
    assert source_faults("thakur-2005 §4; nobody-1999", {"thakur-2005"}) == ["nobody-1999"]
    assert source_faults("", {"thakur-2005"})
    assert monotone_names("increasing in message, ranks; decreasing in bandwidth") == [
        ("message", "increasing"),
        ("ranks", "increasing"),
        ("bandwidth", "decreasing"),
    ]
    with pytest.raises(ValueError, match="is not"):
        monotone_names("grows with message")
