"""Values of a shell script's variables and words, as far as its text decides them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from costmodel.exchange.shell.parts import Code, Part, Sum, Variable
from costmodel.exchange.shell.parts import Literal as Letters
from costmodel.exchange.values.foreign_values import Lines
from costmodel.exchange.values.integer_expressions import LONGEST, evaluated
from costmodel.ground.errors import fail

MOST_LETTERS = 2**20  # of all words that variables were put into
_EACH = 16  # letters that a piece counts besides its own
_DEFAULTS = (":-", "-", ":=", "=")  # what stands for a variable that is not set
_BLANK = re.compile(r"\s+")
_NAME = re.compile(r"\$?\{?([A-Za-z_]\w*)\}?")


class Doubt(NamedTuple):
    """The reason why the text does not decide a word.

    unset: a variable that the script does not set and the shell would take from its environment. argument: an argument
    of the script. code: only running the script would give the value. branch: the word is on a branch that may not run,
    or runs repeatedly.
    """

    kind: Literal["unset", "argument", "code", "branch"]
    sentence: str


class WordPiece(NamedTuple):
    """A piece of a word, with its position in the text and the doubt about it.

    usual: whether it is the default of a variable that the text does not set but the environment may
    """

    text: str
    at: int
    quoted: bool
    doubt: Doubt | None = None
    usual: bool = False


Field = tuple[WordPiece, ...]  # one word, in pieces


@dataclass
class Variables:
    """The variables that a script has assigned so far; every variable is a list of words, usually of one word."""

    lines: Lines
    held: dict[str, list[Field]] = field(default_factory=dict)
    letters: int = 0

    def assign(self, name: str, fields: list[Field], add: bool, is_list: bool, doubt: Doubt | None) -> None:
        """Assigns a variable: NAME=, NAME+= or NAME=(…)."""
        before = self.held.get(name, [])
        if doubt is not None:
            self.held[name] = _perhaps(before, fields, add, is_list, doubt)
        elif not add or not before:
            self.held[name] = fields
        elif is_list:
            self.held[name] = before + fields
        else:
            self.held[name] = [before[0] + (fields[0] if fields else ()), *before[1:]]
        self.count(self.held[name])

    def count(self, fields: list[Field]) -> None:
        """Counts characters; a fault if variables that refer to variables grow without end."""
        self.letters += sum(len(piece.text) + _EACH for entry in fields for piece in entry)
        if self.letters > MOST_LETTERS:
            at = fields[0][0].at if fields and fields[0] else 0
            sentence = f"variables of variables make over {MOST_LETTERS:,} letters"
            raise fail("X010", sentence, self.lines.place(at))

    def expanded(self, parts: tuple[Part, ...], split: bool = True) -> list[Field]:
        """The words that one written word expands to; an assigned value is not split at blanks."""
        built: list[list[WordPiece]] = []
        fresh = True  # whether the next letter begins a word
        for part in parts:
            for index, entry in enumerate(self.entries(part)):
                fresh = fresh or index > 0
                for piece in _split_at_blanks(entry) if split else (entry,):
                    if piece is None:
                        fresh = True
                    elif fresh:
                        built.append(list(piece))
                        fresh = False
                    else:
                        built[-1].extend(piece)
        fields = [tuple(entry) for entry in built if entry]
        self.count(fields)
        return fields

    def words(self, name: str) -> list[Field]:
        """The words of a variable, split as in a command."""
        return self.expanded((Variable(name, "@", "", (), 0, False),))

    def entries(self, part: Part) -> list[Field]:
        """The words that one part expands to: one word, or one for each entry of a list."""
        if isinstance(part, Letters):
            return [(WordPiece(part.text, part.at, part.quoted),)]
        if isinstance(part, Code):
            return [(WordPiece("", part.at, part.quoted, Doubt("code", part.sentence)),)]
        if isinstance(part, Sum):
            return [(self.summed(part),)]
        return self.looked_up(part)

    def looked_up(self, part: Variable) -> list[Field]:
        """The value of a variable reference, without the quotes of its assignment."""
        held = self.held.get(part.name)
        empty = held is None or not any(piece.text or piece.doubt for entry in held for piece in entry)
        if part.operator in _DEFAULTS and empty:
            other = self.other(part)
            if part.operator in (":=", "="):
                self.assign(part.name, other, add=False, is_list=False, doubt=None)
            return other
        if part.operator in (":+", "+"):
            return [] if empty else self.other(part)
        if held is None:
            return [(_unheld(part),)]
        if part.entry not in ("@", "*") and part.name not in ("@", "*"):
            index = int(part.entry or 0)
            held = held[index : index + 1]
        return [tuple(piece._replace(quoted=part.quoted) for piece in entry) for entry in held]

    def other(self, part: Variable) -> list[Field]:
        """The alternative value in a reference such as ${NAME:-other}."""
        fields, usual = self.expanded(part.other, split=False), part.operator in _DEFAULTS
        return [
            tuple(piece._replace(quoted=piece.quoted or part.quoted, usual=usual or piece.usual) for piece in entry)
            for entry in fields
        ]

    def summed(self, part: Sum) -> WordPiece:
        """The value of an arithmetic expansion $((…)) of whole numbers."""
        if len(part.text) > LONGEST:
            return WordPiece("", part.at, part.quoted, Doubt("code", "what $((…)) comes to"))
        numbers, doubt = dict[str, int](), None
        for name in sorted(set(_NAME.findall(part.text))):
            pieces = [piece for entry in self.looked_up(Variable(name, "", "", (), part.at, True)) for piece in entry]
            doubt = doubt or next((piece.doubt for piece in pieces if piece.doubt), None)
            try:
                numbers[name] = int("".join(piece.text for piece in pieces)[:20] or 0)
            except ValueError:
                doubt = doubt or Doubt("code", f"what $((…)) comes to, in which {name} is no number")
        try:
            found = evaluated(_NAME.sub(r"\1", part.text), numbers) if doubt is None else ""
        except ValueError:
            found, doubt = "", Doubt("code", "what $((…)) comes to")
        return WordPiece(str(found), part.at, part.quoted, doubt)


def _unheld(part: Variable) -> WordPiece:
    """The value of a variable that the script does not set: empty, with a doubt."""
    if part.name == "#":
        return WordPiece("0", part.at, part.quoted, Doubt("argument", "the number of the script's arguments"))
    if part.name in "?$!-":
        return WordPiece("", part.at, part.quoted, Doubt("code", f"${part.name}"))
    if part.name.isdigit() or part.name in "@*":
        return WordPiece("", part.at, part.quoted, Doubt("argument", f"${part.name}, an argument of the script"))
    return WordPiece("", part.at, part.quoted, Doubt("unset", f"${part.name}, which the text does not set"))


def _perhaps(before: list[Field], fields: list[Field], add: bool, is_list: bool, doubt: Doubt) -> list[Field]:
    """A variable after an assignment that may not have run: both the new and the replaced value are in doubt."""
    held = {(piece.text, piece.at) for entry in before for piece in entry}
    then = {(piece.text, piece.at) for entry in fields for piece in entry}
    found = [
        tuple(piece if add or (piece.text, piece.at) in then else _with_doubt(piece, doubt) for piece in entry)
        for entry in before
    ]
    fresh = (tuple(_with_doubt(p, doubt) for p in entry if (p.text, p.at) not in held) for entry in fields)
    found += [entry for entry in fresh if entry]
    if not found:
        return [(WordPiece("", 0, True, doubt),)]
    return found if is_list else [tuple(piece for entry in found for piece in entry)]


def _with_doubt(piece: WordPiece, doubt: Doubt) -> WordPiece:
    return piece if piece.doubt else piece._replace(doubt=doubt)


def _split_at_blanks(entry: Field) -> list[tuple[WordPiece, ...] | None]:
    """The pieces of a word, with None wherever unquoted blanks separate words."""
    found: list[tuple[WordPiece, ...] | None] = []
    for piece in entry:
        whole = piece.doubt if not piece.text else not _BLANK.search(piece.text)
        if piece.quoted or whole:
            found.append((piece,))
            continue
        at = 0
        for blank in _BLANK.finditer(piece.text):
            if blank.start() > at:
                found.append((piece._replace(text=piece.text[at : blank.start()], at=piece.at + at),))
            found.append(None)
            at = blank.end()
        if at < len(piece.text):
            found.append((piece._replace(text=piece.text[at:], at=piece.at + at),))
    return found
