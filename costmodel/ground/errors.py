"""Faults of the input: a code, a sentence, the place and a remedy."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Any

from costmodel.ground.record import record

COMMAND_LINE = "command line"  # the file of a place on it

# Faults of a text that is not to be shown.
_IN_SHORT = {
    "D001": "a file cannot be read",
    "D002": "this is not YAML",
    "D003": "unknown key",
    "D004": "a key or a column is missing",
    "D005": "a key or a column occurs twice",
    "D006": "a value of the wrong kind",
    "D007": "a quantity without the right unit",
    "D008": "a number out of range",
    "D009": "no document has this name",
    "D010": "not one of the choices",
    "D011": "not the kind of document that is expected here",
    "D012": "anchors, aliases, tags and deep nesting are not used here",
    "D013": "a name without its definition",
    "D014": "this is not a table of measured runs",
    "D015": "this is not a table of timed kernels, nor what nccl-tests printed",
    "D016": "what is asked for is not offered, or not modelled",
    "D017": "a fit that every answer needs is missing",
    "D018": "this is not a table of prices",
    "D020": "this result or baseline was changed after it was written",
    "X002": "no file states a value that is needed",
    "X003": "something that no document can express",
    "X004": "two places state different things of one option",
    "X005": "the file breaks a rule of its own format",
    "X006": "an option of another version",
    "X007": "options that the format does not have",
}
WARNINGS = ("X007",)  # of faults, which leave an answer possible
_NOT_SHOWN = "the text is not shown, because this file is outside the working folder and COSTMODEL_PATH"
_TO_SHOW = "to see it, run the command in the folder of that file, or name the folder in COSTMODEL_PATH"


@record
class Place:
    """The place of a value: file, line and column, and the dotted path of the key."""

    file: str
    line: int = 0
    column: int = 0
    path: str = ""
    text: str = field(default="", repr=False, compare=False)
    width: int = field(default=1, repr=False, compare=False)
    private: bool = field(default=False, repr=False, compare=False)  # in a file whose text is not to be shown

    def __str__(self) -> str:
        spot = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{spot}  ({self.path})" if self.path else spot


@record
class Fault:
    """A fault with its code, its place and a hint.

    The text of a private place must not appear in the sentence or the hint: the code replaces both, followed by `ours`,
    the name of costmodel's own key or option, if any.
    """

    code: str
    sentence: str
    place: Place | None = None
    hint: str = ""
    ours: str = field(default="", repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.place is None or not self.place.private:
            return
        about = f": {self.ours}" if self.ours else ""
        object.__setattr__(self, "sentence", f"{_IN_SHORT.get(self.code, 'a fault')}{about}; {_NOT_SHOWN}")
        object.__setattr__(self, "place", replace(self.place, text="", path=""))
        object.__setattr__(self, "hint", _TO_SHOW)

    @property
    def with_near_word(self) -> str:
        """The sentence, followed by a "did you mean" hint if there is one."""
        return f"{self.sentence}; {self.hint}" if self.hint.startswith("did you mean") else self.sentence


class CostModelError(Exception):
    """Invalid input; carries all faults, not only the first."""

    def __init__(self, *faults: Fault) -> None:
        self.faults = faults
        super().__init__("; ".join(f"{fault.code}: {fault.sentence}" for fault in faults))

    def __reduce__(self) -> tuple[type[CostModelError], tuple[Fault, ...]]:
        """Pickle support: another process receives the faults, not only their sentences."""
        return CostModelError, self.faults


class Declined(CostModelError):
    """The answer to a question is no, and nothing was written: the program exits with 1."""


class WrongCall(TypeError):
    """An error for arguments that a library function does not accept."""


def fail(code: str, sentence: str, place: Place | None = None, hint: str = "") -> CostModelError:
    """An error with a single fault, to be raised."""
    return CostModelError(Fault(code, sentence, place, hint))


def install_command(package: str) -> str:
    """The command that installs a package an answer needs, from a checkout and from a wheel of costmodel alike.

    >>> install_command("openpyxl>=3.1")
    "pip install 'openpyxl>=3.1'"
    """
    return f"pip install '{package}'"


FAULT_CODES = {
    "D001": "The file cannot be read. It does not exist, is a directory, is not UTF-8 text, or is too large: "
    "the limits are 4 MB for a file, 1 MB for YAML, 256 MB for a table of measurements and 10,000 "
    "letters for a word.",
    "D002": "The text is not YAML; or, where JSON or a shell script is expected, not that. The reader stopped "
    "at the given place; look just before it.",
    "D003": "An unknown key. Documents reject unknown keys, so that typos are reported.",
    "D004": "The named mapping lacks a key that has no default.",
    "D005": "The same key occurs twice in one mapping; YAML would keep only the last.",
    "D006": "A value of the wrong type: for example a list where a single value is expected, or a mapping where "
    "text is expected.",
    "D007": "A quantity needs its unit, for example '3.35 TB/s' or '80 GiB'; the unit must fit the quantity. A "
    "count may name its unit, which must match the key: tokens, sequences, GPUs, nodes, layers. A batch "
    "may be given in tokens, '4M tokens': it is divided by the tokens of a sequence.",
    "D008": "The number is outside its valid range.",
    "D009": "No document has this name. Names are looked up in the folders of hardware/ and scenarios/, "
    "for example scenarios/models/NAME.yaml: first in the working folder, then in the folders of "
    "COSTMODEL_PATH, then among the shipped documents. For a file elsewhere, give its path, ./NAME.yaml.",
    "D010": "The value is not one of the choices of this key.",
    "D011": "The first key, schema, must name the kind of document and its version. Here it is missing, or it "
    "names another kind.",
    "D012": "Anchors, aliases, tags and deep nesting are rejected, because they can hide content or run code.",
    "D013": "One part of the document uses a name that another part does not define, for example a source "
    "without an entry.",
    "D014": "The text is not a table of measured runs. Such a table has comma-separated cells, a first line "
    "with the column names, and rows of the same length. It needs the columns seq_len, gpus, global_batch, "
    "accelerator or gpu, a measured column such as step_time_s, and the model: model_name of a shipped model, "
    "else layers, hidden and heads. Other columns are allowed; an empty cell means unknown, and --json lists what "
    "is assumed instead. costmodel uses these columns:",
    "D015": "The text is neither a table of timed kernels, whose first line names its columns, nor the complete "
    "output of nccl-tests with its header. The columns determine the kind of table:",
    "D016": "The scenario needs something that the accelerator, the stack or the model does not have, or that "
    "is not modelled: for example a precision without a peak rate, or adapters on matrices that do not "
    "exist. The hint lists what exists.",
    "D017": "Every answer needs this fit, but neither the efficiencies of the accelerator or of the network "
    "have it, nor unmeasured.yaml, the fallback for hardware that was never measured.",
    "D018": "The text is not a table of prices. Such a table has comma-separated cells and a first line with the "
    "column names. A row is a price of a machine or of an API; an empty cell means that it has none. The columns:",
    "D020": "A result or a baseline contains a digest of its contents, which does not match here: the file was "
    "changed or cut short after it was written, or another version of costmodel wrote it. Run the command that "
    "wrote it again; of a baseline, costmodel check SCENARIO --against FILE --update.",
    "X001": "The text has none of the supported formats. costmodel recognises a format by its keys.",
    "X002": "A required value is not in the file and has no default in its format. Give the option that states it.",
    "X003": "The file states something that no costmodel document can express and that would make a count "
    "wrong: an architecture, a width or a pattern of layers. The message names the class and the key.",
    "X004": "Two lines or files give different values for one option. Keep one of the two. A warning if a "
    "manifest selects another accelerator than --gpu or --node names.",
    "X005": "The file breaks a rule of its own format, for example that one size must divide another.",
    "X006": "A warning: an option of another version of the format, with an older name or another default; or a "
    "release of an engine that no stack describes.",
    "X007": "A warning: options that the format does not have. They are ignored; check their spelling.",
    "X008": "A value depends on running code: $(…), a loop, or a condition that the text does not decide. "
    "costmodel runs nothing; write the value into the text, or give the configuration that the program "
    "prints.",
    "X009": "The export format cannot express a key of the scenario, or the file differs when it is read back. "
    "Nothing is written; --lossy writes the rest.",
    "X010": "The text is too long or nested too deeply: the limits are 4 MiB, 50,000 lines or values, and 64 levels. A "
    "trace of a profiler has 500 MB at most; a packed one unpacks to 64 MB, or to 200 times its size if that is more.",
    "C001": "--set takes path=value, for example --set plan.tp=4. The path is a key of the scenario, or one of "
    "those listed under set: of measured runs.",
    "C002": "The output file already exists or cannot be written. To overwrite it, add --force.",
    "C003": "explain does not know this word, quantity or code. costmodel explain without arguments lists what "
    "it knows.",
    "C004": "The command needs something the scenario does not state, for example a plan.",
    "C005": "--where takes column=value: a column of the table, or one that --by accepts, and a value that some "
    "run has.",
    "C006": "--pareto takes two results to compare, for example --pareto memory_peak,step_time.",
    "C007": "The answer cannot be written in this format: it has no table for CSV (use JSON or Markdown), or "
    "you asked for two formats at once.",
    "C008": "check takes scenarios and, with --against, a baseline: a file that check --update wrote, not the result "
    "of another command. --update, --exact and --within need --against; --within is a share, such as 2%. Two scenarios "
    "of one name are checked one at a time, and --runs takes a folder with tables of two nights or more.",
    "C009": "The command needs PyTorch, or a device that this machine does not have; pip install 'torch>=2.6'.",
    "C010": "--over takes KEY=VALUES: a list 1,2,4, a range 1..8, 25..400 GB/s*2 or 8..64+8, or lists of ranges.",
    "C011": "--for takes a result, <= or >=, and a value with its unit, for example --for 'run_time<=30 d'.",
    "C012": "solve takes --over PATH, or PATH=A..B with units, such as --over cluster.fabric.bandwidth=10..400 GB/s.",
    "C013": "diff takes two scenarios or results, or one with --set or --plans, for example --plans 0,1; plan 0 "
    "is the scenario's own.",
    "C014": "With kernels, calibrate takes --node, --source and --replace; with runs, of training or serving, it takes "
    "--where, --leave-out and --afresh.",
    "C015": "A file or a document is named twice and would be counted twice.",
    "C030": "The command is about training but the scenario is about serving, or the other way round.",
    "C031": "The nominal size of a memory was changed, but not its usable size, which the answers depend on.",
    "C032": "--gpu and --node name a machine that no document describes: this node holds another accelerator.",
    "C033": "A document gets the name of another one, which changes its label alone. Name the other document itself.",
    "C044": "report takes scenarios. --figure needs --format svg or png and one scenario; --watch needs -o and "
    "one scenario that is a file.",
    "C020": "--engine selects where a search runs: local, dask or dask=ADDRESS; dask is an optional extra.",
    "C021": "--into names the folder of a search. It stores the state and, with --keep all, all plans; --resume "
    "continues from there.",
    "C022": "The machine lacks something that the program needs: memory, open files, processes, disk space, a "
    "folder that can be read or written, or a package that can be loaded. The message names it; this is "
    "not a bug.",
    "C025": "--measure-next compares plans of a ranking by a result with P10 and P90; --measured 2=18.9s states what a "
    "line of it took, --measured 2=start.log what the engine of that line printed when it started.",
    "C024": "open and mcp need packages that are not installed, an address that is free, a folder that is there, or "
    "the name by which other machines reach this one. The message names it.",
    "H001": "The request is not a question: another path, method or type, no JSON, a key that the question does not "
    "have, or a host that is not this one. /openapi.json lists the questions with their keys.",
    "H002": "A question names a file, and a program that answers requests opens none for it. Send the text: "
    '"texts": {"config.json": "…"}, and the name in the place of the path. Your own documents come from the folder '
    "that costmodel open or costmodel mcp was started with, by their names.",
    "H003": "The request exceeds a limit: of its size, of the plans of a search, of time or of memory. "
    "The command line has none of them.",
    "H004": "As many requests wait as may; ask again after the seconds of Retry-After.",
    "C023": "diagnose takes the measurement of one step: --step 18.9s, --mfu 38% or --tokens-per-s 450k, terms "
    "of a profile as --term dp_exposed=0.5s, or --from FILE: a log of training, a table of one run, or lines of "
    "name,value.",
}


# Formats values for use in a sentence.

LONGEST = 60  # letters
HUGE = 1e300  # integers have no largest; floats do


def quoted_value(value: Any) -> str:
    """A value as text for a sentence; only texts are in quotes."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, float):
        same = (text for text in (f"{value:.10g}", repr(float(value))) if float(text) == value)
        return min(same, key=len, default=f"{value}").replace("e+", "e")  # a NaN equals nothing
    text = str(value) if isinstance(value, str) or abs(value) < HUGE else "a number of hundreds of digits"
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    return f"'{text}'" if isinstance(value, str) else text


def value_text(value: Any) -> str:
    """A value as it is written in an assignment `key=value`.

    >>> value_text(None), value_text(True), value_text(4.0), value_text(["optimizer", "parameters"])
    ('null', 'true', '4', '[optimizer, parameters]')
    """
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(value_text, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {value_text(inner)}' for key, inner in value.items())}}}"
    if isinstance(value, float):
        return f"{value:.10g}"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
