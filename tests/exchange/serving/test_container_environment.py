"""Variables of containers: a manifest with them comes to the document of one with their values in their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from costmodel.exchange.import_result import Imported
from costmodel.explore.import_export.import_file import GivenBesideFile, import_files
from costmodel.ground.errors import CostModelError, Fault

ASKED = ("workload.prompt=512", "workload.output=64", "workload.rate=1/s")
PLAIN = """\
kind: Deployment
spec:
  template:
    spec:
      containers:
        - name: llm
          image: vllm/vllm-openai:v0.20.0
          args: ["--model", "Qwen/Qwen3-8B", "--tensor-parallel-size", "2", "--max-model-len=8192"]
"""
ARGS = PLAIN.splitlines()[-1]
ENV = """\
          env:
            - {name: OWNER, value: Qwen}
            - {name: MODEL, value: $(OWNER)/Qwen3-8B}
            - {name: TP, value: "2"}
            - {name: LEN, value: 8192}
"""
SERVICE = """\
services:
  llm:
    image: ${IMAGE:-vllm/vllm-openai:v0.20.0}
    environment: {MODEL: Qwen/Qwen3-8B, TP: 2}
    command: --model $$MODEL --tensor-parallel-size ${TP} --max-model-len ${LEN:-8192} --api-key ${TOKEN}
"""
LISTED = SERVICE.replace("{MODEL: Qwen/Qwen3-8B, TP: 2}", "[MODEL=Qwen/Qwen3-8B, TP=2, TOKEN]")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults show the text of files in the working folder alone."""
    monkeypatch.chdir(tmp_path)


def imported(text: str, folder: Path, *more: str) -> Imported:
    """What a manifest comes to beside its load."""
    (folder / "manifest.yaml").write_text(text, "utf-8")
    return import_files(["manifest.yaml"], GivenBesideFile("dgx-h100", assignments=(*ASKED, *more))).found


def faults(text: str, folder: Path, *more: str) -> tuple[Fault, ...]:
    """Why nothing comes of it."""
    with pytest.raises(CostModelError) as caught:
        imported(text, folder, *more)
    return caught.value.faults


@pytest.mark.parametrize(
    "started",
    [
        'args: ["--model", "$(MODEL)", "--tensor-parallel-size", "$(TP)", "--max-model-len=$(LEN)"]',
        'args: ["--model", "$MODEL", "--tensor-parallel-size", "${TP}", "--max-model-len=${LEN}"]',
        'command: ["sh", "-c"]\n          args: ["vllm serve $MODEL -tp ${TP} --max-model-len=$(LEN)"]',
        'command: ["sh", "-c", "TP=$TP; vllm serve \'$(MODEL)\' -tp $TP --max-model-len=${LEN:-1}"]',
    ],
)
def test_values_of_env_stand_in_for_its_names(started: str, tmp_path: Path) -> None:
    found = imported(PLAIN.replace(ARGS.strip(), started) + ENV, tmp_path)
    assert found.document == imported(PLAIN, tmp_path).document
    assert found.document["plan"]["tp"] == 2
    assert found.document["model"] == "Qwen/Qwen3-8B"


@pytest.mark.parametrize("text", [SERVICE, LISTED])
def test_a_compose_file_has_variables_of_its_own(text: str, tmp_path: Path) -> None:
    assert imported(text, tmp_path).document == imported(PLAIN, tmp_path).document


def test_a_value_that_stands_elsewhere_is_named_with_a_remedy(tmp_path: Path) -> None:
    secret = "valueFrom: {configMapKeyRef: {name: serving, key: tp}}"
    held = PLAIN.replace('"2"', '"$(TP)"').replace("args:", 'extra: ""\n          args:')
    text = held + ENV.replace('{name: TP, value: "2"}', f"{{name: TP, {secret}}}")
    (fault,) = faults(text, tmp_path)
    assert (fault.code, "valueFrom (configMapKeyRef)" in fault.sentence) == ("X002", True)
    assert "--set plan.tp=" in fault.hint
    assert imported(text, tmp_path, "plan.tp=2").document["plan"]["tp"] == 2
    (unset,) = faults(held, tmp_path)
    assert "$(TP), which the text does not set" in unset.sentence
    model = PLAIN.replace('"--model", "Qwen/Qwen3-8B"', '"$(MODEL)"')
    (unknown,) = faults(model, tmp_path)
    assert unknown.sentence.startswith("the model is $(MODEL)")
    assert imported(model, tmp_path, "model=qwen-3-8b").document["model"] == "qwen-3-8b"
    key = PLAIN.replace('"--max', '"--api-key", "$(TOKEN)", "--max')
    assert imported(key, tmp_path).document == imported(PLAIN, tmp_path).document  # what costs nothing is not asked for


def test_a_value_is_letters_and_nothing_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "run"
    for value in (f"$(touch {mark})", f"`touch {mark}`", f"x; touch {mark}", "'; vllm serve other -tp 8 #"):
        text = PLAIN.replace(ARGS.strip(), 'command: ["sh", "-c", "vllm serve Qwen/Qwen3-8B --api-key $(K) $K -tp 2"]')
        env = f'          env:\n            - name: K\n              value: "{value}"\n'
        assert imported(text + env, tmp_path).document["plan"]["tp"] == 2
        assert not mark.exists()
    escaped = PLAIN.replace("Qwen/Qwen3-8B", "$$(MODEL)") + ENV
    assert all("$(MODEL)" in fault.sentence for fault in faults(escaped, tmp_path))


def test_variables_of_variables_do_not_grow_without_end(tmp_path: Path) -> None:
    doubled = "".join(f"            - {{name: A{i}, value: $(A{i - 1})$(A{i - 1})}}\n" for i in range(1, 64))
    env = f"          env:\n            - {{name: A0, value: {'a' * 64}}}\n{doubled}"
    (fault,) = faults(PLAIN.replace('"2"', '"$(A63)"') + env, tmp_path)
    assert "without end" in fault.sentence


def test_what_lacks_a_value_is_named_where_the_text_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option and its key are costmodel's words; the name of the variable is the file's."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "m.yaml").write_text(PLAIN.replace('"2"', '"$(SECRET)"'), "utf-8")
    with pytest.raises(CostModelError) as caught:
        import_files([str(tmp_path / "m.yaml")], GivenBesideFile("dgx-h100", assignments=ASKED))
    (fault,) = caught.value.faults
    assert fault.code == "X002"
    assert "--tensor-parallel-size, which --set plan.tp=" in fault.sentence
    assert "SECRET" not in f"{fault.sentence}{fault.hint}{fault.place}"


AFFINITY = """\
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
              - matchExpressions:
                  - {key: nvidia.com/gpu.product, operator: In, values: [NVIDIA-B200]}
"""


@pytest.mark.parametrize("selects", ["      nodeSelector: {nvidia.com/gpu.product: NVIDIA-B200}\n", AFFINITY])
def test_the_accelerator_that_a_manifest_selects_states_the_machine(selects: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.yaml").write_text(PLAIN + selects, "utf-8")
    found = import_files(["manifest.yaml"], GivenBesideFile(assignments=ASKED)).found
    by_option = import_files(["manifest.yaml"], GivenBesideFile(gpu="b200", assignments=ASKED)).found
    assert found.document["cluster"] == by_option.document["cluster"]
    assert "NVIDIA-B200" in found.origins["cluster.node"].text
    (tmp_path / "manifest.yaml").write_text(PLAIN, "utf-8")
    with pytest.raises(CostModelError) as caught:
        import_files(["manifest.yaml"], GivenBesideFile(assignments=ASKED))
    assert "no file states the machine" in str(caught.value)


@pytest.mark.parametrize(("beside", "warned"), [({"gpu": "h200"}, True), ({"node": "dgx-h200"}, True),
                                                ({"gpu": "b200"}, False), ({"node": "dgx-b200"}, False)])  # fmt: skip
def test_another_accelerator_than_the_manifest_selects_is_a_warning(
    beside: dict[str, str], warned: bool, tmp_path: Path
) -> None:
    (tmp_path / "manifest.yaml").write_text(PLAIN + AFFINITY, "utf-8")
    read = import_files(["manifest.yaml"], GivenBesideFile(**beside, assignments=ASKED))
    found = read.found.warnings
    assert [fault.code for fault in found] == ["X004"] * warned
    if warned:
        sentence = found[0].sentence
        assert all(word in sentence for word in ("NVIDIA-B200", "h200-sxm", f"--{next(iter(beside))}"))
        assert sentence in read.text_of(None).replace("\n# ", " ")
