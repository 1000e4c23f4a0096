"""Lines at the head of an answer: model, machine, price, assumptions, remarks; and commands that answers print."""

from __future__ import annotations

import itertools
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.text import Text

from costmodel.documents.keys.overrides import full, path_of
from costmodel.documents.reader.hub_names import is_other_name, is_own_name, name_words, types_by_name
from costmodel.documents.reader.resolved_scenario import ForeignPrice
from costmodel.documents.schemas.base import FromTokens
from costmodel.estimate.answer_facts import (
    NamedDocument,
    Subject,
    facts_of,
    row_facts,
    subject_of,
    varies,
    without_point,
)
from costmodel.estimate.shared.reasons import REMARKS
from costmodel.explore.workload_flags import keys_of
from costmodel.ground.counts import number_of
from costmodel.ground.errors import COMMAND_LINE
from costmodel.ground.units import counted, percent, rounded_dollars, significant
from costmodel.report.terminal.layout import DIM, HEAD, WARN, Abridged, CellTable, Line, cut_list, short_or_full, styled

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from costmodel.documents.reader.foreign_readers import Foreign
    from costmodel.documents.reader.resolved_scenario import LoadedScenario, ResolvedScenario
    from costmodel.documents.schemas.default_values import Assumption, FlagQuestion
    from costmodel.documents.schemas.hardware import ListPrice, Ownership
    from costmodel.estimate.machine.price import AcceleratorPrice


_HOURLY = "cluster.node.price.hourly"  # set alone, the date and the source are those of another price
_PRICED_BY = ("cluster.node", "cluster.node.accelerator", "cluster.node.accelerators", _HOURLY)
_HOUR = 3600.0
JOB = "workload.kind"
_SHOWN = 8  # prices of one answer


def head_lines(facts: Subject, varied: Collection[str] = (), *, priced: bool = False) -> list[Text]:
    """The model and the machine; for training also batch, precision, optimizer and software; with `priced` the price.

    facts: what was computed. varied: paths that change from row to row of the answer, which the head leaves out.
    priced: whether the answer shows a cost

    Args:
        facts: what was computed
        varied: paths that change from row to row of the answer, which the head leaves out
        priced: whether the answer shows a cost
    """
    subject, settings = subject_words(facts, varied), [*_training_settings(facts, varied)]
    lines = [*([styled(subject, HEAD)] if subject else []), *([styled(" · ".join(settings))] if settings else [])]
    return [*lines, *price_lines(facts.price)] if priced and not price_varies(varied) else lines


def subject_words(facts: Subject, varied: Collection[str] = ()) -> str:
    """The model and the machine, without what varies."""
    return " on ".join(filter(None, (_model_words(facts, varied), _machine_words(facts, varied))))


def own_files_lines(case: LoadedScenario) -> list[Text]:
    """A line on the user's own files that the answer uses."""
    return [styled(f"with your own {', '.join(case.own)}", WARN)] if case.own else []


def scenario_head(case: ResolvedScenario) -> list[Text]:
    """The head of an answer: an assumed job first, then the scenario and the files it uses."""
    stated = [*head_lines(facts_of(case)), *rounded_batch_warning(case), *origin_lines(case)]
    return [*job_lines(case.asked.assumed), *stated]


def rounded_batch_warning(case: ResolvedScenario, varied: Collection[str] = ()) -> list[Text]:
    """A warning if a batch written in tokens is not a whole number of sequences."""
    batch = case.scenario.workload.global_batch
    if not isinstance(batch, FromTokens) or varies("workload", varied) or batch.tokens == batch * batch.sequence:
        return []
    exact = significant(batch.tokens / batch.sequence, 5)
    of = f"{counted(batch.tokens)} tokens are {exact} sequences of {counted(batch.sequence)}"
    return [styled(f"{of}: the batch is {counted(batch)}", WARN)]


def origin_lines(case: LoadedScenario) -> list[Text]:
    """Lines on the user's files, imported files, model names, replaced flags, and defaults."""
    return [
        *own_files_lines(case),
        *imported_files_lines(case.foreign),
        *model_name_lines(case.hub),
        *flag_lines(case.asked),
    ]


_NODE = "cluster.node"
_BY_EFFECT = ("stack", "workload.concurrency", "workload.global_batch", "workload.precision", "objective",
              "workload.response.mean", "workload.output", "workload.prompt", "workload.sequence")  # fmt: skip


def flag_lines(asked: FlagQuestion) -> Iterator[Text]:
    """Lines on what flags replace and on defaults; the default job is in `job_lines`."""
    yield from (styled(remark, WARN) for remark in asked.remarks)
    assumed = sorted((item for item in asked.assumed if item.path != JOB), key=_importance)
    short = [cut_list("assumed: ", [*map(_short_assumption, assumed)], " · ") if assumed else "", *[""] * len(assumed)]
    for item, words in zip(assumed, short, strict=False):
        yield Abridged(_assumption_words(item), DIM, short=words, added="why each default")


def _importance(item: Assumption) -> int:
    """The order of an assumption: first those that change answers most, last the node, which titles name."""
    others = len(_BY_EFFECT) + (item.path == _NODE)
    return _BY_EFFECT.index(item.path) if item.path in _BY_EFFECT else others


def job_lines(assumed: Iterable[Assumption]) -> Iterator[Text]:
    """The assumed job, with the flag for another job: the first line of an answer."""
    yield from (styled(_assumption_words(item), WARN) for item in assumed_job(assumed))


def assumed_job(assumed: Iterable[Assumption]) -> Iterator[Assumption]:
    """The assumption about the job as a list; empty if the scenario states the job."""
    yield from (item for item in assumed if item.path == JOB)


def _assumption_words(item: Assumption) -> str:
    return f"assumed {item.path} {item.value}: {item.origin}"


def _short_assumption(item: Assumption) -> str:
    """A default in few words, with the flag that changes it."""
    flag = re.search(r"--(?!set)[a-z-]+|--set \S+", item.origin)
    return f"{item.path.rpartition('.')[2]} {item.short or item.value}{f' ({flag[0]})' if flag else ''}"


def imported_files_lines(files: Mapping[str, Foreign]) -> list[Text]:
    """Imported files, and the options that the costmodel document does not state."""
    lines: list[Text] = []
    for file, foreign in files.items():
        lines.append(styled(f"{foreign.holds} read from {file}: {foreign.format}"))
        lines += [styled(f"  {remark}", WARN) for remark in foreign.remarks]
    return lines


def model_name_lines(hub: Mapping[str, str]) -> list[Text]:
    """Lines on other names for shipped models, and on the weight types that those names state."""
    taken = {name: shape for name, shape in hub.items() if types_by_name(name, shape) or not is_own_name(name, shape)}
    said = [(name, shape) for name, shape in taken.items() if not is_other_name(name, shape)]  # else in the title
    return [styled(f"model {shape}: {name_words(name, shape)}") for name, shape in said]


def case_title(case: LoadedScenario) -> str:
    """The title of the scenario; its model and machine if keys were changed."""
    changed = {*map(path_of, case.changes)}
    return case.title if not changed or "title" in changed else subject_words(subject_of(case))


def machine_words(case: ResolvedScenario) -> str:
    """The numbers and names of the accelerators and nodes of a scenario, in words."""
    return _machine_words(facts_of(case), ())


def _document_name(named: NamedDocument, words: str = "") -> str:
    """A document by its name or other words."""
    return f"{words or named.name}{' (changed)' if named.changed else ''}"


def _model_words(facts: Subject, varied: Collection[str]) -> str:
    """The model in words; empty if it varies."""
    return "" if varies("model", varied) else _document_name(facts.model, facts.model.title)


def _machine_words(facts: Subject, varied: Collection[str]) -> str:
    """The numbers and names of accelerators and nodes in words, without what varies."""
    nodes = "" if varies("cluster.nodes", varied) else counted(facts.nodes)
    if facts.groups:
        kinds = " + ".join(f"{counted(count)} × {name}" for count, name in facts.groups)
        return f"{counted(facts.ranks)} accelerators, {kinds}"
    if varies("cluster.node", varied):
        if facts.asked:
            return number_of(facts.asked, "GPU")
        return nodes and f"{nodes} node{'' if facts.nodes == 1 else 's'}"
    partly = varies("cluster.node.accelerators", varied)
    ranks = "" if partly or not nodes else counted(facts.ranks)
    part = "accelerators" if varies("cluster.node.accelerator", varied) else _document_name(facts.accelerator)
    used = "" if partly or facts.accelerators == facts.built else f" ({_used_accelerators(facts)})"
    return f"{_count_times(ranks, part)}, {_count_times(nodes, _document_name(facts.node))}{used}"


def _count_times(count: str, words: str) -> str:
    return f"{count} × {words}" if count else words


def _used_accelerators(facts: Subject) -> str:
    """How many accelerators of each node the job uses, in words; empty if it uses all."""
    each = counted(facts.accelerators)
    return f"{each} of {counted(facts.built)} in use" if facts.accelerators < facts.built else f"{each} in each"


def _training_settings(facts: Subject, varied: Collection[str]) -> Iterator[str]:
    """Batch, precision, optimizer, tuning and software of a training in words, without what varies."""
    if not facts.sizes:
        return
    batch, sequence = (
        "…" if any(varies(path, varied) for path in paths) else counted(size)
        for size, paths in (facts.sizes["global_batch"], facts.sizes["sequence"])
    )
    yield f"batch {batch} × {sequence} tokens"
    for path, chosen in (*facts.choices.values(), ("stack", facts.stack)):
        words = chosen if isinstance(chosen, str) else _document_name(chosen)
        if words and not varies(path, varied):
            yield words


# ── price ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def price_varies(varied: Collection[str]) -> bool:
    """Whether a varied key can change the price."""
    return any(varies(path, varied) for path in ("assume.price", *_PRICED_BY))


def price_lines(price: AcceleratorPrice, indent: str = "", *, shown: bool = True) -> list[Text]:
    """Lines with the price behind the costs, its origin, and prices that were left out.

    shown: whether a short answer has a price that the user stated
    """
    found = [styled(f"{indent}{words}", style) for words, style in _price_and_source(price)]
    if price.known and price.assumed and price.listed is not None:
        short = f"{indent}at {hourly_price(price)} (assumed: {price.node}, {price.listed.sold}; --price sets another)"
        found[0] = Abridged(found[0].plain, short=short, added="origin of the price")
    elif price.known and not price.assumed and not shown:
        found[0] = Abridged(found[0].plain, short="", added="the price")
    return found


def _price_and_source(price: AcceleratorPrice) -> Iterator[tuple[str, str]]:
    yield price_words(price), ""
    yield from ((left_out_words(left), WARN) for left in price.foreign)


def left_out_words(left: ForeignPrice) -> str:
    """A price that was stated for another machine, in words."""
    return f"your price, {left.text}, is for {left.of} only"


def price_lines_of_all(found: Iterable[AcceleratorPrice]) -> list[Text]:
    """Lines with every distinct price of an answer whose rows differ in price, and the nodes it applies to."""
    nodes: dict[tuple[str, str], dict[str, None]] = {}
    priced = list(found)
    for price in priced:
        for line in _price_and_source(price):
            nodes.setdefault(line, {})[price.job or price.node] = None
    several = len({price.job or price.node for price in priced}) > 1
    lines = [(_price_of_nodes(words, of, style) if several else words, style) for (words, style), of in nodes.items()]
    shown = lines[:_SHOWN]
    more = [("and more: --json has the price of each row", DIM)] if len(lines) > len(shown) else []
    short = {WARN: "  {}", DIM: "", "": ""}  # a price that is left out is part of a short answer
    return [
        Abridged(f"  {words}", style, short=short[style].format(words), added="origin of prices")
        for words, style in (*shown, *more)
    ]


def _price_of_nodes(words: str, nodes: Iterable[str], style: str) -> str:
    """A price with the nodes it applies to; a line that no price is known already names its nodes."""
    named = ", ".join(nodes)
    if style == WARN:
        return f"{words} for {named}"
    return f"{named}: {words}" if words.startswith("at ") else words


def price_words(price: AcceleratorPrice) -> str:
    """A price in one line of words."""
    if not price.known:
        return _unknown_price_words(price)
    assumed = f"assumed: {price_source(price)}{other_prices_words(price)}; --price sets another"
    return f"at {hourly_price(price)} ({assumed if price.assumed else price_source(price)})"


def other_prices_words(price: AcceleratorPrice) -> str:
    """The range of prices of other offers for the same accelerator."""
    if price.others is None:
        return ""
    low, high = (f"{other * _HOUR:,.2f}" for other in price.others)
    return f"; others {low}" if low == high else f"; others {low} to {high}"


def _unknown_price_words(price: AcceleratorPrice) -> str:
    return f"no price known for {price.node}; --price 2.50USD/GPU/h sets one"


def hourly_price(price: AcceleratorPrice) -> str:
    """The rent of an accelerator in use."""
    dollars = price.each * _HOUR
    return f"{f'{dollars:,.2f}' if dollars >= 1 else significant(dollars)} USD/GPU/h" if price.known else "unknown"


def price_source(price: AcceleratorPrice) -> str:
    """The origin of a price in words: the node's list of prices, the scenario or the command line."""
    place, listed = price.place, price.listed
    if price.stated:
        return price.stated
    if place is not None and place.file == COMMAND_LINE and (listed is None or _HOURLY in place.text):
        return place.text.partition(" ")[0] or "--set"
    if listed is None:
        return "assume.price of the scenario"
    where = f" in {listed.region}" if listed.region else ""
    known = ", unverified" if listed.check == "known" else ""
    part = "" if listed.per == "accelerator" or price.accelerators == price.built else _whole_price(price)
    return f"{price.node}, {_offer_words(price, listed)}{where}, {listed.date}, {listed.source}{known}{part}"


def _offer_words(price: AcceleratorPrice, listed: ListPrice) -> str:
    """How the node is sold; for a purchase, its capital, or the job's if the number of nodes is known."""
    if listed.bought is None:
        return listed.sold if listed.term is None else f"{listed.sold} for {term_words(listed.term)}"
    one, nodes = listed.bought.capital, price.nodes
    capital = f"{rounded_dollars(one)} a node" if nodes is None else rounded_dollars(nodes * one)
    return f"bought for {capital}, {write_off_words(listed.bought)}"


def write_off_words(bought: Ownership) -> str:
    """The years over which a purchase is used, and the share for which it is sold then, in words."""
    sold = f", then sold for {rounded_dollars(bought.resale)} a node" if bought.resale else ""
    idle = f", {percent(1 - bought.utilisation, 2)} of them idle and paid for" if bought.utilisation < 1 else ""
    return f"used for {term_words(bought.life)}{idle}{sold}"


def term_words(time: float) -> str:
    """A term of years, or of months below a year.

    >>> term_words(5 * 365 * 86400), term_words(365 * 86400), term_words(30 * 86400)
    ('5 years', '1 year', '1 month')
    """
    count, kind = time / (365 * 86400), "year"
    if count < 1:
        count, kind = round(12 * count), "month"
    return f"{count:.3g} {kind}{'' if count == 1 else 's'}"


def _whole_price(price: AcceleratorPrice) -> str:
    return f"; the whole node for {counted(price.accelerators)} of {counted(price.built)}"


# ── machine output ───────────────────────────────────────────────────────────────────────────────────────────────────


def fact_fields(facts: Subject, varied: Collection[str] = ()) -> dict[str, Any]:
    """The facts at the head of an answer as plain values; null for what varies between rows."""
    found: dict[str, tuple[str, Any]] = {
        "accelerator": ("cluster.node.accelerator", facts.accelerator.name),
        "accelerators": ("cluster.node.accelerators", without_point(facts.accelerators)),
        "stack": ("stack", facts.stack.name),
        **{name: (path, _name_or_word(value)) for name, (path, value) in facts.choices.items()},
    }
    price = price_fields(facts.price)
    return {
        **row_facts(facts, varied),
        **{name: None if varies(path, varied) else value for name, (path, value) in found.items()},
        "changed": [kind for kind in _DOCUMENTS if hasattr(facts, kind) and getattr(facts, kind).changed],
        **(dict.fromkeys(price) if price_varies(varied) else price),
    }


def with_facts(facts: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows with identifying facts before their results."""
    return [{**facts, **row} for row in rows]


def _name_or_word(chosen: NamedDocument | str) -> str | None:
    """The name of a document, or the chosen word; None if it is empty."""
    return (chosen if isinstance(chosen, str) else chosen.name) or None


_DOCUMENTS = ("model", "accelerator", "node", "optimizer", "stack")


def price_fields(price: AcceleratorPrice) -> dict[str, Any]:
    """A price as plain values in USD: per accelerator in use, with its origin and date."""
    listed = price.listed
    return {
        "price_usd_per_gpu_h": price.each * _HOUR if price.known else None,
        "price_source": price_source(price) if price.known else None,
        "price_date": None if listed is None else listed.date,
        "price_assumed": price.assumed,
        "price_others_usd_per_gpu_h": None if price.others is None else [other * _HOUR for other in price.others],
    }


# The next command to type: a line of the shell.

_SIZE = ("cluster.nodes", "cluster.node.accelerators")
_MACHINE = {"--gpu", "--node"}


def command(
    case: LoadedScenario, verb: str, *words: str, settings: Mapping[str, str] | None = None, free: bool = False
) -> str:
    """A command of costmodel for this scenario, as text.

    settings: for --set; later ones replace earlier ones of the same path. free: a search that fixes no key of the plan
    """
    named, options = scenario_arguments(case, verb, settings or {}, free=free)
    for at in reversed(range(len(named))):
        if named[at].startswith("--") and named[at] in words:  # the command has this flag's option with other values
            del named[at : at + 2]
    return shlex.join(["costmodel", verb, *named, *words, *options])


def scenario_arguments(
    case: LoadedScenario, verb: str, settings: Mapping[str, str], *, free: bool = False
) -> tuple[list[str], list[str]]:
    """The words of a command that name the scenario, and the --set options that change it."""
    asked, settings = _flags_for_settings(case, settings)
    ahead = [(full(item.partition("=")[0].strip()), item) for item in case.assignments]
    dropped = {*(["plan"] if free else []), *([] if verb == "search" else ["search"])}
    kept = [item for path, item in ahead if path not in settings and path.split(".")[0] not in dropped]
    changed = [*kept, *(f"{path}={value}" for path, value in settings.items())]
    options = [part for item in changed for part in ("--set", item)]
    named = [name for name in (case.name, *asked) if name] or ["SCENARIO"]
    return named, options


def setting_options(case: LoadedScenario, settings: Iterable[str]) -> str:
    """The options that make these settings: flags with other values where flags set these keys, else --set."""
    stated = dict(setting.split("=", 1) for setting in settings)
    asked, rest = _flags_for_settings(case, stated)
    before = _flags_with_values(case.asked.words)
    flags = (
        word for flag, value in _flags_with_values(asked).items() if before.get(flag) != value for word in (flag, value)
    )
    return shlex.join([*flags, *(part for path, value in rest.items() for part in ("--set", f"{path}={value}"))])


def _flags_with_values(words: Sequence[str]) -> dict[str, str]:
    """Flags with their values."""
    return dict(zip(words[::2], words[1::2], strict=True))


def _flags_for_settings(case: LoadedScenario, settings: Mapping[str, str]) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """The flags, with other values where settings are of their keys, and the other settings."""
    if not case.asked.words:
        return (), settings
    flags, keys = _flags_with_values(case.asked.words), keys_of(case.kind)
    held = {full(item.partition("=")[0].strip()) for item in case.assignments}
    node = settings.get(_NODE, "") if _NODE not in held and _MACHINE & flags.keys() else ""
    made = _node_flags(node) if node else {}
    sizes = _size_flag(case, flags, settings, node) if held.isdisjoint(_SIZE) else {}
    done = {*([_NODE] if node else ()), *(_SIZE if sizes else ())}
    rest = {path: value for path, value in settings.items() if path not in done}
    flags = {flag: value for flag, value in flags.items() if not node or flag not in _MACHINE - made.keys()}
    for name, path in keys.items():
        if f"--{name}" in flags and path not in held and rest.get(path, "null") != "null":
            flags[f"--{name}"] = rest.pop(path)
    return tuple(word for pair in (flags | made | sizes).items() for word in pair), rest


def _node_flags(node: str) -> dict[str, str]:
    """The flags that name a node."""
    from costmodel.explore.default_node import flags_of_node

    return flags_of_node(node)


def _size_flag(
    case: LoadedScenario, flags: Mapping[str, str], settings: Mapping[str, str], node: str
) -> dict[str, str]:
    """The --gpus option for the size of the cluster, if --gpus set the size or its node was a default."""
    nodes, part = (settings.get(path, "") for path in _SIZE)
    assumed = any(item.path == _SIZE[0] for item in case.asked.assumed)
    sized = nodes if "--gpus" in flags else (node and not nodes and assumed)
    if not sized or not (nodes or "0").isdigit():
        return {}
    from costmodel.documents.reader.library import read

    named = node or settings.get(_NODE, "")
    each = read("node", named).accelerators if named else case.node.accelerators
    return {"--gpus": f"{float(nodes or case.scenario.cluster.nodes) * float(part or each):.0f}"}


# What an answer assumed, and what there is to remark on its plans.


def assumed_lines(assumed: Sequence[Assumption], *, shown: bool = True) -> list[Line]:
    """Lines with the values that the user did not state, and their origins.

    shown: whether a short answer has this line; without it, it has those with words for a short answer
    """
    if not assumed:
        return []
    brief = [item.short for item in assumed if item.short]
    brief += [f"{item.path} {item.value}" for item in assumed if shown and not item.short]
    rows = [("" if index else "assumed", item.path, item.value, item.origin) for index, item in enumerate(assumed)]
    whole = CellTable(("", "path", "value", "from"), rows, "llll", headed=False, style=DIM)
    line = [styled(cut_list("  assumed  ", brief, " · "), DIM)] if brief else []
    words = number_of(len(assumed), "assumption")
    return [Text(), *short_or_full(line, [whole], words)]


def assumed_lines_of_all(answers: Iterable[Sequence[Assumption]]) -> list[Line]:
    """The assumptions of answers at several sizes: each key once, with its values."""
    found: dict[str, list[Assumption]] = {}
    for item in itertools.chain.from_iterable(answers):
        found.setdefault(item.path, []).append(item)
    values = {path: _values_by_size([item.value for item in items]) for path, items in found.items()}
    whole = [replace(items[0], value=values[path]) for path, items in found.items()]
    return assumed_lines(whole, shown=False)


def _values_by_size(values: Sequence[str]) -> str:
    """Values from size to size; of more than three the first and the last."""
    distinct = list(dict.fromkeys(values))
    return ", ".join(distinct) if len(distinct) <= 3 else f"{distinct[0]} … {distinct[-1]}"


def remarks_of_plans(
    plans: Sequence[Sequence[str]], costs: Sequence[Mapping[str, float]] = (), nodes: Sequence[str] = ()
) -> list[Line]:
    """Every remark on the plans once, with the number of plans if not all have it.

    costs: results of the plans, for a remark on the order of uncalibrated accelerators. nodes: the node of each plan
    """
    counted = remark_counts(plans, nodes)
    few = [f"{code} {REMARKS[code].title}{_count_words(some)}" for code, some in counted.items()]
    short = [cut_list("  ▲ ", few, " · ") if few else "", *[""] * len(few)]
    lines: list[Line] = [
        Abridged(
            f"  ▲ {code} {REMARKS[code].title}{some}: {REMARKS[code].meaning}",
            WARN,
            short=words,
            added="what ▲ means",
        )
        for (code, some), words in zip(counted.items(), short, strict=False)
    ]
    if 0 < sum("N005" in codes for codes in plans) < len(plans):
        lines.append(
            Abridged(f"  ▲ N005 ranking: {_uncertain_order(plans, costs)}", WARN, short="", added="what ▲ means")
        )
    return lines


def _count_words(some: str) -> str:
    """On how many plans a remark is, without their machines."""
    return f" ({some.strip(' ()').partition(':')[0]})" if " of " in some else ""


def remark_counts(plans: Sequence[Sequence[str]], nodes: Sequence[str] = ()) -> dict[str, str]:
    """For each code of a remark, on how many plans it is if not on all, and on which machines, in words.

    nodes: the node of each plan
    """
    found = dict[str, str]()
    for code, count in Counter(code for codes in plans for code in codes).items():
        words = [f"{count:,} of {len(plans):,}"] if count < len(plans) else []
        if nodes and (code == "N005" or (words and code in _OF_MACHINES)):
            named = (node for codes, node in zip(plans, nodes, strict=True) if code in codes)
            words.append(", ".join(dict.fromkeys(named)))
        found[code] = f" ({': '.join(words)})" if words else ""
    return found


_OF_MACHINES = ("N002", "N005", "N040", "N056")  # remarks on an accelerator, or on its software


def _uncertain_order(plans: Sequence[Sequence[str]], costs: Sequence[Mapping[str, float]]) -> str:
    """A sentence on whether the order of calibrated and uncalibrated accelerators is certain."""
    who = "one GPU or more is not calibrated"
    bands = [(found.get("step_time_low"), found.get("step_time_high")) for found in costs]
    if len(bands) != len(plans) or any(None in band for band in bands):
        return f"this order is sure only where ranges do not overlap: {who}"
    sides: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for codes, (low, high) in zip(plans, bands, strict=True):
        sides["N005" in codes].append((low or 0.0, high or 0.0))
    overlap = sum(low <= top and bottom <= high for low, high in sides[True] for bottom, top in sides[False])
    pairs = len(sides[True]) * len(sides[False])
    if not overlap:
        return f"this order is certain: no ranges of step time overlap, though {who}"
    some = "all" if overlap == pairs else f"{overlap:,} of {pairs:,}"
    return f"this order is uncertain: {some} pairs of step times overlap, because {who}"
