"""The answers of `calibrate` and `measure`: fitted constants beside those in use, with errors and measured times."""

from __future__ import annotations

import difflib
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from rich.text import Text

from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.evidence.calibrate.regression_problem import Errors
from costmodel.evidence.measure.measure import LACKED_TIME, MeasuredKernels
from costmodel.evidence.measure.stopwatch import Device
from costmodel.explore.serving.benchmark_points import BenchmarkPoint
from costmodel.ground.counts import number_of
from costmodel.ground.units import show, show_time, significant
from costmodel.report.answers.collective import fabric_fields, fabric_verdict
from costmodel.report.answers.validate import (
    FILLED,
    filled_cells,
    filled_lines,
    misread_column_lines,
    skipped_run_lines,
)
from costmodel.report.document import AnswerDocument, Section, Table, columns
from costmodel.report.terminal.formatting import signed_percent
from costmodel.report.terminal.layout import DIM, HEAD, WARN, Abridged, Detail, Line, schema_head, styled

if TYPE_CHECKING:
    from pathlib import Path

    from costmodel.evidence.calibrate.engine_fit import EngineFit
    from costmodel.evidence.calibrate.fit_from_kernels import Calibrated, Fit
    from costmodel.evidence.calibrate.fit_from_runs import Decision, Posterior, Refined
    from costmodel.evidence.calibrate.regression import Error
    from costmodel.explore.import_export.import_log_folder import FittedFolder


_FITS = ("fit", "points", "in sample", "held out", "in use", "bias", "")
_MORE = ("P90", "bias", "in band")
_SIZES, _ALL_SIZES = 4, 32  # of a fit, shown unasked and with -v
_RANGES = "the range of each fit"
_RUNS = 6  # shown unasked
_LEGEND = (
    "in each pair: median and 90th percentile of |predicted / measured − 1|, %",
    "bias and error: predicted / measured − 1, with the constants in use if there are any",
)


def _calibration_fields(of: str, files: Mapping[str, str], written: Iterable[Path], **found: Any) -> dict[str, Any]:
    """A calibration as plain values with the same keys for every kind; parts that it does not have are empty."""
    return {
        **schema_head("costmodel/calibration/v2"),
        "of": of,
        "files": [{"file": file, "digest": digest} for file, digest in files.items()],
        "rows": 0,
        "modelled": 0,
        "fits": [],
        "sizes": [],
        "fabrics": [],
        "constants": [],
        "predictions": [],
        "errors": {},
        "left_out": {},
        "widths": {},
        "refused": [],
        "remarks": [],
        "why": "",
        **found,
        "written": [str(path) for path in written],
    }


# ── kernels ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def kernels_document(
    calibrated_fits: Calibrated, decisions: Sequence[Decision], written: Sequence[Path]
) -> AnswerDocument:
    """The fits to measured kernels, by document: constants, errors, rows left out, and what was written."""
    sections = list[Section]()
    for name in dict.fromkeys(decision.fit.sample.of for decision in decisions):
        mine, apart = [decision for decision in decisions if decision.fit.sample.of == name], bool(sections)
        table = Table(columns(_FITS, "lrrrrrl", ("", "in sample")), [_fit_row(decision) for decision in mine])
        constants = [line for decision in mine for line in _constant_lines(decision.fit)]
        ahead = [styled(name, HEAD)]
        sections.append(Section(f"fits-{name}", name, ahead=ahead, table=table, beneath=constants, apart=apart))
        sound = [line for decision in mine for line in _fabric_verdict_line(decision)]
        title, whole = f"{name}: measured and predicted", _sizes_table(mine, _ALL_SIZES)
        sections.append(Section(f"sizes-{name}", title, table=whole, beneath=sound, short=_sizes_table(mine, _SIZES)))
    beneath = [styled(words, DIM) for words in (_LEGEND if decisions else ())]
    if calibrated_fits.left_out:
        total = sum(calibrated_fits.left_out.values())
        beneath.append(styled(f"not fitted: {number_of(total, 'row')}", DIM))
    sections.append(Section("about", "How to read it", beneath=beneath, apart=bool(decisions)))
    if calibrated_fits.left_out:
        table = Table(
            columns(("not fitted", "rows"), "lr"),
            [(why, f"{rows:,}") for why, rows in calibrated_fits.left_out.items()],
        )
        why = "why rows are not fitted" if decisions else ""
        sections.append(Section("left-out", "Not fitted", table=table, apart=False, detail=why))
    better = sum(decision.written for decision in decisions)
    fitted = sum(not decision.fit.unfitted for decision in decisions)
    closing = [*(styled(remark) for remark in calibrated_fits.remarks), styled(_written_words(better, fitted, written))]
    sections.append(Section("closing", "What was written", beneath=closing, apart=False))
    conclusion = f"{better} of {number_of(len(decisions), 'fit')} are better than now."
    return AnswerDocument(None, "Constants from measured kernels", [], conclusion, "plain", sections)


def _written_words(better: int, fitted: int, written: Sequence[Path]) -> str:
    """Which fits were written, or would be written with --write, in words."""
    if written:
        return f"{better} fits written to {', '.join(map(str, written))}"
    return f"{better} of {fitted} fits would be written (✓): add --write" if better else "nothing to write"


def _fit_row(decision: Decision) -> tuple[str, ...]:
    """The table row of a fit: its title, points, errors, and whether it is better than the constants in use."""
    fit = decision.fit
    bias = fit.now or fit.inside
    errors = (*map(_median_and_p90, (fit.inside, fit.outside, fit.now)), signed_percent(bias.bias) if bias else "–")
    return (fit_title(fit), f"{fit.points:,}", *errors, "✓" if decision.written else decision.why)


def _median_and_p90(error: Error | None) -> str:
    """The median and the 90th percentile of an error in percent, as text; a dash without an error."""
    return f"{100 * error.median:.1f} {100 * error.p90:4.1f}" if error else "–"


def _sizes_table(decisions: Sequence[Decision], most: int) -> Table:
    """A table of measured and predicted times for some sizes of each fit, from shortest to longest."""
    rows = []
    for decision in decisions:
        sizes = decision.sizes
        last, count = len(sizes) - 1, min(len(sizes), most)
        places = [round(step * last / max(1, count - 1)) for step in range(count)]
        for number, place in enumerate(places):
            one = sizes[place]
            named = "" if number else fit_title(decision.fit)
            rows.append((named, one.size, show(one.measured, "s"), show(one.predicted, "s"), signed_percent(one.error)))
    return Table(columns(("fit", "size", "measured", "predicted", "error"), "llrrr", ("fit",)), rows, rest="all sizes")


def _fabric_verdict_line(decision: Decision) -> Iterator[Line]:
    """A line on whether a measured fabric is slower than healthy fabrics; none if it was not compared."""
    soundness = decision.soundness
    if soundness is None:
        return
    rates = f"{soundness.measured / 1e9:.3g} GB/s busbw, {soundness.predicted / 1e9:.3g} in healthy fabrics"
    words, style = fabric_verdict(soundness), WARN if soundness.verdict == "slower" else ""
    yield styled(f"  {fit_title(decision.fit)} from {show(soundness.message, 'B')}: {rates}: {words}", style)


def fit_title(fit: Fit) -> str:
    """The title of a fit: the part of the device, the number type, and the formula if there are several."""
    key = fit.sample.key
    words = [*((key.of,) if key.part == "network" else ()), key.part, key.entry if key.part != "memory" else ""]
    words += [key.detail, *((f"({fit.sample.form.title})",) if key.part in ("attention", "matmul") else ())]
    return " ".join(filter(None, words)).replace(" (rounded roofline)", "")


def _constant_lines(fit: Fit) -> Iterator[Line]:
    """Lines with the constants of a fit, and the values in use in brackets."""
    now = fit.sample.now or {}
    if fit.unfitted:
        if fit.sample.range:
            yield Abridged(f"  {fit_title(fit)}: over {fit.sample.range}", DIM, short="", added=_RANGES)
        return
    parts = [
        f"{constant.name} {show(fit.constants[constant.name], constant.unit)}"
        + (f" ({show(now[constant.name], constant.unit)})" if constant.name in now else "")
        for constant in fit.sample.form.constants
    ]
    yield styled(f"  {fit_title(fit)}: {' · '.join(parts)}")
    yield Abridged(f"    over {fit.sample.range}", DIM, short="", added=_RANGES)


def kernels_json(calibrated_fits: Calibrated, decisions: Sequence[Decision], written: Iterable[Path]) -> dict[str, Any]:
    """The calibration of kernels as plain values; modelled: the number of timings in the fits."""
    points, left = sum(fit.points for fit in calibrated_fits.fits), sum(calibrated_fits.left_out.values())
    return _calibration_fields(
        "kernels",
        calibrated_fits.files,
        written,
        rows=points + left,
        modelled=points,
        fits=[_fit_fields(decision) for decision in decisions],
        sizes=[
            {
                **_fit_names(decision),
                "size": size.size,
                "rows": size.rows,
                "measured_s": size.measured,
                "predicted_s": size.predicted,
                "error": size.error,
            }
            for decision in decisions
            for size in decision.sizes
        ],
        fabrics=[
            {**_fit_names(decision), **fabric_fields(decision.soundness)}
            for decision in decisions
            if decision.soundness is not None
        ],
        refused=[
            {"id": None, "refused": None, "why": why, "rows": rows} for why, rows in calibrated_fits.left_out.items()
        ],
        remarks=list(calibrated_fits.remarks),
    )


def _fit_fields(decision: Decision) -> dict[str, Any]:
    """One fit as plain values: constants, sizes, errors, and whether it was written."""
    fit, key = decision.fit, decision.fit.sample.key
    return {
        "of": fit.sample.of,
        "part": key.part,
        "entry": key.entry,
        "detail": key.detail if key.part != "network" else key.of,
        "form": fit.sample.form.title,
        "points": fit.points,
        "range": fit.sample.range,
        **{
            f"{name}_{measure}": getattr(error, measure) if error else None
            for name, error in (("in_sample", fit.inside), ("held_out", fit.outside), ("in_use", fit.now))
            for measure in ("median", "p90", "bias")
        },
        "write": decision.written,
        "why_not": decision.why,
        "constants": [
            {
                "name": constant.name,
                "unit": constant.unit,
                "fitted": fit.constants[constant.name],
                "in_use": (fit.sample.now or {}).get(constant.name),
            }
            for constant in fit.sample.form.constants
            if not fit.unfitted
        ],
    }


def _fit_names(decision: Decision) -> dict[str, str]:
    """The document and the title of a fit, as plain values."""
    return {"of": decision.fit.sample.of, "fit": fit_title(decision.fit)}


# ── a folder of logs ──────────────────────────────────────────────────────────────────────────────────────────────────


def log_folder_document(folder_fits: FittedFolder, written: Sequence[Path]) -> AnswerDocument:
    """The calibration from a folder of logs: what was read, every fit with its errors, and changed documents."""
    parts = [runs_document(folder_fits.training, ())] if folder_fits.training is not None else []
    parts += [benchmarks_document(fit, ()) for fit in folder_fits.engines]
    parts += (
        [kernels_document(folder_fits.kernels, folder_fits.decisions, ())] if folder_fits.kernels is not None else []
    )
    sections = [_read_files_section(folder_fits)]
    for number, part in enumerate(parts, 1):
        titled = Section(f"part-{number}", part.title, ahead=[styled(part.title, HEAD)])
        inner = [
            replace(section, key=f"{section.key}-{number}") for section in part.sections if section.key != "closing"
        ]
        sections += [titled, *inner]
    lines = [styled(line, DIM if line.startswith(" ") else "") for line in patch_of(folder_fits).splitlines()]
    count = number_of(len(folder_fits.documents), "document")
    would = f"{count} would change: add --write" if folder_fits.documents else "no document would change"
    beneath: list[Line] = [Detail([*lines, Text()], "changes of documents", spare=1)] if lines else []
    beneath += [styled(f"wrote {path}") for path in written] or [styled(would)]
    sections.append(Section("patch", "Changes of documents", beneath=beneath))
    conclusion = f"{number_of(len(folder_fits.documents), 'document')} {'changed' if written else 'would change'}."
    return AnswerDocument(None, f"Measured runs of {folder_fits.read.folder}", [], conclusion, "plain", sections)


def _read_files_section(folder_fits: FittedFolder) -> Section:
    """A section on the runs of each night in a folder, and on files that could not be read."""
    read = folder_fits.read
    rows = [(night, f"{sum(len(table.rows) for table in tables)}") for night, tables in read.nights.items()]
    rows += [("kernels", f"{len(read.kernels)} files")] if read.kernels else []
    lines = [styled(f"not read: {each.file}: {each.why}", WARN) for each in read.unread]
    if read.starts:
        lines.append(
            styled(f"nothing is fitted to {number_of(len(read.starts), 'start-up log')}; validate compares them")
        )
    lines += [styled(remark, WARN) for remark in folder_fits.remarks]
    return Section(
        "read", "What was read", table=Table(columns(("night", "runs"), "lr"), rows), beneath=lines, apart=False
    )


def patch_of(folder_fits: FittedFolder) -> str:
    """The changes of documents as a unified diff."""
    texts = (
        difflib.unified_diff(before.splitlines(), text.splitlines(), f"a/{path}", f"b/{path}", lineterm="", n=1)
        for path, (before, text) in folder_fits.documents.items()
    )
    return "".join(f"{line}\n" for lines in texts for line in lines)


def log_folder_json(folder_fits: FittedFolder, written: Iterable[Path]) -> dict[str, Any]:
    """The calibration from a folder of logs as plain values; parts: each fit, as `calibrate` of its tables gives it."""
    parts = [runs_json(folder_fits.training, ())] if folder_fits.training is not None else []
    parts += [benchmarks_json(fit, ()) for fit in folder_fits.engines]
    parts += [kernels_json(folder_fits.kernels, folder_fits.decisions, ())] if folder_fits.kernels is not None else []
    return _calibration_fields(
        "folder",
        {file: digest for part in parts for file, digest in ((each["file"], each["digest"]) for each in part["files"])},
        written,
        rows=sum(part["rows"] for part in parts),
        modelled=sum(part["modelled"] for part in parts),
        parts=parts,
        patch=patch_of(folder_fits),
        unread=[asdict(each) for each in folder_fits.read.unread],
        remarks=list(folder_fits.remarks),
    )


# ── runs and benchmarks ──────────────────────────────────────────────────────────────────────────────────────────────


def _refined_document(
    fit: Refined | EngineFit,
    title: str,
    what: str,
    identified: str,
    constants: Table,
    errors: Table,
    groups: Iterable[tuple[str, Table]],
    written: Sequence[Path],
    determined: int,
    options: str = "",
    stated: Sequence[str] = (),
    runs: Sequence[Section] = (),
) -> AnswerDocument:
    """The answer about a fit to runs or benchmarks: identified constants, errors before and after, what was written.

    what: the measurements in words. identified: a sentence on how many constants are identified. determined: their
    number. options: of the command, beside the tables. stated: remarks. runs: a section with the runs
    """
    sections = [
        Section("identified", "Identified", beneath=[styled(identified)], apart=False, face="terminal"),
        Section("constants", "Constants", f"{identified}.", table=constants),
        Section("errors", "Errors", table=errors),
        *runs,
    ]
    sections += [Section(f"by-{name}", f"Errors by {name}", table=table) for name, table in groups]
    lines = [each for words in stated for each in (Text(), styled(words))]
    lines += [Text(), *skipped_run_lines(fit.left)] if fit.left else []
    lines += [Text(), styled(f"not to be written: {fit.why}", WARN)] if fit.why else []
    lines += [*misread_column_lines(fit.tables), *(styled(f"wrote {path}") for path in written)]
    sections += [Section("remarks", "Remarks", beneath=lines, apart=False)] if lines else []
    conclusion = fit.why or f"The fit describes the {what}."
    closing = _what_to_do(fit, determined, options, written)
    return AnswerDocument(None, title, [], conclusion, "bad" if fit.why else "plain", sections, closing=closing)


def _what_to_do(fit: Refined | EngineFit, determined: int, options: str, written: Sequence[Path]) -> list[Line]:
    """Whether anything was written, and what to do next; nothing for a fit that does not describe the runs."""
    files = shlex.join(table.file for table in fit.tables)
    if fit.why:
        return []
    if written:
        return [styled(f"Next: costmodel validate {files}")]
    if not determined:
        return [styled("These runs determine no constant: nothing would be written.")]
    stated = [styled("Nothing was written: predictions do not use this fit yet.")]
    return [*stated, styled(f"Next: costmodel calibrate {files}{options} --write")]


def _error_cells(errors: Errors) -> tuple[str, ...]:
    """Table cells with the number of runs, their errors, and the share of runs inside the band."""
    shares = f"{errors.median:.1%}", f"{errors.p90:.1%}", f"{errors.bias:+.1%}", f"{errors.inside_band:.0%}"
    return f"{errors.runs}", *shares


def _refined_fields(fit: Refined | EngineFit, of: str, written: Iterable[Path], **more: Any) -> dict[str, Any]:
    """A fit to runs or benchmarks as plain values; `more`: further keys."""
    return _calibration_fields(
        of,
        {table.file: table.digest for table in fit.tables},
        written,
        rows=fit.runs + len(fit.left),
        modelled=fit.runs,
        refused=[{"id": left.run, "refused": left.refused, "why": left.why, "rows": 1} for left in fit.left],
        why=fit.why,
        **more,
    )


def runs_document(refined: Refined, written: Sequence[Path]) -> AnswerDocument:
    """The constants fitted to training runs, with their priors and errors."""
    from costmodel.evidence.calibrate.fit_from_runs import unit_value

    fit = refined.fit
    rows = []
    for part in fit.constants:
        prior = unit_value(part.prior, part.prior.mean) + (f" × {part.prior.like}" if part.prior.like else "")
        known = uncertainty_words(part) if part.resolved else "as prior"
        counts = f"{part.runs}", f"{len(part.families)}"
        rows.append((part.prior.name, prior, unit_value(part.prior, part.value), known, *counts))
    shown = sum(part.resolved for part in fit.constants)
    groups = []
    for name, parts in ((refined.grouping, fit.by_group), ("models", fit.by_kind)):
        if len(parts) > 1:
            each = [
                (value, *_error_cells(inside), *_error_cells(outside)[1:]) for value, (inside, outside) in parts.items()
            ]
            heads = columns((name, "runs", "in sample", *_MORE, "left out", *_MORE), "lrrrrrrrrr")
            groups.append((name, Table(heads, each)))
    widths = ", ".join(f"{leaf} {value:.1%}" for leaf, value in fit.widths.items())
    kept = "; ".join(part.prior.name for part in fit.constants if not part.resolved)
    return _refined_document(
        refined,
        "Constants from measured runs",
        "runs",
        f"{refined.runs} of {refined.rows} runs used; they determine {shown} of {len(fit.constants)} constants",
        Table(columns(("constant", "prior", "fitted", "uncertain by", "runs", "sources"), "lrrrrr"), rows),
        Table(columns(("errors", "runs", "median", *_MORE), "lrrrrr"), [*_run_error_rows(refined)]),
        groups,
        written,
        shown,
        " --afresh" if refined.afresh else "",
        [
            *([f"widths of the band: {widths}"] if widths else []),
            *([f"left at their priors, not identified by these runs: {kept}"] if kept else []),
        ],
        [_predictions_section(refined)],
    )


def _predictions_section(refined: Refined) -> Section:
    """A section with the measured time of each run, its prediction before and after the fit, and what was assumed."""
    common, own = filled_cells([run.filled for run in refined.timed])
    rows = [
        (run.run, show_time(run.measured), show_time(now), show_time(then), cells)
        for (run, now, then), cells in zip(refined.predictions, own, strict=True)
    ]
    last = (FILLED,) if any(own) else ()
    heads = columns(("run", "measured", "before", "after", *last), "lrrr" + "l" * len(last))
    table = Table(heads, [row[: len(heads)] for row in rows], brief=_RUNS, rest="run")
    return Section("runs", "Runs", table=table, beneath=filled_lines(common))


def uncertainty_words(part: Posterior) -> str:
    """The uncertainty of a fitted constant as text: its relative spread, or for a share its interval."""
    if not part.prior.share:
        return f"{part.spread:.0%}"
    low, high = part.interval
    return f"{low:.0%} to {high:.0%}"


def _run_error_rows(refined: Refined) -> Iterator[tuple[str, ...]]:
    """The table rows of errors: of the constants in use, at the priors, in sample, and on left-out groups."""
    fit = refined.fit
    yield "as in use", *_error_cells(fit.shipped)
    if refined.afresh:
        yield "at the priors", *_error_cells(fit.at_priors)
    yield "in sample", *_error_cells(fit.inside)
    if fit.left_out is not None:
        yield f"{refined.grouping} left out", *_error_cells(fit.left_out)


def runs_json(refined: Refined, written: Iterable[Path]) -> dict[str, Any]:
    """The calibration from training runs as plain values."""
    fit = refined.fit
    errors = {"shipped": fit.shipped, "prior": fit.at_priors, "in_sample": fit.inside, "left_out": fit.left_out}
    left_out = {
        grouping: {
            name: {"in_sample": _step_errors(inside), "left_out": _step_errors(outside)}
            for name, (inside, outside) in parts.items()
        }
        for grouping, parts in ((refined.grouping, fit.by_group), ("models", fit.by_kind))
    }
    constants = [
        {
            "name": part.prior.name,
            "documents": list(part.prior.documents),
            "leaves": [part.prior.leaf],
            "prior": part.prior.mean,
            "times": part.prior.like or None,
            "value": part.value,
            "spread": part.spread,
            "prior_spread": part.prior.spread,
            "scale": "log-odds" if part.prior.share else "log",
            "resolved": part.resolved,
            "runs": part.runs,
            "families": list(part.families),
        }
        for part in fit.constants
    ]
    predictions = [
        {"id": run.run, "measured_s": run.measured, "before_s": now, "after_s": then, "filled": dict(run.filled)}
        for run, now, then in refined.predictions
    ]
    more = {"constants": constants, "predictions": predictions, "left_out": left_out, "widths": dict(fit.widths)}
    scored = {name: None if each is None else _step_errors(each) for name, each in errors.items()}
    return _refined_fields(refined, "runs", written, errors=scored, **more)


def _step_errors(errors: Errors) -> dict[str, Any]:
    """The errors of step times as plain values."""
    return _errors_by_quantity({"step_time": errors})


def _errors_by_quantity(errors: Mapping[str, Errors]) -> dict[str, Any]:
    """Errors as plain values, by measured quantity."""
    return {quantity: asdict(each) for quantity, each in errors.items()}


def benchmarks_document(engine_fit: EngineFit, written: Sequence[Path]) -> AnswerDocument:
    """The constants fitted to benchmarks of engines, with their priors and errors."""
    from costmodel.evidence.calibrate.engine_fit import written as value_of

    rows = []
    for each in engine_fit.constants:
        fitted = (value_of(each.constant, each.value), f"{each.spread:.0%}") if each.identified else ("as prior", "")
        rows.append((each.constant.name, value_of(each.constant, each.prior), *fitted))
    groups = []
    for quantity in engine_fit.unseen or ():
        values = [
            (part.value, *_error_cells(part.shipped[quantity])[:2], *_error_cells(part.unseen[quantity])[1:])
            for part in engine_fit.by_value
            if quantity in part.unseen
        ]
        name = f"{quantity} by {engine_fit.grouping}"
        groups.append((name, Table(columns((name, "runs", "as shipped", "left out", *_MORE), "lrrrrrr"), values)))
    shown, every = sum(constant.identified for constant in engine_fit.constants), engine_fit.runs + len(engine_fit.left)
    return _refined_document(
        engine_fit,
        "Constants from benchmarks of engines",
        "benchmarks",
        f"{engine_fit.runs} of {every} runs used; they determine {shown} of {len(engine_fit.constants)} constants",
        Table(columns(("constant", "prior", "fitted", "uncertain by"), "lrrr"), rows),
        Table(columns(("errors", "", "runs", "median", *_MORE), "llrrrrr"), [*_engine_error_rows(engine_fit)]),
        groups,
        written,
        shown,
    )


def _engine_error_rows(engine_fit: EngineFit) -> Iterator[tuple[str, ...]]:
    """The table rows of errors for each quantity: as shipped, fitted, and on left-out groups."""
    parts = {
        "as shipped": engine_fit.shipped,
        "fitted": engine_fit.fitted,
        f"{engine_fit.grouping} left out": engine_fit.unseen,
    }
    for quantity in engine_fit.shipped:
        for name, errors in parts.items():
            if errors:
                yield quantity, name, *_error_cells(errors[quantity])


def benchmarks_json(engine_fit: EngineFit, written: Iterable[Path]) -> dict[str, Any]:
    """The calibration from engine benchmarks as plain values."""
    constants = [
        {
            "name": constant.constant.name,
            "documents": constant.constant.documents,
            "leaves": [str(leaf) for leaf in constant.constant.leaves],
            "prior": constant.prior,
            "times": None,
            "value": constant.value,
            "spread": constant.spread,
            "prior_spread": constant.constant.spread,
            "scale": "log",
            "resolved": constant.identified,
        }
        for constant in engine_fit.constants
    ]
    left_out = {
        part.value: {
            "shipped": _errors_by_quantity(part.shipped),
            "left_out": _errors_by_quantity(part.unseen),
            "constants": dict(part.constants),
        }
        for part in engine_fit.by_value
    }
    unseen = None if engine_fit.unseen is None else _errors_by_quantity(engine_fit.unseen)
    errors = {
        "shipped": _errors_by_quantity(engine_fit.shipped),
        "in_sample": _errors_by_quantity(engine_fit.fitted),
        "left_out": unseen,
    }
    groups = {engine_fit.grouping: left_out} if engine_fit.grouping else {}
    return _refined_fields(engine_fit, "benchmarks", written, constants=constants, errors=errors, left_out=groups)


# The answer of `measure`: what was timed on the device at hand.

_SHAPES = ("n_gpus", "bytes", "b", "h", "l", "dim", "m", "n", "k")
_TIMES = ("fwd_us", "bwd_us", "predicted_fwd_us", "predicted_bwd_us", "time_us")
_NEXT_STEP = "Keep them with -o mine.csv, then: costmodel calibrate mine.csv"


def measured_document(device: Device, timings: MeasuredKernels) -> AnswerDocument:
    """The operations that `measure` timed on this device, with their shapes and times in µs."""
    rows = [row for row in timings.rows if not row.get("skipped")]
    shape, times = (
        [name for name in names if any(row.get(name) is not None for row in rows)] for names in (_SHAPES, _TIMES)
    )
    cells = [
        [
            _operation_name(row),
            *(_count_text(row.get(name)) for name in shape),
            *(_time_text(row.get(name)) for name in times),
        ]
        for row in rows
    ]
    heads = ["op", *shape, *(name.replace("_us", " us").replace("_", " ") for name in times)]
    about: list[Line] = [styled(f"{device.name}, PyTorch {device.torch}", HEAD)]
    about += [styled("these are times of a processor, not of a GPU", WARN)] if device.is_processor else []
    table = Table(columns(heads, "l" + "r" * (len(heads) - 1)), cells)
    left = [*(styled(sentence, WARN) for sentence in measurement_remarks(timings)), styled(_NEXT_STEP)]
    sections = [Section("operations", "Operations", table=table), Section("remarks", "Remarks", beneath=left)]
    stated = f"{number_of(len(rows), 'operation')} timed on {device.name}."
    return AnswerDocument(None, f"Operations of {device.name}", about, stated, "plain", sections)


RESULTS_FOLDER = "points"  # the folder of results


def points_document(case: LoadedScenario, benchmark_points: Sequence[BenchmarkPoint]) -> AnswerDocument:
    """The benchmarks that determine the constants of an engine, with expected times and commands."""
    heads = ("users", "prompt", "output", "first token", "token", "time", "GPU hours")
    rows = [
        [
            *(f"{count:,}" for count in (each.users, each.prompt, each.output)),
            *map(show_time, (each.first, each.token, each.seconds)),
            significant(each.busy / 3600),
        ]
        for each in benchmark_points
    ]
    hours = significant(sum(each.busy for each in benchmark_points) / 3600)
    stated = f"{number_of(len(benchmark_points), 'benchmark')} of {case.title} take {hours} GPU hours."
    scenario = f"{PurePath(case.file).stem}.yaml"
    first = f"Put the scenario beside the results, as {RESULTS_FOLDER}/{scenario}, start the engine, then:"
    lines = [styled(first), *(styled(f"  {each.command}") for each in benchmark_points)]
    ahead: list[Line] = [styled(stated, HEAD)]
    closing: list[Line] = [styled(f"Then: costmodel calibrate --follow {RESULTS_FOLDER} --write")]
    section = Section("points", "Benchmarks to run", stated, ahead=ahead, table=Table(columns(heads, "r" * 7), rows))
    sections = [section, Section("commands", "Commands", beneath=lines, asked=True)]
    return AnswerDocument(case, "Benchmarks to run", [], stated, "plain", sections, closing=closing)


def points_json(case: LoadedScenario, benchmark_points: Sequence[BenchmarkPoint]) -> dict[str, Any]:
    """The benchmarks that determine the constants of an engine, as plain values."""
    return {
        **schema_head("costmodel/benchmark-points/v1"),
        "scenario": case.file,
        "points": [
            {
                "users": each.users,
                "prompt": each.prompt,
                "output": each.output,
                "predicted_ttft_s": each.first,
                "predicted_tpot_s": each.token,
                "seconds": each.seconds,
                "gpu_hours": each.busy / 3600,
                "command": each.command,
            }
            for each in benchmark_points
        ],
    }


def measurement_remarks(timings: MeasuredKernels) -> list[str]:
    """Sentences on skipped shapes and the reasons, and on a measurement that was stopped."""
    reasons = Counter(_skip_reason(row["skipped"]) for row in timings.rows if row.get("skipped"))
    skipped = [f"{count:,} shapes were skipped: {reason}" for reason, count in reasons.items()]
    return skipped + [f"stopped: {len(timings.rows):,} rows were finished by then"] * timings.stopped


def _skip_reason(skipped: str) -> str:
    """The reason for a skipped shape, without its numbers."""
    return "there was not time for them" if skipped.startswith(LACKED_TIME) else skipped


def _operation_name(row: dict[str, Any]) -> str:
    """The name of an operation with its kernel, and its number type unless that is bf16."""
    return " ".join(filter(None, (row["op"], row.get("kernel"), row["dtype"].replace("bf16", ""))))


def _count_text(value: float | None) -> str:
    """A whole number as text; empty for None."""
    return "" if value is None else f"{value:,.0f}"


def _time_text(value: float | None) -> str:
    """A time in µs as text with one decimal; empty for None."""
    return "" if value is None else f"{value:,.1f}"


def measured_json(device: Device, timings: MeasuredKernels) -> dict[str, Any]:
    """The measured operations as plain values; times in µs, as in kernel tables."""
    return {
        **schema_head("costmodel/measured-kernels/v1"),
        "device": device.name,
        "processor": device.is_processor,
        "torch": device.torch,
        "driver": device.driver,
        "complete": not timings.stopped,
        "rows": timings.rows,
    }
