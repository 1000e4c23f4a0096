"""export: a plan of costmodel as a file that starts a training, or as the command of a serving engine."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costmodel.commands import replies
from costmodel.commands.answer_options import answering_with_file
from costmodel.commands.scenario_options import Question, question_command
from costmodel.report.terminal.layout import FileOutput, Reply

if TYPE_CHECKING:
    from costmodel.documents.reader.resolved_scenario import LoadedScenario
    from costmodel.report.answers.export import AnyExport


class ExportFormat(StrEnum):
    """The formats that `export` writes."""

    MEGATRON = "megatron"
    BRIDGE = "bridge"
    TORCHTITAN = "torchtitan"
    DEEPSPEED = "deepspeed"
    ACCELERATE = "accelerate"
    HF = "hf"
    VLLM = "vllm"
    SGLANG = "sglang"
    TRT_LLM = "trt-llm"
    KUBERNETES = "kubernetes"
    LLM_D = "llm-d"
    DYNAMO = "dynamo"
    VERL = "verl"
    NEMO_RL = "nemo-rl"
    OPENRLHF = "openrlhf"
    SLIME = "slime"
    TRL = "trl"


_MEANT = {re.sub(r"[^a-z0-9]", "", one): one for one in ExportFormat} | {
    "tensorrtllm": ExportFormat.TRT_LLM,
    "megatronlm": ExportFormat.MEGATRON,
    "megatroncore": ExportFormat.MEGATRON,
    "megatronbridge": ExportFormat.BRIDGE,
    "transformers": ExportFormat.HF,
    "k8s": ExportFormat.KUBERNETES,
    "kube": ExportFormat.KUBERNETES,
    "huggingface": ExportFormat.HF,
    "helm": ExportFormat.KUBERNETES,
}
_SYNTAXES = {".toml": "TOML", ".yaml": "YAML", ".py": "Python"}  # that other programs read from files of such names
_LAUNCHERS = ("torchrun", "slurm", "sbatch", "srun", "mpirun", "accelerate launch")  # which start any of the formats


def _formats_that_start(incomplete: str) -> list[str]:
    """Formats whose names start with the incomplete word."""
    return [str(one) for one in ExportFormat if one.startswith(incomplete)]


@answering_with_file
@question_command
def export(
    question: Question,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="FORMAT",
            help=f"Format of the file: {', '.join(ExportFormat)}",
            show_default="megatron, or the engine or software of another scenario",
            autocompletion=_formats_that_start,
        ),
    ] = "",
    rank: Annotated[
        int | None,
        typer.Option(
            "--rank", min=1, max=1000, help="Plan of this rank in the search; default: the plan that estimate takes"
        ),
    ] = None,
    lossy: Annotated[bool, typer.Option("--lossy", help="Omit keys that the format cannot express")] = False,
) -> Reply:
    """Write a plan as options or configuration of the software that runs it; default: the plan that estimate takes.

    Examples:
      costmodel export llama-3-70b-512 --to megatron
      costmodel export llama-3-70b-512 --to torchtitan --lossy
      costmodel export llama-3-70b-512 --to megatron --rank 3 > train.sh
      costmodel export mine.yaml --to deepspeed -o ds.json > what-was-printed.txt
      costmodel export serve-llama-3.1-70b --to vllm
      costmodel export serve-llama-3.1-70b --to sglang > serve.sh

    The answer states the version of the options and which plan is written: without --rank that of the scenario or of
    --set, whose other keys have the defaults of the software; with neither, the best of the search. The file is read
    back before it is written, and must give the same plan. Exit code 1, and nothing written, if the format cannot
    express a key (--lossy writes the rest), or if the plan does not fit or misses a limit or the load. An engine's
    command comes with the line to expect in its log and the benchmark that tests the prediction; for an engine other
    than the scenario's, the memory fraction is converted so that the cache keeps its size.

    Next: costmodel import FILE
    """
    from costmodel.explore.workload_flags import writer_of
    from costmodel.report.answers import export as report

    wanted = _format_named(to)
    planned = rank is None and (wanted is None or writer_of(wanted).plans_ahead)  # as estimate plans flags
    case = question.loaded(planned=planned)
    exported = _export_plan(case, wanted, rank)
    return replies.document_reply(
        lambda: report.export_document(exported, lossy=lossy),
        lambda: report.export_json(exported),
        "",
        yes=lossy or not exported.file.faults,
        found=exported,
        filed=FileOutput(
            lambda path: _text_for_file(exported, path), lambda path: report.export_summary(exported, path)
        ),
    )


def _text_for_file(exported: AnyExport, path: Path) -> str:
    """The text of the exported file; a fault if the name of the file is one of another syntax, such as TOML."""
    from costmodel.ground.errors import Place, fail
    from costmodel.report.answers.export import file_text

    target, stated = exported.file.target, path.suffix.lower().replace(".yml", ".yaml")
    if stated in _SYNTAXES and stated != target.suffix:
        place = Place("command line", 0, len("-o ") + 1, "", f"-o {path}", len(str(path)))
        sentence = f"{target.full_name} is no {_SYNTAXES[stated]}: nothing written"
        raise fail("C007", sentence, place, f"-o {path.with_suffix(target.suffix)}")
    return file_text(exported)


def _format_named(word: str) -> ExportFormat | None:
    """The format that a word names, in any spelling; for an unknown word, a fault that suggests the nearest."""
    from costmodel.documents.keys.suggestions import nearest
    from costmodel.ground.errors import Place, fail

    plain = re.sub(r"[^a-z0-9]", "", word.lower())
    if not word or plain in _MEANT:
        return _MEANT[plain] if word else None
    close = "" if word.lower() in _LAUNCHERS else nearest(plain, list(_MEANT))
    meant = f"did you mean {_MEANT[close].value}? " if close else ""
    meant = meant or (f"{word} starts what another format writes; " if word.lower() in _LAUNCHERS else "")
    place = Place("command line", 0, len("--to ") + 1, "", f"--to {word}", max(1, len(word)))
    raise fail("D009", f"no format is called '{word}'", place, f"{meant}known: {', '.join(ExportFormat)}")


def _export_plan(case: LoadedScenario, to: ExportFormat | None, rank: int | None) -> AnyExport:
    """The plan of a scenario, which must do what is asked, in a format, which must be one of its workload."""
    from costmodel.commands.by_workload import commands_of
    from costmodel.documents.keys.workload_keys import WORKLOADS
    from costmodel.explore.workload_flags import flags_of, writer_of
    from costmodel.explore.workloads import check_exportable
    from costmodel.ground.errors import Place, fail

    commands, formats = commands_of(case, "export"), flags_of(case.kind).formats
    wanted = commands.usual_format(case) if to is None else to.value
    if wanted not in formats:
        sentence = f"{wanted} {writer_of(wanted).does}, and this scenario is for {WORKLOADS[case.kind]}"
        hint = f"--to {', '.join(formats)}"
        raise fail("C030", sentence, case.place("workload.kind") or Place(case.file), hint)
    exported = commands.export(case, wanted, rank)
    check_exportable(exported.answer, case)
    return exported
