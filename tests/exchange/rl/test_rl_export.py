"""Configurations of reinforcement learning that are written, and read back by import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costmodel.documents.reader.load_scenario import load_any
from costmodel.documents.reader.rl_scenario import reinforced
from costmodel.explore.import_export.export_plan import ExportedIteration, export_iteration

NAME = "grpo-qwen-2.5-7b-64"
APART = ("plan.rollout.colocated=false", "plan.rollout.ranks=32", "workload.staleness=1")
ROOM = "cluster.node=dgx-h200"  # for each of these plans
AHEAD = "workload.rollouts=partial"
TOKENS = "plan.micro_batch=32768 tokens"
MEGATRON = ("plan.zero=1", "plan.tp=2", "stack.trainer=megatron-core", TOKENS)


def written(name: str, *settings: str) -> ExportedIteration:
    case = reinforced(load_any(NAME, (f"stack={name}", "plan.cp=1", ROOM, *settings)))
    return export_iteration(case, name)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("verl", ()),
        ("verl", ("plan.cp=2", TOKENS, "workload.algorithm=dapo", "plan.rollout.offload=true")),
        ("verl", (*APART, AHEAD)),
        ("verl", ("workload.rollout_precision=fp8-block", *MEGATRON)),
        ("nemo-rl", ("plan.zero=1", TOKENS)),
        ("nemo-rl", ("plan.zero=1", *APART)),
        ("openrlhf", ("plan.zero=3", TOKENS)),
        ("openrlhf", ("workload.algorithm=rloo", *APART, AHEAD)),
        (
            "openrlhf",
            (
                "workload.algorithm=ppo",
                *APART,
                "plan.beside={critic: 16, reference: 8}",
                "plan.micro_batch=4",
                "stack.sharing.padded=true",
            ),
        ),
        ("slime", ("plan.zero=1", "plan.tp=2", "plan.sequence_parallel=true")),
        ("slime", ("plan.zero=1", *APART, AHEAD)),
        ("trl", ()),
    ],
)
def test_what_is_written_comes_back_as_the_same_iteration(name: str, settings: tuple[str, ...]) -> None:
    assert written(name, *settings).file.faults == ()


@pytest.mark.parametrize(
    ("name", "settings", "key"),
    [
        ("slime", ("plan.zero=3",), "plan.zero"),
        ("openrlhf", ("plan.rollout.colocated=false", "plan.rollout.ranks=32", "workload.staleness=0.5", AHEAD),
         "plan"),
        ("verl", ("cluster={groups: [{node: dgx-h100, nodes: 4}, {node: dgx-h200, nodes: 4}]}",), "cluster.groups"),
        ("areal", (), "stack"),
    ],
)  # fmt: skip
def test_what_a_configuration_cannot_state_is_refused_by_its_key(
    name: str, settings: tuple[str, ...], key: str
) -> None:
    case = reinforced(load_any(NAME, (f"stack={name}", "plan.cp=1", *settings)))
    found = export_iteration(case, name if name != "areal" else "verl")
    assert key in [fault.place.path for fault in found.file.faults if fault.place is not None]


def test_the_command_writes_a_file_that_import_reads(run: Any, tmp_path: Path) -> None:
    out = tmp_path / "train.sh"
    ran = run("export", NAME, "--to", "verl", "-o", str(out))
    assert (ran.code, "# read back: the same plan" in out.read_text()) == (0, True)
    beside = ("--node", "dgx-h100", "--prompt", "1000", "--answer", "4000")
    assert run("import", str(out), *beside, "-o", str(tmp_path / "back.yaml")).code == 0
    assert "plan:" in (tmp_path / "back.yaml").read_text()
    assert run("export", "quickstart", "--to", "verl").code == 2
