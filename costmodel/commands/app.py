"""The command line: every command, in the order of its help page."""

from __future__ import annotations

import itertools
import sys
from typing import Annotated, NoReturn

import typer

import costmodel
from costmodel.commands.calibrate import calibrate
from costmodel.commands.check import check
from costmodel.commands.collective import collective
from costmodel.commands.diagnose import diagnose
from costmodel.commands.diff import diff
from costmodel.commands.documents import init, list_documents, schema, show
from costmodel.commands.estimate import comm, estimate, memory
from costmodel.commands.evidence import validate
from costmodel.commands.exit_codes import guarded
from costmodel.commands.explain import explain
from costmodel.commands.export import export
from costmodel.commands.help_text import CommandGroupHelp, CommandHelp
from costmodel.commands.imports import import_file
from costmodel.commands.measure import measure
from costmodel.commands.pipeline import pipeline
from costmodel.commands.report import report
from costmodel.commands.run import run
from costmodel.commands.search import search
from costmodel.commands.shared import NoColorOption
from costmodel.commands.vary import scale, sensitivity, solve, sweep
from costmodel.report.terminal.style.theme import colour

app = typer.Typer(
    name="costmodel",
    cls=CommandGroupHelp,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Time, memory, network and cost of distributed LLM jobs, from closed-form equations.",
    epilog="First steps: costmodel search llama-3-70b-512 · costmodel init > mine.yaml · costmodel search mine.yaml",
)

LOOK, CHOOSE, COMPARE = "Look at one plan", "Choose a plan", "Compare"
TRUST, EXCHANGE, DOCUMENTS = "Trust", "Exchange", "Documents"
app.command(cls=CommandHelp, rich_help_panel=LOOK)(estimate)
app.command(cls=CommandHelp, rich_help_panel=LOOK)(memory)
app.command(cls=CommandHelp, rich_help_panel=LOOK)(comm)
app.command(cls=CommandHelp, rich_help_panel=LOOK)(pipeline)
app.command(cls=CommandHelp, rich_help_panel=LOOK)(run)
app.command(cls=CommandHelp, rich_help_panel=LOOK)(collective)
app.command(cls=CommandHelp, rich_help_panel=LOOK)(explain)
app.command(cls=CommandHelp, rich_help_panel=CHOOSE)(search)
app.command(cls=CommandHelp, rich_help_panel=CHOOSE)(sweep)
app.command(cls=CommandHelp, rich_help_panel=CHOOSE)(scale)
app.command(cls=CommandHelp, rich_help_panel=CHOOSE)(sensitivity)
app.command(cls=CommandHelp, rich_help_panel=CHOOSE)(solve)
app.command(cls=CommandHelp, rich_help_panel=COMPARE)(diff)
app.command(cls=CommandHelp, rich_help_panel=COMPARE)(check)
app.command(cls=CommandHelp, rich_help_panel=COMPARE)(diagnose)
app.command(cls=CommandHelp, rich_help_panel=TRUST)(validate)
app.command(cls=CommandHelp, rich_help_panel=TRUST)(measure)
app.command(cls=CommandHelp, rich_help_panel=TRUST)(calibrate)
app.command("import", cls=CommandHelp, rich_help_panel=EXCHANGE)(import_file)
app.command(cls=CommandHelp, rich_help_panel=EXCHANGE)(report)
app.command(cls=CommandHelp, rich_help_panel=EXCHANGE)(export)
app.command("list", cls=CommandHelp, rich_help_panel=DOCUMENTS)(list_documents)
app.command(cls=CommandHelp, rich_help_panel=DOCUMENTS)(show)
app.command(cls=CommandHelp, rich_help_panel=DOCUMENTS)(init)
app.command(cls=CommandHelp, rich_help_panel=DOCUMENTS)(schema)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"costmodel {costmodel.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version")
    ] = False,
    no_color: NoColorOption = False,
) -> None:
    """Time, memory, network and cost of distributed LLM jobs, from closed-form equations."""


def main() -> NoReturn:
    """The installed command, in colour unless --no-color is given, at any position."""
    colour(on="--no-color" not in itertools.takewhile(lambda word: word != "--", sys.argv[1:]))
    guarded(lambda: app(prog_name="costmodel"))
