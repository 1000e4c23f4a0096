"""How tables, drivers and people spell the accelerators that documents describe."""

from __future__ import annotations

import functools
import math
import re

from costmodel.documents.hardware import Accelerator
from costmodel.documents.hub import squeezed
from costmodel.documents.shelf import Shelf

# Names that say nothing of the documents'.
OTHER = {
    "gh200480gb": "gh200-96",  # 480 GB are its processor's
    "mi200gcd": "mi250x-gcd",
    "tpuv5litepod": "tpu-v5e",
    "trillium": "tpu-v6e",
    "ironwood": "tpu-v7",
    "trainium": "trn1",
    "trainium1": "trn1",
    "trainium2": "trn2",
    "trainium3": "trn3",
}
USUAL = {"a100": 80, "v100": 16}  # GB of a part that is sold with more than one size of memory
_MAKERS = re.compile(r"\b(nvidia|amd|intel|google|aws|cloud|geforce|instinct|habana|tesla|tensor core|gpu|[hd]gx)\b")
_BETWEEN = " -_/:"
_NAME = re.compile(r"(?P<part>[a-z]+\d+[a-z]*|tpu-v\d+[a-z]*)(?:-(?P<form>sxm|pcie|nvl|gcd)\d?)?(?:-(?P<memory>\d+))?")
_BESIDE = re.compile(
    r"\bsxm\d?\b|\bpcie\b|\bnvl\d*\b|\bgcd\b|\boam\b|\bhbm\de?\b|\bsuperchip\b|\btrillium\b|\bironwood\b|"
    r"\b\d+ ?g(?:i?b)?\b|[^a-z0-9]"
)
_AS_SOLD = 0.12  # of a logarithm: how far the GB of a name lie from those of the datasheet, which may be GiB
_FORM = re.compile(r"sxm|pcie|nvl(?!\d)|gcd")
_MEMORY = re.compile(r"(?<!\d)(\d+) ?g(?:i?b)?\b")


def accelerator_named(spelling: str, memory: float | None = None, shelf: Shelf | None = None) -> str:
    """The accelerator that a spelling of its name means, by its GB where it names none; empty when there is none."""
    shelf = shelf or Shelf()
    said = _MAKERS.sub(" ", spelling.lower().replace("_", " ")).strip(_BETWEEN)
    key = squeezed(said)
    exact = _squeezed(shelf.names("accelerator")).get(key) or OTHER.get(key)
    return exact or _nearest(said, memory, shelf)


@functools.lru_cache(maxsize=8)
def _squeezed(known: frozenset[str]) -> dict[str, str]:
    return {squeezed(name): name for name in sorted(known)}


def _nearest(said: str, memory: float | None, shelf: Shelf) -> str:
    """The part whose name the spelling begins with, of the form and memory it says; else as it is mostly sold."""
    parts = {name: found for name in sorted(shelf.names("accelerator")) if (found := _NAME.fullmatch(name))}
    begun = [found["part"] for found in parts.values() if re.match(_begins(found["part"]), said)]
    if not begun:
        return ""
    part = max(begun, key=len)
    behind = re.sub(_begins(part), " ", said, count=1)
    if _BESIDE.sub("", behind):
        return ""
    form, named = _FORM.search(behind), _MEMORY.search(behind)
    wanted = form[0] if form else "sxm"
    of = {name: found for name, found in parts.items() if found["part"] == part}
    fitting = {name: found for name, found in of.items() if (found["form"] or wanted) == wanted}
    size = float(named[1]) if named else memory
    if size is None and part in USUAL:
        fitting = {name: found for name, found in fitting.items() if found["memory"] in (None, str(USUAL[part]))}
    if size is None:
        return min(fitting, default="")
    apart = {name: abs(math.log(size / _gigabytes(name, shelf))) for name in fitting}
    nearest = min(apart, key=lambda name: apart[name], default="")
    return nearest if nearest and apart[nearest] < _AS_SOLD else ""


def _gigabytes(name: str, shelf: Shelf) -> float:
    accelerator: Accelerator = shelf.document("accelerator", name)
    return accelerator.memory.capacity / 1e9


def _begins(part: str) -> str:
    """The part's name, with or without signs in it, and behind it nothing of another name."""
    return r"[\s_-]*".join(map(re.escape, part.replace("-", ""))) + r"(?![a-z0-9])|" + re.escape(part) + r"(?=sxm|pcie)"
