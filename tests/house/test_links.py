"""Every relative link of README and docs leads to a file, every anchor to a heading; every page can be reached."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .catalogue import ROOT, relative

README_LINES = 150
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
_FENCE = re.compile(r"(?ms)^ *```.*?^ *```$")
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_HEADING = re.compile(r"(?m)^#+ (.*)$")
every_page = pytest.mark.parametrize("page", PAGES, ids=relative)


def links_of(text: str) -> list[str]:
    """The targets of the links in a text of Markdown, without those in code."""
    return _LINK.findall(_CODE.sub("", _FENCE.sub("", text)))


def anchors_of(text: str) -> Iterator[str]:
    """The anchors of the headings, as a forge makes them."""
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        yield re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def broken_links(page: Path, text: str) -> Iterator[str]:
    """The relative links of a page that lead nowhere."""
    for link in links_of(text):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors_of(target.read_text("utf-8"))):
            yield link


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    assert list(broken_links(page, page.read_text("utf-8"))) == []


def test_every_page_can_be_reached() -> None:
    """From the README, by links alone."""
    reached, waiting = set(), [PAGES[0]]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        names = [link.partition("#")[0] for link in links_of(page.read_text("utf-8"))]
        waiting += [target for name in names if (target := (page.parent / name).resolve()).suffix == ".md"]
    assert [relative(page) for page in PAGES if page not in reached] == []


# What people come for, and a text of the page that answers it.
WANTED = ["  h100-sxm  ", "hardware/accelerators/mine.yaml", "costmodel check", "| L002 |"]


@pytest.mark.parametrize("text", WANTED)
def test_two_clicks_from_the_readme_answer(text: str) -> None:
    pages, clicked = {PAGES[0]}, set[Path]()
    for _ in range(2):
        links = [(page.parent, link.partition("#")[0]) for page in pages for link in links_of(page.read_text("utf-8"))]
        pages = {(folder / name).resolve() for folder, name in links if name.endswith(".md")}
        clicked |= pages
    assert any(text in page.read_text("utf-8") for page in clicked)


def test_readme_is_short() -> None:
    assert len(PAGES[0].read_text("utf-8").splitlines()) <= README_LINES


def test_planted_faults_are_caught(tmp_path: Path) -> None:
    text = "# A b, `c`!\n\n[1](#a-b-c) [2](#d) [3](gone.md) [4](https://x.y) `[5](code.md)`\n```\n[6](code.md)\n```\n"
    page = tmp_path / "page.md"
    page.write_text(text, "utf-8")
    assert list(broken_links(page, text)) == ["#d", "gone.md"]
