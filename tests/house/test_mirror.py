"""tests/ mirrors the folders of the package: the tests of a module stand where its folder stands."""

from __future__ import annotations

from .catalogue import PACKAGE, ROOT

TESTS = ROOT / "tests"
APART = {"generated", "house", "measured", "speed", "transcripts", "verify"}  # of the project as a whole
DATA = {"evidence/measured"}


def test_every_folder_of_tests_is_one_of_the_package() -> None:
    found = {path.parent.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")}
    assert {
        folder for folder in found if folder.partition("/")[0] not in APART and not (PACKAGE / folder).is_dir()
    } <= DATA
