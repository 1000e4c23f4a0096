"""check: whether scenarios keep their limits and match a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costmodel.commands import completion
from costmodel.commands.answer_options import PAGE, answering_in, optional, optional_argument
from costmodel.commands.output import lock_for_update, write_file
from costmodel.commands.replies import document_reply
from costmodel.commands.scenario_options import Question, question_command, with_plan
from costmodel.ground.errors import CostModelError, Fault, Place, fail
from costmodel.report.terminal.layout import Reply

if TYPE_CHECKING:
    from costmodel.documents.reader.resolved_scenario import LoadedScenario
    from costmodel.documents.schemas.baseline import Baseline, Entry

OthersArgument = Annotated[
    list[str] | None, optional_argument(help="More scenarios", autocompletion=completion.scenarios)
]
_WITHIN = "1 %"
_OF_BASELINE = ("--update", "--exact", "--within")
AgainstOption = Annotated[Path | None, optional("--against", metavar="FILE", help="Baseline to compare with")]


@answering_in("github", "junit", *PAGE)
@question_command
def check(
    question: Question,
    others: OthersArgument = None,
    against: AgainstOption = None,
    update: Annotated[bool, typer.Option("--update", help="Write today's figures into the baseline")] = False,
    within: Annotated[
        str, typer.Option("--within", metavar="SHARE", help="By how much a watched result may get worse")
    ] = _WITHIN,
    exact: Annotated[bool, typer.Option("--exact", help="No figure may move at all, for better or worse")] = False,
    runs: Annotated[
        str | None,
        optional("--runs", metavar="FOLDER", help="Tables of measured runs: whether a term moved in the last"),
    ] = None,
) -> Reply:
    """For CI: check that scenarios meet their limits and are no worse than a baseline.

    Examples:
      costmodel check llama-3-70b-512 quickstart
      costmodel check SCENARIO --against baseline.json --update
      costmodel check SCENARIO --against baseline.json --format github
      costmodel check --model llama-3.1-8b --gpu h100 --gpus 64 --set limits.mfu.at_least=40%
      costmodel check --runs nightly/

    A scenario states its limits on any result: at_most, at_least, target and within. Step time, memory and cost may not
    be worse than the baseline by more than --within, other results not by more than within of their limit. A scenario
    that is not in the baseline and has no limits fails. --update lists the results that it makes worse. If a scenario
    has no plan, the best plan of its search is checked. --set and flags apply to every scenario; flags alone
    describe one, and a baseline stores it under these flags.

    --runs compares the last table of a folder, in the order of their names, with those before: whether steps take
    longer than by chance, and which term of a step explains it. costmodel import LOG --as runs writes such tables.

    Exit code 1 when a check fails, 2 when a scenario or the baseline cannot be read.

    Next: costmodel diff A B
    """
    if runs is not None:
        return _check_measured_runs(
            runs, alone=not (question.scenario or others or against or update or exact or question.is_flags)
        )
    from costmodel.explore.compare.check import BaselinePolicy, baseline_entries
    from costmodel.explore.compare.check import check as run
    from costmodel.explore.workloads import workload_of
    from costmodel.report.answers import check as report
    from costmodel.report.data_formats import ci_formats

    cases = _load_scenarios(question, others or ())
    given = (update, exact, within != _WITHIN)
    if against is None and any(given):
        names = ", ".join(name for name, value in zip(_OF_BASELINE, given, strict=True) if value)
        raise fail("C008", f"{names} is about a baseline, and none is named", None, "name it: --against baseline.json")
    baseline = _read_baseline(against, update=update)
    holding = BaselinePolicy(baseline, _parse_share(within), exact, update)
    checks = run({key: workload_of(case) for key, case in cases.items()}, holding)
    written = against if update else None
    if written is not None:
        _write_baseline(written, baseline_entries(checks))
    return document_reply(
        lambda: report.check_document(checks, wrote=str(written or "")),
        lambda: report.check_json(checks),
        "scenarios",
        yes=all(checked.kept for checked in checks),
        found=checks,
        others={
            "github": lambda: ci_formats.github_annotations(report.test_suites(checks), report.summary(checks)),
            "junit": lambda: ci_formats.junit_xml(report.test_suites(checks)),
            "markdown": lambda: report.pull_request_comment(checks),
        },
    )


def _check_measured_runs(folder: str, *, alone: bool) -> Reply:
    """Compares the runs of a folder's last night with earlier nights, and names the term that explains a slowdown."""
    from costmodel.evidence.validate.validate import moved_runs
    from costmodel.explore.import_export.import_file import GivenBesideFile
    from costmodel.explore.import_export.import_log_folder import read_log_folder
    from costmodel.report.answers.validate import moved_document, moved_json

    if not alone:
        raise fail("C008", "--runs is about measured runs, not about scenarios or a baseline", None, "leave those out")
    read = read_log_folder(folder, GivenBesideFile())
    found = moved_runs(read.nights)
    if not found:
        why = [f"; {each.file}: {each.why}" for each in read.unread[:1]]
        sentence = f"{folder} has {len(read.nights)} tables or folders of runs; two or more are compared{''.join(why)}"
        raise fail("C008", sentence, Place(folder), "logs of each night in a folder, or tables of import LOG --as runs")
    slower = any(each.found.slower for each in found)
    return document_reply(lambda: moved_document(read, found), lambda: moved_json(read, found), "runs", yes=not slower)


def _write_baseline(path: Path, entries: Mapping[str, Entry]) -> None:
    """Writes entries into a baseline file and keeps its other scenarios, while other processes wait."""
    from costmodel.documents.schemas.baseline import renewed
    from costmodel.report.answers.check import baseline_text

    with lock_for_update(path):
        write_file(path, baseline_text(renewed(_read_baseline(path, update=True), entries)))


def _load_scenarios(question: Question, others: Sequence[str]) -> dict[str, LoadedScenario]:
    """Every scenario by its key in a baseline; raises the faults of all that cannot be read."""
    from costmodel.explore.compare.check import baseline_key
    from costmodel.explore.search.required_chance import preferring

    cases: dict[str, LoadedScenario] = {}
    faults: list[Fault] = []
    for asked in (question, *(replace(question, scenario=name, write=None, held=None) for name in others)):
        try:
            case = with_plan(preferring(asked.loaded(), None))  # a given baseline or limit rules, not a preference
            key = baseline_key(asked.scenario, case)
            if key in cases:
                place = Place(asked.scenario or case.file)
                raise fail("C008", f"two scenarios are called '{key}' in a baseline", place, "check one alone")
            cases[key] = case
        except CostModelError as error:
            faults += error.faults
    if faults:
        raise CostModelError(*dict.fromkeys(faults))
    return cases


def _read_baseline(path: Path | None, *, update: bool) -> Baseline | None:
    """The baseline to compare with; it may be missing if it is to be written."""
    from costmodel.documents.schemas.baseline import read_baseline

    if path is None:
        if update:
            raise fail("C008", "--update needs a file to write", None, "name it: --against baseline.json")
        return None
    if not path.exists():
        if update:
            return None
        place = Place(str(path))
        raise fail("C008", f"there is no baseline {path}", place, f"--against {path} --update writes it")
    return read_baseline(str(path), updating=update)


def _parse_share(text: str) -> float:
    """The share in a text such as "2 %"; a fault otherwise."""
    from costmodel.ground.parsing import UnitError, parse

    try:
        share = parse(text, "1")
    except UnitError:
        share = -1.0
    if not 0 <= share <= 1:
        place = Place("command line", 0, 10, "", f"--within {text}", max(1, len(text)))
        raise fail("C008", f"'{text}' is not a share", place, "for example --within '2 %'")
    return share
