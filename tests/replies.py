"""Commands that are run again answer without computing again.

Many tests ask the same of the command line: as a table and as JSON, in a transcript and for its labels. A command
computes a `Reply`, and then writes it in the form asked for. Replies are cached here, and so is what pages show of a
scenario: every form is still written anew, and a reply is computed anew wherever more than the question decides on it.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from costmodel.commands import answer_options, rl, serving, training
from costmodel.commands.scenario_options import Question
from costmodel.evidence.calibrate import engine_fit
from costmodel.evidence.calibrate import fit_from_runs as refine_from_runs
from costmodel.evidence.calibrate import regression_problem as default_efficiency
from costmodel.evidence.validate import validate
from costmodel.explore.page import report_facts, rl_facts, serving_facts
from costmodel.explore.serving import best_fleets, search_remedies
from costmodel.explore.vary import sensitivity
from costmodel.report.terminal.layout import Reply

ROOT = Path(__file__).resolve().parents[1]
PURE = (
    *("estimate", "memory", "comm", "pipeline", "run", "explain", "search", "sweep", "scale", "sensitivity", "solve"),
    *("diff", "check", "diagnose", "validate", "list_documents", "report"),
)
MOST = 1000  # replies of a process, and cases, and what was computed of these


class Replies:
    """Replies of this process by what was asked; `open` while nothing but the question decides on the answer."""

    def __init__(self) -> None:
        self.kept: dict[tuple[Any, ...], Any] = {}
        self.open, self.unpatched = True, False

    def answers(self, given: dict[str, Any]) -> bool:
        """Whether the same was answered, or will be, wherever it is asked again."""
        return self.open and self.unpatched and _is_of_the_checkout(given)

    def keep(self, key: tuple[Any, ...], value: Any) -> None:
        """Keep what was computed; what was asked for longest ago goes."""
        if len(self.kept) >= MOST:
            del self.kept[next(iter(self.kept))]
        self.kept[key] = value

    def found(self, key: tuple[Any, ...]) -> Any:
        """What was kept."""
        self.kept[key] = self.kept.pop(key)
        return self.kept[key]

    def of(self, command: Callable[..., Reply]) -> Callable[..., Reply]:
        """The command, whose reply is kept unless it printed anything on the way."""

        @functools.wraps(command)
        def asked(**given: Any) -> Reply:
            key = command.__name__, repr(sorted(given.items()))
            if command.__name__ not in PURE or not self.answers(given):
                return command(**given)
            if key in self.kept:
                return self.found(key)
            before = sys.stdout.tell(), sys.stderr.tell()
            reply = command(**given)
            if reply.again is None and not reply.stopped and before == (sys.stdout.tell(), sys.stderr.tell()):
                self.keep(key, reply)
            return reply

        return asked

    def of_words(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """What a function of the tests makes of a few words, such as settings."""

        @functools.wraps(function)
        def asked(*words: str) -> Any:
            key = function.__module__, function.__qualname__, *words
            if not self.answers({"words": words}):
                return function(*words)
            if key not in self.kept:
                self.keep(key, function(*words))
            return self.found(key)

        return asked

    def of_texts(self, function: Callable[..., str]) -> Callable[..., str]:
        """The text that a function makes of texts and plain values alone, wherever it is called again."""

        @functools.wraps(function)
        def asked(*given: Any, **named: Any) -> str:
            key = function.__qualname__, repr(given), repr(named)
            if key not in self.kept:
                self.keep(key, function(*given, **named))
            return str(self.found(key))

        return asked

    def of_question(self, loaded: Callable[..., Any]) -> Callable[..., Any]:
        """A scenario that is loaded as another command did is the same object."""

        @functools.wraps(loaded)
        def asked(question: Question, **how: Any) -> Any:
            given = {"scenario": question.scenario, "changes": question.assignments, **question.flags}
            if question.write or question.held or not self.answers(given):
                return loaded(question, **how)
            key = "case", repr(given), repr(sorted(how.items()))
            if key not in self.kept:
                self.keep(key, loaded(question, **how))
            return self.found(key)

        return asked

    def of_objects(self, function: Callable[..., Any], of: Callable[[Any], Any] = lambda first: first) -> Any:
        """What a function makes of an object, and of words beside it, while that object is kept."""

        @functools.wraps(function)
        def asked(first: Any, *others: Any, **named: Any) -> Any:
            words = (word for word in others if isinstance(word, str | tuple))
            key = function.__qualname__, id(of(first)), *words
            if named or not self.answers({}):
                return function(first, *others, **named)
            if key not in self.kept:
                self.keep(key, (function(first, *others), first))
            return self.found(key)[0]

        return asked


def _is_of_the_checkout(given: dict[str, Any]) -> bool:
    """Whether what is asked about is no file that a test wrote, nor to be written."""
    if os.getcwd() != str(ROOT):
        return False
    values = [word for value in given.values() for word in (value if isinstance(value, list | tuple) else [value])]
    return not any(isinstance(word, Path) or (isinstance(word, str) and _is_elsewhere(word)) for word in values)


def _is_elsewhere(word: str) -> bool:
    return word == "-" or word.startswith((os.sep, os.pardir)) or f"={os.sep}" in word


REPLIES = Replies()
_answering = answer_options._answering


def _keeping(forms: Any, command: Callable[..., Reply], **how: Any) -> Callable[..., None]:
    return _answering(forms, REPLIES.of(command), **how)


def _compared(table: Any, *others: str) -> list[Any]:
    return list(compared(table, *others))


answer_options._answering = _keeping
Question.loaded = REPLIES.of_question(Question.loaded)  # type: ignore[method-assign]
compared = validate.compared
validate.compared = report_facts.compared = REPLIES.of_objects(_compared)
for workload in (training, serving, rl):
    workload.view = REPLIES.of_objects(workload.view)  # type: ignore[attr-defined]
for editor in (default_efficiency, engine_fit, refine_from_runs):
    editor.rewritten = REPLIES.of_texts(editor.rewritten)  # type: ignore[attr-defined]
search_remedies.search_remedy = REPLIES.of_objects(search_remedies.search_remedy)
best_fleets.fewest_gpus = REPLIES.of_objects(best_fleets.fewest_gpus)
turned = REPLIES.of_objects(sensitivity.sensitivity, lambda asked: asked.case)
for module in (sensitivity, report_facts, rl_facts, serving_facts):
    module.sensitivity = lambda asked, result="", *pace: turned(asked, result or asked.usual_result, *pace)  # type: ignore[attr-defined]
