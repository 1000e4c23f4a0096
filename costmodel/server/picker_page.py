"""The page with pickers of `costmodel open`: its choices, and answers with command line and YAML.

The answer is the page of `--format html`; the surrounding page only asks and shows.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import re
from pathlib import Path
from typing import Any, get_args

from costmodel import library
from costmodel.commands.command_table import QUESTIONS
from costmodel.commands.scenario_options import flag_options
from costmodel.documents.reader.find_documents import by_maker, find, title_of
from costmodel.documents.reader.folders import names
from costmodel.documents.schemas.precision import Precision
from costmodel.documents.schemas.rl import Algorithm
from costmodel.documents.text.files import file_text, only_texts
from costmodel.exchange.write_yaml import scenario_text
from costmodel.explore.workload_flags import FLAGS
from costmodel.ground.errors import CostModelError
from costmodel.report.page.trace import without_traces
from costmodel.report.terminal.head import case_title
from costmodel.server.request import SCENARIO_FILE, Answered, Asked, answer_or_faults, options_of, parsed_request

_SHOWN = ("buy", "search", "estimate", "scale", "run", "sensitivity")  # memory, comm and pipeline have estimate's page
_WITHOUT = {"scale": ("gpus",)}  # flags that a question does not need
_CHOICES = {"rl": get_args(Algorithm), "dtype": get_args(Precision)}
_KIND = re.compile(r"^workload:.*?^ +kind: *(\w+)", re.MULTILINE | re.DOTALL)


def answer_for_page(question: str, body: bytes, whole: bool) -> Answered:
    """An answer as JSON: its page, command line, and scenario in YAML.

    whole: include equations and figures of other plans, which take more time
    """

    def answer() -> Answered:
        """The page of the answer, with its command and the scenario as YAML."""
        asked = parsed_request(question, body)
        with only_texts(asked.texts), contextlib.nullcontext() if whole else without_traces():
            result = asked.answer()
            found = {"html": result.form("html"), "command": asked.command, "works": result.works,
                     "yaml": _scenario_yaml(asked, result)}  # fmt: skip
        return Answered(200, "application/json", json.dumps(found, ensure_ascii=False).encode(), result.works)

    return answer_or_faults(answer)


def _scenario_yaml(asked: Asked, result: library.Result) -> str:
    """The scenario of a question as YAML, with the plan that the answer found."""
    inputs = getattr(result.reply.found, "inputs", None)
    try:
        case = library.scenario_asked(asked.name, asked.options, planned=False) if inputs is None else inputs.case
    except CostModelError as error:
        return "".join(f"# {fault.sentence}\n" for fault in error.faults)
    return scenario_text(case, Path(SCENARIO_FILE), case_title(case))


def picker_choices() -> Answered:
    """The choices of the pickers: questions, models, accelerators, software, scenarios, and flags by workload."""
    options = options_of("search")
    body = {
        "questions": {name: _question_entry(name) for name in _SHOWN},
        "models": names("model"),
        "gpus": by_maker("accelerator"),
        "scenarios": {name: {"title": title_of("scenario", name), "kind": _kind_of(name)}
                      for name in names("scenario")},
        "flags": {kind: [name for name in flag_options() if name in {*flags.keys, "gpu", "gpus"}]
                  for kind, flags in FLAGS.items()},
        "help": {name: options[name].help for name in flag_options()},
        "choices": {"node": by_maker("node"), "stack": names("stack"), **_CHOICES},
    }  # fmt: skip
    return Answered(200, "application/json", json.dumps(body, ensure_ascii=False).encode())


def _kind_of(scenario: str) -> str:
    """The workload of a scenario, read without checking its other keys."""
    match = _KIND.search(file_text(str(find("scenario", scenario))))
    return match[1] if match else "training"


def _question_entry(name: str) -> dict[str, Any]:
    """A question for the pickers: its title, its keys, which are yes or no, and flags with another meaning."""
    options, usual = options_of(name), options_of("search")
    own = {kind: flags.own[name] for kind, flags in FLAGS.items() if name in flags.own}
    words = inspect.getdoc(QUESTIONS[name].load()) or ""
    return {
        "title": re.split(r"[:;.]", words, maxsplit=1)[0],
        "own": {kind: {each: options[each].help for each in keys} for kind, keys in own.items()},
        "yes": [key for key, option in options.items() if option.kind is bool],
        "help": {each: options[each].help for each in flag_options() if options[each].help != usual[each].help},
        "without": _WITHOUT.get(name, ()),
    }
