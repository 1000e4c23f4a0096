"""The figures of docs/figures, as commands draw them: `python -m tests.generated.figures` draws them again.

A page shows a figure below the block of its command; with `-o figure.svg` a reader draws the same.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
FOLDER = DOCS / "figures"
MARGIN = 10
_SIZE = re.compile(r'viewBox="0 0 (\d+) (\d+)" width="\d+" height="\d+"')
FIGURES = {  # by name: the command, and the page on which it stands
    "step-time": ("estimate llama-3-70b-512", "guide/plan.md"),
    "memory": ("memory llama-3-70b-512", "guide/plan.md"),
    "pipeline": ("pipeline llama-3-70b-512", "guide/plan.md"),
    "front": (
        "search gpt-3-175b-1024 --pareto memory_peak,step_time --set search.recompute=[full]",
        "guide/search.md",
    ),
    "sensitivity": ("sensitivity llama-3-70b-512 --top 8", "guide/what-if.md"),
    "measured": ("validate --by source", "accuracy/index.md"),
}


def with_paper(drawn: str) -> str:
    """A figure on white paper with a margin, which shows on a dark page too."""
    found = _SIZE.search(drawn)
    assert found
    width, height = (int(number) + 2 * MARGIN for number in found.groups())
    place = f'x="-{MARGIN}" y="-{MARGIN}" width="{width}" height="{height}"'
    head, _, rest = drawn.partition(">")
    head = _SIZE.sub(f'viewBox="-{MARGIN} -{MARGIN} {width} {height}" width="{width}" height="{height}"', head)
    return f'{head}><rect {place} rx="6" fill="#ffffff"/>{rest}'


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, (command, _) in FIGURES.items():
        words = [sys.executable, "-m", "costmodel", *command.split(), "--format", "svg", "-o", "-"]
        drawn = subprocess.run(words, stdout=subprocess.PIPE, check=True, text=True).stdout
        (FOLDER / f"{name}.svg").write_text(with_paper(drawn), "utf-8")


if __name__ == "__main__":
    main()
