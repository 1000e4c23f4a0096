"""Engines on scale-up domains: each lies whole in one while there is room, and what they leave of it is idle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from costmodel.equations.network.topology import domains_filled, groups_beside
from costmodel.estimate.machine.process_groups import Group, group
from costmodel.estimate.serving.plan_columns import PlanColumns, Rows, once_for_sizes
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.equation import Number, term, untraced


@once_for_sizes
def engine_group(inputs: ServingInputs, layout: PlanColumns, name: str, ranks: Number, stride: Number = 1.0) -> Group:
    """A process group of an engine; its replica, stage or tp group lies in one domain if the domain has room."""
    return group(inputs, name, ranks, stride, _lying_together(inputs, layout))


def _lying_together(inputs: ServingInputs, layout: PlanColumns) -> Number:
    """Ranks of an engine that a scheduler places in one domain: replica, stage or tp group."""
    if layout.straddles is not None and np.any(layout.straddles):
        return np.where(layout.straddles, 1.0, _whole_ranks(layout, inputs.domain))
    return _whole_ranks(layout, inputs.domain)


def _whole_ranks(layout: PlanColumns, domain: Number) -> Number:
    """Ranks of the largest unit that fits in a domain: replica, pipeline stage or tp group; 1 if none fits."""
    found: Number = np.where(layout.tp <= domain, layout.tp, 1.0)
    if layout.grouped:
        found = np.where(layout.stage_ranks <= domain, layout.stage_ranks, found)
    if layout.staged or layout.grouped:
        found = np.where(layout.ranks <= domain, layout.ranks, found)
    return found


def crosses_domains(inputs: ServingInputs, layout: PlanColumns) -> NDArray[np.bool_]:
    """Which of these plans have a tensor-parallel group over several domains."""
    if layout.straddles is None and np.all(np.asarray(layout.tp) <= inputs.domain):
        return np.zeros(len(layout), dtype=bool)
    with untraced():
        domains = engine_group(inputs, layout, "tp", layout.tp).domains
    return np.broadcast_to(np.asarray(domains) > 1, (len(layout),))


def filled_with(inputs: ServingInputs, layout: PlanColumns, most: float | None = None) -> PlanColumns:
    """The layout with as many replicas as fit on the accelerators without crossing domains; at least one.

    most: accelerators that they may have, where those are fewer than all
    """
    accelerators, domain = float(inputs.ranks) if most is None else most, float(inputs.domain)
    each, ranks = _whole_ranks(layout, domain), np.asarray(layout.ranks, dtype=np.float64)
    with untraced():
        room = np.asarray(groups_beside(np.ceil(accelerators / domain), domain, each, 0.0, each))
        whole, found = np.floor(room * each / ranks), np.floor(accelerators / ranks)
    replicas = np.where(whole >= 1, np.minimum(found, whole), found)
    return replace(layout, replicas=np.maximum(replicas, 1.0))


def prefill_beside(inputs: ServingInputs, prefill: PlanColumns, decode: PlanColumns) -> PlanColumns:
    """Prefill instances, at most as many as fit in domains beside the decode instances; at least one."""
    domain = float(inputs.domain)
    if float(inputs.ranks) <= domain:
        return prefill
    with untraced():
        domains = float(domains_filled(inputs.ranks, domain))
        (each, wanted), (larger, count) = (_parts(half, domain) for half in (prefill, decode))
        room = np.asarray(groups_beside(domains, domain, larger, count, each))
    fewer = np.floor(room / (wanted / prefill.replicas))
    return replace(prefill, replicas=np.where(fewer >= 1, np.minimum(prefill.replicas, fewer), prefill.replicas))


def with_straddling(inputs: ServingInputs, *layouts: PlanColumns) -> tuple[PlanColumns, ...]:
    """Layouts marked where the domains cannot place every engine in one domain."""
    layouts = tuple(layout if layout.straddles is None else replace(layout, straddles=None) for layout in layouts)
    if float(inputs.ranks) <= float(inputs.domain):
        return layouts
    straddles = np.logical_not(_have_room(inputs, *layouts))
    if not np.any(straddles):
        return layouts
    return tuple(replace(layout, straddles=straddles.astype(np.float64)) for layout in layouts)


def _have_room(inputs: ServingInputs, *layouts: PlanColumns) -> NDArray[np.bool_]:
    """Whether first fit places all engines of a plan in the domains without splitting any."""
    domain = float(inputs.domain)
    with untraced(), term("room of domains"):
        domains = float(domains_filled(inputs.ranks, domain))
        first, second = (_parts(layout, domain) for layout in (layouts[0], layouts[-1]))
        if len(layouts) == 1:
            second = (second[0], np.zeros(len(layouts[0])))
        room: NDArray[np.bool_] = np.zeros(len(layouts[0]), dtype=bool)
        for (larger, count), (ranks, wanted) in ((first, second), (second, first)):
            room |= np.asarray(groups_beside(domains, domain, larger, count, ranks)) >= wanted
    return room


def _parts(layout: PlanColumns, domain: float) -> tuple[Rows, Rows]:
    """Number of ranks in each unit that must lie in one domain, and the number of such units."""
    each = np.asarray(_whole_ranks(layout, domain), dtype=np.float64)
    return each, np.asarray(layout.replicas * layout.ranks, dtype=np.float64) / each
