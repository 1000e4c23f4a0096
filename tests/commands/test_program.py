"""The program around the commands: help, options, streams, crashes, signals, the package."""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from costmodel.commands import rl, serving, training
from costmodel.commands.command_table import COMMANDS, QUESTIONS, USED_BY_ALL
from costmodel.explore.workload_flags import FLAGS

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "tests/evidence/measured"
NAME = "llama-3-70b-512"
every_command = pytest.mark.parametrize("name", COMMANDS)
COMMAND_LINE = re.compile(r"costmodel (\w+)")


def commanded(text: str) -> list[str]:
    """Every `costmodel …` line of a docstring."""
    return [line.strip() for line in text.splitlines() if line.strip().startswith("costmodel ")]


@every_command
def test_help(name: str, run: Any) -> None:
    ran = run(name, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert ran == run(name, "-h")
    assert f"costmodel {name}" in ran.out
    assert "Examples:" in ran.out
    assert "Next:" in ran.out


@every_command
def test_the_terminal_breaks_the_sentences_of_the_help(name: str, run: Any) -> None:
    shown = "\n".join(
        line.strip() for line in re.split("\n(?:Arguments|Options|Output)\n", run(name, "--help").out)[0].splitlines()
    )
    for paragraph in shown.split("\n\n"):
        if not paragraph.startswith("Examples:"):
            for line, after in itertools.pairwise(paragraph.strip().splitlines()):
                assert len(f"{line} {after.split()[0]}") >= 78


def options_of(text: str) -> list[str]:
    """The options that a help lists."""
    return [name for name in re.findall(r"(?m)^  (?:-\w, )?--([a-z-]+)", text) if name not in ("help", "help-all")]


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("init", "schema", "open", "mcp")])
def test_help_shows_about_ten_options_and_counts_the_others(name: str, run: Any) -> None:
    few, whole = (options_of(run(name, option).out) for option in ("--help", "--help-all"))
    entry = COMMANDS[name]
    assert set(few) == {*entry.used.split(), *USED_BY_ALL} or not entry.used
    assert len(few) <= (10 if entry.used else 12)
    assert set(few) < set(whole)
    assert "json" not in few
    left = int(re.findall(r"(?m)^(\d+) more options: --help-all$", run(name, "--help").out)[0])
    assert left == len(whole) - len(few)


def test_help_has_no_options_of_workloads_that_a_command_refuses(run: Any) -> None:
    flags = {kind: {*found.keys, *(["rl"] if kind == "rl" else [])} for kind, found in FLAGS.items()}
    refusing = {"training": training.WITHOUT, "serving": serving.WITHOUT, "rl": rl.WITHOUT}
    for name, entry in COMMANDS.items():
        answers = [found for kind, found in flags.items() if name not in refusing[kind]]
        others = [found for kind, found in flags.items() if name in refusing[kind]]
        own = {"trace"} if name == "diagnose" else set()  # a trace of a profiler
        expected = set().union(*others) - set().union(*answers) - own
        assert set(entry.refuses.split()) == expected, name
        if expected:
            assert expected.isdisjoint(options_of(run(name, "--help-all").out))


@every_command
def test_every_example_of_the_help_runs(name: str, run: Any) -> None:
    examples = commanded(inspect.getdoc(COMMANDS[name].load()) or "")
    assert len(examples) >= 2
    if name == "measure":
        pytest.importorskip("torch")
        examples = [example for example in examples if "--brief" in example]  # the whole is minutes on a GPU
    if name not in QUESTIONS:  # which stays: tests/server asks it
        return
    for example in examples:
        if ">" not in example and "SCENARIO" not in example:
            words = shlex.split(example)[1:]
            ran = run(*words, cwd=SAMPLES if any((SAMPLES / word).exists() for word in words) else ROOT)
            assert ran.code in (0, 1), ran.err
            assert ran.out


@every_command
def test_help_names_commands_that_exist(name: str) -> None:
    answer = COMMAND_LINE.findall(inspect.getdoc(COMMANDS[name].load()) or "")
    assert set(answer) <= set(COMMANDS)


def test_answers_name_commands_that_exist(run: Any) -> None:
    answer: set[str] = set()
    for args in (
        ("estimate", NAME),
        ("memory", NAME),
        ("memory", "llama-3-70b"),
        ("comm", NAME),
        ("search", NAME),
        (
            "search",
            NAME,
            "--set",
            "cluster.nodes=1",
            "--set",
            "search={zero: [1], recompute: [full], micro_batch: [1], schedule: [1f1b]}",
        ),
        ("explain", "D009"),
        ("--help",),
    ):
        answer.update(COMMAND_LINE.findall(run(*args).out))
    for args in (("estimate", "nope"), ("show", "nope"), ("explain", "nope"), ("search", "-"), ("explain", NAME)):
        answer.update(COMMAND_LINE.findall(run(*args).err))
    assert {"search", "explain", "estimate"} <= answer <= set(COMMANDS)


def test_the_help_lists_every_command(run: Any) -> None:
    text = run("--help").out
    assert all(re.search(rf"^  {name} +[A-Z]", text, re.MULTILINE) for name in COMMANDS)
    assert run().out.strip() == text.strip()


def test_the_version(run: Any) -> None:
    ran = run("--version")
    assert ran.code == 0
    assert re.fullmatch(r"costmodel \d+\.\d+\.\d+(\.dev\d+)?\n", ran.out)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("estimat",), "Did you mean 'estimate'?"),
        (("import",), "Missing argument"),
        (("sweep",), "Missing option '--over'"),
        (("estimate", NAME, "--st", "x"), "No such option: --st"),
        (("estimate", NAME, "extra"), "unexpected extra argument"),
        (("estimate", NAME, "--format", "xml"), "'xml' is not one of 'table'"),
        (("estimate", NAME, "--set"), "requires an argument"),
        (("search", NAME, "--top", "0"), "'--top'"),
        (("search", NAME, "--top", "x"), "'--top'"),
        (("explain", NAME, "mfu", "--depth", "0"), "'--depth'"),
    ],
)
def test_wrong_command_lines(args: tuple[str, ...], words: str, run: Any) -> None:
    ran = run(*args)
    assert (ran.code, ran.out) == (2, "")
    assert words in re.sub(r"[\s│]+", " ", ran.err)
    assert "Usage: costmodel " in ran.err or "--set" in ran.err
    assert "Traceback" not in ran.err


def test_calibrate_without_measurements_says_what_it_takes(run: Any, faults: Any) -> None:
    (fault,) = faults(run("calibrate"))
    assert (fault.code, fault.sentence) == ("C014", "no measurement is named")
    assert "tables of kernels or runs" in fault.help
    assert "--follow" in fault.help


def test_a_group_that_is_not_there(run: Any) -> None:
    ran = run("list", "everything")
    assert (ran.code, ran.out) == (2, "")
    assert "there is no group of documents called 'everything'" in ran.err


def crash(*_: object, **__: object) -> None:
    """A fault of ours."""
    raise ZeroDivisionError("division\x1b by zero")


def test_a_crash_is_ours(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("costmodel.documents.reader.library.find", crash)
    ran = run("estimate", NAME)
    assert (ran.code, ran.out) == (3, "")
    assert "error[bug]: ZeroDivisionError: division� by zero" in ran.err
    assert "https://github.com/" in ran.err
    assert "Traceback" not in ran.err
    answer = run("estimate", NAME, env={"COSTMODEL_DEBUG": "1"})
    assert answer.code == 3
    assert "Traceback" in answer.err
    assert "in crash" in answer.err


def test_debugging_changes_nothing_else(run: Any) -> None:
    assert run("estimate", NAME, env={"COSTMODEL_DEBUG": "1"}) == run("estimate", NAME)
    ran = run("estimate", "nope", env={"COSTMODEL_DEBUG": "1"})
    assert (ran.code, "Traceback" in ran.err) == (2, False)


@pytest.mark.parametrize("env", [{}, {"COLUMNS": "40"}, {"TERM": "dumb"}, {"COLUMNS": "40", "TERM": "dumb"}])
def test_what_is_piped_is_never_cut(env: dict[str, str], run: Any) -> None:
    plain = run("list", "stacks")
    assert max(map(len, plain.out.splitlines())) > 80
    assert run("list", "stacks", env=env) == plain


def test_colour_is_obeyed(run: Any) -> None:
    plain = run("estimate", NAME)
    assert "\x1b" not in plain.out
    coloured = run("estimate", NAME, env={"FORCE_COLOR": "1"})
    assert "\x1b[" in coloured.out
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured.out) == plain.out
    silent = run("estimate", NAME, env={"FORCE_COLOR": "1", "NO_COLOR": "1"})
    assert not re.search(r"\x1b\[(3|4|9)\d", silent.out)


def shell(command: str, limit_s: float = 60, **options: Any) -> subprocess.CompletedProcess[str]:
    """A line for bash, in which `costmodel` is this checkout's."""
    named = command.replace("costmodel ", f"{shlex.quote(sys.executable)} -m costmodel ")
    return subprocess.run(
        ["bash", "-c", named], cwd=ROOT, capture_output=True, text=True, timeout=limit_s, check=False, **options
    )


@pytest.mark.parametrize("start", [["cli.py"], ["-m", "costmodel"]], ids=["cli.py", "module"])
def test_the_doors_are_one_program(start: list[str], run: Any) -> None:
    ran = subprocess.run(
        [sys.executable, *start, "estimate", NAME], cwd=ROOT, capture_output=True, timeout=1800, check=False
    )
    assert (ran.returncode, ran.stdout.decode(), ran.stderr.decode()) == run("estimate", NAME, brief=True)


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("costmodel explain | head -1", "0 0"),
        (f"costmodel estimate {NAME} --json | true", "0 0"),
        ("costmodel show llama-3-70b-512 | true", "0 0"),
        (f"costmodel estimate {NAME} --set plan.tp=1 | true", "1 0"),
        (f"costmodel check {NAME} --set limits.memory.at_most=20% | true", "1 0"),
        ("costmodel estimate nope 2>&1 | true", "2 0"),
        ("costmodel search --help | true", "0 0"),
        ("costmodel --version | true", "0 0"),
        (f"costmodel estimate {NAME} --badopt 2>&1 | true", "2 0"),
        ("costmodel estimat 2>&1 | true", "2 0"),
    ],
)
def test_a_pipe_closed_early_changes_no_answer(line: str, codes: str) -> None:
    ran = shell(line + '; echo "${PIPESTATUS[@]}" >&2')
    assert ran.stderr.strip() == codes


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_a_fault_of_the_output() -> None:
    ran = shell("costmodel list --json > /dev/full")
    assert ran.returncode == 2
    assert ran.stderr.startswith("error[C002]: standard output cannot be written: No space left on device\n")
    assert "Exception ignored" not in ran.stderr


def test_a_loop_of_links_is_a_fault_of_the_output(tmp_path: Path, run: Any, faults: Any) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    first.symlink_to(second)
    second.symlink_to(first)
    (found,) = faults(run("estimate", NAME, "-o", str(first), "--force"))
    assert (found.code, found.sentence) == ("C002", f"{first} cannot be written: Too many levels of symbolic links")
    assert first.is_symlink()
    assert second.is_symlink()


@pytest.mark.parametrize(
    ("flag", "command", "code"),
    [
        ("-O", "explain quickstart step_time", 0),
        ("-OO", "explain quickstart step_time", 2),
        pytest.param("-OO", "report quickstart --format html", 2, marks=pytest.mark.whole),
    ],
)
def test_python_without_docstrings_explains_nothing(flag: str, command: str, code: int) -> None:
    started = [sys.executable, flag, "-m", "costmodel", *command.split()]
    ran = subprocess.run(started, cwd=ROOT, capture_output=True, text=True, timeout=1800, check=False)
    assert ran.returncode == code
    wanted = "error[C022]: python -OO removes the docstrings that this answer explains equations with\n"
    assert ran.stderr.startswith(wanted) if code else not ran.stderr


def test_closed_streams() -> None:
    ran = shell(
        "costmodel explain busbw >&-; echo $?; costmodel estimate - <&-; echo $?; costmodel show x 2>&-; echo $?",
        limit_s=300,
    )
    assert ran.stdout.split() == ["0", "2", "2"]
    assert "there is no standard input" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_narrow_encoding_replaces_what_it_cannot_write() -> None:
    ran = shell(f"costmodel estimate {NAME}", env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "512 ? h100-sxm" in ran.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("group", [False, True], ids=["program", "group"])
def test_ctrl_c(group: bool) -> None:
    """A piped scenario that never comes: the program waits, and Ctrl-C ends it."""
    with subprocess.Popen(
        [sys.executable, "-m", "costmodel", "search", "-"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as program:
        time.sleep(0.3)
        deadline = time.monotonic() + 1800
        while not _waits(program.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        if group:
            os.killpg(program.pid, signal.SIGINT)
        else:
            program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=1800)
    assert (program.returncode, out, err) == (130, b"", b"")


def _waits(pid: int) -> bool:
    """Whether a process sits in a read."""
    try:
        return "pipe" in Path(f"/proc/{pid}/wchan").read_text()
    except OSError:
        time.sleep(2)
        return True


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The files of a wheel built from this checkout."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not here")
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        timeout=1800,
        check=True,
    )
    (built,) = folder.glob("*.whl")
    with zipfile.ZipFile(built) as packed:
        return set(packed.namelist())


def test_the_wheel_holds_the_documents(wheel: set[str]) -> None:
    for top in ("hardware", "scenarios"):
        shipped = {f"costmodel/_shipped/{path.relative_to(ROOT)}" for path in (ROOT / top).rglob("*.yaml")}
        assert shipped
        assert shipped <= wheel
    assert {"costmodel/equations/sources.yaml", "costmodel/_shipped/hardware/prices.csv"} <= wheel


def test_the_wheel_holds_the_package_and_nothing_at_the_top(wheel: set[str]) -> None:
    tops = {name.split("/")[0] for name in wheel}
    assert tops == {"costmodel", next(top for top in tops if top.endswith(".dist-info"))}
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "costmodel").rglob("*.py")}
    assert modules <= wheel


def test_the_commands_of_the_first_slice_are_there() -> None:
    assert set(COMMANDS) >= {"estimate", "memory", "comm", "explain", "search", "list", "show"}
