"""tests/ mirrors the package: the tests of a module are found by its name, in the folder that its own stands in."""

from __future__ import annotations

from .catalogue import PACKAGE, ROOT

TESTS = ROOT / "tests"
APART = {"house", "measured", "speed", "transcripts", "verify"}  # of the project as a whole
DATA = {"evidence/measured"}

# Tests whose subject is no single module, by the folder of all that they touch.
SUBJECTS = {
    "commands": "answers every_question every_refusal forms fuzz_imports machine_output nothing_fits prices "
    "printed_advice program remarked_input stored",
    "documents": "counted fuzz fuzz_numbers fuzz_words private",
    "equations": "claims",
    "equations/serving": "dense_decoder published_claims",
    "estimate": "every_accelerator every_key every_node every_pair public_reports relations strategy_limits",
    "estimate/serving": "every_key published_runs speculation stated_types times_by_rate wide_experts",
    "estimate/training": "communication exposed lean_steps precision",
    "evidence/measure": "measured_cards",
    "evidence/validate": "other_makers",
    "exchange": "fuzz fuzz_launch fuzz_printed fuzz_scripts",
    "exchange/importers": "other_trainers published_launches",
    "explore/search": "chance_to_fit held_keys",
    "report": "percentages",
    "report/page": "browser",
    "report/terminal": "one_accelerator widths",
}


def mirrored(folder: str) -> tuple[str, ...]:
    """What a test in a folder may be named after: its part of the package, the modules and the folders in it."""
    part = PACKAGE / folder
    names = {path.stem for path in part.rglob("*") if path.suffix == ".py" or path.is_dir()}
    return tuple(f"test_{name}_" for name in {part.name, *names})


def folders() -> dict[str, set[str]]:
    """The names of the tests in each folder that mirrors one of the package."""
    found: dict[str, set[str]] = {}
    for path in TESTS.rglob("*.py"):
        if (folder := path.parent.relative_to(TESTS).as_posix()).partition("/")[0] not in APART:
            found.setdefault(folder, set()).update({path.stem} if path.stem.startswith("test_") else set())
    return found


def test_every_test_is_named_after_a_module_or_a_listed_subject() -> None:
    found = {
        folder: subjects
        for folder, names in folders().items()
        if (subjects := {name.removeprefix("test_") for name in names if not f"{name}_".startswith(mirrored(folder))})
    }
    assert found == {folder: set(names.split()) for folder, names in SUBJECTS.items()}


def test_every_folder_of_tests_is_one_of_the_package() -> None:
    assert {folder for folder in folders() if not (PACKAGE / folder).is_dir()} == DATA
