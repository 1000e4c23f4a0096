"""calibrate: constants from measured kernels, or from measured runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from costmodel.commands import completion, replies
from costmodel.commands.answer_options import PAGE, answering_in, optional, optional_argument
from costmodel.commands.output import lock_for_update, write_all_or_none
from costmodel.commands.validate import WhereOption, check_named_once, values_by_column
from costmodel.ground.errors import fail
from costmodel.report.terminal.layout import Reply

FilesArgument = Annotated[
    list[str] | None,
    optional_argument(
        metavar="MEASURED", help="CSV tables of kernels, output of nccl-tests, or CSV tables of runs; '-' for stdin"
    ),
]
WriteOption = Annotated[bool, typer.Option("--write", help="Write the fits marked ✓ to hardware/efficiencies/ here")]
ReplaceOption = Annotated[
    bool, typer.Option("--replace", help="Let kernels replace constants that were fitted to whole training steps")
]
NodeOption = Annotated[
    str | None,
    optional(
        "--node", help="Node of the measurements, if the table does not state it", autocompletion=completion.documents
    ),
]
SourceOption = Annotated[
    str | None,
    optional("--source", metavar="KEY", help="Source to cite, a key of the document; default: the tables themselves"),
]


class LeaveOut(StrEnum):
    """Columns whose groups can be left out of a fit in turn (leave-one-group-out)."""

    SOURCE_FAMILY = "source_family"
    SOURCE = "source"
    ACCELERATOR_FAMILY = "accelerator_family"
    ACCELERATOR = "accelerator"
    FRAMEWORK = "framework"
    MODEL = "model"
    MODEL_NAME = "model_name"
    PRECISION = "precision"
    MAKER = "maker"
    STACK = "stack"
    LAYER_KIND = "layer_kind"
    MODEL_ON_ACCELERATOR = "model_name,accelerator"


LeaveOutOption = Annotated[
    LeaveOut | None,
    optional(
        "--leave-out",
        metavar="COLUMN",
        help="For runs: also fit without each value of a column, such as source, and predict its runs as unseen",
    ),
]
AfreshOption = Annotated[
    bool, typer.Option("--afresh", help="For runs: fit every constant, starting from its prior; needs many runs")
]


FollowOption = Annotated[
    str | None,
    optional("--follow", metavar="FOLDER", help="Read a folder of logs, with launch files or scenarios of their names"),
]
GpuOption = Annotated[
    str,
    optional(
        "--gpu",
        help="With --follow: accelerator of logs whose files state none",
        autocompletion=completion.accelerators,
    ),
]


@answering_in(*PAGE)
def calibrate(
    files: FilesArgument = None,
    follow: FollowOption = None,
    gpu: GpuOption = "",
    write: WriteOption = False,
    replace: ReplaceOption = False,
    node: NodeOption = None,
    source: SourceOption = None,
    leave_out: LeaveOutOption = None,
    afresh: AfreshOption = False,
    where: WhereOption = None,
) -> Reply:
    """Fit constants to measured kernels, or to measured runs: three runs of your own improve the predictions.

    Examples:
      costmodel calibrate gemm.csv all_reduce_perf.txt
      costmodel calibrate all_reduce_perf.txt --node dgx-h200 --json
      costmodel calibrate all_reduce_perf.txt --write > result.txt
      costmodel calibrate mine.csv
      costmodel calibrate runs.csv --leave-out source_family
      costmodel calibrate serving.csv --where engine=vllm
      costmodel calibrate serving.csv --leave-out source
      costmodel calibrate --follow nightly/

    In a table of kernels each row is a timing: costmodel explain D015 lists the columns. The held-out error is that of
    one half of the shapes with constants fitted on the other half. --write preserves comments and order. A constant is
    kept if the new fit is no better, or if it was fitted to whole training steps.

    In a table of runs each row is a run: costmodel explain D014 lists the columns. The shipped values are the priors;
    the fit updates the slowdown of a real step, the network share and the host time. Constants that the runs do not
    determine stay unchanged.
    In a table with tpot_s or ttft_s each row is a benchmark of a serving engine; three or more of one engine refine
    its host time and the start of its benchmarks, close to the shipped values. --afresh and --leave-out fit the ten
    constants that engines share instead, to the time per token of all engines; this takes many benchmarks.

    --follow reads logs of Megatron-LM, torchtitan and the Trainer and results of benchmark clients as costmodel import
    does. A log takes its layout from files of its name beside it or above it: nightly/llama.sh for
    nightly/2026-11-30/llama.log. The answer has errors before and after, and the change of every document as a patch.

    Exit code 1 when --write does not write a fit because it does not describe the runs.

    Next: costmodel show h100-sxm --fitted
    """
    from costmodel.evidence.calibrate.fit_from_kernels import calibrated
    from costmodel.evidence.calibrate.fit_from_runs import decide, updated_document
    from costmodel.exchange.tables.kernel_table import is_run_table, is_serving_table
    from costmodel.report.answers import calibrate as report

    if follow is not None:
        given = {"a table": files, "--replace": replace, "--source": source, "--leave-out": leave_out}
        for option in (name for name, value in (given | {"--afresh": afresh, "--where": where}).items() if value):
            raise fail("C014", f"{option} does not apply to --follow {follow}", None, "leave it out")
        return _fit_folder(follow, gpu, node, write=write)
    if gpu or not files:
        what = "--gpu belongs to --follow" if gpu else "no measurement is named"
        raise fail("C014", what, None, "name tables of kernels or runs, or a folder of logs with --follow")
    check_named_once(files)
    kernels = {"--node": node is not None, "--source": source is not None, "--replace": replace}
    steps = {"--leave-out": leave_out is not None, "--afresh": afresh}
    if is_serving_table(files[0]):
        _refuse_kernel_options(files[0], kernels)
        return _calibrate_from_benchmarks(files, leave_out, values_by_column(where or []), afresh=afresh, write=write)
    runs = is_run_table(files[0])
    _refuse_unsuited(files[0], "runs" if runs else "kernels", kernels, {"--where": bool(where)} | steps)
    if runs:
        return _calibrate_from_runs(files, leave_out, values_by_column(where or []), afresh=afresh, write=write)
    fits = calibrated(files, node)
    decisions = decide(fits, replace=replace)
    texts = _write_fits(lambda: updated_document(decisions, source)) if write else {}
    written = list(texts)
    document = lambda: report.kernels_document(fits, decisions, written)  # noqa: E731
    return replies.document_reply(document, lambda: report.kernels_json(fits, decisions, written), "fits")


def _fit_folder(folder: str, gpu: str, node: str | None, *, write: bool) -> Reply:
    """Fits constants to the runs in a folder of logs; the documents that this changes are part of the answer."""
    from costmodel.explore.import_export.import_file import GivenBesideFile
    from costmodel.explore.import_export.import_log_folder import fit_log_folder
    from costmodel.report.answers import calibrate as report

    folder_fits = fit_log_folder(folder, GivenBesideFile(node=node or "", gpu=gpu), node)
    texts = {path: text for path, (_, text) in folder_fits.documents.items()}
    written = list(_write_fits(lambda: texts, own=True)) if write else []
    fits = (folder_fits.training, *folder_fits.engines)
    return replies.document_reply(
        lambda: report.log_folder_document(folder_fits, written),
        lambda: report.log_folder_json(folder_fits, written),
        "parts",
        yes=not (write and any(fit is not None and fit.why for fit in fits)),
    )


def _write_fits(texts: Callable[[], Mapping[Path, str]], *, own: bool = False) -> Mapping[Path, str]:
    """Writes the documents with the fits, while other processes that calibrate in this folder wait."""
    from costmodel.documents.text.yaml_editor import refuse_shipped

    with lock_for_update(Path("hardware")):
        documents = texts()
        if own:
            refuse_shipped(documents)
        write_all_or_none(documents, folder=True)
    return documents


def _refuse_unsuited(file: str, held: str, of_kernels: Mapping[str, bool], of_runs: Mapping[str, bool]) -> None:
    """Raises a fault for an option that does not apply to this kind of table."""
    wrong, other = (of_kernels, "kernels") if held == "runs" else (of_runs, "runs")
    for option in (name for name, given in wrong.items() if given):
        hint = f"leave it out; it goes with tables of {other}"
        raise fail("C014", f"{option} does not apply to {file}, which contains {held}", None, hint)


def _calibrate_from_runs(
    files: list[str], leave_out: LeaveOut | None, where: dict[str, list[str]], *, afresh: bool, write: bool
) -> Reply:
    """The answer of fitting constants to tables of training runs."""
    from costmodel.evidence.calibrate.fit_from_runs import refine, texts
    from costmodel.report.answers import calibrate as report

    refined = refine(files, where=where, leave_out=leave_out.value if leave_out else None, afresh=afresh)
    documents = [*_write_fits(lambda: texts(refined), own=not afresh)] if write else []
    answer, result = lambda: report.runs_document(refined, documents), lambda: report.runs_json(refined, documents)
    return replies.document_reply(answer, result, "constants", yes=not (write and refined.why))


def _refuse_kernel_options(file: str, options: Mapping[str, bool]) -> None:
    """Raises a fault for an option that only applies to tables of kernels."""
    for option in (name for name, given in options.items() if given):
        raise fail("C014", f"{file} has serving runs, to which {option} does not apply", None, "leave it out")


def _calibrate_from_benchmarks(
    files: list[str], leave_out: LeaveOut | None, where: dict[str, list[str]], *, afresh: bool, write: bool
) -> Reply:
    """The answer of fitting constants of an engine to serving benchmarks."""
    from costmodel.evidence.calibrate.engine_fit import engine_fit, engine_texts
    from costmodel.report.answers import calibrate as report

    found = engine_fit(files, where=where, leave_out=leave_out.value if leave_out else "", afresh=afresh)
    documents = [*_write_fits(lambda: engine_texts(found), own=True)] if write else []
    answer, result = (
        lambda: report.benchmarks_document(found, documents),
        lambda: report.benchmarks_json(found, documents),
    )
    return replies.document_reply(answer, result, "constants", yes=not (write and found.why))
