"""The next command to type: a line of the shell."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from costmodel.documents.keys.overrides import full

if TYPE_CHECKING:
    from costmodel.documents.reader.resolved_scenario import LoadedScenario


def command(
    case: LoadedScenario, verb: str, *words: str, settings: Mapping[str, str] | None = None, free: bool = False
) -> str:
    """A line of the shell; settings come last and in the place of earlier ones of the same path.

    free: a search that holds nothing of the plan.
    """
    named, options = around(case, verb, settings or {}, free=free)
    return shlex.join(["costmodel", verb, *named, *words, *options])


def around(
    case: LoadedScenario, verb: str, settings: Mapping[str, str], *, free: bool = False
) -> tuple[list[str], list[str]]:
    """The words of a command that name the scenario, and those that change it."""
    ahead = [(full(item.partition("=")[0].strip()), item) for item in case.assignments]
    dropped = {*(["plan"] if free else []), *([] if verb == "search" else ["search"])}
    kept = [item for path, item in ahead if path not in settings and path.split(".")[0] not in dropped]
    changed = [*kept, *(f"{path}={value}" for path, value in settings.items())]
    options = [part for item in changed for part in ("--set", item)]
    named = [name for name in (case.name, *case.asked.words) if name] or ["SCENARIO"]
    return named, options
