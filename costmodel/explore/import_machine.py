"""A printed shape of a machine as the cluster of a scenario: the nodes of the library that it may be."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.documents.reader.accelerator_aliases import accelerator_named
from costmodel.documents.reader.library import names, read
from costmodel.documents.schemas.hardware import Node
from costmodel.exchange.imported import Imported, Loss, Origin, OriginValue
from costmodel.exchange.machines.machine_shape import MachineShape
from costmodel.exchange.values.placed_values import placed
from costmodel.ground.errors import CostModelError, Fault, Place, fail

# Fabrics by how many links an accelerator has in all, which is what a switch shows between any two.
_FABRICS = {
    "nvlink2": 6, "nvlink2-2": 2, "nvlink3": 12, "nvlink3-4": 4, "nvlink3-8": 8, "nvlink4": 18, "nvlink4-8": 8,
    "nvlink5": 18, "nvlink6": 36,
}  # fmt: skip


def imported_machine(shape: MachineShape, node: str, nodes: int | None, accelerator: str) -> Imported:
    """The cluster of a shape; without a node's name the only one that it can be, else a fault that lists them."""
    part = _part(shape, accelerator)
    fitting = [each for each in _library() if _fits(each, shape, part)]
    how_many = nodes or shape.nodes
    origin = Origin("file", shape.words, shape.place)
    if node:
        _check(read("node", node), shape, part)
        chosen = OriginValue(node, Origin("assumed", "--node, given beside the file"))
    elif len(fitting) == 1:
        chosen = OriginValue(
            fitting[0].name, Origin("derived", f"the only one of this shape: {shape.words}", shape.place)
        )
    else:
        raise CostModelError(_choice(shape, fitting, part))
    count = OriginValue(how_many, origin if nodes is None else Origin("assumed", "--nodes, given beside the file"))
    document, origins = placed({"cluster": {"node": chosen, "nodes": count}}, Place(shape.place.file))
    loss = Loss("not expressible", "the network between nodes is not stated: it is that of the node named", shape.place)
    return Imported(shape.format, document, origins, (loss,), (), {})


def _part(shape: MachineShape, accelerator: str) -> str:
    """The accelerator that is given or named; empty where neither is known."""
    stated = accelerator or shape.product
    found = accelerator_named(stated) if stated else ""
    if accelerator and not found:
        raise fail("D009", f"there is no accelerator named '{accelerator}'", None, "costmodel list accelerators")
    return found


def _library() -> Iterator[Node]:
    for name in names("node"):
        node: Node = read("node", name)
        yield node


def _fits(node: Node, shape: MachineShape, part: str) -> bool:
    """Whether a node has as many accelerators, of that part, with as many links; interfaces may be fewer."""
    if node.accelerators != shape.accelerators or (part and node.accelerator != part):
        return False
    if shape.links is not None and _FABRICS.get(str(node.scale_up.fabric)) != shape.links:
        return False
    return not shape.nics or node.scale_out is None or node.scale_out.nics <= shape.nics


def _check(node: Node, shape: MachineShape, part: str) -> None:
    """A fault where the node that is named has another shape."""
    if node.accelerators != shape.accelerators:
        sentence = f"{node.name} has {node.accelerators:g} accelerators, and the text shows {shape.accelerators}"
        raise fail("X004", sentence, shape.place, "costmodel list nodes shows the others")
    if part and node.accelerator != part:
        raise fail("X004", f"{node.name} has {node.accelerator}, and the text shows {part}", shape.place)
    if shape.links is not None and _FABRICS.get(str(node.scale_up.fabric), shape.links) != shape.links:
        sentence = f"{node.name} has {node.scale_up.fabric}, and the text shows {shape.links} links"
        raise fail("X004", sentence, shape.place)


def _choice(shape: MachineShape, fitting: list[Node], part: str) -> Fault:
    listed = ", ".join(node.name for node in fitting)
    if not fitting:
        hint = "costmodel init node writes one of your own" if part else "--gpu states the part"
        return Fault("X002", f"{shape.words}: no node of the library has this shape", shape.place, hint)
    more = "" if part else "; --accelerator h100-sxm, for example, leaves fewer"
    return Fault("X002", f"{shape.words}: which node is it?", shape.place, f"--node with one of {listed}{more}")
