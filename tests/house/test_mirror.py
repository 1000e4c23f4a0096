"""tests/ mirrors the package: the tests of a module stand where its folder stands, or in a folder of its name."""

from __future__ import annotations

from .catalogue import PACKAGE, ROOT

TESTS = ROOT / "tests"
APART = {"generated", "house", "measured", "speed", "transcripts", "verify"}  # of the project as a whole
DATA = {"evidence/measured"}


def test_every_folder_of_tests_is_one_of_the_package() -> None:
    found = {path.parent.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")}
    mirrored = {path.relative_to(PACKAGE).with_suffix("").as_posix() for path in PACKAGE.rglob("*.py")}
    mirrored |= {path.relative_to(PACKAGE).parent.as_posix() for path in PACKAGE.rglob("*.py")}
    assert {folder for folder in found - mirrored if folder.partition("/")[0] not in APART} <= DATA
