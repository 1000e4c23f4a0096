"""The import contract of pyproject.toml is kept, and can still be broken."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .catalogue import ROOT

_LINT = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
_FLOORS = (
    "server",
    "commands",
    "report",
    "explore",
    "evidence",
    "estimate",
    "exchange",
    "equations",
    "documents",
    "ground",
)
_ROOMS = tuple(
    path.parent.relative_to(ROOT / "costmodel").as_posix()
    for floor in ("estimate", "evidence", "explore")
    for path in sorted((ROOT / "costmodel" / floor).glob("*/__init__.py"))
)
_STONES = tuple(
    path.relative_to(ROOT / "costmodel").with_suffix("").as_posix()
    for floor in ("explore", "ground")
    for path in sorted((ROOT / "costmodel" / floor).glob("[a-z]*.py"))
)


def _lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """import-linter on the package `costmodel` in that folder, with that folder's pyproject.toml."""
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); {_LINT}"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=1800, check=False)


def _house(folder: Path, **planted: str) -> Path:
    """An empty house of the same plan, with a line planted in some of its rooms."""
    package = folder / "costmodel"
    for room in (*_FLOORS, *_ROOMS):
        (package / room).mkdir(parents=True, exist_ok=True)
        (package / room / "__init__.py").touch()
        (package / room / "inside.py").write_text(planted.get(room, ""))
    for stone in _STONES:
        (package / f"{stone}.py").write_text(planted.get(stone, ""))
    (package / "__init__.py").touch()
    (folder / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text("utf-8"), "utf-8")
    return folder


def test_contracts_are_kept() -> None:
    result = _lint(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_an_empty_house_keeps_them(tmp_path: Path) -> None:
    result = _lint(_house(tmp_path))
    assert result.returncode == 0, result.stdout + result.stderr


PLANTED = [
    ("equations", "import pydantic"),
    ("equations", "from ruamel.yaml import YAML"),
    ("equations", "import costmodel.documents.inside"),
    ("documents", "import costmodel.equations.inside"),
    ("estimate", "import costmodel.explore.inside"),
    ("explore", "from costmodel.report import inside"),
    ("exchange", "import costmodel.estimate.inside"),
    ("estimate", "import costmodel.exchange.inside"),
    ("documents", "import costmodel.exchange.inside"),
    ("exchange", "import costmodel.equations.inside"),
    ("report", "import costmodel.commands"),
    ("commands", "import costmodel.server.inside"),
    ("ground/units", "import costmodel.ground.equation"),
    ("ground", "import costmodel.equations.inside"),
    ("estimate/machine", "import costmodel.estimate.model.inside"),
    ("estimate/model", "import costmodel.estimate.training.inside"),
    ("estimate/training", "import costmodel.estimate.serving.inside"),
    ("estimate/serving", "import costmodel.estimate.training.inside"),
    ("estimate/training", "import costmodel.estimate.run.inside"),
    ("estimate", "import costmodel.evidence.inside"),
    ("evidence", "import costmodel.explore.inside"),
    ("evidence/validate", "import costmodel.evidence.calibrate.inside"),
    ("explore/search", "import costmodel.explore.explain.inside"),
]


@pytest.fixture(scope="module")
def breaches(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What is printed of a house with every fault at once: each is named on its own."""
    lines = {room: "\n".join(line for at, line in PLANTED if at == room) for room, _ in PLANTED}
    result = _lint(_house(tmp_path_factory.mktemp("house"), **lines))
    assert result.returncode == 1, result.stdout + result.stderr
    return " ".join(result.stdout.split())


def _imported(line: str) -> str:
    """The module that a line imports; of a foreign package its name alone."""
    name = ".".join(line.split()[1::2])
    return name if name.startswith("costmodel.") else name.partition(".")[0]


@pytest.mark.parametrize(("room", "line"), PLANTED)
def test_a_planted_fault_is_caught(breaches: str, room: str, line: str) -> None:
    importer = room if room in _STONES else f"{room}/inside"
    assert f"costmodel.{importer.replace('/', '.')} -> {_imported(line)} (l." in breaches
