"""Start: a command imports what its answer needs, and nothing of the others."""

from __future__ import annotations

import functools
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from costmodel.commands.command_table import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
SERVES = "serve-llama-3.1-70b"
HEAVY = {"numpy", "pydantic", "pandas"}
_CODE = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
from costmodel.commands.app import main
main()
"""


# The classes of documents that were built for an estimate, and of those the ones of which nothing was read.
_BUILT = """
import gc, sys
from costmodel.commands.by_workload import commands_of
from costmodel.documents.reader.load_scenario import load_any
from costmodel.documents.schemas.base import Document
case = load_any(sys.argv[1])
view = commands_of(case).view(case, "estimate")
def kinds(kind):
    for one in kind.__subclasses__():
        yield one
        yield from kinds(one)
made = {type(one) for one in gc.get_objects() if isinstance(one, Document)}
found = {kind for kind in kinds(Document) if kind.__pydantic_complete__}
print(*(kind.__name__ for kind in found), "|", *(kind.__name__ for kind in found - made), file=sys.stderr)
"""


_LEFT_TO_PYDANTIC = """
from costmodel.documents.reader import quick_validation
quick_validation.validated = lambda kind, tree: None
"""


@functools.cache
def _imported(*words: str, **environment: str) -> frozenset[str]:
    """The modules that a command line leaves imported."""
    return frozenset(_errors_of(_CODE, *words, **environment).split())


def _errors_of(code: str, *words: str, **environment: str) -> str:
    """What a command line prints to standard error when it ends, by some code."""
    command = [sys.executable, "-c", code, *words]
    env = {**os.environ, **environment}
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800, check=False, env=env)
    return ran.stderr


@pytest.mark.parametrize("words", ["", "--help", "--version"])
def test_the_program_alone_imports_nothing_heavy(words: str) -> None:
    assert "costmodel.commands.app" in (found := _imported(*words.split()))
    assert found & HEAVY == set()


def test_list_imports_no_numbers() -> None:
    """Nor pydantic of its own accord: newer releases of Typer import that for every command."""
    found = _imported("list", "models")
    assert found & (HEAVY - {"pydantic"} | {"costmodel.documents.schemas.base"}) == set()


@pytest.mark.parametrize("line", ["costmodel est", "costmodel list mod"])
def test_completion_imports_nothing_heavy(line: str) -> None:
    """But pydantic, which newer releases of Typer import themselves to read a command line."""
    place = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    found = _imported(_COSTMODEL_COMPLETE="complete_bash", **place)
    assert "costmodel.commands.app" in found
    assert found & (HEAVY - {"pydantic"} | {"costmodel.documents.schemas.base"}) == set()


def test_an_estimate_imports_no_other_command_and_no_document_it_does_not_read() -> None:
    found = {name for name in _imported("estimate", "quickstart") if name.startswith("costmodel.")}
    others = {entry.module for entry in COMMANDS.values()} - {"estimate"}
    assert {name for name in others if f"costmodel.commands.{name}" in found} == set()
    assert "costmodel.documents.schemas.scenario" in found
    kinds = {"measurement", "prior", "release", "serving", "rl", "run", "practice", "reliability", "limits"}
    assert {name for name in found if name.startswith("costmodel.estimate.run.")} == set()
    assert {name for name in kinds if f"costmodel.documents.schemas.{name}" in found} == set()
    assert {name for name in found if name.split(".")[1] in ("exchange", "evidence")} == set()


@pytest.mark.parametrize("scenario", ["llama-3-70b-512", SERVES])
def test_no_class_is_built_for_shipped_documents(scenario: str) -> None:
    assert _errors_of(_BUILT, scenario).split() == ["|"]


@pytest.mark.parametrize("scenario", ["llama-3-70b-512", SERVES])
def test_no_class_is_built_of_which_a_document_has_nothing(scenario: str) -> None:
    """Pydantic takes a millisecond for a class, and documents may have two hundred kinds of parts."""
    built, _, unused = _errors_of(f"{_LEFT_TO_PYDANTIC}{_BUILT}", scenario).partition("|")
    assert {"Attention", "Accelerator", "MatmulFit"} <= set(built.split())
    assert unused.split() == []


def test_training_imports_nothing_of_serving() -> None:
    loaded = {name for name in _imported("estimate", "quickstart") if name.startswith("costmodel.")}
    assert {name for name in loaded if ".serving" in name} == set()


def test_serving_imports_no_schema_of_training() -> None:
    """Serving starts no later than training: half of a start is the classes of schemas, most of them of training."""
    loaded = {name.removeprefix("costmodel.") for name in _imported("estimate", SERVES)}
    schemas = "scenario plan stack optimizer run reliability stragglers compression tuning sites release"
    unneeded = {f"documents.schemas.{name}" for name in schemas.split()} | {"documents.keys.held_keys"}
    unneeded |= {"explore.serving.vary_serving", "explore.serving.search_layouts"}
    assert loaded & unneeded == set()
    assert {name for name in loaded if name.startswith("estimate.training")} == set()
    assert {"documents.schemas.serving", "documents.schemas.model"} <= loaded
    assert "estimate.serving.predict_serving" in loaded


def test_serving_starts_with_hardly_more_than_training() -> None:
    """Most of a start is imports: serving loads no package that training does not, and at most a tenth more lines."""
    training, serving = (_imported("estimate", name) for name in ("llama-3-70b-512", SERVES))
    assert {name.partition(".")[0] for name in serving} <= {name.partition(".")[0] for name in training}
    of_training, of_serving = (
        sum(_lines(name) for name in loaded if name.startswith("costmodel")) for loaded in (training, serving)
    )
    assert of_serving <= 1.1 * of_training


def _lines(module: str) -> int:
    """How many lines a module of the package has."""
    found = importlib.util.find_spec(module)
    assert found is not None
    return Path(str(found.origin)).read_text("utf-8").count("\n")
