"""What a transcript says a command prints is what it prints.

A transcript is a console block of the README or of a page in docs/, or a text file beside this one:

    $ costmodel explain busbw | what follows is the output, up to the next line that begins with "$ "

A line that is "…" alone stands for any number of lines. The time a search took differs from run to run and is not
compared. Never edit the output by hand; write it again with

    python -m pytest tests/transcripts --update-transcripts

which keeps the "…" of a block: of the lines above the first and below the last as many are taken from the new output,
and between two of them the lines that resemble the old ones most.
"""

from __future__ import annotations

import difflib
import functools
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from each import each

from costmodel.commands.command_table import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).resolve().parent
GAP = "…"
CONSOLE = re.compile(r"(?ms)^```console\n(.*?)^```$")
ELAPSED = re.compile(r"(?m)(?<=· )\d+\.\d\d s$")
COMMAND = "$ costmodel"
SHELL = re.compile(r" [|>] ")  # what a shell would do is not run


@dataclass(frozen=True)
class Transcript:
    """One command and what it must print."""

    file: Path
    line: int
    command: str
    expected: tuple[str, ...]

    def __str__(self) -> str:
        return f"{shown(self.file)}:{self.line}"


def shown(file: Path) -> str:
    """A file as seen from the root of the checkout."""
    return file.relative_to(ROOT).as_posix() if file.is_relative_to(ROOT) else file.name


def transcripts_in(file: Path, text: str) -> list[Transcript]:
    """Every command of a text with the lines that follow it."""
    if file.suffix == ".md":
        parts = [(text.count("\n", 0, found.start(1)) + 1, found[1]) for found in CONSOLE.finditer(text)]
    else:
        parts = [(1, text)]
    return [found for start, part in parts for found in _commands(file, start, part)]


def _commands(file: Path, start: int, part: str) -> list[Transcript]:
    lines = part.splitlines()
    marks = [number for number, line in enumerate(lines) if line.startswith("$ ")]
    ends = [*marks[1:], len(lines)]
    return [
        Transcript(file, start + mark, lines[mark], tuple(_trimmed(lines[mark + 1 : end])))
        for mark, end in zip(marks, ends, strict=True)
        if lines[mark].startswith(COMMAND) and not SHELL.search(lines[mark])
    ]


def _trimmed(lines: list[str]) -> list[str]:
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines


def pieces_of(expected: tuple[str, ...]) -> list[list[str]]:
    """The lines before, between and after the gaps."""
    pieces: list[list[str]] = [[]]
    for line in expected:
        if line == GAP:
            pieces.append([])
        else:
            pieces[-1].append(line)
    return pieces


def matches(expected: tuple[str, ...], printed: list[str]) -> bool:
    """Whether the output is the expected one, where "…" stands for any number of lines."""
    if GAP not in expected:
        return list(expected) == printed
    first, *inner, last = pieces_of(expected)
    if printed[: len(first)] != first or len(first) + len(last) > len(printed):
        return False
    if last and printed[-len(last) :] != last:
        return False
    rest = printed[len(first) : len(printed) - len(last)]
    for piece in inner:
        at = next((start for start in range(len(rest) + 1) if rest[start : start + len(piece)] == piece), None)
        if at is None:
            return False
        rest = rest[at + len(piece) :]
    return True


def renewed(expected: tuple[str, ...], printed: list[str]) -> list[str]:
    """The output as a transcript writes it: whole, or with the gaps where they were."""
    if GAP not in expected:
        return printed
    first, *inner, last = pieces_of(expected)
    if len(first) + len(last) >= len(printed):
        return printed
    end = len(printed) - len(last)
    found, rest = [*printed[: len(first)], GAP], printed[len(first) : end]
    for piece in inner:
        start = most_alike(piece, rest)
        if start is not None:
            found += [*rest[start : start + len(piece)], GAP]
            rest = rest[start + len(piece) :]
    return [*found, *printed[end:]]


def most_alike(piece: list[str], lines: list[str]) -> int | None:
    """Where the lines begin that resemble a piece most; None where none does by half."""

    def likeness(start: int) -> float:
        pairs = zip(piece, lines[start:], strict=False)
        return sum(difflib.SequenceMatcher(None, old, new).ratio() for old, new in pairs) / len(piece)

    starts = range(len(lines) - len(piece) + 1)
    best = max(starts, key=likeness, default=None)
    return best if best is not None and likeness(best) > 0.5 else None


def printed_by(transcript: Transcript, run: Any) -> list[str]:
    """What the command prints now, answer and talk, with the time of a search as it is written in the transcript."""
    return list(_printed(transcript.command, run))


@functools.cache
def _printed(command: str, run: Any) -> tuple[str, ...]:
    """Several pages show the same command."""
    words = shlex.split(command.removeprefix("$ "))
    ran = run(*words[1:], brief=True)
    return tuple(_trimmed((ran.out + ran.err).splitlines()))


def normal(lines: list[str] | tuple[str, ...]) -> list[str]:
    """Lines without what differs from run to run."""
    return [ELAPSED.sub("0.00 s", line) for line in lines]


def rewritten(file: Path, text: str, run: Any) -> str:
    """The text with every output as it is printed now."""
    lines = text.splitlines()
    for found in reversed(transcripts_in(file, text)):
        printed = printed_by(found, run)
        if not matches(tuple(normal(found.expected)), normal(printed)):
            lines[found.line : found.line + len(found.expected)] = renewed(found.expected, printed)
    return "\n".join(lines) + "\n"


FILES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted(FOLDER.glob("*.txt"))]
TRANSCRIPTS = [found for file in FILES for found in transcripts_in(file, file.read_text("utf-8"))]


def test_every_command_has_a_transcript() -> None:
    answer = {transcript.command.split()[2] for transcript in TRANSCRIPTS if transcript.file.suffix == ".txt"}
    assert answer >= set(COMMANDS)


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda found: f"{shown(found.file)} {found.command[12:]}")
def test_transcript(transcript: Transcript, run: Any, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-transcripts"):
        pytest.skip("being written")
    printed = normal(printed_by(transcript, run))
    if not matches(tuple(normal(transcript.expected)), printed):
        assert normal(transcript.expected) == printed, f"{transcript}: --update-transcripts writes it again"


@each("file", FILES)
def test_update(file: Path, run: Any, request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--update-transcripts"):
        pytest.skip("only with --update-transcripts")
    text = file.read_text("utf-8")
    new = rewritten(file, text, run)
    if new != text:
        file.write_text(new, "utf-8")


SAMPLE = """Words.

```console
$ costmodel explain busbw
busbw  old words
…
last

$ costmodel list nowhere

$ costmodel show llama-3-70b-512 > mine.yaml
```

```sh
$ costmodel not this one
```
"""


def test_commands_are_found() -> None:
    found = transcripts_in(Path("a.md"), SAMPLE)
    assert [(item.line, item.command) for item in found] == [
        (4, "$ costmodel explain busbw"),
        (9, "$ costmodel list nowhere"),
    ]
    assert [item.expected for item in found] == [("busbw  old words", "…", "last"), ()]
    assert [item.line for item in transcripts_in(Path("a.txt"), "$ costmodel x\ny\n")] == [1]


@pytest.mark.parametrize(
    ("expected", "same"),
    [
        ("a b c d", True),
        ("a … d", True),
        ("…", True),
        ("… d", True),
        ("a …", True),
        ("a … c … d", True),
        ("… b … d …", True),
        ("a b c d …", True),
        ("a b c", False),
        ("a … c", False),
        ("a … x … d", False),
        ("a b c … c d", False),
        ("… c … b …", False),
    ],
)
def test_gaps(expected: str, same: bool) -> None:
    assert matches(tuple(expected.split()), list("abcd")) is same


def test_outputs_are_written_again(run: Any) -> None:
    answer = rewritten(Path("a.md"), SAMPLE, run)
    assert answer.startswith("Words.\n\n```console\n$ costmodel explain busbw\nbusbw  ")
    assert "old words" not in answer
    assert "…" in answer or "last" not in answer
    assert "there is no group of documents called 'nowhere'" in answer
    assert "$ costmodel not this one\n```\n" in answer
    assert rewritten(Path("a.md"), answer, run) == answer


def test_lines_between_gaps_are_kept() -> None:
    old, new = ("…", "step 14 s", "memory 5 GiB", "…", "cost 3", "…"), ["head", "step 16 s", "memory 9 GiB", "x", "end"]
    assert renewed(old, new) == ["…", "step 16 s", "memory 9 GiB", "…"]
    assert renewed(("a", "…", "b", "c"), ["1", "2", "3", "4"]) == ["1", "…", "3", "4"]


def test_the_time_of_a_search_is_not_compared() -> None:
    assert normal(["512 GPUs · 795 fit · 0.03 s"]) == normal(["512 GPUs · 795 fit · 12.40 s"])
    assert normal(["step 0.03 s"]) != normal(["step 0.04 s"])
