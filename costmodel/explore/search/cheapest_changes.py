"""Changes of a scenario that make a training plan smaller or faster, cheapest first.

>>> from costmodel.documents.reader.resolved_scenario import load
>>> [change.settings for change in of_quality(load("quickstart"), smaller=True)][0]
('workload.gradients=bf16',)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from costmodel.documents.keys.paths import at
from costmodel.documents.reader.find_documents import find, said_first
from costmodel.documents.reader.library import names, read
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.hardware import Accelerator, Node
from costmodel.documents.schemas.precision import RECIPES
from costmodel.documents.text.files import file_text
from costmodel.estimate.machine.price import hourly_price
from costmodel.estimate.shared.results import number
from costmodel.ground.errors import CostModelError
from costmodel.ground.record import record
from costmodel.ground.units import gib

if TYPE_CHECKING:
    from costmodel.documents.reader.serving_scenario import ServingCase
    from costmodel.documents.schemas.scenario import Optimizer

Price = Literal["", "time", "quality", "money", "job"]  # job: another one than was asked for
MOST_DOUBLINGS = 6
_MOST_NODES = 200  # documents of nodes, which users may add to
SHORTEST = 256  # tokens; a shorter sequence trains another model


@record
class Remedy:
    """Settings that make a plan work, with the figures of the resulting answer.

    alternatives: each is a remedy alone; the settings of one belong together. Figures are those of the first.
    chance: that the plan fits. left: remaining reasons against the plan; with them there are no figures.
    valid: for a search without any valid plan, the number of valid plans with this remedy.
    """

    alternatives: tuple[tuple[str, ...], ...]
    price: Price = ""
    memory_peak: float | None = None
    memory_share: float | None = None
    step_time: float | None = None
    chance: float | None = None
    left: tuple[str, ...] = ()
    valid: int | None = None
    note: str = ""

    @property
    def settings(self) -> tuple[str, ...]:
        """The first of the alternatives."""
        return self.alternatives[0]

    @property
    def assignments(self) -> tuple[str, ...]:
        """The alternatives that are a single assignment, in the form of --set."""
        return tuple(settings[0] for settings in self.alternatives if len(settings) == 1)


def has_chance(chance: float | None, preferred: float | None) -> bool:
    """Whether a chance is enough: it reaches the preferred one, or one of the two is unknown.

    >>> has_chance(0.5, 0.9), has_chance(0.5, None)
    (False, True)
    """
    return chance is None or preferred is None or chance >= preferred


def safest(found: Iterable[Remedy], preferred: float | None) -> list[Remedy]:
    """The remedies with the preferred chance; if none has it, the surest, one on the user's own hardware first."""
    offered = list(found)
    safe = [remedy for remedy in offered if has_chance(remedy.chance, preferred)]
    surest = sorted(offered, key=lambda remedy: -(remedy.chance or 0.0))
    if safe and all(remedy.price in ("money", "job") for remedy in safe):
        return [*[remedy for remedy in surest if remedy.price in ("time", "quality")][:1], *safe]
    return safe or surest[:1]


@record
class Change:
    """Settings that are applied together; of each kind, only the first change that works is offered."""

    kind: str
    settings: tuple[str, ...]
    price: Price
    note: str = ""


CHUNKED_LOSS = Change("loss", ("stack.loss=chunked",), "time")


def of_quality(case: ResolvedScenario, *, smaller: bool) -> Iterator[Change]:
    """Narrower number types, which reduce accuracy; before them a chunked loss, which does not."""
    workload = case.scenario.workload
    if not smaller:
        if not RECIPES[workload.precision].narrow:
            kind = "bf16" if RECIPES[workload.precision].full else "fp8"
            yield Change("precision", (f"workload.precision={kind}",), "quality")
        return
    if case.stack.loss == "plain":
        yield CHUNKED_LOSS
    if RECIPES[workload.precision].full:
        yield Change("precision", ("workload.precision=bf16",), "quality")
    elif (workload.gradients or case.stack.gradients) == "fp32":
        narrow = "fp16" if workload.precision == "fp16" else "bf16"
        yield Change("gradients", (f"workload.gradients={narrow}",), "quality")
    narrow_states: Optimizer | None = _read_or_none("optimizer", "adam-8bit")
    if narrow_states is not None and case.optimizer.moments > narrow_states.moments:
        yield Change("optimizer", ("workload.optimizer=adam-8bit",), "quality")
    tuning = workload.tuning
    if tuning != "full" and tuning.method == "lora":
        path = "workload.tuning" if at(case.tree, "workload.tuning") == "lora" else "workload.tuning.method"
        yield Change("qlora", (f"{path}=qlora",), "quality")


def of_software(case: ResolvedScenario) -> Iterator[Change]:
    """Changes of software and number types that together may make a job small enough, cheapest first."""
    offload = case.stack.offload
    if offload is not None and case.space.offload is None:
        names = ", ".join(offload.of)
        yield Change("offload", (f"search.offload=[[{names}]]",), "time")
    yield from of_quality(case, smaller=True)


def of_what_is_learnt(case: ResolvedScenario) -> Iterator[Change]:
    """Changes of the job itself, so the last resort: shorter sequences, then adapters instead of all weights."""
    tokens = int(case.scenario.workload.sequence)
    while tokens >= 2 * SHORTEST:
        tokens //= 2
        yield Change("sequence", (f"workload.sequence={tokens}",), "job", "another job: shorter sequences")
    if case.scenario.workload.tuning == "full":
        for method in ("lora", "qlora"):
            yield Change(method, (f"workload.tuning={{method: {method}}}",), "job", "another job: trains adapters")


def of_money(case: ResolvedScenario, *, larger: bool, least: float = 0.0) -> Iterator[Change]:
    """More accelerators of the same kind, in the node and in the cluster, then other accelerators.

    larger: with more memory. least: usable bytes of another accelerator at least

    A stated dp grows with the accelerators.
    """
    cluster, plan, there = case.scenario.cluster, case.scenario.plan, shipped_node(case)
    freed = () if plan is None or plan.dp is None else ("plan.dp=null",)
    if there is not None:
        counts = (case.node.accelerators * 2.0**power for power in range(1, MOST_DOUBLINGS + 1))
        for count in counts:
            if count <= there.accelerators:
                yield Change("accelerators", (f"cluster.node.accelerators={count:.0f}", *freed), "money")
    for power in range(1, MOST_DOUBLINGS + 1):
        if case.node.built <= case.node.accelerators * 2 ** (power - 1):
            settings = nodes_of(case, float(cluster.nodes * case.node.accelerators) * 2**power)
            yield Change("nodes", (*settings, *freed), "money")
    for node, accelerator in _other_nodes(case, larger=larger):
        settings = _as_many(case, node) if accelerator.memory.usable >= least else ()
        if settings:
            note = f"{accelerator.name}, {gib(accelerator.memory.usable)} GiB"
            yield Change(f"node {accelerator.name}", settings, "money", note)


def of_the_scenario(case: ResolvedScenario, *, smaller: bool, least: float = 0.0) -> Iterator[Change]:
    """Changes outside the plan: number types, then hardware, then another job."""
    yield from of_quality(case, smaller=smaller)
    yield from of_money(case, larger=smaller, least=least)
    yield from of_what_is_learnt(case) if smaller else ()


def nodes_of(case: ResolvedScenario | ServingCase, gpus: float) -> tuple[str, ...]:
    """Settings for nodes with `gpus` accelerators; fills a partly used node before adding others."""
    used, built = float(case.node.accelerators), float(case.node.built)
    if used >= built:
        return (f"cluster.nodes={math.ceil(gpus / used):.0f}",)
    nodes = math.ceil(gpus / built)
    filled = f"cluster.node.accelerators={min(gpus, built):.0f}"
    return (filled,) if nodes == float(case.scenario.cluster.nodes) else (filled, f"cluster.nodes={nodes}")


def shipped_node(case: ResolvedScenario) -> Node | None:
    """The shipped document of the scenario's node; None if there is none."""
    node: Node | None = _read_or_none("node", case.node.name)
    return node


def _read_or_none(kind: str, name: str) -> Any:
    """A document by name; None where no valid one exists."""
    try:
        return read(kind, name)
    except CostModelError:
        return None


def _as_many(case: ResolvedScenario, node: Node) -> tuple[str, ...]:
    """Settings for another node with the same total number of accelerators; empty if its nodes do not divide it."""
    wanted = number(case.node.accelerators * case.scenario.cluster.nodes)
    named = f"cluster.node={node.name}"
    if node.accelerators == case.node.accelerators:
        return (named,)
    if case.scenario.cluster.nodes == 1 and wanted < node.accelerators:
        return named, f"cluster.node.accelerators={wanted:.0f}"
    if wanted % node.accelerators:
        return ()
    return named, f"cluster.nodes={wanted / node.accelerators:.0f}"


def _other_nodes(case: ResolvedScenario, *, larger: bool) -> Iterator[tuple[Node, Accelerator]]:
    """Nodes with another accelerator, each accelerator once: same vendor first, then by price and memory."""
    own, seen = case.accelerator, set[str]()
    groups: dict[tuple[bool, bool], list[str]] = {}
    for name in names("node")[:_MOST_NODES]:
        accelerator = _stated_name("node", name, "accelerator")
        if accelerator != own.name:
            foreign = _stated_name("accelerator", accelerator, "vendor") not in ("", own.vendor)
            groups.setdefault((foreign, not _has_line("node", name, "price")), []).append(name)
    for group in sorted(groups):
        for node, other in _nodes_in_order(groups[group], own, larger=larger):
            if other.name not in seen:
                seen.add(other.name)
                yield node, other


def _nodes_in_order(group: Iterable[str], own: Accelerator, *, larger: bool) -> Iterator[tuple[Node, Accelerator]]:
    """Nodes with another accelerator: of the same vendor first, then by price and memory."""
    found = []
    for name in group:
        node: Node | None = _read_or_none("node", name)
        accelerator: Accelerator | None = None if node is None else _accelerator(node)
        if node is None or accelerator is None:
            continue
        if accelerator.name != own.name and (not larger or accelerator.memory.usable > own.memory.usable):
            rank = accelerator.vendor != own.vendor, hourly_price(node), accelerator.memory.usable, name
            found.append((rank, node, accelerator))
    yield from ((node, accelerator) for _, node, accelerator in sorted(found, key=lambda each: each[0]))


def _stated_name(kind: str, name: str, key: str) -> str:
    """The text on the line of a key; empty where there is no such document or line."""
    return said_first(_change_words(kind, name), key)


def _has_line(kind: str, name: str, key: str) -> bool:
    return any(line.startswith(f"{key}:") for line in _change_words(kind, name).splitlines())


def _change_words(kind: str, name: str) -> str:
    try:
        return file_text(str(find(kind, name))) if name else ""
    except CostModelError:
        return ""


def _accelerator(node: Node) -> Accelerator | None:
    """The accelerator that a node names or defines inline."""
    named = node.accelerator
    accelerator: Accelerator | None = _read_or_none("accelerator", named) if isinstance(named, str) else named
    return accelerator
