"""The next command to type: a line of the shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from costmodel.documents.keys.overrides import full
from costmodel.documents.reader.cached_reader import CachedReader

if TYPE_CHECKING:
    from costmodel.documents.reader.resolved_scenario import LoadedScenario

_SIZE = ("cluster.nodes", "cluster.node.accelerators")


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
    asked, settings = _in_gpus(case, settings)
    ahead = [(full(item.partition("=")[0].strip()), item) for item in case.assignments]
    dropped = {*(["plan"] if free else []), *([] if verb == "search" else ["search"])}
    kept = [item for path, item in ahead if path not in settings and path.split(".")[0] not in dropped]
    changed = [*kept, *(f"{path}={value}" for path, value in settings.items())]
    options = [part for item in changed for part in ("--set", item)]
    named = [name for name in (case.name, *asked) if name] or ["SCENARIO"]
    return named, options


def options_of(case: LoadedScenario, settings: Iterable[str]) -> str:
    """The options that make some settings, to add to a command: --gpus in the place of the one that was given."""
    stated = dict(setting.split("=", 1) for setting in settings)
    asked, rest = _in_gpus(case, stated)
    if list(rest) == ["cluster.node"] and {"--gpu", "--node"}.intersection(asked):
        return shlex.join(_machine(asked, rest["cluster.node"]))
    gpus = [] if asked == case.asked.words else ["--gpus", asked[asked.index("--gpus") + 1]]
    return shlex.join([*gpus, *(part for path, value in rest.items() for part in ("--set", f"{path}={value}"))])


def _machine(asked: Sequence[str], node: str) -> list[str]:
    """The flags that name another node, of those that named the one that there is."""
    held = CachedReader().document("node", node).accelerator
    named = {"--gpu": held, "--node": node}
    return [part for flag in named if flag in asked for part in (flag, named[flag])]


def _in_gpus(case: LoadedScenario, settings: Mapping[str, str]) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """The flags, with the size of the cluster in --gpus where these state it, and the other settings."""
    words, nodes = case.asked.words, settings.get("cluster.nodes", "")
    assigned = {full(item.partition("=")[0].strip()) for item in case.assignments}
    if "--gpus" not in words or not nodes.isdigit() or not assigned.isdisjoint(_SIZE):
        return words, settings
    each = float(settings.get("cluster.node.accelerators", float(case.node.accelerators)))
    place = words.index("--gpus") + 1
    rest = {path: value for path, value in settings.items() if path not in _SIZE}
    return (*words[:place], f"{int(nodes) * each:.0f}", *words[place + 1 :]), rest
