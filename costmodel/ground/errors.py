"""Faults of the input: a code, a sentence, the place and a remedy."""

from __future__ import annotations

from dataclasses import field, replace

from costmodel.ground.record import record

COMMAND_LINE = "command line"  # the file of a place on it

# Faults of a text that is not to be shown.
_IN_SHORT = {
    "D001": "a file cannot be read",
    "D002": "this is not YAML",
    "D003": "unknown key",
    "D004": "a key or a column is missing",
    "D005": "a key or a column stands twice",
    "D006": "a value of the wrong kind",
    "D007": "a quantity without the right unit",
    "D008": "a number out of range",
    "D009": "a name that no document has",
    "D010": "not one of the choices",
    "D011": "not the kind of document that is wanted here",
    "D012": "anchors, aliases, tags and deep nesting are not used here",
    "D013": "a name without its definition",
    "D014": "this is not a table of measured runs",
    "D015": "this is not a table of timed kernels, nor what nccl-tests printed",
    "D016": "what is asked for is not offered, or not modelled",
    "D017": "a fit that every answer needs is missing",
    "D020": "this result or baseline was changed after it was written",
    "X002": "no file states a value that is needed",
    "X003": "something that no document can express",
    "X004": "two places state different things of one option",
    "X005": "the file breaks a rule of its own format",
    "X006": "an option of another version",
    "X007": "options that the format does not have",
}
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
    """One fault, with its code, its place and the remedy.

    The text of a private place must not appear in the sentence or the remedy: the code stands for both.
    """

    code: str
    sentence: str
    place: Place | None = None
    hint: str = ""

    def __post_init__(self) -> None:
        if self.place is None or not self.place.private:
            return
        object.__setattr__(self, "sentence", f"{_IN_SHORT.get(self.code, 'a fault')}; {_NOT_SHOWN}")
        object.__setattr__(self, "place", replace(self.place, text="", path=""))
        object.__setattr__(self, "hint", _TO_SHOW)

    @property
    def with_near_word(self) -> str:
        """The sentence, and the word that may have been meant, for where no remedy is shown."""
        return f"{self.sentence}; {self.hint}" if self.hint.startswith("did you mean") else self.sentence


class CostModelError(Exception):
    """The input is unusable; carries all faults, not only the first."""

    def __init__(self, *faults: Fault) -> None:
        self.faults = faults
        super().__init__("; ".join(f"{fault.code}: {fault.sentence}" for fault in faults))

    def __reduce__(self) -> tuple[type[CostModelError], tuple[Fault, ...]]:
        """Pickle support: another process receives the faults, not only their sentences."""
        return CostModelError, self.faults


def fail(code: str, sentence: str, place: Place | None = None, hint: str = "") -> CostModelError:
    """One fault as an error to raise."""
    return CostModelError(Fault(code, sentence, place, hint))


FAULT_CODES = {
    "D001": "The file cannot be read: it does not exist, is a directory, is not UTF-8 text, is over 4 MB, is YAML over "
    "1 MB, a table of measurements over 256 MB, or has a word of over 10,000 letters.",
    "D002": "The text is not YAML, or not JSON or a shell script where these are read. The place is where the reader "
    "stopped; look just before it.",
    "D003": "An unknown key. Documents refuse keys they do not know, so that typos are reported.",
    "D004": "A key that has no default is missing from the mapping named.",
    "D005": "The same key stands twice in one mapping; YAML would keep only the last.",
    "D006": "A value of the wrong kind: a list where one value is wanted, a mapping where text is wanted, and so on.",
    "D007": "A quantity carries its unit as text, for example '3.35 TB/s' or '80 GiB'; the unit must fit the quantity. "
    "A count may name what it counts, and then must count that: tokens, sequences, GPUs, nodes, layers. A batch may be "
    "given in tokens, '4M tokens': it is divided by the tokens of a sequence.",
    "D008": "A number outside the range in which it makes sense.",
    "D009": "No document of that name. Names are looked for in the folders below hardware/ and scenarios/, such as "
    "scenarios/models/NAME.yaml, of the working folder, of those of COSTMODEL_PATH and of what is shipped; a file "
    "elsewhere is named by its path, ./NAME.yaml.",
    "D010": "A choice that is not among the choices of that key.",
    "D011": "The first key, schema, names the kind of document and its version; this one is missing or another kind.",
    "D012": "Anchors, aliases, tags and deep nesting are not used here; they are refused because they can hide or run.",
    "D013": "A name used in one part of a document is not defined in another, for example a source without its entry.",
    "D014": "The text is not a table of measured runs: cells between commas, a first line that names columns, rows as "
    "long as it. It has layers, hidden, heads, seq_len, gpus, global_batch, accelerator or gpu, and a measured "
    "column such as step_time_s; any other column may follow, and an empty cell is unknown. The columns that are used:",
    "D015": "The text is neither a table of timed kernels, whose first line names its columns, nor what nccl-tests "
    "printed with its header and the lines above it. The columns show which kind of table it is:",
    "D016": "The scenario needs something that accelerator, stack or model lack, or that is not modelled: a "
    "precision without a peak rate, adapters beside matrices that are not there. The hint lists what exists.",
    "D017": "A fit that every answer needs is not among the efficiencies of the accelerator or of the network, nor in "
    "unmeasured.yaml, which stands in for parts that were never measured.",
    "D020": "A result or a baseline carries a digest of its contents, and the contents of this one differ: it was "
    "changed, or cut short, after it was written. What was kept is written again by the command that wrote it.",
    "X001": "The text is of no format that is read here. A format is recognised by its content: its own keys.",
    "X002": "A value that is needed is neither in the file nor a default of its format. Give the "
    "option that states it.",
    "X003": "The file states something that no costmodel document can express and that would make a count wrong: an "
    "architecture, a width, a pattern of layers. The sentence names the class and the key.",
    "X004": "Two lines or files state different things of one option. Keep one of the two.",
    "X005": "The file breaks a rule of its own format, for example sizes that have to divide one another.",
    "X006": "A warning: an option of another version of the format, under an older name or with another default.",
    "X007": "A warning: options that the format does not have. They are left out; look for a letter that is off.",
    "X008": "Code would have to run to know a value: $(…), a loop, a condition that the text does not decide. Nothing "
    "is run; write the value into the text, or give what the program prints of its configuration.",
    "X009": "A format that a plan is exported to cannot express a key of the scenario, or the file differs when "
    "it is read back. Nothing is written, unless --lossy asks for the rest.",
    "X010": "The text is too long, or nested too deep, to be read: over 4 MiB, 50,000 lines or values, or 64 levels.",
    "C001": "--set takes path=value, for example --set plan.tp=4; the path names a key of the scenario, as those below "
    "set: of measured runs do.",
    "C002": "The output file exists or cannot be written. Nothing is overwritten without --force.",
    "C003": "That word, quantity or code is not known to explain; costmodel explain alone lists what is.",
    "C004": "The command needs something the scenario does not state, for example a plan.",
    "C005": "--where takes column=value: a column of a table, or one that --by knows, and a value that some run has.",
    "C006": "--pareto takes two results to weigh against each other, for example --pareto memory_peak,step_time.",
    "C007": "The answer cannot be written like that: it has no table for CSV, where JSON and Markdown can hold it, or "
    "two forms are asked for at once.",
    "C008": "check takes scenarios, and with --against a baseline: a file that --update writes. --within is a share.",
    "C009": "The command needs PyTorch or a device that this machine lacks; pip install 'llm-costmodel[measure]'.",
    "C010": "--over takes path=values: a list 1,2,4, a range 1..8, 25..400 GB/s*2 or 8..64+8, or lists of ranges.",
    "C011": "--for takes a result, <= or >=, and a value with its unit, for example --for 'run_time<=30 d'.",
    "C012": "--vary takes a path, or path=A..B with units, for example --vary cluster.fabric.bandwidth=10..400 GB/s.",
    "C013": "diff takes two scenarios or results, or one with --set or --plans, for example --plans 0,1; 0 is its own.",
    "C014": "calibrate takes --node, --source and --replace with kernels, --where, --leave-out and --afresh with runs.",
    "C015": "A file or a document is named twice, and would count twice.",
    "C030": "The command answers questions about training and the scenario serves, or the other way round.",
    "C031": "A memory is changed as it is sold, and what a job can have of it, which answers go by, is left as it was.",
    "C032": "--gpu and --node name a machine that no document describes: that node holds another accelerator.",
    "C044": "report takes scenarios; --figure goes with --format svg or png of one scenario, --watch with -o and one "
    "scenario that is a file.",
    "C020": "--engine names what works on a search: local, dask, dask=ADDRESS or mpi; extras bring dask and mpi.",
    "C021": "--into names the folder of a search: its state, with --keep all its plans; --resume goes on from there.",
    "C022": "The surroundings do not give what the program needs: memory, open files, processes, space on a disk, a "
    "folder that can be read or written, a package that can be loaded. The sentence names it; it is no bug.",
    "C023": "diagnose takes what was measured of one step: --step 18.9s, --mfu 38% or --tokens-per-s 450k, terms of a "
    "profile as --term dp_exposed=0.5s, or --from FILE with lines of name,value.",
}
