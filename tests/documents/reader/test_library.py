"""Names to files: what shadows what, and faults of documents that a scenario only names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from each import share_of

from costmodel.documents.reader.find_documents import FLAGS, find
from costmodel.documents.reader.folders import FOLDER_OF, plural
from costmodel.documents.reader.library import names, read
from costmodel.documents.reader.load_scenario import load
from costmodel.documents.text.yaml_tree import parse
from costmodel.estimate.training.training_inputs import training_inputs
from costmodel.explore import workload_flags
from costmodel.ground.errors import CostModelError

Faults = Callable[[Any], list[Any]]

ROOT = Path(__file__).resolve().parents[3]
NAME = "llama-3-70b-512"
CHIP = "hardware/accelerators/h100-sxm.yaml"
NODE = "hardware/nodes/dgx-h100.yaml"


@pytest.fixture
def shadow(tmp_path: Path) -> Callable[..., Path]:
    """`shadow(file, old, new, …)` puts a changed copy of a shipped document where it hides the shipped one."""

    def put(file: str, *changes: str) -> Path:
        text = (ROOT / file).read_text("utf-8")
        for old, new in zip(changes[::2], changes[1::2], strict=True):
            assert old in text
            text = text.replace(old, new)
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text, "utf-8")
        return tmp_path

    return put


def test_faults_of_a_named_document_point_into_it(run: Any, faults: Faults, shadow: Callable[..., Path]) -> None:
    folder = shadow(CHIP, "bandwidth: 3.35 TB/s", "bandwith: 3.35 TB/s", "fp8: 1978.9 TFLOP/s", "fp8: 1979e12")
    unknown, bare = faults(run("estimate", NAME, cwd=folder))
    assert (unknown.code, unknown.marked, unknown.help) == ("D003", "bandwith", "did you mean 'bandwidth'?")
    assert (bare.code, bare.marked) == ("D007", "1979e12")
    assert unknown.place == f"{CHIP}:11:3  (memory.bandwith)"


def test_a_rate_is_no_amount(run: Any, faults: Faults, shadow: Callable[..., Path]) -> None:
    (found,) = faults(run("estimate", NAME, cwd=shadow(CHIP, "3.35 TB/s", "3.35 TB")))
    assert (found.code, found.marked) == ("D007", "3.35 TB")
    assert found.sentence == "'TB' is not a unit of B/s; write e.g. '3.35 TB/s'"


def test_names_inside_a_named_document(run: Any, faults: Faults, shadow: Callable[..., Path]) -> None:
    folder = shadow(NODE, "h100-sxm", "h100-sx", "nvlink4", "nvlink44", "ib-ndr", "ib-nrd", "pcie5x16", "pci")
    found = faults(run("estimate", NAME, cwd=folder))
    assert [fault.marked for fault in found] == ["h100-sx", "nvlink44", "ib-nrd", "pci"]
    assert all(fault.code == "D009" and fault.place.startswith(NODE) and fault.help for fault in found)


def test_a_name_that_is_not_the_file_s(run: Any, faults: Faults, shadow: Callable[..., Path]) -> None:
    (found,) = faults(run("estimate", NAME, cwd=shadow(CHIP, "name: h100-sxm", "name: h100")))
    assert (found.code, found.marked) == ("D013", "h100")


@pytest.mark.parametrize(
    ("role", "fabric", "kind"),
    [("scale_up.fabric", "ib-ndr", "scale-out"), ("scale_out.fabric", "nvlink4", "scale-up"), ("host", "ib-ndr", "")],
)
def test_a_link_in_another_s_place(run: Any, faults: Faults, role: str, fabric: str, kind: str) -> None:
    (found,) = faults(run("estimate", NAME, "--set", f"cluster.node.{role}={fabric}"))
    assert (found.code, f"{fabric} is a {kind}" in found.sentence) == ("D010", True)
    assert f"{role} takes one of kind" in found.help


def test_cards_may_talk_over_their_links_to_the_host() -> None:
    assert load(NAME, ["cluster.node.scale_up.fabric=pcie5x16"]).scale_up.name == "pcie5x16"


def test_a_source_without_an_entry(run: Any, faults: Faults, shadow: Callable[..., Path]) -> None:
    folder = shadow(CHIP, "max: 700 W\n  source: ml-engineering-accelerators", "max: 700 W\n  source: nobody")
    (found,) = faults(run("estimate", NAME, cwd=folder))
    assert (found.code, found.marked) == ("D013", "nobody")
    assert "add it: sources:" in found.help


def test_an_accelerator_without_efficiency(run: Any, faults: Faults, shadow: Callable[..., Path]) -> None:
    folder = shadow(CHIP, "year: 2022\nmemory", "efficiency: h100-pcie\nmemory")
    (found,) = faults(run("estimate", NAME, cwd=folder))
    assert (found.code, found.marked, found.help) == ("D009", "h100-pcie", "costmodel list efficiencies shows them all")


def test_the_working_folder_comes_first_then_the_path(run: Any, tmp_path: Path, shadow: Callable[..., Path]) -> None:
    folder = shadow("scenarios/llama-3-70b-512.yaml", "title: Llama 3 70B on 512 H100", "title: here")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for cwd, env, expected in (
        (folder, {}, "here"),
        (elsewhere, {}, "Llama 3 70B on 512 H100"),
        (elsewhere, {"COSTMODEL_PATH": f"/nowhere:{folder}"}, "here"),
    ):
        assert f"title: {expected}\n" in run("show", NAME, cwd=cwd, env=env).out


def test_a_document_of_a_folder_elsewhere_is_named_in_full(run: Any, faults: Faults, tmp_path: Path) -> None:
    """From here its name alone would be that of what is shipped."""
    path = tmp_path / "shelf" / "hardware" / "accelerators" / "h100-sxm.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("schema: costmodel/accelerator/v1\n", "utf-8")
    (tmp_path / "here").mkdir()
    for shelf, named in (
        (str(tmp_path / "shelf"), str(path)),
        ("../shelf", f"../shelf/{path.relative_to(path.parents[2])}"),
    ):
        env = {"COSTMODEL_PATH": shelf}
        (found, *_) = faults(run("estimate", NAME, cwd=tmp_path / "here", env=env))
        assert found.place.startswith(f"{named}:1:1")
    (found, *_) = faults(run("estimate", NAME, cwd=tmp_path / "shelf"))
    assert found.place.startswith("hardware/accelerators/h100-sxm.yaml:1:1")


def test_a_path_is_a_path(run: Any, faults: Faults, tmp_path: Path, scenario: str) -> None:
    (tmp_path / "plain").write_text(scenario, "utf-8")
    (tmp_path / "s.yml").write_text(scenario, "utf-8")
    assert run("estimate", "./plain", cwd=tmp_path).code == 0
    assert run("estimate", "s.yml", cwd=tmp_path).code == 0
    assert run("estimate", str(tmp_path / "s.yml")).code == 0
    (found,) = faults(run("estimate", "plain", cwd=tmp_path))
    assert (found.code, found.help) == ("D009", "for the file write ./plain")


UNREADABLE = {
    "missing": ("nope.yaml", "No such file"),
    "missing in a folder": ("a/b/nope", "No such file"),
    "folder": ("./", "Is a directory"),
    "folder by suffix": ("folder.yaml", "Is a directory"),
    "through a file": ("file.yaml/x.yaml", "Not a directory"),
    "nul": ("a\0.yaml", "unprintable characters"),
    "long": ("x" * 300 + ".yaml", "File name too long"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_files_that_cannot_be_read(name: str, run: Any, faults: Faults, tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "file.yaml").touch()
    path, reason = UNREADABLE[name]
    (found,) = faults(run("search", path, cwd=tmp_path))
    assert found.code == "D001"
    assert reason in found.sentence
    assert (found.help == "it is a folder; name a file in it") is name.startswith("folder")


def test_a_name_that_never_ends_is_cut(run: Any, faults: Faults) -> None:
    (found,) = faults(run("estimate", "x" * 5000))
    assert (found.code, len(found.sentence) < 120) == ("D009", True)


def test_a_file_one_may_not_read(
    run: Any, faults: Faults, tmp_path: Path, scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s.yaml").write_text(scenario, "utf-8")

    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("costmodel.documents.text.files.open", refused, raising=False)
    (found,) = faults(run("estimate", "s.yaml", cwd=tmp_path))
    assert (found.code, found.sentence) == ("D001", "the file cannot be read: Permission denied")


@pytest.mark.parametrize(
    ("name", "sentence", "hint"),
    [
        ("nope", "there is no scenario named 'nope'", "costmodel list scenarios shows them all"),
        ("llama-3-70b-51", "there is no scenario named", f"did you mean '{NAME}'?"),
        ("llama-3-70b", "'llama-3-70b' is a model, and a scenario is expected here", f"did you mean '{NAME}'?"),
        ("h100-sxm", "'h100-sxm' is the name of an accelerator", "costmodel list scenarios"),
        ("", "there is no scenario named ''", "costmodel list scenarios"),
        (".", "there is no scenario named '.'", "'.' is a folder; name a file in it"),
        ("x" * 300, "there is no scenario named", "costmodel list scenarios"),
        ("gpus=8,tp=2", "there is no scenario named", "settings are options: --gpus 8 --set plan.tp=2"),
        ("model=llama-3.1-8b", "there is no scenario named", "settings are options: --model llama-3.1-8b"),
        ("gpus=8,nothing=2", "there is no scenario named", "costmodel list scenarios"),
    ],
)
def test_scenarios_that_are_not_there(name: str, sentence: str, hint: str, run: Any, faults: Faults) -> None:
    (found,) = faults(run("estimate", name))
    assert (found.code, found.place) == ("D009", "command line")
    assert sentence in found.sentence
    assert hint in found.help


def test_settings_in_the_place_of_a_scenario_are_flags_where_these_exist() -> None:
    assert {*FLAGS.split()} == {"gpus", *(name for each in workload_flags.FLAGS.values() for name in each.keys)}


def test_a_broken_neighbour_does_not_stop_the_list(run: Any, tmp_path: Path) -> None:
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "bad.yaml").write_bytes(b"\xff\xfe")
    (tmp_path / "scenarios" / "folder.yaml").mkdir()
    ran = run("list", "scenarios", cwd=tmp_path)
    assert ran.code == 0
    assert "the file is not UTF-8" in ran.out
    assert NAME in ran.out


def test_a_working_folder_that_is_gone(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> Path:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(Path, "cwd", gone)
    monkeypatch.setattr("os.getcwd", lambda: str(tmp_path))
    assert find("scenario", NAME).is_file()


@pytest.mark.parametrize("kind", FOLDER_OF)
def test_an_unknown_name_of_every_kind(kind: str, run: Any) -> None:
    with pytest.raises(CostModelError) as caught:
        read(kind, "no-such-thing-at-all")
    (found,) = caught.value.faults
    like = {"accelerator": "h100-sxm > hardware/accelerators", "node": "dgx-h100 > hardware/nodes"}.get(kind, "")
    own = f"; of another, state its datasheet: costmodel show {like}/mine.yaml is one to change" if like else ""
    assert (found.code, found.hint) == ("D009", f"costmodel list {plural(kind)} shows them all{own}")
    assert run("list", plural(kind)).code == 0
    assert names(kind)


def leaves(tree: Any) -> Iterator[Any]:
    """Every key and value of a tree."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield key
            yield from leaves(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from leaves(value)
    else:
        yield tree


@pytest.mark.parametrize("kind", FOLDER_OF)
def test_every_leaf_of_every_document_knows_its_place(kind: str) -> None:
    """Of a share of the documents of each kind, unless --whole asks for all."""
    for name in share_of(names(kind), 4):
        path = ROOT / FOLDER_OF[kind] / f"{name}.yaml"
        lines = path.read_text("utf-8").splitlines()
        for leaf in leaves(parse(path.read_text("utf-8"), str(path))):
            place = getattr(leaf, "place", None)
            if place is not None:
                assert place.text == lines[place.line - 1]
                marked = place.text[place.column - 1 : place.column - 1 + place.width]
                assert marked.strip("\"'")[:1] == str(leaf)[:1] or marked[:1] in "|>0123456789-", (leaf, marked)


def test_how_a_price_is_sold_is_said() -> None:
    """A capacity block is not rented by the hour: the answer names it beside the price."""
    said = {
        node: next(
            item.origin
            for item in training_inputs(load("gpt-3-175b-1024", (f"cluster.node={node}",))).assumed
            if item.path == "assume.price"
        )
        for node in ("p5", "p5e")
    }
    assert "capacity block" in said["p5e"]
    assert "on demand" in said["p5"]


def test_more_memory_than_there_is(run: Any, faults: Faults, shadow: Callable[..., Path]) -> None:
    (found,) = faults(run("estimate", NAME, cwd=shadow(CHIP, "capacity: 80 GiB", "capacity: 40 GiB")))
    assert (found.code, found.sentence) == ("D006", "usable is more than the capacity")
    assert found.marked == "81559 MiB"


def test_no_matmul_is_faster_than_the_peak(run: Any, faults: Faults, shadow: Callable[..., Path]) -> None:
    """As of a copied document of which the peak alone was changed."""
    (found,) = faults(run("estimate", NAME, cwd=shadow(CHIP, "bf16: 989.4 TFLOP/s", "bf16: 100 TFLOP/s")))
    assert found.code == "D006"
    assert found.sentence.startswith("best_matmul.bf16, 794 TFLOP/s, is more than peak.bf16, 100 TFLOP/s")


def test_rates_that_nothing_has_are_out_of_range(run: Any, faults: Faults) -> None:
    (found,) = faults(run("estimate", NAME, "--set", "cluster.fabric.bandwidth=1e-300 Gb/s"))
    assert (found.code, "at least 1 B/s" in found.sentence) == ("D008", True)


def test_a_config_of_transformers_in_the_place_of_a_scenario_is_named(run: Any, faults: Faults, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "mixtral", "hidden_size": 4096}', "utf-8")
    (found,) = faults(run("estimate", "config.json", cwd=tmp_path))
    assert (found.code, found.help.split(":")[0]) == ("D011", "this is a config of transformers")


def test_a_model_of_ones_own_is_named_by_its_path(run: Any, faults: Faults, tmp_path: Path) -> None:
    text = run("show", "llama-3-8b").out
    (tmp_path / "mine.yaml").write_text(text.replace("name: llama-3-8b", "name: mine"), "utf-8")
    for asked in (("memory", "mine"), ("estimate", NAME, "--set", "model=mine")):
        (found,) = faults(run(*asked, cwd=tmp_path))
        assert (found.code, found.help) == ("D009", "for the file write ./mine.yaml")
    (found,) = faults(run("estimate", "mine.yaml", cwd=tmp_path))
    assert (found.code, "in it model is such a file" in found.help) == ("D011", True)
    assert run("estimate", "quickstart", "--set", "model=./mine.yaml", cwd=tmp_path).code == 0
    alone = run("memory", "./mine.yaml", cwd=tmp_path)
    assert alone.answer == run("memory", "llama-3-8b").answer


@pytest.mark.parametrize("given", [(NAME, "plan.tp=4"), ({"model": "llama-3-70b"},)])
def test_the_library_wants_a_name_and_a_list(given: Any) -> None:
    with pytest.raises(TypeError, match="list of assignments"):
        load(*given)


@pytest.mark.parametrize("leaf", ["accelerator.memory.usable", "accelerator.memory.capacity", "memory.capacity"])
def test_no_memory_at_all(leaf: str, run: Any, faults: Faults) -> None:
    (found,) = faults(run("estimate", NAME, "--set", f"cluster.node.{leaf}=0 GiB"))
    assert (found.code, found.sentence) == ("D008", "0 GiB is out of range: at least 1 B and at most 1e18 B")


def test_a_source_may_be_called_schema(run: Any, faults: Faults, shadow: Callable[..., Path]) -> None:
    """A fault of such a key is not one of the document's schema."""
    (found,) = faults(run("estimate", NAME, cwd=shadow(CHIP, "sources:\n", "sources:\n  schema: 7\n")))
    assert (found.code, found.marked) == ("D006", "7")


@pytest.mark.parametrize(
    ("name", "reads"), [("train.sh", "import train.sh --gpu NAME -o mine.yaml"), ("run.log", "--from run.log")]
)
def test_a_script_or_a_log_in_the_place_of_a_scenario_leads_to_what_reads_it(
    name: str, reads: str, run: Any, faults: Faults, tmp_path: Path
) -> None:
    (tmp_path / name).write_text("torchrun pretrain_gpt.py --num-layers 32: {\n", "utf-8")
    for typed in (name, f"./{name}"):
        (found,) = faults(run("estimate", typed, cwd=tmp_path))
        assert reads in found.help.replace("./", "")


def test_near_names_of_software_come_with_their_titles(run: Any, faults: Faults) -> None:
    (found,) = faults(run("estimate", "--model", "llama-3.1-8b", "--stack", "transformer-fdsp"))
    assert found.help.count("(") >= 2, found.help
    (found,) = faults(run("estimate", "--model", "llama-3.1-8b", "--stack", "megatron"))
    assert "'megatron-core'" in found.help
    assert "'megatron-lm'" in found.help
