"""Shapes of machines: the matrix of nvidia-smi, nodes of Slurm and of Kubernetes, and the nodes that they may be."""

from __future__ import annotations

from pathlib import Path

import pytest

from costmodel.exchange.machine_shape import KUBERNETES, SLURM, TOPOLOGY, machine_format, machine_shape
from costmodel.explore.import_export.import_file import GivenBesideFile, import_file
from costmodel.ground.errors import CostModelError


def matrix(links: str = "NV18", nics: int = 8, gpus: int = 8, odd: str = "") -> str:
    """A matrix in which every accelerator has its own interface."""
    names = [*(f"GPU{gpu}" for gpu in range(gpus)), *(f"mlx5_{nic}" for nic in range(nics))]
    lines = ["\t" + "\t".join([*names, "CPU Affinity", "NUMA Affinity"])]
    for gpu in range(gpus):
        cells = [" X " if other == gpu else links for other in range(gpus)]
        cells[-1] = odd if odd and gpu == 0 else cells[-1]
        cells += ["PIX" if nic == gpu else "SYS" for nic in range(nics)]
        lines.append("\t".join([f"GPU{gpu}", *cells, "0-47", "0"]))
    return (
        "\n".join([*lines, "", "Legend:", "  X    = Self", "  SYS  = PCIe and the interconnect of NUMA nodes"]) + "\n"
    )


SCONTROL = """NodeName=gpu001 Arch=x86_64 CoresPerSocket=48
   CPUAlloc=0 CPUTot=192 Gres=gpu:h100:8(S:0-1)
NodeName=gpu002 Arch=x86_64 CoresPerSocket=48
   CPUAlloc=0 CPUTot=192 Gres=gpu:h100:8(S:0-1)
"""
BATCH = "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --gpus-per-node=h200:8\n#SBATCH --time=1:00:00\nsrun ./mine\n"
NODES = """apiVersion: v1
kind: List
items:
  - kind: Node
    metadata:
      labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3, nvidia.com/gpu.count: "8"}
    status: {allocatable: {nvidia.com/gpu: "8", cpu: "190"}}
  - kind: Node
    metadata:
      labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3, nvidia.com/gpu.count: "8"}
"""


def shape(text: str) -> tuple[object, ...]:
    found = machine_shape(text, "file", machine_format(text))
    return found.format, found.accelerators, found.nodes, found.links, found.nics


def test_a_matrix_shows_accelerators_links_and_interfaces() -> None:
    assert shape(matrix()) == (TOPOLOGY, 8, 1, 18, 8)
    assert shape(matrix(gpus=4, nics=0)) == (TOPOLOGY, 4, 1, 18, 0)
    uneven = machine_shape(matrix("NV4", odd="SYS"), "file", TOPOLOGY)
    assert (uneven.links, uneven.uneven) == (None, True)
    coloured = matrix().replace("GPU0\tGPU1", "\x1b[4mGPU0\tGPU1").replace("Affinity\n", "Affinity\x1b[0m\n")
    assert shape(coloured) == shape(matrix())


def test_slurm_and_kubernetes_state_the_part_and_how_many_nodes() -> None:
    assert shape(SCONTROL) == (SLURM, 8, 2, None, None)
    assert shape(BATCH) == (SLURM, 8, 4, None, None)
    assert shape(NODES) == (KUBERNETES, 8, 2, None, None)
    mixed = SCONTROL.replace("h100:8(S:0-1)\n", "a100:4\n", 1)
    with pytest.raises(CostModelError) as caught:
        shape(mixed)
    assert caught.value.faults[0].code == "X004"


def asked(text: str, path: Path, node: str = "", accelerator: str = "") -> object:
    file = path / "shape.txt"
    file.write_text(text, "utf-8")
    return import_file(str(file), GivenBesideFile(node, None, gpu=accelerator)).found.document


def test_the_node_is_the_users_choice_among_those_of_the_shape(tmp_path: Path) -> None:
    with pytest.raises(CostModelError) as caught:
        asked(matrix(), tmp_path, accelerator="h100-sxm")
    [fault] = caught.value.faults
    assert (fault.code, "8 network interfaces" in fault.sentence) == ("X002", True)
    assert "dgx-h100," in fault.hint
    assert "dgx-h200" not in fault.hint
    assert asked(matrix(), tmp_path, node="dgx-h100") == {"cluster": {"node": "dgx-h100", "nodes": 1}}
    assert asked(NODES, tmp_path, node="dgx-h100") == {"cluster": {"node": "dgx-h100", "nodes": 2}}
    with pytest.raises(CostModelError) as caught:
        asked(matrix(gpus=4, nics=0), tmp_path, accelerator="h100-sxm")
    assert "no network interface seen" in caught.value.faults[0].sentence


@pytest.mark.parametrize(
    ("node", "text"), [("dgx-a100", matrix()), ("dgx-h200", SCONTROL), ("gh200-4", matrix()), ("hgx-h800", matrix())]
)
def test_a_node_of_another_shape_is_a_conflict(node: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(CostModelError) as caught:
        asked(text, tmp_path, node=node)
    assert caught.value.faults[0].code == "X004"


def test_a_matrix_that_is_cut_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(CostModelError) as caught:
        asked("\n".join(matrix().splitlines()[:5]), tmp_path, node="dgx-h100")
    assert caught.value.faults[0].code == "X005"
