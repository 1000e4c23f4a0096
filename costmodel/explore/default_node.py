"""The usual node of an accelerator, which --gpu selects."""

from __future__ import annotations

from collections.abc import Iterable

from costmodel.documents.keys.overrides import Assignment
from costmodel.documents.reader.find_documents import find
from costmodel.documents.reader.library import CachedReader, accelerator_named, names
from costmodel.documents.reader.resolved_scenario import own_keys, proxy_node
from costmodel.documents.schemas.default_values import Assumption
from costmodel.documents.text.yaml_tree import Text
from costmodel.ground.errors import COMMAND_LINE, CostModelError, Place, fail


def node_of_gpu(spelling: str, named: str | None) -> tuple[list[Assignment], list[Assumption]]:
    """The settings for the usual node of an accelerator; if a node is named too, it must contain the accelerator."""
    place = flag_place("--gpu", "cluster.node.accelerator", spelling)
    shelf = CachedReader()
    name = accelerator_named(spelling, shelf=shelf)
    if not name:
        find("accelerator", spelling, place)
        raise fail("D009", f"there is no accelerator named '{spelling}'", place, "costmodel list accelerators")
    of_gpu = Assignment("cluster.node.accelerator", place, flag_text(name, place), place)
    stand = proxy_node(shelf, name)
    if named is not None:
        holds_it = _check_node_has(name, named, shelf, place, "" if stand is None else stand.node)
        return [] if holds_it else [of_gpu], []
    if stand is None:
        hint = f"name a machine like its own with --node, and --set cluster.node.accelerator={name}"
        raise fail("D009", f"no shipped node has {name}", place, hint)
    own = own_keys(shelf, name, stand)
    changes = [Assignment("cluster.node", place, flag_text(stand.node, place), place)]
    changes += [Assignment(f"cluster.node.{key}", place, flag_text(value, place), place) for key, value in own.items()]
    why = "no node of this GPU is known" if "accelerator" in own else "its usual node"
    fabric = shelf.document("node", stand.node).scale_out.fabric
    network = f", {fabric if isinstance(fabric, str) else fabric.name} between nodes"
    why = f"{why}{network}; change it with --node"
    return changes, [Assumption("cluster.node", stand.node, why)]


def flags_of_node(named: str) -> dict[str, str]:
    """The flags that select a node: its accelerator, and the node itself if it is not the usual one."""
    shelf = CachedReader()
    held = shelf.document("node", named).accelerator
    if not isinstance(held, str):  # written out in the node, so no name stands for it
        return {"--node": named}
    stand = proxy_node(shelf, held)
    usual = stand is not None and stand.node == named and stand.fabric is None
    return {"--gpu": held} if usual else {"--gpu": held, "--node": named}


def values_of_gpus(spellings: Iterable[str]) -> str:
    """The values that --over tries for these accelerators: the node of each, or the bare accelerators.

    >>> values_of_gpus(["h100", "h200"]), values_of_gpus(["h100", "h20"]), values_of_gpus(["h1000"])
    ('cluster.node=dgx-h100,dgx-h200', 'cluster.node.accelerator=h100-sxm,h20', '')
    """
    shelf = CachedReader()
    held = [accelerator_named(spelling.strip(), shelf=shelf) for spelling in spellings]
    if not all(held):
        return ""
    stands = [proxy_node(shelf, name) for name in held]
    own = [stand.node for name, stand in zip(held, stands, strict=True) if stand and not own_keys(shelf, name, stand)]
    return f"cluster.node={','.join(own)}" if len(own) == len(held) else f"cluster.node.accelerator={','.join(held)}"


def _check_node_has(name: str, named: str, shelf: CachedReader, place: Place, stand: str) -> bool:
    """Whether the named node is known to contain the accelerator; raises a fault if it contains another one."""
    try:
        held = shelf.document("node", named).accelerator
    except CostModelError:  # the scenario's reader reports the place
        return False
    held = held if isinstance(held, str) else held.name
    if name == (accelerator_named(held, shelf=shelf) or held):
        return True
    if named == stand:
        return False
    holders = [other for other in sorted(names("node")) if shelf.document("node", other).accelerator == name]
    nodes = [*filter(None, [stand]), *(other for other in holders if other != stand)]
    with_it = f"--node {' or '.join(nodes[:3])}" if nodes else "leave --gpu out"
    hint = f"{with_it}; of a machine of your own, --set cluster.node.accelerator={name}"
    raise fail("C032", f"{named} holds {held}, not {name}", place, hint)


def flag_place(option: str, path: str, text: str) -> Place:
    """The place on the command line of the flag that sets a key."""
    return Place(COMMAND_LINE, 0, len(option) + 2, path, f"{option} {text}", max(1, len(text)))


def flag_text(text: str, place: Place) -> Text:
    """The value of a flag as placed text, not parsed as YAML."""
    if not text.strip():
        raise fail("C001", "nothing follows the flag", place, "leave the flag out")
    value = Text(text)
    value.place = place
    return value
