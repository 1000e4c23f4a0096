"""list, show, init, schema: print documents, start a scenario, support editors."""

from __future__ import annotations

import itertools
from enum import StrEnum
from typing import Annotated

import typer

from costmodel.commands import completion
from costmodel.commands.answer_options import answering, answering_document, optional_argument
from costmodel.ground.errors import Place, fail
from costmodel.report.terminal.layout import Reply


class DocumentGroup(StrEnum):
    """The groups of documents that `list` prints."""

    SCENARIOS = "scenarios"
    MODELS = "models"
    STACKS = "stacks"
    OPTIMIZERS = "optimizers"
    RELEASES = "releases"
    HARDWARE = "hardware"
    NODES = "nodes"
    ACCELERATORS = "accelerators"
    FABRICS = "fabrics"
    EFFICIENCIES = "efficiencies"
    PRIORS = "priors"
    RELIABILITY = "reliability"
    PRACTICES = "practices"
    GRIDS = "grids"
    MEASURED = "measured"
    KEYS = "keys"
    FORMATS = "formats"


class StartOf(StrEnum):
    """The workloads for which `init` prints a scenario."""

    TRAINING = "training"
    SERVING = "serving"
    RL = "rl"


class DocumentKind(StrEnum):
    """The kinds of documents that have a schema."""

    SCENARIO = "scenario"
    MODEL = "model"
    STACK = "stack"
    OPTIMIZER = "optimizer"
    RELEASE = "release"
    NODE = "node"
    ACCELERATOR = "accelerator"
    FABRIC = "fabric"
    EFFICIENCY = "efficiency"
    PRIOR = "prior"
    RELIABILITY = "reliability"
    PRACTICE = "practice"
    GRID = "grid"
    MEASURED = "measured"


_KINDS = {
    DocumentGroup.SCENARIOS: ["scenario"],
    DocumentGroup.MODELS: ["model"],
    DocumentGroup.STACKS: ["stack"],
    DocumentGroup.OPTIMIZERS: ["optimizer"],
    DocumentGroup.RELEASES: ["release"],
    DocumentGroup.HARDWARE: ["node", "accelerator", "fabric"],
    DocumentGroup.NODES: ["node"],
    DocumentGroup.ACCELERATORS: ["accelerator"],
    DocumentGroup.FABRICS: ["fabric"],
    DocumentGroup.EFFICIENCIES: ["efficiency"],
    DocumentGroup.PRIORS: ["prior"],
    DocumentGroup.RELIABILITY: ["reliability"],
    DocumentGroup.PRACTICES: ["practice"],
    DocumentGroup.GRIDS: ["grid"],
    DocumentGroup.MEASURED: ["measured"],
}


_UNASKED = [
    DocumentGroup.SCENARIOS,
    DocumentGroup.MODELS,
    DocumentGroup.STACKS,
    DocumentGroup.OPTIMIZERS,
    DocumentGroup.NODES,
    DocumentGroup.ACCELERATORS,
    DocumentGroup.FABRICS,
]
_WORDS = {
    DocumentGroup.SCENARIOS: "scenario job jobs example examples",
    DocumentGroup.MODELS: "model llm llms architecture architectures",
    DocumentGroup.STACKS: "stack framework frameworks software trainer trainers",
    DocumentGroup.OPTIMIZERS: "optimizer optimiser optimisers optim",
    DocumentGroup.RELEASES: "release version versions",
    DocumentGroup.NODES: "node cluster clusters machine machines server servers host hosts instance instances system"
    " systems price prices offer offers cost costs rent",
    DocumentGroup.ACCELERATORS: "accelerator gpu gpus card cards chip chips device devices tpu tpus part parts",
    DocumentGroup.FABRICS: "fabric network networks interconnect interconnects link links nic nics",
    DocumentGroup.EFFICIENCIES: "efficiency fit fits",
    DocumentGroup.PRIORS: "prior",
    DocumentGroup.KEYS: "key paths settings options fields parameters",
    DocumentGroup.FORMATS: "format import imports export exports launch",
    DocumentGroup.MEASURED: "measurement measurements run runs benchmark benchmarks table tables",
}
_SHELVES = {word: shelf for shelf, words in _WORDS.items() for word in words.split()} | {
    it.value: it for it in DocumentGroup
}


def _group_of_word(word: str) -> DocumentGroup:
    """The group of documents that a word names; for an unknown word, a fault that suggests the nearest."""
    from costmodel.documents.keys.suggestions import nearest
    from costmodel.ground.errors import fail

    if word.lower() in _SHELVES:
        return _SHELVES[word.lower()]
    close = nearest(word.lower(), list(_SHELVES), 0.6)
    known = ", ".join(DocumentGroup)
    hint = f"did you mean '{_SHELVES[close].value}'?" if close else f"known: {known}"
    place = Place("command line", 0, len("list ") + 1, "", f"list {word}", max(1, len(word)))
    raise fail("D009", f"there is no group of documents called '{word}'", place, hint)


def _matches(named: tuple[str, str], word: str) -> bool:
    """Whether a document's name or title contains a word, in any spelling."""
    from costmodel.documents.reader.hub_names import squeezed

    return squeezed(word.lower()) in squeezed(" ".join(named).lower())


@answering
def list_documents(
    shelf: Annotated[
        str | None,
        optional_argument(
            metavar="[GROUP]",
            help=f"What to list: {', '.join(DocumentGroup)}, or another word for one; everything if left out",
            autocompletion=completion.shelves,
        ),
    ] = None,
    prefix: Annotated[
        str | None,
        optional_argument(
            metavar="[FILTER]",
            help="Of keys and formats, the beginning, or a part of keys; of documents, a part of the name",
            autocompletion=completion.keys,
        ),
    ] = None,
) -> Reply:
    """List scenarios, models, stacks and hardware by name, keys that --set accepts, and formats of import and export.

    With the name of a format, list which of its options fill which key. Accelerators are listed by vendor, with the
    published runs they were compared with, the median error and its date; nodes with their list prices.

    Examples:
      costmodel list models
      costmodel list keys plan.
      costmodel list hardware
      costmodel list accelerators
      costmodel list formats deepspeed

    Next: costmodel show NAME
    """
    from costmodel.documents.reader.find_documents import by_maker, title_of
    from costmodel.documents.reader.library import held_against
    from costmodel.report.terminal import documents as report

    asked = None if shelf is None else _group_of_word(shelf)
    if asked is DocumentGroup.KEYS:
        return _list_keys(prefix or "")
    if asked is DocumentGroup.FORMATS:
        return _list_formats(prefix or "")
    kinds = [*itertools.chain.from_iterable(map(_KINDS.__getitem__, _UNASKED if asked is None else [asked]))]
    found = {kind: [(name, title_of(kind, name)) for name in by_maker(kind)] for kind in kinds}
    if prefix is not None:
        found = {kind: [each for each in entries if _matches(each, prefix)] for kind, entries in found.items()}
        if not any(found.values()):
            hint = f"costmodel list {shelf}, or costmodel list keys {prefix}"
            raise fail("C003", f"no name in list {shelf} contains '{prefix}'", None, hint)
    held = held_against(by_maker("accelerator")) if asked is DocumentGroup.ACCELERATORS else None
    prices = None
    if asked is DocumentGroup.NODES:
        from costmodel.estimate.machine.price import node_prices

        prices = node_prices(by_maker("node"))
    groups = dict(zip(map(str, _UNASKED), found.values(), strict=True)) if asked is None else {}
    lines, result = (
        lambda: report.document_list_lines(found, held, prices, groups),
        lambda: report.document_list_json(found, held, prices),
    )
    return Reply(lines, result, "documents")


def _list_formats(prefix: str) -> Reply:
    """The formats whose names start with a prefix; if only one does, its options too."""
    from costmodel.explore.import_export.format_options import launch_formats
    from costmodel.report.terminal import documents as report

    formats = launch_formats(prefix)
    if not formats:
        known = ", ".join(entry.name for entry in launch_formats())
        raise fail("C003", f"'{prefix}' begins no name of a format", None, f"known: {known}")
    return Reply(lambda: report.format_lines(formats), lambda: report.formats_json(formats), "formats")


def _list_keys(prefix: str) -> Reply:
    """The keys for --set that start with a prefix."""
    from costmodel.documents.keys.key_list import keys_of
    from costmodel.report.terminal import documents as report

    keys = keys_of(prefix)
    return Reply(lambda: report.key_lines(keys), lambda: report.keys_json(keys), "keys")


@answering_document
def show(
    name: Annotated[
        str,
        optional_argument(help="Name of a document, see costmodel list", autocompletion=completion.documents),
    ],
    fitted: Annotated[bool, typer.Option("--fitted", help="Its efficiency: what was fitted, beside the facts")] = False,
) -> Reply:
    """Print a document as it is written. A shipped scenario or model is a good start for your own.

    Examples:
      costmodel show h100-sxm
      costmodel show h100-sxm --fitted
      costmodel show llama-3-70b-512 > mine.yaml

    Next: costmodel estimate mine.yaml
    """
    from costmodel.documents.reader.find_documents import text_of
    from costmodel.report.terminal import documents as report

    shown_text = text_of(name, fitted=fitted)
    return Reply(lambda: report.document_text_lines(shown_text), lambda: report.documents_json(shown_text))


_START = {
    StartOf.TRAINING: "quickstart",
    StartOf.SERVING: "serve-llama-3.1-70b",
    StartOf.RL: "grpo-qwen-2.5-7b-64",
}


@answering_document
def init(
    workload: Annotated[StartOf, typer.Option("--kind", help="Workload of the scenario")] = StartOf.TRAINING,
) -> Reply:
    """Print a commented scenario to start from; it runs unchanged.

    Examples:
      costmodel init > mine.yaml
      costmodel init --kind rl > mine.yaml

    Next: costmodel search mine.yaml
    """
    from costmodel.documents.reader.find_documents import text_of
    from costmodel.report.terminal import documents as report

    ((kind, file, text),) = text_of(_START[workload])
    _, _, rest = text.partition("\n")  # the first line leads to the schema beside the shipped file
    found = [(kind, file, rest)]
    return Reply(lambda: report.document_text_lines(found), lambda: report.documents_json(found))


@answering
def schema(
    kind: Annotated[DocumentKind, optional_argument(help="Kind of document")],
) -> Reply:
    """Print the JSON Schema of a kind of document, for completion and checks in an editor.

    Examples:
      costmodel schema scenario
      costmodel schema accelerator > schema.json

    A YAML file whose first line is '# yaml-language-server: $schema=schema.json' is then checked as it is typed.

    Next: costmodel init > mine.yaml
    """
    from costmodel.documents.keys.json_schema import schema_of
    from costmodel.report.terminal import documents as report

    shown = schema_of(kind)
    return Reply(lambda: report.schema_lines(shown), lambda: shown)
