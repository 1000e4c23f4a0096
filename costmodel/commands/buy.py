"""buy: which machine, how many of them, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from costmodel.commands import completion
from costmodel.commands.answer_options import PAGE, answering_in, optional
from costmodel.commands.replies import document_reply
from costmodel.commands.scenario_options import Question, question_command
from costmodel.ground.errors import Place, fail
from costmodel.ground.parsing import UnitError, parse
from costmodel.report.terminal.layout import Reply

if TYPE_CHECKING:
    from costmodel.documents.reader.dense_models import DenseModel
    from costmodel.documents.reader.resolved_scenario import LoadedScenario
    from costmodel.documents.reader.serving_scenario import ServingCase
    from costmodel.explore.purchase.buy import PurchaseComparison
    from costmodel.explore.purchase.offers import Offers

_MACHINE = "Machine"
GpuOption = Annotated[
    str,
    typer.Option(
        "--gpu",
        metavar="A,B",
        help="Accelerators, each in every node that has it and a price",
        show_default="every one with a price, in its cheapest node",
        autocompletion=completion.accelerators,
        rich_help_panel=_MACHINE,
    ),
]
NodeOption = Annotated[
    str, optional("--node", metavar="A,B", help="Nodes", autocompletion=completion.nodes, rich_help_panel=_MACHINE)
]
PricesOption = Annotated[
    str,
    optional(
        "--prices",
        metavar="FILE",
        help="Your own prices, a CSV, beside the shipped ones; costmodel explain D018 lists its columns",
        rich_help_panel=_MACHINE,
    ),
]
OnlyOption = Annotated[
    bool, typer.Option("--only-prices", help="With --prices: no other offer than its rows", rich_help_panel=_MACHINE)
]
YearsOption = Annotated[
    float | None,
    optional(
        "--years",
        min=0.1,
        metavar="YEARS",
        help="For how long bought machines are used, in place of the years of their price",
        rich_help_panel=_MACHINE,
    ),
]
ApiOption = Annotated[
    str,
    optional(
        "--api",
        metavar="USD",
        help="What an API asks for a million tokens of prompt and of answer, e.g. 3,15; one price is of both",
        rich_help_panel="Serving",
    ),
]
OthersArgument = Annotated[
    list[str] | None,
    typer.Argument(
        help="More scenarios: jobs that run at the same time, on one kind of machine",
        show_default=False,
        autocompletion=completion.scenarios,
    ),
]
WithOption = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="SCENARIO",
        help="A further job, as a second scenario is one, for a first one that flags describe; may be repeated",
        show_default=False,
        rich_help_panel=_MACHINE,
        autocompletion=completion.scenarios,
    ),
]
DayOption = Annotated[
    str,
    typer.Option(
        "--day",
        metavar="RATES|FILE",
        help="Requests per second in 2, 3, 4, 6, 8, 12 or 24 equal parts of a day, a CSV of hour and rate, or a trace",
        show_default=False,
        rich_help_panel="Serving",
    ),
]
StartOption = Annotated[
    str,
    typer.Option(
        "--cold-start",
        metavar="TIME",
        help="With --day: from the decision to start a replica until it serves",
        show_default="assume.growth.start, or the start of its engine",
        rich_help_panel="Serving",
    ),
]
PowerOption = Annotated[
    str,
    optional(
        "--power",
        metavar="POWER",
        help="What the site supplies at most, for nodes at their rating and cooling, e.g. 10MW",
        rich_help_panel=_MACHINE,
    ),
]
GpusOption = Annotated[
    int | None,
    optional(
        "--gpus",
        min=1,
        help="The most GPUs to take, of all jobs together; without a deadline or budget a job takes all",
        rich_help_panel=_MACHINE,
    ),
]


@answering_in(*PAGE)
@question_command
def buy(
    question: Question,
    others: OthersArgument = None,
    gpu: GpuOption = "",
    node: NodeOption = "",
    gpus: GpusOption = None,
    day: DayOption = "",
    cold_start: StartOption = "",
    jobs: WithOption = None,
    power: PowerOption = "",
    prices: PricesOption = "",
    only_prices: OnlyOption = False,
    years: YearsOption = None,
    api: ApiOption = "",
    top: Annotated[
        int | None,
        typer.Option("--top", "-n", min=1, max=1000, help="How many machines to show", show_default="12 with -v"),
    ] = None,
    plot: Annotated[bool, typer.Option("--plot", help="Draw what machines trade; a page always does")] = False,
) -> Reply:
    """Find which GPUs to rent, how many, and what they cost: on every machine the smallest layout within all limits.

    Examples:
      costmodel buy --model llama-3.1-70b --rate 50 --prompt 2000 --answer 500 --ttft 1s
      costmodel buy --model llama-3.1-70b --day 5,20,50,20 --prompt 2000 --answer 500 --gpu h100,b200 --api 3,15
      costmodel buy --model llama-3-70b --sequence 8192 --batch 4Mi-tokens --tokens 2T --deadline 60d --gpu h200
      costmodel buy --model llama-3-8b --tokens 15T --budget 500k --node neocloud-h100
      costmodel buy --budget 2M --node neocloud-h100
      costmodel buy --model llama-3-70b --batch 16Mi-tokens --tokens 15T --power 10MW --node neocloud-h100
      costmodel buy serve-llama-3.1-70b --with quickstart --node neocloud-h100
      costmodel buy serve-llama-3.1-70b quickstart --node dgx-h100 --gpus 64

    Layouts meet every limit with a chance of 90 %; --safe sets another. Training and RL take the fewest GPUs that
    finish before --deadline, or the most that --budget pays for; a budget alone is for the compute-optimal model,
    within 60 days. Exit code 1 when no machine meets all limits.

    Next: costmodel buy … -o page.html
    """
    from costmodel.documents.reader.dense_models import dense_model
    from costmodel.documents.reader.load_scenario import load_any
    from costmodel.documents.reader.serving_scenario import serving
    from costmodel.documents.schemas.default_values import SAFE
    from costmodel.explore.purchase.buy import MOST
    from costmodel.explore.purchase.buy_choices import with_choices
    from costmodel.explore.purchase.buy_day import day_of_traffic, with_daily_average_cost
    from costmodel.explore.purchase.offers import hourly_rates, offers_for
    from costmodel.explore.purchase.several_jobs import machines_for_several_jobs
    from costmodel.explore.search.required_chance import preferring
    from costmodel.report.answers import buy_several_jobs as of_fleet
    from costmodel.report.answers.buy import buy_document
    from costmodel.report.answers.buy_fields import buy_json

    rates = hourly_rates(day) if day else []
    question = _at_highest_rate(question, rates)
    sized = _asks_for_model_size(question)
    if power and not sized:
        _check_job_is_named(question)
    case = _training_case(question, dense_model(1e9)) if sized else question.varied(_VARIED)
    named_machines = _names_in(gpu), _names_in(node)
    offers = offers_for(*named_machines, prices, case, only=only_prices, api=_token_prices(api), years=years)
    named = (*(others or ()), *(jobs or ()))
    further = [preferring(load_any(name), SAFE) for name in named]
    if further and (rates or plot):
        words = f"{'--day' if rates else '--plot'} is of one job, and {len(further) + 1} are named"
        raise fail("C004", words, None, "leave it or the others out")
    room = float(gpus or MOST)
    found, *more = _answers_for_jobs(None if sized else case, further, offers, (room, _parsed_watts(power)), question)
    again = _same_command(question, case, named, gpu=gpu, node=node, gpus=gpus, day=day, cold_start=cold_start,
                          power=power, prices=prices, api=api, only_prices=only_prices, years=years)  # fmt: skip
    if more:
        whole = machines_for_several_jobs([found, *more], room, _parsed_watts(power))
        made, plain = lambda: of_fleet.fleet_document(whole, top, again), lambda: of_fleet.fleet_json(whole)
        return document_reply(made, plain, "machines", yes=whole.best is not None, stopped=found.stopped, found=whole)
    found = with_choices(with_daily_average_cost(found, rates) if rates else found)
    hours = day_of_traffic(found, rates, _start_time(cold_start, serving(case))) if rates else None
    made, plain = lambda: buy_document(found, top, plot=plot, day=hours, again=again), lambda: buy_json(found, hours)
    return document_reply(made, plain, "machines", yes=bool(found.working), stopped=found.stopped, found=found)


def _at_highest_rate(question: Question, rates: Sequence[float]) -> Question:
    """The question at the highest rate of a day; unchanged without a day."""
    if not rates:
        return question
    if question.flags["rate"] is not None:
        raise fail("C004", "--day states the rates, and --rate another", None, "leave one of the two out")
    return replace(question, flags={**question.flags, "rate": f"{max(rates):g}"})


def _answers_for_jobs(
    case: LoadedScenario | None,
    further: Sequence[LoadedScenario],
    offers: Offers,
    most: tuple[float, float],
    question: Question,
) -> list[PurchaseComparison]:
    """The result for each job, each on the whole machine if there are several.

    case: the first job; None if a budget determines its model. most: accelerators and watts
    """
    from costmodel.commands.progress import watch_until_interrupt
    from costmodel.explore.purchase.buy import MOST, buy
    from costmodel.explore.workloads import workload_of

    with watch_until_interrupt("offers") as pace:

        def answer(case: LoadedScenario, offers: Offers) -> PurchaseComparison:
            """The result for one job on these offers."""
            return buy(workload_of(case), offers, MOST if further else most[0], pace, most[1])

        if case is not None and not _asks_for_highest_rate(question, case):
            first = answer(case, offers)
        else:
            first = (_answer_for_optimal_model if case is None else _answer_for_highest_rate)(question, answer, offers)
        return [first, *(answer(each, offers) for each in further)]


_VARIED = {"cluster.node": "--gpu", "cluster.nodes": "the answer"}
_OPEN = ("budget", "deadline", "sequence", "batch", "dtype", "stack", "price", "safe")  # flags that leave a model open


def _asks_for_model_size(question: Question) -> bool:
    """Whether flags state a training budget but neither model nor tokens."""
    stated = {name for name, value in question.flags.items() if value is not None}
    return question.scenario is None and "budget" in stated <= {*_OPEN} and not _names_a_model(question)


def _check_job_is_named(question: Question) -> None:
    """Raises a fault if site power is all that is stated."""
    if question.scenario is None and not _names_a_model(question):
        hint = "add the job, for example --model llama-3-70b --batch 16Mi-tokens --tokens 15T"
        raise fail("C004", "--power is what a site supplies to a job, and no job is named", None, hint)


def _names_a_model(question: Question) -> bool:
    return question.flags["model"] is not None or any(item.startswith("model") for item in question.assignments)


def _answer_for_optimal_model(
    question: Question, answer: Callable[..., PurchaseComparison], offers: Offers
) -> PurchaseComparison:
    """The result for the model size and token count that a training budget fits best on any machine.

    Sizes after the first are tried on the cheapest machines of the first.
    """
    from costmodel.documents.keys.paths import at
    from costmodel.documents.reader.dense_models import dense_model
    from costmodel.explore.flag_defaults import largest_affordable

    nodes = set[str]()

    def cost(model: DenseModel) -> float:
        """The smallest cost of training a model of this size [USD]."""
        few = tuple(each for each in offers.machines if not nodes or each.node in nodes)
        found = answer(_training_case(question, model, budget=None), replace(offers, machines=few))
        nodes.update(row.machine.node for row in (*found.working[:_CHEAPEST], found.best) if row is not None)
        trial = None if found.best is None else found.best.trial
        return math.inf if trial is None else trial.costs["run_cost_high"]

    budget = float(at(_training_case(question, dense_model(1e9)).scenario.limits, "run_cost.at_most"))
    model, late = largest_affordable(budget, cost)
    return replace(answer(_training_case(question, model), offers), late=late)


_CHEAPEST = 4  # offers


def _asks_for_highest_rate(question: Question, case: LoadedScenario) -> bool:
    """Whether a service has a budget and no load."""
    assumed = {item.path for item in case.asked.assumed}
    return question.flags["budget"] is not None and "workload.concurrency" in assumed


def _answer_for_highest_rate(
    question: Question, answer: Callable[..., PurchaseComparison], offers: Offers
) -> PurchaseComparison:
    """The result for the highest request rate that a month's budget pays for; see `_answer_for_optimal_model`."""
    from costmodel.documents.schemas.default_values import Assumption
    from costmodel.explore.flag_defaults import highest_affordable
    from costmodel.explore.purchase.buy import RENT

    nodes = set[str]()

    def at_rate(rate: float, **flags: str | None) -> LoadedScenario:
        """The service at a rate."""
        return replace(question, flags={**question.flags, "rate": f"{rate:g}", **flags}).varied(_VARIED)

    def cost(rate: float) -> float:
        """The smallest bill of a month [USD]."""
        few = tuple(each for each in offers.machines if not nodes or each.node in nodes)
        found = answer(at_rate(rate, budget=None), replace(offers, machines=few))
        nodes.update(row.machine.node for row in (*found.alike[:_CHEAPEST], found.best) if row is not None)
        return found.billed if found.best is not None else math.inf

    rate = highest_affordable(float(getattr(at_rate(1.0).scenario.limits, RENT).at_most), cost)
    case = at_rate(rate)
    rated = Assumption("workload.rate", f"{rate:g} /s", "the highest that the budget pays for; --rate sets it")
    return answer(replace(case, asked=replace(case.asked, assumed=(rated, *case.asked.assumed))), offers)


def _training_case(question: Question, model: DenseModel, **flags: str | None) -> LoadedScenario:
    """The training of a dense model, with default values where no flag states one."""
    from costmodel.documents.schemas.default_values import Assumption
    from costmodel.explore.flag_defaults import OPTIMAL_DEADLINE, TOKENS_PER_PARAMETER, training_flags

    usual = {"deadline": OPTIMAL_DEADLINE, **training_flags(model)}
    left = {name: text for name, text in usual.items() if question.flags[name] is None}
    case = replace(question, flags={**question.flags, **left, **flags}).varied(_VARIED)
    why = {
        "model": "compute-optimal for the budget, in the proportions of Llama 3",
        "tokens": f"{TOKENS_PER_PARAMETER:g} for each parameter, hoffmann-2022",
        "batch": "DeepSeek's law, far beyond the work it was fitted on, rounded down to a power of two",
        "deadline": "the default",
    }
    setting = {"tokens": "--model with --tokens sets both"}
    assumed = [
        Assumption(name, text, f"{why[name]}; {setting.get(name, f'--{name} sets it')}") for name, text in left.items()
    ]
    return replace(case, asked=replace(case.asked, assumed=(*assumed, *case.asked.assumed)))


def _start_time(text: str, case: ServingCase) -> float | None:
    """Seconds to start a replica, as stated or from the scenario; None if neither states them."""
    growth = case.scenario.assume.growth
    return _parsed_quantity(text, "s", "--cold-start 5min") if text else None if growth is None else float(growth.start)


def _parsed_watts(text: str) -> float:
    """A power [W]; infinite if none is stated."""
    watts = _parsed_quantity(text, "J/s", "--power 10MW") if text else float("inf")
    if watts <= 0:
        raise fail("D008", "the power of a site is above 0", Place("command line"), "for example --power 10MW")
    return watts


def _parsed_quantity(text: str, unit: str, example: str) -> float:
    """The value of an option in its base unit."""
    try:
        return parse(text, unit)
    except UnitError as error:
        raise fail("D007", str(error), Place("command line"), f"for example {example}") from None


def _same_command(question: Question, case: LoadedScenario, jobs: Sequence[str], **given: str | float | None) -> str:
    """The command line that asks the same question again.

    jobs: further ones. given: options of this command
    """
    from costmodel.report.terminal.head import command

    flags = zip(case.asked.words[::2], case.asked.words[1::2], strict=True)
    typed = {f"--{name}" for name, value in question.flags.items() if value is not None}
    left = typed - {"--rate"} if given["day"] else typed
    words = tuple(word for pair in flags if pair[0] in left for word in pair)
    options = [word for name in jobs for word in ("--with", name)]
    for name, value in given.items():
        if not value:
            continue
        text = f"{value:g}" if isinstance(value, float) else str(value)
        options += [f"--{name.replace('_', '-')}", *([] if value is True else [text])]
    return command(replace(case, asked=replace(case.asked, words=words)), "buy", *options)


def _token_prices(text: str) -> tuple[float, ...]:
    """USD per million tokens of prompts and of answers; empty if none are stated."""
    try:
        found = tuple(float(part) for part in text.split(",")) if text else ()
    except ValueError:
        found = (-1.0,)
    if len(found) > 2 or any(not 0 <= price < float("inf") for price in found):
        words = "--api takes one price or two of at least 0"
        raise fail("D008", words, Place("command line"), "for example --api 3,15")
    return found


def _names_in(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
