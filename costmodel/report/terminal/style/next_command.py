"""The next command to type: a line of the shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from costmodel.documents.keys.overrides import full
from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.explore.node_of_gpu import flags_of_node
from costmodel.explore.workload_flags import keys_of

if TYPE_CHECKING:
    from costmodel.documents.reader.resolved_scenario import LoadedScenario

_NODE, _SIZE = "cluster.node", ("cluster.nodes", "cluster.node.accelerators")
_MACHINE = {"--gpu", "--node"}


def command(
    case: LoadedScenario, verb: str, *words: str, settings: Mapping[str, str] | None = None, free: bool = False
) -> str:
    """A command line; later settings replace earlier ones of the same path.

    free: a search that fixes no key of the plan.
    """
    named, options = around(case, verb, settings or {}, free=free)
    for at in reversed(range(len(named))):
        if named[at].startswith("--") and named[at] in words:  # the command has this flag's option with other values
            del named[at : at + 2]
    return shlex.join(["costmodel", verb, *named, *words, *options])


def around(
    case: LoadedScenario, verb: str, settings: Mapping[str, str], *, free: bool = False
) -> tuple[list[str], list[str]]:
    """The words of a command that name the scenario, and the --set options that change it."""
    asked, settings = _in_flags(case, settings)
    ahead = [(full(item.partition("=")[0].strip()), item) for item in case.assignments]
    dropped = {*(["plan"] if free else []), *([] if verb == "search" else ["search"])}
    kept = [item for path, item in ahead if path not in settings and path.split(".")[0] not in dropped]
    changed = [*kept, *(f"{path}={value}" for path, value in settings.items())]
    options = [part for item in changed for part in ("--set", item)]
    named = [name for name in (case.name, *asked) if name] or ["SCENARIO"]
    return named, options


def options_of(case: LoadedScenario, settings: Iterable[str]) -> str:
    """Options that make some settings, to add to a command: its flags with other values where it has such flags."""
    stated = dict(setting.split("=", 1) for setting in settings)
    asked, rest = _in_flags(case, stated)
    before = _flags(case.asked.words)
    flags = (word for flag, value in _flags(asked).items() if before.get(flag) != value for word in (flag, value))
    return shlex.join([*flags, *(part for path, value in rest.items() for part in ("--set", f"{path}={value}"))])


def _flags(words: Sequence[str]) -> dict[str, str]:
    """Flags with their values."""
    return dict(zip(words[::2], words[1::2], strict=True))


def _in_flags(case: LoadedScenario, settings: Mapping[str, str]) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """The flags, with other values where settings are of their keys, and the other settings."""
    if not case.asked.words:
        return (), settings
    flags, keys = _flags(case.asked.words), keys_of(case.kind)
    held = {full(item.partition("=")[0].strip()) for item in case.assignments}
    node = settings.get(_NODE, "") if _NODE not in held and _MACHINE & flags.keys() else ""
    made = flags_of_node(node) if node else {}
    sizes = _sizes(case, flags, settings, node) if held.isdisjoint(_SIZE) else {}
    done = {*([_NODE] if node else ()), *(_SIZE if sizes else ())}
    rest = {path: value for path, value in settings.items() if path not in done}
    flags = {flag: value for flag, value in flags.items() if not node or flag not in _MACHINE - made.keys()}
    for name, path in keys.items():
        if f"--{name}" in flags and path not in held and rest.get(path, "null") != "null":
            flags[f"--{name}"] = rest.pop(path)
    return tuple(word for pair in (flags | made | sizes).items() for word in pair), rest


def _sizes(case: LoadedScenario, flags: Mapping[str, str], settings: Mapping[str, str], node: str) -> dict[str, str]:
    """The --gpus option for the size of the cluster, if --gpus set the size or its node was a default.

    node: the new node that flags name; empty if they name none
    """
    nodes, part = (settings.get(path, "") for path in _SIZE)
    assumed = any(item.path == _SIZE[0] for item in case.asked.assumed)
    sized = nodes if "--gpus" in flags else (node and not nodes and assumed)
    if not sized or not (nodes or "0").isdigit():
        return {}
    named = node or settings.get(_NODE, "")
    each = CachedReader().document("node", named).accelerators if named else case.node.accelerators
    return {"--gpus": f"{float(nodes or case.scenario.cluster.nodes) * float(part or each):.0f}"}
