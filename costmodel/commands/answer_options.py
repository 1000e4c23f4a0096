"""Options that several commands have, and the output of answers in every format."""

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
from costmodel.commands.output import check_suffix, check_writable, print_lines, write_file
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


def _set_no_color(asked: bool) -> bool:
    if asked:
        set_colour(on=False)
    return asked


def optional(*names: str, help: str, **more: Any) -> Any:
    """An option that may be left out; its help shows no default."""
    return typer.Option(*names, help=help, show_default=False, **more)


def optional_argument(*, help: str, **more: Any) -> Any:
    """An argument that may be left out; its help shows no default."""
    return typer.Argument(help=help, show_default=False, **more)


def _help_all(context: typer.Context, asked: bool) -> None:
    """Prints the help with all options, and exits."""
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
        callback=_set_no_color,
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
    """Prints a reply or writes it to a file; exits with 1 if the answer is no."""
    suffix = output.suffix.lower() if output else ""
    wanted = "json" if as_json else "csv" if as_csv else form.value if form else _SUFFIXES.get(suffix, "table")
    if reply.again is not None and output is None:
        raise fail("C044", "--watch writes a file again and again, and none is named", None, "add -o page.html")
    _print_or_write(reply, wanted, output, verbose=verbose)
    while reply.again is not None:
        reply = reply.again()
        _print_or_write(reply, wanted, output, verbose=verbose)
    if reply.stopped:
        raise typer.Exit(Exit.INTERRUPTED)
    if not reply.yes:
        raise typer.Exit(Exit.NO)


def _print_or_write(reply: Reply, wanted: str, output: Path | None, *, verbose: bool) -> None:
    """Prints an answer in its format, or writes it to a file and names the file on standard error."""
    from costmodel.commands.progress import show_work

    if output is not None and reply.filed is not None and wanted in ("table", "yaml"):
        _write_filed(reply, reply.filed, output)
        return
    with show_work("the page" if wanted == "html" else "the answer"):
        answer = form_of(reply, wanted)
        conclusion = getattr(answer, "conclusion", "")
        answer = safe_text(answer) if isinstance(answer, str) else answer
        found = [] if answer else reply.lines()
        lines = list(laid_out(found, None if output else terminal_width(), verbose=verbose))
    if verbose and found and lines_of_length(found) == lines_of_length(found, verbose=False):
        print_lines([styled("-v adds nothing to this answer", DIM)], stderr=True)
    if output is not None:
        print_lines(laid_out([Text(conclusion)], terminal_width()) if conclusion else [], stderr=True)
        _write_and_report(output, answer or "".join(f"{line.plain}\n" for line in lines))
    elif isinstance(answer, bytes):
        raise fail("C007", f"{wanted} is binary and cannot be printed", None, f"name a file: -o answer.{wanted}")
    else:
        print_lines(answer or lines)


def _write_filed(reply: Reply, filed: FileOutput, path: Path) -> None:
    """Writes the document of a reply to a file if the answer is yes, and prints the remarks."""
    if reply.yes:
        _write_and_report(path, filed.text(path))
    print_lines(laid_out(filed.summary(path if reply.yes else None), terminal_width()))


def _write_and_report(path: Path, answer: str | bytes) -> None:
    """Writes a file and names it on standard error."""
    write_file(path, answer)
    print_lines([Text(f"wrote {visible_text(str(path))}")], stderr=True)


def form_of(reply: Reply, form: str) -> str | bytes:
    """The reply in a format for programs; empty for the terminal format."""
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
    """Turns a function that returns a reply into a command that prints it: its options, then those of `deliver`."""
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
    """Turns a function that returns a reply into a command that prints it in the requested format."""
    own = inspect.signature(command, eval_str=True)
    common = [*_delivery_options()]
    names = [option.name for option in common]
    if forms:
        common[0] = common[0].replace(annotation=_format_option(forms))

    @functools.wraps(command)
    def run(**given: Any) -> None:
        """Runs the function with its own options, and delivers its reply with the common ones."""
        from costmodel.commands.progress import show_work

        how = {name: given[name] if name in own.parameters else given.pop(name) for name in names}
        _check_one_form(how)
        if how["output"] == STDOUT:
            how["output"] = None
        if how["output"] is not None:
            check_writable(how["output"], force=how["force"], forms=forms)
            if not (how["form"] or how["as_json"] or how["as_csv"]):
                if suffixes is None:
                    how["form"] = AnswerFormat.TABLE
                else:
                    check_suffix(how["output"], [suffix for suffix in _SUFFIXES if suffix[1:] in suffixes])

        try:
            with show_work(command.__name__.removesuffix("_documents")):
                reply = command(**given)
            deliver(reply, **how)
        except CostModelError as error:
            if how["form"] == "github":
                from costmodel.report.data_formats.ci_formats import fault_annotations

                print_lines(fault_annotations(error.faults))
            raise

    run.__doc__ = help_paragraph(command)
    others = (option for name, option in own.parameters.items() if name not in names)
    run.__signature__ = own.replace(parameters=[*others, *common])  # type: ignore[attr-defined]
    return run


def help_paragraph(command: Callable[..., object]) -> str:
    """The help text of a command as one paragraph."""
    return re.sub(r"(?<=\S)\n(?=\S)", " ", inspect.getdoc(command) or "")


@functools.cache
def _delivery_options() -> Sequence[inspect.Parameter]:
    """The options that every answer has."""
    _, *options = inspect.signature(deliver, eval_str=True).parameters.values()
    return options


def _check_one_form(how: Mapping[str, Any]) -> None:
    """Raises a fault if options select two different formats."""
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
