"""The page with pickers: what they offer, and answers with the command line and the YAML that give the same.

The answer is the page of `--format html`; the page around it only asks and shows.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from costmodel import library
from costmodel.commands.command_table import CHOOSE, LOOK, QUESTIONS
from costmodel.commands.short_form import flag_options
from costmodel.documents.reader.find_documents import by_maker, title_of
from costmodel.documents.reader.folders import names
from costmodel.documents.text.files import only_texts
from costmodel.exchange.writing.scenario_text import scenario_text
from costmodel.explore.workload_flags import FLAGS
from costmodel.ground.errors import CostModelError
from costmodel.report.page.trace import without_traces
from costmodel.report.terminal.style.head import title
from costmodel.server.reply import Answered
from costmodel.server.request import SCENARIO_FILE, guarded, options_of, parsed, questions

_NO_PAGE = ("explain", "collective", "scale")  # of a figure, of no scenario, and of sizes that are missing


def shown(question: str, body: bytes, whole: bool) -> Answered:
    """An answer as JSON: its page, the command line, and the YAML of the scenario; works: whether it is yes.

    whole: with the equations that figures open, and the YAML; without them it is sooner there
    """

    def answer() -> Answered:
        asked = parsed(question, body)
        with only_texts(asked.texts):
            result = asked.answer()
            if whole:
                page = result.form("html")
            else:
                with without_traces():
                    page = result.form("html")
            found = {"html": page, "command": asked.command, "works": result.works}
            if whole:
                found["yaml"] = _yaml(question, asked.options)
        return Answered(200, "application/json", json.dumps(found, ensure_ascii=False).encode(), result.works)

    return guarded(answer)


def _yaml(question: str, options: Any) -> str:
    """The scenario that the question is about, with the plan where the answer is of one."""
    planned = QUESTIONS[question].panel == LOOK
    try:
        case = library.scenario_asked(question, options, planned=planned)
    except CostModelError as error:
        return "".join(f"# {fault.sentence}\n" for fault in error.faults)
    return scenario_text(case, Path(SCENARIO_FILE), title(case))


def offered() -> Answered:
    """What the pickers offer: models, accelerators, software, scenarios, and the flags of each workload."""
    options = options_of("search")
    found = {
        "questions": [name for name in questions() if _is_shown(name)],
        "models": names("model"),
        "gpus": by_maker("accelerator"),
        "scenarios": {name: title_of("scenario", name) for name in names("scenario")},
        "flags": {kind: [name for name in flag_options() if name in {*flags.keys, "gpu", "gpus"}]
                  for kind, flags in FLAGS.items()},
        "help": {name: options[name].help for name in flag_options()},
    }  # fmt: skip
    return Answered(200, "application/json", json.dumps(found, ensure_ascii=False).encode())


def _is_shown(name: str) -> bool:
    """Whether a question has a page and needs nothing beside a scenario."""
    needs = [option for option in options_of(name).values() if option.required]
    return QUESTIONS[name].panel in (LOOK, CHOOSE) and name not in _NO_PAGE and not needs
