"""Reads a folder of logs into tables of measured runs, and fits constants to them.

A log takes its layout from files of the same name beside it, or in a folder above it up to the one that is named:
`nightly/llama-tp2.sh` for `nightly/2026-11-30/llama-tp2.log` and `nightly/2026-11-30/llama-tp2.second.log`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from costmodel.documents.text.files import digest, file_head
from costmodel.documents.text.yaml_editor import in_use
from costmodel.evidence.calibrate.engine_fit import EngineFit, engine_fit, engine_texts
from costmodel.evidence.calibrate.fit_from_kernels import Calibrated, calibrated
from costmodel.evidence.calibrate.fit_from_runs import Decision, Refined, decide, refine, texts, updated_document
from costmodel.exchange.logs.benchmark_result import benchmark_results
from costmodel.exchange.logs.step_lines import read_log
from costmodel.exchange.logs.trainer_log import is_engine_start, trainer_log
from costmodel.exchange.tables import run_table, serving_table
from costmodel.exchange.tables.csv_cells import row_of, row_texts
from costmodel.exchange.tables.kernel_table import is_run_table, is_serving_table, read_measured
from costmodel.exchange.tables.nccl_tests import is_nccl_text
from costmodel.exchange.tables.run_table import Table
from costmodel.exchange.tables.serving_table import LOGGED, ServingTable
from costmodel.explore.import_export.import_file import GivenBesideFile
from costmodel.explore.import_export.import_logs import MOST_BYTES, import_results, import_run
from costmodel.ground.errors import CostModelError, Place, fail
from costmodel.ground.record import record

_MOST = 10_000  # files of a folder
_Fit = TypeVar("_Fit")
_HEAD = 1 << 20  # bytes by which the kind of a file is known


@record
class UnreadFile:
    """A file of a folder that is in no table, and the reason."""

    file: str
    why: str


@record
class LogFolder:
    """The tables of a folder by night, which is the first folder name below it.

    layouts: files that describe runs. starts: start-up logs of engines, to which nothing is fitted
    """

    folder: str
    nights: Mapping[str, Sequence[Table]]
    kernels: Sequence[str]
    starts: Sequence[str]
    layouts: Sequence[str]
    unread: Sequence[UnreadFile]

    def joined(self, kind: type[Table]) -> Table | None:
        """All rows of one kind of table as one table; None if there are none."""
        tables = [table for night in self.nights.values() for table in night if type(table) is kind]
        if not tables:
            return None
        columns = tuple(dict.fromkeys(name for table in tables for name in table.columns))
        rows = tuple(row for table in tables for row in table.rows)
        return kind(self.folder, columns, rows, digest("".join(table.digest for table in tables)))


@record
class FittedFolder:
    """The fits to the runs of a folder, and each changed document before and after."""

    read: LogFolder
    training: Refined | None
    engines: Sequence[EngineFit]
    kernels: Calibrated | None
    decisions: Sequence[Decision]
    documents: Mapping[Path, tuple[str, str]]
    remarks: Sequence[str]


def read_log_folder(name: str, beside: GivenBesideFile) -> LogFolder:
    """The tables of measured runs in a folder, and the files that were not read.

    Raises:
        CostModelError: there is no such folder, or nothing in it is a log or a table
    """
    folder = Path(name)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not _is_hidden(path, folder))[:_MOST]
    if not files:
        raise fail("C005", f"{name} is no folder with files", Place(name), "name the folder of your logs")
    kinds = {path: _kind_of_file(path) for path in files}
    layouts = [path for path in files if kinds[path] == "layout"]
    nights: dict[str, list[Table]] = {}
    unread, used = list[UnreadFile](), set[Path]()
    for path in (path for path in files if kinds[path] in _READ):
        configs = _layout_files_of(path, layouts, folder)
        used.update(configs)
        try:
            table = _READ[kinds[path]](str(path), [str(config) for config in configs], beside, name)
        except CostModelError as error:
            hint = error.faults[0].hint
            unread.append(UnreadFile(str(path), error.faults[0].sentence + (f"; {hint}" if hint else "")))
        else:
            nights.setdefault(path.relative_to(folder).parts[0], []).append(table)
    unread += [UnreadFile(str(path), "no log has its name, and it is no log") for path in layouts if path not in used]
    chosen = {kind: [str(path) for path in files if kinds[path] == kind] for kind in ("kernels", "start")}
    return LogFolder(name, nights, chosen["kernels"], chosen["start"], [*map(str, sorted(used))], unread)


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def _kind_of_file(path: Path) -> str:
    """What a file holds, by its first lines: kernels, table, start, results, log, or else layout."""
    try:
        text = file_head(str(path), _HEAD)[0].replace("\r\n", "\n")
        if is_nccl_text(text):
            return "kernels"
        if path.suffix.lower() == ".csv":
            return "table" if is_serving_table(str(path)) or is_run_table(str(path)) else "kernels"
        if is_engine_start(text):
            return "start"
        if benchmark_results(text, str(path)) is not None:
            return "results"
        return "log" if trainer_log(text, str(path)) or read_log(text, str(path)) else "layout"
    except CostModelError:
        return "layout"


def _layout_files_of(log: Path, layouts: Sequence[Path], folder: Path) -> list[Path]:
    """The files that describe the layout of a log: those in the nearest folder that has some."""
    key = log.name.split(".")[0]
    for parent in (log.parent, *log.parent.parents):
        siblings = [path for path in layouts if path.parent == parent and path.name.split(".")[0] == key]
        if siblings or parent == folder:
            return siblings
    return []


def _read_table(name: str, configs: Sequence[str], beside: GivenBesideFile, source: str) -> Table:
    return read_measured(name)


def _read_training(name: str, configs: Sequence[str], beside: GivenBesideFile, source: str) -> Table:
    """A training log as a table with one row."""
    run = import_run(name, configs, beside)
    if run.open:
        raise fail("C005", f"no file states its {', '.join(run.open)}", Place(name), _launch_file_hint(name))
    return _joined_table(Table, name, [{**run.row, "source": source}], run_table.COLUMNS)


def _read_results(name: str, configs: Sequence[str], beside: GivenBesideFile, source: str) -> Table:
    """Results of a benchmark client as a table."""
    results = import_results([name], configs, beside)
    assert results is not None  # by its kind
    if results.open:
        raise fail("C005", f"no file states its {', '.join(results.open)}", Place(name), _launch_file_hint(name))
    return _joined_table(ServingTable, name, [{**row, "source": source} for row in results.rows], serving_table.COLUMNS)


def _launch_file_hint(name: str) -> str:
    return f"put its launch file or a scenario beside it, {Path(name).name.split('.')[0]}.sh or .yaml"


_Reader = Callable[[str, Sequence[str], GivenBesideFile, str], Table]
_READ: dict[str, _Reader] = {"table": _read_table, "log": _read_training, "results": _read_results}


def _joined_table(kind: type[Table], name: str, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, Any]) -> Table:
    names = [column for column in columns if any(column in row for row in rows)]
    table_rows = [row_of(Place(name), names, row_texts(row, names), columns) for row in rows]
    return kind(name, tuple(names), tuple(table_rows), digest(file_head(name, MOST_BYTES)[0]))


def fit_log_folder(name: str, beside: GivenBesideFile, node: str | None = None) -> FittedFolder:
    """Fits constants to the runs of a folder, and returns the fits with the documents that they change.

    Raises:
        CostModelError: nothing in the folder can be fitted
    """
    read = read_log_folder(name, beside)
    remarks, changed = list[str](), dict[Path, str]()
    training = _fit_or_remark(read.joined(Table), lambda table: refine([table]), remarks)
    engines = [
        *filter(
            None, (_fit_or_remark(each, _engine_fit, remarks) for each in _tables_by_engine(read.joined(ServingTable)))
        )
    ]
    kernels = calibrated(read.kernels, node) if read.kernels else None
    if training is None and not engines and kernels is None:
        unread = [f"{each.file}: {each.why}" for each in read.unread]
        raise fail("C005", f"nothing in {name} can be fitted", Place(name), next(iter([*remarks, *unread]), ""))
    decisions = [] if kernels is None else decide(kernels, replace=False)
    texts_of_fits = [] if training is None else [texts(training)]
    texts_of_fits += [engine_texts(fit) for fit in engines]
    if decisions:
        texts_of_fits.append(dict(updated_document(decisions, None)))
    for documents in texts_of_fits:
        if double := [str(path) for path in documents if path in changed]:
            remarks.append(
                f"{', '.join(double)}: fits of kernels are left out; ask again when those of runs are written"
            )
        changed = documents | changed
    return FittedFolder(
        read,
        training,
        engines,
        kernels,
        decisions,
        {path: (before, text) for path, text in changed.items() if (before := in_use(path)) != text},
        remarks,
    )


def _engine_fit(table: Table) -> EngineFit:
    return engine_fit([table])


def _fit_or_remark(table: Table | None, fit: Callable[[Table], _Fit], remarks: list[str]) -> _Fit | None:
    """The fit of a table; if it fails, None, and its reason is added to `remarks`."""
    if table is None:
        return None
    try:
        return fit(table)
    except CostModelError as error:
        remarks.append(f"{table.file}: {error.faults[0].sentence}")
        return None


def _tables_by_engine(table: Table | None) -> Iterator[Table]:
    """One table of benchmarks for each engine, without start-up logs."""
    rows = [] if table is None else [row for row in table.rows if not row.text(LOGGED)]
    for engine in dict.fromkeys(row.text("engine") for row in rows):
        assert table is not None
        mine = tuple(row for row in rows if row.text("engine") == engine)
        yield ServingTable(table.file, table.columns, mine, table.digest)
