"""The library's face: every question of the command line as a function, whose answers notebooks show and pandas reads.

Each function has the name and the options of its command. A scenario is a name, a path, a mapping with the keys of a
scenario file, or a case that `load` returned; or flags describe it: `model="llama-3.1-8b", gpu="h100", gpus=64`.
`settings` are keys as `--set` writes them. Nothing prints. A fault is a `CostModelError` with code, place and remedy.
"""

from __future__ import annotations

import functools
import inspect
import io
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args, get_origin

from costmodel.commands.command_table import COMMANDS
from costmodel.documents.reader.resolved_scenario import LoadedScenario, load_any, load_text
from costmodel.ground.errors import CostModelError as CostModelError
from costmodel.ground.record import record
from costmodel.report.terminal.style.answer import Reply

if TYPE_CHECKING:
    from pandas import DataFrame

NAMES = {"import": "import_file", "list": "list_documents"}  # words that Python has itself
FUNCTIONS = {NAMES.get(name, name): name for name in COMMANDS}
_WIDTH = 110  # columns of an answer in a notebook
_HTML = "<pre style='line-height:1.25'>{code}</pre>"

Scenario = str | Mapping[str, Any] | LoadedScenario


@record
class Result:
    """One answer."""

    reply: Reply

    @property
    def works(self) -> bool:
        """Whether the answer is yes: valid, fits, keeps its limits; exit code 0 of the command."""
        return self.reply.yes

    @property
    def found(self) -> Any:
        """What the engine returned."""
        return self.reply.found

    @property
    def figures(self) -> dict[str, Any]:
        """The answer as plain values, with units in the names, as `--json` writes it; an unknown number is None."""
        from costmodel.report.machine.formats import machine

        figures: dict[str, Any] = machine(self.reply.result())
        return figures

    def frame(self) -> DataFrame:
        """The table of the answer: a row for each plan, point, transfer or figure."""
        import pandas

        from costmodel.report.machine.formats import machine, rows_of

        return pandas.json_normalize(machine(rows_of(self.reply)) if self.reply.rows else [self.figures])

    def form(self, name: str) -> str | bytes:
        """The answer in a format of `--format`: json, csv, markdown, and html, svg, png or xlsx where it has them.

        Raises:
            CostModelError: the answer does not have that form
        """
        from costmodel.commands.progress import quiet
        from costmodel.commands.shared import form_of

        with quiet():
            return form_of(self.reply, name)

    def __repr__(self) -> str:
        from costmodel.report.terminal.style.layout import laid

        return "\n".join(line.plain for line in laid(self.reply.lines(), _WIDTH))

    def _repr_html_(self) -> str:
        from rich.console import Console

        from costmodel.report.terminal.style.layout import laid

        console = Console(
            record=True,
            width=_WIDTH,
            file=io.StringIO(),
            force_terminal=True,
            force_jupyter=False,  # in Jupyter a console shows each line at once, and the answer would stand there twice
            color_system="truecolor",
        )
        for line in laid(self.reply.lines(), _WIDTH):
            console.print(line, soft_wrap=True)
        return console.export_html(inline_styles=True, code_format=_HTML)


@record
class Drawn:
    """A figure as the text of an SVG, which a notebook shows."""

    svg: str = field(repr=False)

    def _repr_svg_(self) -> str:
        return self.svg


def load(scenario: Scenario, settings: Iterable[str] = ()) -> LoadedScenario:
    """A scenario with settings as `--set` writes them, and every document that it names.

    Raises:
        CostModelError: with every fault that was found

    Example:
        >>> load("quickstart", ["plan.tp=4"]).scenario.plan.tp
        4.0
    """
    if isinstance(scenario, str):
        return load_any(scenario, settings)
    if isinstance(scenario, Mapping):
        written = {"schema": "costmodel/scenario/v1", "title": "scenario", **scenario}
        return load_text(json.dumps(written, default=str), "scenario.yaml", settings)
    from costmodel.documents.reader.override_case import vary_any

    return vary_any(scenario, settings) if settings else scenario


def diff(before: Scenario, after: Scenario | None = None, *, settings: Iterable[str] = (), plans: str = "") -> Result:
    """What differs between two scenarios, or from one to the same with settings: inputs, and every figure that moved.

    It works where nothing differs.

    Example:
        >>> diff("quickstart", settings=["plan.recompute=full"]).works
        False
    """
    from costmodel.commands.diff import compared, ranks_of
    from costmodel.commands.progress import quiet

    cases = load(before), load(before if after is None else after, settings)
    names = [case.name if not case.assignments else f"{case.name} changed" for case in cases]
    with quiet():
        sides = [*zip(names, cases, strict=True)]
        ranks = ranks_of(plans) if plans else None
        return Result(compared(sides, " → ".join(names), ranks, changed=True, exit_code=True))


@functools.cache
def function(name: str) -> Callable[..., Result]:
    """The function of a command: its arguments and options; those that are true or false, settings and flags by name.

    >>> function("sweep")("quickstart", ["plan.micro_batch=1,2"], "mfu").frame()["mfu"].size
    2
    >>> list(inspect.signature(function("memory")).parameters)[:4]
    ['scenario', 'verbose', 'settings', 'model']
    """
    from costmodel.commands.short_form import Question, flag_options

    command = inspect.unwrap(COMMANDS[FUNCTIONS[name]].load())
    written = [*inspect.signature(command, eval_str=True).parameters.values()]
    asks = bool(written) and written[0].annotation is Question
    own = [*map(_by_name, written[1:] if asks else written)]
    flags = flag_options() if asks else {}
    common = [_plain(each).replace(kind=_NAMED) for flag, each in flags.items() if flag not in _names(own)]
    first = [_SCENARIO] if asks else []
    options = sorted([*first, *own, *([_SETTINGS, *common] if asks else [])], key=lambda each: each.kind)
    signature = inspect.Signature(options, return_annotation=Result)

    def answered(*given: Any, **named: Any) -> Result:
        from costmodel.commands.progress import quiet

        try:
            bound = signature.bind(*given, **named).arguments
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None
        missing = [each.name for each in written if each.name in _names(own) - {*bound} and each.default is each.empty]
        if missing:
            raise TypeError(f"{name}: {', '.join(missing)} is missing")
        values = {each.name: _taken(name, each, bound.get(each.name, each.default)) for each in own}
        if not asks:
            with quiet():
                return Result(command(**values))
        stated = {each.name: _taken(name, each, bound.get(each.name)) for each in common}
        scenario, settings = bound.get("scenario"), tuple(bound.get("settings", ()))
        held = None if scenario is None or isinstance(scenario, str) else load(scenario, settings)
        flagged = {**dict.fromkeys(flags), **stated}
        question = (
            Question(scenario, flagged, settings, None)
            if held is None
            else Question(held.name, flagged, (), None, held)
        )
        with quiet():
            return Result(command(question, **values))

    answered.__name__ = answered.__qualname__ = name
    answered.__doc__ = inspect.getdoc(command)
    answered.__signature__ = signature  # type: ignore[attr-defined]
    return answered


_NAMED = inspect.Parameter.KEYWORD_ONLY
_SCENARIO = inspect.Parameter(
    "scenario", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=Scenario | None
)
_SETTINGS = inspect.Parameter("settings", _NAMED, default=(), annotation=Iterable[str])


def _names(options: Iterable[inspect.Parameter]) -> set[str]:
    return {each.name for each in options}


def _plain(option: inspect.Parameter) -> inspect.Parameter:
    """An option without what a terminal shows of it."""
    annotation = option.annotation
    return option.replace(annotation=get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation)


def _by_name(option: inspect.Parameter) -> inspect.Parameter:
    """An option of a function: what is true or false is given by name, so that nothing else is taken for it."""
    kind = _NAMED if isinstance(option.default, bool) else option.kind
    return _plain(option).replace(kind=kind, default=None if option.default is option.empty else option.default)


def _taken(command: str, option: inspect.Parameter, value: Any) -> Any:
    """The value of an option, as its command has it; an error for one of another type."""
    from pydantic import ConfigDict, TypeAdapter, ValidationError

    if value is option.default:
        return value
    try:
        return TypeAdapter(option.annotation, config=ConfigDict(coerce_numbers_to_str=True)).validate_python(value)
    except ValidationError as error:
        (first, *_) = error.errors()
        raise TypeError(f"{command}: {option.name}: {first['msg']}") from None


def figure(scenario: Scenario, name: str = "time") -> Drawn:
    """A figure of the scenario's own plan: time, memory, network, roofline or pipeline.

    A scenario that serves, or of reinforcement learning, has the first two.

    Raises:
        CostModelError: there is no such figure, or nothing to draw
    """
    from costmodel.commands.wings import wing_of

    case = load(scenario)
    return Drawn(cast(str, Result(wing_of(case).figure(case, name)).form("svg")))
