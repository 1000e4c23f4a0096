"""The questions that people ask, each answered on a page of docs/answers; `explain` prints the same page.

The first line of a page is a comment with the words that lead to it, the second begins the question:

    <!-- costmodel explain: nccl -->
    # What do the five operations of NCCL do?
"""

from __future__ import annotations

import functools
import re

from costmodel.documents.reader.folders import shipped
from costmodel.ground.record import record

FOLDER = "docs/answers"
_PAGE = re.compile(r"<!-- costmodel explain: (?P<words>[^\n]*) -->\n+# (?P<question>[^\n]*)\n(?P<text>.*)", re.DOTALL)
_PART = re.compile(r"^```.*?^```$|(?:^(?!```)[^\n]+\n?)+", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\([^)\s]*\)")
_LIST_ITEM = re.compile(r"\n(?=- )")


@record
class AnsweredQuestion:
    """A question with its answer in Markdown, and the words that find it; the file name is the first word."""

    words: tuple[str, ...]
    question: str
    text: str

    def parts(self) -> list[tuple[str, bool]]:
        """The blocks of the answer as plain text, each with whether it is code, which is unchanged."""
        blocks: list[tuple[str, bool]] = []
        for part in _PART.findall(self.text):
            if part.startswith("```"):
                blocks.append(("\n".join(part.splitlines()[1:-1]), True))
            elif part.startswith("|"):
                blocks.append(("\n".join(map(_without_markup, part.splitlines())), False))
            else:
                blocks += [(_without_markup(item), False) for item in _LIST_ITEM.split(part)]
        return blocks


def _without_markup(markdown: str) -> str:
    """A text without Markdown markup, on one line."""
    return " ".join(_LINK.sub(r"\1", markdown).replace("**", "").replace("`", "").split())


def parsed(name: str, markdown: str) -> AnsweredQuestion | None:
    """The question on a page; None if the first lines of the page name no words."""
    match = _PAGE.match(markdown)
    if match is None:
        return None
    words = (word.strip() for word in match["words"].split(","))
    return AnsweredQuestion(tuple(dict.fromkeys((name, *words))), match["question"].strip(), match["text"].strip())


@functools.cache
def questions() -> tuple[AnsweredQuestion, ...]:
    """All frequent questions with their answers, from docs/answers."""
    pages = sorted(shipped(FOLDER).glob("*.md"))
    answered = (parsed(page.stem, page.read_text(encoding="utf-8")) for page in pages)
    return tuple(question for question in answered if question is not None)


def question_of(word: str) -> AnsweredQuestion | None:
    """The question for a word, regardless of capital letters; blanks and hyphens are equal."""
    key = "-".join(word.lower().split())
    return next((question for question in questions() if key in question.words), None)
