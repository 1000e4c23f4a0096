"""Options used more than once, and the writer of answers."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich.text import Text

from costmodel.commands import completion
from costmodel.commands.exit_codes import Exit
from costmodel.commands.output import allowed, known_suffix, printed, write_file
from costmodel.ground.errors import CostModelError, fail
from costmodel.report.terminal.layout import (
    DIM,
    FileOutput,
    Reply,
    laid_out,
    lines_of_length,
    safe_text,
    set_colour,
    styled,
    terminal_width,
    visible_text,
)


class AnswerFormat(StrEnum):
    """Forms an answer can take."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"


_SUFFIXES = {
    ".json": "json",
    ".csv": "csv",
    ".md": "markdown",
    ".jsonl": "jsonl",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".parquet": "parquet",
    ".html": "html",
    ".svg": "svg",
    ".png": "png",
    ".xlsx": "xlsx",
}
PAGE = ("html", "svg", "png", "xlsx")  # further forms of answers that have a page
_OF_ALL = ("json", "csv", "md", "jsonl")
_OF_DOCUMENTS = ("yaml", "yml")  # of answers that are documents
_OF_RUNNERS = ("github", "junit")
DRAWN = ("html", "svg", "png", "trace")


def _no_colour(asked: bool) -> bool:
    if asked:
        set_colour(on=False)
    return asked


def optional(*names: str, help: str, **more: Any) -> Any:
    """An option that may be left out, without a default to show."""
    return typer.Option(*names, help=help, show_default=False, **more)


def stated(*, help: str, **more: Any) -> Any:
    """An argument that may be left out, without a default to show."""
    return typer.Argument(help=help, show_default=False, **more)


def _help_all(context: typer.Context, asked: bool) -> None:
    """Print the help with all options, and end."""
    if asked and not context.resilient_parsing:
        context.command.print_all(context)  # type: ignore[attr-defined]
        raise typer.Exit


STDOUT = Path("-")
KEYS_PANEL, OUTPUT_PANEL = "Any key of the scenario", "Output"  # headings of options in a help
SetOption = Annotated[
    list[str] | None,
    optional(
        "--set",
        metavar="PATH=VALUE",
        help="Override any key, e.g. --set plan.tp=4; may be repeated; costmodel list keys shows them",
        autocompletion=completion.assignments,
        rich_help_panel=KEYS_PANEL,
    ),
]
FormatOption = Annotated[
    AnswerFormat | None,
    typer.Option(
        "--format",
        help="Format of the answer; default: by the suffix of -o",
        show_default="table",
        rich_help_panel=OUTPUT_PANEL,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Short for --format json", rich_help_panel=OUTPUT_PANEL)]
CsvOption = Annotated[bool, typer.Option("--csv", help="Short for --format csv", rich_help_panel=OUTPUT_PANEL)]
OutputOption = Annotated[
    Path | None,
    optional(
        "--output",
        "-o",
        metavar="FILE",
        help="Write to a file, '-' for stdout; its suffix selects the format: .json, .csv, .md, and those of --format",
        rich_help_panel=OUTPUT_PANEL,
    ),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite files that exist", rich_help_panel=OUTPUT_PANEL)]
NoColorOption = Annotated[
    bool,
    typer.Option(
        "--no-color",
        is_eager=True,
        callback=_no_colour,
        help="Plain text without colors",
        rich_help_panel=OUTPUT_PANEL,
    ),
]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show all of the answer", rich_help_panel=OUTPUT_PANEL)
]


HelpAllOption = Annotated[
    bool,
    typer.Option(
        "--help-all", is_eager=True, callback=_help_all, help="Show all options and exit", rich_help_panel=OUTPUT_PANEL
    ),
]


def deliver(
    reply: Reply,
    form: FormatOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    output: OutputOption = None,
    force: ForceOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
    help_all: HelpAllOption = False,
) -> None:
    """Print a reply or write it to a file; exit with 1 if the answer is no."""
    suffix = output.suffix.lower() if output else ""
    wanted = "json" if as_json else "csv" if as_csv else form.value if form else _SUFFIXES.get(suffix, "table")
    if reply.again is not None and output is None:
        raise fail("C044", "--watch writes a file again and again, and none is named", None, "add -o page.html")
    _put_answer(reply, wanted, output, verbose=verbose)
    while reply.again is not None:
        reply = reply.again()
        _put_answer(reply, wanted, output, verbose=verbose)
    if reply.stopped:
        raise typer.Exit(Exit.INTERRUPTED)
    if not reply.yes:
        raise typer.Exit(Exit.NO)


def _put_answer(reply: Reply, wanted: str, output: Path | None, *, verbose: bool) -> None:
    """An answer in its form, printed or into its file; the name of the file goes to standard error."""
    from costmodel.commands.progress import working

    if output is not None and reply.filed is not None and wanted in ("table", "yaml"):
        _file(reply, reply.filed, output)
        return
    with working("the page" if wanted == "html" else "the answer"):
        answer = form_of(reply, wanted)
        answer = safe_text(answer) if isinstance(answer, str) else answer
        found = [] if answer else reply.lines()
        lines = list(laid_out(found, None if output else terminal_width(), verbose=verbose))
    if verbose and found and lines_of_length(found) == lines_of_length(found, verbose=False):
        printed([styled("-v: this answer has no more to show", DIM)], stderr=True)
    if output is not None:
        _write(output, answer or "".join(f"{line.plain}\n" for line in lines))
    elif isinstance(answer, bytes):
        raise fail("C007", f"{wanted} is binary and cannot be printed", None, f"name a file: -o answer.{wanted}")
    else:
        printed(answer or lines)


def _file(reply: Reply, filed: FileOutput, path: Path) -> None:
    """Writes a document into its file if the reply is yes, and prints the remarks."""
    if reply.yes:
        _write(path, filed.text(path))
    printed(laid_out(filed.summary(path if reply.yes else None), terminal_width()))


def _write(path: Path, answer: str | bytes) -> None:
    """Write a file, and name it on standard error."""
    write_file(path, answer)
    printed([Text(f"wrote {visible_text(str(path))}")], stderr=True)


def form_of(reply: Reply, form: str) -> str | bytes:
    """The reply in a form for programs; empty for the terminal."""
    if form in reply.others:
        return reply.others[form]()
    if form == AnswerFormat.TABLE:
        return ""
    from costmodel.report.data_formats import json_csv_markdown

    if form == AnswerFormat.JSON:
        return json_csv_markdown.json_text(reply.result())
    if form == AnswerFormat.CSV:
        return json_csv_markdown.csv_text(reply)
    if form == "jsonl":
        return json_csv_markdown.jsonl_text(reply)
    if form == "parquet":
        from costmodel.report.data_formats.table_files import parquet_bytes

        return parquet_bytes(reply)
    if form == "xlsx":
        from costmodel.report.data_formats.table_files import xlsx_bytes

        return xlsx_bytes(reply)
    if form == AnswerFormat.MARKDOWN:
        return json_csv_markdown.markdown_text(reply.lines(), json_csv_markdown.common_facts(reply))
    if form == "yaml" and reply.rows:
        raise fail("C007", "this answer is a table, not a document", None, "take -o answer.csv, or --format json")
    if form in (*DRAWN, *_OF_RUNNERS):
        raise fail("C007", f"this answer has no {form}", None, "take --format table, json or markdown")
    return ""


def answering(command: Callable[..., Reply]) -> Callable[..., None]:
    """A command that delivers the reply of a function: the function's options, then those of `deliver`."""
    return answering_in()(command)


def answering_document(command: Callable[..., Reply]) -> Callable[..., None]:
    """Like `answering`, for a command whose plain answer is a YAML document."""
    return _answering((), command, suffixes=(*_OF_ALL, *_OF_DOCUMENTS))


def answering_with_file(command: Callable[..., Reply]) -> Callable[..., None]:
    """Like `answering`, for a command that writes another program's file: no suffix is refused or selects a form."""
    return _answering((), command, suffixes=None)


def answering_in(*forms: str) -> Callable[[Callable[..., Reply]], Callable[..., None]]:
    """Like `answering`, for a command whose answer has the given further forms."""
    return functools.partial(_answering, forms, suffixes=(*_OF_ALL, *forms))


def _answering(
    forms: Sequence[str], command: Callable[..., Reply], *, suffixes: Sequence[str] | None
) -> Callable[..., None]:
    """A command that runs a function and delivers its reply in the requested form."""
    own = inspect.signature(command, eval_str=True)
    common = [*_delivery_options()]
    names = [option.name for option in common]
    if forms:
        common[0] = common[0].replace(annotation=_format_option(forms))

    @functools.wraps(command)
    def run(**given: Any) -> None:
        """Runs the function with its own options, and delivers its reply with the common ones."""
        how = {name: given[name] if name in own.parameters else given.pop(name) for name in names}
        _one_form(how)
        if how["output"] == STDOUT:
            how["output"] = None
        if how["output"] is not None:
            allowed(how["output"], force=how["force"], forms=forms)
            if not (how["form"] or how["as_json"] or how["as_csv"]):
                if suffixes is None:
                    how["form"] = AnswerFormat.TABLE
                else:
                    known_suffix(how["output"], [suffix for suffix in _SUFFIXES if suffix[1:] in suffixes])
        from costmodel.commands.progress import working

        try:
            with working(command.__name__.removesuffix("_documents")):
                reply = command(**given)
            deliver(reply, **how)
        except CostModelError as error:
            if how["form"] == "github":
                from costmodel.report.data_formats.ci_formats import fault_annotations

                printed(fault_annotations(error.faults))
            raise

    run.__doc__ = flowing(command)
    others = (option for name, option in own.parameters.items() if name not in names)
    run.__signature__ = own.replace(parameters=[*others, *common])  # type: ignore[attr-defined]
    return run


def flowing(command: Callable[..., object]) -> str:
    """The help text of a command as one paragraph that the terminal breaks into lines."""
    return re.sub(r"(?<=\S)\n(?=\S)", " ", inspect.getdoc(command) or "")


@functools.cache
def _delivery_options() -> Sequence[inspect.Parameter]:
    """The options that every answer has."""
    _, *options = inspect.signature(deliver, eval_str=True).parameters.values()
    return options


def _one_form(how: Mapping[str, Any]) -> None:
    """Raise a fault if options select two different forms of an answer."""
    form = how["form"].value if how["form"] else ""
    short = {"--json": how["as_json"], "--csv": how["as_csv"]}
    asked = {option: option.removeprefix("--") for option, given in short.items() if given}
    asked |= {f"--format {form}": form} if form else {}
    if len({*asked.values()}) > 1:
        sentence = f"{' and '.join(asked)} are two forms of one answer"
        raise fail("C007", sentence, None, "leave one of them out")


def _format_option(forms: Sequence[str]) -> Any:
    """The option --format, with a command's further formats among its choices."""
    named = [*AnswerFormat, *forms]
    choices = StrEnum("Format", {str(name).upper(): str(name) for name in named})  # type: ignore[misc]
    return Annotated[choices | None, get_args(FormatOption)[1]]
