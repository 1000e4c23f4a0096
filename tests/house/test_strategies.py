"""Every strategy says what it is, when it pays and what it costs, with equations and sources that exist."""

from __future__ import annotations

import subprocess
import sys
from typing import get_args

import pytest
from each import each, share_of

from costmodel.documents.reader.library import bibliography, strategies
from costmodel.documents.schemas.precision import Precision
from costmodel.documents.schemas.scenario import ExpertAssumption
from costmodel.documents.schemas.stack import Overlap
from costmodel.estimate.training_answer.evaluate_training import FITS
from costmodel.explore.explain.word_explanations import all_words, page
from costmodel.ground.equation import EQUATIONS
from costmodel.ground.errors import CostModelError

KEYS = {"title", "what", "pays", "costs", "equations", "source"}
every = each("word", strategies())


def test_they_are_sorted_and_no_name_is_used_twice() -> None:
    assert list(strategies()) == sorted(strategies())
    names = [name for word, entry in strategies().items() for name in (word, *entry.get("also", ()))]
    assert len(names) == len(set(names))


@every
def test_an_entry_is_complete(word: str) -> None:
    entry = strategies()[word]
    assert set(entry) - {"also"} == KEYS
    assert entry["equations"]
    assert [name for name in entry["equations"] if name not in EQUATIONS] == []
    assert [key.split()[0] for key in entry["source"].split(";") if key.split()[0] not in bibliography()] == []


@every
def test_its_page_shows_the_formulas(word: str) -> None:
    entry = strategies()[word]
    for name in (word, *entry.get("also", ())):
        shown = page(name)
        assert shown.word == word
        assert entry["pays"] in shown.text
        assert [formula.name for formula in shown.formulas] == entry["equations"]


@each("word", share_of(all_words(), 3))
def test_every_word_has_a_page(word: str) -> None:
    found = page(word)
    assert found.text or found.asked


@pytest.mark.parametrize("word", ["MFU", "HFU", "P10", "P90", "band", "Fits", "tight", "Precision", "ZERO-1", "l002"])
def test_words_of_an_answer_have_pages_however_they_are_written(word: str) -> None:
    assert page(word).word.lower() == word.lower()


def test_pages_of_words_say_what_the_code_holds() -> None:
    for word in ("fits", "tight"):
        assert f"{FITS * 100:.0f} " in page(word).text
    assert [name for name in get_args(Precision) if name not in page("precision").text] == []
    assert page("precision").title == "an input of equations"
    assert page("forward").title == "an input of equations, in FLOP or B"


def test_words_of_keys_have_pages() -> None:
    for word in ("deduplicated", "modules", "narrow", "overlap", "tuning"):
        assert page(word).title.startswith("an input of equations")
    assert "assume.experts.deduplicated" in page("expert-parallel").text


def test_a_path_of_a_scenario_has_a_page() -> None:
    answer = page("assume.experts.deduplicated")
    meant = str(ExpertAssumption.model_fields["deduplicated"].description)
    assert (answer.word, answer.title) == ("assume.experts.deduplicated", page("deduplicated").title)
    assert answer.text.splitlines() == [meant, page("deduplicated").text.splitlines()[0]]
    assert page("cluster.fabric.bandwidth").text == page("cluster.node.scale_out.fabric.bandwidth").text
    assert page("assume.flop_convention").title == "a key of the scenario"
    answer = page("overlap.ahead")
    assert (answer.title, answer.text) == ("a key of stack documents", str(Overlap.model_fields["ahead"].description))
    with pytest.raises(CostModelError) as refused:
        page("assume.expert.deduplicated")
    assert refused.value.faults[0].code == "C003"


def test_a_program_of_its_own_knows_every_equation() -> None:
    """Also those in modules that no estimate imports."""
    code = "from costmodel.explore.explain.word_explanations import all_words; print(*all_words(), sep='\\n')"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=1800, check=True
    ).stdout
    assert [name for name in EQUATIONS if name not in answer.split("\n")] == []


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("split", "plan.split: How layers are assigned to stages"),
        ("first_stage_layers", "plan.first_stage_layers: Layers of the first stage"),
        ("imbalance", "assume.experts.imbalance: "),
        ("weights", "costmodel explain SCENARIO weights traces it"),
    ],
)
def test_a_key_alone_has_a_page_that_says_where_it_is_written(word: str, said: str) -> None:
    assert said in page(word).text
