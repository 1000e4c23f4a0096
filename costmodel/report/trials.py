"""Trials in words and as plain values: their settings, results, reasons against them, and remarks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from costmodel.documents.schemas.default_values import SAFE
from costmodel.documents.schemas.limits import Bound
from costmodel.documents.schemas.results import (
    BANDS_BESIDE,
    COLUMNS,
    HEADS,
    OF_WHOLE_RUN,
    is_money,
    is_of_run,
    machine_name,
)
from costmodel.estimate.answer_facts import row_facts
from costmodel.explore.plan_choice_text import CHOICES
from costmodel.explore.workload_interface import Trial, Workload
from costmodel.ground.counts import HEADS as COLUMN_HEADS
from costmodel.ground.counts import SIZES
from costmodel.ground.units import chance_words, significant
from costmodel.report.data_formats.answer_fields import conflict_fields, finite, remark_fields
from costmodel.report.document import Cell, Column, Draw, Value, Verdict, chance_verdict
from costmodel.report.terminal.formatting import ENDS, readable
from costmodel.report.terminal.head import command, price_fields, remark_counts, remarks_of_plans
from costmodel.report.terminal.layout import BAD, DIM, Line, shell_line, styled
from costmodel.report.workload_words import words_of

# --- trials in words and as plain values


NARROW = ("nodes", "ttft p99 P90", "P90")  # columns that a narrow terminal has no room for
_NO_EFFECT = "N051"  # of a key, which may have one at other values of another
_SPOKEN = {
    "cluster.node.scale_out.fabric.bandwidth": "network bandwidth",
    "cluster.node.scale_up.fabric.bandwidth": "scale-up bandwidth",
    "cluster.node.accelerator.memory.bandwidth": "memory bandwidth",
}
_SHORTER = {"cluster.node.": "", "accelerator.peak.": "peak "}


def short_path(path: str) -> str:
    """A path without what every path of hardware begins with."""
    if path in _SPOKEN:
        return _SPOKEN[path]
    for long, brief in _SHORTER.items():
        path = path.replace(long, brief)
    return path


def axis_label(value: float) -> str:
    """A value of a key on an axis."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= factor:
            return f"{significant(value / (1e3 if prefix == 'k' else factor))}{prefix}"
    return significant(value)


def with_bands(shown: Iterable[str]) -> list[str]:
    """Names of results, each followed by the end of its band that is shown with it, such as ttft_p99_high."""
    return list(dict.fromkeys(each for name in shown for each in (name, *BANDS_BESIDE.get(name, ()))))


def result_heads(workload: Workload, shown: Iterable[str]) -> list[str]:
    """The column heads of results, in the words of the workload."""
    own = words_of(workload.case.kind).heads
    return [own.get(name) or HEADS.get(name, name) for name in shown]


def result_columns(workload: Workload, shown: Sequence[str]) -> list[Column]:
    """The table columns for these results of trials."""
    return [
        Column(head, result=name, drop=2 + NARROW.index(head) if head in NARROW else 0)
        for head, name in zip(result_heads(workload, shown), shown, strict=True)
    ]


def result_cells(workload: Workload, trial: Trial, names: Sequence[str]) -> list[Cell]:
    """Cells with the results of a trial."""
    texts = ((name, result_words(workload, trial, name)) for name in names)
    return [
        Value(text, value, machine_name(name)) if math.isfinite(value := trial.costs.get(name, math.nan)) else text
        for name, text in texts
    ]


def trial_settings(trial: Trial, *, searched: bool) -> dict[str, str]:
    """The settings that turn the scenario into a trial; searched: with the best plan of its search."""
    plan = trial.kept.settings if searched and trial.kept is not None else {}
    return {**{path: value for path, _, value in (setting.partition("=") for setting in trial.settings)}, **plan}


def next_lines(workload: Workload, trial: Trial | None, *, searched: bool) -> list[Line]:
    """The command that answers one trial alone; nothing where no trial works.

    searched: a search at its values, which finds its plan and the number of replicas
    """
    if trial is None:
        return []
    settings = trial_settings(trial, searched=False)
    if not searched:
        return [shell_line("Next:", command(workload.case, "estimate", settings=settings))]
    settings.pop("plan.replicas", None)
    return [shell_line("Next:", command(workload.case, "search", settings=settings, free=True))]


def best_chance(workload: Workload, trials: Iterable[Trial]) -> Verdict:
    """The verdict on the chance of the surest trial."""
    chances = [trial.costs[workload.chance] for trial in trials if trial.works]
    return chance_verdict(max(chances)) if chances else "bad"


def remark_codes(trials: Iterable[Trial], *shown: str) -> list[str]:
    """The codes of remarks on trials that have results, except codes that their rows show.

    A key without effect is remarked on only if it has none in every trial.
    """
    answered = [trial for trial in trials if trial.costs]
    never_works = all(_NO_EFFECT in trial.remarked for trial in answered)
    omitted = {*shown} if never_works else {*shown, _NO_EFFECT}
    return list(dict.fromkeys(code for trial in answered for code in trial.remarked if code not in omitted))


def known_results(workload: Workload) -> list[str]:
    """All results that an answer can have; results of a run only if the scenario asks about one."""
    is_run = workload.case.run is not None
    return [name for name in workload.columns if is_run or name not in OF_WHOLE_RUN]


def result_words(workload: Workload, trial: Trial, name: str) -> str:
    """A result of one trial; a dash if it has none."""
    value = trial.costs.get(name, math.nan)
    if trial.kept is None or not trial.costs or (math.isnan(value) and trial.broken and _lacks_result(trial, name)):
        return "—"
    return trial.kept.texts.get(name) or words_of(workload.case.kind).result(name, value)


def _lacks_result(trial: Trial, name: str) -> bool:
    """Whether a failing plan lacks a result: a cost, a result of a run, or any result if it does not fit."""
    return "M001" in trial.broken or is_money(name) or is_of_run(name)


def trial_verdict(workload: Workload, trial: Trial) -> str:
    """The reasons against a trial, or how well it fits."""
    if trial.fault is not None:
        return f"{trial.fault.code} {trial.fault.with_near_word}"
    if trial.refused:
        first, *others = trial.refused
        return ", ".join((f"{first} {workload.reasons[first].title}", *others))
    if trial.kept is None:
        return f"✗ {' '.join(trial.broken)}"
    missed = [code for code in trial.broken if code != "M001"]
    parts = [trial.kept.verdict] if "M001" in trial.broken else []
    parts += [f"✗ {' '.join(missed)}{trial.kept.beside}"] if missed else []
    if parts:
        return ", ".join(parts)
    chance = trial.costs.get(workload.chance, math.nan)
    return f"at risk: {chance_words(chance)} {workload.chance_event}" if chance < SAFE else trial.kept.verdict


def missed_lines(workload: Workload, trials: Sequence[Trial]) -> list[Line]:
    """The meaning of each code for a missed limit, with the number of trials."""
    counts = Counter(code for trial in trials if not trial.refused for code in trial.broken if code != "M001")
    some = {code: f" ({count:,} of {len(trials):,})" if count < len(trials) else "" for code, count in counts.items()}
    return [styled(f"  ✗ {code} {workload.reasons[code].title}{words}", BAD) for code, words in some.items()]


def result_note_lines(trials: Sequence[Trial], shown: Iterable[str]) -> list[Line]:
    """Sentences about the results that are shown, each once."""
    wanted = {"", *shown}
    kept = (trial.kept for trial in trials if trial.kept is not None)
    texts = dict.fromkeys(words for each in kept for name, words in each.asides.items() if name in wanted)
    return [styled(f"  {words}", DIM) for words in texts]


def remark_lines(trials: Sequence[Trial], *shown: str) -> list[Line]:
    """Remarks on trials as lines, each with the number of trials."""
    return remarks_of_plans(*_trial_remarks(trials, *shown))


def trial_remark_counts(trials: Sequence[Trial], *shown: str) -> dict[str, str]:
    """The number of trials and the machines of each remark, by code."""
    each, _, nodes = _trial_remarks(trials, *shown)
    return remark_counts(each, nodes)


def _trial_remarks(
    trials: Sequence[Trial], *omitted: str
) -> tuple[list[list[str]], list[Mapping[str, float]], list[str]]:
    """Codes of remarks, results and node of each trial that has an answer."""
    answered, codes = [trial for trial in trials if trial.costs], remark_codes(trials, *omitted)
    each = [[code for code in trial.remarked if code in codes] for trial in answered]
    nodes = [trial.about.node.name for trial in answered if trial.about is not None]
    return each, [trial.costs for trial in answered], nodes


def trial_fields(workload: Workload, trial: Trial, names: Iterable[str], varied: Sequence[str] = ()) -> dict[str, Any]:
    """A trial as plain values: its settings, its results with bands, and whether it works."""
    about = row_facts(workload.facts, varied) if trial.about is None else row_facts(trial.about)
    ends = [each for name in names for each in (name, *(f"{name}_{end}" for end in ENDS)) if each in workload.columns]
    return {
        **about,
        "point": " ".join(trial.settings),
        **trial.values,
        **{
            machine_name(name): finite(trial.costs.get(name, math.nan))
            for name in dict.fromkeys((*ends, workload.chance))
        },
        "works": trial.works,
        "verdict": trial.verdict,
        "codes": list(trial.codes),
        "fault": trial.fault.sentence if trial.fault else None,
        "notes": list(trial.remarked),
        **({} if trial.about is None else price_fields(trial.about.price)),
    }


_PICTURED, _LONG = 5, 100  # plans whose time and money are drawn, and of a ranking in which they are
PICTURED = {"run_time": "How long it takes", "run_cost": "What it costs", "cost_per_moutput": "What tokens cost"}
Side = tuple[str, Callable[[str], float]]  # a name, and the results of what has it


def held_fields(
    workload: Workload, varied: Sequence[str], remarked: Iterable[Sequence[str]], *, best: bool
) -> dict[str, Any]:
    """Keys of the plan that a search fixes because --set gave them, and all remarks, as plain values.

    remarked: the codes of the remarks on each trial. best: whether each trial is the best of a search
    """
    held, conflicts = workload.fixed_plan_keys(varied) if best else ({}, ())
    return {"held": dict(held), "notes": [*conflict_fields(conflicts), *remark_fields(remarked)]}


def plan_sides(plans: Sequence[Any]) -> list[Side]:
    """The first plans of a ranking that break no limit, for figures of time and money.

    Empty for a long ranking, whose page is large enough without these figures.
    """
    shown = [] if len(plans) > _LONG else plans[:_PICTURED]
    return [(f"plan {place}", partial(_known_cost, plan)) for place, plan in enumerate(shown, 1) if not plan.broken]


def _known_cost(plan: Any, name: str) -> float:
    """A result of a plan; NaN if it is not known."""
    return float(plan.costs.get(name, math.nan))


def range_figures(kind: str, key: str, sides: Sequence[Side]) -> list[Callable[[], Draw]]:
    """Figures of time and money of plans or scenarios side by side, with bands, if all have both ends."""
    names = [name for name in PICTURED if all(math.isfinite(end) for _, of in sides for end in _band_ends(of, name))]
    return [partial(_draw_ranges, kind, f"{key}-{name}", name, sides) for name in names if sides]


def _band_ends(of: Callable[[str], float], name: str) -> tuple[float, float, float]:
    """A result with both ends of its band."""
    return of(name), of(f"{name}_low"), of(f"{name}_high")


def _draw_ranges(kind: str, key: str, name: str, sides: Sequence[Side]) -> Draw:
    """A bar for each plan or scenario up to P10, on to the prediction, and on to P90."""
    from costmodel.report.page.figures import BarRow, Bars, Piece
    from costmodel.report.page.plots import round_unit

    say, rows, most = partial(words_of(kind).result, name), [], 0.0
    legend = (("first", "up to P10"), ("second", "on to the prediction"), ("quiet", "on to P90"))
    for label, of in sides:
        value, low, high = _band_ends(of, name)
        text, most = f"{say(value)} ({say(low)} – {say(high)})", max(most, high)
        parts = zip(legend, (0.0, low, value), (low, value, high), strict=True)
        tip = f"{label}: {text}"
        pieces = [Piece(start, end, role, tip, part, end - start) for (role, part), start, end in parts]
        rows.append(BarRow(label, pieces, text))
    unit = round_unit(name, COLUMNS[kind][name].unit, most)
    return Bars(key, PICTURED[name], "With its band from P10 to P90.", rows, name, say, legend=legend, unit=unit)


# --- keys that vary over the scenarios of a search: their values in a line, and headings of their columns


_OTHERS = ("#", "zero", "sp", "recompute", "cost", "step", "P90", "tok/s/GPU", "MFU", "GiB", "fits")
_TAKEN = frozenset((*SIZES, *CHOICES, *COLUMN_HEADS.values(), *_OTHERS, *Bound.model_fields))


def values_in_brief(values: Sequence[str]) -> str:
    """The values in words; of many only the first and the last."""
    stated = [readable(value) for value in values]
    if len(stated) <= 6:
        return ", ".join(stated)
    return f"{', '.join(stated[:3])}, … {stated[-1]} ({len(stated):,})"


def short_heads(paths: Sequence[str]) -> list[str]:
    """A short heading for each varied key: its shortest unique ending that is no column of plans."""
    return [_column_heading(path, [other for other in paths if other != path]) for path in paths]


def _column_heading(path: str, others: Sequence[str]) -> str:
    parts = path.split(".")
    ends = [".".join(parts[start:]) for start in range(len(parts) - 1, -1, -1)]
    free = (end for end in ends if end not in _TAKEN and not any(f".{other}".endswith(f".{end}") for other in others))
    return next(free, path)
