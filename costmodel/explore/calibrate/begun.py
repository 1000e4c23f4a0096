"""Efficiency documents of parts that have none: begun as what everything unmeasured has, without its residuals."""

from __future__ import annotations

import re
from typing import Any

from costmodel.documents.hardware import Accelerator
from costmodel.documents.library import UNMEASURED
from costmodel.documents.precision import RECIPES
from costmodel.documents.rewriting import Changes, document_text, rewritten
from costmodel.documents.shelf import Shelf
from costmodel.equations.economics import share
from costmodel.equations.roofline import best_matmul_share

_HEAD = """# yaml-language-server: $schema=../schema.json
# Opinions, fitted; the facts are in ../{folder}/. What was not measured is that of {base}.
"""
_COMMENT = re.compile(r"\s+#\s.*$")
_OF_FABRICS = ("network",)
_OF_ACCELERATORS = ("matmul", "attention", "memory", "sustained", "collectives")


def begun(kind: str, name: str, changes: Changes) -> str:
    """The text of a first efficiency of an accelerator or a fabric, with these changes."""
    made = dict(changes)
    if kind == "accelerator":
        for path, values in best_known(Shelf().document("accelerator", name)).items():
            made[path] = {**values, **changes.get(path, {})}
    text = document_text("efficiency", UNMEASURED)
    body = "".join(f"{_COMMENT.sub('', line)}\n" for line in text.splitlines() if not line.startswith("#"))
    head = _HEAD.format(folder="accelerators" if kind == "accelerator" else "fabrics", base=UNMEASURED)
    dropped = _OF_ACCELERATORS if kind == "fabric" else _OF_FABRICS
    return rewritten(head + body, {(): {"of": name}, **made}, dropped, nowhere="fitted")


def best_known(accelerator: Accelerator) -> dict[tuple[str, ...], dict[str, Any]]:
    """Shares by the best measured matmuls, where there are some: they stand in for a fit until there is one."""
    usual, kinds = Shelf().document("efficiency", UNMEASURED).matmul, {each.fit: each.type for each in RECIPES.values()}
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for key, fit in usual.items():
        kind = kinds[key]
        if kind in accelerator.best_matmul:
            best, peak = accelerator.best_matmul[kind], getattr(accelerator.peak, kind)
            gains = {"compute_share": 1.0, "backward_share": share(fit.backward_share, fit.compute_share)}
            shares = {name: float(best_matmul_share(best, peak, gain)) for name, gain in gains.items()}
            found["matmul", key] = {name: float(f"{value:.3g}") for name, value in shares.items()}
    return found
