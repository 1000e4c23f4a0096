"""While a search works: a line on a terminal, nothing elsewhere; folders, engines and leaves that cannot be."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAME = "gpt-3-175b-1024"
SERVING = "serve-llama-3.1-70b"


@pytest.mark.parametrize(
    ("command", "line", "answer"),
    [
        (
            ("search", NAME, "--workers", "1"),
            r"[\d,]+ valid of [\d,]+ plans · best [\d.,]+ \S+ · [\d,]+/s",
            "Next: costmodel",
        ),
        (("sweep", NAME, "--over", "plan.tp=1,2,4,8"), r"\d of 4 combinations · [\d,]+/s", "4 points"),
        (("sensitivity", "quickstart"), r"\d+ of \d+ figures · [\d,]+/s", "batch 512"),
        pytest.param(("sensitivity", SERVING), r"\d+ of \d+ figures · [\d,]+/s", "tpot", marks=pytest.mark.whole),
        pytest.param(
            ("report", "quickstart", "--format", "html", "-o", os.devnull),
            r"(?s)the page: sensitivity .*0:\d\d.*wrote ",
            "",
            marks=pytest.mark.whole,
        ),
        (("validate", "korthikanti-2022"), r"validate .*0:\d\d", "korthikanti-2022"),
        (("estimate", NAME), r"estimate .*0:\d\d", "step time"),
    ],
)
def test_a_line_on_a_terminal_that_goes_away(command: tuple[str, ...], line: str, answer: str) -> None:
    """Standard error is a terminal: count, rate and best so far; standard output holds the answer alone."""
    code = (
        "import sys, runpy\nimport costmodel.explore.search.training_space as p, costmodel.commands.progress as w\n"
        "p.CANDIDATES_A_PIECE, w.AFTER = 64, 0.0\n"
        f"sys.argv = {['costmodel', *command]}\n"
        "runpy.run_module('costmodel', run_name='__main__')\n"
    )
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=theirs, text=True, env=environment
    ) as program:
        os.close(theirs)
        seen = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:
                break
            if not part:
                break
            seen += part
        out = program.stdout.read() if program.stdout else ""
    os.close(ours)
    printed = seen.decode()
    assert re.search(line, printed)
    assert answer in out
    assert not re.search(line, out)


def test_no_line_elsewhere(run: Any) -> None:
    assert run("search", NAME).err == ""


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--resume",), "C021", "--resume needs a folder"),
        (("--keep", "all"), "C021", "--keep all needs a folder"),
        (("--engine", "ray"), "C020", "there is no engine 'ray'"),
        (("--over", "cluster.nodes"), "C010", "is not KEY=VALUES"),
        (("--over", "cluster.nodes=1..8 s"), "C010", "needs a step"),
        (("--over", "plan.tpp=1,2"), "D003", "unknown key"),
    ],
)
def test_what_cannot_be(options: tuple[str, ...], code: str, words: str, run: Any) -> None:
    ran = run("search", NAME, *options)
    assert (ran.code, ran.out) == (2, "")
    assert f"error[{code}]" in ran.err
    assert words in ran.err


def test_leaves_in_every_form(run: Any, tmp_path: Path) -> None:
    """The values of varied leaves stand in the table, in JSON and in CSV, and in the command to type next."""
    over = ("--over", "cluster.nodes=64,128", "--top", "3")
    text = run("search", NAME, *over).out
    assert "over cluster.nodes: 64, 128" in text
    assert "--set cluster.nodes=" in text
    names, row = run("search", NAME, *over, "--format", "csv").out.splitlines()[:2]
    assert dict(zip(names.split(","), row.split(","), strict=False))["cluster.nodes"] in ("64", "128")
    plans = json.loads(run("search", NAME, *over, "--json").out)["plans"]
    assert {plan["cluster.nodes"] for plan in plans} <= {64, 128}
