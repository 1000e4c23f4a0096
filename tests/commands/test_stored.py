"""Results and baselines as they were written: what was changed since is refused, by every command that reads them."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

import costmodel
from costmodel.documents.reader import folders
from costmodel.documents.reader.load_scenario import load
from costmodel.documents.schemas.baseline import Baseline, Entry
from costmodel.documents.text.digest import digest_of, is_sealed, sealed

ROOT = Path(__file__).resolve().parents[2]
KEYS = Path(__file__).with_name("result_keys.json")
NAME = "quickstart"
Faults = Callable[[Any], list[Any]]


@pytest.fixture(scope="module")
def result(run: Any) -> dict[str, Any]:
    """A search as --json writes it."""
    found: dict[str, Any] = json.loads(run("search", NAME, "--top", "2", "--json").out)
    return found


@pytest.fixture
def baseline(run: Any, tmp_path: Path) -> dict[str, Any]:
    """A baseline as --update writes it."""
    run("check", NAME, "--against", str(tmp_path / "written.json"), "--update")
    found: dict[str, Any] = json.loads((tmp_path / "written.json").read_text("utf-8"))
    return found


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value that holds no others."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else None
    if items is None:
        yield path
    for key, value in items or ():
        yield from places(value, (*path, key))


def changed(tree: Any, path: tuple[Any, ...]) -> Any:
    """The same with another value at one place."""
    copied = copy.deepcopy(tree)
    here = copied
    for key in path[:-1]:
        here = here[key]
    old = here[path[-1]]
    here[path[-1]] = not old if isinstance(old, bool) else old * 1.001 + 1 if isinstance(old, int | float) else "other"
    return copied


# ── Results ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "path",
    [
        ("plans", 0, "step_time_s"),
        ("plans", 1, "tp"),
        ("scenario", "document", "workload", "sequence"),
        ("scenario", "title"),
        ("documents", 0, "digest"),
        ("candidates",),
        ("costmodel",),
        ("digest",),
    ],
    ids=lambda path: ".".join(map(str, path)),
)
def test_a_changed_result_is_refused(path: tuple[Any, ...], result: Any, run: Any, faults: Faults) -> None:
    text = json.dumps(changed(result, path), indent=1)
    line = next(number for number, line in enumerate(text.splitlines(), 1) if line.startswith(' "digest"'))
    for command in (("diff", "-", NAME), ("estimate", "-"), ("check", "-"), ("search", "-")):
        (fault,) = faults(run(*command, stdin=text))
        assert (fault.code, fault.place) == ("D020", f"<stdin>:{line}:12  (digest)")
        assert "was changed after it was written" in fault.sentence


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=some.data())
def test_every_value_counts(data: Any, result: Any) -> None:
    path = data.draw(some.sampled_from([path for path in places(result) if path != ("elapsed_s",)]))
    assert is_sealed(result)
    assert not is_sealed(changed(result, path))


@pytest.mark.parametrize("keep", [0.0, 0.2, 0.5, 0.9, 0.999])
def test_a_result_cut_short(keep: float, result: Any, run: Any, faults: Faults) -> None:
    text = json.dumps(result, indent=1)
    (fault, *_) = faults(run("diff", "-", NAME, stdin=text[: int(keep * len(text))]))
    assert fault.code == "D002"
    assert fault.place.startswith("<stdin>")


def test_a_row_taken_out_or_put_in(result: Any, run: Any, faults: Faults) -> None:
    first, second = result["plans"]
    for plans in ([first], [first, second, second], [second, first], []):
        (fault,) = faults(run("diff", "-", NAME, stdin=json.dumps({**result, "plans": plans})))
        assert fault.code == "D020"


def test_a_result_without_a_digest(result: Any, run: Any, faults: Faults) -> None:
    unsealed = {key: value for key, value in result.items() if key != "digest"}
    (fault,) = faults(run("diff", "-", NAME, stdin=json.dumps(unsealed)))
    assert (fault.code, fault.sentence) == ("D020", "this result has no digest, so it may have been changed")


@pytest.mark.parametrize("version", ["v0", "v2", "v10", "v1.1", ""])
def test_a_result_of_another_version(version: str, result: Any, run: Any, faults: Faults) -> None:
    other = sealed({**result, "schema": f"costmodel/result/{version}"})
    for command in (("diff", "-", NAME), ("diff", NAME, "-"), ("estimate", "-")):
        (fault,) = faults(run(*command, stdin=json.dumps(other, indent=1)))
        assert (fault.code, fault.marked) == ("D011", f'"costmodel/result/{version}"')


def test_layout_does_not_count(result: Any, run: Any) -> None:
    """What a formatter, or a tool that writes 8.0 as 8, makes of a file is the same result."""
    backwards = dict(reversed(result.items()))
    for text in (
        json.dumps(result),
        json.dumps(result, sort_keys=True, indent=4).replace("\n", "\r\n"),
        json.dumps(backwards, ensure_ascii=True),
        "\ufeff" + json.dumps(result),
    ):
        assert run("diff", "-", NAME, "--plans", "1,1", stdin=text).code == 0


def test_keys_that_a_later_version_adds(result: Any, run: Any) -> None:
    """The schema stays v1: a digest is of what the file holds, whatever keys those are."""
    later = copy.deepcopy(result)
    later["energy"] = {"step_j": 1.5}
    later["plans"][0]["energy_j"] = 7
    assert run("diff", "-", NAME, "--plans", "1,1", stdin=json.dumps(sealed(later))).code == 0
    assert run("estimate", "-", stdin=json.dumps(sealed(later))).code == 0


def test_two_runs_that_find_the_same_have_one_digest(run: Any) -> None:
    found = [json.loads(run("search", NAME, "--top", "1", "--json").out) for _ in range(2)]
    assert found[0]["digest"] == found[1]["digest"] == digest_of(found[0])


# ── Names and versions ───────────────────────────────────────────────────────────────────────────────────────────────


PACKAGE = Path("env", "lib", "site-packages", "costmodel", "_shipped")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder above costmodel with its documents inside the package."""
    above = tmp_path_factory.mktemp("machine")
    for top in ("hardware", "scenarios"):
        shutil.copytree(ROOT / top, above / PACKAGE / top)
    return above


@pytest.fixture
def installed(machine: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which costmodel is installed so; the folder above all of it."""
    monkeypatch.setattr(folders, "_SHIPPED", machine / PACKAGE)
    return machine


@pytest.mark.parametrize(
    "line",
    [
        "estimate quickstart --json",
        "estimate serve-llama-3.1-70b --json",
        "check quickstart --json",
        "report quickstart --format html",
        "explain quickstart step_time --json",
    ],
)
@pytest.mark.usefixtures("few_knobs")
def test_an_answer_names_no_folder_of_the_machine(line: str, installed: Path, run: Any) -> None:
    """It is the same text in every working folder, wherever costmodel is installed; of a report in one of them."""
    folders = (installed, installed / "env", Path("/"))[2 if line.startswith("report") else 0 :]
    here, *others = (run(*line.split(), cwd=folder).out for folder in (ROOT, *folders))
    assert "quickstart" in here or "Llama" in here
    assert [without_times(other) for other in others] == [without_times(here)] * len(folders)
    assert not any(word in here for word in (str(installed), "site-packages", "_shipped", str(ROOT)))


def without_times(text: str) -> str:
    """The answer without the second and the day in which it was given."""
    return re.sub(r'"elapsed_s": [\d.e-]+|\d{4}-\d\d-\d\d', "", text)


def test_your_own_file_is_named_alike_from_every_folder(installed: Path, run: Any) -> None:
    own = installed / "jobs" / "mine.yaml"
    own.parent.mkdir()
    shutil.copy(ROOT / "scenarios" / "quickstart.yaml", own)
    named = [(str(own), installed), (str(own), Path("/")), ("./mine.yaml", own.parent), ("jobs/mine.yaml", installed)]
    named.append((os.path.join("..", "jobs", "mine.yaml"), own.parent))
    found = [json.loads(run("estimate", name, "--json", cwd=folder).out) for name, folder in named]
    assert len({result["digest"] for result in found}) == 1
    assert found[0]["documents"][0]["name"] == "mine.yaml"


def test_two_files_of_one_name_both_have_their_digest() -> None:
    read = {"a/mine.yaml": "1", "/b/mine.yaml": "2", "c/scenarios/models/x.yaml": "3"}
    case = replace(load("quickstart"), digests=read)
    assert case.named_digests == {"mine.yaml": "1", "mine.yaml (2)": "2", "scenarios/models/x.yaml": "3"}


@pytest.mark.parametrize(("version", "age"), [("0.1.0", "an older"), ("99.0.0", "a newer")])
def test_files_of_another_version_are_read_or_refused_as_such(
    version: str, age: str, result: Any, baseline: Any, run: Any, faults: Faults, tmp_path: Path
) -> None:
    """Where keys and digest are those of this version it is read; else it is not said to have been changed."""
    file = tmp_path / "base.json"
    for tree, line in ((result, ("estimate", "-")), (baseline, ("check", NAME, "--against", str(file)))):
        other = sealed({**tree, "costmodel": version})
        file.write_text(json.dumps(other), "utf-8")
        assert run(*line, stdin=json.dumps(other)).code == 0
        unsealed = {key: value for key, value in other.items() if key != "digest"}
        for changed_since in (unsealed, {**other, "digest": "0123456789abcdef"}):
            file.write_text(json.dumps(changed_since), "utf-8")
            (fault,) = faults(run(*line, stdin=json.dumps(changed_since)))
            assert fault.code == "D020"
            assert f"was written by {age} costmodel ({version}), and this is {costmodel.__version__}" in fault.sentence
    strange = sealed({**result, "costmodel": version, "scenario": {"title": "x", "document": {"old": 1}}})
    assert f"{age} costmodel ({version})" in faults(run("estimate", "-", stdin=json.dumps(strange)))[0].sentence


def test_a_baseline_of_an_older_version_is_updated(baseline: Any, run: Any, tmp_path: Path) -> None:
    file, old = tmp_path / "base.json", {**baseline, "costmodel": "0.1.0", "digest": ""}
    old["scenarios"] = {"another": baseline["scenarios"][NAME], **baseline["scenarios"]}
    file.write_text(json.dumps(old), "utf-8")
    assert run("check", NAME, "--against", str(file)).code == 2
    assert run("check", NAME, "--against", str(file), "--update").code == 0
    assert set(json.loads(file.read_text("utf-8"))["scenarios"]) == {NAME, "another"}
    assert run("check", NAME, "--against", str(file), "--exact").code == 0


def test_the_version_moves_when_results_lose_keys(run: Any, request: pytest.FixtureRequest) -> None:
    """A key that a result has no more makes a new version: what an older one wrote is then not of this one."""
    now: dict[str, list[str]] = {}
    for name in (NAME, "serve-llama-3.1-70b", "grpo-qwen-2.5-7b-64"):
        result = json.loads(run("estimate", name, "--json").out)
        now[name] = sorted({".".join(part for part in path if isinstance(part, str)) for path in places(result)})
    now["baseline"] = sorted({*Baseline.model_json_schema()["properties"], *Entry.model_json_schema()["properties"]})
    if request.config.getoption("--update-transcripts"):
        KEYS.write_text(json.dumps({"version": costmodel.__version__, "keys": now}, indent=1) + "\n", "utf-8")
    stored = json.loads(KEYS.read_text("utf-8"))
    again = "python -m pytest tests/commands/test_stored.py --update-transcripts"
    assert stored["version"] == costmodel.__version__, again
    lost = {name: set(keys) - set(now[name]) for name, keys in stored["keys"].items()}
    assert not any(lost.values()), f"move the version in costmodel/__init__.py and pyproject.toml, then {again}"


# ── Baselines ────────────────────────────────────────────────────────────────────────────────────────────────────────


def refused(run: Any, faults: Faults, file: Path, text: str, *more: str) -> Any:
    file.write_text(text, "utf-8")
    (fault, *_) = faults(run("check", NAME, "--against", file.name, *more, cwd=file.parent))
    assert file.read_text("utf-8") == text, "nothing is written over it"
    return fault


@pytest.mark.parametrize("more", [(), ("--exact",), ("--update",)], ids=["compared", "exact", "updated"])
def test_a_changed_baseline_is_refused(
    more: tuple[str, ...], baseline: Any, run: Any, faults: Faults, tmp_path: Path
) -> None:
    file = tmp_path / "base.json"
    for path in (("scenarios", NAME, "figures", "step_time_s"), ("scenarios", NAME, "title"), ("digest",)):
        text = json.dumps(changed(baseline, path), indent=1)
        fault = refused(run, faults, file, text, *more)
        assert (fault.code, fault.place) == ("D020", f"{file.name}:4:12  (digest)")
    without = {**baseline, "scenarios": {}}
    assert refused(run, faults, file, json.dumps(without), *more).code == "D020"


def test_baselines_cut_short_or_of_another_version(baseline: Any, run: Any, faults: Faults, tmp_path: Path) -> None:
    text = json.dumps(baseline, indent=1)
    for keep in (0.0, 0.3, 0.8, 0.999):
        assert refused(run, faults, tmp_path / "base.json", text[: int(keep * len(text))]).code == "D002"
    other = sealed({**baseline, "schema": "costmodel/baseline/v2"})
    assert refused(run, faults, tmp_path / "base.json", json.dumps(other)).code == "D011"
    unsealed = {key: value for key, value in baseline.items() if key != "digest"}
    assert refused(run, faults, tmp_path / "base.json", json.dumps(unsealed)).code == "D020"


def test_a_baseline_that_was_only_laid_out_anew(baseline: Any, run: Any, tmp_path: Path) -> None:
    file = tmp_path / "base.json"
    file.write_text(json.dumps(baseline, sort_keys=True), "utf-8")
    assert run("check", NAME, "--against", str(file), "--exact").code == 0
