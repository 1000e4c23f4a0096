"""Why a step is slow: planted causes are found, a prediction needs none, and a value closes the gap it is said to."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from costmodel.documents.reader.load_scenario import load
from costmodel.estimate.training_answer.predict_training import predict
from costmodel.explore.diagnose.diagnose import diagnose, possible_causes
from costmodel.explore.diagnose.measured_step import TERMS, MeasuredStep, terms_of_evaluation
from costmodel.explore.explain.word_explanations import page

from .planted import SCENARIOS, own, trial

NAME = "llama-3-70b-512"
TRIALS, ALL = 4, 12  # of the suite, and of --whole; planted.py plays as many as it is asked for


def json_of(run: Any, *args: str) -> dict[str, Any]:
    ran = run("diagnose", NAME, *args, "--json")
    assert ran.code in (0, 1), ran
    found: dict[str, Any] = json.loads(ran.out)
    return found


def test_a_planted_cause_is_first_or_second_in_nine_of_ten(request: pytest.FixtureRequest) -> None:
    """A few of the trials, unless --whole asks for all."""
    count = ALL if request.config.getoption("--whole") else TRIALS
    trials = [trial(seed)[0] for seed in range(max(count, request.config.getoption("--fuzz")))]
    missed = [one for one in trials if one.place not in (1, 2)]
    assert len(missed) <= len(trials) / 10, missed


def test_at_least_eight_causes_are_looked_at() -> None:
    asked, base = own("llama-3-70b-512")
    assert len({cause.name for cause in possible_causes(asked, base)}) >= 8


@pytest.mark.parametrize("name", SCENARIOS)
def test_its_own_prediction_is_inside_the_band(name: str) -> None:
    asked, base = own(name)
    given = MeasuredStep(base.step, {}, {term: base.terms[term] for term in TERMS})
    found = diagnose(asked, base, given)
    assert found.inside
    assert (found.explained, found.over) == ((), {})


def test_terms_of_a_prediction_add_up() -> None:
    base = terms_of_evaluation(predict(load(NAME)).evaluation)
    added = sum(time for name, time in base.terms.items() if not name.endswith("_time") and name != "idle")
    assert added == pytest.approx(base.step, rel=1e-9)
    assert base.terms["idle"] == base.terms["bubble"] + base.terms["launch"]
    assert base.terms["dp_time"] >= base.terms["dp_exposed"] > 0


def test_each_value_closes_the_gap(run: Any) -> None:
    """What is said to be needed, set in the scenario, gives the measured step."""
    found = json_of(run, "--step", "18.9 s")
    units = {"1": "", "s": " s", "B/s": " B/s"}
    tried = 0
    for cause in found["causes"]:
        if cause["path"] is None or ".efficiency." in cause["path"]:  # no leaf of a scenario
            continue
        setting = f"{cause['path']}={cause['needed']!r}{units[cause['unit']]}"
        step = json.loads(run("estimate", NAME, "--set", setting, "--json").out)["plans"][0]["step_time_s"]
        assert step == pytest.approx(18.9, rel=2e-3), cause
        tried += 1
    assert tried >= 4


@pytest.mark.parametrize(
    ("setting", "cause"),
    [
        ("assume.sustained=1.6", "clocks"),
        ("assume.overlap.tp=0", "tp overlap"),
        ("assume.network_share=5 %", "network"),
        ("stack.launch.operation=150 us", "host"),
        ("cluster.node.scale_up.fabric.bandwidth=150 GB/s", "links"),
    ],
)
def test_a_changed_scenario_is_found_out(run: Any, setting: str, cause: str) -> None:
    slow = terms_of_evaluation(predict(load(NAME, [setting])).evaluation)
    terms = [part for name, time in slow.terms.items() for part in ("--term", f"{name}={time!r} s")]
    found = json_of(run, "--step", f"{slow.step!r} s", *terms)
    assert found["inside"] is False
    assert cause in [each["cause"] for each in found["causes"][:2]]


def test_mfu_and_tokens_state_the_step(run: Any) -> None:
    plan = json.loads(run("estimate", NAME, "--json").out)["plans"][0]
    for option, value in (("--mfu", plan["mfu"]), ("--tokens-per-s", plan["tokens_per_s"])):
        assert json_of(run, option, f"{value!r}")["measured_s"] == pytest.approx(plan["step_time_s"], rel=1e-9)
    both = ("--step", f"{plan['step_time_s']!r} s", "--mfu", f"{plan['mfu']!r}")
    assert json_of(run, *both)["inside"] is True


def test_exit_codes_say_whether_it_is_inside(run: Any) -> None:
    assert run("diagnose", NAME, "--step", "16.2 s").code == 0
    assert run("diagnose", NAME, "--step", "25 s").code == 1
    assert run("diagnose", NAME, "--step", "16.2 s", "--set", "plan.tp=3").code == 1


def test_a_step_faster_than_the_band_needs_better_figures(run: Any) -> None:
    found = json_of(run, "--step", "14 s")
    (first, *_) = found["causes"]
    assert first["cause"] == "clocks"
    assert first["needed"] < first["expected_low"]
    assert {"fixed", "stage", "one part"} <= {each["cause"] for each in found["impossible"]}


def test_a_term_that_a_cause_would_move_speaks_against_it(run: Any) -> None:
    base = terms_of_evaluation(predict(load(NAME)).evaluation)
    found = json_of(run, "--step", "20 s", "--term", f"matmul={base.terms['matmul']!r} s")
    clocks = next(each for each in found["causes"] if each["cause"] == "clocks")
    assert clocks["against"]["term"] == "matmul"
    assert found["causes"][0]["cause"] != "clocks"


SMALL = [
    word
    for flag in ("model llama-3.1-8b", "gpu h100", "gpus 64", "batch 512", "sequence 8Ki", "step 9.8s")
    for word in f"--{flag}".split()
]


def test_a_cause_that_usually_explains_little_is_not_first(run: Any) -> None:
    shown = run("diagnose", *SMALL, "--json")
    found = json.loads(shown.out)
    gap = found["measured_s"] - found["predicted_s"]
    shares = {cause["cause"]: cause["usual_explains_s"] / gap for cause in found["causes"]}
    assert shares["host"] < 0.1 < next(iter(shares.values())) < 0.5
    usual = [abs(cause["usual_explains_s"]) for cause in found["causes"]]
    assert usual == sorted(usual, reverse=True)
    assert "No one cause usually explains most of it. First to check: clocks" in run("diagnose", *SMALL).out


def test_a_cause_that_a_term_contradicts_is_not_the_likeliest(run: Any) -> None:
    shown = run("diagnose", *SMALL, "--term", "tp exposed=1.2s").out
    assert "Of the 2.98 s above the prediction: exposed tp communication 1.06 s. First to check: clocks" in shown
    assert "Most likely" not in shown


FSDP = shlex.split(
    "--model llama-3.1-8b --gpu h100 --gpus 32 --stack fsdp2 --sequence 8192 --batch 64 --set plan.micro_batch=2"
)


def test_terms_that_hold_the_gap_are_the_conclusion(run: Any) -> None:
    """The gap is in two terms, which no single cause explains: none is said to explain all of it."""
    terms = ("--term", "dp_exposed=4.8s", "--term", "launch=2.12s", "--term", "matmul=1.4s")
    shown = run("diagnose", *FSDP, "--step", "9.8s", *terms).out
    assert (
        "s above the prediction: exposed dp communication 4.74 s, idle gaps (launch) 2.12 s. Measure first: all_reduce"
        in shown
    )
    assert ("Is this the same job?" in shown, "No one cause" in shown) == (False, False)
    assert "dp_exposed    4.80 s    61.5 ms   +4.74 s  network between nodes" in shown


def test_a_step_of_several_times_its_prediction_names_jobs_that_take_as_long(run: Any) -> None:
    """Each job that is named takes the measured step, by its own estimate."""
    found = json.loads(run("diagnose", *FSDP, "--step", "9.8s", "--json").out)
    assert found["of_another_job"] is True
    assert {one["setting"].partition("=")[0] for one in found["other_jobs"]} >= {"workload.global_batch"}
    for one in found["other_jobs"]:
        answer = json.loads(run("estimate", *FSDP, "--set", one["setting"], "--json").out)["plans"][0]
        assert answer["step_time_s"] == pytest.approx(one["predicted_s"], rel=1e-9)
        assert answer["step_time_low_s"] <= 9.8 <= answer["step_time_high_s"]
    shown = run("diagnose", *FSDP, "--step", "9.8s").out
    assert "Is this the same job? 9.80 s is a step with --batch 320" in shown
    assert json.loads(run("diagnose", *FSDP, "--mfu", "8%", "--json").out)["other_jobs"] == []


def test_an_mfu_is_judged_as_one(run: Any) -> None:
    """It stands beside the predicted MFU with its band, and is too low where the step is too long."""
    plan = json.loads(run("estimate", NAME, "--json").out)["plans"][0]
    low, high = (plan["mfu"] * plan["step_time_s"] / plan[f"step_time_{end}_s"] for end in ("high", "low"))
    shown = run("diagnose", NAME, "--mfu", "32%").out
    band = rf"predicted +{plan['mfu'] * 100:.1f} % MFU +\({low * 100:.1f} – {high * 100:.1f} %\)"
    assert re.search(band, shown)
    assert re.search(r"measured +32\.0 % MFU .*a step of 23", shown)
    assert "too low, outside the band" in shown


def test_a_table_says_the_same_as_options(run: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("name,value\nstep_time,18.9 s\ndp_exposed,500 ms\n", "utf-8")
    table = run("diagnose", NAME, "--from", "mine.csv", cwd=tmp_path)
    assert table.answer == run("diagnose", NAME, "--step", "18.9s", "--term", "dp_exposed=0.5s").answer


@pytest.mark.parametrize(
    "args",
    [
        (),
        ("--step", "18.9"),
        ("--step", "0 s"),
        ("--step", "-3 s"),
        ("--step", "18.9 GB"),
        ("--mfu", "38"),
        ("--step", "20 s", "--mfu", "46 %"),
        ("--step", "20 s", "--term", "dp"),
        ("--step", "20 s", "--term", "network=3 s"),
        ("--step", "20 s", "--term", "dp_exposed=fast"),
        ("--tokens-per-s", "many"),
    ],
)
def test_what_is_no_measurement_is_a_fault(run: Any, faults: Any, args: tuple[str, ...]) -> None:
    assert [fault.code for fault in faults(run("diagnose", NAME, *args))] == ["C023"]


@pytest.mark.parametrize("text", ["step_time 18.9 s\n", "step,18.9 s\n", "step_time,long\n", "dp_exposed,\n"])
def test_a_table_that_is_none_is_a_fault(run: Any, faults: Any, tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.csv").write_text(text, "utf-8")
    (fault,) = faults(run("diagnose", NAME, "--from", "mine.csv", cwd=tmp_path))
    assert fault.code == "C023"
    assert fault.place.startswith("mine.csv:1")


@pytest.mark.parametrize("terms", [("dp_exposed=30s",), ("matmul=15s", "attention=6s")])
def test_terms_longer_than_their_step_are_refused(terms: tuple[str, ...], run: Any) -> None:
    ran = run("diagnose", NAME, "--step", "20 s", *(word for term in terms for word in ("--term", term)))
    assert (ran.code, "longer than the step of 20.0 s" in ran.err) == (2, True)


@pytest.mark.parametrize(("step", "other"), [("20 min", True), ("2 s", True), ("8 s", True), ("18.9 s", False)])
def test_a_step_far_from_its_prediction_is_doubted(step: str, other: bool, run: Any) -> None:
    assert json_of(run, "--step", step)["of_another_job"] is other
    assert ("Is this the same job?" in run("diagnose", NAME, "--step", step).out) is other


def test_a_step_that_no_run_of_this_job_takes_has_no_causes(run: Any, tmp_path: Path) -> None:
    """Over the peak, by any figure; a log of another batch or rate; a plan without room."""
    lines = "".join(f"iteration {step}/ 50 | elapsed time per iteration (ms): 16200.0 | "
                    f"TFLOPs: %s | global batch size: %s |\n" for step in range(1, 31))  # fmt: skip
    logs = [tmp_path / name for name in ("same.log", "batch.log", "rate.log")]
    for log, figures in zip(logs, ((450, 1024), (450, 512), (220, 1024)), strict=True):
        log.write_text(lines % (figures * 30), "utf-8")
    assert json_of(run, "--from", str(logs[0]))["doubts"] == []
    unfit = ("--set", "plan.tp=1", "--set", "plan.pp=1")
    cases = {
        ("--step", "7s"): "in 7.00 s it would compute at 106 % of the peak",
        ("--mfu", "106%"): "it would compute at 106 % of the peak",
        (
            "--from",
            str(logs[1]),
        ): "log: its global_batch is 512, the scenario has 1,024: --set workload.global_batch=512",
        ("--from", str(logs[2])): "log: its times mean a step of 16.2 s, but its 220 TFLOP/s a GPU mean a step of",
        ("--step", "16.2s", *unfit): "of the memory",
    }
    for args, words in cases.items():
        found = json_of(run, *args)
        assert words in found["doubts"][0]
        assert (found["of_another_job"], found["causes"]) == (True, [])
        ran = run("diagnose", NAME, *args)
        assert (ran.code, "Is this the same job?" in ran.out, "Most likely" in ran.out) == (1, True, False)


def test_a_log_and_a_table_of_a_run_state_the_step(run: Any, tmp_path: Path) -> None:
    """A log has the median behind its warm-up; a table of several runs does not say which is meant."""
    lines = (
        f" iteration {step}/ 50 | elapsed time per iteration (ms): {18900 + step % 2}.0 |" for step in range(1, 31)
    )
    (tmp_path / "run.log").write_text("\n".join(lines), "utf-8")
    (tmp_path / "one.csv").write_text("id,step_time_s\na,18.9\n", "utf-8")
    (tmp_path / "two.csv").write_text("id,step_time_s\na,18.9\nb,19.9\n", "utf-8")
    assert json_of(run, "--from", str(tmp_path / "run.log"))["measured_s"] == pytest.approx(18.9, rel=1e-4)
    assert json_of(run, "--from", str(tmp_path / "one.csv"))["measured_s"] == 18.9
    for line in (
        "step {} loss 2.3 step_time: 18.9s",
        "[{}] iter {}: step time (ms) = 18900",
        "step: {} loss: 1 step_time=18.9",
    ):
        (tmp_path / "own.log").write_text("\n".join(line.format(*[step] * 2) for step in range(1, 31)), "utf-8")
        assert json_of(run, "--from", str(tmp_path / "own.log"))["measured_s"] == pytest.approx(18.9)
    assert "has 2 runs, and one is compared" in run("diagnose", NAME, "--from", "two.csv", cwd=tmp_path).err


def test_a_log_whose_rate_contradicts_its_times_is_noted(run: Any, tmp_path: Path) -> None:
    """Steps of 60 s with the tokens per second of 60 s, and with twice as many."""
    job = ("--model", "llama-3.1-8b", "--gpu", "h100", "--gpus", "8", "--batch", "64", "--sequence", "7500")
    for rate, contradicts in ((1000, False), (2000, True)):
        log = tmp_path / f"{rate}.log"
        log.write_text("".join(f"2026-01-01 00:{minute:02}:00,0 step: {minute}  loss: 3.0  tps: {rate}\n"
                               for minute in range(1, 20)), "utf-8")  # fmt: skip
        ran = run("diagnose", *job, "--set", "plan.recompute=full", "--from", str(log))
        assert ("▲ log: its times mean a step of 60.0 s" in ran.out) == contradicts, ran


def test_terms_go_by_the_labels_of_estimate(run: Any) -> None:
    stated = ("dp exposed=0.5s", "matrix multiply=12s", "Pipeline bubble=0.6s", "tp=1.5s")
    found = json_of(run, "--step", "18.9s", *(word for text in stated for word in ("--term", text)))
    assert found["terms_s"] == {"dp_exposed": 0.5, "matmul": 12.0, "bubble": 0.6, "tp_time": 1.5}


def test_an_end_of_the_band_does_not_read_as_the_measured_step(run: Any) -> None:
    high = json_of(run, "--step", "18.9s")["predicted_high_s"]
    shown = run("diagnose", NAME, "--step", f"{high + 1e-3!r}s").out
    measured, band = (re.search(pattern, shown) for pattern in (r"measured +(\S+) s", r"– (\S+) s\)"))
    assert measured is not None
    assert band is not None
    assert float(measured[1]) > float(band[1])


@pytest.mark.parametrize("name", ["llama-3-70b-512", "deepseek-v3-2048"])
def test_every_cause_has_a_page(name: str) -> None:
    """Also with the part, or the examples, that its words name."""
    for cause in possible_causes(*own(name)):
        assert page(cause.words).text.startswith("of a diagnosis: "), cause.words
