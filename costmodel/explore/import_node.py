"""The node that is given beside an imported file: by name, by its accelerator, or by both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from costmodel.documents.keys.overrides import Assignment, assign
from costmodel.documents.reader.accelerator_aliases import accelerator_named
from costmodel.documents.reader.library import DocumentReader, read
from costmodel.documents.schemas.hardware import Node
from costmodel.documents.text.yaml_tree import Mapping
from costmodel.exchange.imported import Origin, OriginValue
from costmodel.exchange.values.foreign_values import shown
from costmodel.explore.node_of_gpu import node_of_gpu
from costmodel.ground.errors import Fault
from costmodel.ground.record import record


@record
class GivenNode:
    """A node of the library, what of it is another's, and which option states it."""

    node: Node
    origin: Origin
    changes: tuple[Assignment, ...] = ()

    @property
    def name(self) -> OriginValue:
        """The name of the node, as a document states it."""
        return OriginValue(self.node.name, self.origin)

    @property
    def accelerator(self) -> str:
        """The name of its accelerator."""
        changed = [str(change.value) for change in self.changes if change.path == "cluster.node.accelerator"]
        own = self.node.accelerator
        return changed[-1] if changed else own if isinstance(own, str) else own.name

    def written_into(self, document: Mapping, origins: dict[str, Origin]) -> None:
        """Writes the node out in a document that names it, where its accelerator or links are others'."""
        if not self.changes:
            return
        reader = DocumentReader()
        assign(document, self.changes, lambda kind, name, place: reader.tree(kind, name, place)[0])
        del origins["cluster.node"]
        origins |= dict.fromkeys((change.path for change in self.changes), self.origin)


def given_node(name: str, gpu: str) -> GivenNode | None:
    """The node of --node, or the usual one of --gpu; a node that is named too has to hold that accelerator."""
    if not gpu:
        return GivenNode(read("node", name), _beside("--node")) if name else None
    changes, assumed = node_of_gpu(gpu, name or None)
    node: Node = read("node", name or assumed[0].value)
    needed = (change for change in changes if change.path != "cluster.node" and change.value != node.accelerator)
    words = "--node and --gpu, given beside the file" if name else f"--gpu {gpu}: {assumed[0].origin}"
    return GivenNode(node, Origin("assumed", words), tuple(needed))


def selected_node(stated: Sequence[OriginValue]) -> GivenNode | None:
    """The usual node of the accelerator that a manifest selects; none where it selects none, or several."""
    parts = {accelerator_named(str(each.value)): each for each in stated}
    if len(parts) != 1 or "" in parts:
        return None
    ((part, named),) = parts.items()
    given = given_node("", part)
    assert given is not None
    words = f"{named.origin.text}: {named.value}, in its usual node; --node names another"
    return replace(given, origin=Origin("derived", words, named.place))


def other_selected(given: GivenNode | None, stated: Sequence[OriginValue]) -> list[Fault]:
    """A warning for each selector of a manifest that asks for another accelerator than that of --gpu or --node."""
    if given is None or given.origin.kind != "assumed":
        return []
    known = [accelerator_named(str(each.value)) for each in stated]
    if given.accelerator in known:
        return []
    option = given.origin.text.partition(",")[0].partition(":")[0]
    return [
        Fault(
            "X004",
            f"the manifest selects {shown(each.value)}, and the scenario has {given.accelerator}, by {option}",
            each.place,
            "select the same in the manifest, or leave --gpu and --node out",
        )
        for each in stated
    ]


def _beside(option: str) -> Origin:
    return Origin("assumed", f"{option}, given beside the file")
