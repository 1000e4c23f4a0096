"""Efficiency documents of parts that have none: begun as what everything unmeasured has, without its residuals."""

from __future__ import annotations

import re
from typing import Any, Literal

from costmodel.documents.efficiency import Efficiency
from costmodel.documents.hardware import Accelerator
from costmodel.documents.library import UNMEASURED, document_of
from costmodel.documents.precision import RECIPES
from costmodel.documents.rewriting import Changes, document_text, place_of, rewritten
from costmodel.documents.shelf import Shelf
from costmodel.equations.counting import repeated
from costmodel.equations.economics import share
from costmodel.equations.roofline import best_matmul_share
from costmodel.equations.slowdown import part_slowdown

Part = Literal["accelerator", "fabric"]

_HEAD = """# yaml-language-server: $schema=../schema.json
# Opinions, fitted; the facts are in ../{of}s/. What was not measured is that of {base}.
"""
_COMMENT = re.compile(r"\s+#\s.*$")
_NOT_OF = {
    "accelerator": ("network",),
    "fabric": ("matmul", "attention", "memory", "sustained", "collectives"),
}


def begun(of: Part, name: str, changes: Changes) -> str:
    """The text of a first efficiency of an accelerator or a fabric, with these changes."""
    made = dict(changes)
    if of == "accelerator":
        accelerator, common = Shelf().document("accelerator", name), Shelf().document("efficiency", UNMEASURED)
        for path, values in {**_best_known(accelerator, common), **_by_power(accelerator, common)}.items():
            made[path] = {**values, **changes.get(path, {})}
    text = document_text("efficiency", UNMEASURED)
    body = "".join(f"{_COMMENT.sub('', line)}\n" for line in text.splitlines() if not line.startswith("#"))
    return rewritten(
        _HEAD.format(of=of, base=UNMEASURED) + body, {(): {"of": name}, **made}, _NOT_OF[of], nowhere="fitted"
    )


def beginning(of: Part, name: str) -> Efficiency:
    """A first efficiency as a document."""
    found: Efficiency = document_of("efficiency", begun(of, name, {}), str(place_of("efficiency", name)))
    return found


def _best_known(accelerator: Accelerator, common: Efficiency) -> dict[tuple[str, ...], dict[str, Any]]:
    """Shares by the best measured matmuls, where there are some: they stand in for a fit until there is one."""
    kinds: dict[str, str] = {recipe.fit: recipe.type for recipe in RECIPES.values()}
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for key, fit in common.matmul.items():
        if (kind := kinds[key]) in accelerator.best_matmul:
            best, peak = accelerator.best_matmul[kind], getattr(accelerator.peak, kind)
            gains = {"compute_share": 1.0, "backward_share": share(fit.backward_share, fit.compute_share)}
            shares = {name: _rounded(best_matmul_share(best, peak, gain)) for name, gain in gains.items()}
            found["matmul", key] = {**shares, "check": None, "note": "Shares by the best measured matmul"}
    return found


def _by_power(accelerator: Accelerator, common: Efficiency) -> dict[tuple[str, ...], dict[str, Any]]:
    """The slow-downs that the power for its peak gives a part; without its power those of everything unmeasured."""
    fit, power, peak = common.sustained, accelerator.power, accelerator.peak.bf16 or accelerator.peak.fp16
    if fit is None or power is None or peak is None or fit.power is None or fit.peak is None:
        return {("sustained",): {"power": None, "peak": None, "note": f"As {UNMEASURED} has it; no power is known"}}
    wide, narrow = (
        part_slowdown(factor, power.max, peak, fit.power, fit.peak)
        for factor in (fit.factor, repeated(fit.narrow, fit.factor))
    )
    values = {
        "factor": _rounded(wide),
        "power": f"{power.max:g} W",
        "peak": f"{peak / 1e12:g} TFLOP/s",
        "narrow": _rounded(share(narrow, wide)),
        "note": f"By power for peak, as {UNMEASURED} has it",
    }
    return {("sustained",): values}


def _rounded(value: Any) -> float:
    return float(f"{float(value):.3g}")
