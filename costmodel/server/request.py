"""Requests to the server: the questions and their keys, the equivalent command line, and the answer.

A key of a request is an option of the library function of that command; all follow from the table of commands.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from importlib import import_module
from typing import Any, get_args

from typer.models import ArgumentInfo

from costmodel import library
from costmodel.commands.command_table import QUESTIONS
from costmodel.commands.environment_errors import environment_fault
from costmodel.documents.keys.suggestions import nearest
from costmodel.documents.text.files import only_texts
from costmodel.ground.errors import COMMAND_LINE, CostModelError, Fault, Place, WrongCall, fail
from costmodel.ground.record import record

# What a request gets, and the jobs that make it: all that the process needs that listens.

MEDIA = {
    "application/json": "json",
    "text/csv": "csv",
    "text/markdown": "markdown",
    "text/plain": "table",
    "text/html": "html",
    "image/svg+xml": "svg",
    "application/yaml": "yaml",
}


@record
class Answered:
    """The reply to a request: HTTP status, media type, text, and whether the answer is yes."""

    status: int
    media: str
    body: bytes
    works: bool = True


@record
class Job:
    """A function call for a worker process: module, function and arguments."""

    module: str
    function: str
    arguments: tuple[Any, ...] = ()

    def done(self) -> Any:
        """Calls the function and returns its result.

        >>> Job("math", "hypot", (3, 4)).done()
        5.0
        """
        return getattr(import_module(self.module), self.function)(*self.arguments)


def faults_answer(error: CostModelError, status: int = 400) -> Answered:
    """Faults as a JSON reply: code, place, sentence and hint of each."""
    faults = [
        {
            "code": fault.code,
            "place": None if fault.place is None else str(fault.place).replace(COMMAND_LINE, "request", 1),
            "message": fault.sentence,
            "remedy": fault.hint or None,
        }
        for fault in error.faults
    ]
    text = json.dumps({"schema": "costmodel/errors/v1", "errors": faults}, ensure_ascii=False, indent=1)
    return Answered(status, "application/json", f"{text}\n".encode("utf-8", "replace"), works=False)


NOT_OFFERED = {"measure": "it runs kernels on this machine", "calibrate": "it writes files"}
# Options that write files, start processes or wait.
LOCAL = {"run", "write", "into", "keep", "resume", "engine", "workers", "wait", "watch", "against", "update"}
TEXTS = "texts"
SCENARIO_FILE = "mine.yaml"  # what a command line calls a scenario whose keys a request holds
_TEXT_NAME = re.compile(r"[A-Za-z0-9_][\w.+-]{0,99}")
_MOST_TEXTS = 20
_FLAG_OF = {"settings": "assignments", "before": "scenario"}  # options that a function and its command name apart
_REQUEST = Place("request")


@record
class Option:
    """A key of a question: its type, its help, and its command-line option."""

    name: str
    kind: Any
    default: Any
    help: str
    flag: str  # empty for what stands without one
    metavar: str
    required: bool


@record
class Asked:
    """A question with the keys of its request, and texts that replace files."""

    name: str
    options: Mapping[str, Any]
    texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """The command line that gives the same answer, in a folder with its texts as files.

        Example:
            >>> Asked("search", {"model": "llama-3.1-8b", "why_not": True, "settings": ["plan.tp=2"]}).command
            'costmodel search --why-not --model llama-3.1-8b --set plan.tp=2'
        """
        words = ["costmodel", self.name]
        for option in options_of(self.name).values():
            words += _option_words(option, self.options.get(option.name, option.default))
        return shlex.join(words)

    def answer(self) -> library.Result:
        """The answer of the library."""
        return library.function(library.NAMES.get(self.name, self.name))(**self.options)


def questions() -> list[str]:
    """The commands that a request may run: all but those that measure or write files."""
    return [name for name in QUESTIONS if name not in NOT_OFFERED]


@functools.cache
def options_of(question: str) -> Mapping[str, Option]:
    """The keys of a question, in the order of its command line."""
    function = library.function(library.NAMES.get(question, question))
    typed = inspect.signature(QUESTIONS[question].load()).parameters
    options: dict[str, Option] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        written = typed.get(_FLAG_OF.get(name, name))
        if name in LOCAL or written is None:
            continue
        stated = next(iter(get_args(written.annotation)[1:]), None)
        if getattr(stated, "hidden", False):
            continue
        first, *_ = *_option_names(stated), f"--{name.replace('_', '-')}"
        flag = "" if isinstance(stated, ArgumentInfo) else first
        words, metavar = getattr(stated, "help", None) or "", getattr(stated, "metavar", None) or ""
        required = written.default is written.empty and name != "scenario"
        options[name] = Option(name, parameter.annotation, parameter.default, words, flag, metavar, required)
    return dict(sorted(options.items(), key=lambda item: item[1].flag in ("--set",)))


def _option_names(stated: Any) -> Iterator[str]:
    """The long names of an option; Typer stores the first as its default until it builds the command."""
    words = (getattr(stated, "default", None), *(getattr(stated, "param_decls", None) or ()))
    return (word for word in words if isinstance(word, str) and word.startswith("--"))


def _option_words(option: Option, value: Any) -> Iterator[str]:
    """An option and its value as command-line words; empty for the default value."""
    if value == option.default or value is None:
        return
    if isinstance(value, Mapping):
        if option.name != "settings":
            yield SCENARIO_FILE
            return
        value = [f"{path}={each}" for path, each in value.items()]
    if isinstance(value, bool):
        yield from [option.flag] if value else []
        return
    for each in value if isinstance(value, Sequence) and not isinstance(value, str) else [value]:
        yield from [option.flag, str(each)] if option.flag else [str(each)]


def parsed_request(question: str, body: bytes) -> Asked:
    """The question of a request.

    Raises:
        CostModelError: there is no such question, or the body is not JSON with its keys
    """
    if question not in questions():
        raise unknown_question(question)
    stated = _parsed_json(body)
    texts = _request_texts(stated.pop(TEXTS, {}))
    known = options_of(question)
    faults = [_unknown_key(question, key, known) for key in stated if key not in known]
    faults += [
        Fault("H001", f"'{key}' of a request is not standard input", _REQUEST, "send the keys of a scenario, or a name")
        for key, value in stated.items()
        if value == "-" or (isinstance(value, list) and "-" in value)
    ]
    if faults:
        raise CostModelError(*faults)
    return Asked(question, stated, texts)


def unknown_question(name: str) -> CostModelError:
    """The fault for a question that does not exist or that the server does not answer."""
    if name in NOT_OFFERED:
        return fail("H001", f"{name} is not answered here: {NOT_OFFERED[name]}", _REQUEST, f"costmodel {name} --help")
    close = nearest(name, questions())
    hint = f"did you mean {close}?" if close else f"questions: {', '.join(questions())}"
    return fail("H001", f"there is no question '{name[:60]}'", _REQUEST, hint)


def _unknown_key(question: str, key: str, known: Mapping[str, Option]) -> Fault:
    """The fault for a key that a question does not have."""
    if key in LOCAL and key in inspect.signature(QUESTIONS[question].load()).parameters:
        return Fault("H001", f"'{key}' exists only on the command line", _REQUEST, f"costmodel {question} --help")
    flag = f"--{key.lstrip('-').replace('_', '-')}"
    close = next((option.name for option in known.values() if option.flag == flag), "") or nearest(key, known)
    hint = f"did you mean '{close}'?" if close else f"it takes {', '.join(known)}"
    return Fault("H001", f"{question} has no key '{key[:60]}'", _REQUEST, hint)


def _parsed_json(body: bytes) -> dict[str, Any]:
    """The keys of a request; raises a fault for text that is not one JSON object, or with a repeated key."""
    try:
        tree = json.loads(body or b"{}", object_pairs_hook=_refuse_repeated_keys, parse_constant=_no_number)
    except RecursionError:
        raise fail("H001", "the JSON is nested too deeply", _REQUEST, "send a flat object") from None
    except ValueError as error:
        raise fail(
            "H001", f"the body is not JSON: {error}", _REQUEST, 'for example {"model": "llama-3.1-8b"}'
        ) from None
    if not isinstance(tree, dict):
        raise fail("H001", "the body is not an object", _REQUEST, 'for example {"model": "llama-3.1-8b"}')
    return tree


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice in one object")
    return found


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no number of JSON")


def _request_texts(stated: Any) -> dict[str, str]:
    """The texts of a request, by the file names that they replace."""
    if not isinstance(stated, dict) or not all(isinstance(text, str) for text in stated.values()):
        raise fail("H001", "texts maps names to texts", _REQUEST, 'for example {"config.json": "{…}"}')
    if len(stated) > _MOST_TEXTS:
        raise fail("H003", f"{len(stated)} texts are more than {_MOST_TEXTS}", _REQUEST, "send those that are named")
    for name in stated:
        if not _TEXT_NAME.fullmatch(name):
            raise fail(
                "H001",
                f"'{name[:60]}' is not the name of a file without its folder",
                _REQUEST,
                "take letters, digits, . and -",
            )
    return dict(stated)


def answer_request(question: str, body: bytes, media: str = "application/json") -> Answered:
    """The reply to a request: the answer in the requested media type, or the faults."""

    def answer() -> Answered:
        asked = parsed_request(question, body)
        with only_texts(asked.texts):
            result = asked.answer()
            text = result.form(MEDIA[media])
        return Answered(200, media, text if isinstance(text, bytes) else text.encode(), result.works)

    return answer_or_faults(answer)


def short_answer(question: str, keys: dict[str, Any], whole: bool, most: int) -> Answered:
    """An answer as at most `most` lines of text, or whole as JSON, followed by its command line."""

    def answer() -> Answered:
        """The answer as a few lines of text, or as whole JSON, followed by its command."""
        asked = parsed_request(question, json.dumps(keys).encode())
        with only_texts(asked.texts):
            result = asked.answer()
            text = str(result.form("json" if whole else "table")).rstrip()
        lines = text.splitlines()
        cut = [f"… {len(lines) - most} more lines"] if len(lines) > most and not whole else []
        kept = [*lines[:most], *cut] if cut else lines
        text = "\n".join([*kept, "", f"Command: {asked.command}"])
        return Answered(200, "text/plain", text.encode(), result.works)

    return answer_or_faults(answer)


def answer_or_faults(answer: Callable[[], Answered]) -> Answered:
    """The answer, or the faults of the question; an internal error is reported without traceback."""
    try:
        return answer()
    except CostModelError as error:
        return faults_answer(error)
    except WrongCall as error:
        return faults_answer(fail("H001", str(error), _REQUEST, "/openapi.json has the keys of every question"))
    except MemoryError:
        return faults_answer(fail("H003", "the answer needs more memory than it may have", _REQUEST, "ask for less"))
    except Exception as error:
        fault = environment_fault(error)
        if fault is not None:
            return faults_answer(fault, 503)
        sentence = f"{type(error).__name__}: {str(error)[:200]}"
        return faults_answer(fail("bug", sentence, None, "an internal error; please report it with the request"), 500)
