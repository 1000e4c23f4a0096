"""The Typer program: its own options, and the commands of `command_table`."""

from __future__ import annotations

import itertools
import sys
from typing import Annotated, NoReturn

import typer

import costmodel
from costmodel.commands.answer_options import NoColorOption
from costmodel.commands.exit_codes import run_program
from costmodel.commands.help_text import CommandGroupHelp
from costmodel.report.terminal.layout import set_colour

app = typer.Typer(
    name="costmodel",
    cls=CommandGroupHelp,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Time, memory, network and cost of distributed LLM jobs, from closed-form equations.",
    epilog="First steps: costmodel search llama-3-70b-512 · costmodel init > mine.yaml · costmodel search mine.yaml",
)


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
    """Runs the program, in colour unless --no-color is given anywhere."""
    set_colour(on="--no-color" not in itertools.takewhile(lambda word: word != "--", sys.argv[1:]))
    run_program(lambda: app(prog_name="costmodel"))
