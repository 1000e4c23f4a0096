"""Imports logs and benchmark results as rows of a table of measured runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from costmodel.documents.reader.library import CachedReader, DocumentReader
from costmodel.documents.reader.load_scenario import any_from, load_any
from costmodel.documents.reader.resolved_scenario import LoadedScenario, training
from costmodel.documents.reader.serving_scenario import serving
from costmodel.documents.schemas.model import Layers, Model
from costmodel.documents.text.files import MAXIMUM_BYTES, file_head
from costmodel.documents.text.yaml_tree import copied
from costmodel.estimate.training_answer.predict_training import Answer, predict
from costmodel.evidence.validate.modelled_rows import modelled
from costmodel.evidence.validate.spelling import CannotModel
from costmodel.exchange.import_result import Loss, StatedKey
from costmodel.exchange.logs.benchmark_result import BenchmarkRow, benchmark_results
from costmodel.exchange.logs.step_lines import Log, read_log
from costmodel.exchange.logs.trainer_log import WARM_UP, MeasuredRun, measured_run, trainer_log
from costmodel.exchange.tables.csv_cells import row_of, row_texts
from costmodel.exchange.tables.run_table import BETWEEN, COLUMNS
from costmodel.exchange.tables.serving_table import COLUMNS as SERVING_COLUMNS
from costmodel.exchange.tables.serving_table import OF_RUNS, REPLACES
from costmodel.explore.import_export.export_plan import plan_without_open_choices
from costmodel.explore.import_export.import_file import GivenBesideFile, import_files
from costmodel.ground.errors import CostModelError, Fault, Place, fail
from costmodel.ground.record import record

_SCENARIO = "schema: costmodel/scenario/"  # of a scenario that is written by hand
_ARGUMENTS = "- arguments -"  # at the head of a log of Megatron-LM
_APART = 0.02  # by which a batch, or a prediction, of the row and of the layout may differ
_COMPARE = "costmodel diagnose, with the scenario of that layout and --step, compares the whole of it"
MOST_BYTES = MAXIMUM_BYTES  # of a log that are read
_REMEDY = "cut the part that is to be measured out of it"


@record
class ImportedRun:
    """One run of a log: its table row, what the log states, and the columns that stay empty."""

    file: str
    run: MeasuredRun
    row: dict[str, Any]
    open: tuple[str, ...]
    warnings: tuple[Fault, ...]


def import_run(name: str, configs: Sequence[str], beside: GivenBesideFile, warm_up: int | None = None) -> ImportedRun:
    """The run of a training log; without files that state its layout, the layout columns stay empty."""
    text, more = file_head(name, MOST_BYTES)
    log = _parsed_log(text.replace("\r\n", "\n").replace("\r", "\n"), name, more)
    run = measured_run(log, WARM_UP if warm_up is None else warm_up)
    sources = list(configs) or _log_as_layout(text, name, more)
    row: dict[str, Any] = {"id": name.rsplit("/", 1)[-1], "source": name}
    cut = f"only its first {MOST_BYTES:,} bytes are read" if more else ""
    parts = [part for part in (cut, log.unread) if part]
    warnings = [Fault("X010", f"the log is long: {part}", Place(name), _REMEDY) for part in parts]
    answer: Answer | None = None
    if sources:
        case, document = _scenario_of_files(sources, beside)
        answer = predict(training(case))
        layout = layout_cells(answer)
        warnings += _batch_warning(layout, run, name)
        row |= layout | {"settings": settings_cell(document)}
    figures = dict(run.figures)
    rate = figures.pop("samples_per_s", None)
    batch = row.get("global_batch") or figures.get("global_batch")
    if rate and batch and "step_time_s" not in figures:
        figures["step_time_s"] = batch / rate
    if "peak_mem_gb" in figures:
        row["mem_metric"] = "max reserved" if run.format == "torchtitan" else "max allocated"
    row = {**figures, **row, **{key: value for key, value in figures.items() if key != "global_batch"}}
    ordered = {column: row[column] for column in COLUMNS if row.get(column) is not None}
    wanted = ("layers", "hidden", "heads", "seq_len", "gpus", "global_batch", "accelerator")
    if answer is not None:
        warnings += incomplete_row_warning(answer, ordered, name)
    return ImportedRun(name, run, ordered, tuple(key for key in wanted if key not in ordered), tuple(warnings))


def _scenario_of_files(sources: Sequence[str], beside: GivenBesideFile) -> tuple[LoadedScenario, Mapping[str, Any]]:
    """The scenario that files describe (launch files, or a scenario itself), and its keys."""
    if len(sources) == 1 and _SCENARIO in file_head(sources[0], MOST_BYTES)[0]:
        case = load_any(sources[0], beside.assignments)
        return case, case.original
    document = import_files(sources, beside).found.document
    return any_from(DocumentReader(), copied(document), sources[-1], ()), document


@record
class ImportedResults:
    """Rows of a benchmark's results, the program that wrote them, and the columns that nothing states.

    keys, losses: what became of every key of the results
    """

    file: str
    program: str
    rows: tuple[dict[str, Any], ...]
    open: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    keys: tuple[StatedKey, ...] = ()
    losses: tuple[Loss, ...] = ()


def import_results(names: Sequence[str], configs: Sequence[str], beside: GivenBesideFile) -> ImportedResults | None:
    """Rows of benchmark results, with engine, plan and machine from `configs`; None if the files are other logs."""
    imported = []
    for name in names:
        results = benchmark_results(file_head(name, MOST_BYTES)[0].replace("\r\n", "\n"), name)
        if results is None:
            return None
        imported.append(results)
    rows = [
        _benchmark_row(name, number, each, configs, beside)
        for name, results in zip(names, imported, strict=True)
        for number, each in enumerate(results.rows, 1)
    ]
    left = tuple(name for name in OF_RUNS if any(name not in row and REPLACES.get(name) not in row for row in rows))
    return ImportedResults(
        " and ".join(names),
        " and ".join(dict.fromkeys(results.program for results in imported)),
        tuple(rows),
        left,
        tuple(dict.fromkeys(row.remark for results in imported for row in results.rows if row.remark)),
        tuple({(key.name, key.verdict): key for results in imported for key in results.keys}.values()),
        tuple(dict.fromkeys(loss for results in imported for loss in results.losses)),
    )


def _benchmark_row(
    name: str, number: int, each: BenchmarkRow, configs: Sequence[str], beside: GivenBesideFile
) -> dict[str, Any]:
    """The table row of one benchmark result, with counts and rates for one replica."""
    row: dict[str, Any] = {"id": f"{PurePath(name).stem}-{number}", "source": PurePath(name).name, **each.cells}
    beside_row, replicas = _engine_cells(configs, beside, each.cells)
    row |= beside_row
    for column in ("concurrency", "requests", "requests_per_s"):
        if column in row and replicas > 1:
            row[column] = row[column] / replicas
        if column in row and column != "requests_per_s":
            row[column] = max(1, round(row[column]))
    if each.tokens_per_s and row.get("gpus"):
        row["tokens_per_s_per_gpu"] = each.tokens_per_s / (row["gpus"] * replicas)
    return {column: row[column] for column in SERVING_COLUMNS if row.get(column) is not None}


def _engine_cells(
    configs: Sequence[str], beside: GivenBesideFile, load: Mapping[str, Any]
) -> tuple[dict[str, Any], float]:
    """Cells for engine, model, plan and machine of one replica, and the number of replicas."""
    if not configs:
        given = dict(text.partition("=")[::2] for text in beside.assignments)
        cells: dict[str, Any] = {"engine": given.get("stack"), "model": given.get("model"), "gpu": beside.gpu or None}
        cells |= {key: given.get(f"plan.{key}") for key in ("tp", "pp", "ep", "dp_attention")}
        unused = [key for key in given if key not in ("stack", "model", *(f"plan.{name}" for name in cells))]
        if unused:
            hint = "--config serve.sh, with the command of the engine"
            raise fail("C001", f"--set {unused[0]} has no effect on results without the engine's command", None, hint)
        return {key: value for key, value in cells.items() if value is not None}, 1.0
    users = load.get("concurrency", load.get("requests"))
    asked = {"prompt": str(load["prompt"]), "answer": str(load["output"]), "concurrency": str(users)}
    case = serving(_scenario_of_files(configs, replace(beside, load=asked))[0])
    plan, workload = case.scenario.plan, case.scenario.workload
    if plan is None:
        return {}, 1.0
    groups, stages = plan.dp_attention or 1.0, plan.pp or 1.0
    cells = {
        "engine": case.stack.name,
        "model": next(iter(case.hub), None) or case.model.name,
        "gpu": case.accelerator.name,
        "gpus": plan.tp * groups * stages,
        "tp": plan.tp * groups,
        "pp": stages,
        "dp_attention": groups,
        "ep": plan.ep or 1.0,
        "precision": _precision_cell(workload.precision, workload.weights),
        "cache_type": workload.cache,
        "max_num_batched_tokens": case.stack.budget if isinstance(case.stack.budget, float) else None,
    }
    return {key: _plain_cell(value) for key, value in cells.items() if value is not None}, plan.replicas or 1.0


def _precision_cell(precision: str, weights: str | None) -> str:
    """The number type of a checkpoint, as the column `precision` spells it."""
    if weights is not None and weights.startswith(("int4", "q4")):
        return "int4"
    kind = weights or precision
    return {"fp8-block": "fp8_block", "nvfp4": "fp4", "mxfp4": "fp4"}.get(kind, kind)


def _log_as_layout(text: str, name: str, more: bool) -> list[str]:
    """The log itself as a layout file, if it prints its arguments; else empty."""
    if _ARGUMENTS not in text[:20_000]:
        return []
    if more:
        sentence = f"its own arguments are read of a log of {MOST_BYTES:,} bytes at most"
        raise fail("X010", sentence, Place(name), f"{_REMEDY}, or name the file with its layout by --config")
    return [name]


def _parsed_log(text: str, name: str, more: bool) -> Log:
    """The steps of a log; raises a fault if it has none."""
    try:
        return trainer_log(text, name) or read_log(text, name)
    except CostModelError:
        if not more:
            raise
        sentence = f"no training step is in the first {MOST_BYTES:,} bytes of this log, and no more is read"
        raise fail("X010", sentence, Place(name), _REMEDY) from None


def _batch_warning(layout: dict[str, Any], run: MeasuredRun, file: str) -> list[Fault]:
    """A warning if the log and its layout state different batches."""
    theirs, ours = run.figures.get("global_batch"), layout["global_batch"]
    if theirs is None or abs(theirs - ours) <= _APART * ours:
        return []
    sentence = f"the log has {theirs:g} sequences in a step and its layout {ours:g}: the layout's are taken"
    return [Fault("X004", sentence, Place(file), "is this the configuration of that run?")]


def incomplete_row_warning(answer: Answer, row: dict[str, Any], file: str) -> list[Fault]:
    """A warning if a row predicts another step time than its full layout, so columns are missing."""
    try:
        models = modelled(row_of(Place(file), list(row), row_texts(row, row), COLUMNS), CachedReader())
    except CannotModel as error:
        return [Fault("X004", f"validate cannot predict this row: {error.why}", Place(file), _COMPARE)]
    theirs, ours = (float(one.evaluation.costs.column("step_time")[0]) for one in (models, answer))
    if abs(theirs - ours) <= _APART * ours:
        return []
    sentence = f"validate predicts {theirs:.3g} s for this row, and estimate {ours:.3g} s for its layout"
    return [Fault("X004", f"{sentence}: the columns do not describe all of it", Place(file), _COMPARE)]


def layout_cells(answer: Answer) -> dict[str, Any]:
    """Cells for the model, machine, plan and number types of an answer."""
    case = answer.inputs.case
    plan, workload = plan_without_open_choices(answer), case.scenario.workload
    cells = {
        "framework": case.stack.name,
        "seq_len": workload.sequence,
        "global_batch": workload.global_batch,
        "precision": workload.precision,
        "accelerator": case.accelerator.name,
        "gpus": case.node.accelerators * case.scenario.cluster.nodes,
        "gpus_per_node": case.node.accelerators,
        "tp": plan.tp, "pp": plan.pp, "vp": plan.vpp, "cp": plan.cp, "dp": plan.dp, "ep": plan.ep, "etp": plan.etp,
        "zero_stage": plan.zero,
        "seq_parallel": plan.sequence_parallel,
        "micro_batch": plan.micro_batch,
        "recompute": _recompute_cell(plan.recompute, plan.recompute_modules, plan.recompute_layers),
        "features": f"schedule={plan.schedule}" if plan.pp > 1 else None,
        **_model_cells(case.model),
    }  # fmt: skip
    return {key: _plain_cell(value) for key, value in cells.items() if value is not None}


def _recompute_cell(mode: str | None, modules: list[Any] | None, layers: float | None) -> str:
    if mode == "selective" and modules:
        return f"selective:{'+'.join(modules)}"
    return f"full:{layers:g}" if mode == "full" and layers is not None else str(mode)


def _model_cells(model: Model) -> dict[str, Any]:
    """Cells for the shape of the model."""
    kinds = model.layers
    cores = ((kind.attention or kind.latent or kind.compressed) for kind in kinds)
    part = next((core for core in cores if core is not None), None)
    dense = next((kind.mlp for kind in kinds if kind.mlp is not None), None)
    sparse = next((kind.experts for kind in kinds if kind.experts is not None), None)
    shared = sparse.shared.ffn_hidden / sparse.ffn_hidden if sparse is not None and sparse.shared is not None else None
    attention: Layers = next((kind for kind in kinds if kind.attention is not None), kinds[0])
    grouped = attention.attention
    return {
        "model_name": model.name,
        "arch": "moe" if sparse is not None else "dense",
        "layers": sum(kind.count for kind in kinds),
        "hidden": model.hidden,
        "ffn": dense.ffn_hidden if dense is not None else sparse.ffn_hidden if sparse is not None else None,
        "heads": part.heads if part is not None else None,
        "kv_heads": grouped.kv_heads if grouped is not None else None,
        "head_dim": grouped.head_dim if grouped is not None else None,
        "vocab": model.vocab,
        "glu": (dense or sparse).gated if dense is not None or sparse is not None else None,  # type: ignore[union-attr]
        "n_experts": sparse.count if sparse is not None else None,
        "topk": sparse.top_k if sparse is not None else None,
        "moe_ffn": sparse.ffn_hidden if sparse is not None else None,
        "n_shared_experts": shared,
        "n_dense_layers": sum(kind.count for kind in kinds if kind.mlp is not None) if sparse is not None else None,
        "tied_embeddings": model.tied,
    }


def _plain_cell(value: Any) -> Any:
    return round(value) if isinstance(value, float) and value == round(value) else value


_IN_COLUMNS = {
    "workload": ("kind", "sequence", "global_batch", "precision"),
    "plan": (
        *("dp", "tp", "pp", "vpp", "cp", "ep", "etp", "zero", "sequence_parallel", "micro_batch", "schedule"),
        *("recompute", "recompute_layers"),
    ),
    "stack": ("schema", "name", "title", "like", "source", "sources"),
    "model": ("schema", "name", "title", "source", "sources", "vocab", "hidden", "tied", "layers"),
    "cluster": ("nodes",),
}
_OF_NO_STEP = ("tokens", "critical_batch", "learning_rate", "price", "server_price")  # of the whole run, or of its cost


def settings_cell(scenario: Mapping[str, Any]) -> str | None:
    """The keys of a scenario that have no column, as one cell of --set assignments; None if there are none."""
    assignments = list(_settings_without_column(scenario))
    return BETWEEN.join(f"{path}={_set_value_text(value)}" for path, value in assignments) or None


def _settings_without_column(scenario: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Path and value of every key of a scenario that has no column."""
    for part in ("model", "cluster", "workload", "stack", "plan", "assume"):
        held, left_out = scenario.get(part), (*_IN_COLUMNS.get(part, ()), *_OF_NO_STEP)
        if part == "model" and isinstance(held, str):
            yield part, held
        for key, value in held.items() if isinstance(held, Mapping) else ():
            if key not in left_out:
                yield from _values_under(f"{part}.{key}", value)


def _values_under(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Path and value of every single value under a path."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _values_under(f"{path}.{key}", inner)
    else:
        yield path, value


def _set_value_text(value: Any) -> str:
    """A value as --set accepts it."""
    if isinstance(value, list):
        return f"[{', '.join(map(_set_value_text, value))}]"
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)
