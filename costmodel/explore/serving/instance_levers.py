"""Settings that may help prefill and decode apart whose links are full."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.ground.units import significant

_GBIT, _PORT = 1e9 / 8, "cluster.fabric.bandwidth"  # bytes a second of a port
_FASTER = (2, 4, 8, 16, 32, 64)  # times as fast


def faster_links(answer: ServingAnswer) -> Iterator[tuple[str, ...]]:
    """Ports of the network that carry more between instances apart, which are no remedy inside one domain."""
    if answer.costs["gpus"] > float(answer.inputs.domain):
        port = float(answer.inputs.case.scale_out.bandwidth) / _GBIT
        yield from ((f"{_PORT}={significant(factor * port)}Gbit/s",) for factor in _FASTER)


def together(answer: ServingAnswer) -> Iterator[tuple[str, ...]]:
    """Replicas that do both, in the layout of either kind of instance: no cache moves between them."""
    room, names, found = float(answer.inputs.ranks), ("tp", "ep", "dp_attention", "dcp"), []
    for half in filter(None, (answer.plan.decode, answer.plan.prefill)):
        degrees = [f"{name}: {getattr(half, name):.0f}" for name in names if getattr(half, name) > 1 or name == "tp"]
        count = room // float(half.tp * half.dp_attention)
        found.append(f"plan={{{', '.join([*degrees, f'replicas: {count:.0f}'])}}}")
    yield from ((setting,) for setting in dict.fromkeys(found))
