"""The folder of a search: one search at a time, its own parts alone, and whatever happens to it is noticed."""

from __future__ import annotations

import errno
import functools
import json
import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import costmodel
from costmodel.documents.reader.load_scenario import load
from costmodel.explore.search import file_lock
from costmodel.explore.search.file_lock import locked
from costmodel.explore.search.search import TrainingSearch, search
from costmodel.explore.search.stream import SearchOptions
from costmodel.explore.search.value_ranges import axis
from costmodel.ground.errors import CostModelError, Place, fail

ROOT = Path(__file__).resolve().parents[3]
NAME = "quickstart"
SET = ["workload.tokens=1 T", "assume.price=2 USD/GPU/h"]  # so that every column is a number
SET += ["search.tp=[1,2,4,8]", "search.pp=[1,2]", "search.micro_batch=[1,2]", "search.zero=[1]"]
OVER = [axis("cluster.nodes=2,4")]
MANIFEST = "_manifest.json"


class Crash(BaseException):
    """The program ends here."""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("costmodel.explore.search.training_space.CANDIDATES_A_PIECE", 16)
    monkeypatch.setattr("costmodel.explore.search.checkpoint.WRITE_EVERY", 0.0)


def found(how: SearchOptions, *more: str, over: Any = OVER) -> TrainingSearch:
    return search(load(NAME, [*SET, *more]), 10, over=over, how=how)


def refusal(how: SearchOptions, *more: str, over: Any = OVER) -> str:
    """The one sentence that a search is refused with."""
    with pytest.raises(CostModelError) as raised:
        found(how, *more, over=over)
    (fault,) = raised.value.faults
    assert fault.code == "C021"
    return fault.sentence


def plans_in(folder: Path) -> Any:
    return pytest.importorskip("pyarrow.parquet").read_table(folder).to_pandas()


@functools.cache
def uninterrupted() -> tuple[TrainingSearch, Any]:
    """What the search finds, and its plans, where nothing happens."""
    pytest.importorskip("pyarrow")
    with tempfile.TemporaryDirectory() as name:
        whole, folder = found(SearchOptions(workers=1, folder=Path(name), plans=True)), Path(name)
        _FILES.update({path.name: path.read_bytes() for path in folder.iterdir()})
        return whole, plans_in(folder)


_FILES: dict[str, bytes] = {}


def files() -> dict[str, bytes]:
    """The folder that this search leaves behind."""
    uninterrupted()
    return _FILES


@pytest.fixture
def keeping(tmp_path: Path) -> SearchOptions:
    """A search with all its plans that was carried to its end."""
    for name, content in files().items():
        (tmp_path / "kept").mkdir(exist_ok=True)
        (tmp_path / "kept" / name).write_bytes(content)
    return SearchOptions(workers=1, folder=tmp_path / "kept", plans=True, resume=True)


# ── One at a time ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_another_search_in_the_folder_is_refused(run: Any, faults: Any, tmp_path: Path) -> None:
    with locked(tmp_path):
        for options in ((), ("--resume",)):
            (fault,) = faults(run("search", NAME, "--into", str(tmp_path), *options))
            assert fault.code == "C021"
            assert fault.sentence == f"another search works in {tmp_path}"
            assert f"process {os.getpid()} on {socket.gethostname()}" in fault.help
    assert run("search", NAME, "--into", str(tmp_path)).code == 0
    assert not (tmp_path / file_lock.NAME).exists()


HOLDER = """
import sys, time
from pathlib import Path
from costmodel.explore.search.file_lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_the_lock_of_another_process_ends_with_it(tmp_path: Path) -> None:
    how = SearchOptions(workers=1, folder=tmp_path)
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert "another search works in" in refusal(how)
        os.kill(other.pid, signal.SIGKILL)
    assert (tmp_path / file_lock.NAME).exists(), "its file is left"
    assert not found(how).stopped


COUNTER = """
import sys
from pathlib import Path
from costmodel.explore.search import file_lock
def refused(handle):
    raise OSError(37, "no locks")
if sys.argv[2] == "without":
    file_lock._lock = refused
file = Path(sys.argv[1])
for _ in range(30):
    with file_lock.updating(file, print):
        file.write_text(str(int(file.read_text()) + 1))
"""


@pytest.mark.parametrize("system", ["with", "without"])
def test_processes_that_update_one_file_lose_nothing(system: str, tmp_path: Path) -> None:
    """Each reads what the one before it wrote, on file systems without locks too."""
    file = tmp_path / "count.txt"
    file.write_text("0")
    words = [sys.executable, "-c", COUNTER, str(file), system]
    writers = [subprocess.Popen(words, cwd=ROOT) for _ in range(3)]
    assert [each.wait() for each in writers] == [0, 0, 0]
    assert file.read_text() == "90"
    assert os.listdir(tmp_path) == ["count.txt"]


def test_a_long_wait_for_another_update_is_stated_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_lock, "_SAY_AFTER", 0.0)
    monkeypatch.setattr(file_lock, "_LONGEST", 0.2)
    stated: list[str] = []
    file = tmp_path / "base.json"
    with (
        file_lock.updating(file, stated.append),
        pytest.raises(CostModelError, match=r"cannot be written: process .* has updated it for over") as raised,
        file_lock.updating(file, stated.append),
    ):
        pass
    assert raised.value.faults[0].code == "C002"
    assert len(stated) == 1
    assert f"{file} is being updated by process {os.getpid()}" in stated[0]
    with file_lock.updating(file, stated.append):
        pass  # free again
    with file_lock.updating(tmp_path / "none" / "base.json", stated.append):
        pass  # what writes it reports that there is no such folder


@pytest.fixture
def without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that has no locks."""

    def refused(_handle: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(file_lock, "_lock", refused)


@pytest.mark.usefixtures("without_locks")
def test_a_file_system_without_locks(tmp_path: Path) -> None:
    """The file says who made it: a running process is waited for; a dead one is not, nor a later one of its number."""
    ours = file_lock._owner()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    for owner, free in (
        (ours, False),
        ({**ours, "process": dead.pid}, True),
        ({**ours, "started": "1"}, True),
        ({**ours, "host": "elsewhere", "process": dead.pid}, False),
        ({**ours, "space": "pid:[1]", "process": dead.pid}, False),
        ({}, False),
    ):
        (tmp_path / file_lock.NAME).write_text(json.dumps(owner))
        if free:
            with locked(tmp_path):
                assert file_lock.NAME in os.listdir(tmp_path)
            assert file_lock.NAME not in os.listdir(tmp_path)
        else:
            with pytest.raises(CostModelError, match="another search works in") as raised, locked(tmp_path):
                pass
            assert f"delete {tmp_path / file_lock.NAME}" in raised.value.faults[0].hint
    (tmp_path / file_lock.NAME).unlink()
    assert not found(SearchOptions(workers=1, folder=tmp_path)).stopped


# ── Its own parts ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_parts_of_another_search_are_never_its_own(keeping: SearchOptions, tmp_path: Path) -> None:
    """Even where the state is lost, and with it what says which search they are of."""
    folder = keeping.folder
    assert folder is not None
    (folder / MANIFEST).unlink()
    assert refusal(keeping, over=[axis("cluster.nodes=2,8")]) == f"{folder} has parts of another search"
    before = plans_in(folder)
    assert found(keeping).tally == uninterrupted()[0].tally
    assert plans_in(folder).equals(before), "its own are written again"


def test_another_program_is_refused_by_its_version(keeping: SearchOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costmodel, "__version__", "9.9.9")
    assert refusal(keeping).endswith("and this is 9.9.9")


def test_what_ended_while_it_wrote_is_taken_away(keeping: SearchOptions) -> None:
    assert keeping.folder is not None
    for name in (".part-0123456789ab-00000001.parquet.77.aa", "._manifest.json.77.aa"):
        (keeping.folder / name).write_text("half")
    (keeping.folder / ".mine").write_text("whole")
    found(keeping)
    assert [path.name for path in keeping.folder.glob(".*")] == [".mine"]


@pytest.mark.parametrize(("call", "at"), [("replace", 1), ("replace", 2), ("replace", 5), ("fsync", 1), ("fsync", 6)])
def test_a_crash_at_any_point_changes_no_answer(
    call: str, at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, table = uninterrupted()
    how, calls = SearchOptions(workers=1, folder=tmp_path / "kept", plans=True), 0
    real = getattr(os, call)

    def crashing(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == at:
            raise Crash
        return real(*given)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, crashing)
        with pytest.raises(Crash):
            found(how)
    assert found(replace(how, resume=True)).tally == whole.tally
    assert plans_in(tmp_path / "kept").equals(table)


@pytest.mark.skipif(sys.platform == "win32", reason="limits of a process")
def test_a_full_disk_is_said_and_gone_on_from(run: Any, faults: Any, tmp_path: Path) -> None:
    """No file may be longer than a few letters, which the system refuses as it does where a disk is full."""
    line = ("search", NAME, "--top", "10", "--into", str(tmp_path), "--workers", "1")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, limit[1]))
    try:
        ran = run(*line)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    (fault,) = faults(ran)
    assert (fault.code, fault.sentence) == ("C021", f"{tmp_path / MANIFEST} cannot be used: File too large")
    assert os.listdir(tmp_path) == []
    assert run(*line, "--resume").code == 0


# ── What was changed ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("where", ["tally", "pieces", "plans", "complete", "search"])
def test_a_state_that_was_changed_is_not_gone_on_from(where: str, keeping: SearchOptions) -> None:
    assert keeping.folder is not None
    manifest = keeping.folder / MANIFEST
    state = json.loads(manifest.read_text())
    changed: dict[str, Any] = {"pieces": state["pieces"] - 1, "plans": state["plans"] + 1, "complete": False}
    changed |= {"tally": {**state["tally"], "fit": 1}, "search": {}}
    manifest.write_text(json.dumps({**state, where: changed[where]}))
    assert refusal(keeping) == f"the state in {keeping.folder} is damaged, or was changed"


@pytest.mark.parametrize("keep", [0, 0.5, 0.999])
def test_a_state_that_was_cut_short(keep: float, keeping: SearchOptions) -> None:
    assert keeping.folder is not None
    manifest = keeping.folder / MANIFEST
    text = manifest.read_text()
    manifest.write_text(text[: int(keep * len(text))])
    assert refusal(keeping) == f"the state in {keeping.folder} is damaged, or was changed"


def test_a_part_that_is_gone_or_damaged(keeping: SearchOptions) -> None:
    assert keeping.folder is not None
    first, *_ = sorted(keeping.folder.glob("part-*"))
    text = first.read_bytes()
    first.write_bytes(text[:-9])
    assert refusal(keeping) == f"{first} is damaged"
    first.unlink()
    assert "and its state counts" in refusal(keeping)
    first.write_bytes(text)
    found(keeping)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
@pytest.mark.parametrize("name", [MANIFEST, file_lock.NAME, "part-*"])
def test_a_pipe_in_place_of_a_file_is_not_waited_for(name: str, keeping: SearchOptions) -> None:
    assert keeping.folder is not None
    place = next(iter(sorted(keeping.folder.glob(name))), keeping.folder / name)
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    assert refusal(keeping) == f"{place} is no regular file"


def test_a_fault_of_a_worker_comes_back_whole() -> None:
    error = fail("C021", "a part cannot be used: No space left on device", Place("part"), "free some")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.faults, str(again)) == (CostModelError, error.faults, str(error))


def test_a_folder_that_nothing_came_to_is_not_left_behind(tmp_path: Path) -> None:
    with pytest.raises(CostModelError):
        found(SearchOptions(engine="dask=nowhere", folder=tmp_path / "new"))
    with pytest.raises(CostModelError):
        found(SearchOptions(workers=1, folder=tmp_path / "new"), over=[axis("cluster.nodes=2,none")])
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["", " "])
def test_an_empty_name_is_not_the_working_folder(name: str, tmp_path: Path, monkeypatch: Any, run: Any) -> None:
    """As an unset variable of a shell gives it."""
    monkeypatch.chdir(tmp_path)
    ran = run("search", NAME, "--into", name)
    assert ran.code == 2
    assert "--into names no folder" in ran.err
    assert not [*tmp_path.iterdir()]
