"""Pages of docs/answers are found by their words, printed without marks, and listed with their question."""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Any

import pytest

from costmodel.explore.explain.page_search import parse_question, questions

PAGES = Path(__file__).resolve().parents[3] / "docs/answers"
PAGE = """<!-- costmodel explain: b, c-d -->
# Is it **so**?

It is [this](x.md), see
`plan.tp`:

- one
- **two**
  lines

```console
$ costmodel list
…
```

**The common mistake:** none.
"""


def test_a_page_is_read_as_plain_sentences() -> None:
    page = parse_question("a", PAGE)
    assert page is not None
    assert (page.words, page.question) == (("a", "b", "c-d"), "Is it **so**?")
    assert page.parts() == [
        ("It is this, see plan.tp:", False),
        ("- one", False),
        ("- two lines", False),
        ("$ costmodel list\n…", True),
        ("The common mistake: none.", False),
    ]
    assert parse_question("index", "# Answers\n") is None


def test_every_page_has_words_a_number_and_a_mistake_and_is_listed() -> None:
    pages = {page.stem for page in PAGES.glob("*.md")} - {"index"}
    listed = (PAGES / "index.md").read_text("utf-8")
    assert {question.words[0] for question in questions()} == pages
    for question in questions():
        assert f"- [{question.question}]({question.words[0]}.md)" in listed
        assert "mistake" in question.text
        blocks = [text for text, is_code in question.parts() if is_code]
        assert blocks
        assert all(set(block.splitlines()[1:]) - {"…"} for block in blocks), f"{question.words[0]}: no number"
    words = collections.Counter(word for question in questions() for word in question.words)
    assert [word for word, count in words.items() if count > 1] == []


@pytest.mark.parametrize(
    "words",
    ["all-reduce", "nccl", "ddp-or-fsdp", "DDP or FSDP", "activation-checkpointing", "gradient-bucketing", "zero"],
)
def test_explain_prints_the_page(run: Any, words: str) -> None:
    ran = run("explain", *words.split())
    assert ran.code == 0
    assert "The common mistake: " in ran.out
    assert "**" not in ran.out
    assert "](" not in ran.out
