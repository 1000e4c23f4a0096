"""Every relative link of README and docs leads to a file, every anchor to a heading; every page can be reached."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from costmodel.documents.keys.overrides import full
from costmodel.documents.keys.schema_paths import key_of
from costmodel.documents.keys.workload_keys import LABELLED, SCENARIOS

from .catalogue import PACKAGE, ROOT, relative

README_LINES = 130
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


# ── Keys that prose names ────────────────────────────────────────────────────────────────────────────────────────────

_KEY = re.compile(
    r"(?<![\w./$-])(?:plan|workload|stack|cluster|assume|run|limits|search|model)"
    r"\.[a-z][a-z_0-9]*(?:\.[a-z_0-9]+)*(?![\w(*/-])"
)
_BLOCK = re.compile(r"(?ms)^ *```(\w*)\n(.*?)^ *```$")
_FILES = (".py", ".yaml", ".yml", ".html", ".json", ".csv", ".md", ".log", ".sh")
FOREIGN = PACKAGE / "exchange"  # it names keys of other tools
WRITTEN_ELSEWHERE = {
    "workload.s",  # the beginning of a key, in an example
    "model.seq_length",  # of Megatron-Bridge
    *(key for keys in LABELLED.values() for key in keys),  # what people write in place of a key
    "cluster.node.accelerator.efficiency.attention",  # a figure of an efficiency, by the path that sensitivity prints
    "cluster.node.accelerator.efficiency.memory.share",
}


def prose() -> Iterator[tuple[Path, str]]:
    """Pages without code in Python, texts of modules (help, hints, remarks, docstrings), and lists of words."""
    for page in PAGES:
        if page.name != "changelog.md" and page != DOCS / "reference" / "equations.md":  # whose headings are modules
            text = page.read_text("utf-8")
            yield page, _BLOCK.sub(lambda found: "" if found[1] in ("python", "py") else found[2], text)
    for module in sorted(PACKAGE.rglob("*.py")):
        if FOREIGN not in module.parents:
            nodes = ast.walk(ast.parse(module.read_text("utf-8")))
            yield (
                module,
                "\n".join(
                    node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)
                ),
            )
    for words in sorted(PACKAGE.rglob("*.yaml")):
        yield words, words.read_text("utf-8")


def named_keys(text: str) -> set[str]:
    """The keys of a scenario that a text names by their path."""
    return {key for key in _KEY.findall(text) if not key.endswith(_FILES)}


def test_every_key_that_prose_names_exists() -> None:
    unknown = {
        f"{relative(path)}: {key}"
        for path, text in prose()
        for key in named_keys(text) - WRITTEN_ELSEWHERE
        if not any(key_of(schema, full(key)) for schema in SCENARIOS.values())
    }
    assert sorted(unknown) == []


def test_a_key_that_does_not_exist_is_found() -> None:
    assert named_keys("shard within a node (`plan.dp_shard=8`), see plan.py and `plan.…`") == {"plan.dp_shard"}
    assert not any(key_of(schema, "plan.dp_shard") for schema in SCENARIOS.values())
    assert named_keys("--set 'workload.tuning.rank=8' or run.checkpoint.") == {"workload.tuning.rank", "run.checkpoint"}
