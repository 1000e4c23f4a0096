"""Install commands of hints and pages: they name packages that an index has, or files that the reader has."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from costmodel.ground.errors import install_command

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PACKAGE = sorted((ROOT / "costmodel").rglob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "docs").rglob("*.ipynb"))]
_HINT = re.compile(r"""install_command\(["'](.*?)["']\)""")


def test_hints_install_the_packages_of_the_extras() -> None:
    named = {found for path in PACKAGE for found in _HINT.findall(path.read_text("utf-8"))}
    extras = {need for name, needs in PROJECT["optional-dependencies"].items() if name != "test" for need in needs}
    assert len(named) >= 5
    assert named <= extras
    assert install_command("resvg-py>=0.2") == "pip install 'resvg-py>=0.2'"


def test_no_text_installs_costmodel_by_its_name_alone() -> None:
    """No index has it: a checkout (`.`), or a wheel (`./llm_costmodel-….whl`), is a file."""
    named = re.compile(rf"pip\s+install\s[^\n`]*(?<![/\w-]){PROJECT['name']}(?![\w-])")
    texts = {path: path.read_text("utf-8") for path in [*PACKAGE, *PAGES]}
    assert [str(path) for path, text in texts.items() if named.search(text)] == []
    versions = {name for text in texts.values() for name in re.findall(r"llm_costmodel-\d[\w.-]*", text)}
    assert versions == set()  # a version in a text is out of date after the next release
