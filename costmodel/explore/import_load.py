"""The load that is given beside the command of a serving engine, and what of its files it takes the place of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from costmodel.exchange.imported import Origin, OriginValue
from costmodel.exchange.importers.launch.layer import Layer
from costmodel.exchange.values.foreign_values import shown
from costmodel.explore.flag_keys import KEYS
from costmodel.explore.import_layers import facts_of
from costmodel.explore.short_form import LOADS, OF_LOADS, flag_assignment


def load_flags(flags: Mapping[str, str]) -> Layer:
    """What the flags of a load state, such as --rate and --prompt.

    >>> {path: fact.value for path, fact in load_flags({"rate": "8", "answer": "512"}).facts.items()}
    {'workload.rate': '8 /s', 'workload.output': 512}
    """
    layer = Layer("")
    for name, text in flags.items():
        path = KEYS["serving"][name]
        typed = flag_assignment(name, path, text)
        layer.facts |= facts_of(path, typed.value, f"--{name}", typed.place)
    return layer


def replace_stated(layers: Sequence[Layer], given: Layer) -> None:
    """Takes out of layers what is given in their place; the origin of what is given names the first of it.

    A length takes the place of its mean and spread, and one load that of another, with what belongs to that.
    """
    stated = [facts for layer in layers for facts in (layer.facts, layer.weak)]
    loads = [load for load in LOADS if load in given.facts]
    lost = {load for load in LOADS if loads and load not in loads and any(load in facts for facts in stated)}
    lost |= {path for path in OF_LOADS if lost and path not in given.facts}
    taken: dict[str, tuple[str, OriginValue]] = {}  # by what is given: the path that it takes the place of, its value
    for facts in stated:
        for path in list(facts):
            for by in loads if path in lost else _replacing(path, given.facts):
                before = facts.pop(path, None)
                if before is not None:
                    taken.setdefault(by, (path, before))
    for by, (path, before) in taken.items():
        own = given.facts[by]
        name = "" if path == by else f"{path.removeprefix('workload.')} "
        spot = f" ({before.place.file}:{before.place.line})" if before.place and before.place.line else ""
        spot = spot or f" of {before.origin.text.partition(',')[0]}"
        words = f"{own.origin.text.partition(',')[0]}, in the place of {name}{shown(before.value)}{spot}"
        given.facts[by] = own._replace(origin=Origin("assumed", words, own.place))


def _replacing(path: str, given: Mapping[str, OriginValue]) -> Iterator[str]:
    """What is given of a key of the workload: itself, a part of it, or what it is a part of."""
    for by in given if path.startswith("workload.") else ():
        if by == path or by.startswith(f"{path}.") or path.startswith(f"{by}."):
            yield by
