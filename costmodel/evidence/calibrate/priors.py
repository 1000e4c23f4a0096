"""The few constants that real steps add to isolated kernels: where they stand, and what is believed before any run."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.reader.find_documents import find
from costmodel.documents.reader.folders import places
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.efficiency import Efficiency
from costmodel.documents.schemas.prior import Leaf, Prior, Priors, kind_of, on_a_scale
from costmodel.documents.schemas.stack import Stack
from costmodel.documents.text.yaml_editor import OWN
from costmodel.evidence.calibrate.default_efficiency import beginning, part_with
from costmodel.ground.errors import Place, fail

D = TypeVar("D", Stack, Efficiency)
STEPS = "steps"  # the document of what is believed of them


def believed(shelf: CachedReader) -> tuple[Prior, ...]:
    """What would be said of each before looking at any training run."""
    document: Priors = shelf.document("belief", STEPS)
    return tuple(document.constants)


def own_source(where: str) -> str:
    """The key of what these tables told; other tables have another, and what they told keeps its own."""
    return f"{OWN}{hashlib.sha256(where.encode()).hexdigest()[:8]}"


def on_scale(belief: Prior, value: float) -> float:
    """A value on the scale on which it is fitted."""
    return math.log(value / (1 - value)) if belief.share else math.log(value)


def off_scale(belief: Prior, scaled: float) -> float:
    """Back from that scale."""
    return 1 / (1 + math.exp(-scaled)) if belief.share else math.exp(scaled)


def around(belief: Prior, value: float, spread: float) -> tuple[float, float]:
    """One spread, which is of that scale, to either side of a value."""
    middle = on_scale(belief, value)
    return off_scale(belief, middle - spread), off_scale(belief, middle + spread)


def shipped(belief: Prior, shelf: CachedReader) -> float:
    """The value its first document has now."""
    return _leaf(shelf.document(belief.kind, belief.documents[0]), belief)


def _leaf(document: Any, belief: Prior) -> float:
    value = getattr(getattr(document, belief.group), belief.key, None)
    if value is None:
        name = getattr(document, "name", None) or document.of
        place = Place(str(find("belief", STEPS)))
        raise fail("D013", f"'{belief.name}' names {belief.leaf}, which {name} has not", place)
    return float(value)


def with_values(
    case: ResolvedScenario, beliefs: Sequence[Prior], values: Sequence[float], shelf: CachedReader
) -> ResolvedScenario:
    """The case with the constants it uses at these values; what its row switched stays switched."""
    for belief, value in zip(beliefs, values, strict=True):
        if belief.kind == "stack":
            case = replace(case, stack=_changed(case.stack, case.stack.name, belief, value, shelf))
        elif belief.group == "network":
            case = replace(case, network=_changed(case.network, case.network.of, belief, value, shelf))
        else:
            case = replace(case, efficiency=_changed(case.efficiency, case.efficiency.of, belief, value, shelf))
    return case


def _changed(document: D, name: str, belief: Prior, value: float, shelf: CachedReader) -> D:
    if name not in belief.documents:
        return document
    if _leaf(document, belief) != _leaf(shelf.document(belief.kind, name), belief):
        return document
    part = getattr(document, belief.group).model_copy(update={belief.key: value})
    return document.model_copy(update={belief.group: part})


def uses(case: ResolvedScenario, belief: Prior, shelf: CachedReader) -> bool:
    """Whether a case has a leaf of the constant."""
    other = with_values(case, [belief], [belief.believed * 0.999], shelf)
    return (other.stack, other.efficiency, other.network) != (case.stack, case.efficiency, case.network)


def own(cases: Sequence[ResolvedScenario], shelf: CachedReader) -> tuple[Prior, ...]:
    """What a few runs of one's own can sharpen: sustained, network and launch, held close to what is shipped; not
    what is none there, as the launches of a stack that compiles a whole step.
    """
    made: dict[tuple[str, str], Prior] = {}
    for case in cases:
        named: tuple[tuple[Leaf, str, float, bool], ...] = (
            ("sustained.factor", case.efficiency.of, 0.1, False),
            ("network.share", case.network.of, 0.4, True),
            ("launch.operation", case.stack.name, 0.3, False),
        )
        for leaf, document, spread, share in named:
            group, _, key = leaf.partition(".")
            now = float(getattr(getattr(before(leaf, document, shelf), group), key))
            if on_a_scale(now, share=share):
                name = f"{group}, {document}"
                made[document, group] = Prior(
                    name=name, documents=[document], leaf=leaf, believed=now, spread=spread, share=share
                )
    return tuple(made.values())


def before(leaf: Leaf, name: str, shelf: CachedReader) -> Any:
    """A document as it was before runs of one's own changed the group of a leaf; of a part that nobody else measured,
    its first.
    """
    kind, group = kind_of(leaf), leaf.partition(".")[0]
    document = None
    for path in places(kind, name):
        document = shelf.document(kind, str(path)) if path.is_file() else document
        if document is not None and not getattr(document, group).source.startswith(OWN):
            return document
    return document if kind == "stack" else beginning(part_with(group), name)
