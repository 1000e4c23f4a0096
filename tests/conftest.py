"""What tests of several folders share: running the command line in process, and rewriting transcripts."""

from __future__ import annotations

import csv
import functools
import gc
import io
import math
import os
import re
import shutil
import signal
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer.main
from each import EVERY_CASE
from hypothesis import HealthCheck, settings
from replies import REPLIES

from costmodel.commands import answer_options
from costmodel.commands.start import main
from costmodel.report.terminal.layout import laid_out

typer.main.get_command = functools.cache(typer.main.get_command)  # a process builds its commands once, as users' do
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")  # on a busy machine a slow example is no fault
signal.signal(signal.SIGINT, signal.default_int_handler)  # the commands took it; pytest wants it back

ROOT = Path(__file__).resolve().parents[1]
HOUSE = "tests/house/"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):  # programs that tests start would each compile every module anew
    COMPILED = tempfile.TemporaryDirectory(prefix="costmodel-", ignore_cleanup_errors=True)
    os.environ["PYTHONPYCACHEPREFIX"] = COMPILED.name

LEFT: dict[str, Any] = {}  # how many cases were left for --whole, and rows of slow.csv that no case has
SHELL_VARIABLES = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TERM", "COSTMODEL_PATH", "COSTMODEL_DEBUG")


class Ran(NamedTuple):
    """What a run of the command line left behind."""

    code: int
    out: str
    err: str

    @property
    def answer(self) -> tuple[int, list[str], str]:
        """Without the lines of commands to type next: they name the scenario as it was asked for."""
        return self.code, [line for line in self.out.splitlines() if "costmodel " not in line], self.err


Run = Callable[..., Ran]


def pytest_addoption(parser: pytest.Parser) -> None:
    """The flag that rewrites what transcripts expect, and how much to try."""
    parser.addoption("--update-transcripts", action="store_true", help="write what the commands print into transcripts")
    parser.addoption("--whole", action="store_true", help="every case of large products, instead of a share of them")
    parser.addoption("--fuzz", type=int, default=0, metavar="N", help="cases test_fuzz tries in all, instead of a few")


def pytest_configure(config: pytest.Config) -> None:
    """The marks of large products and of slow cases."""
    EVERY_CASE[:] = [config.getoption("--whole")]
    config.addinivalue_line("markers", "share(n): of these cases one in n is tried, unless --whole asks for all")
    config.addinivalue_line("markers", "whole: a slow case like others, which only --whole asks for")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of large products a share, and no slow cases, unless all are asked for or one is named."""
    if "PYTEST_XDIST_WORKER" in os.environ:  # in one order, wherever a worker began
        items.sort(key=lambda item: item.path.parts)
    if config.getoption("--whole") or any("::" in word for word in config.args):
        return
    left, products, slow = set[pytest.Item](), dict[str, tuple[float, list[pytest.Item]]](), slow_tests()
    for item in items:
        name = item.nodeid.partition("[")[0]
        if item.get_closest_marker("whole"):
            left.add(item)
        elif begins := [begin for begin in slow.get(name, ()) if item.nodeid.startswith(begin)]:
            row = max(begins, key=len)
            products.setdefault(row, (slow[name][row], []))[1].append(item)
        elif mark := item.get_closest_marker("share"):
            products.setdefault(name, (1 / mark.args[0], []))[1].append(item)
    for tried, cases in products.values():
        left |= {*cases}.difference(some_of(cases, tried if tried >= 1 else math.ceil(len(cases) * tried)))
    LEFT["cases"] = len(left)
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        LEFT["rows"] = [row for rows in slow.values() for row in rows if row not in products]
    config.hook.pytest_deselected(items=[item for item in items if item in left])
    items[:] = [item for item in items if item not in left]


def slow_tests() -> dict[str, dict[str, int]]:
    """Of slow tests how many cases are tried: by test, and by how the names of some of its cases begin."""
    found: dict[str, dict[str, int]] = {}
    with (ROOT / "tests" / "slow.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["test"].partition("[")[0], {})[row["test"]] = int(row["tried"])
    return found


def some_of(cases: list[pytest.Item], count: int) -> list[pytest.Item]:
    """So many of the cases, always the same ones, in which each value of each parameter is as frequent as others."""
    values = {case.name: _parameters(case) for case in cases}
    rest, taken = sorted(cases, key=_place), Counter[tuple[str, int]]()
    kept: list[pytest.Item] = []
    while rest and len(kept) < count:
        kept.append(min(rest, key=lambda case: sum(taken[value] for value in values[case.name])))
        rest.remove(kept[-1])
        taken.update(values[kept[-1].name])
    return kept


def _place(case: pytest.Item) -> int:
    """By the parameters alone: tests with the same cases take the same, and look at the same answers."""
    return zlib.crc32((case.name.partition("[")[2] or case.name).encode())


def _parameters(case: pytest.Item) -> list[tuple[str, int]]:
    of = getattr(case, "callspec", None)
    return [(name, id(value)) for name, value in of.params.items()] if of else []


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker tells what it left."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["left"] = LEFT


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Every worker collected the same."""
    LEFT.update(getattr(node, "workeroutput", {}).get("left", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was not tried is no secret."""
    if count := LEFT.get("cases"):
        terminalreporter.write_line(f"{count:,} cases were left for --whole: tests/slow.csv")
    if rows := LEFT.get("rows"):
        terminalreporter.write_line(f"{len(rows)} rows of tests/slow.csv name no test: {', '.join(rows[:3])} …")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests of a file look at the same answers, so one worker runs them all, unless --dist says otherwise.

    So do those of the house, which parse every module of the package.
    """
    from xdist.scheduler import LoadFileScheduling

    class LoadFiles(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return HOUSE if file.startswith(HOUSE) else file

    return LoadFiles(config, log) if config.getoption("dist") == "load" else None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Workers collect from both ends, so that each compiles half of the modules and reads the other half."""
    report = yield
    if isinstance(collector, pytest.Dir) and os.environ.get("PYTEST_XDIST_WORKER", "gw0")[-1] in "13579":
        report.result.reverse()
    return report


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Thousands of tests come to stay: looking for garbage among them would take a third of the time.

    While they run it is looked for as seldom as by the command line.
    """
    gc.disable()
    gc.set_threshold(200_000)
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test that patches the program has every reply worked out anew."""
    REPLIES.unpatched = "monkeypatch" not in getattr(item, "fixturenames", ())


def ledgers(answer: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Bytes by line of every stage or phase, of an answer of `memory`: the lines that are not empty."""
    return {
        row["of"]: {
            name.removesuffix("_bytes"): value
            for name, value in row.items()
            if name.endswith("_bytes") and name != "peak_bytes" and value
        }
        for row in answer["ledger"]
    }


class _Screen(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def _stream(data: bytes = b"", kind: type[io.TextIOWrapper] = io.TextIOWrapper) -> io.TextIOWrapper:
    return kind(io.BytesIO(data), encoding="utf-8", write_through=True)


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode("utf-8")


def run_here(
    *args: str,
    stdin: str | bytes = b"",
    cwd: Path = ROOT,
    env: dict[str, str] | None = None,
    screen: bool = False,
    brief: bool = False,
) -> Ran:
    """The command line in this process, as a pipe or a terminal would see it; what gets out of it is a traceback.

    Answers are in full, as with -v, unless they are to be brief, as users first see them.
    """
    out, err = _stream(kind=_Screen if screen else io.TextIOWrapper), _stream()
    given = stdin.encode() if isinstance(stdin, str) else stdin
    REPLIES.open = not (given or set(env or {}) - {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TERM"})
    interrupt, hook, folder = signal.getsignal(signal.SIGINT), sys.excepthook, Path.cwd()
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name in SHELL_VARIABLES:
                patch.delenv(name, raising=False)
            for name, value in (env or {}).items():
                patch.setenv(name, value)
            if not brief:
                patch.setattr(answer_options, "laid_out", lambda lines, width, verbose=True: laid_out(lines, width))
            patch.setattr(sys, "argv", ["costmodel", *args])
            patch.setattr(sys, "stdin", _stream(given))
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            os.chdir(cwd)
            with pytest.raises(SystemExit) as left:
                main()
    finally:
        REPLIES.open = True
        os.chdir(folder)
        signal.signal(signal.SIGINT, interrupt)
        sys.excepthook = hook
    return Ran(int(left.value.code or 0), _written(out), _written(err))


class Seen(NamedTuple):
    """One fault as it was printed: `marked` is the text the caret stands under."""

    code: str
    sentence: str
    place: str
    marked: str
    help: str


_FAULT = re.compile(
    r"error\[(?P<code>[A-Z]\d+)\]: (?P<sentence>.*)\n"
    r"(?:  --> (?P<place>.*)\n)?"
    r"(?: +\|\n +\d* \| (?P<source>.*)\n +\| (?P<caret> *\^+)\n)?"
    r"(?:help: (?P<help>.*)\n)?"
    r"(?:the same (?:error|warning) is in (?P<more>[\d,]+) more places: .*\n)?"
)


def faults_of(ran: Ran) -> list[Seen]:
    """The faults a run printed, equal ones once; each line of stderr belongs to one, but the last, with their count."""
    assert ran.code == 2, ran
    assert ran.out == ""
    assert "Traceback" not in ran.err
    body, last = ran.err.rstrip("\n").rsplit("\n", 1)
    found, position, more = [], 0, 0
    for match in _FAULT.finditer(body + "\n"):
        assert match.start() == position, ran.err
        position = match.end()
        part = match.groupdict(default="")
        more += int((part["more"] or "0").replace(",", ""))
        start = part["caret"].find("^")
        marked = part["source"][start : len(part["caret"])] if part["caret"] else ""
        found.append(Seen(part["code"], part["sentence"], part["place"], marked, part["help"]))
    assert position == len(body) + 1, ran.err
    counts = re.findall(r"([\d,]+) (?:error|warning)s?\b", last)
    assert sum(int(each.replace(",", "")) for each in counts) == len(found) + more, ran.err
    return found


@pytest.fixture(scope="session")
def run() -> Run:
    """`run(*args, stdin=…, cwd=…, env=…, screen=…)` gives code, out and err of the command line."""
    return run_here


@pytest.fixture
def few_knobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """`sensitivity` turns a few of the hundred figures that a result rests on, for tests of what stands around them."""
    turn_few_knobs(monkeypatch)


def turn_few_knobs(patch: pytest.MonkeyPatch) -> None:
    """The same for a fixture of a module."""
    from costmodel.explore.vary import sensitivity

    every, REPLIES.unpatched = sensitivity.input_values, False
    patch.setattr(
        sensitivity,
        "input_values",
        lambda case: {
            path: leaf
            for path, leaf in every(case).items()
            if path.endswith(("memory.bandwidth", ".bf16", ".price", ".price.hourly"))
        },
    )


@pytest.fixture(scope="session")
def faults() -> Callable[[Ran], list[Seen]]:
    """`faults(ran)` takes what was printed apart."""
    return faults_of


@pytest.fixture(scope="session")
def scenario() -> str:
    """The text of a shipped scenario, to be broken."""
    return (ROOT / "scenarios" / "llama-3-70b-512.yaml").read_text("utf-8")


@pytest.fixture(scope="session")
def inline() -> str:
    """The same with the model written out in place."""
    text = (ROOT / "scenarios" / "llama-3-70b-512.yaml").read_text("utf-8")
    model = (ROOT / "scenarios" / "models" / "llama-3-70b.yaml").read_text("utf-8")
    lines = "".join(f"  {line}\n" for line in model.splitlines()[1:])
    return re.sub(r"(?m)^model: .*\n", lambda _: f"model:\n{lines}", text)


@pytest.fixture
def in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the test's files is the working folder: faults quote the text of no other."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium: that of the system, or the one that Playwright brought."""
    playwright = pytest.importorskip("playwright.sync_api")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    with playwright.sync_playwright() as started:
        if path is None and not os.path.exists(started.chromium.executable_path):
            pytest.skip("there is no Chromium")
        sandbox = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        quiet = ["--disable-gpu", "--disable-quic", "--disable-sync"]  # no request leaves this machine
        made = started.chromium.launch(executable_path=path, args=[*sandbox, *quiet])
        yield made
        made.close()
