"""The answer of each command fits a screen of 80 × 24 beneath its prompt, and -v shows all of it."""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import replace

import pytest
from conftest import ROOT, Ran, Run
from rich.text import Text

from costmodel.report.document import AnswerDocument, Column, Section, Table
from costmodel.report.terminal.document_lines import document_lines
from costmodel.report.terminal.layout import Abridged, Detail, laid_out, lines_of_length, short_or_full

LINES = 23  # of 24, the prompt takes one
SCREEN = {"COLUMNS": "80", "LINES": "24", "NO_COLOR": "1"}
TRAINING, SERVICE, RL = "llama-3-70b-512", "serve-llama-3.1-70b", "grpo-qwen-2.5-7b-64"
FLAGS = "--model llama-3.1-70b --rate 5 --prompt 2000 --answer 500"
COMMON = [  # tried each time; the others in turn
    *(f"{verb} {TRAINING}" for verb in ("estimate", "memory", "comm", "search", "run", "sensitivity", "check")),
    f"explain {TRAINING} step_time",
    f"sweep {TRAINING} --over plan.tp=1,2,4,8",
    f"diff {TRAINING} {TRAINING} --set plan.tp=4",
    f"diff {TRAINING} --set cluster.node=dgx-a100",
    f"buy {SERVICE} --with quickstart --node neocloud-h100,g4dn-metal",
    f"scale {TRAINING} --ranks 64..4096 --weak --set 'workload.critical_batch=4 M'",
]
COMMANDS = [
    *(f"{verb} {name}" for verb in ("estimate", "memory", "comm", "search") for name in (SERVICE, RL)),
    f"run {RL}",
    f"sensitivity {SERVICE}",
    *(f"explain {TRAINING} {figure}" for figure in ("memory_peak", "mfu")),
    f"explain {SERVICE} tpot",
    f"explain {RL} iteration_time",
    f"sweep {SERVICE} --over plan.tp=4,8",
    f"scale {TRAINING} --ranks 64..1024",
    f"scale {SERVICE} --rate 4..16",
    f"diff {SERVICE} {SERVICE} --set plan.tp=2",
    f"check {SERVICE}",
    f"pipeline {TRAINING}",
    "buy --model llama-3.1-8b --rate 5 --prompt 2000 --answer 500 --ttft 1s --gpu h100,b200",
    "memory --model llama-3.1-70b --gpu h100 --gpus 64",
    f"search {FLAGS}",
    "search --rl grpo --model qwen-3-8b --gpu h100 --gpus 64 --answer 4k",
    "memory llama-3-70b",
    "memory --model llama-3.1-8b",
    "explain",
    "list",
    "collective all-reduce 256MB --gpus 16 --gpu h100",
    pytest.param("validate", marks=pytest.mark.whole),
    pytest.param("buy --model llama-3.1-70b --rate 50 --prompt 2000 --answer 500 --ttft 1s", marks=pytest.mark.whole),
]


COMMON_DO_NOT_FIT = [
    f"memory {TRAINING} --set plan.tp=1 --set plan.pp=1",
    "memory --model mixtral-8x7b --gpu a100 --gpus 8",
]
DO_NOT_FIT = [
    "memory --model llama-3.1-405b --gpu h100 --gpus 64",
    "memory --model gpt-oss-120b --gpu h100 --gpus 8 --set plan.pp=2",
    "memory --model llama-3.1-405b --rate 5 --gpu h100 --gpus 8",
    "memory --rl grpo --model qwen-2.5-72b --gpu h100 --gpus 8",
    "estimate --model gpt-oss-120b --gpu h100 --gpus 8 --set plan.pp=2",
]


@pytest.mark.parametrize("line", [*COMMON, *COMMON_DO_NOT_FIT])
def test_a_common_answer_fits_a_screen(line: str, run: Run) -> None:
    fits_a_screen(line, run, does_not_fit=line in COMMON_DO_NOT_FIT)


@pytest.mark.parametrize("line", [*COMMANDS, *DO_NOT_FIT])
def test_an_answer_fits_a_screen(line: str, run: Run) -> None:
    fits_a_screen(line, run, does_not_fit=line in DO_NOT_FIT)


def fits_a_screen(line: str, run: Run, *, does_not_fit: bool) -> None:
    ran = run(*shlex.split(line), env=SCREEN, screen=True, brief=True)
    shown = ran.out.splitlines()
    assert shown
    assert height(ran.out) <= LINES, ran.out
    assert sum("More with -v" in each for each in shown) <= 1
    assert does_not_fit == any("does not fit: " in each for each in shown)


def height(shown: str) -> int:
    """The lines that a terminal of 80 columns takes."""
    return sum(max(1, math.ceil(len(each) / 80)) for each in shown.splitlines())


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DOCUMENTED = sorted(
    {
        line
        for page in PAGES
        for line in re.findall(r"(?m)^\$ costmodel (.+)$", page.read_text("utf-8"))
        if not re.search(r" [|>] ", line)
    }
)
# Documents and commands to run, and what the user asked for: all of it, a front, reasons, a tree, what to measure.
LONGER = re.compile(r"^(?:import|export|measure) | -v\b| --(?:pareto|why-not|depth|measured|measure-next)\b")


@pytest.mark.parametrize("line", DOCUMENTED)
def test_a_documented_answer_fits_a_screen(line: str, run: Run) -> None:
    ran = run(*shlex.split(line), env=SCREEN, screen=True, brief=True)
    assert LONGER.search(line) or height(ran.out) <= LINES, ran.out
    assert_same_end(ran, run(*shlex.split(line), brief=True))


def assert_same_end(ran: Ran, piped: Ran) -> None:
    """The screen has the remarks and the commands to go on with that a pipe has."""
    words = " ".join(ran.out.replace(" \\\n", " ").split())
    for each in piped.out.splitlines():
        assert not each.startswith("Next") or " ".join(each.split()) in words
        assert all(code in words for code in re.findall(r"▲ [A-Z]\d{3}", each))


@pytest.mark.parametrize("count", [0, 1, 4, 40])
@pytest.mark.parametrize("parts", [1, 3, 8])
@pytest.mark.parametrize("asked", [False, True])
def test_any_short_answer_fits_a_screen(count: int, parts: int, *, asked: bool) -> None:
    sentence = "A sentence that goes on for longer than half of a line of a terminal does."
    columns = [Column("name", "k"), Column("note", "l", legend=sentence), Column("size")]
    table = Table(columns, [[f"row{place}", sentence, f"{place}"] for place in range(count)], rest="thing")
    text, remark = Text(f"  {' '.join([sentence] * 3)}"), Text("  ▲ N001 a remark", style="warn")
    sections = [Section(f"{place}", "Part", table=table, beneath=[text]) for place in range(parts)]
    sections[0] = replace(sections[0], asked=asked)
    closing = [Text(f"The conclusion. {' '.join([sentence] * 6)}"), Text(" ".join([sentence] * 4)), Text("Next: go on")]
    document = AnswerDocument(None, "", [Text("subject")], "", "plain", sections, [remark], closing=closing)
    shown = [line.plain for line in laid_out(document_lines(document), 80, verbose=False)]
    whole = "\n".join(shown)
    assert len(shown) <= LINES + (count + 6 if asked else 0), whole
    assert shown[0] == "subject"
    assert shown[-1] == "Next: go on"
    assert remark.plain in shown
    assert "The conclusion." in whole
    assert not asked or all(f"  row{place} " in whole for place in range(count))
    assert sum("More with -v: " in line for line in shown) <= 1


def test_a_long_table_says_how_many_rows_it_leaves_out() -> None:
    table = Table([Column("name", "k"), Column("size")], [[f"row{place}", "1"] for place in range(50)], rest="thing")
    document = AnswerDocument(None, "", [Text("subject")], "", "plain", [Section("things", "", table=table)])
    shown = [line.plain.strip() for line in laid_out(document_lines(document), 80, verbose=False)]
    rows = [line for line in shown if line.startswith("row")]
    assert [line.split() for line in rows] == [[f"row{place}", "1"] for place in range(len(rows))]
    assert shown[-1] == f"More with -v: {50 - len(rows)} things"
    assert len(shown) == LINES


def test_all_of_an_answer_has_each_line_of_the_short_one_or_more(run: Run) -> None:
    short, whole = (run("estimate", TRAINING, *more, brief=True).out.splitlines() for more in ((), ("-v",)))
    assert len(whole) > len(short)
    assert not any("More with -v" in each for each in whole)
    assert sum(" assumed " in each for each in whole) == sum(" assumed " in each for each in short) == 1
    assert "workload.gradients" in "\n".join(whole)


def test_other_forms_have_all_of_it(run: Run) -> None:
    for form in ("json", "csv", "markdown"):
        forms = [run("estimate", TRAINING, "--format", form, *more) for more in ((), ("-v",))]
        assert forms[0] == forms[1]
    assert "optimizer" in run("estimate", TRAINING, "--format", "markdown").out


def test_an_answer_without_more_says_so(run: Run) -> None:
    ran = run("list", "gpus", "-v", brief=True)
    assert "-v adds nothing" in ran.err
    assert ran.out == run("list", "gpus").out


def test_a_document_in_both_lengths() -> None:
    table = Table([Column("a"), Column("b")], [["1", "2"], ["3", "4"], ["5", "6"]], brief=1, rest="pair")
    sections = [
        Section("pairs", "Pairs", table=table, beneath=[Abridged("long words", short="words", added="the words")]),
        Section("aside", "Aside", beneath=[Text("all of it")], detail="the rest"),
        Section("other", "Other", table=table, short=Table([Column("c")], [["7"]])),
    ]
    document = AnswerDocument(None, "", [Text("head")], "", "plain", sections, closing=[Text("Next: go on")])
    brief, whole = (
        [line.plain.strip() for line in laid_out(document_lines(document), 80, verbose=verbose)]
        for verbose in (False, True)
    )
    assert brief == ["head", "", "a  b", "1  2", "words", "", "c", "7",
                     "More with -v: 2 pairs, the words, the rest, pair", "", "Next: go on"]  # fmt: skip
    pairs = ["a  b", "1  2", "3  4", "5  6"]
    assert whole == ["head", "", *pairs, "long words", "", "all of it", "", *pairs, "", "Next: go on"]


def test_equal_lengths_are_one() -> None:
    lines = [Text("a")]
    assert short_or_full(lines, lines, "b") == lines
    assert [line.plain for line in lines_of_length([Detail(lines), Text("b")], verbose=False)] == [
        "b",
        "  More with -v",
    ]
