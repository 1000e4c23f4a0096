"""The scenario that a command asks about: named, described by flags, or both; and its options."""

from __future__ import annotations

import functools
import inspect
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from costmodel.commands import completion
from costmodel.commands.answer_options import KEYS_PANEL, ForceOption, SetOption, optional, optional_argument
from costmodel.commands.output import check_writable, write_file
from costmodel.ground.errors import CostModelError, WrongCall, fail
from costmodel.ground.record import record
from costmodel.report.terminal.layout import Reply

if TYPE_CHECKING:
    from costmodel.documents.reader.resolved_scenario import LoadedScenario, ResolvedScenario

# Everything heavy is imported by the command that needs it, so that --help is quick.

_JOB, _MACHINE, _SERVING, _RL, _KEYS = "Job", "Machine", "Serving", "Reinforcement learning", KEYS_PANEL


def _flag(panel: str, name: str, help: str, metavar: str, complete: Callable[[str], list[str]] | None = None) -> Any:
    return optional(f"--{name}", help=help, metavar=metavar, rich_help_panel=panel, autocompletion=complete)


# The load of a service, for every command that takes one.
RateOption = Annotated[str | None, _flag(_SERVING, "rate", "Requests that arrive per second", "RATE")]
ConcurrencyOption = Annotated[
    str | None, _flag(_SERVING, "concurrency", "Requests in flight, instead of a rate", "COUNT")
]
BurstOption = Annotated[
    str | None,
    _flag(_SERVING, "burstiness", "Of a rate: below 1 in bursts, as in vllm bench serve; 1 at random", "SHAPE"),
]
UsersOption = Annotated[
    str | None,
    _flag(_SERVING, "users", "People, each with a request in flight or thinking (workload.think_time)", "COUNT"),
]
TraceOption = Annotated[
    str | None, _flag(_SERVING, "trace", "Requests with time, prompt and answer, in place of rate and lengths", "FILE")
]
PromptOption = Annotated[str | None, _flag(_SERVING, "prompt", "Tokens of a prompt (serving and RL)", "COUNT")]
AnswerOption = Annotated[str | None, _flag(_SERVING, "answer", "Tokens of an answer; for RL the mean", "COUNT")]


@record
class Question:
    """What a command asks about: a scenario by name, flags, and assignments of --set."""

    scenario: str | None
    flags: dict[str, Any]
    assignments: tuple[str, ...]
    write: Path | None
    force: bool = False  # whether `write` may overwrite
    held: LoadedScenario | None = None  # a case in the place of a scenario's name
    mapping: Mapping[str, Any] | None = None  # or the keys of a scenario

    @property
    def is_plain(self) -> bool:
        """Whether only the name of a scenario is given."""
        return not (self.assignments or self.write or self.is_flags)

    @property
    def is_flags(self) -> bool:
        """Whether any scenario flags are given."""
        return any(value is not None for value in self.flags.values())

    @property
    def is_alone(self) -> bool:
        """Whether flags are given without the name of a scenario."""
        return self.scenario is None

    def with_model(self) -> Question:
        """A copy in which the scenario's name is taken for a model, as --model would."""
        if self.flags["model"] is not None:
            sentence = f"'{self.scenario}' is a model, and --model names another"
            raise fail("C004", sentence, None, "leave one of the two out")
        return replace(self, scenario=None, flags={**self.flags, "model": self.scenario})

    def of_rate(self, rates: str) -> Question:
        """A copy whose load is the first of `rates`, if no scenario is named."""
        from costmodel.explore.search.value_ranges import doubled, values_of

        if self.scenario is not None or not rates:
            return self
        return replace(self, flags={**self.flags, "rate": values_of(doubled(rates), "--rate", rates)[0]})

    def case(self, question: str) -> ResolvedScenario:
        """The training scenario for a question that only training answers; a fault for other workloads."""
        from costmodel.commands.by_workload import commands_of
        from costmodel.documents.reader.resolved_scenario import training

        case = self.of_one_plan()
        commands_of(case, question)
        return training(case)

    def varied(self, keys: Mapping[str, str], several: str = "") -> LoadedScenario:
        """The scenario for a command that varies keys, each given with its option: these keys get no defaults,
        and other settings of them have no effect. A scenario without a plan takes the best one at each value.

        several: the option that takes several values of a key, if the command has one
        """
        try:
            case = self.loaded(planned=False, varied=keys)
        except CostModelError as error:
            raise self._of_several(error, several) if several else error from None
        assumed = tuple(item for item in case.asked.assumed if item.path not in keys)
        lost = {words: keys[path] for words, path in self._stated(case) if path in keys}
        kept = (
            remark
            for remark in case.asked.remarks
            if not any(remark.startswith(f"{words} in the place") for words in lost)
        )
        remarks = (*kept, *(f"{words} has no effect: {option} counts" for words, option in lost.items()))
        return replace(case, asked=replace(case.asked, assumed=assumed, remarks=remarks))

    def key_of(self, name: str) -> str:
        """The scenario key that a flag of this name sets; other names are returned unchanged."""
        from costmodel.explore.workload_flags import key_of_flag

        return name if key_of_flag(name) == name else key_of_flag(name, self.loaded(planned=False).kind)

    def over(self, texts: Sequence[str]) -> list[str]:
        """PATH=VALUES texts, with the key in place of a flag's name such as rate."""
        parts = (text.partition("=") for text in texts)
        return [f"{self.key_of(name.strip())}{separator}{values}" for name, separator, values in parts]

    def _of_several(self, error: CostModelError, option: str) -> CostModelError:
        """The fault with a better hint, if a flag was given several values that `option` accepts."""
        from costmodel.explore.default_node import values_of_gpus
        from costmodel.explore.workload_flags import FLAGS

        keys = {name: path for flags in FLAGS.values() for name, path in flags.keys.items()}
        found = []
        for fault in error.faults:
            name, _, values = ("" if fault.place is None else fault.place.text).removeprefix("--").partition(" ")
            if name == "gpu" and "," in values:
                varied = values_of_gpus(values.split(",")) or "cluster.node=A,B; costmodel list nodes shows them"
                fault = replace(fault, hint=f"for several: {option} {varied}")
            elif name in keys and ("," in values or ".." in values):
                unit = " /s" if name == "rate" and not values.endswith("s") else ""
                steps = "*2" if ".." in values and "*" not in values else ""
                stated = f"{','.join(f'{value}{unit}' for value in values.split(','))}{steps}"
                fault = replace(fault, hint=f"for several values: {shlex.join([option, f'{keys[name]}={stated}'])}")
            found.append(fault)
        return CostModelError(*found)

    def _stated(self, case: LoadedScenario) -> Iterator[tuple[str, str]]:
        """The words and the key of each setting on the command line."""
        from costmodel.documents.keys.overrides import path_of
        from costmodel.explore.workload_flags import keys_of

        keys = {**keys_of(case.kind), "gpus": "cluster.nodes"}
        yield from (
            (f"--{name} {self.flags[name]}", path) for name, path in keys.items() if self.flags[name] is not None
        )
        before = () if self.held is None else self.held.assignments
        yield from ((f"--set {item}", path_of(item)) for item in (*before, *self.assignments))

    def loaded(self, *, planned: bool = True, varied: Collection[str] = ()) -> LoadedScenario:
        """The loaded scenario of any workload; a load that the command varies gets no default."""
        from costmodel.documents.reader.load_scenario import load_any, load_mapping
        from costmodel.documents.schemas.default_values import SAFE
        from costmodel.explore.search.required_chance import preferring
        from costmodel.explore.workload_flags import OFF, with_varied_load

        if self.write is not None:
            check_writable(self.write, force=self.force)
        if self.mapping is not None:
            return self._held(load_mapping(with_varied_load(self.mapping, varied)))
        if self.held is not None:
            return self._held(self.held)
        loads = any(path.startswith("workload.") for path in varied)  # of which a scenario has one
        named = self.scenario is not None and not self.is_flags and not loads
        case = load_any(self.scenario or "", self.assignments) if named else self._of_flags(varied)
        case = preferring(case, None if self.flags.get("safe") == OFF else SAFE)
        if planned and self.scenario is None and "plan" not in case.original:
            case = with_usual_plan(case) or with_best_plan(case)
        return case if self.write is None else write_scenario(case, self.write)

    def of_one_plan(self) -> LoadedScenario:
        """The loaded scenario; without a stated plan, with the best plan of its search."""
        case = self.loaded()
        return with_best_plan(case) if case.scenario.plan is None and not self.is_alone else case

    def _held(self, case: LoadedScenario) -> LoadedScenario:
        """The scenario that a library caller passed in, with the changes of --set and the requested chance."""
        from costmodel.documents.reader.load_scenario import vary_any
        from costmodel.documents.schemas.default_values import SAFE
        from costmodel.explore.search.required_chance import preferring
        from costmodel.explore.workload_flags import OFF, keys_of

        others = [name for name, value in self.flags.items() if value is not None and name != "safe"]
        if others:
            raise WrongCall(f"{', '.join(others)}: flags go with the name of a scenario; give settings to a case")
        safe, changes = self.flags["safe"], [*self.assignments]
        changes += [] if safe in (None, OFF) else [f"{keys_of(case.kind)['safe']}={safe}"]
        return preferring(vary_any(case, changes) if changes else case, None if safe == OFF else SAFE)

    def of_change(self) -> tuple[Question, Question]:
        """Two questions: the flags alone, and the flags with --set, which overrides flags of the same keys."""
        from costmodel.explore.scenario_from_flags import ScenarioFlags, without_overridden_flags

        flags, assignments = without_overridden_flags(ScenarioFlags(**self.flags), self.assignments)
        changed = {name: getattr(flags, name) for name in self.flags}
        return replace(self, assignments=()), replace(self, flags=changed, assignments=assignments, write=None)

    def _of_flags(self, varied: Collection[str]) -> LoadedScenario:
        """The scenario that flags describe; imports the table of flags only here."""
        from costmodel.explore.scenario_from_flags import ScenarioFlags, scenario_from_flags

        return scenario_from_flags(self.scenario, ScenarioFlags(**self.flags), self.assignments, varied)


def question_command(command: Callable[..., Reply], argument: Any = None) -> Callable[..., Reply]:
    """Turns a function of a `Question` into a command with a scenario argument, --set and the scenario flags.

    If the function has an option with the name of a flag, it replaces the flag.
    """
    own, known = inspect.signature(command, eval_str=True), flag_options()
    flags = {name: flag for name, flag in known.items() if name not in own.parameters}
    scenario, *common = _common_options()
    _, *rest = own.parameters.values()

    @functools.wraps(command)
    def run(**given: Any) -> Reply:
        """Runs the command on the question that its options make."""
        asked = {**dict.fromkeys(known), **{name: given.pop(name) for name in flags}}
        changes, path, force = (given.pop(option.name) for option in common)
        return command(Question(given.pop("scenario"), asked, tuple(changes or ()), path, force), **given)

    scenario = scenario.replace(annotation=argument or scenario.annotation)
    options = [scenario, *rest, *flags.values(), *common]
    options.sort(key=lambda option: option.default is not option.empty)  # a signature has the required ones first
    run.__signature__ = own.replace(parameters=options)  # type: ignore[attr-defined]
    return run


@functools.cache
def flag_options() -> Mapping[str, inspect.Parameter]:
    """The scenario flags by name."""
    return inspect.signature(_flag_parameters, eval_str=True).parameters


@functools.cache
def _common_options() -> Sequence[inspect.Parameter]:
    """The parameters of every question except its flags."""
    return tuple(inspect.signature(_common_parameters, eval_str=True).parameters.values())


def _common_parameters(
    scenario: Annotated[
        str | None,
        optional_argument(
            help="A scenario: a shipped name, a path, '-' for stdin, or a result written with --json; or only flags",
            autocompletion=completion.scenarios,
        ),
    ] = None,
    assignments: SetOption = None,
    write: Annotated[
        Path | None, _flag(_KEYS, "write", "Write the scenario that the flags describe", "FILE.yaml")
    ] = None,
    force: ForceOption = False,
) -> None:
    """Declares the parameters of every question besides its flags."""


def _flag_parameters(
    model: Annotated[
        str | None,
        _flag(_JOB, "model", "Model: a name, its YAML, or a config.json or its folder", "NAME|PATH", completion.models),
    ] = None,
    gpu: Annotated[
        str | None, _flag(_MACHINE, "gpu", "Accelerator, in its usual node", "NAME", completion.accelerators)
    ] = None,
    node: Annotated[str | None, _flag(_MACHINE, "node", "Node", "NAME|PATH", completion.nodes)] = None,
    gpus: Annotated[
        int | None, optional("--gpus", min=1, help="Total number of GPUs", rich_help_panel=_MACHINE)
    ] = None,
    sequence: Annotated[str | None, _flag(_JOB, "sequence", "Tokens in a sequence", "COUNT")] = None,
    batch: Annotated[
        str | None, _flag(_JOB, "batch", "Sequences in a step; or tokens, e.g. 4Mi-tokens", "COUNT")
    ] = None,
    rate: RateOption = None,
    concurrency: ConcurrencyOption = None,
    burstiness: BurstOption = None,
    trace: TraceOption = None,
    users: UsersOption = None,
    prompt: PromptOption = None,
    answer: AnswerOption = None,
    longest: Annotated[
        str | None, _flag(_RL, "longest", "Tokens of the longest answer; by default 4 × the mean", "COUNT")
    ] = None,
    rl: Annotated[str | None, _flag(_RL, "rl", "Algorithm of RL", "grpo|ppo|dapo|rloo|dpo")] = None,
    prompts: Annotated[str | None, _flag(_RL, "prompts", "Prompts of an iteration", "COUNT")] = None,
    samples: Annotated[str | None, _flag(_RL, "samples", "Answers to each prompt", "COUNT")] = None,
    trainer: Annotated[
        str | None, _flag(_RL, "trainer", "Software that trains, within --stack", "NAME", completion.stacks)
    ] = None,
    rollout: Annotated[
        str | None, _flag(_RL, "rollout", "Engine that generates, within --stack", "NAME", completion.stacks)
    ] = None,
    iterations: Annotated[str | None, _flag(_RL, "iterations", "Iterations of the whole job", "COUNT")] = None,
    tokens: Annotated[str | None, _flag(_JOB, "tokens", "Tokens to train on in all, e.g. 15T", "COUNT")] = None,
    deadline: Annotated[
        str | None, _flag(_JOB, "deadline", "The most time for training or RL, e.g. 60d", "TIME")
    ] = None,
    budget: Annotated[
        str | None,
        _flag(_JOB, "budget", "The highest rent: of a training or RL job in all, of a service each month", "USD"),
    ] = None,
    ttft: Annotated[
        str | None, _flag(_SERVING, "ttft", "The longest time to first token (p99), e.g. 1s", "TIME")
    ] = None,
    tpot: Annotated[str | None, _flag(_SERVING, "tpot", "The longest mean time per output token", "TIME")] = None,
    dtype: Annotated[
        str | None, _flag(_JOB, "dtype", "Data type of matmul inputs", "bf16|…", completion.precisions)
    ] = None,
    stack: Annotated[
        str | None, _flag(_JOB, "stack", "Training software or serving engine", "NAME|PATH", completion.stacks)
    ] = None,
    price: Annotated[str | None, _flag(_MACHINE, "price", "Rent of a GPU, e.g. 2.50USD/GPU/h", "PRICE")] = None,
    safe: Annotated[
        str | None,
        _flag(_KEYS, "safe", "Minimum chance to fit (serving: and to meet limits); searches prefer 90 %", "SHARE|off"),
    ] = None,
) -> None:
    """Declares the scenario flags."""


def with_plan(case: LoadedScenario) -> LoadedScenario:
    """The scenario; without a stated plan, with the best plan of its search if its workload needs one."""
    from costmodel.explore.workload_flags import flags_of

    return with_best_plan(case) if flags_of(case.kind).plans_ahead and case.scenario.plan is None else case


def with_usual_plan(case: LoadedScenario) -> LoadedScenario | None:
    """The scenario with its software's default plan; None if no flag states a part of a plan."""
    from costmodel.commands.by_workload import commands_of
    from costmodel.documents.reader.load_scenario import vary_any
    from costmodel.documents.schemas.default_values import Assumption

    origin = commands_of(case).usual_plan(case)
    if not origin:
        return None
    planned = case if case.scenario.plan is not None else vary_any(case, ["plan={}"])
    why = f"{origin}, not the best plan; costmodel search ranks plans"
    left = Assumption("plan", "keys that are not set", why, short="default, not the best")
    return replace(
        planned, assignments=case.assignments, asked=replace(case.asked, assumed=(*case.asked.assumed, left))
    )


def with_best_plan(case: LoadedScenario) -> LoadedScenario:
    """The scenario with the best plan of its search, or the nearest to fit; keys of --set stay fixed."""
    from costmodel.commands.by_workload import commands_of
    from costmodel.documents.reader.load_scenario import vary_any
    from costmodel.documents.schemas.default_values import Assumption

    found = commands_of(case).best_plan(case)
    if found is None:  # the answer shows why it is invalid
        return case
    settings, origin = found
    if not settings:  # --set gives all of the plan
        return case
    planned = vary_any(case, [f"{path}={value}" for path, value in settings.items()])
    words = " · ".join(f"{path.removeprefix('plan.')} {value}" for path, value in settings.items())
    origin = f"{origin}; {commands_of(case).OTHER_PLANS}"
    asked = replace(
        case.asked, assumed=(*case.asked.assumed, Assumption("plan", words, origin, short="best of a search"))
    )
    return replace(planned, assignments=case.assignments, asked=asked)


def write_scenario(case: LoadedScenario, path: Path) -> LoadedScenario:
    """The case, after writing its scenario to a file and printing the path."""
    from costmodel.exchange.write_yaml import scenario_text
    from costmodel.report.terminal.head import case_title

    write_file(path, scenario_text(case, path, case_title(case)))
    remark = f"wrote {path}: costmodel search {path}"
    return replace(case, asked=replace(case.asked, remarks=(*case.asked.remarks, remark)))
