"""Hostile documents and assignments through the real commands: an answer or a fault, soon, never a crash.

The suite tries a few; `pytest tests/documents/test_fuzz.py --fuzz 100000 --junitxml=fuzz.xml` tries as many as asked,
continues after the first that misbehaves, and writes figures into the properties of each test.
"""

from __future__ import annotations

import functools
import gc
import json
import os
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer.main
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
ENOUGH = 80  # cases in all when --fuzz does not say
PATIENCE, ASLEEP = 2.0, 20.0  # seconds a case may work, and may take where others share the machine
# The documents broken leaf by leaf, and where each stands in a scenario when it is written out in place.
PLACES: dict[str, tuple[str, ...]] = {
    "scenario": (),
    "model": ("model",),
    "stack": ("stack",),
    "node": ("cluster", "node"),
    "accelerator": ("cluster", "node", "accelerator"),
    "fabric": ("cluster", "node", "scale_out", "fabric"),
}
FILES = {
    "scenario": "scenarios/quickstart.yaml",
    "model": "scenarios/models/llama-3-8b.yaml",
    "stack": "scenarios/stacks/megatron-core.yaml",
    "node": "hardware/nodes/dgx-h100.yaml",
    "accelerator": "hardware/accelerators/h100-sxm.yaml",
    "fabric": "hardware/fabrics/ib-ndr.yaml",
}
SPACE = {"tp": [1, 2, 4], "pp": [1, 2], "vpp": [1, 2], "micro_batch": [1, 2], "zero": [1], "recompute": ["none"]}
SHARES = {**dict.fromkeys(PLACES, 10), "assignments": 20, "text": 7, "tokens": 6, "bytes": 7}  # of 100 cases
COMMANDS = [("estimate",), ("estimate",), ("memory",), ("search", "--top", "1", "--workers", "1")]
FORMS = [(), (), (), ("--json",), ("--format", "csv"), ("--format", "markdown"), ("--output", "answer.json", "--force")]
OWN = re.compile(r"\.?answer\.json(\.\w+)?")  # what -o was told to write, and the temporary file beside it


class Raw(str):
    """Text that goes into a document as it stands."""


class TooSlow(BaseException):
    """Nothing in the program catches this."""


class Tally(NamedTuple):
    """What the cases of a test came to."""

    codes: Counter[int]
    slowest: list[tuple[float, str]]
    wrong: dict[str, str]


# --- what is hostile

_NUMBERS = [
    "0", "-0.0", "1", "-1", "2", "3", "7", "0.5", "1e-300", "5e-324", "1e18", "1e19", "9007199254740993", "1e308",
    "1e400", "-1e308", ".nan", ".inf", "-.inf", "0x10", "0o17", "0b1", "1_000", "1__0", "0x", "0x_", "1e",
    "1" + "0" * 400, "9" * 5000, "0." + "0" * 400 + "1", "-9" * 40, "1:30:00", "190:20:30", "2024-01-01", "2024-99-99",
    "2001-12-14t21:59:43.10-05:00", "NaN", "Infinity", "nan", "1e18.0", "+1", "12 %", "101 %", "-1 %", "1e-9 %",
]  # fmt: skip
_UNITS = [
    "B", "GiB", "TB/s", "TFLOP/s", "us", "W", "kW", "USD/GPU/h", "MHz", "%", "T", "Ki", "b", "EB", "PB", "ZB", "1",
    "/", "//s", "s/s", "B/B/s", "GPU", "token", "B·s", "··", "/h", "d", "µs", "μs", "TB/s/s/s/s/s/s/s", "B " * 30,
    "P" * 9,
]  # fmt: skip
_SCALARS = [
    "", "~", "null", "true", "false", "yes", "no", "on", "Off", "''", '""', "' '", "x", "'8'", "[]", "{}", "[[]]",
    "[1]", "[1, 1]", "{a: 1}", "{name: x}", "[null]", "[~, ~]", "{~: ~}", "{[]: 1}", "{{}: {}}", "{? [a]: b}", "? a",
    "- a", "- - -", "&a 1", "*a", "&a [*a]", "!!python/object:os.system x", "!!binary aGk=", "!!binary '!'", "!!int x",
    "!!int 1__", "!!float x", "!!float ''", "!!bool x", "!!null x", "!!timestamp x", "!!set {a}", "!!omap [a: 1]",
    "!!str 8", "!x y", "! 8", "!<tag:yaml.org,2002:int> z", "!!int ''", "!!int 0x", "!!int 1:2", "!!float 1:2.5",
    "!!int [1]", "!!map 1", "!!seq {}", "<<", "{<<: {a: 1}}", "=", "@", "`", "%YAML 1.2", "---", "...", "--- x", "#",
    "|", ">", "|9", ">-\n  x", "'", '"', '"\\x00"', '"\\u0085"', '"\\uD800"', '"\\e[31m"', '"\\q"', "\t", "a\tb",
    "a: b", "a: b: c", "\x00", "\x1b[31m", "\x7f", "\x85", "\u2028", "\ufeff", "\ufffe", "\U0001f600", "e\u0301",
    "\u202e8", "１２", "٣", "²", "½", "Ⅷ", "[" * 40 + "]" * 40, "{a: " * 40 + "1" + "}" * 40, "[" * 3000,
    "[" * 2000 + "]" * 2000, "x" * 100_000, "[" + "1, " * 3000 + "1]", "[" + "{a: 1}, " * 300 + "]", "/etc/passwd",
    "/", "..", "./x", "-", "/dev/null", "/proc/self/mem", "a/b.yaml", "x.yaml", ".yaml", "llama-3-8b", "h100-sxm",
    "megatron-core", "unmeasured", "ddp", "deepspeed", "fsdp2", "dgx-a100", "gb200-nvl72", "tpu-v5e-slice", "adamw",
    "muon", "1f1b", "interleaved", "gpipe", "full", "selective", "none", "fp8", "fp16", "fp32", "ring", "torus",
    "switch", "step_time", "costmodel/model/v1", "[bold]", "[/]", "{reason}", "{given}", "{0}", "%s", "%(x)s", "$HOME",
    "~root", "C:\\x", "__class__", "name" * 40,
]  # fmt: skip
_KEYS = [
    "", "~", "x", "8", "-1", "1.5", "true", ".nan", "<<", "? x", "[a]", "{a: b}", "&a b", "*a", "!!int 8", "'a.b'",
    "a b", "schema", "name", "sources", "source", "inline", "tp", "plan", "count", "self", "model_config", "__init__",
    "place", "x" * 3000, "é", "'\\x00'", '"\\u0007"', "#", "-", "0", "'0'", "model", "layers", "'[bold]'", "''",
    "limits",
]  # fmt: skip

texts = st.text(max_size=12)
numbers = st.one_of(
    st.sampled_from(_NUMBERS), st.integers(-9, 2**70).map(str), st.integers(1, 4096).map(str), st.floats().map(repr)
)
quantities = st.builds("{}{}{}".format, numbers, st.sampled_from(["", " ", "  "]), st.sampled_from(_UNITS))
raws = st.one_of(st.sampled_from(_SCALARS), st.sampled_from(_SCALARS), numbers, quantities, texts).map(Raw)
trees = st.recursive(
    raws | texts, lambda x: st.lists(x, max_size=3) | st.dictionaries(texts, x, max_size=3), max_leaves=6
)
hostile = st.one_of(raws, numbers.map(Raw), quantities.map(lambda text: text), texts, trees)


# --- documents


@functools.cache
def _document(kind: str) -> Any:
    return YAML(typ="safe", pure=True).load((ROOT / FILES[kind]).read_text("utf-8"))


def _copied(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _copied(value) for key, value in tree.items()}
    return [_copied(value) for value in tree] if isinstance(tree, list) else tree


def _scenario(*kinds: str) -> dict[str, Any]:
    """A scenario with documents of these kinds, and those around them, written out in place."""
    tree = _copied(_document("scenario"))
    tree["search"] = _copied(SPACE)
    for kind, place in PLACES.items():
        if place and any(PLACES[wanted][: len(place)] == place for wanted in kinds):
            _held(tree, place[:-1])[place[-1]] = _copied(_document(kind))
    return tree


def _held(tree: Any, path: tuple[str | int, ...]) -> Any:
    for part in path:
        tree = tree[part]
    return tree


def _paths(tree: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from _paths(value, (*path, key))


@functools.cache
def _places(kind: str) -> list[tuple[str | int, ...]]:
    """Every key and item of one document, as a path in the scenario that holds it."""
    return [PLACES[kind] + path for path in _paths(_held(_scenario(kind), PLACES[kind]))]


@functools.cache
def _dotted() -> list[str]:
    return [".".join(map(str, path)) for path in _paths(_scenario(*PLACES))]


def _yaml(tree: Any, indent: str = "") -> str:
    """A tree as YAML, in blocks; raw text as it stands."""
    if isinstance(tree, dict) and tree:
        return "".join(f"\n{indent}{_key(key)}: {_yaml(value, indent + '  ')}" for key, value in tree.items())
    if isinstance(tree, list) and any(isinstance(item, dict | list) for item in tree):
        return "".join(f"\n{indent}- {_yaml(item, indent + '  ')}" for item in tree)
    if isinstance(tree, list):
        return f"[{', '.join(map(_yaml, tree))}]"
    return str(tree) if isinstance(tree, Raw) else json.dumps(tree, ensure_ascii=False)


def _key(key: str) -> str:
    return key if isinstance(key, Raw) or re.fullmatch(r"[\w.+-]+", key) else json.dumps(key, ensure_ascii=False)


def _broken(draw: Any, kind: str) -> str:
    """A document of this kind, broken in one to three places, in a scenario that is sound otherwise."""
    tree = _scenario(kind)
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
        *way, last = draw(st.sampled_from(_places(kind)))
        try:
            held = _held(tree, tuple(way))
            held[last]
        except (LookupError, TypeError):  # broken away already
            continue
        if not isinstance(held, dict | list):
            continue
        what = draw(st.sampled_from(["value"] * 7 + ["key", "without", "more", "elsewhere"]))
        if what == "value":
            held[last] = draw(hostile)
        elif what == "elsewhere":
            source = draw(st.sampled_from(_places(kind)))
            held[last] = _copied(_held(_scenario(kind), source))
        elif what == "without" or not isinstance(held, dict):
            del held[last]
        elif what == "key":
            held[Raw(draw(st.sampled_from(_KEYS) | texts))] = held.pop(last)
        else:
            held[Raw(draw(st.sampled_from(_KEYS) | texts))] = draw(hostile)
    return _yaml(tree)


def _assigned(draw: Any) -> list[str]:
    """Up to three assignments, most of them to a path that is there."""
    found = []
    for _ in range(draw(st.sampled_from([1, 1, 2, 3]))):
        path = draw(st.sampled_from(_dotted()))
        odd = draw(st.sampled_from([""] * 6 + ["more", "less", "text", "index"]))
        if odd == "more":
            path += "." + draw(st.sampled_from(_KEYS) | texts)
        elif odd == "less":
            path = path[: draw(st.integers(0, len(path)))]
        elif odd == "index":
            path = re.sub(r"\d+", draw(st.sampled_from(["-1", "1", "9" * 30, "²", "٣", "", "00", "1_0"])), path)
        elif odd == "text":
            path = draw(st.text(st.characters(), max_size=8) | st.sampled_from(_KEYS))
        value = draw(raws | numbers | quantities | st.text(st.characters(), max_size=8))  # lone surrogates too
        found += ["--set", path + draw(st.sampled_from(["="] * 9 + ["", " = ", "=="])) + value]
    return found


_TOKENS = [
    "schema: costmodel/scenario/v1\n", "schema: costmodel/result/v1\n", "schema: ", "title: x\n", "model: ",
    "model:\n", "cluster:\n", "  node: dgx-h100\n", "  nodes: 4\n", "workload:\n", "  kind: training\n",
    "  sequence: 8192\n", "  global_batch: 512\n", "plan:\n", "  tp: 4\n", "scenario:\n", "  document:\n",
    "llama-3-8b\n", "\n", "\n", "  ", "    ", "- ", "? ", ": ", ":", ", ", "[", "]", "{", "}", "&a ", "*a", "!!", "!",
    "|\n", ">\n", "'", '"', "#", "%", "%YAML", "%TAG ! x\n", "---\n", "...\n", "\t", "\r", "\r\n", "\x00", "\x85",
    "\u2028", "\ufeff", "~", "<<: ", "0", "1e400", "@",
]  # fmt: skip


@functools.cache
def _written() -> bytes:
    return _yaml(_scenario("model")).encode()


def _damaged(draw: Any) -> bytes:
    """A sound document with bytes changed, taken out, put in or moved."""
    data = bytearray(draw(st.sampled_from([_written(), (ROOT / FILES["scenario"]).read_bytes()])))
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, max(0, len(data) - 1)))
        end = start + draw(st.sampled_from([0, 1, 1, 1, 2, 10, 500]))
        piece = st.binary(max_size=4) | st.sampled_from([*map(str.encode, _TOKENS), bytes(data[start:end]) * 2])
        data[start:end] = draw(piece)
    return bytes(data)


@st.composite
def cases(draw: Any, what: str) -> tuple[tuple[str, ...], bytes]:
    """The arguments of a command, and what it reads."""
    command = draw(st.sampled_from(COMMANDS))
    arguments = (command[0], "-", *command[1:], *draw(st.sampled_from(FORMS)))
    if what == "assignments":
        return (*arguments, *_assigned(draw)), _yaml(_scenario()).encode()
    if what == "text":
        return arguments, draw(st.text(max_size=60)).encode()
    if what == "tokens":
        return arguments, "".join(draw(st.lists(st.sampled_from(_TOKENS), max_size=25))).encode()
    return arguments, _damaged(draw) if what == "bytes" else _broken(draw, what).encode()


# --- watching

_watched: list[str] | None = None  # what was written since watching began; nothing when nobody watches
_WRITES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod"}


def _audit(event: str, given: tuple[Any, ...]) -> None:
    if _watched is None or (event != "open" and event not in _WRITES):
        return
    if event == "open" and not (isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)):
        return
    path = str(given[0])
    compiled = "__pycache__" in path or (sys.pycache_prefix is not None and path.startswith(sys.pycache_prefix))
    known = isinstance(given[0], int) or OWN.fullmatch(path.rpartition(os.sep)[2])
    if not known and not compiled and path != os.devnull:
        _watched.append(f"{event} {path}")


@functools.cache
def _auditing() -> None:
    sys.addaudithook(_audit)  # for good: there is no way to take one out


@contextmanager
def watching(folder: Path) -> Iterator[list[str]]:
    """What is written meanwhile, other than the file asked for."""
    global _watched
    _auditing()
    _watched = found = []
    try:
        yield found
    finally:
        _watched = None
        found += [name for name in os.listdir(folder) if name != "answer.json"]


def _alarm(_signal: int, _frame: object) -> None:
    raise TooSlow


@contextmanager
def patience() -> Iterator[None]:
    """TooSlow for what works or waits too long; what the search for cases leaves behind is cleared away outside."""
    timers = {signal.SIGPROF: (signal.ITIMER_PROF, PATIENCE), signal.SIGALRM: (signal.ITIMER_REAL, ASLEEP)}
    before = {number: signal.signal(number, _alarm) for number in timers}
    gc.disable()
    for timer, seconds in timers.values():
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for number, (timer, _) in timers.items():
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])
        gc.enable()


def misbehaviour(run: Callable[..., Any], case: tuple[tuple[str, ...], bytes], folder: Path, tally: Tally) -> str:
    """What is wrong with the way a case ended, or nothing."""
    arguments, stdin = case
    begun = time.process_time()
    try:
        with watching(folder) as written, patience():
            ran = run(*arguments, stdin=stdin, cwd=folder)
    except TooSlow:
        return f"slower than {PATIENCE} s"
    except BaseException as error:
        return f"escaped: {type(error).__name__}: {error}"
    took = time.process_time() - begun
    tally.codes[ran.code] += 1
    tally.slowest[:] = sorted([*tally.slowest, (took, repr(case)[:2000])])[-1:]
    if "Traceback" in ran.err + ran.out:
        return "Traceback"
    if ran.code not in (0, 1, 2):
        return f"code {ran.code}: {re.sub(r'[0-9.]+', '#', ran.err.splitlines()[0])[:200]}"
    if written:
        return f"written: {written[0]}"
    if ran.code == 2 and (ran.out or not re.search(r"^error\[[CD]\d+\]|^Usage", ran.err)):
        return f"code 2 without a fault: {ran.err[:200]!r} {ran.out[:200]!r}"
    if ran.code != 2 and ran.err.removeprefix("wrote answer.json\n" if "--output" in arguments else ""):
        return f"stderr: {ran.err[:200]}"
    return "an answer of nothing" if ran.code != 2 and not ran.out and "--output" not in arguments else ""


@pytest.mark.parametrize("what", SHARES)
def test_hostile_input_ends_with_an_answer_or_a_fault(
    run: Callable[..., Any],
    what: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    asked = request.config.getoption("--fuzz")
    tally = Tally(Counter(), [], {})
    monkeypatch.setattr(typer.main, "get_command", functools.cache(typer.main.get_command))  # the half of a case's time

    @settings(
        max_examples=max(1, (asked or ENOUGH) * SHARES[what] // 100),
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate] if asked else [Phase.generate, Phase.shrink],
    )
    @given(case=cases(what))
    def trial(case: tuple[tuple[str, ...], bytes]) -> None:
        wrong = misbehaviour(run, case, tmp_path, tally)
        if wrong and asked:
            tally.wrong.setdefault(wrong, repr(case)[:8000])
            return
        assert not wrong, (wrong, case)

    trial()
    record_property("cases", sum(tally.codes.values()))
    record_property("codes", json.dumps(dict(sorted(tally.codes.items()))))
    record_property("slowest", json.dumps(tally.slowest))
    assert not tally.wrong, "\n\n".join(f"{wrong}\n{case}" for wrong, case in tally.wrong.items())
