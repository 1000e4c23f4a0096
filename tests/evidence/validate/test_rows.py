"""Rows of measured runs as scenarios: what is stated is modelled as stated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costmodel.documents.reader.library import CachedReader
from costmodel.evidence.validate.modelled_rows import modelled
from costmodel.evidence.validate.validate import validated
from costmodel.exchange.tables.run_table import read_table
from evidence.validate.runs_of_22b import DEEPSEEK, EMPTY, MIXTRAL, MODERN, PIPELINE, SHELF, figure, table

pytestmark = pytest.mark.usefixtures("in_its_folder")


def test_a_stated_row_is_modelled_as_stated(row: Any) -> None:
    found = modelled(row(), SHELF)
    block, case = found.evaluation.block, found.inputs.case
    assert found.filled == {"stack": "megatron-2021"}
    assert [float(column[0]) for column in (block.dp, block.tp, block.pp, block.vpp, block.micro_batch)] == [
        1,
        8,
        1,
        1,
        4,
    ]
    assert (block.structure.zero, block.structure.recompute, block.structure.sequence_parallel) == (0, "full", False)
    assert (case.stack.name, case.accelerator.name, case.scenario.workload.precision) == (
        "megatron-2021", "a100-sxm-80", "fp16",
    )  # fmt: skip
    assert (case.scenario.workload.gradients, case.model.vocab, case.model.tied) == ("fp32", 51200, True)
    assert figure(row()).error == pytest.approx(0.068, abs=0.1)


@pytest.mark.parametrize(
    ("cells", "sizes"),
    [
        ({"cp": 4, "dp": EMPTY}, (2, 4, 1)),
        ({"notes": "FSDP+DP FSDP group=4"}, (8, 1, 2)),
        ({"notes": "FSDP group=8"}, (8, 1, 1)),
        ({"features": "zero1_group=2"}, (8, 1, 4)),
        ({"features": "zero1_group=all"}, (8, 1, 1)),
        ({"features": "zero1_group=0"}, (8, 1, 1)),
        ({"features": "zero1_group=3"}, (8, 1, 1)),
        ({"features": "HSDP;torch.compile", "gpus_per_node": 2}, (8, 1, 4)),
    ],
)
def test_who_shares_a_sequence_and_who_shards(row: Any, cells: dict[str, Any], sizes: tuple[int, int, int]) -> None:
    modern = {"year": 2024, "framework": "NeMo", "zero_stage": 1, "precision": "bf16"}
    block = modelled(row(**{**modern, "tp": 1, "dp": 8, "global_batch": 64, **cells}), SHELF).evaluation.block
    assert (block.dp[0], block.cp[0], block.dp_replicate[0]) == sizes


def test_a_row_of_ulysses_says_so(row: Any) -> None:
    cells = {"year": 2024, "framework": "NeMo", "zero_stage": 1, "tp": 1, "dp": EMPTY, "cp": 8}
    assert modelled(row(**cells), SHELF).evaluation.block.structure.cp_type == "p2p"
    said = row(**cells, notes="CP=Ulysses a2a")
    assert modelled(said, SHELF).evaluation.block.structure.cp_type == "a2a"


def test_a_table_without_that_column_has_no_chunks(tmp_path: Path) -> None:
    path = Path(table(tmp_path, {**PIPELINE, "year": 2024}))
    path.write_text(path.read_text().replace(",vp,", ",chunks,", 1))
    found = modelled(read_table(str(path)).rows[0], SHELF)
    assert (found.evaluation.block.vpp[0], found.filled["vp"]) == (1, "1")
    path.write_text(path.read_text().replace("fp32 grads", "schedule=interleaved"))
    said = modelled(read_table(str(path)).rows[0], SHELF)
    assert said.evaluation.block.vpp[0] == 6


@pytest.mark.parametrize(
    ("cells", "schedule", "vpp"),
    [
        ({"features": "schedule=ZB-1p"}, "zb-h1", 1),
        ({"framework": "Megatron-LM + ZB-2p"}, "zb-h2", 1),
        ({"features": "schedule=ZB-V"}, "zb-v", 2),
    ],
)
def test_a_schedule_is_read_from_features_or_framework(row: Any, cells: Any, schedule: str, vpp: int) -> None:
    block = modelled(row(**PIPELINE | {"nic_gbps_per_gpu": 200} | cells), SHELF).evaluation.block
    assert (block.structure.schedule, block.vpp[0]) == (schedule, vpp)


def test_the_network_is_the_row_s(row: Any) -> None:
    case = modelled(row(gpus=16, gpus_per_node=4, nic_gbps_per_gpu=50, global_batch=8), SHELF).inputs.case
    assert (case.scenario.cluster.nodes, case.node.accelerators, case.node.scale_up.domain) == (4, 4, 4)
    assert (case.scale_out.bandwidth, case.node.scale_out.nics, case.network.of) == (6.25e9, 4, "ib-hdr")
    rack = {"accelerator": "gb200", "gpus": 72, "gpus_per_node": 4, "global_batch": 36, "tp": 8}
    assert modelled(row(**MODERN, **rack), SHELF).inputs.domain == 72
    odd = modelled(row(gpus=12, tp=4, global_batch=12), SHELF).inputs.case
    assert (odd.node.accelerators, odd.scenario.cluster.nodes) == (4, 3)


@pytest.mark.parametrize(
    ("cells", "name", "value"),
    [
        ({"zero_stage": 3}, "zero", 3),  # Megatron-LM of 2022 offers no zero stage 3; a run that states it had it
        ({"cp": 2, "tp": 4, "framework": "InternEvo"}, "cp_type", "p2p"),
        ({"cp": 2, "tp": 4, "features": "CP=Ulysses"}, "cp_type", "a2a"),
        ({"pp": 2, "tp": 4, "global_batch": 16, "features": "schedule=DualPipe"}, "schedule", "dualpipe"),
        ({"recompute": "full:12 layers"}, "recompute_layers", 12),
    ],
)
def test_what_ran_was_on_offer(row: Any, cells: dict[str, Any], name: str, value: Any) -> None:
    found = modelled(row(**cells), SHELF)
    assert getattr(found.evaluation.block.structure, name) == value


def test_notes_that_change_the_model(row: Any) -> None:
    assert modelled(row(notes="with parallel transformer block"), SHELF).inputs.model.layers[0].parallel
    assert not modelled(row(), SHELF).inputs.model.layers[0].parallel


@pytest.mark.parametrize(
    ("framework", "layers", "split"),
    [
        ("Megatron-LM", 61, "spread"),
        ("NeMo", 61, "full-chunks"),
        ("Megatron-Bridge 25.11", 61, "full-chunks"),
        ("NeMo", 62, "lighter-ends"),
        ("NeMo", 63, "lighter-last"),
        ("NeMo", 64, "even"),
    ],
)
def test_layers_that_do_not_divide(row: Any, framework: str, layers: int, split: str) -> None:
    cells = {"framework": framework, "layers": layers, "pp": 8, "tp": 1, "ep": 8, "gpus": 128, "year": 2025}
    found = modelled(row(**{**MIXTRAL, **DEEPSEEK, **cells}), SHELF)
    assert found.evaluation.block.structure.split == split
    assert found.filled.get("stages", "even") == split


def test_rows_share_their_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = table(tmp_path, *({"id": str(index)} for index in range(100)))
    reads = []
    original = CachedReader.tree
    monkeypatch.setattr(
        CachedReader, "tree", lambda self, *given, **more: reads.append(given) or original(self, *given, **more)
    )
    (found,) = validated([path])
    assert (len(found.figures), len(reads)) == (100, len(set(reads)))
    assert len(reads) < 12
