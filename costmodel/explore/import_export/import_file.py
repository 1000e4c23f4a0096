"""Imports files of other tools as a costmodel document, with the origin of each value and the options that are lost."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Flags
from dataclasses import field, replace
from pathlib import Path, PurePath
from typing import Any

from costmodel.documents.keys.overrides import Assignment, assign
from costmodel.documents.reader.folders import NO_FILES, SUFFIXES
from costmodel.documents.reader.library import DocumentReader, accelerator_named, names, read
from costmodel.documents.reader.load_scenario import any_from
from costmodel.documents.reader.resolved_scenario import PART
from costmodel.documents.reader.serving_scenario import serving
from costmodel.documents.schemas.hardware import Node
from costmodel.documents.schemas.model import Model
from costmodel.documents.text.yaml_tree import Mapping, copied
from costmodel.estimate.model.shards import model_parameters
from costmodel.exchange.detect import CONFIG
from costmodel.exchange.foreign_models import imported_model, loss_words
from costmodel.exchange.import_result import GivenSize, Imported, Loss, Origin, OriginValue
from costmodel.exchange.machine_shape import TOOLS, MachineShape, machine_shape
from costmodel.exchange.megatron.options import TITLE as MEGATRON
from costmodel.exchange.megatron.scenario import read_options
from costmodel.exchange.serving.containers import is_manifest, selected_accelerators
from costmodel.exchange.values import as_text, document_name, placed_document
from costmodel.exchange.write_yaml import document_text, library_twin
from costmodel.explore.default_node import node_of_gpu
from costmodel.explore.import_export.import_command_line import refuse_unquoted
from costmodel.explore.import_export.import_job import (
    OpenedFile,
    invalid_plan_warnings,
    open_foreign,
    rl_scenario_of,
    serving_scenario_of,
    starts_rl,
    starts_serving,
    training_scenario_of,
)
from costmodel.ground.errors import COMMAND_LINE, CostModelError, Fault, Place, fail
from costmodel.ground.record import record

_FIXED = ("schema", "name", "title", "source", "sources")
OPEN = "?"  # begins a line of what is not stated


@record
class GivenBesideFile:
    """Command-line options that add what imported files seldom state, such as machine and load."""

    node: str = ""
    nodes: int | None = None
    vocab: int | None = None
    partial: bool = False
    assignments: tuple[str, ...] = ()
    gpu: str = ""
    load: Flags[str, str] = field(default_factory=dict)  # flags of a load, such as rate and prompt, as typed
    gpus: int | None = None
    formats: tuple[str, ...] = ()  # of the files in turn, where they are stated


@record
class ImportedFile:
    """An imported file: its document and YAML, and the model if it is known well enough."""

    file: str
    found: Imported
    model: Model | None
    parameters: float | None
    twin: str  # the model of the library of the same shape

    def text_of(self, path: Path | None) -> str:
        """The YAML of the document for a file at `path`; a model takes its name from the file."""
        found, tree = self.found, self.found.document
        if path is not None and "layers" in tree:
            tree = {**tree, "name": _named_model(path)}
        return _document_yaml(self.file, found, tree)


def import_file(name: str, beside: GivenBesideFile) -> ImportedFile:
    """Imports one file (a path, or '-' for standard input) as a model or a scenario."""
    return import_files([name], beside)


def import_files(names: Sequence[str], beside: GivenBesideFile) -> ImportedFile:
    """Imports files that describe one training job as one scenario; a single file may be a model."""
    refuse_unquoted(names)
    if len(beside.formats) > len(names):
        raise fail("C001", f"{len(beside.formats)} formats for {len(names)} files", None, "one --from for each file")
    texts = [open_foreign(name, stated) for name, stated in itertools.zip_longest(names, beside.formats, fillvalue="")]
    first = texts[0]
    _refuse_load(texts, beside)
    if len(texts) == 1 and first.format == CONFIG and not beside.assignments:
        _refuse_unused(beside)
        imported = imported_model(first.text, first.file)
        return _imported_file(first.file, imported, DocumentReader().checked("model", imported.document, first.file))
    if first.format in TOOLS:
        return _import_machine(texts, beside)
    selected = _selected_accelerators(texts)
    given = given_node(beside.node, beside.gpu) or node_of_selector(selected)
    size, serves, reinforces = _cluster_size(beside, given), starts_serving(texts), starts_rl(texts)
    if len(texts) == 1 and first.format == MEGATRON:
        title = _title_of_file(first.file)
        _refuse_assignments(beside)
        part = read_options(first.text, first.file, size=size, vocab=beside.vocab, title=title)
    elif reinforces:
        part = rl_scenario_of(texts, size, beside.assignments, beside.load)
    elif serves:
        part = serving_scenario_of(texts, size, beside.assignments, beside.load)
    else:
        part = training_scenario_of(texts, size, beside.assignments)
    file = " and ".join(text.file for text in texts)
    part = replace(part, warnings=(*part.warnings, *selector_warnings(given, selected)))
    imported = _with_cluster(part, first.file, beside, given, fills=not serves)
    if imported.missing:
        return _imported_file(file, imported, None)
    case = any_from(DocumentReader(), copied(imported.document), first.file, ())
    invalid = invalid_plan_warnings(serving(case)) if serves else ()
    return _imported_file(file, replace(imported, warnings=(*imported.warnings, *invalid)), case.model)


def _selected_accelerators(texts: Sequence[OpenedFile]) -> list[OriginValue]:
    """The accelerators that Kubernetes manifests among the files select."""
    numbers = [
        selected_accelerators(text.text, text.file)
        for text in texts
        if starts_serving([text]) and is_manifest(text.text)
    ]
    return [stated for number in numbers for stated in number]


def _import_machine(texts: Sequence[OpenedFile], beside: GivenBesideFile) -> ImportedFile:
    """Imports the printed shape of a machine, such as nvidia-smi topo, as a cluster."""
    first = texts[0]
    given = {"--vocab": beside.vocab, "--partial": beside.partial, "--set": beside.assignments, "--gpus": beside.gpus}
    for option in (option for option, value in given.items() if value):
        raise fail("C001", f"{option} has no effect on the shape of a machine", None, "leave it out")
    if len(texts) > 1:
        raise fail("X004", f"{first.format} is read alone", Place(texts[1].file), "import the two apart")
    shape = machine_shape(first.text, first.file, first.format)
    machine = imported_machine(shape, beside.node, beside.nodes, beside.gpu)
    return ImportedFile(first.file, machine, None, None, "")


def _refuse_load(texts: Sequence[OpenedFile], beside: GivenBesideFile) -> None:
    """Raises a fault for flags of a load if no file starts a serving engine."""
    if beside.load and not (starts_serving(texts) or starts_rl(texts)):
        sentence = f"--{next(iter(beside.load))} has no effect: no file generates answers"
        raise fail("C001", sentence, None, "leave it out, or add the command of the engine")


def _refuse_assignments(beside: GivenBesideFile) -> None:
    if beside.assignments:
        hint = "leave it out, and give --set to the command that reads what was written"
        raise fail("C001", "--set has no effect on a script of Megatron-LM, which states everything", None, hint)


def _cluster_size(beside: GivenBesideFile, given: GivenNode | None) -> GivenSize:
    """The number of accelerators and nodes that options state, checked against the node."""
    for option in (option for option, value in (("--nodes", beside.nodes), ("--gpus", beside.gpus)) if value):
        if given is None:
            raise fail("C001", f"{option} has no effect without --gpu or --node", None, "add --gpu h100, for example")
    per_node = 0 if given is None else int(given.node.accelerators)
    if beside.nodes and beside.gpus and (beside.gpus % beside.nodes or beside.gpus > beside.nodes * per_node):
        sentence = f"--gpus {beside.gpus} are not on --nodes {beside.nodes} of {per_node}"
        raise fail("C001", sentence, None, "leave one of the two out")
    return GivenSize(beside.gpus, beside.nodes, per_node)


def _refuse_unused(beside: GivenBesideFile) -> None:
    """Raises a fault for options that do not apply to a file that holds only a model."""
    machine = {"--gpu": beside.gpu, "--node": beside.node, "--nodes": beside.nodes, "--gpus": beside.gpus}
    given = {**machine, "--vocab": beside.vocab, "--partial": beside.partial}
    for option in (option for option, value in given.items() if value):
        hint = "leave it out; costmodel search --model FILE --gpu NAME takes both"
        raise fail("C001", f"{option} has no effect on a config.json, which states a model alone", None, hint)


def _imported_file(file: str, imported: Imported, model: Model | None) -> ImportedFile:
    parameters = None if model is None else float(model_parameters(model))
    twin = "" if model is None else library_twin(model)
    return ImportedFile(file, imported, model, parameters, twin)


def _named_model(path: Path) -> str:
    """The model name for a file at `path`."""
    if path.suffix in SUFFIXES and document_name(path.stem) != path.stem:
        hint = f"for example {path.with_name(f'{document_name(path.stem)}.yaml')}"
        raise fail("C002", "a model has the name of its file: small letters, digits and . + -", Place(str(path)), hint)
    return document_name(path.stem)


def _document_yaml(file: str, imported: Imported, tree: dict[Any, Any]) -> str:
    """The YAML of a document; comments at its head list the source, losses and missing values."""
    weighty = [loss for loss in imported.losses if loss.kind != "ignored"]
    head = [
        f"Written by costmodel import from {file} ({imported.format})",
        *(f"{loss_words(loss)}{_line_text(loss.place)}" for loss in weighty),
        *(": ".join(filter(None, (f"{fault.code} {fault.sentence}", fault.hint))) for fault in imported.warnings),
        *(f"{OPEN} {fault.sentence}: {fault.hint}" for fault in imported.missing),
    ]
    comments = {path: str(origin) for path, origin in imported.origins.items() if not is_metadata(path)}
    return document_text(tree, comments, head)


def is_metadata(path: str) -> bool:
    """Whether a key describes the document itself, such as its schema or source, and not its content."""
    return path.removeprefix("model.").split(".")[0] in _FIXED


def _line_text(place: Place | None) -> str:
    return f" ({place.file}:{place.line})" if place is not None and place.line else ""


# --- a scenario from options of a training program


def _with_cluster(
    imported: Imported, file: str, beside: GivenBesideFile, given: GivenNode | None, *, fills: bool
) -> Imported:
    """The imported scenario with its cluster and title; raises a fault for missing values unless --partial.

    fills: whether its accelerators have to fill nodes; an engine may leave a part of one
    """
    title = _title_of_file(file)
    origin = Origin("file", "the text itself", Place(file))
    tree: dict[str, Any] = {"schema": OriginValue("costmodel/scenario/v1", origin), "title": OriginValue(title, origin)}
    missing = imported.missing
    stated = given is not None and "accelerators" in imported.facts
    if given is None:
        hint = "--gpu h100 or --node dgx-h100, for example"
        missing = (*missing, Fault("X002", "no file states the machine", Place(file), hint))
    elif stated:
        nodes, used = _node_count(given.node, beside, imported, fills=fills)
        tree["cluster"] = {"node": given.name, "nodes": nodes}
        given = given.in_part(used)
    if missing and not beside.partial:
        raise CostModelError(*missing, *(fault for fault in imported.warnings if fault.code == "X007"))
    ahead, origins = placed_document(tree, Place(file))
    if given is not None and stated:
        given.written_into(ahead, origins)
    document = Mapping({**ahead, **imported.document})
    document.place = Place(file)
    return replace(imported, document=document, origins={**origins, **imported.origins}, missing=missing)


def _title_of_file(file: str) -> str:
    return "imported" if file in NO_FILES else PurePath(file).stem


def _node_count(
    node: Node, beside: GivenBesideFile, imported: Imported, *, fills: bool
) -> tuple[OriginValue, OriginValue | None]:
    """The number of nodes for the stated accelerators, and the accelerators used of each node if not all."""
    count, per_node, of_nodes = imported.facts["accelerators"], int(node.accelerators), imported.facts.get("nodes")
    world = int(count.value)
    stated = beside.nodes or (of_nodes.value if of_nodes is not None and of_nodes.place is not None else 0)
    if stated and world % stated == 0 and world // stated <= per_node:
        nodes, used = stated, world // stated
    elif world < per_node and (fills or beside.gpus):
        nodes, used = 1, world
    else:
        nodes, used = divmod(world, per_node)[0] + (world % per_node > 0), per_node
        if world % per_node and fills:
            sentence = f"{node.name} has {per_node} accelerators, and {world:,} is not a multiple of {per_node}"
            hint = "name another --gpu or --node, or give --nodes"
            raise fail("X005", sentence, count.place, hint)
    origin = Origin("derived", f"accelerators over {per_node} of a node", count.place)
    if beside.nodes:
        origin = Origin("assumed", "--nodes, given beside the file")
    elif stated:
        origin = of_nodes.origin if of_nodes is not None else origin
    part = count._replace(value=used) if used < per_node and (fills or beside.gpus) else None
    return OriginValue(nodes, origin), part


def values_with_origins(imported_file: ImportedFile) -> Iterator[tuple[str, Any, Origin]]:
    """Every value of the imported document: its path, value and origin."""
    for path, origin in imported_file.found.origins.items():
        here: Any = imported_file.found.document
        for part in path.split("."):
            here = here[int(part)] if isinstance(here, list) else here[part]
        yield path, here, origin


# Fabrics by how many links an accelerator has in all, which is what a switch shows between any two.
_FABRICS = {
    "nvlink2": 6, "nvlink2-2": 2, "nvlink3": 12, "nvlink3-4": 4, "nvlink3-8": 8, "nvlink4": 18, "nvlink4-8": 8,
    "nvlink5": 18, "nvlink6": 36,
}  # fmt: skip


def imported_machine(shape: MachineShape, node: str, nodes: int | None, accelerator: str) -> Imported:
    """The cluster of a machine shape; without a named node, the only library node that fits, else a fault."""
    part = _accelerator_of_shape(shape, accelerator)
    fitting = [node_name for node_name in _library_nodes() if _has_shape(node_name, shape, part)]
    how_many = nodes or shape.nodes
    origin = Origin("file", shape.words, shape.place)
    if node:
        _check_shape(read("node", node), shape, part)
        chosen = OriginValue(node, Origin("assumed", "--node, given beside the file"))
    elif len(fitting) == 1:
        words = f"the only one of this shape: {shape.words}"
        chosen = OriginValue(fitting[0].name, Origin("derived", words, shape.place))
    else:
        raise CostModelError(_ambiguous_node_fault(shape, fitting, part))
    count = OriginValue(how_many, origin if nodes is None else Origin("assumed", "--nodes, given beside the file"))
    document, origins = placed_document({"cluster": {"node": chosen, "nodes": count}}, Place(shape.place.file))
    loss = Loss("not expressible", "the network between nodes is not stated: it is that of the node named", shape.place)
    return Imported(shape.format, document, origins, (loss,), (), {})


def _accelerator_of_shape(shape: MachineShape, accelerator: str) -> str:
    """The accelerator that the user states or the tool printed; empty if neither is known."""
    stated = accelerator or shape.product
    known = accelerator_named(stated) if stated else ""
    if accelerator and not known:
        raise fail("D009", f"there is no accelerator named '{accelerator}'", None, "costmodel list accelerators")
    return known


def _library_nodes() -> Iterator[Node]:
    for name in names("node"):
        node: Node = read("node", name)
        yield node


def _has_shape(node: Node, shape: MachineShape, part: str) -> bool:
    """Whether a library node has the accelerators and links of a machine, and at most its network interfaces."""
    if node.accelerators != shape.accelerators or (part and node.accelerator != part):
        return False
    if shape.links is not None and _FABRICS.get(str(node.scale_up.fabric)) != shape.links:
        return False
    return not shape.nics or node.scale_out is None or node.scale_out.nics <= shape.nics


def _check_shape(node: Node, shape: MachineShape, part: str) -> None:
    """Raises a fault if the named node has another shape than the machine."""
    if node.accelerators != shape.accelerators:
        sentence = f"{node.name} has {node.accelerators:g} accelerators, and the text shows {shape.accelerators}"
        raise fail("X004", sentence, shape.place, "costmodel list nodes shows the others")
    if part and node.accelerator != part:
        raise fail("X004", f"{node.name} has {node.accelerator}, and the text shows {part}", shape.place)
    if shape.links is not None and _FABRICS.get(str(node.scale_up.fabric), shape.links) != shape.links:
        sentence = f"{node.name} has {node.scale_up.fabric}, and the text shows {shape.links} links"
        raise fail("X004", sentence, shape.place)


def _ambiguous_node_fault(shape: MachineShape, fitting: list[Node], part: str) -> Fault:
    """The fault for a machine that fits no library node, or several."""
    listed = ", ".join(node.name for node in fitting)
    if not fitting:
        hint = "costmodel init node writes one of your own" if part else "--gpu states the part"
        return Fault("X002", f"{shape.words}: no node of the library has this shape", shape.place, hint)
    more = "" if part else "; --accelerator h100-sxm, for example, leaves fewer"
    return Fault("X002", f"{shape.words}: which node is it?", shape.place, f"--node with one of {listed}{more}")


@record
class GivenNode:
    """A library node, the values changed in it, and the option that named it."""

    node: Node
    origin: Origin
    changes: tuple[Assignment, ...] = ()
    used: Origin | None = None  # of how many of its accelerators are used

    @property
    def name(self) -> OriginValue:
        """The name of the node, as a document states it."""
        return OriginValue(self.node.name, self.origin)

    @property
    def accelerator(self) -> str:
        """The name of the node's accelerator."""
        changed = [str(change.value) for change in self.changes if change.path == "cluster.node.accelerator"]
        own = self.node.accelerator
        return changed[-1] if changed else own if isinstance(own, str) else own.name

    def in_part(self, used: OriginValue | None) -> GivenNode:
        """A copy of the node of which a job uses only some accelerators."""
        if used is None:
            return self
        place = used.place or Place(COMMAND_LINE)
        return replace(self, changes=(*self.changes, Assignment(PART, place, used.value, place)), used=used.origin)

    def written_into(self, document: Mapping, origins: dict[str, Origin]) -> None:
        """Writes out the node in a document, if its accelerator or links differ from the library node's."""
        if not self.changes:
            return
        reader = DocumentReader()
        assign(document, self.changes, lambda kind, name, place: reader.tree(kind, name, place)[0])
        del origins["cluster.node"]
        origins |= {
            change.path: self.used if change.path == PART and self.used else self.origin for change in self.changes
        }


def given_node(name: str, gpu: str) -> GivenNode | None:
    """The node of --node, or the usual node of --gpu; raises a fault if they contradict each other."""
    if not gpu:
        return GivenNode(read("node", name), Origin("assumed", "--node, given beside the file")) if name else None
    changes, assumed = node_of_gpu(gpu, name or None)
    node: Node = read("node", name or assumed[0].value)
    needed = (change for change in changes if change.path != "cluster.node" and change.value != node.accelerator)
    words = "--node and --gpu, given beside the file" if name else f"--gpu {gpu}: {assumed[0].origin}"
    return GivenNode(node, Origin("assumed", words), tuple(needed))


def node_of_selector(stated: Sequence[OriginValue]) -> GivenNode | None:
    """The usual node of the accelerator that manifests select; None if they select none or several."""
    parts = {accelerator_named(str(selection.value)): selection for selection in stated}
    if len(parts) != 1 or "" in parts:
        return None
    ((part, named),) = parts.items()
    given = given_node("", part)
    assert given is not None
    words = f"{named.origin.text}: {named.value}, in its usual node; --node names another"
    return replace(given, origin=Origin("derived", words, named.place))


def selector_warnings(given: GivenNode | None, stated: Sequence[OriginValue]) -> list[Fault]:
    """Warnings for manifests that select another accelerator than --gpu or --node."""
    if given is None or given.origin.kind != "assumed":
        return []
    known = [accelerator_named(str(selection.value)) for selection in stated]
    if given.accelerator in known:
        return []
    option = given.origin.text.partition(",")[0].partition(":")[0]
    return [
        Fault(
            "X004",
            f"the manifest selects {as_text(selection.value)}, and the scenario has {given.accelerator}, by {option}",
            selection.place,
            "select the same in the manifest, or leave --gpu and --node out",
        )
        for selection in stated
    ]
