"""A row that is made of a log is predicted as the layout that it was made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costmodel.documents.reader.library import CachedReader
from costmodel.documents.reader.load_scenario import load
from costmodel.estimate.training_answer.predict_training import Answer, predict
from costmodel.evidence.validate.modelled_rows import modelled
from costmodel.evidence.validate.spelling import CannotModel
from costmodel.exchange.tables.csv_cells import CsvRow, row_of
from costmodel.exchange.tables.run_table import COLUMNS
from costmodel.explore.import_export.import_file import GivenBesideFile, import_file
from costmodel.explore.import_export.import_logs import import_run, incomplete_row_warning, layout_cells, settings_cell
from costmodel.ground.errors import Place

pytestmark = pytest.mark.usefixtures("in_its_folder")

LOG = "".join(
    f" iteration {step:8d}/ 100 | consumed samples: {512 * step} | elapsed time per iteration (ms): 31000.0 | "
    f"global batch size:   512 |\n"
    for step in range(1, 21)
)
# Without --tp-comm-overlap nothing of tensor parallelism hides, which the stack assumes otherwise.
SCRIPT = """torchrun --nproc_per_node 8 --nnodes 16 pretrain_gpt.py --tensor-model-parallel-size 8 \\
--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 5 --num-layers 80 --hidden-size 8192 \\
--ffn-hidden-size 28672 --num-attention-heads 64 --group-query-attention --num-query-groups 8 --seq-length 8192 \\
--max-position-embeddings 8192 --micro-batch-size 1 --global-batch-size 512 --swiglu --normalization RMSNorm \\
--position-embedding-type rope --untie-embeddings-and-output-weights --disable-bias-linear --bf16 \\
--use-distributed-optimizer --sequence-parallel --overlap-grad-reduce --overlap-param-gather --use-flash-attn \\
--vocab-size 128256 --tokenizer-type NullTokenizer --train-iters 1000 --recompute-activations
"""


def row_with(cells: dict[str, Any]) -> CsvRow:
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in cells.items()}
    return row_of(Place("runs.csv", 2), list(texts), list(texts.values()), COLUMNS)


def seconds(answer: Answer) -> float:
    return float(answer.evaluation.costs.column("step_time")[0])


def test_a_log_is_predicted_with_what_its_launch_file_states(tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text(SCRIPT, "utf-8")
    (tmp_path / "run.log").write_text(LOG, "utf-8")
    beside = GivenBesideFile(node="dgx-h100", nodes=16)
    script = str(tmp_path / "train.sh")
    found = import_run(str(tmp_path / "run.log"), [script], beside)
    assert "assume.overlap.tp=0" in found.row["settings"].split(";")
    assert not found.warnings
    (tmp_path / "train.yaml").write_text(import_file(script, beside).text_of(None), "utf-8")
    stated = seconds(predict(load(str(tmp_path / "train.yaml"))))
    assert seconds(modelled(row_with(found.row), CachedReader())) == pytest.approx(stated, rel=1e-3)
    without = {**found.row, "settings": ""}
    assert seconds(modelled(row_with(without), CachedReader())) < 0.9 * stated


@pytest.mark.parametrize(
    ("scenario", "wanted"),
    [
        ("lora-llama-3-70b-8", "workload.tuning.method=lora"),
        ("deepseek-v3-2048", "plan.first_stage_layers=2"),
        ("offload-llama-2-13b-8", "plan.offload=["),
    ],
)
def test_a_row_of_a_scenario_is_predicted_as_the_scenario(scenario: str, wanted: str) -> None:
    case = load(scenario)
    answer = predict(case)
    row = layout_cells(answer) | {"settings": settings_cell(case.original)}
    assert wanted in row["settings"]
    found = modelled(row_with(row), CachedReader())
    assert seconds(found) == pytest.approx(seconds(answer), rel=1e-6)
    assert found.evaluation.costs.column("memory_share") == pytest.approx(
        answer.evaluation.costs.column("memory_share"), rel=1e-6
    )
    [fault] = incomplete_row_warning(answer, {**row, "hidden": row["hidden"] // 2, "settings": ""}, "run.log")
    assert fault.code == "X004"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ("title=x", "settings: 'title=x' is no key=value of model, cluster, workload, stack, plan, assume"),
        ("assume.overlap.tp", "settings: 'assume.overlap.tp' is no key=value"),
        ("assume.overlap.tp=often", "tp: "),
        ("assume.overlap.tq=1", "tq: "),
        ("plan.tp.x=1", "settings: 'plan.tp' is a value and has no 'x'"),
        ("model=no-such-model", "model: "),
    ],
)
def test_settings_that_are_none_skip_their_row(settings: str, reason: str) -> None:
    row = layout_cells(predict(load("quickstart"))) | {"settings": settings}
    with pytest.raises(CannotModel) as caught:
        modelled(row_with(row), CachedReader())
    assert (caught.value.code, caught.value.why[: len(reason)]) == ("V006", reason)
