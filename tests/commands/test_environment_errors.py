"""Faults of what is around the program: exit 2 and one sentence, never a traceback, never called a bug."""

from __future__ import annotations

import difflib
import errno
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costmodel.commands.environment_errors import is_completing, remove_leftover_variables

ROOT = Path(__file__).resolve().parents[2]
NAME = "quickstart"
Faults = Callable[[Any], list[Any]]
LONG = "x" * 5000


# ── What the system refuses ──────────────────────────────────────────────────────────────────────────────────────────


def of(number: int, *named: str) -> OSError:
    return OSError(number, os.strerror(number), *named)


REFUSED = {
    "memory": (MemoryError(), "there is not enough memory"),
    "memory for numbers": (of(errno.ENOMEM), "there is not enough memory"),
    "files": (of(errno.EMFILE), "too many files are open"),
    "files of all": (of(errno.ENFILE, "/x"), "too many files are open on this machine"),
    "processes": (of(errno.EAGAIN), "no further process can be started"),
    "threads": (RuntimeError("can't start new thread"), "no further thread can be started"),
    "a full disk": (of(errno.ENOSPC, "/x/y"), "/x/y cannot be written: No space left on device"),
    "a full share": (of(errno.EDQUOT), "a file, or standard output, cannot be written: Disk quota exceeded"),
    "a folder": (of(errno.EACCES, "/x"), "/x cannot be used: Permission denied"),
    "a read-only disk": (of(errno.EROFS, "/x"), "/x cannot be used: Read-only file system"),
    "a broken disk": (of(errno.EIO), "the system refuses: Input/output error"),
    "a package": (ImportError("libx.so: failed to map segment", name="numpy"), "a package cannot be loaded: libx.so"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_system_refuses(what: str, run: Any, faults: Faults, monkeypatch: pytest.MonkeyPatch) -> None:
    error, sentence = REFUSED[what]

    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("costmodel.documents.reader.library.find", refuse)
    for command in (("estimate", NAME), ("search", NAME, "--json"), ("check", NAME)):
        (fault,) = faults(run(*command))
        assert fault.code == "C022"
        assert fault.sentence.startswith(sentence)


def test_a_bug_is_still_a_bug(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (ImportError("no such name", name="costmodel.nowhere"), RuntimeError("x"), KeyError("y")):

        def crash(*_: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr("costmodel.documents.reader.library.find", crash)
        assert run("estimate", NAME).code == 3


def limited(*lines: str) -> list[tuple[int, str]]:
    """Exit code and standard error of lines of bash, in which `costmodel` is this checkout's."""
    costmodel = f"{shlex.quote(sys.executable)} -m costmodel"
    script = "; ".join(
        f"({line.replace('costmodel', costmodel, 1)}) >/dev/null; echo $? >&2; echo --- >&2" for line in lines
    )
    ran = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=1800, check=False)
    parts = [part.strip().splitlines() for part in ran.stderr.split("---\n") if part.strip()]
    return [(int(part[-1]), "\n".join(part[:-1])) for part in parts]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of a process")
def test_no_memory_to_start() -> None:
    """Libraries in C would end the program with 1, which is an answer, or abort it."""
    for code, said in limited(
        "ulimit -v 60000; costmodel --version", "ulimit -v 110000; costmodel estimate quickstart"
    ):
        assert code == 2
        assert said.splitlines() == [
            "error[C022]: there is not enough memory to start, 160 MiB",
            "help: free some, or raise the limit: ulimit -v",
        ]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of a process")
def test_few_files_and_full_or_closed_streams() -> None:
    found = limited(
        "ulimit -n 20; costmodel estimate quickstart",
        "ulimit -n 8; costmodel search speed --workers 2",
        "costmodel --help >/dev/full",
        "costmodel estimate quickstart -o /dev/full",
        "costmodel estimate quickstart <&- >&- 2>&-",
        "costmodel estimate nowhere 2>/dev/full",
    )
    assert [code for code, _ in found] == [0, 2, 2, 2, 0, 2]
    assert "too many files are open" in found[1][1]
    assert "No space left on device" in found[2][1]
    assert "Traceback" not in "".join(said for _, said in found)


# ── Variables ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "instruction", ["x", "complete_bash", "complete_zsh", "source_bash", "bash_source", "complete_", "_"]
)
def test_completion_variables_that_are_left_over(instruction: str, run: Any) -> None:
    """Whoever gives a command wants its answer."""
    env = {"_COSTMODEL_COMPLETE": instruction, "COMP_WORDS": "costmodel e", "COMP_CWORD": "x"}
    assert run("estimate", NAME, env=env) == run("estimate", NAME)
    alone = run(env=env)
    assert alone.code in (0, 2)
    assert "Traceback" not in alone.err


def test_completion_is_asked_for_as_before(run: Any) -> None:
    bash = {"_COSTMODEL_COMPLETE": "complete_bash", "COMP_WORDS": "costmodel est", "COMP_CWORD": "1"}
    assert run(env=bash).out == "estimate\n"
    zsh = {"_COSTMODEL_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "costmodel show h100-p"}
    assert "h100-pcie" in run(env=zsh).out
    broken = run(env={**zsh, "COSTMODEL_PATH": LONG})
    assert (broken.out, broken.err, broken.code) == ("", "", 2), "nobody reads a fault among completions"


def test_names_that_hide_are_not_completed(run: Any, tmp_path: Path) -> None:
    for name in ("plain.yaml", "p\x1b[31m.yaml", "p\u202ex.yaml"):
        (tmp_path / name).write_text("")
    ran = run(
        env={"_COSTMODEL_COMPLETE": "complete_bash", "COMP_WORDS": "costmodel estimate p", "COMP_CWORD": "2"},
        cwd=tmp_path,
    )
    assert ran.out.split() == ["plain.yaml"]


@pytest.mark.parametrize("value", ["x", "-5", "0", "²", "", "1e3", "99999", "9" * 40])
def test_widths_that_are_none(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "LINES", "TERMINAL_WIDTH"):
        monkeypatch.setenv(name, value)
    remove_leftover_variables()
    assert not {"COLUMNS", "LINES", "TERMINAL_WIDTH"} & os.environ.keys()
    monkeypatch.setenv("COLUMNS", "60")
    remove_leftover_variables()
    assert os.environ["COLUMNS"] == "60"
    assert not is_completing()


# ── Folders ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("command", [("estimate", NAME), ("list",), ("show", "h100-sxm"), ("estimate", "nowhere")])
def test_a_search_path_that_cannot_be_read(command: tuple[str, ...], run: Any, faults: Faults, tmp_path: Path) -> None:
    """The answer would come from other documents without a word."""
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for part in (LONG, str(tmp_path / "file"), str(tmp_path / "loop"), str(tmp_path / "file" / "x")):
        (fault, *_) = faults(run(*command, env={"COSTMODEL_PATH": f"{tmp_path}:{part}"}, cwd=tmp_path))
        assert fault.code == "C022"
        assert fault.sentence.startswith("COSTMODEL_PATH names '")
        assert len(fault.sentence) < 250


def test_a_search_path_that_is_not_there_holds_nothing(run: Any, tmp_path: Path) -> None:
    env = {"COSTMODEL_PATH": f"{tmp_path / 'nowhere'}::{tmp_path}"}
    assert run("estimate", NAME, env=env, cwd=tmp_path) == run("estimate", NAME)


@pytest.mark.parametrize("home", ["/dev/null", "/proc/none"])
def test_a_home_that_takes_no_completion(home: str, run: Any) -> None:
    ran = run("--install-completion", env={"HOME": home, "SHELL": "/bin/bash"})
    assert (ran.code, "Traceback" in ran.err) == (2, False)


@pytest.mark.parametrize("option", ["-o", "--into", "--against"])
def test_places_that_cannot_be_written(option: str, run: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    command = {"-o": ("estimate", NAME), "--into": ("search", NAME), "--against": ("check", NAME, "--update")}[option]
    for place in (f"{LONG}.json", "file/x.json", "/proc/none/x.json", "\0.json"):
        ran = run(*command, option, place, cwd=tmp_path)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith(("error[C0", "error[D001]", "error: Invalid value"))
    assert os.listdir(tmp_path) == ["file"]


IN_TURN = """
import sys
from costmodel.commands.start import main
lines, codes = sys.argv[1:], []
for line in lines:
    sys.argv[1:] = line.split()
    try:
        main()
    except SystemExit as left:
        codes.append(int(left.code or 0))
print(codes)
"""


def test_a_working_folder_that_is_gone(run: Any, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    here = Path.cwd()
    try:
        os.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()
        lines = {"estimate quickstart": 0, "estimate quickstart -o x.json": 2, "search quickstart --into x": 2}
        ran = subprocess.run(
            [sys.executable, "-c", IN_TURN, *lines], env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, timeout=1800, check=False,
        )  # fmt: skip
        assert ran.stdout.splitlines()[-1] == str([*lines.values()]), ran.stderr
    finally:
        os.chdir(here)


# ── Much of something ────────────────────────────────────────────────────────────────────────────────────────────────

MANY = 5_000


@pytest.fixture
def guesses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many names each look for a similar one compares."""
    found: list[int] = []
    real = difflib.get_close_matches

    def counted(word: str, known: list[str], *more: Any, **named: Any) -> list[str]:
        found.append(len(known))
        return real(word, known, *more, **named)

    monkeypatch.setattr(difflib, "get_close_matches", counted)
    return found


@pytest.mark.parametrize("path", ["", "plan", "limits", "assume.overlap"])
def test_very_many_unknown_keys(path: str, guesses: list[int], run: Any) -> None:
    """The first are listed, with what may have been meant, the others counted."""
    document: dict[str, Any] = {
        "schema": "costmodel/scenario/v1", "title": "x", "model": "llama-3-8b", "plan": {"tp": 4}, "limits": {},
        "cluster": {"node": "dgx-h100", "nodes": 4}, "assume": {"overlap": {}},
        "workload": {"kind": "training", "sequence": 8192, "global_batch": 512},
    }  # fmt: skip
    here = document
    for part in filter(None, path.split(".")):
        here = here[part]
    here.update({f"micro_batsh{number}": 1 for number in range(MANY)})
    ran = run("estimate", "-", stdin=json.dumps(document, indent=1))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("error[D003]: unknown key 'micro_batsh") == 20
    assert f"and {MANY - 20:,} more" in ran.err
    assert f"{MANY:,} faults" in ran.err
    assert sum(guesses) < 5_000


def test_very_many_columns(guesses: list[int], run: Any, tmp_path: Path) -> None:
    known = "layers,hidden,heads,seq_len,gpus,global_batch,accelerator,step_time_s"
    for header in (",".join(f"layer{number}" for number in range(MANY)), known + ",layer_s" * MANY):
        (tmp_path / "runs.csv").write_text(f"{header}\n{'1,' * header.count(',')}1\n")
        assert run("validate", "runs.csv", cwd=tmp_path).code == 2
    assert sum(guesses) < 50_000


def test_modules_that_no_answer_reads_are_loaded_once_something_asks_more_of_them() -> None:
    code = """
import sys
from costmodel.commands.start import main
sys.argv = ["costmodel", "estimate", "quickstart"]
try: main()
except SystemExit: pass
import numpy._typing._shape, numpy.typing as types
print(types.NBitBase.__name__, numpy.typing.ArrayLike is not None)
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=1800, check=True
    )
    assert ran.stdout.splitlines()[-1] == "NBitBase True"
