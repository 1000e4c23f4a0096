"""Writes fits into efficiency documents, with residual, range and source."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.reader.library import UNMEASURED, bibliography, efficiency_of, names
from costmodel.documents.schemas.efficiency import Efficiency
from costmodel.documents.text.yaml_editor import place_of
from costmodel.equations.run.economics import share
from costmodel.evidence.calibrate.calibrate import Calibrated, Fit
from costmodel.evidence.calibrate.fabric_check import SizeComparison, Soundness, beside, soundness
from costmodel.evidence.calibrate.kernel_fits import link_of
from costmodel.evidence.calibrate.priors import Part, changed, own_source, part_with
from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record
from costmodel.ground.units import significant

JUDGED = "training-runs-fit"  # the source of entries that were set from whole steps, not from kernels
WORST_MEDIAN, WORST_P90, SLACK = 0.25, 0.60, 2.0
WORST_REPORTED = 0.20  # of what is not written either way


@record
class Decision:
    """Whether a fit is written into a document, and the reason if not."""

    fit: Fit
    written: bool
    why: str
    sizes: Sequence[SizeComparison]  # measured beside predicted, from the shortest time
    soundness: Soundness | None  # of a collective, beside sound fabrics


def decide(found: Calibrated, *, replace: bool) -> list[Decision]:
    """The decision for every fit; `replace` lets kernels overwrite constants from whole steps."""
    shelf = CachedReader()
    kept = [(fit, _kept(fit, shelf, replace)) for fit in found.fits]
    return [Decision(fit, not why, why, beside(fit), soundness(fit)) for fit, why in kept]


def _kept(fit: Fit, shelf: CachedReader, replace: bool) -> str:
    """The reason why a fit is not written; empty if it is."""
    sample, outside = fit.sample, fit.outside
    if fit.unfitted:
        return fit.unfitted
    if not sample.path:
        missed = outside is not None and (outside.median > WORST_REPORTED or outside.p90 > WORST_P90)
        return "reported only; the form does not describe it" if missed else "reported only"
    if outside is None:
        return "too few shapes to hold any out"
    if outside.median > WORST_MEDIAN or outside.p90 > WORST_P90:
        return "the form does not describe it"
    if fit.now and outside.loss > SLACK * fit.now.loss:
        return "no better than the constants in use"
    if bound := _at_a_bound(fit):
        return f"these shapes do not show its {bound}"
    shared = efficiency_of(shelf.document(part_with(sample.key.part), sample.of))
    if shared not in (sample.of, UNMEASURED):
        return f"uses the efficiency of {shared}"
    if not replace and _source_at(shelf.document("efficiency", shared), sample.path) == JUDGED:
        return "set from training runs; --replace overrides"
    return ""


def _at_a_bound(fit: Fit) -> str:
    """A constant of a product that the fit pushed to a bound, as where no product is long in reading its weights.

    Attention of a prompt reads so little that its share of the bandwidth may stand at a bound.
    """
    if fit.sample.key.part != "matmul":
        return ""
    constants = fit.sample.form.constants
    ends = {constant.name: np.array([constant.low, constant.high]) for constant in constants}
    return next((name for name, end in ends.items() if np.isclose(fit.constants[name], end, atol=0.0).any()), "")


def _source_at(efficiency: Efficiency, path: tuple[str, ...]) -> str:
    """The source of the entry at a path, if there is one."""
    here: Any = efficiency
    for name in path:
        here = here.get(name) if isinstance(here, Mapping) else getattr(here, name, None)
    return str(getattr(here, "source", ""))


def updated_document(decisions: list[Decision], source: str | None) -> dict[Path, str]:
    """The files to write, each with its new text."""
    fits: dict[tuple[Part, str], list[Fit]] = defaultdict(list)
    for decision in decisions:
        if decision.written:
            fits[part_with(decision.fit.sample.key.part), decision.fit.sample.of].append(decision.fit)
    return {place_of("efficiency", name): _text_of(kind, name, mine, source) for (kind, name), mine in fits.items()}


def _text_of(kind: Part, name: str, fits: list[Fit], source: str | None) -> str:
    """A document with these fits: the existing one, or a default one."""
    shelf = CachedReader()
    new = name not in names("efficiency")
    changes: dict[tuple[str, ...], dict[str, Any]] = {}
    for fit in fits:
        where = ", ".join(f"{file} {digest}" for file, digest in sorted(fit.sample.files.items()))
        changes |= _changes(fit, source or own_source(where), shelf, new=new)
        if source is None:
            title = "Fit of costmodel calibrate on your own tables"
            changes["sources", own_source(where)] = {"title": title, "where": where}
    if source is not None:
        _defined(source, name, [] if new else shelf.document("efficiency", name).sources)
    return changed(kind, name, changes)


def _defined(source: str, name: str, own: Iterable[str]) -> None:
    if source not in own and source not in bibliography():
        hint = f"define it under sources in efficiencies/{name}.yaml, or leave --source out"
        raise fail("D013", f"'{source}' is no source of {name}, nor of the bibliography", Place("command line"), hint)


def _changes(fit: Fit, source: str, shelf: CachedReader, *, new: bool) -> dict[tuple[str, ...], dict[str, Any]]:
    """The keys of the document that a fit changes."""
    path, part = fit.sample.path, fit.sample.key.part
    assert fit.outside
    values = _values(fit, shelf)
    fitted = {
        "points": fit.points,
        "median": _percent(fit.outside.median),
        "p90": _percent(fit.outside.p90),
        "out_of": "sample",
        "range": fit.sample.range,
    }
    entry = {**values, "fitted": fitted, "source": source, "check": None}
    if new or _source_at(shelf.document("efficiency", fit.sample.of), path) != source:
        entry["note"] = None  # it spoke of figures from elsewhere
    found = {path: entry}
    if part == "matmul" and path[1] == "bf16" and _twin(fit, shelf):
        found["matmul", "fp16"] = entry
    if part == "attention" and new:
        found[path[:2]] = {"forward_share": values["forward_share"], "source": source, "check": None, "note": None}
    return found


def _twin(fit: Fit, shelf: CachedReader) -> bool:
    """Whether fp16 has the same peak and was not measured itself."""
    peak = shelf.document("accelerator", fit.sample.of).peak
    return bool(peak.fp16 == peak.bf16)


def _values(fit: Fit, shelf: CachedReader) -> dict[str, Any]:
    """The constants as the document writes them."""
    constants, part = dict(fit.constants), fit.sample.key.part
    if part == "collectives":
        link = link_of(fit.sample.of, shelf)
        assert link
        rate = float(constants.pop("share") * link)
        written = {name: _written(fit, name, value) for name, value in constants.items()}
        return {
            "start": written["start"],
            "hop": written["hop"],
            "bandwidth": f"{significant(rate / 1e9)} GB/s",
            "link": f"{significant(link / 1e9)} GB/s",
            "blend": written["blend"],
            "own": written["own"],
        }
    if part == "memory":
        constants.pop("start")
    if part == "network":
        constants["tree_hop"] = constants["ring_hop"]
    values = {name: _written(fit, name, value) for name, value in constants.items()}
    if part == "matmul":
        values["backward_share"] = _rounded(min(1.0, constants["compute_share"] * _gain(fit, shelf)))
    return values


def _gain(fit: Fit, shelf: CachedReader) -> float:
    """Rate of backward products over forward ones, from the document in use, else from `unmeasured`."""
    in_use = efficiency_of(shelf.document("accelerator", fit.sample.of))
    held = (shelf.document("efficiency", name).matmul for name in (in_use, UNMEASURED))
    entry = next(products[fit.sample.key.entry] for products in held if fit.sample.key.entry in products)
    return float(share(entry.backward_share, entry.compute_share))


def _written(fit: Fit, name: str, value: float) -> Any:
    unit = next((constant.unit for constant in fit.sample.form.constants if constant.name == name), "s")
    return f"{significant(value * 1e6)} us" if unit == "s" else _rounded(value)


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def _percent(value: float) -> str:
    return f"{min(100 * value, 100):.1f} %"
