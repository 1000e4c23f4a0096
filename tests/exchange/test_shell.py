"""Shell scripts without a shell: words as bash would pass them on, places, and what only running would tell."""

from __future__ import annotations

import time

import pytest
from each import each

from costmodel.exchange.shell import Script, Word, read_script
from costmodel.ground.errors import CostModelError, Fault

FILE = "train.sh"


def script(text: str) -> Script:
    return read_script(text, FILE)


def shown(text: str) -> list[list[str]]:
    """The arguments of every `show`."""
    commands = [[word.text for word in command.words] for command in script(text).commands]
    return [words[1:] for words in commands if words[:1] == ["show"]]


def words(text: str) -> list[Word]:
    """The arguments of the only `show`."""
    found = [command.words[1:] for command in script(text).commands if command.words[0].text == "show"]
    assert len(found) == 1
    return list(found[0])


def faults(text: str) -> tuple[Fault, ...]:
    with pytest.raises(CostModelError) as raised:
        script(text)
    return raised.value.faults


# Each was tried with bash 5.2: a function `show` printed its arguments.
@each(
    "text, arguments",
    [
        ("A=1\nshow $A \"$A b\" ${A}c '$A'", [["1", "1 b", "1c", "$A"]]),
        ('A="x  y"\nshow $A "$A" z$A', [["x", "y", "x  y", "zx", "y"]]),
        ('A=(a "b c" d)\nshow ${A[@]} "${A[@]}" ${A[1]} $A', [["a", "b", "c", "d", "a", "b c", "d", "b", "c", "a"]]),
        ('A=(a "b c" d)\nshow "x${A[@]}y"', [["xa", "b c", "dy"]]),
        ("A=(a)\nA+=(b c)\nB=x\nB+=y\nshow ${A[@]} $B", [["a", "b", "c", "xy"]]),
        ('N=${N:-8}; show $N ${Q:-"a b"} ${Q-c} ${N:+yes} ${Q:+no}', [["8", "a b", "c", "yes"]]),
        ("N=2; M=3; show $((N*M)) $(($N * $M + 1)) $((-7/2)) $((-7 % 3))", [["6", "7", "-3", "-1"]]),
        ('A="--x 1 \\\n --y 2 \\\n"\nshow $A', [["--x", "1", "--y", "2"]]),
        ('if [ -n "$ZZ" ]; then show a; else show b; fi', [["b"]]),
        ('if [[ "x" == "x" && 3 -gt 2 ]]; then show c; fi', [["c"]]),
        ("if ! [ 1 -eq 1 ]; then show a; elif [ a != b ]; then show b; else show c; fi", [["b"]]),
        (
            "case ab in a*) show one;; *) show two;; esac\ncase q in a|b) show one;; *) show two;; esac",
            [["one"], ["two"]],
        ),
        ('[ -z "$ZZ" ] && X=1\nshow $X\n[ 1 -eq 2 ] || Y=2; show $Y', [["1"], ["2"]]),
        ('f() { show $1 "$2" ${@}; }\nf a "b c"', [["a", "b c", "a", "b", "c"]]),
        (
            'show a\\ b "c\\"d" e\\\\f "g\\h"\n# comment show no\nshow x#y # z',
            [["a b", 'c"d', "e\\f", "g\\h"], ["x#y"]],
        ),
        ("cat >/dev/null <<EOF\nshow no\nEOF\nshow yes", [["yes"]]),
        ("( A=1; show $A ); show ${A:-none}", [["1"], ["none"]]),
        ("A=5 show hi\nexport B=6\nshow $B ${A:-no}", [["hi"], ["6", "no"]]),
        ('A=\nshow "$A" $A end', [["", "end"]]),
        ('W="-x"; A=("$W 1" --y); show ${A[@]}; show "${A[@]}"', [["-x", "1", "--y"], ["-x 1", "--y"]]),
        ("{ A=2; }; show $A; : ${Z:=7}; show $Z", [["2"], ["7"]]),
        ("show a$'b'c \"d$\" 2>&1 >out | tee log", [["abc", "d$"]]),
        ("true && show t || show f; false && show t || show f", [["t"], ["f"]]),
        ("A=1; while [ $A -gt 3 ]; do A=9; done; show $A", [["1"]]),
        ('show "[0]*3+[1]*58" [0]*3+[1]*58', [["[0]*3+[1]*58", "[0]*3+[1]*58"]]),
    ],
)
def test_words_are_those_that_bash_passes_on(text: str, arguments: list[list[str]]) -> None:
    assert shown(text) == arguments
    assert not any(word.doubt for command in script(text).commands for word in command.words)


def test_a_word_stands_where_its_letters_do_in_a_variable_too() -> None:
    text = 'A="--tp 2 \\\n  --pp 4"\nshow $A --ep=8'
    places = [(word.text, word.place.line, word.place.column) for word in words(text)]
    assert places == [("--tp", 1, 4), ("2", 1, 9), ("--pp", 2, 3), ("4", 2, 8), ("--ep=8", 3, 9)]


@pytest.mark.parametrize(
    ("text", "kind", "sentence"),
    [
        ("show $N", "unset", "$N, which the text does not set"),
        ("show $1", "argument", "$1, an argument of the script"),
        ('show "$@"', "argument", "$@, an argument of the script"),
        ("show $(date)", "code", "what $(…) prints"),
        ("show `date`", "code", "what `…` prints"),
        ("A=$(nproc)\nshow $((A*2))", "code", "what $(…) prints"),
        ("A=b\nshow ${A//b/c}", "code", "an expansion that only a shell does"),
        ("for A in 1 2; do show $A; done", "branch", "a loop on line 1"),
        ("A=1\nif [ -f x ]; then A=2; fi\nshow $A", "branch", "a condition on line 2, which the text does not decide"),
        ("A=1\ngrep x y && true\n[ -d x ] && A=2\nshow $A", "branch", "a condition on line 3"),
    ],
)
def test_what_only_running_would_tell_is_in_doubt(text: str, kind: str, sentence: str) -> None:
    (word,) = words(text)
    assert word.doubt is not None
    assert (word.doubt.kind, word.doubt.sentence.startswith(sentence)) == (kind, True)


@pytest.mark.parametrize(
    ("text", "sure", "perhaps"),
    [
        ("A=(--x 1)\nif [ -f x ]; then A+=(--y 2); fi", ["--x", "1"], ["--y", "2"]),
        ('A="--x 1"\nif [ -f x ]; then A="$A --y 2"; fi', ["--x", "1"], ["--y", "2"]),
        ('A="--x 1"\nif [ -f x ]; then A+=" --y 2"; fi', ["--x", "1"], ["--y", "2"]),
        ("A=(--x 1)\nif [ -f x ]; then A=(--y 2); fi", [], ["--x", "1", "--y", "2"]),
        ("A=--x\nif [ -f x ]; then A=; fi", [], ["--x"]),
    ],
)
def test_what_an_undecided_branch_changes_is_in_doubt_and_nothing_else(
    text: str, sure: list[str], perhaps: list[str]
) -> None:
    found = words(f"{text}\nshow ${{A[@]}}")
    assert [word.text for word in found if not word.doubt] == sure
    assert [word.text for word in found if word.doubt] == perhaps


def test_a_script_that_asks_for_its_arguments_says_so() -> None:
    text = """if [ $# -lt 1 ]; then show none; fi
while [[ $# -gt 0 ]]; do show one; shift; done
if [ -z "$1" ]; then show two; fi"""
    assert shown(text) == [["none"], ["two"]]
    assert script(text).without_arguments
    assert not script("show a").without_arguments


def test_directives_of_slurm_are_read_and_comments_are_not() -> None:
    text = "#!/bin/bash\n#SBATCH --nodes=4 --exclusive # a note\n#SBATCH -n 8\n# --nodes 5\nshow a"
    assert [word.text for word in script(text).directives] == ["--nodes=4", "--exclusive", "-n", "8"]


def test_variables_are_handed_out_as_the_words_they_hold() -> None:
    held = script('A=" --x 1 "\nB=(--y "2 3")').variables
    assert {name: [word.text for word in found] for name, found in held.items()} == {
        "A": ["--x", "1"],
        "B": ["--y", "2", "3"],
    }


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        ("show 'a\nb", 1, "a quote that nothing closes"),
        ('a\nshow "b', 2, "a double quote that nothing closes"),
        ("a\nif true; then show b", 2, "'fi' is expected here"),
        ("show $(a", 1, "code that no ')' closes"),
        ("A=(a b", 1, "a list of words that no bracket closes"),
        ("A=<x> (y, z)", 1, "')' is expected here"),
        ("done", 1, "no command begins like this"),
    ],
)
def test_what_is_no_script_is_a_fault_with_its_line(text: str, line: int, sentence: str) -> None:
    (fault,) = faults(text)
    assert fault.code == "D002"
    assert fault.sentence == f"this is not a shell script: {sentence}"
    assert fault.place is not None
    assert fault.place.line == line


@pytest.mark.parametrize(
    "text",
    [
        "A=xxxxxxxx\n" + 'A="$A$A"\n' * 60,
        "A=(a b)\n" + 'A=("${A[@]}" "${A[@]}")\n' * 60,
        "if [ -f x ]; then\nA=x\n" + 'A="$A$A y"\n' * 200 + "fi",
        "f() { f; }\nf",
        "{ " * 500,
        "show " + "${A:-" * 500,
        "show " + "a " * 200_000,
        "a\n" * 60_000,
        "A=${A:=$A}\n" * 5_000,
        "$((" * 20_000,
        "'" * 20_001,
        "if " * 3_000,
    ],
)
def test_a_script_that_grows_or_nests_without_end_is_soon_refused_or_read(text: str) -> None:
    started, codes = time.process_time(), set[str]()
    try:
        script(text)
    except CostModelError as error:
        codes = {fault.code for fault in error.faults}
    assert codes <= {"X010", "X008", "D002"}
    assert time.process_time() - started < 4
