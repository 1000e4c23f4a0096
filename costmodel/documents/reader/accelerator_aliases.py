"""Spellings of accelerators in tables and drivers, resolved to the names of documents."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable

from costmodel.documents.reader.hub_names import squeezed
from costmodel.ground.parsing import late_pattern

# Names that match no document.
OTHER = {
    "gh200480gb": "gh200-96",  # 480 and 120 GB are its processor's
    "gh200120gb": "gh200-96",
    "h203e": "h20-141",
    "a6000ada": "rtx6000-ada",
    "qrtx8000": "rtx8000",
    "rtxproserver6000": "rtx-pro-6000-server",
    "spark": "gb10",
    "vr200": "rubin",
    "r200": "rubin",
    "mi200gcd": "mi250x-gcd",
    "tpuv5litepod": "tpu-v5e",
    "trillium": "tpu-v6e",
    "ironwood": "tpu-v7",
    "tpu7x": "tpu-v7",
    "tpuv8t": "tpu-8t",
    "trainium": "trn1",
    "trainium1": "trn1",
    "trainium2": "trn2",
    "trainium3": "trn3",
}
USUAL = {"a100": 80, "gh200": 96, "h20": 96, "v100": 16}  # GB of a part sold with more than one size of memory
_DROPPED = late_pattern(  # words that do not distinguish two accelerators
    r"\b(nvidia|amd|intel|google|aws|cloud|geforce|quadro|instinct|habana|tesla|tensor core|gpu|[hd]gx|"
    r"blackwell|grace|vera|workstation|edition|generation)\b|\brtx[ -]*(?=a\d)"
)
_BARE = late_pattern(r"(?=\d{4})")  # a card named by its number alone
_BETWEEN = " -_/:"
_NAME = late_pattern(r"(?P<part>[a-z\d-]+?)(?:-(?P<form>sxm|pcie|nvl|gcd)\d?)?(?:-(?P<memory>\d{2,3}))?")
_BESIDE = late_pattern(
    r"\bsxm\d?\b|\bpcie\b|\bnvl\d*\b|\bgcd\b|\boam\b|\bhbm\de?\b|\bsuperchip\b|\btrillium\b|\bironwood\b|"
    r"\b\d+ ?g(?:i?b)?\b|(?<=[-_ ])\d{2,3}$|[^a-z0-9]"
)
_AS_SOLD = 0.12  # of a logarithm: how far the GB of a name lie from those of the datasheet, which may be GiB
_FORM = late_pattern(r"sxm|pcie|nvl(?!\d)|gcd")
_MEMORY = late_pattern(r"(?<!\d)(\d+)(?: ?g(?:i?b)?\b|(?<=[-_ ]\d\d)$)")


def accelerator_meant(
    spelling: str, memory: float | None, known: frozenset[str], capacity: Callable[[str], float]
) -> str:
    """The accelerator that a spelling stands for; its memory in GB decides between variants. Empty if none fits.

    known: the names of all accelerators. capacity: gives the memory of an accelerator [B], to compare with a stated
    size
    """
    stated = _DROPPED.sub(" ", spelling.lower().replace("_", " ")).strip(_BETWEEN)
    stated = f"rtx{stated}" if _BARE.match(stated) else stated
    key = squeezed(stated)
    exact = _names_without_separators(known).get(key) or OTHER.get(key, "")
    if exact and (memory is None or _distance_of_sizes(memory, capacity(exact)) < _AS_SOLD):
        return exact
    return _nearest(stated, memory, known, capacity) or exact


@functools.lru_cache(maxsize=8)
def _names_without_separators(known: frozenset[str]) -> dict[str, str]:
    return {squeezed(name): name for name in sorted(known)}


def _nearest(stated: str, memory: float | None, known: frozenset[str], capacity: Callable[[str], float]) -> str:
    """The accelerator that a spelling names, with the stated form factor and memory, else the most common variant."""
    parts = {name: found for name in sorted(known) if (found := _NAME.fullmatch(name))}
    matches = [found["part"] for found in parts.values() if re.match(_begins(found["part"]), stated)]
    if not matches:
        return ""
    part = max(matches, key=len)
    behind = re.sub(_begins(part), " ", stated, count=1)
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
    apart = {name: _distance_of_sizes(size, capacity(name)) for name in fitting}
    nearest = min(apart, key=lambda name: apart[name], default="")
    return nearest if nearest and apart[nearest] < _AS_SOLD else ""


def _distance_of_sizes(gigabytes: float, capacity: float) -> float:
    """The distance between a memory size in GB and a capacity, as an absolute logarithm."""
    return abs(math.log(gigabytes * 1e9 / capacity))


def _begins(part: str) -> str:
    """A pattern for the name of a part, with optional separators, that does not continue with another name."""
    return r"[\s_-]*".join(map(re.escape, part.replace("-", ""))) + r"(?![a-z0-9])|" + re.escape(part) + r"(?=sxm|pcie)"
