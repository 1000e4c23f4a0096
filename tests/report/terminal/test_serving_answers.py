"""What answers about serving print beside their figures: how sure they are, and what fixes a plan."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from each import each

from costmodel.report.terminal.layout import CellTable

SERVED = "serve-llama-3.1-70b"
SCALED = ("scale", "--model", "llama-3.1-70b", "--gpu", "h100", "--prompt", "2000", "--answer", "500")


@pytest.mark.parametrize(
    ("setting", "figures", "code"),
    [
        ("plan.tp=7", "64 query heads are not divisible by tp 7", "L051"),
        ("plan.tp=7", "8 key-value heads are neither divisible by tp 7 nor a divisor of it", "L052"),
        pytest.param("plan.pp=90", "pp 90 is more than the 80 layers of the model", "L055", marks=pytest.mark.whole),
        pytest.param(
            "plan.replicas=9",
            "the replicas need 72 accelerators, and the cluster has 16",
            "L050",
            marks=pytest.mark.whole,
        ),
        ("workload.prompt=1e7", "one request of 10,000,512 tokens 381", "M001"),
        ("workload.prompt={mean: 2000, spread: 300 %}", "ttft_p99 4.67 s exceeds its limit of 1.00 s", "S002"),
    ],
)
def test_a_refused_plan_states_its_figures_and_what_mends_it(setting: str, figures: str, code: str, run: Any) -> None:
    """The first remedy, taken, leaves nothing of that kind."""
    found = run("estimate", SERVED, "--set", setting)
    assert found.code == 1
    assert figures in re.sub(r"\s+", " ", found.out)
    assert " try  --set " in found.out
    refused = json.loads(run("estimate", SERVED, "--set", setting, "--json").out)["refused"]
    (fixes,) = [each["remedies"][0]["set"] for each in refused if each["code"] == code]
    options = [word for each in fixes for word in ("--set", each)]
    after = json.loads(run("estimate", SERVED, "--set", setting, *options, "--json").out)["refused"]
    assert code not in [each["code"] for each in after]


def test_a_shorter_prompt_is_one_that_the_model_takes(run: Any) -> None:
    """One request of 1.3 M tokens fits into the cache; the model ends at 131,072, and few that long are answered."""
    out = run("estimate", SERVED, "--prompt", "1e18").out
    [tried] = re.findall(r"try  --prompt (\d+)", out)
    assert 10_000 < int(tried) <= 131_072 - 512


@pytest.mark.parametrize(("more", "remarked"), [(("--safe", "off"), True), ((), False)])
def test_scale_prints_a_chance_that_is_hardly_sure(more: tuple[str, ...], remarked: bool, run: Any) -> None:
    out = run(*SCALED, "--rate", "50/s", "--set", "limits.ttft_p99.at_most=1s", *more).out
    chance = float(re.findall(r"([\d.]+) % +(?:unknown|\$)", out)[0])
    assert (chance < 90) is remarked
    assert (f"met with a chance of {chance:.0f} %" in out) is remarked
    assert ("is expected to meet the limits up to" in out) is remarked
    assert bool(re.search("meets the limits up to .* with a chance of 90 %", out)) is not remarked


def test_scale_takes_rates_around_the_stated_one(run: Any) -> None:
    """8 requests/s are stated."""
    found = json.loads(run("scale", SERVED, "--json").out)["sizes"]
    assert [each["workload.rate"] for each in found] == [2, 4, 8, 16, 32]
    assert "rates around workload.rate; --rate" in run("scale", SERVED).out


def test_all_rent_over_generated_tokens_has_a_name_of_its_own(run: Any) -> None:
    """Prompts of 2,048 and answers of 512 tokens: four prompt tokens and one generated pay the same rent together."""
    out = run("estimate", SERVED).out
    prompts, answers, rent = map(float, re.findall(r"\$([\d.]+)", out[out.index("  cost ") :])[:3])
    assert rent == pytest.approx(4 * prompts + answers, rel=0.01)
    assert f"${rent:.2f}" in run("scale", SERVED, "--rate", "8/s", "--safe", "off").out
    assert "all rent" in run("explain", "rent/M out").out


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("assume.price=1e30 USD/GPU/h", "1e30 USD/GPU/h is out of range: at least 0 and at most 1e06 USD/GPU/h"),
        ("assume.price=$48000000/day", "at least 0 and at most 2.4e07 USD/day"),
        ("assume.price=1e9 USD/GPU/h", "at most 1e06 USD/GPU/h"),
        ("assume.price=3 USD", "'USD' is not a unit of USD/GPU/h"),
        ("limits.ttft_p99.at_most=1", "1 has no unit; write '1 s', '1 ms' or '1 us'"),
        ("workload.rate=1e9/s", "at most 1e06"),
    ],
)
def test_a_value_out_of_range_is_told_in_the_unit_it_was_written_in(
    setting: str, sentence: str, run: Any, faults: Any
) -> None:
    (fault,) = faults(run("estimate", SERVED, "--set", setting))
    assert sentence in fault.sentence


def test_options_of_training_are_refused_with_what_serving_does_instead(run: Any, faults: Any) -> None:
    for words, code, instead in (
        (("search", "--resume"), "C021", "add --into FOLDER"),
        (("scale", "--ranks", "8..64*2"), "C030", "--rate '2..16 /s'"),
        (("scale", "--weak"), "C030", "--rate '2..16 /s'"),
    ):
        (fault,) = faults(run(words[0], SERVED, *words[1:]))
        assert (fault.code, instead in fault.help) == (code, True)
    (fault,) = faults(run("diagnose", "quickstart", "--step", "20"))
    assert "'20 s', '20 ms' or '20 us'" in fault.sentence


def test_diff_gives_the_reason_why_a_price_is_gone(run: Any) -> None:
    out = run("diff", SERVED, "--set", "cluster.node=dgx-h200").out
    assert "your price, 2.50 USD/GPU/h, is for dgx-h100 only" in out
    assert "was left out" not in run("diff", SERVED, "--set", "plan.tp=4").out


def test_the_rent_of_a_run_is_as_wide_as_its_time(run: Any) -> None:
    """Rent is time times a price, so that P10 and P90 stand to the middle as those of an iteration do."""
    out = run("estimate", "grpo-qwen-2.5-7b-64", "--set", "workload.prompts=128").out
    rent = [float(word.replace(",", "")) for word in re.findall(r"\$([\d,]+)", out[out.index("  run ") :])[:3]]
    time = [float(word) for word in re.findall(r"iteration +(\d+) s[^P]*\n +P10 – P90 +(\d+) – (\d+) s", out)[0]]
    assert [value / rent[0] for value in rent] == pytest.approx([value / time[0] for value in time], rel=0.01)


LOAD = ("--set", "workload.rate=100/s")


@each(
    "words, stated, endless",
    [
        (("estimate", SERVED, *LOAD), "At 1", True),
        (("sweep", SERVED, "--over", "workload.rate=4/s,100/s", "--show", "tpot,ttft"), "S003 at 1", True),
        (("search", SERVED, *LOAD), "requests arrive faster than they are answered", True),
        (("diff", SERVED, SERVED, *LOAD), "its figures are at 1", True),
        (("check", SERVED, *LOAD), "at most 1", True),
        (("sensitivity", SERVED, *LOAD), "figures at 1", False),
        (("explain", SERVED, "ttft", "--depth", "1", *LOAD), "figures at 1", True),
    ],
)
def test_answers_state_that_more_arrives_than_is_answered(
    words: tuple[str, ...], stated: str, endless: bool, run: Any, few_knobs: None
) -> None:
    """2 replicas answer 13 requests/s: a code, the rate that figures are of, and no finite first token."""
    out = re.sub(r"\s+", " ", run(*words).out)
    assert "S003" in out
    assert stated in out
    assert bool(re.search("∞", out)) is endless
    assert not re.search(r"\binf\b", out)


def test_a_difference_of_waits_without_end_is_no_number_in_json(run: Any) -> None:
    found = json.loads(run("diff", SERVED, SERVED, "--set", "workload.rate=100/s", "--json").out)
    moved = {row["name"]: row for row in found["figures"]}
    assert [found[side]["overload"] for side in ("before", "after")] == [[], ["S003"]]
    assert moved["ttft_s"]["before"] > 0
    assert moved["ttft_s"]["after"] is None


@pytest.mark.parametrize(
    "gap", [1e-3, *(pytest.param(gap, marks=pytest.mark.whole) for gap in (1e-2, 1e-4, 1e-5)), 1e-7]
)
def test_a_missed_limit_is_told_apart_from_the_figure(gap: float, run: Any) -> None:
    """A limit a little below the figure: the sentence never states that a number is over itself."""
    tpot = json.loads(run("estimate", SERVED, "--json").out)["plans"][0]["tpot_s"]
    setting = f"limits.tpot.at_most={tpot * (1 - gap) * 1e3:.10f} ms"
    out = run("estimate", SERVED, "--set", setting).out
    [(stated, just, bound)] = re.findall(r"tpot ([\d.]+) ms (just )?exceeds its limit of ([\d.]+) ms", out)
    assert float(bound) < float(stated) or just
    assert bool(just) is (gap < 1e-6)
    checked = run("check", SERVED, "--set", setting).out
    assert re.search(r"✗ tpot +([\d.]+) ms", checked)
    row = next(line for line in out.splitlines() if line.startswith("  per token"))
    shown = re.findall(r"([\d.]+) ms", row)
    assert shown[0] != shown[-1] or "just over" in row


def test_a_share_close_to_the_whole_is_no_row_of_nines(run: Any) -> None:
    """At a quarter of the load nearly every request is in time."""
    for command in (("estimate",), ("scale", "--rate", "1,2"), ("search",)):
        out = run(command[0], SERVED, *command[1:], "--set", "workload.rate=1/s").out
        assert ">99.9" in out
        assert not re.search(r"99\.9\d|100 ?% .*chance", out)


def test_an_answer_of_one_token_has_no_time_between_tokens(run: Any) -> None:
    """No figure per token is shown, nor is a limit on one broken; with two tokens both are there."""
    single, two = (run("estimate", SERVED, "--set", f"workload.output={tokens}") for tokens in (1, 2))
    assert "none: an answer is one token" in single.out
    assert not re.search(r"tpot \d|per user|worst gap|of a token's time|where a token", single.out)
    assert (single.code, two.code) == (0, 1)
    assert "S001 time per token: tpot" in two.out
    (plan,) = json.loads(run("estimate", SERVED, "--set", "workload.output=1", "--json").out)["plans"]
    assert [plan[name] for name in ("tpot_s", "tpot_p99_s", "tokens_per_s_per_user", "worst_gap_s")] == [None] * 4
    table = run("search", SERVED, "--top", "1", "--set", "workload.output=1").out
    assert re.search(r"^ +1 .* — +—", table, re.MULTILINE)


def test_no_command_shows_a_time_between_tokens_of_one_token(run: Any) -> None:
    single = ("--set", "workload.output=1")
    assert re.search(r"^ +8/s .* — +— ", run("scale", SERVED, "--rate", "8/s", *single).out, re.MULTILINE)
    for figure in ("tpot", "worst_gap"):
        explained = run("explain", SERVED, figure, *single)
        assert (explained.code, "an answer is one token" in explained.err) == (2, True)
    assert run("explain", SERVED, "ttft", *single).code == 0


def test_what_moves_an_answer_of_one_token_is_its_first_token(run: Any, few_knobs: None) -> None:
    assert "ttft 155 ms" in run("sensitivity", SERVED, "--top", "1", "--set", "workload.output=1").out


@pytest.mark.parametrize(
    ("command", "limit"), [("memory", "limits.memory.at_most=20%"), ("comm", "workload.rate=30/s")]
)
def test_the_exit_code_is_that_of_what_a_command_shows(command: str, limit: str, run: Any) -> None:
    """At 10 requests/s only the time per token breaks its limit, which neither command shows."""
    late = run(command, SERVED, "--set", "workload.rate=10/s")
    assert (late.code, "✗" in late.out) == (0, False)
    assert run("estimate", SERVED, "--set", "workload.rate=10/s").code == 1
    broken = run(command, SERVED, "--set", limit)
    assert (broken.code, "✗" in broken.out) == (1, True)


def test_a_sweep_remarks_a_key_only_where_it_has_no_effect_at_any_value(run: Any) -> None:
    """Routing counts where turns come back: it has an effect at 4 turns, and none at 1."""
    keys = ("--set", "workload={kind: serving, prompt: 500, output: 200, users: 90, think_time: 20 s}")
    asked = ("sweep", "serve-llama-3.1-70b", *keys, "--set", "assume.routing=cache-aware", "--over")
    assert "N051" not in run(*asked, "workload.turns=1,4").out
    assert "N051" in run(*asked, "workload.prompt=500,600").out


@pytest.mark.parametrize(
    "more", [(), ("--set", "workload.rate=12 /s"), ("--set", "workload.rate=50 /s"), ("--set", "limits={}")]
)
def test_the_load_is_a_share_of_the_saturation_beside_it(more: tuple[str, ...], run: Any) -> None:
    """So it is the room left, which the share of time that goes into requests is not."""
    out = run("estimate", SERVED, *more).out
    answered, most = (float(re.findall(rf"\b{word} +([\d.]+) /s", out)[0]) for word in ("requests", "saturation"))
    assert float(re.findall(r"load +([\d.]+) % of saturation", out)[0]) == pytest.approx(
        100 * answered / most, rel=5e-3
    )
    assert "utilisation" not in out


def test_a_pool_with_windows_is_so_many_requests_each_with_them(run: Any) -> None:
    """By the checkpoint's config.json: 36 layers, half of them with a window, with 8 key-value heads of 64 in bf16."""
    flags = ("--model", "gpt-oss-120b", "--gpu", "h200", "--gpus", "1", "--prompt", "2000", "--answer", "300")
    out = run("memory", *flags, "--rate", "2").out
    layer = 2 * 8 * 64 * 2 / 1024  # KiB a token
    pool = float(re.findall(r"cache +([\d.]+) +█", out)[0])
    [(token, request)] = re.findall(r"cache +([\d.]+) KiB per token; ([\d.]+) MiB per GPU for 2,300", out)
    [aside] = re.findall(r"of that ([\d.]+) MiB for 18 layers \(window of 128\); a token adds to the other 18", out)
    [(counted, tokens)] = re.findall(r"at least ([\d.]+) at once, 2,300 tokens each, ([\d.]+) k in whole blocks", out)
    assert float(token) == 18 * layer
    assert 18 * layer * 2304 / 1024 + float(aside) == pytest.approx(float(request), rel=5e-3)
    assert float(counted) * float(request) / 1024 == pytest.approx(pool, rel=5e-3)
    assert float(counted) * 2304 == pytest.approx(float(tokens) * 1000, rel=1e-3)
    assert "(cache)" not in out  # which would have windows of its own
    [(held, longest)] = re.findall(r"logs: GPU KV cache size ([\d,.]+) k tokens, in requests of ([\d,]+)", out)
    most = float(longest.replace(",", ""))
    windowed = 127 + 8192 + 16  # with the budget of a step, in blocks of 16
    requests = float(held.replace(",", "")) * 1e3 / most
    assert requests * 18 * layer * (most + windowed) / 2**20 == pytest.approx(pool, rel=5e-3)
    before = run("memory", *flags, "--rate", "2", "--stack", "vllm-0.20").out
    alike = float(re.findall(r"logs: GPU KV cache size ([\d.]+) k tokens, as if every layer kept all", before)[0])
    earlier = float(re.findall(r"cache +([\d.]+) +█", before)[0])
    assert alike * 36 * layer * 1e3 / 2**20 == pytest.approx(earlier, rel=5e-3)


def test_a_pool_without_windows_is_tokens_times_their_bytes(run: Any) -> None:
    out = run("memory", SERVED).out
    assert "in whole blocks" not in out
    pool, token = (float(re.findall(found, out)[0]) for found in (r"cache +([\d.]+) +█", r"([\d.]+) KiB per token"))
    tokens = float(re.findall(r"([\d,]+) \(cache\)", out)[0].replace(",", ""))
    assert tokens * token / 2**20 == pytest.approx(8 * pool, rel=2e-3)


def test_memory_of_a_plan_that_does_not_fit_names_what_it_needs_of_what_there_is(run: Any) -> None:
    """The engine may use 92 % of 79.2 GiB; nothing is in flight where nothing fits."""
    job = ("--gpu", "h100", "--gpus", "8", "--prompt", "2000", "--answer", "500", "--rate", "1")
    out = run("memory", "--model", "deepseek-v3", *job).out
    lines = {
        line.split()[0]: line.split() for line in out.splitlines() if re.match(r"  (weights|activ|runtime|need)", line)
    }
    parts = sum(float(lines[name][1]) for name in ("weights", "activations", "runtime"))
    assert float(lines["needed"][1]) == pytest.approx(parts, abs=0.1)
    assert "of 72.9 GiB that the engine may use: gpu_memory_utilization 0.92" in out  # of 79.2
    assert "in flight at this load" not in out
    fits = run("memory", "--model", "llama-3.1-70b", *job).out
    assert re.search(r"^  asked +72.9", fits, re.MULTILINE)
    assert "are in flight at this load" in fits


def test_a_token_within_the_window_adds_its_cache(run: Any) -> None:
    """By the checkpoint's config.json: 32 layers with a window of 4,096, 8 key-value heads of 128, in bf16."""
    out = run("memory", "--model", "mistral-7b-v0.1", "--gpu", "h100", "--gpus", "1", "--stack", "vllm").out
    token = 32 * 2 * 8 * 128 * 2 / 1024  # KiB
    assert f"{token:.0f} KiB per token within the window of 4,096; 322 MiB per GPU for 2,560 tokens" in out
    assert "a token beyond adds nothing" in out
    assert "0 GiB per token" not in out


def test_scale_states_the_chance_that_is_demanded(run: Any) -> None:
    said = run("scale", "serve-llama-3.1-70b", "--rate", "8..16", "--safe", "95%").out
    assert "meets the limits up to " in said
    assert " requests/s with a chance of 95 %." in said
    assert "is expected to meet" in run("scale", "serve-llama-3.1-70b", "--rate", "8..16", "--safe", "off").out


def test_words_of_a_table_have_a_style_of_their_own() -> None:
    table = CellTable(("", ""), [("rate", "chance 79 %")], "ll", headed=False, marked={"chance 79 %": "warn"})
    (line,) = table.lines()
    assert [(line.plain[span.start : span.end], span.style) for span in line.spans] == [("chance 79 %", "warn")]
