"""validate: how accurate predictions are, by source and group."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, cast

import typer

from costmodel.commands import completion, replies
from costmodel.commands.answer_options import PAGE, answering_in, optional, optional_argument
from costmodel.ground.errors import Place, fail
from costmodel.report.terminal.layout import Reply

if TYPE_CHECKING:
    from costmodel.evidence.validate.outcomes import Quantity, Validated


class ValidateQuestion(StrEnum):
    """The quantities that `validate` compares with measurements."""

    TIME = "time"
    MEMORY = "memory"
    REGRET = "regret"
    TPOT = "tpot"
    TTFT = "ttft"
    THROUGHPUT = "throughput"
    CACHE = "cache"


class Grouping(StrEnum):
    """Columns by which `validate` can group figures."""

    SOURCE = "source"
    SOURCE_FAMILY = "source_family"
    GPU = "gpu"
    ACCELERATOR = "accelerator"
    MODEL = "model"
    PRECISION = "precision"
    FRAMEWORK = "framework"
    ARCH = "arch"
    REASON = "reason"
    MAKER = "maker"
    STACK = "stack"
    LAYER_KIND = "layer_kind"


class StepTerm(StrEnum):
    """Terms of a training step, as results name them."""

    MATMUL = "matmul"
    ATTENTION = "attention"
    MEMORY_BOUND = "memory_bound"
    LAUNCH = "launch"
    TP = "tp"
    PP = "pp"
    DP = "dp"
    CP = "cp"
    EP = "ep"
    BUBBLE = "bubble"
    OFFLOAD = "offload"
    OPTIMIZER = "optimizer"


TablesArgument = Annotated[
    list[str] | None,
    optional_argument(
        metavar="MEASURED",
        help="Measured documents, or CSV files of measured runs, '-' for stdin; default: all shipped documents",
        autocompletion=completion.measured,
    ),
]
QuantityOption = Annotated[
    ValidateQuestion | None,
    optional(
        "--quantity",
        metavar="RESULT",
        help="What to compare: time, memory, tpot, ttft, throughput, cache, or regret, which is how well predictions "
        "choose layouts; default: time, for serving tpot",
    ),
]
ByOption = Annotated[
    Grouping | None, optional("--by", metavar="COLUMN", help=f"Group the figures by {', '.join(Grouping)}")
]
WorstOption = Annotated[
    int, typer.Option("--worst", min=0, max=100_000, help="Show this many rows with the largest errors")
]
WhereOption = Annotated[
    list[str] | None,
    optional(
        "--where",
        metavar="COLUMN=VALUE",
        help="Only these runs; may be repeated, another value of the same column adds runs",
    ),
]
WithoutOption = Annotated[
    list[StepTerm] | None,
    optional(
        "--without",
        metavar="TERM",
        help=f"Predict steps without a term, of {', '.join(StepTerm)}; may be repeated. No constant is fitted again",
    ),
]


@answering_in(*PAGE)
def validate(
    tables: TablesArgument = None,
    quantity: QuantityOption = None,
    by: ByOption = None,
    worst: WorstOption = 0,
    where: WhereOption = None,
    without: WithoutOption = None,
    worth: Annotated[
        bool, typer.Option("--worth", help="What each term of a step is worth: errors with it and without it")
    ] = False,
) -> Reply:
    """Compare predictions with measurements: published runs, within the tolerance of their table, or your own runs.

    Examples:
      costmodel validate
      costmodel validate korthikanti-2022 --json
      costmodel validate --by model --worst 2
      costmodel validate serving.csv --quantity ttft --by model
      costmodel validate --worth --by layer_kind

    A CSV file has one run per row: costmodel explain D014 lists its columns. Rules fill empty cells, and --json lists
    the rules. Rows that cannot be modelled are counted under a code, for example V002.

    In a CSV file with a column tpot_s or ttft_s, each row is a benchmark of an engine; with log_kv_gib, a start-up
    log: use --quantity tpot, ttft, throughput or cache. D014 lists these columns too. A .log or .txt file may be the
    start-up log of vLLM or SGLang itself, with a line of nvidia-smi -L.

    Without arguments it prints how far predictions are from the published runs of each source, with the date; name a
    table or a source to see its runs. These runs are in the fit; costmodel calibrate runs.csv --afresh --leave-out
    source_family shows the errors of unseen runs.

    --quantity regret groups runs of the same model, batch and cluster with at least five measured layouts. It picks the
    layout with the fastest prediction, and prints how much slower it ran than the fastest measured layout.

    --without launch shows what a term of the step is worth: the errors of predictions that leave it out.

    Exit code 1 when an error exceeds its tolerance, or no row is modelled; CSV files have no tolerance.

    Next: costmodel show korthikanti-2022
    """
    from costmodel.evidence.validate.scores import scoreboard
    from costmodel.evidence.validate.validate import validated
    from costmodel.report.answers import validate as report

    named = None if quantity is None else "time" if quantity is ValidateQuestion.REGRET else quantity.value
    asked = cast("Quantity | None", "time" if worth else named)
    check_named_once(tables or [])
    alone = not (tables or quantity or by or where or worst or without or worth)
    if worth and (worst or without or quantity not in (None, ValidateQuestion.TIME)):
        sentence = "--worth takes --by and --where, and is about the time of steps"
        raise fail("C005", sentence, Place("command line"), "leave the others out")
    chosen, left = values_by_column(where or []), [term.value for term in without or ()]
    scored = validated(tables, quantity=asked, where=chosen, without=left, count=_count_rows)
    group = by.value if by else None
    if worth:
        return worth_reply(scored, [term.value for term in StepTerm], group, {})
    if quantity is ValidateQuestion.REGRET:
        return _regret_reply(scored, group or "source", worst, left)
    board = scoreboard(scored, left_out=alone)
    document = lambda: report.validation_document(board, group, worst, left, dated=alone)  # noqa: E731
    return replies.document_reply(document, lambda: report.validation_json(board, left), "rows", yes=board.holds)


def _count_rows(done: int, rows: int) -> None:
    """Shows how many rows of a file are done."""
    from costmodel.commands.progress import rename_work

    rename_work(f"{done:,} of {rows:,} rows")


def worth_reply(
    scored: Sequence[Validated], terms: Sequence[str], grouping: str | None, here: Mapping[str, float]
) -> Reply:
    """How much each term of a step improves predictions of measured steps, with its share in a plan if there is one."""
    from costmodel.evidence.validate.scores import worth_of_terms
    from costmodel.report.answers.validate import worth_document, worth_json

    figures = [figure for part in scored for figure in part.figures if figure.parts]
    if not figures:
        raise fail("C005", "no row has a predicted step", Place("command line"), "costmodel validate --worth")
    made = worth_of_terms(figures, terms, grouping)
    unused = [term for term in terms if term not in {each.term for each in made}]
    document = lambda: worth_document(made, len(figures), unused, grouping, here)  # noqa: E731
    return replies.document_reply(document, lambda: worth_json(made, len(figures), unused, here), "terms")


def _regret_reply(scored: list[Validated], grouping: str, worst: int, without: Sequence[str]) -> Reply:
    from costmodel.evidence.validate.scores import layout_regret, sweeps
    from costmodel.report.answers.regret import regret_document, regret_json

    made = layout_regret(sweeps(scored))
    return replies.document_reply(
        lambda: regret_document(made, grouping, worst, without), lambda: regret_json(made, without), "rows"
    )


def check_named_once(tables: Sequence[str]) -> None:
    """Raises a fault for a file that is named twice, because its runs would count twice."""
    seen: dict[str, str] = {}
    for name in tables:
        same = os.path.realpath(name) if os.path.exists(name) else name
        if same in seen:
            also = "" if seen[same] == name else f", as {seen[same]}"
            raise fail("C015", f"{name} is named twice{also}", Place("command line"), "leave one of them out")
        seen[same] = name


def values_by_column(written: list[str]) -> dict[str, list[str]]:
    """The values of each column in `--where column=value` options."""
    chosen: dict[str, list[str]] = {}
    for text in written:
        column, separator, value = text.partition("=")
        if not separator or not column.strip():
            place = Place("command line", 0, len("--where ") + 1, "", f"--where {text}", max(1, len(text)))
            raise fail("C005", f"'{text}' is not column=value", place, "for example --where tier=core")
        chosen.setdefault(column.strip(), []).append(value.strip())
    return chosen
