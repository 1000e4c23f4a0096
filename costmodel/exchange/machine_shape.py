"""The shape of a machine from the output of tools: accelerators, links between them, and network interfaces."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from costmodel.documents.text.yaml_tree import Mapping
from costmodel.exchange.serving.containers import manifest_trees
from costmodel.ground.errors import CostModelError, Place, fail
from costmodel.ground.record import record

TOPOLOGY, SLURM, KUBERNETES = "matrix of nvidia-smi topo -m", "nodes of Slurm", "nodes of Kubernetes"
TOOLS = (TOPOLOGY, SLURM, KUBERNETES)
_LONGEST = 4_000_000  # letters
_MATRIX = re.compile(r"(?m)^[ \t]*GPU0(?:[ \t]|$)")
_WIDEST = 4_096  # columns of a matrix
_JOINED = re.compile(r"\b(?:NV\d+|SYS|PIX|PHB|NODE|PXB)\b")
_ROW = re.compile(r"GPU(\d+)\Z")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_NIC = re.compile(r"(?:NIC\d+|mlx\d+_\d+|bnxt_re\S*|rdmap\S*|efa_\d+|ib\d+|rocep\S*)\Z", re.IGNORECASE)
_LINK = re.compile(r"NV(\d{1,3})\Z")
_NEAR = ("PIX", "PXB")  # an interface on the same switch as the accelerator
_LISTED = re.compile(r"(?m)^GPU \d+: ([^(\n]{1,80}?)[ \t]{0,80}\(UUID")
_NODE = re.compile(r"\bNodeName=(\S+)")
_GRES = re.compile(r"\b(?:Gres|GresTypes|--gres)[= ][^\s=]{0,200}?gpu(?::([A-Za-z][\w.-]*))?:(\d+)")
_EACH = re.compile(r"--gpus-per-node[= ](?:([A-Za-z][\w.-]*):)?(\d+)")
_NODES = re.compile(r"(?:--nodes[= ]|#SBATCH[ \t]+-N[ \t]*)(\d+)")
_PRODUCT, _COUNT, _HELD = "nvidia.com/gpu.product", "nvidia.com/gpu.count", "nvidia.com/gpu"
_DEEPEST = 24


@record
class MachineShape:
    """The shape of a node, as far as a text states it.

    links: NVLinks between two accelerators, if all pairs have the same number; uneven: whether they differ. nics:
    network interfaces, None if the text does not state them.
    """

    format: str
    accelerators: int
    place: Place
    product: str = ""
    nodes: int = 1
    links: int | None = None
    uneven: bool = False
    nics: int | None = None
    beside: int = 0  # interfaces on the switch of an accelerator

    @property
    def words(self) -> str:
        """The shape in a sentence."""
        parts = [f"{self.nodes:,} nodes of {self.accelerators}" if self.nodes > 1 else f"{self.accelerators}"]
        parts = [f"{parts[0]} {self.product or 'accelerators'}"]
        if self.links is not None:
            parts.append(f"{self.links} links between any two")
        elif self.uneven:
            parts.append("links that differ from pair to pair")
        if self.nics is not None:
            near = f", {self.beside} behind the switch of an accelerator" if self.beside else ""
            parts.append(f"{self.nics} network interfaces{near}" if self.nics else "no network interface seen")
        return "; ".join(parts)


def machine_format(text: str) -> str:
    """The tool that printed a text about machines; empty if it is unknown."""
    head = text[:_LONGEST]
    matrix = _MATRIX.search(head)
    if matrix and "\n" in head[matrix.start() :] and _JOINED.search(head):
        return TOPOLOGY
    if _NODE.search(head) and "Gres=" in head:
        return SLURM
    if f"{_PRODUCT}" in head or re.search(r"(?m)^[ \t]*(?:\"|- )?kind\"?:[ \t]*\"?Node\b", head):
        return KUBERNETES
    if head.startswith("#!") and "#SBATCH" in head and (_EACH.search(head) or _GRES.search(head)):
        return SLURM
    return ""


def machine_shape(text: str, file: str, format: str) -> MachineShape:
    """The node shape that a text states."""
    if len(text) > _LONGEST:
        raise fail("X010", f"{len(text):,} letters are more than are read", Place(file))
    plain = _COLOURS.sub("", text)
    return {TOPOLOGY: _topology_shape, SLURM: _slurm_shape, KUBERNETES: _kubernetes_shape}[format](plain, file)


def _topology_shape(text: str, file: str) -> MachineShape:
    """The shape from a topology matrix of accelerators and network interfaces."""
    lines = text.splitlines()
    at = next(index for index, line in enumerate(lines) if "GPU0" in line.split())
    place = Place(file, at + 1, 1)
    columns = [name for name in lines[at].split() if _ROW.match(name) or _NIC.match(name)]
    if len(columns) > _WIDEST:
        raise fail("X010", f"the matrix has {len(columns):,} columns, more than are read", place)
    gpus = dict.fromkeys(name for name in columns if _ROW.match(name))
    cells = dict[str, list[str]]()
    for line in lines[at + 1 :]:
        name, *values = line.split() or [""]
        if name in gpus and len(values) >= len(columns):
            cells[name] = values[: len(columns)]
    if not gpus or cells.keys() != gpus.keys():
        missing = ", ".join(name for name in gpus if name not in cells)[:80]
        raise fail("X005", f"the matrix has no whole row of {missing or 'any accelerator'}", place)
    pairs = Counter(
        value for name, row in cells.items() for other, value in zip(columns, row, strict=False)
        if other in gpus and other != name
    )  # fmt: skip
    linked = [int(found.group(1)) for value in pairs if (found := _LINK.match(value))]
    alike = len(pairs) == 1 and len(linked) == 1
    nics = [index for index, name in enumerate(columns) if _NIC.match(name)]
    near = sum(any(row[index] in _NEAR for row in cells.values()) for index in nics)
    named = _LISTED.search(text)
    return MachineShape(
        TOPOLOGY, len(gpus), place, named.group(1) if named else "", 1,
        linked[0] if alike else None, bool(linked) and not alike, len(nics), near,
    )  # fmt: skip


def _slurm_shape(text: str, file: str) -> MachineShape:
    """The shape from `scontrol show node`, or from the options of a batch script."""
    found = list(_GRES.finditer(text)) or list(_EACH.finditer(text))
    if not found:
        raise fail("X002", "no node has accelerators: Gres=gpu:TYPE:COUNT", Place(file))
    kinds = Counter((match.group(1) or "", int(match.group(2))) for match in found)
    place = Place(file, text.count("\n", 0, found[0].start()) + 1, 1)
    if len(kinds) > 1:
        stated = ", ".join(f"{count} × {product or 'gpu'}" for product, count in list(kinds)[:6])
        raise fail("X004", f"there are nodes of several kinds: {stated}", place, "give those of one kind")
    [(product, count)] = kinds
    stated_nodes = _NODES.search(text)
    nodes = len(set(_NODE.findall(text))) or (int(stated_nodes.group(1)[:9]) if stated_nodes else 1)
    return _checked_shape(MachineShape(SLURM, count, place, product, max(1, nodes)))


def _checked_shape(shape: MachineShape) -> MachineShape:
    """The shape; a fault if its numbers of nodes or accelerators are impossible."""
    if not 0 < shape.accelerators <= 10_000 or not 0 < shape.nodes <= 10_000_000:
        raise fail("X005", f"{shape.nodes:,} nodes of {shape.accelerators:,} accelerators", shape.place)
    return shape


def _kubernetes_shape(text: str, file: str) -> MachineShape:
    """The shape from the labels and allocatable resources of Kubernetes nodes."""
    kinds = Counter[tuple[str, int]]()
    place = Place(file)
    for tree in manifest_trees(text, file):
        for node in _nodes(tree, 0):
            product, count, place = node
            kinds[product, count] += 1
    if not kinds:
        raise fail("X002", f"no node has a label {_COUNT} or resources of {_HELD}", Place(file))
    if len(kinds) > 1:
        stated = ", ".join(f"{count} × {product or 'gpu'}" for product, count in list(kinds)[:6])
        raise fail("X004", f"there are nodes of several kinds: {stated}", place, "give those of one kind")
    [((product, count), nodes)] = kinds.items()
    return _checked_shape(MachineShape(KUBERNETES, count, place, product.replace("-", " "), nodes))


def _nodes(tree: Any, depth: int) -> Iterator[tuple[str, int, Place]]:
    """Each Kubernetes node: its product name, its accelerators and its place."""
    if depth > _DEEPEST:
        return
    if isinstance(tree, list):
        for item in tree:
            yield from _nodes(item, depth + 1)
    elif isinstance(tree, Mapping):
        if tree.get("kind") in ("Node", None) and (found := _node_of_tree(tree)) is not None:
            yield found
        else:
            for value in tree.values():
                yield from _nodes(value, depth + 1)


def _node_of_tree(tree: Mapping) -> tuple[str, int, Place] | None:
    """GPU model, number of GPUs and place of a Kubernetes node; None if the tree is none."""
    metadata, status = tree.get("metadata"), tree.get("status")
    labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    labels = labels if isinstance(labels, Mapping) else {}
    held = status.get("allocatable") or status.get("capacity") if isinstance(status, Mapping) else None
    count = labels.get(_COUNT) or (held.get(_HELD) if isinstance(held, Mapping) else None)
    if count is None:
        return None
    text = str(count)
    if not (text.isascii() and text.isdigit() and len(text) < 6):
        raise CostModelError(*fail("X005", f"{_COUNT} is no count", tree.place).faults)
    return str(labels.get(_PRODUCT) or "")[:80], int(text), tree.place
