"""Default efficiency documents for parts without one: the values for unmeasured parts, without residuals."""

from __future__ import annotations

import re
from typing import Any, Literal

from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.reader.folders import has
from costmodel.documents.reader.library import UNMEASURED, document_of
from costmodel.documents.schemas.efficiency import Efficiency
from costmodel.documents.schemas.hardware import Accelerator
from costmodel.documents.schemas.precision import RECIPES
from costmodel.documents.text.yaml_editor import Changes, document_text, place_of, rewritten
from costmodel.equations.run.economics import share
from costmodel.estimate.machine.clock_throttling import by_power
from costmodel.estimate.machine.number_formats import unmeasured_shares
from costmodel.ground.equation import Number

Part = Literal["accelerator", "fabric"]

_HEAD = """# yaml-language-server: $schema=../schema.json
# Fitted constants; the facts are in ../{of}s/. Values that were not measured are those of {base}.
"""
_COMMENT = re.compile(r"\s+#\s.*$")
_NOT_OF = {
    "accelerator": ("network",),
    "fabric": ("matmul", "attention", "memory", "sustained", "collectives"),
}


def part_with(group: str) -> Part:
    """The part whose efficiency document contains a group."""
    return "fabric" if group == "network" else "accelerator"


def changed(of: Part, name: str, changes: Changes) -> str:
    """The efficiency document of a part as text, with changes; starts from the default document if it has none."""
    if has("efficiency", name):
        return rewritten(document_text("efficiency", name), changes)
    return _begun(of, name, changes)


def beginning(of: Part, name: str) -> Efficiency:
    """The default efficiency document of a part, before any fit."""
    found: Efficiency = document_of("efficiency", _begun(of, name, {}), str(place_of("efficiency", name)))
    return found


def registered(of: Part, name: str, shelf: CachedReader) -> Efficiency:
    """The default document of a part, registered under its name from now on."""
    if ("efficiency", name) not in shelf.kept:
        shelf.kept["efficiency", name] = beginning(of, name)
    found: Efficiency = shelf.document("efficiency", name)
    return found


def _begun(of: Part, name: str, changes: Changes) -> str:
    known, text = _known(name) if of == "accelerator" else {}, document_text("efficiency", UNMEASURED)
    body = "".join(f"{_COMMENT.sub('', line)}\n" for line in text.splitlines() if not line.startswith("#"))
    own = {(): {"of": name}} | known | {path: {**known.get(path, {}), **mine} for path, mine in changes.items()}
    return rewritten(_HEAD.format(of=of, base=UNMEASURED) + body, own, _NOT_OF[of], nowhere="fitted")


def _known(name: str) -> dict[tuple[str, ...], dict[str, Any]]:
    """Constants of an accelerator without a fit: efficiency from its best measured matmuls, slowdown from its power."""
    shelf = CachedReader()
    accelerator: Accelerator = shelf.document("accelerator", name)
    common: Efficiency = shelf.document("efficiency", UNMEASURED)
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for entry, kind in {recipe.fit: recipe.type for recipe in RECIPES.values()}.items():
        if entry in common.matmul and (best := unmeasured_shares(common.matmul[entry], accelerator, kind)):
            shares = {key: _rounded(value) for key, value in best.items()}
            found["matmul", entry] = {**shares, "check": None, "note": "Shares by the best measured matmul"}
    fit, power, peak = common.sustained, accelerator.power, accelerator.peak.wide
    assert fit
    wide, narrow = (by_power(factor, fit, accelerator) for factor in (fit.factor, fit.narrow * fit.factor))
    found["sustained",] = {
        "factor": _rounded(wide),
        "power": f"{power.max:g} W" if power and peak else None,
        "peak": f"{peak / 1e12:g} TFLOP/s" if power and peak else None,
        "narrow": _rounded(share(narrow, wide)),
        "note": f"As {UNMEASURED} has it, " + ("by power for peak" if power and peak else "whatever the power"),
    }
    return found


def _rounded(value: Number) -> float:
    return float(f"{float(value):.3g}")
