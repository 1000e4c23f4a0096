"""The machine of a measured run: every shipped accelerator under every usual name, and those of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from each import each

from costmodel.documents.reader import library
from costmodel.documents.reader.find_documents import OTHER, accelerator_meant
from costmodel.documents.reader.library import CachedReader, accelerator_named, names
from costmodel.documents.reader.resolved_scenario import proxy_node
from costmodel.evidence.validate.imputation import Filling
from costmodel.evidence.validate.modelled_rows import modelled
from costmodel.evidence.validate.spelling import CannotModel
from costmodel.evidence.validate.training_rows import cluster_of
from costmodel.evidence.validate.validate import validated
from costmodel.exchange.tables.csv_cells import CsvRow
from costmodel.exchange.tables.run_table import read_table

ROOT = Path(__file__).resolve().parents[3]


def run(folder: Path, gpu: str) -> CsvRow:
    """A row of a model of 7 B parameters on 64 of them."""
    path = folder / "runs.csv"
    names = "id,gpu,gpus,layers,hidden,heads,seq_len,global_batch,fsdp,year,step_time_s"
    path.write_text(f"{names}\na,{gpu},64,32,4096,32,2048,64,true,2024,1\n", "utf-8")
    (row,) = read_table(str(path)).rows
    return row


def test_a_table_compares_each_spelling_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """60 rows of two spellings, half of them unreadable: two comparisons with the names of all accelerators."""
    path, compared = tmp_path / "runs.csv", []
    cells = [("H100", 64), ("NVIDIA A100", "x")] * 30
    rows = [f"{gpu},{gpus},32,4096,32,2048,64,true,2024,1" for gpu, gpus in cells]
    path.write_text(
        "\n".join(["gpu,gpus,layers,hidden,heads,seq_len,global_batch,fsdp,year,step_time_s", *rows]), "utf-8"
    )

    def counted(spelling: str, memory: float | None, *known: Any) -> str:
        compared.append(spelling)
        return accelerator_meant(spelling, memory, *known)

    monkeypatch.setattr(library, "accelerator_meant", counted)
    (part,) = validated([str(path)])
    assert [figure.groups["accelerator"] for figure in part.figures] == ["h100-sxm", "a100-sxm-80"] * 30
    assert [figure.refused for figure in part.figures] == [None, "V010"] * 30
    assert compared == ["H100", "NVIDIA A100"]


def test_every_shipped_accelerator_is_found_and_stands_somewhere() -> None:
    known = names("accelerator")
    stands = [CachedReader().document("accelerator", name).found_in for name in known]
    assert all(stands), "whatever nodes of one's own there are"
    assert set(OTHER.values()) <= set(known)
    assert {stand.node for stand in stands} <= set(names("node"))
    assert [accelerator_named(name) for name in known] == list(known)


@each(
    "spelling, name",
    [
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80"),
        ("nvidia-h100", "h100-sxm"),
        ("nvidia-tesla-a100", "a100-sxm-80"),
        ("NVIDIA_H100_80GB_HBM3", "h100-sxm"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("Tesla V100-SXM2-32GB", "v100-sxm2-32"),
        ("AMD Instinct MI300X", "mi300x"),
        ("MI250X-GCD", "mi250x-gcd"),
        ("TPU v5 litepod", "tpu-v5e"),
        ("TPUv5p", "tpu-v5p"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("Intel Gaudi 3", "gaudi3"),
        ("A100 40GB PCIe", "a100-pcie-40"),
        ("A100-80G", "a100-sxm-80"),
        ("A800", "a800-sxm-80"),
        ("H100-SXM5-80GB", "h100-sxm"),
        ("H100 NVL", "h100-nvl"),
        ("H100-96GB", "h100-sxm-96"),
        ("HGX B200", "b200-sxm"),
        ("GB200 NVL72", "gb200"),
        ("GB200-186GB", "gb200"),
        ("GH200 480GB", "gh200-96"),
        ("V100-SXM3-32GB", "v100-sxm2-32"),
        ("TPU v6e (Trillium)", "tpu-v6e"),
        ("A10G 24GB", "a10g"),
        ("H800 PCIe", ""),
        ("H20 141GB", "h20-141"),
        ("H20", "h20"),
        ("NVIDIA H20-3e", "h20-141"),
        ("H20 64GB", ""),
        ("H200 NVL", "h200-nvl"),
        ("NVIDIA H200", "h200-sxm"),
        ("GH200", "gh200-96"),
        ("NVIDIA GH200 120GB", "gh200-96"),
        ("NVIDIA GH200 144G HBM3e", "gh200-144"),
        ("GB200 Grace Blackwell Superchip", "gb200"),
        ("H100 64GB", ""),
        ("A100SXM4", "a100-sxm-80"),
        ("A800 40GB", ""),
        ("A100X", ""),
        ("L40", ""),
        ("Cerebras CS-3", ""),
        ("", ""),
        ("RTX 3090", "rtx3090"),
        ("NVIDIA GeForce RTX 3090", "rtx3090"),
        ("NVIDIA-GeForce-RTX-3090", "rtx3090"),
        ("3090 24GB", "rtx3090"),
        ("RTX 3090 Ti", ""),
        ("RTX3090Ti", ""),
        ("RTX 3080", ""),
        ("4090", "rtx4090"),
        ("RTX 4090 D", ""),
        ("RTX 5090 Laptop GPU", ""),
        ("A6000", "a6000"),
        ("NVIDIA RTX A6000", "a6000"),
        ("RTX-A6000-48GB", "a6000"),
        ("RTXA6000", "a6000"),
        ("RTX A4000", ""),
        ("A6000 Ada", "rtx6000-ada"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx6000-ada"),
        ("RTX6000Ada", "rtx6000-ada"),
        ("6000 Ada 48GB", "rtx6000-ada"),
        ("RTX 6000", ""),
        ("Quadro RTX 6000", ""),
        ("RTX PRO 6000", "rtx-pro-6000"),
        ("RTX PRO 6000 Blackwell", "rtx-pro-6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx-pro-6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "rtx-pro-6000-max-q"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "rtx-pro-6000-server"),
        ("RTX PRO 6000 Blackwell Server Edition 96GB", "rtx-pro-6000-server"),
        ("RTX PRO Server 6000", "rtx-pro-6000-server"),
        ("RTX PRO 5000", ""),
        ("Tesla T4", "t4"),
        ("NVIDIA T4 16GB", "t4"),
        ("T4G", ""),
        ("T400", ""),
        ("RTX 2080 Ti", "rtx2080ti"),
        ("2080Ti", "rtx2080ti"),
        ("RTX 2080 Ti 22GB", ""),
        ("RTX 2080", ""),
        ("Quadro RTX 8000", "rtx8000"),
        ("Q RTX 8000", "rtx8000"),
        ("L20", "l20"),
        ("L2", ""),
        ("NVIDIA A40", "a40"),
        ("A40-48Q", ""),
        ("A30", "a30"),
        ("A30X", ""),
        ("A100-80", "a100-sxm-80"),
        ("A100 40", "a100-sxm-40"),
        ("H100-40", ""),
        ("GB200-72", ""),
        ("NVIDIA GB10", "gb10"),
        ("GB10 Grace Blackwell Superchip", "gb10"),
        ("DGX Spark", "gb10"),
        ("Rubin", "rubin"),
        ("Vera Rubin NVL72", "rubin"),
        ("VR200", "rubin"),
        ("Rubin CPX", ""),
        ("AMD Instinct MI455X", "mi455x"),
        ("MI450", ""),
        ("TPU7x", "tpu-v7"),
        ("TPU 8t", "tpu-8t"),
        ("TPU v8t", "tpu-8t"),
        ("TPU 8i", ""),
    ],
)
def test_spellings(spelling: str, name: str) -> None:
    assert accelerator_named(spelling) == name


@pytest.mark.parametrize(
    ("spelling", "memory", "name"),
    [
        ("A100", 40.0, "a100-sxm-40"),
        ("A100", None, "a100-sxm-80"),
        ("V100", 32.0, "v100-sxm2-32"),
        ("V100", None, "v100-sxm2-16"),
        ("H100", 96.0, "h100-sxm-96"),
        ("H100", 79.6, "h100-sxm"),
        ("A100 PCIe", 40.0, "a100-pcie-40"),
        ("A100-80GB", 40.0, "a100-sxm-80"),
        ("A800", 40.0, ""),
        ("A800", None, "a800-sxm-80"),
        ("B200", 192.0, "b200-sxm"),
        ("A100", 64.0, ""),
        ("H20", 141.0, "h20-141"),
        ("H20", 96.0, "h20"),
        ("GH200", 144.0, "gh200-144"),
        ("GH200 480GB", 96.0, "gh200-96"),
        ("A6000", 48.0, "a6000"),
        ("rtx4090", 48.0, "rtx4090"),
    ],
)
def test_memory_tells_parts_of_one_name_apart(spelling: str, memory: float | None, name: str) -> None:
    assert accelerator_named(spelling, memory) == name


@pytest.mark.parametrize(("held", "stand"), [(True, "rack"), (False, None)])
def test_an_accelerator_of_ones_own(
    held: bool, stand: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it names no node it stands in the first that holds it; without one nothing can be said."""
    written = {"accelerators/mine": "accelerators/h100-sxm", **({"nodes/rack": "nodes/dgx-h100"} if held else {})}
    for file, of in written.items():
        text = (ROOT / "hardware" / f"{of}.yaml").read_text("utf-8").replace("found_in:\n  node: dgx-h100\n", "")
        text = text.replace(f"name: {of.partition('/')[2]}\n", f"name: {file.partition('/')[2]}\n")
        (path := tmp_path / "hardware" / f"{file}.yaml").parent.mkdir(parents=True)
        path.write_text(text.replace("accelerator: h100-sxm", "accelerator: mine"), "utf-8")
    monkeypatch.chdir(tmp_path)
    found = proxy_node(CachedReader(), "mine")
    assert (found.node if found else None) == stand
    if stand:
        assert modelled(run(tmp_path, "mine"), CachedReader()).inputs.case.accelerator.name == "mine"
    else:
        with pytest.raises(CannotModel, match="V001"):
            modelled(run(tmp_path, "mine"), CachedReader())


def test_ones_own_name_goes_before_what_it_is_short_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert accelerator_named("H100") == "h100-sxm"
    text = (ROOT / "hardware/accelerators/h100-pcie.yaml").read_text("utf-8").replace("name: h100-pcie", "name: h100")
    (tmp_path / "hardware/accelerators").mkdir(parents=True)
    (tmp_path / "hardware/accelerators/h100.yaml").write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    assert accelerator_named("H100") == "h100"


def test_links_of_a_card_without_a_node_of_its_own(tmp_path: Path) -> None:
    """The node that stands for it, with the link of the card between every pair."""
    shelf = CachedReader()
    filling = Filling(run(tmp_path, "H100 PCIe"), shelf)
    found = proxy_node(shelf, "h100-pcie")
    assert found is not None
    node = cluster_of(filling, shelf, "h100-pcie", found, 64.0)["node"]
    assert (node["accelerators"], node["scale_up"]["pair_bandwidth"]) == (8.0, "63 GB/s")
    assert (node["scale_up"]["fabric"], node["host"]) == ("pcie5x16", "pcie5x16")
