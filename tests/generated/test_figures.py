"""The figures of docs are those that the program draws now, each below its command."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from .figures import DOCS, FIGURES, FOLDER, with_paper

CONFIGURATION = DOCS / "zensical.toml"


def rounded(drawn: str) -> str:
    """With numbers of 12 digits: of the last of 17 each processor has its own."""
    return re.sub(r"\d+\.\d{9,}", lambda found: f"{float(found[0]):.12g}", drawn)


@pytest.mark.share(3)
@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_fresh(name: str, run: Any) -> None:
    command, _ = FIGURES[name]
    drawn = run(*command.split(), "--format", "svg", "-o", "-").out
    kept = (FOLDER / f"{name}.svg").read_text("utf-8")
    assert rounded(with_paper(drawn)) == rounded(kept), "python -m tests.generated.figures draws them again"


def test_a_figure_stands_below_its_command() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(FIGURES)
    for name, (command, page) in FIGURES.items():
        _, _, below = (DOCS / page).read_text("utf-8").partition(f"$ costmodel {command}\n")
        beneath = below.partition("\n```\n\n")[2].lstrip()
        image, _, _ = beneath.partition("\n")
        assert image.startswith("![")
        assert image.endswith(f"(../figures/{name}.svg)")


def test_the_menu_has_every_page_once() -> None:
    """In the order of use; a page that is not in it cannot be found on the site."""
    text = CONFIGURATION.read_text("utf-8")
    menu = text[text.index("nav = ") : text.index("\n]\n")]
    shown = [json.loads(word) for word in menu.replace(",", " ").split() if word.endswith('.md"')]
    assert sorted(shown) == sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
    order = ["Start", "Tutorial", "Answers", "Guide", "Accuracy", "Reference", "Project"]
    assert [name for name in order if f'"{name}" =' in menu] == order
    assert sorted(order, key=lambda name: menu.index(f'"{name}" =')) == order
