"""Every equation documents itself in one compact form: formula, arguments, source, a running example."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import sys
import textwrap
from pathlib import Path

import pytest
from each import each

from costmodel.ground.equation import EQUATIONS, Argument, Contract, Equation
from costmodel.ground.parsing import parse_unit

from .catalogue import ALGORITHMS, MODULES, SOURCES, VOCABULARY, parsed, read_yaml, registered

BIBLIOGRAPHY, GLOSSARY = read_yaml(SOURCES), read_yaml(VOCABULARY)
ALL = registered()
every_equation = each("equation", ALL)
WIDTH = 116  # of a line, without the indentation


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


def compact(contract: Contract, example: str) -> str:
    """The docstring of a contract as it is to be written: few lines, filled, nothing that goes without saying."""
    first, *others = [*map(_declared, contract.arguments)] or [""]
    lines = [first]
    for piece in others:
        joined = f"{lines[-1]} · {piece}"
        lines[-1:] = [joined] if len(joined) <= WIDTH else [lines[-1], piece]
    gives = f"→ {contract.meaning}{_unit(contract.unit)}"
    lines = [f"{lines[0]} {gives}"] if len(lines) == 1 and len(lines[0]) + 1 + len(gives) <= WIDTH else [*lines, gives]
    named = {
        "Source": contract.source,
        "Holds": contract.holds,
        "Pitfall": contract.pitfall,
        "Monotone": contract.monotone,
    }
    for name, text in named.items():
        if text:
            lines += textwrap.wrap(f"{name}: {text}", WIDTH, subsequent_indent="    ", break_on_hyphens=False)
    parts = (contract.title, contract.formula, "\n".join([*lines, example]))
    return "\n\n".join(filter(None, parts))


def _declared(argument: Argument) -> str:
    head = f"{argument.name} {argument.symbol}".rstrip() + _unit(argument.unit)
    known = GLOSSARY.get(argument.name, {}).get("meaning")
    return f"{head}: {argument.words}" if argument.words not in ("", known) else head


def _unit(unit: str | None) -> str:
    return "" if unit in (None, "1") else f" [{unit}]"


def form_faults(equation: Equation) -> list[str]:
    """Everything about the docstring that is not in the form."""
    doc, contract = inspect.getdoc(equation.function) or "", equation.contract
    faults = []
    if not re.fullmatch(r".+\.", contract.title):
        faults.append("the title is not one line that ends with a full stop")
    if not contract.formula and contract.source != "composition":
        faults.append("no formula")
    if not contract.meaning or unit_fault(contract.unit or None):
        faults.append(f"→ {unit_fault(contract.unit or None) or 'no meaning'}")
    if not contract.source:
        faults.append("no Source")
    example = re.search(r"^>>> .*\Z", doc, re.MULTILINE | re.DOTALL)
    if not example:
        faults.append("no example")
    elif doc != compact(contract, example[0]):
        faults.append(f"write it so:\n{compact(contract, example[0])}")
    return faults + _argument_faults(equation)


def _argument_faults(equation: Equation) -> list[str]:
    contract, faults = equation.contract, []
    names, parameters = [item.name for item in contract.arguments], equation.signature.parameters
    if names != list(parameters):
        faults.append(f"the docstring names {names}, the signature {list(parameters)}")
        return faults
    for argument in contract.arguments:
        if argument.words.endswith("]"):
            faults.append(f"{argument.name}: a unit behind the words")
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


@each("module", MODULES)
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


def _good(message: float, ranks: float, *, algorithm: str) -> float:
    """Time of a toy.

    t = S

    message S [B]: what is sent · ranks n · algorithm: "ring" or "tree" → the time [s]
    Source: thakur-2005 §4; nccl-perf
    >>> 1 + 1
    2
    """
    return message


def _planted(old: str, new: str) -> Equation:
    def toy(message: float, ranks: float, *, algorithm: str) -> float:
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
        ("t = S\n\n", ""),
        ("[B]", "[GB]"),
        ("[B]", "[parsec]"),
        ("S [B]: what is sent", "S: what is sent [B]"),
        ("message S", "nbytes S"),
        ("what is sent · ", "what is sent\n"),
        ("ranks n", "ranks n [1]"),
        ("ranks n", "ranks n: ranks in the group"),
        (' · algorithm: "ring"', ' · algorithm [s]: "ring"'),
        (' · algorithm: "ring" or "tree"', ""),
        (" → the time [s]", ""),
        (" → the time", "\n→ the time"),
        ("[s]", "[hours]"),
        (">>> 1 + 1\n2", ""),
        ("Source: thakur-2005 §4; nccl-perf\n", ""),
        ("Source:", "Source: x\nSource:"),
        ("Source:", "\nSource:"),
        ("Source:", "Monotone: increasing in message\nSource:"),
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
