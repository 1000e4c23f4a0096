"""Hostile values of every numeric key of every document, through `--set`: an answer or a fault, never a crash.

The suite tries a sample of a few seconds; `--whole` tries every key with every value, a test for each part of a
document. NumPy warnings are errors here.
"""

from __future__ import annotations

import functools
import json
import random
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from costmodel.documents.keys.key_list import all_keys
from costmodel.documents.keys.overrides import short
from costmodel.documents.keys.schema_paths import examples_of
from costmodel.documents.keys.workload_keys import SCENARIOS
from costmodel.documents.reader.load_scenario import load_any
from costmodel.report.data_formats.answer_fields import without_places

SAMPLE = 30  # tries of the usual suite, of those without limits, whose remedies take longest
MOST = 250  # tries of a test of the whole
VALUES = ("0", "5e-324", "1e-3", "1e15", "1e300", "-1", "nan", "inf", "-1e300")
# What holds keys of each kind, and the commands that read them; later ones are asked for keys that the first lack.
CASES: dict[str, tuple[tuple[str, ...], ...]] = {
    "quickstart": (("estimate", "--json"), ("run", "--json"), ("estimate",), ("run",)),
    "serve-llama-3.1-70b": (("estimate", "--json"), ("estimate",)),
    "grpo-qwen-2.5-7b-64": (("estimate", "--json"), ("estimate",)),
    "deepseek-v3-2048": (("estimate", "--json"), ("memory",)),
    "offload-llama-2-13b-8": (("estimate", "--json"), ("run",)),
    "diloco-llama-3.1-8b-64": (("run", "--json"), ("comm",)),
    "mixed-llama-3-8b-96": (("estimate", "--json"), ("pipeline",)),
    "lora-llama-3-70b-8": (("estimate", "--json"), ("run",)),
}
_NUMBER = re.compile(r"\s*[-+]?[\d.,_]+(?:[eE][-+]?\d+)?\s*")
_NONE = re.compile(r"(?<![\w./-])(nan|inf|-inf|NaN|Infinity)(?![\w/-])")
SIGNED = re.compile(r"memory_free|gain|saved|over_|_low$|unexplained")  # results that may be below zero


def unit_of(text: Any) -> str:
    """What stands behind the number of a written quantity."""
    return _NUMBER.sub("", str(text), count=1) if isinstance(text, str) else ""


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The path and the unit of every number in a document."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        inner = f"{path}.{key}" if path else str(key)
        if "sources" in inner or inner.endswith((".note", ".title", ".name")):
            continue
        if isinstance(value, dict | list):
            yield from leaves(value, inner)
        elif not isinstance(value, bool) and isinstance(value, int | float | str) and _NUMBER.match(str(value)):
            yield short(inner), unit_of(value)


@functools.cache
def keys() -> tuple[tuple[str, str, str], ...]:
    """Every numeric key: the scenario that it is set in, its path, its unit; each path once for each workload."""
    found: dict[tuple[str, str], tuple[str, str, str]] = {}
    for name in CASES:
        case = load_any(name)
        workload = case.scenario.workload.kind
        for path, unit in leaves(without_places(case.whole_tree)):
            place = re.sub(r"\.\d+(?=\.|$)", ".0", path)
            found.setdefault((workload, place), (name, path, unit))
    first = {"training": "quickstart", "serving": "serve-llama-3.1-70b", "rl": "grpo-qwen-2.5-7b-64"}
    for key in all_keys():
        for workload, schema in SCENARIOS.items():
            if key.of in ("", workload) and (workload, key.path) not in found:
                examples = examples_of(schema, key.path)
                if examples is not None:
                    unit = unit_of(examples[0]) if examples else ""
                    found[workload, key.path] = (first[workload], key.path, unit)
    return tuple(found.values())


def tries() -> list[tuple[str, ...]]:
    """The commands: every key with every value."""
    made = []
    for place, (name, path, unit) in enumerate(keys()):
        for turn, value in enumerate(VALUES):
            command, *options = CASES[name][(place + turn) % len(CASES[name])]
            made.append((command, name, "--set", f"{path}={value} {unit}".rstrip(), *options))
    return made


def fault_of(ran: Any, command: tuple[str, ...]) -> str:
    """What is wrong with the way a command ended, or nothing."""
    if ran.code not in (0, 1, 2):
        return f"code {ran.code}: {ran.err.splitlines()[0][:160]}"
    if ran.code == 2:
        return "" if ran.err.startswith(("error[", "Usage")) and not ran.out else f"no fault: {ran.err[:200]}"
    if ran.err:
        return f"stderr: {ran.err[:200]}"
    if "--json" not in command:
        found = _NONE.search(ran.out)
        return f"prints {found[0]}: {ran.out[max(0, found.start() - 60) : found.end() + 20]!r}" if found else ""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} in JSON")

    answer = json.loads(ran.out, parse_constant=refuse)
    for plan in answer.get("plans", []):
        bad = {name: value for name, value in plan.items() if isinstance(value, float | int) and value < 0}
        if wrong := [name for name in bad if not SIGNED.search(name)]:
            return f"negative {wrong[0]} = {bad[wrong[0]]}"
    return ""


@functools.cache
def parts() -> dict[str, list[tuple[str, ...]]]:
    """The commands by document and section of keys; of a long section several parts."""
    sections: dict[str, list[tuple[str, ...]]] = {}
    for command in tries():
        sections.setdefault(f"{command[1]}-{re.split(r'[.=]', command[3])[0]}", []).append(command)
    return {
        f"{name}-{start // MOST}": every[start : start + MOST]
        for name, every in sections.items()
        for start in range(0, len(every), MOST)
    }


def sample() -> list[tuple[str, ...]]:
    """A few of the commands, of all documents."""
    return random.Random(13).sample([each for each in tries() if "limits." not in each[3]], SAMPLE)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test of a sample, or those of the whole."""
    if "part" in metafunc.fixturenames:
        metafunc.parametrize("part", parts() if metafunc.config.getoption("--whole") else ["sample"])


def test_hostile_numbers_end_with_an_answer_or_a_fault(run: Any, part: str, tmp_path: Path) -> None:
    wrong: dict[str, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for command in sample() if part == "sample" else parts()[part]:
            fault = fault_of(run(*command, cwd=tmp_path), command)
            if fault:
                wrong.setdefault(f"{fault} <- {' '.join(command)}", fault)
    assert not wrong, "\n".join(wrong)
