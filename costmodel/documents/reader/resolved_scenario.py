"""A scenario with everything it names; prices that belong to another machine are dropped."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import BaseModel

from costmodel.documents.keys.field_aliases import OF_ONE, TRAINERS
from costmodel.documents.keys.overrides import Assignment, path_of
from costmodel.documents.keys.paths import LEVELS, REFERENCES, at, has_key, holder, place_at
from costmodel.documents.reader.folders import result_name
from costmodel.documents.reader.foreign_readers import Foreign
from costmodel.documents.reader.library import UNMEASURED, DocumentReader, FoundDocument, efficiency_of, names
from costmodel.documents.schemas.default_values import FlagQuestion
from costmodel.documents.schemas.efficiency import Efficiency
from costmodel.documents.schemas.hardware import Accelerator, Cluster, DefaultNode, Fabric, Node
from costmodel.documents.schemas.model import Model
from costmodel.ground.errors import COMMAND_LINE, CostModelError, Fault, Place, fail
from costmodel.ground.record import record

if TYPE_CHECKING:
    from costmodel.documents.keys.held_keys import HeldKeys
    from costmodel.documents.reader.library import CachedReader
    from costmodel.documents.schemas.practice import PowerGrid, Practice
    from costmodel.documents.schemas.run import Failures, WholeRun
    from costmodel.documents.schemas.scenario import Optimizer, Scenario, Space
    from costmodel.documents.schemas.stack import Stack


# --- drops prices that belong to another machine: a price holds only for its node and accelerator


_SCENARIO, _NODE, _ACCELERATOR = "assume.price", "cluster.node.price", "cluster.node.accelerator"

_EXCHANGED = "cluster.node"  # an exchanged node brings its own price, which is none for another accelerator


@record
class ForeignPrice:
    """A price that is left out because the machine changed: its text, and the machine it was stated for."""

    text: str
    of: str


def left_out(
    before: dict[Any, Any], tree: dict[Any, Any], assigned: Iterable[str], accelerator_of: Callable[[str], str]
) -> tuple[ForeignPrice, ...]:
    """Removes prices for the previous machine from a changed tree, unless an assignment sets them.

    Args:
        before: the scenario's tree as it was read
        tree: the same with assignments put into it
        assigned: their paths
        accelerator_of: the accelerator of a node by the node's name
    """
    paths = [*assigned]
    if not any(path.split(".")[0] == "cluster" for path in paths):
        return ()
    node, part = _machine_names(before, accelerator_of)
    node_now, part_now = _machine_names(tree, accelerator_of)
    if (node, part) == (node_now, part_now):
        return ()
    prices = []
    if not _is_covered(_SCENARIO, paths) and (text := _remove_key(tree.get("assume"), "price")):
        prices.append(ForeignPrice(text, node if node != node_now else part))
    stated_for = part if node == node_now else accelerator_of(node_now)
    if _ACCELERATOR in paths and stated_for != part_now and not _is_covered(_NODE, paths):
        listed = at(tree, "cluster.node.price.hourly")
        if _remove_key(at(tree, "cluster.node"), "price"):
            prices.append(ForeignPrice(f"{listed} of {node_now}", stated_for))
    return tuple(prices)


def _is_covered(path: str, assigned: Iterable[str]) -> bool:
    """Whether an assignment sets a key, a part of its value, or a mapping around it."""
    return any(f"{path}.".startswith(f"{one}.") or one.startswith(f"{path}.") for one in assigned if one != _EXCHANGED)


def _remove_key(here: Any, key: str) -> str:
    """Removes a key and returns its value as text; empty if it had none."""
    if not isinstance(here, dict) or here.get(key) is None:
        return ""
    held = here.pop(key)
    return str(held) if isinstance(held, str) else "a price"


def _machine_names(tree: dict[Any, Any], accelerator_of: Callable[[str], str]) -> tuple[str, str]:
    """The names of the node and the accelerator in a tree."""
    node = at(tree, "cluster.node")
    if isinstance(node, str):
        return str(node), accelerator_of(node)
    return _name(at(tree, "cluster.node.name")), _name(at(tree, "cluster.node.accelerator"))


def _name(named: Any) -> str:
    """The name of a document that is named or written out."""
    return str(at(named, "name") if isinstance(named, dict) else named)


# --- A scenario with everything it names


# Schemas of training are imported where a scenario trains: a fifth of the time of an answer about serving.

ACCELERATOR = ("cluster.node.accelerator", "cluster.node")  # where a scenario names it, or what holds it


@record
class LoadedScenario:
    """A scenario of any workload with the documents it names, ready to be estimated."""

    kind: ClassVar[str]
    model: Model
    node: Node
    accelerator: Accelerator
    scale_up: Fabric
    scale_out: Fabric
    host: Fabric | None
    efficiency: Efficiency
    network: Efficiency
    common: Efficiency  # its residuals stand in where a fit has none
    scenario: Any  # each kind has its own schema; all state a title, a cluster and assumptions
    digests: dict[str, str] = field(default_factory=dict, kw_only=True)
    trees: dict[str, Any] = field(default_factory=dict, kw_only=True)
    tree: dict[str, Any] = field(default_factory=dict, kw_only=True)
    name: str = field(default="", kw_only=True)  # as it was asked for, with what was changed on the way in
    assignments: tuple[str, ...] = field(default=(), kw_only=True)
    read: dict[tuple[str, str, str], FoundDocument] = field(
        default_factory=dict, kw_only=True, compare=False, repr=False
    )  # for variations, which read no file again
    own: tuple[str, ...] = field(default=(), kw_only=True)  # files of the user that stand before shipped ones
    foreign: dict[str, Foreign] = field(default_factory=dict, kw_only=True)  # files in other people's formats
    asked: FlagQuestion = field(default_factory=FlagQuestion, kw_only=True)  # by flags, beside or instead of a scenario
    hub: dict[str, str] = field(default_factory=dict, kw_only=True)  # shipped models by the names asked for
    stacks: dict[str, str] = field(default_factory=dict, kw_only=True)  # shipped stacks by other names of theirs
    original: dict[str, Any] = field(default_factory=dict, kw_only=True)  # the tree before anything was set in it
    changes: tuple[str | Assignment, ...] = field(default=(), kw_only=True)  # everything that was set in it
    foreign_prices: tuple[ForeignPrice, ...] = field(default=(), kw_only=True)
    offer: Node | None = field(default=None, kw_only=True)  # whose price is assumed, where no other is known
    groups: tuple[tuple[float, ResolvedScenario], ...] = field(
        default=(), kw_only=True
    )  # nodes of each kind, and all as of it

    @property
    def kinds(self) -> tuple[tuple[float, ResolvedScenario], ...]:
        """For each kind of node, their number and the scenario on that kind alone."""
        return self.groups

    @property
    def title(self) -> str:
        """The first line of every answer."""
        return str(self.scenario.title)

    @property
    def cluster(self) -> Cluster:
        """The cluster of the scenario."""
        found: Cluster = self.scenario.cluster
        return found

    @property
    def document(self) -> BaseModel:
        """The scenario's own document, without the documents that it names."""
        found: BaseModel = self.scenario
        return found

    @property
    def run(self) -> WholeRun | None:
        """The whole run, where the scenario asks about it."""
        found: WholeRun | None = self.scenario.run
        return found

    @property
    def stated_price(self) -> float | None:
        """The rent per accelerator that the scenario states."""
        found: float | None = self.scenario.assume.price
        return found

    @property
    def whole_tree(self) -> dict[str, Any]:
        """The scenario's tree with a model from a foreign file written out, so that it does not need the file."""
        named = self.tree.get("model")
        read = next((tree.tree for tree in self.foreign.values() if tree.holds == "model"), None)
        return {**self.tree, "model": read} if isinstance(named, str) and read is not None else self.tree

    @property
    def file(self) -> str:
        """The file that the scenario was read from, else the command line or its title."""
        if self.asked.words and not self.name:
            return COMMAND_LINE
        return next(iter(self.digests), self.name or self.title)

    @property
    def named_digests(self) -> dict[str, str]:
        """The digest of every document that was read, by its name in a result."""
        digests: dict[str, str] = {}
        for shown, digest in self.digests.items():
            name = free = result_name(shown)
            same = itertools.count(2)
            while free in digests:
                free = f"{name} ({next(same)})"
            digests[free] = digest
        return digests

    @property
    def own_names(self) -> list[str]:
        """The names in a result of your own files that replace shipped ones."""
        return [result_name(shown) for shown in self.own]

    def place(self, *paths: str) -> Place | None:
        """The place of the first of these leaves that the scenario states."""
        return place_at(self.tree, *paths)


@record
class ResolvedScenario(LoadedScenario):
    """A training scenario with every document it names."""

    kind: ClassVar[str] = "training"
    scenario: Scenario
    stack: Stack
    optimizer: Optimizer
    reliability: Failures | None = field(default=None, kw_only=True)  # this and the two below of the whole run,
    practice: Practice | None = field(default=None, kw_only=True)  # where the scenario asks about it
    grid: PowerGrid | None = field(default=None, kw_only=True)

    @functools.cached_property
    def held(self) -> HeldKeys:
        """The plan keys that the command line fixes in a search."""
        from costmodel.documents.keys.held_keys import held_keys

        scenario = self.scenario
        return held_keys(scenario.plan, scenario.search, scenario.workload.precision, self.assignments)

    @property
    def space(self) -> Space:
        """The plans that a search tries: those that `search` lists, restricted to the fixed keys."""
        return self.held.space


def training(loaded: LoadedScenario) -> ResolvedScenario:
    """The training scenario; a fault for any other workload."""
    if isinstance(loaded, ResolvedScenario):
        return loaded
    sentence = f"this command works for training only, and the workload is {loaded.kind}"
    raise fail("C030", sentence, loaded.place("workload.kind") or Place(loaded.file), UNDERSTOOD)


_OF_BOTH = "estimate, memory, comm, search, sweep, scale, sensitivity, solve, diff, check, explain and report"
UNDERSTOOD = f"for serving and rl: {_OF_BOTH}; for serving export too, for rl run"


def case_of(
    scenario: Scenario, reader: DocumentReader | None = None, tree: dict[str, Any] | None = None
) -> ResolvedScenario:
    """A validated training scenario with every document it names, directly or through other documents."""
    from costmodel.documents.schemas.stack import Stack

    reader, tree = reader or DocumentReader(), tree or {}
    word = scenario.stack.lower() if isinstance(scenario.stack, str) else ""
    trainer = TRAINERS.get(word, "")
    if trainer:
        reader.stacks[str(scenario.stack)] = trainer
        scenario = scenario.model_copy(update={"stack": trainer})
    held = named_documents(scenario, reader, tree)
    if word in OF_ONE and _is_single_accelerator(scenario, held["node"]):
        scenario = scenario.model_copy(update={"stack": OF_ONE[word]})
        held = named_documents(scenario, reader, tree)
        held["stacks"][word] = OF_ONE[word]
    if not isinstance(held["stack"], Stack):
        place = place_at(tree, "stack")
        sentence = f"{held['stack'].name} {purpose_of(held['stack'])}; training needs training software"
        hint = _OF_RL if getattr(held["stack"], "kind", "") == "rl" else _TRAINS
        raise fail("D010", sentence, place, hint)
    kinds = node_groups(
        scenario, tree, lambda one: ResolvedScenario(scenario=one, **named_documents(one, reader, tree))
    )
    return ResolvedScenario(scenario=scenario, **held, groups=kinds)


def _is_single_accelerator(scenario: Scenario, node: Node) -> bool:
    """Whether a single accelerator trains without sharding or offloading its states."""
    plan, counted = scenario.plan, scenario.cluster.nodes == 1 and node.accelerators == 1
    return counted and not (plan and (plan.zero or plan.offload))


def purpose_of(stack: Any) -> str:
    """The purpose of a stack, as words that follow its name."""
    purposes = {"serving": "serves models", "rl": "is software for reinforcement learning"}
    return purposes.get(getattr(stack, "kind", ""), "is training software")


_OF_RL = "costmodel list stacks; costmodel show grpo-qwen-2.5-7b-64 prints a scenario of reinforcement learning"
_TRAINS = "costmodel list stacks; workload.kind: serving, or --rate, --prompt or --answer, for serving"


def named_documents(scenario: BaseModel, reader: DocumentReader, tree: dict[str, Any]) -> dict[str, Any]:
    """Every document that a scenario of any workload names, as fields of the loaded scenario."""
    documents: dict[str, Any] = {"": scenario}
    trees: dict[str, Any] = {"": tree}
    for level in LEVELS:
        paths = [path for path in level if _has_place(path, documents)]
        wanted = [_wanted_document(path, documents, trees) for path in paths]
        for path, document, (kind, named, _) in zip(paths, reader.documents(*wanted), wanted, strict=True):
            above, key = holder(path)
            documents[path] = document
            trees[path] = reader.origin[kind, named] if isinstance(named, str) else at(trees[above], key)
        _check_fabrics(paths, documents, trees)
    held = {reference.held: documents[path] for path, reference in REFERENCES.items() if path in documents}
    common = reader.document("efficiency", UNMEASURED)
    further = {
        "digests": reader.digests,
        "trees": reader.trees,
        "tree": tree,
        "own": tuple(reader.own),
        "read": reader.read,
    }
    names = {name: dict(getattr(reader, name)) for name in ("hub", "stacks", "foreign")}
    return {**held, "offer": _assumed_offer(held, reader), "common": common, **names, **further}


def _assumed_offer(held: dict[str, Any], reader: DocumentReader) -> Node | None:
    """The cloud offer whose price is assumed if the scenario's node has none."""
    node, usual = held["node"], held["accelerator"].offer
    if usual is None or node.list_price is not None:
        return None
    found: Node = reader.document("node", usual.node)
    return found


def _has_place(path: str, documents: dict[str, Any]) -> bool:
    """Whether scenarios of this workload have the key that names a document; serving has no optimizer."""
    above, key = holder(path)
    return bool(REFERENCES[path].kind == "efficiency" or has_key(documents[above], key))


def _wanted_document(path: str, documents: dict[str, Any], trees: dict[str, Any]) -> tuple[str, Any, Place | None]:
    """The kind of a document, its name or content, and its place; an unnamed efficiency fit is chosen here."""
    kind, (above, key) = REFERENCES[path].kind, holder(path)
    named = efficiency_of(documents[above]) if kind == "efficiency" else at(documents[above], key)
    return kind, named, place_at(trees[above], key, "name")


def _check_fabrics(paths: Iterable[str], documents: dict[str, Any], trees: dict[str, Any]) -> None:
    """Raises a fault for every fabric of the wrong kind; accelerators may also communicate over host links."""
    faults = []
    for path in paths:
        (above, key), links, fabric = holder(path), REFERENCES[path].links, documents[path]
        if links and fabric is not None and fabric.kind not in links:
            hint = f"{key} takes one of kind {' or '.join(links)}; costmodel list fabrics"
            place = place_at(trees[above], key)
            faults.append(Fault("D010", f"{fabric.name} is a {fabric.kind} fabric", place, hint))
    if faults:
        raise CostModelError(*faults)


C = TypeVar("C", bound=Any)


def node_groups(scenario: Any, tree: dict[str, Any], loaded: Callable[[Any], C]) -> tuple[tuple[float, C], ...]:
    """For each kind of node, their number and the scenario on that kind alone; empty if all nodes are of one kind."""
    groups = scenario.cluster.groups or []
    kinds = {str(group.node): group.node for group in groups}
    if len(kinds) < 2:
        return ()
    found = []
    for name, node in kinds.items():
        cluster = scenario.cluster.model_copy(update={"node": node, "groups": None, "between": None})
        count = sum(float(group.nodes) for group in groups if str(group.node) == name)
        found.append((count, loaded(scenario.model_copy(update={"cluster": cluster}))))
    if len({case.node.accelerators for _, case in found}) > 1:
        sentence = "nodes of all groups need the same number of accelerators"
        hint = "write a node out with fewer accelerators of those it is built with"
        raise fail("D010", sentence, place_at(tree, "cluster.groups"), hint)
    return tuple(found)


# The node that stands for the own of an accelerator.


def proxy_node(shelf: CachedReader, accelerator: str) -> DefaultNode | None:
    """The proxy node of an accelerator: the node that its document names, else the first node that contains it."""
    document: Accelerator = shelf.document("accelerator", accelerator)
    if document.found_in is not None:
        return document.found_in
    nodes = (name for name in sorted(names("node")) if shelf.document("node", name).accelerator == accelerator)
    return next((DefaultNode(node=name) for name in nodes), None)


def own_keys(shelf: CachedReader, accelerator: str, stand: DefaultNode) -> dict[str, str]:
    """Keys of the proxy node to replace by the accelerator's values; empty if the node is built with the accelerator.

    If links to the host replace links between accelerators, they are also the links to the host: it is one slot.
    """
    node: Node = shelf.document("node", stand.node)
    own = {} if node.accelerator == accelerator else {"accelerator": accelerator}
    if stand.fabric is None:
        return own
    links: Fabric = shelf.document("fabric", stand.fabric)
    own["scale_up.fabric"] = stand.fabric
    if node.scale_up.pair_bandwidth is not None:
        own["scale_up.pair_bandwidth"] = f"{links.bandwidth / 1e9:g} GB/s"
    if links.kind == "host" and node.host is not None:
        own["host"] = stand.fabric
    return own


def proxy_tree(shelf: CachedReader, accelerator: str, stand: DefaultNode) -> str | dict[str, Any]:
    """The proxy node for an accelerator: its name if it is built with the accelerator, else written out.

    The price is left out, because it is for the node's original accelerators.
    """
    own = own_keys(shelf, accelerator, stand)
    if not own:
        return stand.node
    tree: dict[str, Any] = shelf.document("node", stand.node).model_dump(by_alias=True, exclude_none=True)
    tree.pop("price", None)
    for key, value in own.items():
        above, _, name = key.rpartition(".")
        (tree[above] if above else tree)[name] = value
    return tree


# The nodes of a cluster whose size is a number of accelerators: the flag --gpus states it, whatever the node.

GPUS, NODE, NODES, PART = "--gpus", "cluster.node", "cluster.nodes", "cluster.node.accelerators"


def nodes_of(case: LoadedScenario, gpus: int, place: Place, *, varies: bool = False) -> Iterator[Assignment]:
    """Assignments for a number of GPUs: full nodes or part of one node; a fault if they do not fill whole nodes.

    varies: whether the node differs between answers; then each answer reports its own fault
    """
    per_node = int(case.node.accelerators)
    if gpus > per_node and gpus % per_node and not varies:
        near = f"--gpus {gpus // per_node * per_node} or {(gpus // per_node + 1) * per_node}"
        idle = "; replicas may leave some of them idle" if case.kind == "serving" else ""
        sentence = f"{case.node.name} has {per_node} GPUs, and {gpus} is not a multiple of {per_node}"
        raise fail("C004", sentence, place, f"take {near}{idle}")
    yield Assignment(NODES, place, max(1, gpus // per_node), place)
    if gpus < per_node:
        yield Assignment(PART, place, gpus, place)


def counted_by_gpus(case: LoadedScenario) -> bool:
    """Whether --gpus states the size of the cluster."""
    return GPUS in case.asked.words and not {NODES, PART}.intersection(map(path_of, case.assignments))


def is_of_gpus(change: str | Assignment) -> bool:
    """Whether a change comes from `--gpus`."""
    return isinstance(change, Assignment) and change.place.text.startswith(f"{GPUS} ")


def gpus_of_flags(case: LoadedScenario) -> tuple[int, Place]:
    """The number that `--gpus` gives, and its place."""
    words = case.asked.words
    place = next(change.place for change in case.changes if is_of_gpus(change) and isinstance(change, Assignment))
    return int(words[words.index(GPUS) + 1]), place
