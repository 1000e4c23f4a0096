"""The few constants that real steps add to isolated kernels: their values and their priors."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.reader.find_documents import find
from costmodel.documents.reader.folders import has, places
from costmodel.documents.reader.library import UNMEASURED, document_of
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.base import OWN
from costmodel.documents.schemas.efficiency import Efficiency
from costmodel.documents.schemas.hardware import Accelerator
from costmodel.documents.schemas.precision import RECIPES
from costmodel.documents.schemas.prior import Leaf, Prior, Priors, kind_of, on_a_scale
from costmodel.documents.schemas.stack import Stack
from costmodel.documents.text.yaml_editor import Changes, document_text, place_of, rewritten
from costmodel.equations.run.economics import share
from costmodel.estimate.machine.number_formats import by_power, unmeasured_shares
from costmodel.ground.equation import Number
from costmodel.ground.errors import Place, fail

# Default efficiency documents for parts without one: the values for unmeasured parts, without residuals.

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


D = TypeVar("D", Stack, Efficiency)
STEPS = "steps"  # the document of their priors
OTHERS = "other-makers"  # that of parts of other makers


def shipped_priors(shelf: CachedReader) -> tuple[Prior, ...]:
    """The prior of each constant."""
    document: Priors = shelf.document("prior", STEPS)
    return tuple(document.constants)


def priors_for(cases: Sequence[ResolvedScenario], shelf: CachedReader) -> tuple[Prior, ...]:
    """The shipped priors, and from the priors of other makers' parts those that these scenarios use."""
    others: Priors = shelf.document("prior", OTHERS)
    used = (prior for prior in others.constants if any(uses(case, prior, shelf) for case in cases))
    return (*shipped_priors(shelf), *used)


def width_priors(shelf: CachedReader) -> tuple[Prior, ...]:
    """The priors of the widths of the step-time band."""
    document: Priors = shelf.document("prior", STEPS)
    return tuple(document.widths)


def own_source(where: str) -> str:
    """The source key of these tables. Other tables get another key, and constants fitted on them keep theirs."""
    return f"{OWN}{hashlib.sha256(where.encode()).hexdigest()[:8]}"


def on_scale(prior: Prior, value: float) -> float:
    """A value on its fitted scale."""
    return math.log(value / (1 - value)) if prior.share else math.log(value)


def off_scale(prior: Prior, scaled: float) -> float:
    """The inverse of `on_scale`."""
    return 1 / (1 + math.exp(-scaled)) if prior.share else math.exp(scaled)


def around(prior: Prior, value: float, spread: float) -> tuple[float, float]:
    """One spread to either side of a value, on its fitted scale."""
    middle = on_scale(prior, value)
    return off_scale(prior, middle - spread), off_scale(prior, middle + spread)


def shipped(prior: Prior, shelf: CachedReader) -> float:
    """The current value in the first document that has it."""
    return _leaf(shelf.document(prior.kind, prior.documents[0]), prior)


def _leaf(document: Any, prior: Prior) -> float:
    value = getattr(getattr(document, prior.group), prior.key, None)
    if value is None:
        name = getattr(document, "name", None) or document.of
        place = Place(str(find("prior", STEPS)))
        raise fail("D013", f"'{prior.name}' names {prior.leaf}, which {name} does not have", place)
    return float(value)


def with_values(
    case: ResolvedScenario, priors: Sequence[Prior], values: Sequence[float], shelf: CachedReader
) -> ResolvedScenario:
    """The scenario with its constants at these values; settings of its row stay."""
    for prior, value in zip(priors, values, strict=True):
        if prior.kind == "stack":
            case = replace(case, stack=_changed(case.stack, case.stack.name, prior, value, shelf))
        elif prior.group == "network":
            case = replace(case, network=_changed(case.network, case.network.of, prior, value, shelf))
        else:
            case = replace(case, efficiency=_changed(case.efficiency, case.efficiency.of, prior, value, shelf))
    return case


def _changed(document: D, name: str, prior: Prior, value: float, shelf: CachedReader) -> D:
    if name not in prior.documents:
        return document
    if _leaf(document, prior) != _leaf(shelf.document(prior.kind, name), prior):
        return document
    part = getattr(document, prior.group).model_copy(update={prior.key: value})
    return document.model_copy(update={prior.group: part})


def uses(case: ResolvedScenario, prior: Prior, shelf: CachedReader) -> bool:
    """Whether a scenario uses the key of a constant."""
    other = with_values(case, [prior], [prior.mean * 0.999], shelf)
    return (other.stack, other.efficiency, other.network) != (case.stack, case.efficiency, case.network)


def own(cases: Sequence[ResolvedScenario], shelf: CachedReader) -> tuple[Prior, ...]:
    """Priors of the constants that a few of your own runs can improve: sustained, network and launch, near the shipped
    values. Constants that are zero are left out, such as the launches of a stack that compiles a whole step.
    """
    made: dict[tuple[str, str], Prior] = {}
    for case in cases:
        named: tuple[tuple[Leaf, str, float, bool], ...] = (
            ("sustained.factor", case.efficiency.of, 0.1, False),
            ("network.share", case.network.of, 0.4, True),
            ("launch.operation", case.stack.name, 0.3, False),
        )
        for leaf, document, spread, of_share in named:
            group, _, key = leaf.partition(".")
            now = float(getattr(getattr(before(leaf, document, shelf), group), key))
            if on_a_scale(now, share=of_share):
                name = f"{group}, {document}"
                made[document, group] = Prior(
                    name=name, documents=[document], leaf=leaf, mean=now, spread=spread, share=of_share
                )
    return tuple(made.values())


def before(leaf: Leaf, name: str, shelf: CachedReader) -> Any:
    """A document before your own runs changed the group that contains a leaf; the default document of a part without a
    fit.
    """
    kind, group = kind_of(leaf), leaf.partition(".")[0]
    document = None
    for path in places(kind, name):
        document = shelf.document(kind, str(path)) if path.is_file() else document
        if document is not None and not getattr(document, group).source.startswith(OWN):
            return document
    return document if kind == "stack" else beginning(part_with(group), name)
