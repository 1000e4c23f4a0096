"""Prints help texts no wider than the terminal, with nothing cut off, and usage errors as plain text."""

from __future__ import annotations

import functools
import inspect
import math
import re
import shlex
import sys
from collections import UserDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any

import typer.main
from rich.cells import cell_len
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from costmodel.commands.answer_options import OUTPUT_PANEL
from costmodel.commands.command_table import COMMANDS, USED_BY_ALL
from costmodel.commands.output import print_lines
from costmodel.ground.counts import number_of
from costmodel.report.terminal.layout import (
    BAD,
    DIM,
    HEAD,
    CellTable,
    Line,
    laid_out,
    shell_line,
    styled,
    terminal_width,
)

_PIPED = 80  # columns of help that no terminal shows
_MOST_NAMES = 0.45  # share of a line beyond which names stand above what they mean
_EXAMPLE = "  costmodel "
_DIGITS = 15  # of a count


class _HelpBase:
    """Base of commands that print costmodel's own help; Typer's help cuts names and values."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Prints costmodel's own help in place of Typer's."""
        _print_help(self, ctx, whole=False)

    def get_params(self, ctx: Any) -> Any:
        """All parameters, without building schemas that are not needed."""
        params = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if "process_value" not in vars(param):
                param.process_value = functools.partial(_processed_value, param, param.process_value)
        return params


def _processed_value(param: Any, process: Callable[[Any, Any], Any], ctx: Any, value: Any) -> Any:
    """The value of a parameter; of texts and counts, and of one without a value, Typer need not build a schema."""
    described = getattr(param, "type_descriptor", None)  # of Typer since 0.29
    if value is None and not param.required:
        value = () if param.multiple or param.nargs == -1 else None
    elif (found := _plain_value(described, value)) is not None:
        value = found
    else:
        return process(ctx, value)
    return value if param.callback is None else param.callback(ctx, param, value)


def _plain_value(described: Any, value: Any) -> Any:
    """The value of a text, of a list of texts, of a default choice, or of a count in bounds; None of anything else."""
    if not described or described.parameter_info.parser:
        return None
    kind, info = described.annotation, described.parameter_info
    if (kind is str or (isinstance(kind, type) and issubclass(kind, Enum))) and type(value) is kind:
        return value
    if kind == list[str] and isinstance(value, list | tuple) and all(type(each) is str for each in value):
        return [*value]
    plain = type(value) is str and value.isascii() and value.isdigit() and value[0] != "0" and len(value) <= _DIGITS
    if kind is int and plain and not info.clamp:
        low, high = (-math.inf if info.min is None else info.min), (math.inf if info.max is None else info.max)
        return int(value) if low <= int(value) <= high else None
    return None


def _print_help(command: Any, ctx: Any, *, whole: bool) -> None:
    width = terminal_width() or _PIPED
    print_lines(laid_out(help_lines(command, ctx, width, whole=whole), width))


class CommandHelp(_HelpBase, TyperCommand):
    """A Typer command with costmodel's help."""

    def print_all(self, ctx: Any) -> None:
        """Prints the help with all options."""
        _print_help(self, ctx, whole=True)


class LazyCommands(UserDict[str, Any]):
    """The commands by name; each is imported and built when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        """A command with its options."""
        return _build_command(name) if name in self.data else super().__getitem__(name)


@functools.cache
def _build_command(name: str) -> Any:
    """Imports and builds the command with a name, outside of any group."""
    entry, alone = COMMANDS[name], typer.Typer(add_completion=False)
    alone.command(name, cls=CommandHelp, rich_help_panel=entry.panel)(entry.load())
    return typer.main.get_command(alone)


class CommandGroupHelp(_HelpBase, TyperGroup):
    """The program: all commands, with costmodel's help and usage errors."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = LazyCommands(COMMANDS)

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands, in the order of the table."""
        return [*COMMANDS]

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Parse the command line up to the name of the command."""
        return _with_plain_usage_errors(super().make_context)(*args, **options)

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parses a command line; `help COMMAND` means `COMMAND --help`."""
        words = [*args[1:2], "--help"] if args[:1] == ["help"] else args
        return super().parse_args(ctx, words)

    def invoke(self, ctx: Any) -> Any:
        """Run the command after its own options are parsed."""
        return _with_plain_usage_errors(super().invoke)(ctx)


def help_lines(command: Any, ctx: Any, width: int, *, whole: bool = False) -> Iterator[Line]:
    """The lines of a help: usage, text, parameters, and for the program its commands by panel.

    whole: list all parameters, not only the usual ones
    """
    yield styled(command.get_usage(ctx), HEAD)
    yield Text()
    yield from _text_lines(inspect.cleandoc(command.help or ""))
    kinds: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    params, left = _listed_parameters(command, ctx, whole=whole)
    for param in sorted(params, key=lambda param: _panel_of(param, command) == OUTPUT_PANEL):
        record = param.get_help_record(ctx)
        if record is not None:
            panel = _panel_of(param, command)
            few = left and panel not in ("Arguments", OUTPUT_PANEL)
            name, words = record
            kinds.setdefault("Options" if few else panel, []).append((name, _DEFAULT.sub(r"default: \1", words)))
    for name, entry in COMMANDS.items() if isinstance(command, TyperGroup) else ():
        kinds.setdefault(entry.panel, []).append((name, _first_sentence(inspect.getdoc(entry.load()) or "")))
    for title, rows in kinds.items():
        yield from _section_lines(title, rows, width)
    if left:
        yield Text()
        yield styled(f"{number_of(left, 'more option')}: --help-all")
    if command.epilog:
        yield Text()
        yield _paragraph(command.epilog)


_DEFAULT = re.compile(r"default: \((.*?)\)(?=[;\]])")  # as Typer writes one in words


def _listed_parameters(command: Any, ctx: Any, *, whole: bool) -> tuple[list[Any], int]:
    """The parameters that a help lists, and the number of those it hides."""
    params, entry = command.get_params(ctx), COMMANDS.get(ctx.info_name)
    if entry is None or isinstance(command, TyperGroup):
        return params, 0
    named = {param: max(param.opts, key=len).removeprefix("--") for param in params}
    params = [param for param in params if named[param] not in entry.refuses.split()]
    if whole or "help-all" not in named.values():
        return params, 0
    used = {*entry.used.split(), *USED_BY_ALL, "help"}
    if not entry.used:
        used |= {named[param] for param in params if _panel_of(param, command) != OUTPUT_PANEL}
    shown = [param for param in params if param.param_type_name != "option" or named[param] in used]
    return shown, len(params) - len(shown) - 1  # --help-all stands in the line that counts the others


def _panel_of(param: Any, command: Any) -> str:
    """The heading under which a help lists a parameter."""
    if param.param_type_name != "option":
        return "Arguments"
    if isinstance(command, TyperGroup):
        return "Options"
    return OUTPUT_PANEL if param.name in ("help", "help_all") else getattr(param, "rich_help_panel", None) or "Options"


def _text_lines(text: str) -> Iterator[Line]:
    """The lines of a help's text: paragraphs, and examples as commands to paste."""
    for line in text.splitlines():
        yield shell_line("  costmodel", line.removeprefix(_EXAMPLE)) if line.startswith(_EXAMPLE) else _paragraph(line)


def _paragraph(text: str, indent: str = "") -> CellTable:
    """A paragraph whose wrapped lines are indented like the first one."""
    return CellTable(("",), [(text,)], "l", headed=False, indent=indent)


def _first_sentence(text: str) -> str:
    return inspect.cleandoc(text).partition("\n\n")[0].replace("\n", " ")


def _section_lines(title: str, rows: Iterable[tuple[str, str]], width: int) -> Iterator[Line]:
    """Names with their meanings: in two columns, or long names above their meanings."""
    rows = [(name, " ".join(words.split())) for name, words in rows]
    if not rows:
        return
    yield Text()
    yield styled(title, HEAD)
    if max(cell_len(name) for name, _ in rows) <= _MOST_NAMES * width:
        yield CellTable(("", ""), rows, "kl", headed=False)
        return
    for name, words in rows:
        yield styled(f"  {name}")
        yield _paragraph(words, indent="      ")


def _with_plain_usage_errors(run: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function so that usage errors are plain lines, not Typer's coloured boxes."""

    @functools.wraps(run)
    def running(*args: Any, **options: Any) -> Any:
        """Runs the function; prints a usage error and exits with its code."""
        try:
            return run(*args, **options)
        except Exception as error:
            if not isinstance(getattr(error, "exit_code", None), int) or not hasattr(error, "format_message"):
                raise
            if getattr(error, "ctx", None) is None or type(error).__name__ == "NoArgsIsHelpError":
                raise
            print_lines(laid_out(_usage_error_lines(error), terminal_width(stderr=True)), stderr=True)
            raise SystemExit(error.exit_code) from None  # type: ignore[attr-defined]

    return running


def _usage_error_lines(error: Any) -> Iterator[Text]:
    """The lines for a usage error, with the correct usage."""
    known = {spelling for parameter in error.ctx.command.params for spelling in parameter.opts}
    hint = option_hint(getattr(error, "option_name", ""), sys.argv, known) or _correct_words(error, known)
    sentence = error.message.partition(". Did you mean")[0].rstrip(".") if hint else error.format_message()
    yield Text.assemble(("error", BAD), f": {sentence}")
    options = {parameter.name for parameter in error.ctx.command.params}
    if hint:
        yield styled(f"help: {hint}")
    if _faulty_parameter(error) == "gpus" and "over" in options:
        yield styled("help: for several sizes: --over cluster.nodes=1,2,4")
    elif _faulty_parameter(error) == "gpus":
        yield styled(f"help: {'--ranks 64..4096' if 'ranks' in options else 'a number, as in --gpu h100 --gpus 64'}")
    if _faulty_parameter(error) == "over":
        yield styled(f"help: the key to change, as in --over {_VARIED[error.ctx.info_name == 'solve']}")
    if error.ctx.info_name == "import" and _is_unquoted(sys.argv[2:]):
        yield styled("help: put the command of another tool in quotes, as one argument")
    yield styled(error.ctx.get_usage())
    yield styled(f"Try '{error.ctx.command_path} --help' for help.", DIM)


def _faulty_parameter(error: Any) -> str:
    """The name of the parameter whose value a usage error is about; empty for other errors."""
    return getattr(getattr(error, "param", None), "name", "") or ""


def _correct_words(error: Any, known_options: Collection[str]) -> str:
    """What to type instead of an unknown command, or of a setting without --set."""
    message, unknown = error.format_message(), re.search(r"No such command '([^']*)'", error.format_message())
    if unknown:
        others = (line for names, line in _OTHER_NAMES.items() if unknown[1].lower() in names.split())
        line = next(others, "") or _command_for_word(unknown[1])
        return f"costmodel {line}" if line else ""
    settings = re.findall(r"[\w.]+=\S*", message.partition("unexpected extra argument")[2].rstrip(")"))
    if not settings or "--set" not in known_options:
        return ""
    named = [setting.split("=", 1) for setting in settings]
    paths = [(path if "." in path else _full_key(path), value) for path, value in named]
    return " ".join(f"--set {shlex.quote(f'{path}={value}')}" for path, value in paths)


def _full_key(name: str) -> str:
    """The full path of a scenario's key, such as plan.tp for tp."""
    from costmodel.documents.keys.schema_paths import holders_of
    from costmodel.documents.schemas.scenario import Scenario

    known = _key_ending_with(name, "")
    return known or next((f"{holder}.{name}" for holder in holders_of(Scenario, name)), name)


def _command_for_word(name: str) -> str:
    """The command for a scenario or a file that was typed without one; empty for other words."""
    from costmodel.documents.reader.folders import names

    if name == "version":
        return "--version"
    return f"estimate {name}" if name in names("scenario") or name.endswith((".yaml", ".yml")) else ""


_SERVED = "search --model llama-3.1-70b --rate 5 --prompt 2000 --answer 500"
_OTHER_NAMES = {  # names that people type for commands, and a line to begin with
    "serve serving infer inference latency throughput": _SERVED,
    "train training plan optimize tune rank": "search --model llama-3.1-8b --gpu h100 --gpus 64",
    "simulate predict profile step mfu": "estimate --model llama-3.1-8b --gpu h100 --gpus 64",
    "cost price prices rent tco": f"buy{_SERVED.removeprefix('search')}",
    "compare vs": "diff SCENARIO OTHER",
    "vram kv fit fits": "memory llama-3.1-70b",
    "allreduce all-reduce nccl": "collective all-reduce 1GB --gpu h100 --gpus 64",
    "allgather all-gather": "collective all-gather 1GB --gpu h100 --gpus 64",
    "alltoall all-to-all": "collective all-to-all 1GB --gpu h100 --gpus 64",
    "reducescatter reduce-scatter": "collective reduce-scatter 1GB --gpu h100 --gpus 64",
    "scenarios models gpus nodes": "list",
    "ui app web gui": "open",
    "bench benchmark": "measure -o mine.csv",
}


def _is_unquoted(words: Sequence[str]) -> bool:
    """Whether the words after `import` are another tool's command without quotes."""
    from costmodel.explore.import_export.import_command_line import starts_command

    return starts_command(words)


_VARIED = ("plan.tp=1,2,4", "cluster.nodes")  # keys of --over: with values, and of solve

# Other names of flags that set no single key.
_FLAGS = {
    **dict.fromkeys(("accelerator", "gpu_type"), "--gpu"),
    **dict.fromkeys(("num_gpus", "gpu_count", "world_size", "ranks"), "--gpus"),
    **dict.fromkeys(("framework", "software"), "--stack"),
    "vary": "--over",
    **dict.fromkeys(("tolerance", "threshold"), "--within"),
    **dict.fromkeys(("measured", "measured_step", "step_time"), "--step"),
    **dict.fromkeys(("quant", "quantize"), "--dtype"),
    **dict.fromkeys(("days", "within", "duration"), "--deadline"),
    **dict.fromkeys(("bytes", "buffer", "message_size"), "--message"),
    "n": "--gpus",
}
# And of flags with their value.
_VALUED = {kind: f"--dtype {kind}" for kind in ("bf16", "fp16", "fp8", "fp4", "int8")}
# And of what no option sets.
_FOLLOWS = {
    "gradient_accumulation_steps": "it follows: --batch over plan.dp × plan.micro_batch",
    "epochs": "state the tokens of all epochs: --tokens",
    **dict.fromkeys(
        ("enable_chunked_prefill", "chunked_prefill"), "engines do that by default; --set stack.budget=… is their chunk"
    ),
    **dict.fromkeys(("limit", "limits"), "--set limits.mfu.at_least=0.45, or limits: in the scenario"),
    "spares": "--set run.failures.repair=24h --set run.spares=99%; or a number of nodes, --set run.spares=4",
    "years": "buy takes the years for which bought machines are used",
    "command": "name a command first, such as costmodel estimate --model llama-3.1-8b --gpu h100 --gpus 64",
}
# And of settings, which they make without a value.
_SETTINGS = {
    "fsdp": "stack=fsdp2",
    "zero3": "plan.zero=3",
    "ddp": "plan.zero=0",
    **{method: f"workload.tuning={{method: {method}}}" for method in ("lora", "qlora")},
    **dict.fromkeys(("gradient_checkpointing", "activation_checkpointing"), "plan.recompute=full"),
    "recompute_activations": "plan.recompute=selective",
    **dict.fromkeys(("tp_comm", "tp_overlap", "tp_comm_overlap"), "assume.overlap.tp=SHARE"),
}
# And of keys, which they name only as options.
_KEYS = {
    **dict.fromkeys(("num_nodes", "nnodes"), "cluster.nodes"),
    **dict.fromkeys(("data_parallel_size", "dp_size", "dp"), "plan.dp"),
    **dict.fromkeys(("engine", "backend"), "stack"),
    "p99_ttft": "limits.ttft_p99.at_most",
    "p99_tpot": "limits.tpot_p99.at_most",
    "max_gpus": "limits.gpus.at_most",
    "max_nodes": "limits.nodes.at_most",
    "spread": "workload.prompt.spread",
}
_OF_DOCUMENTS = {"name", "title", "memory", "check", "note"}  # parts of keys that mean nothing alone
_ROOTS = ("plan.", "workload.", "cluster.", "limits.", "stack.", "assume.", "")


def option_hint(option: str, words: Sequence[str], known_options: Collection[str] = ("--prompt", "--set")) -> str:
    """The flag or setting to use instead of an unknown option, with its value from the command line.

    known_options: the options of the command; the hint is one of them

    >>> option_hint("--requests", ["estimate", "--requests", "20000"])
    '--set workload.requests=20000'
    >>> option_hint("--isl", ["search", "--isl=2000"]), option_hint("--max-num-seqs", [])
    ('--prompt 2000', "--set 'stack.sequences=…'")
    """
    name, value = option.lstrip("-").replace("-", "_"), _value_of_option(option, words)
    if " " in name:
        return "flags stand outside quotes, each as a word of its own: --model llama-3.1-8b --gpu h100"
    if name in _SETTINGS and "--set" in known_options:
        return shlex.join(["--set", _SETTINGS[name]])
    if name in _VALUED and "--dtype" in known_options:
        return _VALUED[name]
    if name in _FOLLOWS and "--set" in known_options:
        return _FOLLOWS[name]
    if name and "--set" not in known_options and "--version" in known_options:  # of no command
        return _FOLLOWS["command"]
    workload, flag = _workload_of_flags(words), _FLAGS.get(name, "")
    other = flag if flag in known_options else ""
    key = "" if other or name in _OF_DOCUMENTS or not name else _key_of_name(name, workload)
    flag = other or _flag_of(key)
    if flag in known_options:
        value = f"{value}d" if name == "days" and value.isdigit() else value
        return f"{flag} {shlex.quote(value)}"
    return shlex.join(["--set", f"{key}={value}"]) if key and "--set" in known_options else ""


def _workload_of_flags(words: Sequence[str]) -> str:
    """The workload of a given flag that only one workload has; empty if there is no such flag."""
    from costmodel.explore.workload_flags import flags_of_one_workload

    return next(iter(flags_of_one_workload([word.removeprefix("--") for word in words if word.startswith("--")])), "")


def _flag_of(key: str) -> str:
    """The flag that sets a key; empty if there is none."""
    from costmodel.explore.workload_flags import FLAGS

    keys = (item for flags in FLAGS.values() for item in flags.keys.items())
    return next((f"--{flag}" for flag, path in keys if path == key), "")


def _key_of_name(name: str, workload: str) -> str:
    """The key for a name, which may be another tool's; for a workload, its own key with that meaning."""
    from costmodel.documents.keys.field_aliases import meant_by
    from costmodel.documents.keys.workload_keys import in_place
    from costmodel.explore.workload_flags import flags_of

    meant = meant_by(name)
    others = meant.keys[0] if meant is not None and meant.keys and not meant.note else ""
    known = flags_of(workload).meant.get(name, "")
    found = known or _KEYS.get(name) or _key_ending_with(name, workload) or others
    return next(iter(in_place(workload, found)), "")


def _key_ending_with(name: str, workload: str) -> str:
    """The key whose last part is the name, plan keys first; for a result, the key of its limit."""
    from costmodel.documents.keys.key_list import all_keys
    from costmodel.documents.schemas.results import SERVING_RESULTS, TRAINING_COLUMNS

    paths = {key.path for key in all_keys() if not workload or key.of in ("", workload)}
    column = SERVING_RESULTS.get(name) or TRAINING_COLUMNS.get(name)
    bound = ".at_least" if column is not None and column.better == "higher" else ".at_most"
    wanted = (f"{root}{name}{end}" for root in _ROOTS for end in ("", bound))
    return next((path for path in wanted if path in paths), "")


def _value_of_option(option: str, words: Sequence[str]) -> str:
    """The value of an option on the command line; … if there is none."""
    for place, word in enumerate(words):
        if word.startswith(f"{option}="):
            return word.removeprefix(f"{option}=")
        if word == option and words[place + 1 :] and not words[place + 1].startswith("--"):
            return words[place + 1]
    return "…"
