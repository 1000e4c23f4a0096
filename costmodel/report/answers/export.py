"""The answer of `export`: a plan as a file to launch or the command of an engine, with its origin at its head."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.text import Text

from costmodel.documents.schemas.serving.serving_schema import Lengths
from costmodel.exchange.remarks import comment_lines
from costmodel.exchange.serving.engine_options import ServingJob
from costmodel.exchange.training.job import called
from costmodel.explore.export_plan import ExportedIteration, ExportedPlan
from costmodel.explore.export_serving import ExportedEngine
from costmodel.explore.kept_answers import both_words as rl_words
from costmodel.ground.counts import number_of
from costmodel.report.document import AnswerDocument, Section
from costmodel.report.terminal.rl.rl_estimate import result as rl_result
from costmodel.report.terminal.serving.serving_formatting import result as serving_result
from costmodel.report.terminal.style.formatting import result
from costmodel.report.terminal.style.layout import BAD, DIM, WARN, Line, drawn, head, styled, typed

_DEGREES = ("tp", "cp", "pp", "vpp", "ep", "dp")
_OF_A_REPLICA = ("tp", "pp", "ep", "dp_attention", "dcp")

_FLAGS = {"prompt": "--prompt ", "output": "--answer ", "rate": "--rate ", "concurrency": "--concurrency "}
_LOAD = ("prompt", "output", "rate", "concurrency", "users", "think_time", "requests")
_WITHOUT_MODEL = ("deepspeed", "accelerate", "hf")  # formats of files that state no model and no length

Found = ExportedPlan | ExportedEngine | ExportedIteration


def export(found: Found, *, lossy: bool) -> AnswerDocument:
    """The file as it would be written, or the keys that it cannot express."""
    refused = bool(found.file.faults) and not lossy
    lines = _refused(found) if refused else [drawn(line) for line in file_text(found).splitlines()]
    conclusion = "The format does not express every key." if found.file.faults else "The file states the plan."
    return AnswerDocument(
        None,
        f"{found.job.file} for {found.file.target.full_name}",
        [],
        conclusion,
        "bad" if refused else "plain",
        [Section("file", "The file", beneath=lines, apart=False)],
    )


def file_text(found: Found) -> str:
    """The text of the file, its head as comments where the format has them."""
    target = found.file.target
    if not target.comment:
        return found.file.text
    first, newline, rest = found.file.text.partition("\n")
    comments = "".join(f"{line}\n" for words in _head(found) for line in comment_lines(target.comment, words))
    return f"{first}{newline}{comments}{rest}" if first.startswith("#!") else f"{comments}{found.file.text}"


def summary(found: Found, written: Path | None) -> list[Line]:
    """What was written and what could not be written, and the next command."""
    if written is None:
        return _refused(found)
    lines = [styled(line, DIM) for line in _head(found)]
    return [*lines, Text(), typed("Next:", f"costmodel import {written}{_given(found)}")]


def _given(found: Found) -> str:
    """Options that `import` needs for the file: the machine, and for some formats the model and its load."""
    node = found.answer.inputs.case.scenario.cluster.node
    given = [f"--node {node}"] if isinstance(node, str) else []
    if isinstance(found, ExportedEngine):
        load = {key: getattr(found.job.workload, key) for key in _LOAD}
        given += [
            f"{_FLAGS.get(key, f'--set workload.{key}=')}{_amount(key, value)}"
            for key, value in load.items()
            if value is not None
        ]
    elif isinstance(found, ExportedIteration):
        workload = found.job.workload
        given += [f"--prompt {workload.prompt:g} --answer {workload.response.mean:g}"]
        given += [f"--gpus {sum(found.job.ranks)}"] if found.file.target.name == "trl" else []
    elif found.file.target.name in _WITHOUT_MODEL:
        job, calls = found.job, called(found.file.target, found.job).values()
        given += [f"--nodes {job.nodes}"] if given else []
        stated = [f"model={job.model.name}", f"workload.sequence={job.workload.sequence:g}", *itertools.chain(*calls)]
        given += [f"--set {each}" for each in (*stated, *([f"stack={job.stack}"] if found.file.target.calls else []))]
    elif found.file.target.name == "torchtitan" and "model_spec" not in found.file.text:
        given.append(f"--set model={found.job.model.name}")
    return "".join(f" {text}" for text in given)


def _amount(key: str, value: Any) -> str:
    """A length or load, spelt for its flag or for --set."""
    if isinstance(value, Lengths):
        return f"'{{mean: {value.mean:g}, spread: {value.spread:g}}}'" if value.spread else f"{value.mean:g}"
    unit = {"think_time": " s"}.get(key, "")
    return f"'{value:g}{unit}'" if unit else f"{value:g}"


def _head(found: Found) -> Iterator[str]:
    target = found.file.target
    yield f"Written by costmodel export from {found.job.file}: {target.full_name}"
    if isinstance(found, ExportedIteration):
        yield from _of_iteration(found)
    else:
        yield from _of_engine(found) if isinstance(found, ExportedEngine) else _of_step(found)
    yield from (f"cannot be written: {fault.sentence}" for fault in found.file.faults)
    yield from found.file.notes
    if not found.file.faults:
        yield "read back: the same plan"


def _of_step(found: ExportedPlan) -> Iterator[str]:
    sizes = found.answer.evaluation.block
    degrees = ", ".join(f"{name} {float(getattr(sizes, name)[0]):g}" for name in _DEGREES)
    step = result("step_time", found.answer.evaluation.costs.row()["step_time"])
    yield f"{degrees}: {number_of(found.job.accelerators, 'accelerator')}; {step} a step expected"


def _of_iteration(found: ExportedIteration) -> Iterator[str]:
    time = rl_result("iteration_time", found.answer.costs["iteration_time"])
    yield f"{rl_words(found.answer)}; an iteration of {time} expected"


def _of_engine(found: ExportedEngine) -> Iterator[str]:
    job, costs = found.job, found.answer.costs
    first, further = (serving_result(name, costs[name]) for name in ("ttft", "tpot"))
    halves = (found.answer.plan.prefill, found.answer.plan.decode)
    for name, half, each in zip(("prefill", "decode"), halves, (found.prefill, job), strict=True):
        if half is not None and each is not None:
            yield f"{name}: {half.replicas:g} × {_degrees(each)}: {number_of(each.ranks, 'accelerator')} an instance"
    if found.prefill is None:
        yield f"{_degrees(job)}: {number_of(job.ranks, 'accelerator')} a replica"
    yield found.chosen
    yield f"expected: first token {first}, each further one {further}"
    yield f"the options are of {found.file.target.version}; the figures describe {found.answer.inputs.engine.title}"
    if found.translated:
        yield found.translated
    if found.answer.broken:
        yield f"the plan misses what the scenario asks for: {', '.join(found.answer.broken)}"


def _degrees(job: ServingJob) -> str:
    return ", ".join(f"{name} {job.count(name)}" for name in _OF_A_REPLICA if name != "dcp" or job.count(name) > 1)


def _refused(found: Found) -> list[Line]:
    lines: list[Line] = [styled(f"{found.file.target.full_name}: nothing written", BAD)]
    for fault in found.file.faults:
        lines.append(styled(f"  ▲ {fault.code} {fault.sentence}", WARN))
        lines += [styled(f"    {fault.hint}", DIM)] if fault.hint else []
    return [*lines, drawn("--lossy writes the rest")]


def export_json(found: Found) -> dict[str, Any]:
    """The export as plain values: text, version, keys that the format cannot express, and notes."""
    target = found.file.target
    return {
        **head("costmodel/export/v1"),
        "scenario": found.job.file,
        "format": target.name,
        "version": target.version,
        "text": file_text(found),
        "cannot_say": [
            {"code": fault.code, "path": fault.place.path if fault.place else "", "sentence": fault.sentence}
            for fault in found.file.faults
        ],
        "notes": list(found.file.notes),
    }
