"""list, show, init, schema: what is there, what it says, a start of one's own, and help for editors."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from costmodel.commands import completion
from costmodel.commands.shared import answering
from costmodel.report.reply import Reply


class Shelf(StrEnum):
    """Groups of documents as the command line names them."""

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
    BELIEFS = "beliefs"
    MEASURED = "measured"


class Kind(StrEnum):
    """Kinds of documents, each with a schema."""

    SCENARIO = "scenario"
    MODEL = "model"
    STACK = "stack"
    OPTIMIZER = "optimizer"
    RELEASE = "release"
    NODE = "node"
    ACCELERATOR = "accelerator"
    FABRIC = "fabric"
    EFFICIENCY = "efficiency"
    BELIEF = "belief"
    MEASURED = "measured"


_KINDS = {
    Shelf.SCENARIOS: ["scenario"],
    Shelf.MODELS: ["model"],
    Shelf.STACKS: ["stack"],
    Shelf.OPTIMIZERS: ["optimizer"],
    Shelf.RELEASES: ["release"],
    Shelf.HARDWARE: ["node", "accelerator", "fabric"],
    Shelf.NODES: ["node"],
    Shelf.ACCELERATORS: ["accelerator"],
    Shelf.FABRICS: ["fabric"],
    Shelf.EFFICIENCIES: ["efficiency"],
    Shelf.BELIEFS: ["belief"],
    Shelf.MEASURED: ["measured"],
}


@answering
def list_documents(
    shelf: Annotated[
        Shelf | None, typer.Argument(help="What to list; everything if left out", show_default=False)
    ] = None,
) -> Reply:
    """Which scenarios, models, stacks and hardware are known by name; hardware by maker and generation.

    Examples:
      costmodel list models
      costmodel list hardware

    Next: costmodel show NAME
    """
    from costmodel.documents.library import by_maker, title_of
    from costmodel.report import documents as report

    kinds = _KINDS[shelf] if shelf else ["scenario", "model", "stack", "optimizer", "node", "accelerator", "fabric"]
    found = {kind: [(name, title_of(kind, name)) for name in by_maker(kind)] for kind in kinds}
    return Reply(lambda: report.listed(found), lambda: report.listed_json(found), "documents")


@answering
def show(
    name: Annotated[
        str,
        typer.Argument(
            help="Name of a document, see costmodel list", show_default=False, autocompletion=completion.documents
        ),
    ],
    fitted: Annotated[bool, typer.Option("--fitted", help="Its efficiency: what was fitted, beside the facts")] = False,
) -> Reply:
    """What a document says, as it is written; scenarios and models are good starts for one's own.

    Examples:
      costmodel show h100-sxm
      costmodel show h100-sxm --fitted
      costmodel show llama-3-70b-512 > mine.yaml

    Next: costmodel estimate mine.yaml
    """
    from costmodel.documents.library import text_of
    from costmodel.report import documents as report

    found = text_of(name, fitted=fitted)
    return Reply(lambda: report.documents(found), lambda: report.documents_json(found))


_START = "quickstart"


@answering
def init() -> Reply:
    """A commented scenario to start from; it runs as it is.

    Examples:
      costmodel init
      costmodel init > mine.yaml

    Next: costmodel search mine.yaml
    """
    from costmodel.documents.library import text_of
    from costmodel.report import documents as report

    ((kind, file, text),) = text_of(_START)
    _, _, rest = text.partition("\n")  # the first line leads to the schema beside the shipped file
    found = [(kind, file, rest)]
    return Reply(lambda: report.documents(found), lambda: report.documents_json(found))


@answering
def schema(
    kind: Annotated[Kind, typer.Argument(help="Kind of document", show_default=False)],
) -> Reply:
    """The JSON Schema of a kind of document, for completion and checks in an editor.

    Examples:
      costmodel schema scenario
      costmodel schema accelerator > schema.json

    A YAML file whose first line is '# yaml-language-server: $schema=schema.json' is then checked as it is typed.

    Next: costmodel init > mine.yaml
    """
    from costmodel.documents.schema import schema_of
    from costmodel.report import documents as report

    told = schema_of(kind)
    return Reply(lambda: report.schema(told), lambda: told)
