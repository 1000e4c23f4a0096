"""A request asks what the command line asks: the same answers, and errors with code, place and remedy; no file."""

from __future__ import annotations

import json
import random
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from each import each

from costmodel import library
from costmodel.commands.command_table import QUESTIONS
from costmodel.server.request import (
    LOCAL,
    MEDIA,
    NOT_OFFERED,
    TEXTS,
    answer_request,
    options_of,
    parsed_request,
    questions,
)

ROOT = Path(__file__).resolve().parents[2]
SERVES, LEARNS = "serve-llama-3.1-70b", "grpo-qwen-2.5-7b-64"
CONFIG = (ROOT / "scenarios/examples/qwen3-8b/config.json").read_text("utf-8")
FLAGS = {"model": "llama-3.1-8b", "gpu": "h100", "gpus": 16}


def ask(question: str, keys: Any, media: str = "application/json") -> Any:
    """Status and JSON of an answer."""
    found = answer_request(question, json.dumps(keys).encode(), media)
    return found.status, json.loads(found.body) if found.media == "application/json" else found.body.decode()


def faults(question: str, keys: Any) -> list[dict[str, Any]]:
    """The faults of a request that is refused."""
    status, said = ask(question, keys)
    assert (status, said["schema"]) == (400, "costmodel/errors/v1"), (question, keys)
    assert all(each.keys() == {"code", "place", "message", "remedy"} for each in said["errors"])
    return list(said["errors"])


def same(said: dict[str, Any]) -> str:
    """An answer without the time that it took."""
    return json.dumps({key: value for key, value in said.items() if key not in ("elapsed_s", "digest")})


ASKED: list[tuple[str, dict[str, Any]]] = [
    ("estimate", {"scenario": "quickstart", "settings": ["plan.tp=2", "plan.micro_batch=1"]}),
    ("estimate", {"scenario": SERVES, "settings": {"plan.tp": 4}}),
    ("search", {**FLAGS, "sequence": 4096, "batch": "1Mi-tokens", "top": 3, "why_not": True}),
    ("memory", {"scenario": "llama-3-70b"}),
    ("explain", {"scenario": "quickstart", "quantity": "step_time", "depth": 2}),
    ("explain", {"scenario": "H002"}),
    ("sweep", {"scenario": "quickstart", "over": ["plan.tp=2,4", "plan.micro_batch=1,2"], "show": "mfu"}),
    ("solve", {"scenario": "quickstart", "over": "plan.micro_batch=1,2", "wanted": "mfu>=1 %"}),
    ("diff", {"before": "quickstart", "after": "megatron-22b-8"}),
    ("check", {"scenario": "quickstart", "others": [SERVES]}),
    ("collective", {"operation": "all-reduce", "size": ["1GB"], "gpus": 64}),
    ("diagnose", {"scenario": "quickstart", "step": "9s"}),
    ("export", {"scenario": "quickstart", "to": "megatron", "lossy": True}),
    ("list", {"shelf": "grids"}),
    ("show", {"name": "dgx-h100"}),
    ("schema", {"kind": "optimizer"}),
]


@pytest.mark.parametrize(("question", "keys"), ASKED, ids=[f"{name}-{len(keys)}" for name, keys in ASKED])
def test_a_request_gets_what_its_command_line_prints(question: str, keys: dict[str, Any], run: Any) -> None:
    asked = parsed_request(question, json.dumps(keys).encode())
    status, said = ask(question, keys)
    assert status == 200
    ran = run(*shlex.split(asked.command)[1:], *([] if question == "schema" else ["--json"]))
    assert same(said) == same(json.loads(ran.out)), asked.command


def test_a_text_stands_for_a_file_and_its_command_line_for_both(run: Any, tmp_path: Path) -> None:
    keys = {**FLAGS, "model": "config.json", TEXTS: {"config.json": CONFIG}}
    (tmp_path / "config.json").write_text(CONFIG)
    for question, more in (("search", {"top": 2}), ("memory", {})):
        status, said = ask(question, {**keys, **more})
        asked = parsed_request(question, json.dumps({**keys, **more}).encode())
        assert status == 200
        assert same(said) == same(json.loads(run(*shlex.split(asked.command)[1:], "--json", cwd=tmp_path).out))
        assert said["documents"][0]["name"]
    _, imported = ask("import", {"files": ["config.json"], TEXTS: {"config.json": CONFIG}})
    assert imported["document"]["schema"] == "costmodel/model/v1"


def test_the_keys_of_a_scenario_are_a_scenario() -> None:
    """With what is written beside a checkpoint as one more text, which no key names."""
    job = {"model": "llama-3-8b", "cluster": {"node": "dgx-h100", "nodes": 4},
           "workload": {"kind": "training", "sequence": 8192, "global_batch": 512, "precision": "bf16"},
           "plan": {"tp": 4, "micro_batch": 1}, "assume": {"price": "2.50 USD/GPU/h"}}  # fmt: skip
    _, said = ask("estimate", {"scenario": job})
    found = library.load("quickstart").scenario.model_dump()
    assert said["plans"][0]["step_time_s"] > 0
    assert found["workload"]["global_batch"] == 512
    assert parsed_request("estimate", json.dumps({"scenario": job}).encode()).command == "costmodel estimate mine.yaml"
    job |= {"model": "config.json"}
    plain = ask("memory", {"scenario": job, TEXTS: {"config.json": CONFIG}})[1]
    quantised = '{"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}}'
    texts = {"config.json": CONFIG, "hf_quant_config.json": quantised}
    assert ask("memory", {"scenario": job, TEXTS: texts})[1] != plain


def test_every_question_and_every_option_is_offered_or_left_to_the_command_line() -> None:
    assert {*questions()} | {*NOT_OFFERED} == {*QUESTIONS}
    left: set[str] = set()
    for name in questions():
        function = library.function(library.NAMES.get(name, name))
        options = {*library.inspect.signature(function).parameters}
        left |= options - {*options_of(name)}
        assert TEXTS not in options
    assert left <= {*LOCAL, "more"}  # further words of explain, which a help hides
    assert options_of("solve")["wanted"].flag == "--for"
    assert options_of("search")["why_not"].flag == "--why-not"


OPENED: list[str] = []
WATCHED: list[str] = []


def _noted(event: str, values: tuple[Any, ...]) -> None:
    if event == "open" and WATCHED and str(values[0]).startswith(WATCHED[0]):
        OPENED.append(str(values[0]))


def test_no_path_of_a_request_is_opened_or_looked_for(tmp_path: Path) -> None:
    """Whichever option names it, alone or in a list, in a setting or deep in a scenario: a file that is there gets the
    answer of one that is not.
    """
    there, gone = tmp_path / "zzzz1.json", tmp_path / "zzzz2.json"
    there.write_text(CONFIG)
    sys.addaudithook(_noted)  # cannot be taken away, and notes nothing later
    WATCHED[:] = [str(tmp_path)]
    needed = {"collective": {"operation": "all-reduce"}, "sweep": {"over": ["plan.tp=1,2"]}, "show": {"name": "x"},
              "solve": {"over": "plan.tp=1,2", "wanted": "mfu>=1 %"}, "import": {"files": ["x"]},
              "schema": {"kind": "model"}, "export": {"to": "megatron"}, "diagnose": {"step": "9s"},
              "buy": {"node": "dgx-h100"}}  # fmt: skip
    codes: set[str] = set()
    for question in questions():
        options = options_of(question)
        own = [name for name in options if name not in options_of("estimate")]
        base: dict[str, Any] = {"scenario": "quickstart"} if "scenario" in options else {}
        for name in [*own, *{"scenario", "model", "settings"}.intersection(options)]:
            for many in (False, True) if str(options[name].kind).startswith("list") or name == "settings" else (False,):
                said = []
                for path in (there, gone):
                    value = f"model={path}" if name == "settings" else str(path)
                    keys = {**base, **needed.get(question, {}), name: [value] if many else value}
                    said.append(str(ask(question, keys)).replace(path.stem, "X"))
                assert said[0] == said[1], (question, name)
                codes.update(re.findall("'code': '(....)'", said[0]))
    nested = {"model": str(there), "cluster": {"node": str(there), "nodes": 1}, "stack": "../x.yaml"}
    found = faults("estimate", {"scenario": {**nested, "workload": {"kind": "training"}}})
    WATCHED.clear()
    assert OPENED == []
    assert "H002" in codes
    assert "H002" in {each["code"] for each in found}


@each(
    "question, body, words",
    [
        ("estimate", b"[1]", "not an object"),
        ("estimate", b'{"scenario": NaN}', "NaN is no number"),
        ("estimate", b'{"scenario": "a", "scenario": "b"}', "a key occurs twice"),
        ("estimate", b"[" * 100_000, "nested too deeply"),
        ("estimate", b'{"scenario": "quickstart"', "not JSON"),
        ("estimate", b'"\xff"', "not JSON"),
        ("estimate", b'{"scenario": "-"}', "not standard input"),
        ("estimate", b'{"scenario": "quickstart", "setings": []}', "did you mean 'settings'"),
        ("search", b'{"scenario": "quickstart", "into": "x"}', "exists only on the command line"),
        ("search", b'{"scenario": "quickstart", "why-not": true}', "did you mean 'why_not'"),
        ("search", b'{"scenario": "quickstart", "top": 0}', "greater than or equal to 1"),
        ("solve", b'{"scenario": "quickstart", "for": "mfu>=1 %"}', "did you mean 'wanted'"),
        ("serach", b"{}", "did you mean search"),
        ("measure", b"{}", "runs kernels"),
        ("import", b'{"files": ["a/b"], "texts": {"a/b": "x"}}', "without its folder"),
        ("import", b'{"files": ["a"], "texts": {"a": 1}}', "texts maps names to texts"),
        ("sweep", b'{"scenario": "quickstart"}', "over is missing"),
        ("estimate", b'{"scenario": {"model": "llama-3-8b"}, "gpu": "h100"}', "the key 'cluster' is missing"),
    ],
)
def test_what_is_no_question_is_refused_with_a_remedy(question: str, body: bytes, words: str) -> None:
    found = answer_request(question, body)
    said = json.loads(found.body)["errors"]
    assert found.status == 400
    assert words in " ".join(f"{each['message']} {each['remedy']}" for each in said), said
    assert all(each["remedy"] for each in said)


ODD: list[Any] = [
    None, True, 0, -1, 1.5, 1e308, 10**30, "", "0", "-1", "nan", "inf", "1e999", "9" * 40, "../x", "x" * 3000, "\0",
    "\ud800", "a=b", "plan.tp=nan", "plan=1", "1..8", "8..1", "-1s", "1e30d", "0 USD/GPU/h", "off", "101%", "dgx-h100",
    [], [[]], {}, {"a": {}}, [None], ["plan.tp=1e30"], {"plan.tp": 1e308}, {"workload": {"kind": "serving"}},
]  # fmt: skip


@pytest.mark.parametrize("question", questions())
def test_no_request_finds_an_internal_error(question: str) -> None:
    """Odd values of a key or two, always the same ones, in every form."""
    drawn, options = random.Random(question), [*options_of(question), "nonsense", TEXTS]
    for _ in range(20):
        base = drawn.choice(({}, FLAGS, {"scenario": "quickstart"}, {"scenario": SERVES}, {"scenario": LEARNS}))
        odd = {drawn.choice(options): drawn.choice(ODD) for _ in range(drawn.choice((1, 2)))}
        found = answer_request(question, json.dumps({**base, **odd}).encode(), drawn.choice([*MEDIA]))
        assert found.status in (200, 400), (base, odd, found.body)


def test_answers_come_in_the_forms_of_the_command_line(run: Any) -> None:
    keys = {"scenario": "quickstart"}
    for media, form in (("text/csv", "csv"), ("text/markdown", "markdown")):
        assert ask("memory", keys, media) == (200, run("memory", "quickstart", "--format", form).out)
    assert "MFU" in ask("estimate", keys, "text/plain")[1]
    assert ask("estimate", keys, "image/svg+xml")[1].startswith("<svg")
    assert faults("show", keys)[0]["code"] == "H001"
    said = json.loads(answer_request("show", b'{"name": "dgx-h100"}', "image/svg+xml").body)
    assert said["errors"][0]["code"] == "C007"


def test_an_answer_that_is_no_says_so() -> None:
    found = answer_request("estimate", json.dumps({"scenario": "quickstart", "settings": ["plan.tp=3"]}).encode())
    assert (found.status, found.works) == (200, False)
