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
    """A question with its answer in Markdown, and the words that lead to it, the name of its file first."""

    words: tuple[str, ...]
    question: str
    text: str

    def parts(self) -> list[tuple[str, bool]]:
        """Its paragraphs and items of lists as plain sentences, tables a line a row, and blocks of code, that are true,
        as they are.
        """
        found: list[tuple[str, bool]] = []
        for part in _PART.findall(self.text):
            if part.startswith("```"):
                found.append(("\n".join(part.splitlines()[1:-1]), True))
            elif part.startswith("|"):
                found.append(("\n".join(map(_plain, part.splitlines())), False))
            else:
                found += [(_plain(item), False) for item in _LIST_ITEM.split(part)]
        return found


def _plain(markdown: str) -> str:
    """Text without marks: links as their words, in one line."""
    return " ".join(_LINK.sub(r"\1", markdown).replace("**", "").replace("`", "").split())


def parsed(name: str, markdown: str) -> AnsweredQuestion | None:
    """A page as a question; None where its first lines name no words, as those of the list of pages."""
    found = _PAGE.match(markdown)
    if found is None:
        return None
    words = (word.strip() for word in found["words"].split(","))
    return AnsweredQuestion(tuple(dict.fromkeys((name, *words))), found["question"].strip(), found["text"].strip())


@functools.cache
def questions() -> tuple[AnsweredQuestion, ...]:
    """Every answered question."""
    pages = sorted(shipped(FOLDER).glob("*.md"))
    found = (parsed(page.stem, page.read_text(encoding="utf-8")) for page in pages)
    return tuple(question for question in found if question is not None)


def question_of(word: str) -> AnsweredQuestion | None:
    """The question a word leads to, in any capitalisation, with blanks or hyphens."""
    key = "-".join(word.lower().split())
    return next((question for question in questions() if key in question.words), None)
