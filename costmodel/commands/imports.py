"""import: converts files of other tools to a document, or a log to a measured run."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from costmodel.commands import completion
from costmodel.commands.answer_options import answering_document, optional, optional_argument
from costmodel.commands.scenario_options import AnswerOption, ConcurrencyOption, PromptOption, RateOption
from costmodel.ground.errors import fail
from costmodel.report.terminal.layout import FileOutput, Reply

if TYPE_CHECKING:
    from costmodel.exchange.import_result import Imported
    from costmodel.explore.import_export.import_file import GivenBesideFile
    from costmodel.explore.import_export.import_logs import ImportedResults


class ImportedKind(StrEnum):
    """The output of `import`: a document, or a table of measured runs."""

    DOCUMENT = "document"
    RUNS = "runs"


FilesArgument = Annotated[
    list[str],
    optional_argument(
        metavar="FILE...",
        help="config.json of transformers or a folder with one; a script, YAML or log with Megatron-LM options; JSON "
        "of DeepSpeed, YAML of accelerate, TrainingArguments, a configuration of torchtitan; a command of vLLM, SGLang "
        "or TensorRT-LLM, in a file or in quotes; a configuration of verl, NeMo RL, OpenRLHF, TRL, slime or AReaL; "
        "nvidia-smi topo -m, nodes of Slurm or Kubernetes; '-' for stdin",
    ),
]
NodeOption = Annotated[str, optional("--node", help="Machine that it runs on", autocompletion=completion.nodes)]
NodesOption = Annotated[int | None, optional("--nodes", min=1, help="Number of nodes; default: as the files state")]
GpusOption = Annotated[
    int | None,
    optional("--gpus", min=1, help="Number of accelerators, also fewer than a node has; default: as the files state"),
]
GpuOption = Annotated[
    str,
    optional(
        "--gpu",
        "--accelerator",
        help="Accelerator that it runs on, in its usual node; of a machine, the one that the tool does not print",
        autocompletion=completion.accelerators,
    ),
]
VocabOption = Annotated[
    int | None, optional("--vocab", min=1, help="Vocabulary size, if it is only in a tokenizer file")
]
GivenOption = Annotated[
    list[str] | None,
    optional(
        "--set",
        metavar="PATH=VALUE",
        help="A key that no file states, e.g. --set workload.sequence=4096; may be repeated",
    ),
]
FormatsOption = Annotated[
    list[str] | None,
    optional(
        "--from",
        metavar="FORMAT",
        help="Format of the file, as costmodel list formats names it, or config; once for each of several files",
    ),
]
KindOption = Annotated[ImportedKind, typer.Option("--as", help="runs: a log as a row for validate and calibrate")]
ConfigOption = Annotated[
    list[str] | None, optional("--config", metavar="FILE", help="For a log: a file with its layout; may be repeated")
]
WarmupOption = Annotated[
    int | None, typer.Option("--warmup", min=0, help="For a log: number of first steps to drop", show_default="5")
]
PartialOption = Annotated[bool, typer.Option("--partial", help="Write the known values although others are missing")]
StrictOption = Annotated[bool, typer.Option("--strict", help="Exit code 1 if a key is unknown, approximated or lost")]


@answering_document
def import_file(
    files: FilesArgument,
    gpu: GpuOption = "",
    node: NodeOption = "",
    nodes: NodesOption = None,
    gpus: GpusOption = None,
    vocab: VocabOption = None,
    assignments: GivenOption = None,
    kind: KindOption = ImportedKind.DOCUMENT,
    config: ConfigOption = None,
    warmup: WarmupOption = None,
    partial: PartialOption = False,
    strict: StrictOption = False,
    rate: RateOption = None,
    concurrency: ConcurrencyOption = None,
    prompt: PromptOption = None,
    answer: AnswerOption = None,
    formats: FormatsOption = None,
) -> Reply:
    """Convert a config.json to a model, launch files to a scenario, a log to a measured run, a machine to a cluster.

    Examples:
      costmodel import scenarios/examples/qwen3-8b
      costmodel import config.json -o model.yaml > what-was-read.txt
      costmodel import train.sh --node dgx-h100 --nodes 4 -o mine.yaml > what-was-read.txt
      costmodel import config.json ds.json --node dgx-h100 --nodes 4 --set workload.sequence=4096 > mine.yaml
      costmodel import serve.sh --gpu h200 --rate 8 --prompt 2048 --answer 512 > mine.yaml
      costmodel import "vllm serve Qwen/Qwen3-8B" --gpu h100 --rate 8 --prompt 2048 --answer 512 > mine.yaml
      costmodel import serve.sh benchmark.sh --gpu h200 > mine.yaml
      costmodel import options.yaml --from vllm --set model=qwen-3-8b --gpu h100 --rate 8 --prompt 2048 > mine.yaml
      costmodel import grpo.sh --gpu h100 --prompt 300 --answer 4k > mine.yaml
      costmodel import topo.txt --gpu h100 --node dgx-h100 > cluster.yaml
      costmodel import run.log --as runs --config train.sh --node dgx-h100 --nodes 4 -o runs.csv > what-was-read.txt
      costmodel import result-*.json --as runs --config serve.sh --gpu h100 -o runs.csv > what-was-read.txt

    Several files describe one training job; a contradiction between them is an error. Nothing is run or downloaded.
    With -o the document goes to a file, and the answer lists what was read and what was omitted. Exit code 2, and
    nothing written, if no document can express what the file states; with --strict, exit code 1 if anything is lost.

    Next: costmodel estimate mine.yaml
    """
    from costmodel.explore.import_export.import_file import GivenBesideFile

    flags = {"rate": rate, "concurrency": concurrency, "prompt": prompt, "answer": answer}
    load = {name: text for name, text in flags.items() if text is not None}
    beside = GivenBesideFile(
        node, nodes, vocab, partial, tuple(assignments or ()), gpu, load, gpus, tuple(formats or ())
    )
    if kind is ImportedKind.RUNS:
        return _runs_reply(files, config or [], beside, warmup, strict=strict)
    if config or warmup is not None:
        raise fail("C001", "--config and --warmup are of a log", None, "add --as runs")
    return _document_reply(files, beside, strict=strict)


def _document_reply(files: list[str], beside: GivenBesideFile, *, strict: bool) -> Reply:
    """The model or scenario that files of other tools are converted to."""
    from costmodel.explore.import_export.import_file import import_files
    from costmodel.report.data_formats.answer_fields import without_places
    from costmodel.report.terminal import import_summary as report

    read_file = import_files(files, beside)
    imported = read_file.found
    lost = bool(imported.warnings) or _is_lossy(imported)
    return Reply(
        lambda: report.document_lines_of(read_file),
        lambda: report.import_json(read_file, without_places(imported.document)),
        yes=not (strict and lost),
        filed=FileOutput(read_file.text_of, lambda path: report.summary(read_file, path)),
    )


def _is_lossy(imported: Imported | ImportedResults) -> bool:
    """Whether the output omits or approximates a key of the file."""
    named = [*(loss.kind for loss in imported.losses), *(key.verdict for key in imported.keys)]
    return any(verdict in ("approximated", "not expressible") for verdict in named)


def _runs_reply(
    files: list[str], config: list[str], beside: GivenBesideFile, warm_up: int | None, *, strict: bool
) -> Reply:
    """The table row that a log is converted to."""
    from costmodel.explore.import_export.import_logs import import_results, import_run
    from costmodel.report.terminal import import_summary as report

    results = import_results(files, config, beside)
    if results is None and len(files) != 1:
        raise fail("C001", "one log is one run", None, "its layout goes behind --config; import each log by itself")
    if results is not None:
        if warm_up is not None:
            raise fail("C001", "--warmup applies to training logs only", None, "leave it out")
        return Reply(
            lambda: report.results_summary(results),
            lambda: report.results_json(results),
            "runs",
            yes=not (strict and _is_lossy(results)),
        )
    imported = import_run(files[0], config, beside, warm_up)
    yes = not (strict and imported.warnings)
    return Reply(lambda: report.run_summary(imported), lambda: report.run_json(imported), "runs", yes=yes)
