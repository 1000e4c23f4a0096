"""calibrate: efficiencies from measured kernels."""

from __future__ import annotations

from typing import Annotated

import typer

from costmodel.commands import completion
from costmodel.commands.output import written as written_whole
from costmodel.commands.shared import VerboseOption, answering
from costmodel.report.reply import Reply

FilesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="MEASURED", help="CSV tables of kernels, or what nccl-tests printed; '-' for stdin", show_default=False
    ),
]
WriteOption = Annotated[bool, typer.Option("--write", help="Write the fits marked ✓ to hardware/efficiencies/ here")]
ReplaceOption = Annotated[
    bool, typer.Option("--replace", help="Let kernels replace what was set from whole training steps")
]
NodeOption = Annotated[
    str | None,
    typer.Option(
        "--node",
        help="The node these were measured on, where the table does not say",
        show_default=False,
        autocompletion=completion.documents,
    ),
]
SourceOption = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="KEY",
        help="Source to cite, a key of the document",
        show_default="calibrate",
    ),
]


@answering
def calibrate(
    files: FilesArgument,
    write: WriteOption = False,
    replace: ReplaceOption = False,
    node: NodeOption = None,
    source: SourceOption = None,
    verbose: VerboseOption = False,
) -> Reply:
    """Efficiencies fitted from measured kernels: how well each closed form describes them, and the constants.

    Examples:

      costmodel calibrate gemm.csv all_reduce_perf.txt

      costmodel calibrate all_reduce_perf.txt --node dgx-h200 --json

      costmodel calibrate all_reduce_perf.txt --write > told.txt

    A table has a timing in each row: costmodel explain D015 names the columns. The error held out is that of one half
    of the shapes under constants fitted on the other. --write keeps comments and order; what is in use stays where a
    fit is no better, or where it was set from whole training steps.

    Next: costmodel show h100-sxm --fitted
    """
    from costmodel.explore.calibrate import calibrated
    from costmodel.explore.renewal import decided, renewed
    from costmodel.report import calibration

    found = calibrated(files, node)
    decisions = decided(found, replace=replace)
    texts = renewed(decisions, source) if write else {}
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        written_whole(path, text)
    return Reply(
        lambda: calibration.calibration(found, decisions, list(texts), verbose),
        lambda: calibration.calibration_json(found, decisions, list(texts)),
        rows="fits",
    )
