"""Options of vLLM and SGLang as their own parsers have them: the tables know all, and those that are written exist."""

from __future__ import annotations

import re

import pytest

from costmodel.documents.reader.load_scenario import load_any
from costmodel.exchange.serving import sglang, vllm
from costmodel.exchange.serving.command_options import OptionWords, option_words
from costmodel.exchange.shell import read_script
from costmodel.explore.import_export.export_serving import export_engine

from .make import counted, kept, reference, written
from .real.engine_options import installed

NAMES = reference("engine_options")
TABLES = {"vllm": vllm, "sglang": sglang}


def words(engine: str, text: str) -> OptionWords:
    options = TABLES[engine]
    [command] = read_script(text, "serve.sh").commands
    return option_words(command.words, options.TABLE, options.SPELLING)


@pytest.mark.parametrize("engine", TABLES)
def test_every_option_of_an_engine_is_known(engine: str) -> None:
    named = [name for name in NAMES[engine] if name not in ("-h", "--help")]
    unknown = [name for name in named if set(words(engine, name).tree) - set(TABLES[engine].TABLE)]
    assert not unknown


@pytest.mark.parametrize("engine", TABLES)
def test_every_option_that_is_written_is_one_of_the_engine(engine: str) -> None:
    from costmodel.documents.reader.serving_scenario import serving

    for scenario in ("serve-llama-3.1-70b",):
        text = export_engine(serving(load_any(scenario, ())), engine).file.text
        command = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
        assert not set(re.findall(r"(?<=\s)--?[a-zA-Z][\w-]*", command)) - set(NAMES[engine]) - {"-m"}


@pytest.mark.parametrize(
    ("option", "name", "value"),
    [
        ("--disable-prefix-caching", "enable-prefix-caching", False),
        ("--no-enable-prefix-caching", "enable-prefix-caching", False),
        ("--enable-custom-all-reduce", "disable-custom-all-reduce", False),
        ("--disable-chunked-prefill", "enable-chunked-prefill", False),
        ("--device-memory-utilization 0.8", "gpu-memory-utilization", "0.8"),
    ],
)
def test_an_option_switches_off_what_another_switches_on(option: str, name: str, value: object) -> None:
    assert dict(words("vllm", option).tree) == {name: value}


@pytest.mark.skipif(not installed(), reason="needs vLLM and SGLang")
@pytest.mark.filterwarnings("ignore")
def test_the_engines_still_have_what_is_kept() -> None:
    assert written(counted("engine_options")) == kept("engine_options").read_text("utf-8")
