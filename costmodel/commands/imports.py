"""import: a file in another tool's format as a document."""

from __future__ import annotations

from typing import Annotated

import typer

from costmodel.commands import completion
from costmodel.commands.shared import answering
from costmodel.report.terminal.style.answer import Filed, Reply


@answering
def import_file(
    file: Annotated[
        str,
        typer.Argument(
            help="config.json of transformers, a folder with one, or a script, YAML or log with Megatron-LM options; "
            "'-' for stdin",
            show_default=False,
        ),
    ],
    node: Annotated[
        str,
        typer.Option(
            "--node", help="Machine that a script runs on", show_default=False, autocompletion=completion.nodes
        ),
    ] = "",
    nodes: Annotated[
        int | None, typer.Option("--nodes", min=1, help="How many; else as the script states", show_default=False)
    ] = None,
    vocab: Annotated[
        int | None,
        typer.Option("--vocab", min=1, help="Vocabulary, where a tokenizer's file states it", show_default=False),
    ] = None,
    partial: Annotated[bool, typer.Option("--partial", help="Write what is known although values are missing")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="No where an option is unknown or cannot be said")] = False,
) -> Reply:
    """A config.json as a model, or Megatron-LM options as a scenario, as YAML with the origin of every value.

    Examples:
      costmodel import scenarios/examples/qwen3-8b/config.json
      costmodel import config.json -o model.yaml > what-was-read.txt
      costmodel import train.sh --node dgx-h100 --nodes 4 -o mine.yaml > what-was-read.txt

    Nothing is run or fetched. With -o the document goes to a file, and what was read and left out is printed. Exit
    code 2, and nothing written, where the file says what no document can; 1 with --strict where anything is lost.

    Next: costmodel estimate mine.yaml
    """
    from costmodel.explore.import_file import GivenBesideFile
    from costmodel.explore.import_file import import_file as read
    from costmodel.report.machine import json_answer
    from costmodel.report.terminal.documents import imports as report

    read_file = read(file, GivenBesideFile(node, nodes, vocab, partial))
    found = read_file.found
    lost = bool(found.warnings) or any(loss.kind == "cannot be said" for loss in found.losses)
    return Reply(
        lambda: report.document(read_file),
        lambda: report.as_json(read_file, json_answer.plain(found.document)),
        yes=not (strict and lost),
        filed=Filed(read_file.text_of, lambda path: report.summary(read_file, path)),
    )
