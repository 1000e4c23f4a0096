"""The answer of `sensitivity`: how much each input changes a result, and which hardware figure limits it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from costmodel.documents.keys.overrides import short
from costmodel.documents.schemas.results import is_money, machine_name
from costmodel.estimate.answer_facts import row_facts
from costmodel.explore.compare.input_paths import InputValue, input_values
from costmodel.explore.vary.sensitivity import Sensitivity
from costmodel.explore.workload_interface import Knob
from costmodel.ground.units import significant
from costmodel.report.answers.plan_answer import next_command
from costmodel.report.data_formats.answer_fields import finite
from costmodel.report.document import AnswerDocument, Cell, Column, Draw, Section, Table, TraceWriter, Value
from costmodel.report.terminal.charts import two_sided_bar
from costmodel.report.terminal.head import case_title, command, with_facts
from costmodel.report.terminal.layout import DIM, HEAD, Abridged, Line, schema_head, styled
from costmodel.report.trials import short_path
from costmodel.report.workload_words import plan_fields, plan_head, words_of

_KNOBS_SHOWN, _BRIEF = 16, 10  # figures in a terminal, and in a short answer
_BAR = 5  # letters of a bar to each side, which leave room for `turned` in a usual terminal
_SHOWN_AS_FACTOR = 10.0  # from which a result is so many times as much, and not some hundred per cent more


def sensitivity_document(knobs: Sensitivity, shown: int | None = None) -> AnswerDocument:
    """How much each input changes the result, and which hardware figure limits it."""
    asked, gains = knobs.asked, gain_sentences(knobs)
    value = words_of(asked.case.kind).result(knobs.result, knobs.value)
    first = f" {knobs.knobs[0].settable} moves it most." if knobs.knobs else ""
    return AnswerDocument(
        asked.case,
        case_title(asked.case),
        plan_head(asked, knobs.answer, priced=is_money(knobs.result)),
        f"The {knobs.result} is {value}.{first} {gains[0]}",
        "plain",
        [tornado_section(knobs, shown)],
        closing=[
            styled(gains[0]),
            *(Abridged(gain, short="", added="what else would gain") for gain in gains[1:]),
            _next_command_line(knobs),
        ],
    )


def _next_command_line(knobs: Sensitivity) -> Line:
    """The next command: plans one choice away, or a search if the plan does not fit."""
    case, answer = knobs.asked.case, knobs.answer
    return next_command(case, "search") if answer.broken else next_command(case, "explain", "plan")


def tornado_section(knobs: Sensitivity, top: int | None = None) -> Section:
    """A section with a table of inputs by their effect on the result, largest first.

    top: how many inputs a terminal shows
    """
    shown, brief = top or _KNOBS_SHOWN, None if top else _BRIEF
    sides = (abs(side) for knob in knobs.knobs[:shown] for side in (knob.low, knob.high))
    widest, written = max(filter(math.isfinite, sides), default=0.0), input_values(knobs.asked.case)
    columns = [Column("input", "k"), Column("value", drop=1), Column("change", drop=3), Column("lower"),
               Column("", "l", drop=2, face="terminal"), Column("higher")]  # fmt: skip
    rows = []
    for knob in knobs.knobs:
        down, up = (
            Value(words := change_text(share), share, opens=partial(_change_trace, knobs, written, knob, place, words))
            for place, share in enumerate((knob.low, knob.high))
        )
        row: list[Cell] = [knob.settable, knob.text, variation_words(knob)]
        rows.append([*row, down, two_sided_bar(knob.low, knob.high, widest, _BAR), up])
    cut, beneath = list[Line](), list[Line]()
    if len(knobs.knobs) > shown:
        words = f"  {len(knobs.knobs) - shown} more move it less"
        cut.append(styled(words, DIM) if top else Abridged(words, DIM, short="", added=""))
    if any(knob.kind == "fitted" for knob in knobs.knobs[:shown]):
        beneath.append(styled("  fit.*: fitted constants; change them with costmodel calibrate, not with --set", DIM))
    result = f"{knobs.result} {words_of(knobs.asked.case.kind).result(knobs.result, knobs.value)}"
    lead = f"Fitted constants vary by their spread, other inputs by 10 %. {' '.join(gain_sentences(knobs))}"
    return Section(
        "sensitivity",
        f"What moves {knobs.result}",
        lead,
        [partial(_draw_tornado, knobs)],
        [styled(result, HEAD)],
        Table(columns, rows, most=shown, brief=brief, rest="input"),
        beneath,
        cut,
        folded=True,
        asked=bool(top),
    )


def _draw_tornado(knobs: Sensitivity) -> Draw:
    """Bars with the effect of each input on the result."""
    from costmodel.report.page.question_figures import tornado_figure

    return tornado_figure(knobs)


def _change_trace(
    knobs: Sensitivity, written: Mapping[str, InputValue], knob: Knob, side: int, words: str, traces: TraceWriter
) -> int:
    """The trace of a change: the result with the input raised or lowered, over the result."""
    from costmodel.documents.reader.sources import provenance
    from costmodel.report.terminal.trace_tree import written_place

    asked, say = knobs.asked, words_of(knobs.asked.case.kind).result
    plan = {} if asked.case.scenario.plan is not None else asked.summary(knobs.answer).settings
    base = traces.of(knobs.result)
    if base is None:
        line = command(asked.case, "explain", knobs.result, settings=plan)
        base = traces.add(knobs.result, say(knobs.result, knobs.value), f"{line} prints how it was made")
    place = written[knob.path].place if knob.path in written else None
    source = "" if place is None else written_place(provenance(asked.case.trees, place))
    leaf = traces.add(knob.settable, knob.text, place=source)
    figure = knob.turned[side]
    line = "the same equations with this constant, which the fit holds and --set does not reach"
    if knob.kind != "fitted":
        line = command(asked.case, "explain", knobs.result, settings={**plan, short(knob.path): figure})
    text = say(knobs.result, knobs.value * (1 + (knob.low, knob.high)[side]))
    turned = traces.add(f"{knobs.result} with {knob.settable} {figure}", text, line, [leaf])
    return traces.add("change", words, ("= ", " / ", " − 1"), [turned, base])


def variation_words(knob: Knob) -> str:
    """How far an input is varied, such as "± 10 %"."""
    whole = next((text for text in ("1", "100 %") if knob.turned[1] == text), "")
    return f"−{knob.spread * 100:.3g} % to {whole}" if whole else f"±{knob.spread * 100:.3g} %"


def change_text(share: float) -> str:
    """A relative change as text, such as "+3 %" or "2 ×"."""
    if math.isinf(share):
        return "∞"
    if abs(share) < 5e-6:
        return "0 %"
    if share >= _SHOWN_AS_FACTOR - 1:
        return f"× {significant(1 + share)}"
    digits = 2 if abs(share) < 0.001 else 1
    return f"{share * 100:+.{digits}f} %".replace("-", "−")


def gain_sentences(knobs: Sensitivity) -> list[str]:
    """Sentences on the gain from 10 % more of each hardware figure, the largest gain first."""
    sign = 1.0 if knobs.asked.columns[knobs.result].better == "higher" else -1.0
    gains = sorted(((sign * knob.high, knob) for knob in knobs.hardware), key=lambda item: -item[0])
    improved = f"improves {knobs.result} by"
    shown = [each for each in gains[:4] if each[0] > 1e-5]
    stated = [f"10 % more {short_path(knob.path)} {improved} {gain * 100:.2g} %." for gain, knob in shown]
    return stated or ["No hardware figure improves it when it is 10 % larger."]


def sensitivity_json(knobs: Sensitivity) -> dict[str, Any]:
    """The effect of each input as plain values: the relative change of the result."""
    return {
        **schema_head("costmodel/sensitivity/v2"),
        **plan_fields(knobs.asked, knobs.answer),
        "result": machine_name(knobs.result),
        "value": knobs.value,
        "bottleneck": gain_sentences(knobs),
        "figures": with_facts(
            row_facts(knobs.asked.facts),
            ({**asdict(knob), "low": finite(knob.low), "high": finite(knob.high)} for knob in knobs.knobs),
        ),
    }
