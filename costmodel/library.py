"""The library: every command as a function, with answers for notebooks and pandas.

Each function has the name and the options of its command. A scenario is a name, a path, a mapping with the keys of a
scenario file, or a case that `load` returned; or flags describe it: `model="llama-3.1-8b", gpu="h100", gpus=64`.
`settings` are assignments as for `--set`. Nothing is printed. A fault raises `CostModelError` with code, place and
hint.
"""

from __future__ import annotations

import functools
import inspect
import io
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args, get_origin

from costmodel.commands.command_table import QUESTIONS
from costmodel.documents.reader.load_scenario import load_any, load_mapping
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.schemas.default_values import SAFE
from costmodel.explore.search.required_chance import preferring
from costmodel.ground.errors import CostModelError as CostModelError
from costmodel.ground.errors import WrongCall as WrongCall
from costmodel.ground.errors import fail
from costmodel.ground.record import record
from costmodel.report.terminal.layout import Reply

if TYPE_CHECKING:
    from pandas import DataFrame

    from costmodel.commands.scenario_options import Question

NAMES = {"import": "import_file", "list": "list_documents"}  # words that Python has itself
FUNCTIONS = {NAMES.get(name, name): name for name in QUESTIONS}
_WIDTH = 110  # columns of an answer in a notebook
_HTML = "<pre style='line-height:1.25'>{code}</pre>"

Scenario = str | os.PathLike[str] | Mapping[str, Any] | LoadedScenario
Settings = Iterable[str] | Mapping[str, Any]


@record
class Result:
    """The answer of a library function."""

    reply: Reply
    verbose: bool = False  # whether it shows all of the answer, as -v of the command does

    @property
    def works(self) -> bool:
        """Whether the answer is yes: valid, fits, meets its limits; the command then exits with 0."""
        return self.reply.yes

    @property
    def found(self) -> Any:
        """The evaluated result behind the answer, such as a search."""
        return self.reply.found

    @property
    def figures(self) -> dict[str, Any]:
        """The answer as plain values with units in their names, as for `--json`; an unknown number is None."""
        from costmodel.report.data_formats.json_csv_markdown import json_value

        figures: dict[str, Any] = json_value(self.reply.result())
        return figures

    def frame(self) -> DataFrame:
        """The table of the answer as a DataFrame: a row for each plan, point, transfer or figure."""
        import pandas

        from costmodel.report.data_formats.json_csv_markdown import json_value, table_rows

        return pandas.json_normalize(json_value(table_rows(self.reply)) if self.reply.rows else [self.figures])

    def form(self, name: str) -> str | bytes:
        """The answer in a format of `--format`: table, json, csv, markdown, and html, svg, png, xlsx or yaml where it
        has them.

        Raises:
            CostModelError: the answer does not have that form

        Example:
            >>> function("memory")("quickstart").form("csv")[:5]
            'model'
        """
        from costmodel.commands.answer_options import form_of
        from costmodel.commands.progress import without_progress

        with without_progress():
            if name == "yaml" and self.reply.filed is not None:
                return self.reply.filed.text(Path("answer.yaml"))
            answer = form_of(self.reply, name)
        if not answer and name != "table":
            raise fail("C007", f"this answer has no {name}", None, "take json, csv, markdown or table")
        return answer or f"{self!r}\n"

    def __repr__(self) -> str:
        from costmodel.report.terminal.layout import laid_out

        if self._is_figure:
            return "a figure: form('svg') or form('png')"
        return "\n".join(line.plain for line in laid_out(self.reply.lines(), _WIDTH, verbose=self.verbose))

    @property
    def _is_figure(self) -> bool:
        return not self.reply.rows and self.reply.filed is None and "svg" in self.reply.others

    def _repr_svg_(self) -> str | None:
        return str(self.form("svg")) if self._is_figure else None

    def _repr_html_(self) -> str | None:
        """The answer as HTML for a notebook; None for a figure."""
        if self._is_figure:
            return None
        from rich.console import Console

        from costmodel.report.terminal.layout import laid_out

        console = Console(
            record=True,
            width=_WIDTH,
            file=io.StringIO(),
            force_terminal=True,
            force_jupyter=False,  # in Jupyter a console shows each line at once, and the answer would stand there twice
            color_system="truecolor",
        )
        for line in laid_out(self.reply.lines(), _WIDTH, verbose=self.verbose):
            console.print(line, soft_wrap=True)
        return console.export_html(inline_styles=True, code_format=_HTML)


@record
class DrawnFigure:
    """A figure as SVG text, which a notebook shows."""

    svg: str = field(repr=False)

    def _repr_svg_(self) -> str:
        return self.svg


def load(scenario: Scenario, settings: Settings = ()) -> LoadedScenario:
    """A scenario with settings as `--set` writes them, and every document that it names.

    Raises:
        CostModelError: with every fault that was found
        WrongCall: the scenario is no name, path, mapping or case, or settings are one text

    Example:
        >>> load("quickstart", ["plan.tp=4"]).scenario.plan.tp
        4.0
    """
    from costmodel.documents.reader.load_scenario import vary_any

    changes, named = _settings_as_assignments("load", settings), _checked_scenario("load", scenario)
    if isinstance(named, str):
        return load_any(named, changes)
    if isinstance(named, Mapping):
        return load_mapping(named, changes)
    if named is None:
        raise WrongCall("load: a scenario is missing")
    return vary_any(named, changes) if changes else named


def _checked_scenario(name: str, scenario: object) -> str | Mapping[str, Any] | LoadedScenario | None:
    """Checks a scenario argument, and turns a path into text; raises an error for other types."""
    if isinstance(scenario, os.PathLike):
        return str(Path(scenario))
    if scenario is None or isinstance(scenario, str | Mapping) or hasattr(scenario, "asked"):
        return cast("str | Mapping[str, Any] | LoadedScenario | None", scenario)
    raise WrongCall(f"{name}: a scenario is a name, a path, a mapping or a case of load, not {type(scenario).__name__}")


def _settings_as_assignments(name: str, settings: object) -> tuple[str, ...]:
    """Settings as path=value texts; a mapping has one entry for each key."""
    if isinstance(settings, Mapping):
        return tuple(f"{path}={value}" for path, value in settings.items())
    if settings is None or isinstance(settings, str) or not isinstance(settings, Iterable):
        raise WrongCall(f"{name}: settings are a list such as ['plan.tp=4'], or a mapping")
    changes = tuple(settings)
    if not all(isinstance(change, str) for change in changes):
        raise WrongCall(f"{name}: each of the settings is a text such as 'plan.tp=4'")
    return changes


def _diff(
    before: Scenario | None = None,
    after: Scenario | None = None,
    *,
    settings: Settings = (),
    plans: str = "",
    **flags: Any,
) -> Result:
    """What differs between two scenarios, or from one to the same with settings: inputs, and every figure that moved.

    It works where nothing differs. plans and flags: as the options of the command; flags without before describe it

    Raises:
        TypeError: there is nothing to compare with, or after is given without before

    Example:
        >>> function("diff")("quickstart", settings=["plan.recompute=full"]).works
        False
    """
    from costmodel.commands.diff import comparison_reply, parsed_ranks
    from costmodel.commands.diff import diff as command
    from costmodel.commands.progress import without_progress
    from costmodel.commands.scenario_options import flag_options

    if before is None and after is not None:
        raise WrongCall("diff: flags describe the first scenario, settings change it: name both, or leave after out")
    described = before is not None and any(value is not None for name, value in flags.items() if name != "safe")
    if after is None and not (described or _settings_as_assignments("diff", settings) or plans):
        raise WrongCall("diff: there is nothing to compare with: give another scenario, settings, flags or plans")
    options = flag_options()
    if before is None:
        with without_progress():
            asked = _question("diff", {"settings": settings, **flags}, options)
            return Result(inspect.unwrap(command)(asked, plans=plans, exit_code=True))
    other = {"scenario": before if after is None else after, "settings": settings, **flags}
    sides = {"scenario": before, "safe": flags.get("safe")}, other
    cases = [_question("diff", side, options).loaded() for side in sides]
    changed = bool(cases[0].assignments), bool(cases[1].assignments) or described
    names = [f"{case.name} changed" if each else case.name for case, each in zip(cases, changed, strict=True)]
    with without_progress():
        ranks, both = parsed_ranks(str(plans)) if plans else None, [*zip(names, cases, strict=True)]
        return Result(comparison_reply(both, " → ".join(names), ranks, changed=True, exit_code=True))


def _diff_function() -> Callable[..., Result]:
    """The function `diff`, which accepts scenarios of any form, not only names."""
    from costmodel.commands.scenario_options import flag_options

    signature = inspect.signature(_diff, eval_str=True)
    *own, _ = signature.parameters.values()
    flags = [_parameter_of_option(option).replace(kind=_BY_NAME) for option in flag_options().values()]

    def diff(*given: Any, **named: Any) -> Result:
        bound = _bound_arguments("diff", diff.__signature__, {}, given, named)  # type: ignore[attr-defined]
        return _diff(**bound)

    diff.__doc__ = inspect.getdoc(_diff)
    diff.__signature__ = signature.replace(parameters=[*own, *flags])  # type: ignore[attr-defined]
    return diff


@functools.cache
def function(name: str) -> Callable[..., Result]:
    """The function of a command: its arguments and options; booleans, settings and flags are keyword-only.

    >>> function("sweep")("quickstart", ["plan.micro_batch=1,2"], "mfu").frame()["mfu"].size
    2
    >>> list(inspect.signature(function("memory")).parameters)[:4]
    ['scenario', 'verbose', 'settings', 'model']
    """
    from costmodel.commands.scenario_options import Question, flag_options

    if name == "diff":
        return _diff_function()
    command = inspect.unwrap(QUESTIONS[FUNCTIONS[name]].load())
    written = [*inspect.signature(command, eval_str=True).parameters.values()]
    asks = bool(written) and written[0].annotation is Question
    own = {each.name: each for each in (written[1:] if asks else written)}
    flags = {flag: each for flag, each in flag_options().items() if flag not in own} if asks else {}
    signature = _signature(own, flags, asks=asks)

    def answered(*given: Any, **named: Any) -> Result:
        """Answers the question: checks the arguments and runs the command's function."""
        from costmodel.commands.progress import without_progress

        bound = _bound_arguments(name, signature, own, given, named)
        verbose = bound.pop("verbose", False)
        if not isinstance(verbose, bool):
            raise WrongCall(f"{name}: verbose is True or False")
        if "assignments" in own and "settings" in bound:
            bound["assignments"] = [*_settings_as_assignments(name, bound.pop("settings"))]
        values = {each: _checked_value(name, option, bound.get(each, option.default)) for each, option in own.items()}
        with without_progress():
            return Result(command(_question(name, bound, flags), **values) if asks else command(**values), verbose)

    answered.__name__ = answered.__qualname__ = name
    answered.__doc__ = f"{inspect.getdoc(command)}\n\nArgs:\n{_argument_help(signature, {**own, **flags})}"
    answered.__signature__ = signature  # type: ignore[attr-defined]
    return answered


def _argument_help(signature: inspect.Signature, options: Mapping[str, inspect.Parameter]) -> str:
    """The parameters of a function as text, each with the help of its option."""
    meanings = {"scenario": "A name, a path, a mapping, or a case of load; without one, flags", "verbose": "As -v"}
    meanings["settings"] = "Keys as --set takes them, as a list or a mapping"
    helps = {
        name: getattr(given, "help", "")
        for name, option in options.items()
        for given in option.annotation.__metadata__[:1]
    }
    return "\n".join(f"    {name}: {meanings.get(name) or helps.get(name, '')}" for name in signature.parameters)


def _signature(
    mapping: Mapping[str, inspect.Parameter], flags: Mapping[str, inspect.Parameter], *, asks: bool
) -> inspect.Signature:
    """The signature of a function: the scenario, the options of the command, settings, flags."""
    scenario = inspect.Parameter("scenario", _BY_PLACE, default=None, annotation=Scenario | None)
    settings = inspect.Parameter("settings", _BY_NAME, default=(), annotation=Settings)
    options = [_parameter_of_option(each) for each in mapping.values() if each.name != "assignments"]
    common = [_parameter_of_option(flag).replace(kind=_BY_NAME) for flag in flags.values()]
    verbose = inspect.Parameter("verbose", _BY_NAME, default=False, annotation=bool)
    ahead, behind = [scenario] if asks else [], [verbose, *([settings] if asks or "assignments" in mapping else [])]
    return inspect.Signature(
        sorted([*ahead, *options, *behind, *common], key=lambda each: each.kind), return_annotation=Result
    )


def _bound_arguments(
    name: str,
    signature: inspect.Signature,
    mapping: Mapping[str, inspect.Parameter],
    given: tuple[Any, ...],
    named: dict[str, Any],
) -> dict[str, Any]:
    """The arguments of a call by name; errors name the function."""
    try:
        bound = dict(signature.bind(*given, **named).arguments)
    except TypeError as error:
        from costmodel.documents.keys.suggestions import nearest

        strange = next((each for each in named if each not in signature.parameters), "")
        close = _SAME.get(strange, "") or nearest(strange, list(signature.parameters), 0.6)
        meant = f"; did you mean '{close}'?" if close in signature.parameters else ""
        raise WrongCall(f"{name}: {error}{meant}") from None
    missing = [each for each, option in mapping.items() if option.default is option.empty and each not in bound]
    if missing:
        raise WrongCall(f"{name}: {', '.join(missing)} is missing")
    return bound


def _question(name: str, bound: Mapping[str, Any], options: Mapping[str, inspect.Parameter]) -> Question:
    """The question that the arguments of a call describe."""
    from costmodel.commands.scenario_options import Question, flag_options

    scenario, settings = (
        _checked_scenario(name, bound.get("scenario")),
        _settings_as_assignments(name, bound.get("settings", ())),
    )
    stated = {flag: _checked_value(name, option, bound.get(flag)) for flag, option in options.items()}
    flags = {**dict.fromkeys(flag_options()), **stated}
    if isinstance(scenario, Mapping):
        return Question("-", flags, settings, None, mapping=scenario)
    if scenario is None or isinstance(scenario, str):
        return Question(scenario, flags, settings, None)
    return Question(scenario.name, flags, settings, None, held=scenario)


def scenario_asked(name: str, options: Mapping[str, Any], *, planned: bool) -> LoadedScenario:
    """The scenario that the options of a question describe; planned: with the best plan where flags state none."""
    from costmodel.commands.scenario_options import flag_options

    flags = {each: option for each, option in flag_options().items() if each in options}
    return _question(name, options, flags).loaded(planned=planned)


_SAME = {"axes": "over", "axis": "over", "vary": "over"}  # keywords of other libraries
_BY_PLACE, _BY_NAME = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY


def _parameter_of_option(option: inspect.Parameter) -> inspect.Parameter:
    """A command's option as a parameter of a function; booleans are keyword-only."""
    annotation, kind = option.annotation, _BY_NAME if isinstance(option.default, bool) else option.kind
    annotation = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    default = None if option.default is option.empty else option.default
    return option.replace(annotation=annotation, kind=kind, default=default)


def _checked_value(command: str, option: inspect.Parameter, value: Any) -> Any:
    """An argument checked against the type and range of the command's option."""
    from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

    if value is option.default or (value is None and option.default is option.empty):
        return value
    kind, *stated = get_args(option.annotation) if get_origin(option.annotation) is Annotated else (option.annotation,)
    limits = stated[0] if stated else None
    if isinstance(value, Mapping) and list[str] in (kind, *get_args(kind)):
        value = [f"{path}={_over_values(values)}" for path, values in value.items()]
    if isinstance(value, str) and list[str] in (kind, *get_args(kind)):
        value = [value]
    parser, least, most = (getattr(limits, name, None) for name in ("parser", "min", "max"))
    if isinstance(value, bool) and bool not in (kind, *get_args(kind)):
        raise WrongCall(f"{command}: {option.name}: a boolean is not a value of it")
    if parser is not None and isinstance(value, str):
        return parser(value)
    ranged: Any = Annotated[kind, Field(ge=least, le=most)] if least is not None or most is not None else kind
    try:
        return TypeAdapter(ranged, config=ConfigDict(coerce_numbers_to_str=True)).validate_python(value)
    except ValidationError as error:
        (first, *_) = error.errors()
        raise WrongCall(f"{command}: {option.name}: {first['msg']}") from None


def _over_values(values: object) -> str:
    """The values of a key as --over takes them.

    >>> _over_values([1, 2]), _over_values("1..8"), _over_values([True, "even"])
    ('1,2', '1..8', 'true,even')
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        return str(values)
    return ",".join(str(each).lower() if isinstance(each, bool) else str(each) for each in values)


def figure(scenario: Scenario, name: str = "time") -> DrawnFigure:
    """A figure of the scenario's own plan: time, memory, network, roofline or pipeline; of a service load.

    Raises:
        CostModelError: there is no such figure, or nothing to draw

    Example:
        >>> figure("quickstart", "memory").svg[:4]
        '<svg'
    """
    from costmodel.commands.by_workload import commands_of
    from costmodel.commands.replies import figure_reply

    case = preferring(load(scenario), SAFE)
    return DrawnFigure(cast(str, Result(figure_reply(commands_of(case).view(case, "report"), name)).form("svg")))
