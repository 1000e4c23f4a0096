"""list, show: what is there, and what it says."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.text import Text

from costmodel.commands.shared import Format, FormatOption, JsonOption, deliver
from costmodel.report.theme import HEAD, columns, styled


class Shelf(StrEnum):
    """Groups of documents as the command line names them."""

    SCENARIOS = "scenarios"
    MODELS = "models"
    STACKS = "stacks"
    OPTIMIZERS = "optimizers"
    HARDWARE = "hardware"
    NODES = "nodes"
    ACCELERATORS = "accelerators"
    FABRICS = "fabrics"
    EFFICIENCIES = "efficiencies"
    MEASURED = "measured"


_KINDS = {
    Shelf.SCENARIOS: ["scenario"],
    Shelf.MODELS: ["model"],
    Shelf.STACKS: ["stack"],
    Shelf.OPTIMIZERS: ["optimizer"],
    Shelf.HARDWARE: ["node", "accelerator", "fabric"],
    Shelf.NODES: ["node"],
    Shelf.ACCELERATORS: ["accelerator"],
    Shelf.FABRICS: ["fabric"],
    Shelf.EFFICIENCIES: ["efficiency"],
    Shelf.MEASURED: ["measured"],
}


def list_documents(
    shelf: Annotated[
        Shelf | None, typer.Argument(help="What to list; everything if left out", show_default=False)
    ] = None,
    form: FormatOption = Format.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Which scenarios, models, stacks and hardware are known by name.

    Examples:

      costmodel list models

      costmodel list hardware

    Next: costmodel show NAME
    """
    from costmodel.documents.library import names, title_of

    kinds = _KINDS[shelf] if shelf else ["scenario", "model", "stack", "optimizer", "node", "accelerator", "fabric"]
    found = {kind: [(name, title_of(kind, name)) for name in names(kind)] for kind in kinds}
    deliver(lambda: _listed(found), lambda: _as_json(found), as_json=as_json or form is Format.JSON)


def _listed(found: dict[str, list[tuple[str, str]]]) -> list[Text]:
    lines: list[Text] = []
    for kind, entries in found.items():
        lines.append(styled(f"{kind}", HEAD))
        lines += map(styled, columns(entries, right=[False, False])) if entries else [styled("  none")]
    return lines


def _as_json(found: dict[str, list[tuple[str, str]]]) -> dict[str, Any]:
    return {
        "schema": "costmodel/list/v1",
        "documents": [
            {"kind": kind, "name": name, "title": title} for kind, entries in found.items() for name, title in entries
        ],
    }


def show(
    name: Annotated[str, typer.Argument(help="Name of a document, see costmodel list", show_default=False)],
    form: FormatOption = Format.TABLE,
    as_json: JsonOption = False,
) -> None:
    """What a document says, as it is written; scenarios and models are good starts for one's own.

    Examples:

      costmodel show h100-sxm

      costmodel show llama-3-70b-512 > mine.yaml

    Next: costmodel estimate mine.yaml
    """
    from costmodel.documents.library import text_of

    texts = text_of(name)
    deliver(
        lambda: [Text(line) for _, _, text in texts for line in text.splitlines()],
        lambda: {
            "schema": "costmodel/document/v1",
            "documents": [{"kind": kind, "file": file, "text": text} for kind, file, text in texts],
        },
        as_json=as_json or form is Format.JSON,
    )
