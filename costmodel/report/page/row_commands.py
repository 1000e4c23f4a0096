"""Rows of a table that are other plans than the page's own: the commands that print how their figures were made."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.report.terminal.style.next_command import around


def row_commands(case: LoadedScenario, settings: Iterable[Mapping[str, str]]) -> dict[str, Any]:
    """Parts of the commands that a page's script writes: the scenario, and the settings of each row."""
    found = [around(case, "explain", each) for each in settings]
    named = found[0][0] if found else []
    return {"scenario": shlex.join(named), "settings": [shlex.join(options) for _, options in found]}


def settings_of(stated: Iterable[str]) -> dict[str, str]:
    """Settings as `path=value`, by their path."""
    return {path: value for path, _, value in (setting.partition("=") for setting in stated)}
