"""How many accelerators a launcher starts: torchrun, deepspeed, accelerate launch, mpirun and Slurm."""

from __future__ import annotations

import re
from collections.abc import Sequence

from costmodel.exchange.imported import Origin, OriginValue
from costmodel.exchange.shell import Word

_PER_NODE = ("nproc_per_node", "nproc-per-node", "ntasks-per-node", "gpus-per-node", "num_gpus")
_NODES = ("nnodes", "nodes", "num_nodes", "N")
_TASKS = ("np", "ntasks", "n", "num_processes")
_MOST = 10**7  # accelerators


def launched_accelerators(words: Sequence[Word]) -> dict[str, OriginValue]:
    """Accelerators, and nodes where the words of a launcher state them."""
    per_node = _number(words, _PER_NODE) or _of_gres(words)
    nodes = _number(words, _NODES)
    tasks = _number(words, _TASKS)
    if per_node is not None and _stands(words, _NODES) == (nodes is not None):
        nodes = nodes or OriginValue(1, Origin("derived", "one node, where the launcher states none"))
        origin = Origin("derived", "nodes × accelerators of each", per_node.place)
        return {"accelerators": OriginValue(per_node.value * nodes.value, origin), "nodes": nodes}
    return {"accelerators": tasks} if tasks is not None else {}


def _stands(words: Sequence[Word], names: tuple[str, ...]) -> bool:
    return any(_spelling(word)[0] in names for word in words)


def _spelling(word: Word) -> tuple[str, str]:
    name, _, value = word.text.partition("=")
    return (name.lstrip("-"), value) if name.startswith("-") else ("", "")


def _number(words: Sequence[Word], names: tuple[str, ...]) -> OriginValue | None:
    """The number behind the last of several options of a launcher."""
    found = None
    for index, word in enumerate(words):
        name, value = _spelling(word)
        if name not in names:
            continue
        at = word if value else words[min(index + 1, len(words) - 1)]
        text = value or at.text
        if at.doubt is None and text.isascii() and text.isdigit() and 0 < int(text[:9]) <= _MOST and len(text) < 9:
            found = OriginValue(int(text), Origin("file", f"{name} of the launcher", word.place))
    return found


def _of_gres(words: Sequence[Word]) -> OriginValue | None:
    """gres=gpu:h100:8 of Slurm."""
    for word in words:
        match = re.fullmatch(r"--(?:gres|gpus-per-node)=(?:gpu:)?(?:[\w-]+:)?(\d{1,4})", word.text)
        if match and int(match.group(1)):
            return OriginValue(int(match.group(1)), Origin("file", "gres of Slurm", word.place))
    return None
