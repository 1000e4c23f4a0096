"""The page with pickers: in this process what it gets, in a browser what somebody does with it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from costmodel.explore.workload_flags import FLAGS
from costmodel.server.http import picker_page
from costmodel.server.picker_page import answer_for_page, picker_choices
from costmodel.server.workers import Limits
from tests.server.test_http import Door, no_process_is_left

ROOT = Path(__file__).resolve().parents[2]
CONFIG = (ROOT / "scenarios/examples/qwen3-8b/config.json").read_text("utf-8")
KEYS = {"model": "llama-3.1-8b", "gpu": "h100-sxm", "gpus": 16, "settings": ["assume.price=3 USD/GPU/h"]}
cleaned = no_process_is_left


def ask(question: str, keys: dict[str, Any], whole: bool) -> dict[str, Any]:
    found = answer_for_page(question, json.dumps(keys).encode(), whole)
    assert found.status == 200, found.body
    return dict(json.loads(found.body))


def test_the_pickers_offer_every_flag_and_every_question_with_a_page() -> None:
    found = json.loads(picker_choices().body)
    assert [*found["questions"]] == ["buy", "search", "estimate", "scale", "run", "sensitivity"]
    assert all(each["title"] for each in found["questions"].values())
    assert {*found["questions"]["scale"]["own"]["training"]} == {"ranks", "weak"}
    assert "most GPUs" in found["questions"]["buy"]["help"]["gpus"]
    assert {name for flags in found["flags"].values() for name in flags} == {*found["help"]}
    assert all({*flags.keys} <= {*found["flags"][kind]} for kind, flags in FLAGS.items())
    assert {"llama-3.1-8b", "deepseek-v3"} <= {*found["models"]}
    assert "h100-sxm" in found["gpus"]
    assert {each["kind"] for each in found["scenarios"].values()} == {*FLAGS}
    assert all(found["help"].values())


@pytest.mark.parametrize(
    ("question", "keys"),
    [
        ("search", KEYS),
        ("estimate", KEYS),
        ("estimate", {"model": "llama-3.1-8b", "gpus": 8, "rate": "4"}),
        ("estimate", {"scenario": "quickstart", "gpus": 16}),
    ],
)
def test_the_command_line_and_the_yaml_give_the_same_answer(
    question: str, keys: dict[str, Any], run: Any, tmp_path: Path
) -> None:
    found = ask(question, keys, True)
    assert found["yaml"] == ask(question, keys, False)["yaml"]
    (tmp_path / "mine.yaml").write_text(found["yaml"])
    rows = []
    for words in (shlex.split(found["command"])[1:], [question, "mine.yaml"]):
        said = json.loads(run(*words, "--json", cwd=tmp_path).out)
        rows.append([{**plan, "price_source": ""} for plan in said["plans"]])  # --set, or the scenario
    assert rows[0] == rows[1]
    first = rows[0][0]
    shown_value = next(iter(name for name in ("step_time_s", "tpot_s") if name in first))
    assert f'value="{first[shown_value]!r}"' in found["html"]


def test_the_page_without_equations_has_the_same_figures() -> None:
    light, whole = (ask("estimate", KEYS, each) for each in (False, True))
    assert "data-trace" in whole["html"]
    assert "data-trace" not in light["html"]
    assert len(light["html"]) < len(whole["html"])
    assert light["command"] == whole["command"]


def test_the_page_runs_its_own_script_alone() -> None:
    text, policy = picker_page()
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert text.count("<script") == 1
    assert "http" not in text.replace("http-equiv", "")


# In a browser.


@pytest.fixture(scope="module")
def door() -> Iterator[Door]:
    made = Door(None, Limits(seconds=600, patience=600))
    yield made
    made.end()


@pytest.fixture
def page(browser: Any, door: Door) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    context.set_default_timeout(120_000)
    opened, errors = context.new_page(), list[str]()
    opened.on("pageerror", lambda error: errors.append(str(error)))
    refused = "400 (Bad Request)"  # of a question that is wrong, which the page shows
    opened.on("console", lambda said: errors.append(said.text) if refused not in said.text else None)
    opened.goto(f"http://127.0.0.1:{door.port}/")
    opened.wait_for_selector("#command:not(:empty)")
    yield opened
    context.close()
    assert errors == []


def answer(page: Any, command: str) -> Any:
    """The answer, once the command line has these words."""
    page.wait_for_function("words => document.querySelector('#command').textContent.includes(words)", arg=command)
    return page.frame_locator("#page")


def test_pickers_answer_while_they_move_and_by_keyboard(page: Any) -> None:
    answer(page, "costmodel search").locator("#plans table").wait_for()
    page.locator("[data-moves=f-gpus]").focus()
    page.keyboard.press("ArrowRight")
    answer(page, "--gpus 128").locator("h1", has_text="128").wait_for()
    page.select_option("#f-question", "estimate")
    answer(page, "costmodel estimate")
    page.select_option("#f-kind", "serving")
    answer(page, "--rate 8").locator("h1").wait_for()
    page.locator(".more summary").click()
    page.locator("#f-settings").fill("limits.ttft_p99.at_most=1s")
    answer(page, "--set limits.ttft_p99.at_most=1s")
    page.locator("#f-gpus").fill("nonsense")
    page.locator("#state.bad", has_text="gpus").wait_for()


def test_a_figure_opens_its_equations_where_one_looks(page: Any) -> None:
    page.select_option("#f-question", "estimate")
    frame = answer(page, "costmodel estimate")
    frame.locator("#results button.how").last.focus()
    page.keyboard.press("Enter")
    drawer = frame.locator("dialog[open]")
    drawer.locator("summary").first.wait_for()
    page.wait_for_function(
        "() => { const frame = document.querySelector('#page'), top = frame.getBoundingClientRect().top;"
        " const box = frame.contentDocument.querySelector('dialog').getBoundingClientRect();"
        " return box.top + top >= 0 && box.bottom + top <= innerHeight; }"
    )
    drawer.locator("button", has_text="Close").click()
    drawer.wait_for(state="hidden")
    frame.locator("nav a[href='#memory']").click()
    page.wait_for_function(
        "() => { const frame = document.querySelector('#page'), top = frame.getBoundingClientRect().top;"
        " const at = frame.contentDocument.querySelector('#memory').getBoundingClientRect().top;"
        " return Math.abs(top + at) < innerHeight; }"
    )


def test_what_to_rent_and_what_more_gpus_gain(page: Any) -> None:
    page.select_option("#f-kind", "serving")
    page.select_option("#f-question", "buy")
    rent = answer(page, "costmodel buy --model llama-3.1-8b --rate 8 --prompt 2000 --answer 500")
    rent.locator("#machines svg").first.wait_for()
    assert rent.locator("#machines th", has_text="rent").count()
    assert rent.locator("h1").text_content() == "Llama 3.1 8B"
    page.select_option("#f-question", "scale")
    answer(page, "costmodel scale --rate 1..64 --model llama-3.1-8b --gpu h100-sxm").locator("svg").first.wait_for()
    page.select_option("#f-kind", "training")
    answer(page, "costmodel scale --ranks 8..1024").locator("svg").first.wait_for()
    page.locator("#f-weak").check()
    answer(page, "--weak").locator("h1").wait_for()
    page.select_option("#f-question", "buy")
    answer(page, "--deadline 60d").locator("#machines svg").first.wait_for()
    page.select_option("#f-question", "search")  # what the page filled in leaves with its question
    answer(page, "costmodel search").locator("#plans table").wait_for()
    assert not {"--deadline", "--tokens"} & {*page.locator("#command").text_content().split()}


def test_a_shipped_scenario_is_a_start_and_so_is_a_file(page: Any, tmp_path: Path) -> None:
    page.select_option("#f-scenario", "lora-llama-3-70b-8")
    answer(page, "costmodel search lora-llama-3-70b-8").locator("h1", has_text="LoRA").wait_for()
    assert page.locator("#f-kind").count() == 0
    page.locator("#f-gpus").fill("16")
    answer(page, "--gpus 16").locator("h1", has_text="16").wait_for()
    text = (ROOT / "scenarios/serve-llama-3.1-70b.yaml").read_text("utf-8")
    (tmp_path / "mine.yaml").write_text(text, "utf-8")
    page.locator("input[type=file]").set_input_files(tmp_path / "mine.yaml")
    answer(page, "costmodel search mine.yaml").locator("h1", has_text="chat").wait_for()
    page.locator("#f-rate").fill("9")
    answer(page, "costmodel search mine.yaml --rate 9")


def test_a_link_holds_what_is_asked_and_a_config_json_can_be_dropped(page: Any) -> None:
    data = page.evaluate_handle(
        "text => { const data = new DataTransfer(); data.items.add(new File([text], 'config.json')); return data; }",
        CONFIG,
    )
    page.dispatch_event("body", "drop", {"dataTransfer": data})
    answer(page, "--model config.json").locator("h1", has_text="qwen3").wait_for()
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    answer(page, "--model config.json").locator("h1", has_text="qwen3").wait_for()


@pytest.mark.parametrize("question", ["search", "estimate", "buy", "scale"])
def test_the_page_fits_every_window_in_light_and_dark(question: str, page: Any) -> None:
    page.select_option("#f-question", question)
    answer(page, f"costmodel {question}").locator("h1").wait_for()
    for window, scheme in ((390, "light"), (1200, "dark")):
        page.set_viewport_size({"width": window, "height": 800})
        page.emulate_media(color_scheme=scheme)
        wide = "[document, document.querySelector('#page').contentDocument].map(it => it.documentElement.scrollWidth)"
        assert max(page.evaluate(wide)) <= window
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(22, 25, 29)" if scheme == "dark" else "rgb(255, 255, 255)")
    unnamed = page.evaluate(
        "[...document.querySelectorAll('input,select,textarea')].filter(item => !item.labels?.length"
        " && !item.getAttribute('aria-label')).length"
    )
    assert unnamed == 0


def test_the_docs_show_the_page(page: Any, door: Door, pytestconfig: pytest.Config) -> None:
    """With --update-transcripts the picture is drawn anew."""
    picture = ROOT / "docs/guide/page.png"
    page.set_viewport_size({"width": 1200, "height": 900})
    page.goto("about:blank")
    page.goto(f"http://127.0.0.1:{door.port}/")
    answer(page, "costmodel search").locator("button.how").first.wait_for()
    if pytestconfig.getoption("--update-transcripts"):
        page.screenshot(path=picture)
    assert 10_000 < picture.stat().st_size <= 150_000  # bytes
