"""A trace of requests as the load of a service: when they come, how long they are, what they share with earlier ones.

Mooncake's JSON lines (timestamp in ms, input_length, output_length, hash_ids), Azure's CSV (TIMESTAMP, ContextTokens,
GeneratedTokens), BurstGPT's and other CSV with a column of each, JSON lists of the same, and conversations of ShareGPT.
A service knows moments: a rate, the spread of gaps, mean and spread of lengths, and beginnings by how soon they come
back. What they do not hold is stated as a loss.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from costmodel.documents.reader.folders import place_in
from costmodel.documents.reader.foreign_readers import Foreign
from costmodel.documents.schemas.default_values import Assumption
from costmodel.exchange.tables.csv_cells import cell_at
from costmodel.ground.errors import Place, fail, quoted_value
from costmodel.ground.record import record
from costmodel.ground.units import percent, significant

HOUR, _WEEK = 3600.0, 24 * 7
_NAMES = {  # of a column, in small letters with _ between words
    "time": "timestamp time arrival_time arrived_at arrival start_time timestamp_ms time_ms arrival_time_ms",
    "prompt": "contexttokens context_tokens input_length input_tokens input_len prompt_tokens prompt_length prompt_len "
              "prompt request_tokens num_prefill_tokens isl",
    "answer": "generatedtokens generated_tokens output_length output_tokens output_len completion_tokens "
              "response_tokens answer answer_tokens num_decode_tokens osl",
    "hashes": "hash_ids",
}  # fmt: skip
_WORDS = {name: meaning for meaning, names in _NAMES.items() for name in names.split()}
_HINT = "a trace has columns for time, prompt and answer: TIMESTAMP, ContextTokens and GeneratedTokens, for example"
_MOST = 1e9  # tokens
_EPOCHS = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3))  # seconds of a time since 1970 by its size
_LATEST, _LONGEST = 1e11, 1e8  # seconds of a time, and of a trace
_LETTERS = 4.0  # of a token, where a trace has texts
_BUCKET = 4.0  # ratio of the distances of beginnings that are stated together
_OFTEN = 0.9  # share of gaps under which times are in a unit that is too long for them
_FEW = 20  # gaps of an hour whose spread counts
_MOST_SPREAD = 10.0
_Q99 = 2.326  # standard deviations beyond which one in a hundred normal numbers lies
Column = list[float]


@record
class Trace:
    """Requests in order of arrival; times in seconds, None if the file states no times."""

    format: str
    times: Column | None
    prompts: Column
    answers: Column
    hashes: Sequence[Sequence[Any]] = ()
    remarks: tuple[str, ...] = ()


def read_trace(text: str, file: str) -> Foreign:
    """A request trace as keys of a serving workload, with the losses; the trace is named in `workload.trace`."""
    trace = requests_of(text, file)
    tree = dict[str, Any]()
    remarks = [*trace.remarks]
    if trace.times is not None:
        tick = _time_unit(trace.times)
        times = _spread_times(trace.times, tick)
        remarks += [f"times are whole multiples of {significant(tick)} s: at random within them"] if tick else []
        tree |= _arrival_statistics(times, file)
        remarks += _arrival_losses(times, tree)
    else:
        remarks.append("the trace has no times, so that no rate follows from it")
    for key, lengths in (("prompt", trace.prompts), ("output", trace.answers)):
        mean, spread = _mean_and_spread(lengths)
        tree[key] = {"mean": max(round(mean), 1), "spread": _rounded_spread(spread)}
    if any(trace.hashes):
        if found := _shared_prefixes(trace):
            tree["beginnings"] = found
    elif trace.times is not None:
        remarks.append("the trace has no hash_ids: what prompts share is not known, so they share nothing")
    remarks.append(_length_loss(trace))
    assumed = tuple(
        Assumption(f"workload.{key}", _value_words(value), f"the trace {file}") for key, value in tree.items()
    )
    held = f"{trace.format}, {len(trace.prompts):,} requests{_span_words(trace.times)}"
    return Foreign(held, tree, assumed, tuple(remarks), "requests")


def rates_of_trace(text: str, file: str) -> list[float]:
    """Requests per second for each full hour of a trace; for a trace over a week, those of a mean week."""
    times = requests_of(text, file).times
    if times is None or times[-1] - times[0] < 2 * HOUR:
        hint = "state rates in their place: --day 2,2,5,9"
        raise fail("X005", "a day needs a trace of two hours at least, with times", Place(file), hint)
    hours = int((times[-1] - times[0]) // HOUR)
    counts = _requests_by_span(times, hours, HOUR)
    folded = counts if hours <= _WEEK else counts[: hours // _WEEK * _WEEK]
    parts = [folded[place :: min(hours, _WEEK)] for place in range(min(hours, _WEEK))]
    return [sum(part) / len(part) / HOUR for part in parts]


def is_trace(text: str) -> bool:
    """Whether a text looks like a request trace: JSON, or a table with prompt and answer columns."""
    first = text.lstrip()[:1]
    names = {_WORDS.get(_plain_name(cell)) for cell in text.lstrip("\ufeff").partition("\n")[0].split(",")}
    return first in ("{", "[") or {"prompt", "answer"} <= names


# --- from text to requests


def requests_of(text: str, file: str) -> Trace:
    """The requests of a trace in the order of their arrival."""
    first = text.lstrip()[:1]
    rows = _json_rows(text, file) if first in ("{", "[") else _table_rows(text, file)
    found = _collect_trace(rows, file)
    return found if found.times is None else _sorted_by_time(found)


class _Row(NamedTuple):
    """One request as written: its place, its cells by meaning, and the format of its file."""

    file: str
    line: int
    text: str
    cells: Mapping[Any, Any]  # by meaning
    form: str
    columns: Sequence[str | None] = ()  # of a table

    @property
    def place(self) -> Place:
        """The place of the row."""
        return place_in(self.file, self.line, 1 if self.line else 0, self.text[:2000])

    def at(self, name: str) -> Place:
        """The place of a cell."""
        return cell_at(self.place, self.columns.index(name)) if self.columns else self.place


def _plain_name(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip().strip('"').lower())


def _table_rows(text: str, file: str) -> Iterator[_Row]:
    """The requests of a trace in CSV, one per row."""
    reader, line, form = csv.reader(io.StringIO(text, newline=""), strict=True), 1, "CSV"
    lines = text.split("\n")
    columns: list[str | None] = []
    try:
        for cells in reader:
            here, line = line, reader.line_num + 1
            if not any(cells):
                continue
            if not columns:
                columns = _columns(cells, place_in(file, here, 1, lines[here - 1][:2000]))
                form = "CSV of Azure" if "contexttokens" in map(_plain_name, cells) else "CSV"
                continue
            row = _Row(file, here, lines[here - 1].rstrip("\r"), dict(zip(columns, cells, strict=False)), form, columns)
            if len(cells) != len(columns):
                sentence = f"this row has {len(cells)} cells and the header {len(columns)}"
                raise fail("X005", sentence, row.place, "each row has a cell for each column")
            yield row
    except csv.Error as error:
        place = place_in(file, line, 1)
        raise fail("X005", f"this is no table of cells between commas: {error}", place, _HINT) from None
    if not columns:
        raise fail("X005", "the file is empty", Place(file), _HINT)


def _columns(cells: Sequence[str], place: Place) -> list[str | None]:
    """The meaning of each column; a fault for a missing or repeated column."""
    found = [_WORDS.get(_plain_name(cell)) for cell in cells]
    for wanted in ("prompt", "answer"):
        if wanted not in found:
            raise fail("D004", f"no column states the tokens of {wanted}s", place, _HINT)
    for index, name in enumerate(found):
        if name and name in found[:index]:
            sentence = f"two columns state the {name}s: {cells[found.index(name)]} and {cells[index]}"
            raise fail("D005", sentence, cell_at(place, index), "leave one of them out")
    return found


def _json_rows(text: str, file: str) -> Iterator[_Row]:
    """The requests of a trace in JSON: a list, or one object per line."""
    placed: Iterable[tuple[int, str, Any]]
    if text.lstrip()[:1] == "[":
        placed = ((0, "", item) for item in _parse_json(text, file, 0))
    else:
        stated = ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())
        placed = ((number, line, _parse_json(line, file, number)) for number, line in stated)
    meanings = dict[str, str | None]()
    for number, line, item in placed:
        row = _Row(file, number, line, {}, "JSON")
        if not isinstance(item, dict):
            sentence = f"a request is expected here, not {quoted_value(str(item)[:60])}"
            raise fail("X005", sentence, row.place, "an object for each")
        if isinstance(talk := item.get("conversations", item.get("conversation")), list):
            if cells := _conversation_tokens(talk):
                yield row._replace(cells=cells, form="conversations of ShareGPT")
            continue
        for name in item:
            if name not in meanings:
                meanings[name] = _WORDS.get(_plain_name(name))
        cells = {meaning: value for name, value in item.items() if (meaning := meanings[name])}
        for wanted in ("prompt", "answer"):
            if wanted not in cells:
                raise fail("D004", f"this request states no tokens of its {wanted}", row.place, _HINT)
        if any(name.endswith("_ms") for name in item) or ("timestamp" in item and "hash_ids" in item):
            cells["unit"] = 1e-3
        yield row._replace(cells=cells, form="JSON of Mooncake" if "hashes" in cells else "JSON")


def _parse_json(text: str, file: str, line: int) -> Any:
    """The value of a JSON text; a fault with its place if it is no JSON."""
    try:
        return json.loads(text)
    except RecursionError:
        raise fail(
            "X005", "the JSON is nested too deeply", place_in(file, line), "a flat object for each request"
        ) from None
    except json.JSONDecodeError as error:
        place = place_in(file, line or error.lineno, error.colno)
        raise fail(
            "X005", f"this is no JSON: {error.msg}", place, "a JSON object in each line, or a list of them"
        ) from None
    except ValueError as error:
        raise fail(
            "X005", f"this is no JSON: {error}"[:200], place_in(file, line), "write the number shorter"
        ) from None


def _conversation_tokens(talk: list[Any]) -> dict[str, Any]:
    """The token counts of the first two turns, estimated from their letters; empty if there are fewer turns."""
    texts = [turn.get("value", turn.get("content")) for turn in talk[:2] if isinstance(turn, dict)]
    words = [text for text in texts if isinstance(text, str) and text]
    if len(words) < 2:
        return {}
    prompt, answer = (max(round(len(text) / _LETTERS), 1) for text in words)
    return {"prompt": prompt, "answer": answer}


def _collect_trace(rows: Iterator[_Row], file: str) -> Trace:
    """The columns of a trace: times, prompt and answer lengths, hashes of shared blocks."""
    times, prompts, answers = list[float](), list[float](), list[float]()
    hashes, form, empty = list[Sequence[Any]](), "", 0
    for row in rows:
        cells, form = row.cells, form or row.form
        prompt, answer = _token_count(row, "prompt"), _token_count(row, "answer")
        if prompt < 1 or answer < 1:
            empty += 1
            continue
        if ("time" in cells) != bool(times) and prompts:
            raise fail("X005", "some requests have a time and others have none", row.place, "state it of each, or none")
        if "time" in cells:
            times.append(_time_in_seconds(row))
        prompts.append(prompt)
        answers.append(answer)
        ids = cells.get("hashes")
        if ids is not None:
            if not isinstance(ids, list) or any(isinstance(each, list | dict) for each in ids):
                raise fail("D006", "hash_ids is a list of the numbers of blocks", row.place, "for example [46, 47, 48]")
            hashes.append(ids)
    if len(prompts) < 2:
        raise fail("X005", "the trace has fewer than two requests with a prompt and an answer", Place(file), _HINT)
    remarks = [f"{empty:,} requests without a prompt or an answer are left out"] if empty else []
    if form == "conversations of ShareGPT":
        remarks.append(f"texts have no tokens: {_LETTERS:g} letters count as one")
    kept = hashes if len(hashes) == len(prompts) else []
    return Trace(form, times or None, prompts, answers, kept, tuple(remarks))


def _token_count(row: _Row, name: str) -> float:
    """The number of tokens in a cell; a fault if it is no such number."""
    value = row.cells[name]
    try:
        found = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not 0 <= found <= _MOST:
        sentence = f"a number of tokens is expected for the {name}, not {quoted_value(str(value)[:60])}"
        raise fail("D006", sentence, row.at(name), "a whole number, 0 where a request failed")
    return found


def _time_in_seconds(row: _Row) -> float:
    """A time in seconds, from a number (of s, ms, … since 1970) or from a date and time of day."""
    value, unit = row.cells["time"], row.cells.get("unit", 1.0)
    try:
        found = float(value) * float(unit)
        found *= next((part for least, part in _EPOCHS if found >= least), 1.0)
    except (TypeError, ValueError, OverflowError):
        try:
            moment = datetime.fromisoformat(str(value).strip())
            found = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            found = math.nan
    if not abs(found) <= _LATEST:
        sentence = f"a time is expected here, not {quoted_value(str(value)[:60])}"
        raise fail("D006", sentence, row.at("time"), "seconds, or a date and a time: 2023-11-16 18:17:03.97")
    return found


def _sorted_by_time(trace: Trace) -> Trace:
    """The trace with its requests in order of time."""
    assert trace.times is not None
    if all(one <= other for one, other in itertools.pairwise(trace.times)):
        return trace
    order = sorted(range(len(trace.times)), key=trace.times.__getitem__)
    times, prompts, answers = ([each[index] for index in order] for each in (trace.times, trace.prompts, trace.answers))
    hashes = [trace.hashes[index] for index in order] if trace.hashes else ()
    return replace(trace, times=times, prompts=prompts, answers=answers, hashes=hashes)


# --- from requests to moments


def _mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and the standard deviation divided by the mean."""
    mean = math.fsum(values) / len(values)
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values)) / mean


def _rounded_spread(spread: float) -> float:
    return float(f"{min(spread, _MOST_SPREAD):.4g}") if spread > 1e-4 else 0.0


def _requests_by_span(times: Column, bins: int, width: float) -> list[int]:
    """The number of requests in each of several equal spans of time."""
    found = [0] * bins
    for time in times:
        place = int((time - times[0]) / width)
        if place < bins:
            found[place] += 1
    return found


def _time_unit(times: Column) -> float:
    """The unit of which all times are whole multiples, if requests share a time; 0 if there is none."""
    moved = [other - one for one, other in itertools.pairwise(times) if other > one]
    if not moved or len(moved) >= _OFTEN * (len(times) - 1):
        return 0.0
    least = min(moved)
    return least if all(abs(gap / least - round(gap / least)) < 1e-3 for gap in moved) else 0.0


def _spread_times(times: Column, tick: float) -> Column:
    """Times spread at random within their unit, if requests share a time."""
    drawn = random.Random(0)
    return sorted(time + tick * drawn.random() for time in times) if tick else times


def _arrival_statistics(times: Column, file: str) -> dict[str, Any]:
    """The mean arrival rate, and the spread of the gaps relative to the mean of their hour."""
    span = times[-1] - times[0]
    if span > _LONGEST:
        hint = "state times in seconds, or in ms in a column timestamp_ms"
        raise fail("X005", f"the trace is {span / 86400:,.0f} days long", Place(file), hint)
    if span <= 0:
        hint = "leave the times out and state a rate, or requests for a batch"
        raise fail("X005", "all requests of the trace come at the same time", Place(file), hint)
    hours = dict[int, list[float]]()
    for one, other in itertools.pairwise(times):
        hours.setdefault(int((other - times[0]) // HOUR), []).append(other - one)
    scaled = list[float]()
    for gaps in hours.values():
        mean = math.fsum(gaps) / len(gaps)
        if mean > 0 and len(gaps) >= min(_FEW, len(times) - 1):
            scaled += [gap / mean for gap in gaps]
    spread = _mean_and_spread(scaled)[1] if scaled else 1.0
    return {"rate": f"{(len(times) - 1) / span:.6g} /s", "arrival_spread": _rounded_spread(spread)}


def _arrival_losses(times: Column, tree: Mapping[str, Any]) -> Iterator[str]:
    """The losses: how far the rate differs from its mean, and how much more counts vary than gaps explain."""
    span = times[-1] - times[0]
    rate = (len(times) - 1) / span
    width, name = (HOUR, "hour") if span >= 2 * HOUR else (60.0, "minute")
    bins = round(span / width)
    if bins < 2:
        return
    most = max(_requests_by_span(times, bins, span / bins)) / (span / bins)
    day = "; buy --day takes the file" if name == "hour" else ""
    over = f"{significant(most)} /s, {significant(most / rate, 2)} × the mean"
    yield f"lost: the rate over time; the busiest {name} has {over}{day}"
    minutes = _requests_by_span(times, max(int(span // 60.0), 1), 60.0)
    within = [minutes[place : place + 60] for place in range(0, len(minutes), 60)]
    known = [_mean_and_spread(hour) for hour in within if len(hour) >= _FEW and any(hour)]
    square = max(float(tree["arrival_spread"]) ** 2, 1e-3)
    more = sum((spread * mean) ** 2 for mean, spread in known) / max(sum(mean for mean, _ in known) * square, 1e-9)
    if more > 2:
        much = f"{significant(more, 2)} × as much as independent gaps make them"
        yield f"lost: longer bursts; requests a minute vary {much}"


def _length_loss(trace: Trace) -> str:
    """The loss from independent log-normal lengths, compared with the real tails and correlation."""
    parts, found = [], []
    for name, lengths in (("prompts", trace.prompts), ("answers", trace.answers)):
        mean, spread = _mean_and_spread(lengths)
        sigma = math.sqrt(math.log1p(spread**2))
        law = mean * math.exp(_Q99 * sigma - sigma**2 / 2)
        far = sorted(lengths)[min(int(0.99 * len(lengths)), len(lengths) - 1)]
        parts.append(f"1 % of {name} are over {far:,.0f} tokens, log-normal {law:,.0f}")
        found.append((mean, spread * mean))
    (one, first), (other, second) = found
    pairs = zip(trace.prompts, trace.answers, strict=True)
    tied = math.fsum((prompt - one) * (answer - other) for prompt, answer in pairs) / len(trace.prompts)
    both = first * second
    order = f"prompts and answers correlate by {tied / both:.2f}" if both > 0 else "one of them has one length"
    return f"lost: the order and the laws of lengths; {'; '.join(parts)}; {order}"


def _shared_prefixes(trace: Trace) -> list[dict[str, Any]]:
    """Shared leading blocks, grouped by the number of requests between two uses."""
    block = max(math.ceil(prompt / len(ids)) for prompt, ids in zip(trace.prompts, trace.hashes, strict=True) if ids)
    last, tokens, uses, apart = dict[Any, int](), dict[int, float](), dict[int, int](), dict[int, float]()
    for request, (prompt, ids) in enumerate(zip(trace.prompts, trace.hashes, strict=True)):
        left, before = max(prompt - 1.0, 0.0), set[int]()
        for each in ids:
            if each not in last:
                break
            distance = request - last[each]
            bucket, found = int(math.log(max(distance, 1), _BUCKET)), min(block, left)
            left -= found
            tokens[bucket] = tokens.get(bucket, 0.0) + found
            apart[bucket] = apart.get(bucket, 0.0) + found * distance
            before.add(bucket)
        last.update(dict.fromkeys(ids, request))
        for bucket in before:
            uses[bucket] = uses.get(bucket, 0) + 1
    count = len(trace.prompts)
    return [
        {
            "tokens": max(round(tokens[bucket] / uses[bucket]), 1),
            "share": f"{100 * uses[bucket] / count:.4g} %",
            "spacing": float(f"{max(apart[bucket] / tokens[bucket], 1.0):.4g}"),
        }
        for bucket in sorted(tokens)
        if tokens[bucket] > 0
    ]


def _span_words(times: Column | None) -> str:
    """The duration of a trace in words, such as " in 3 days"; empty without times."""
    if times is None:
        return ""
    span = float(times[-1] - times[0])
    unit, size = next(
        ((unit, size) for unit, size in (("days", 86400.0), ("h", HOUR), ("min", 60.0)) if span >= size), ("s", 1.0)
    )
    return f" in {significant(span / size)} {unit}"


def _value_words(value: Any) -> str:
    """A workload value in a few words."""
    if isinstance(value, dict):
        return f"{value['mean']:,} ± {percent(value['spread'])}"
    if isinstance(value, list):
        return "; ".join(f"{kind['tokens']:,} tokens, {kind['share']}, {kind['spacing']:g} apart" for kind in value)
    return str(value)
