"""Evaluates a shell script as far as its text decides it: its commands in order, with the values of variables."""

from __future__ import annotations

import fnmatch
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal as OneOf
from typing import NamedTuple

from costmodel.exchange.shell.syntax import (
    CaseStatement,
    Chain,
    Code,
    CommandGroup,
    Function,
    If,
    Literal,
    Loop,
    Node,
    Part,
    ScriptReader,
    Simple,
    Sum,
    Token,
    Variable,
    parse_script,
)
from costmodel.exchange.shell.syntax import Literal as Letters
from costmodel.exchange.values import LONGEST_EXPRESSION as LONGEST
from costmodel.exchange.values import Lines, evaluate_expression
from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record

# --- values of a shell script's variables and words, as far as its text decides them


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

    kind: OneOf["unset", "argument", "code", "branch"]
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
            self.held[name] = _uncertain_assignment(before, fields, add, is_list, doubt)
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
            return [(_unset_value(part),)]
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
            found = evaluate_expression(_NAME.sub(r"\1", part.text), numbers) if doubt is None else ""
        except ValueError:
            found, doubt = "", Doubt("code", "what $((…)) comes to")
        return WordPiece(str(found), part.at, part.quoted, doubt)


def _unset_value(part: Variable) -> WordPiece:
    """The value of a variable that the script does not set: empty, with a doubt."""
    if part.name == "#":
        return WordPiece("0", part.at, part.quoted, Doubt("argument", "the number of the script's arguments"))
    if part.name in "?$!-":
        return WordPiece("", part.at, part.quoted, Doubt("code", f"${part.name}"))
    if part.name.isdigit() or part.name in "@*":
        return WordPiece("", part.at, part.quoted, Doubt("argument", f"${part.name}, an argument of the script"))
    return WordPiece("", part.at, part.quoted, Doubt("unset", f"${part.name}, which the text does not set"))


def _uncertain_assignment(
    before: list[Field], fields: list[Field], add: bool, is_list: bool, doubt: Doubt
) -> list[Field]:
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


# --- goes through a script's commands in their order, as far as its text decides which of them come about


_NUMBERS = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-lt": operator.lt,
    "-le": operator.le,
    "-gt": operator.gt,
    "-ge": operator.ge,
}


def test_holds(words: Sequence[Word]) -> bool | None:
    """Whether a test is true; None if the text does not decide it."""
    inner = [word for word in words if word.text not in ("]", "]]")]
    texts = [word.text for word in inner]
    for sign, wins in (("||", True), ("-o", True), ("&&", False), ("-a", False)):
        if sign in texts:
            at = texts.index(sign)
            sides = (test_holds(inner[:at]), test_holds(inner[at + 1 :]))
            return wins if wins in sides else None if None in sides else not wins
    if texts[:1] == ["!"]:
        found = test_holds(inner[1:])
        return None if found is None else not found
    if any(word.doubt for word in inner):
        return None
    return _test_result(texts)


def _test_result(texts: Sequence[str]) -> bool | None:
    """The result of `[ … ]` on these texts; None if it is unknown."""
    if len(texts) == 1:
        return bool(texts[0])
    if len(texts) == 2 and texts[0] in ("-n", "-z"):
        return bool(texts[1]) == (texts[0] == "-n")
    if len(texts) != 3:
        return None
    left, sign, right = texts
    if sign in ("=", "==", "!="):
        return fnmatch.fnmatchcase(left, right) == (sign != "!=")
    if sign in _NUMBERS and left.lstrip("-").isdigit() and right.lstrip("-").isdigit() and len(left + right) < 40:
        return bool(_NUMBERS[sign](int(left), int(right)))
    return None


MOST_COMMANDS, MOST_EXPORTED = 20_000, 200
DEEPEST = 16  # functions in functions
_ARGUMENTS = ("@", *map(str, range(1, 10)))  # of a function
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_DECLARING = frozenset({"export", "local", "declare", "readonly", "typeset"})
_NAMED = re.compile(r"[A-Za-z_]\w*")
_DIRECTIVE = re.compile(r"^#SBATCH[ \t]+([^#\n]*)", re.MULTILINE)
_TESTS = frozenset({"[", "[[", "test"})


class Word(NamedTuple):
    """One word of a command; if it has a doubt, its text is unreliable.

    usual: whether it is the default of a variable that the text does not set
    """

    text: str
    place: Place
    doubt: Doubt | None = None
    usual: bool = False


class ShellCommand(NamedTuple):
    """A command and its arguments; it has a doubt if it may not run, or may run more than once.

    environment: variables that are exported before it or assigned in front of it
    """

    words: tuple[Word, ...]
    doubt: Doubt | None = None
    environment: tuple[tuple[str, Word], ...] = ()


@record
class Script:
    """The commands of a script in order, its #SBATCH options, and the final values of its variables.

    `without_arguments`: whether a condition depends on the script's arguments, which are unknown.
    """

    commands: tuple[ShellCommand, ...]
    directives: tuple[Word, ...]
    variables: dict[str, tuple[Word, ...]]
    without_arguments: bool = False


def read_script(text: str, file: str, given: Mapping[str, Word] | None = None) -> Script:
    """The commands of a shell script; `given` are variables set before it starts."""
    text = text.removeprefix("\ufeff")
    reader = ScriptReader(text, file)
    walk = _Evaluation(reader)
    for name, value in (given or {}).items():
        walk.variables.held[name] = [(WordPiece(value.text, 0, True, value.doubt),)]
    walk.nodes(parse_script(reader), None)
    directives = []
    for found in _DIRECTIVE.finditer(text):
        for part in re.finditer(r"\S+", found.group(1)):
            place = reader.lines.place(found.start(1) + part.start(), width=len(part.group()))
            directives.append(Word(part.group(), place))
    held = {name: tuple(map(walk.word, walk.variables.words(name))) for name in walk.variables.held}
    return Script(tuple(walk.commands), tuple(directives), held, walk.without_arguments)


class _Evaluation:
    """Evaluates a script: its variables, functions and commands so far."""

    def __init__(self, reader: ScriptReader) -> None:
        self.lines = reader.lines
        self.variables = Variables(reader.lines)
        self.exported = dict[str, Word | None]()  # variables that programs see
        self.functions: dict[str, Node] = {}
        self.commands: list[ShellCommand] = []
        self.depth = 0
        self.without_arguments = False

    def word(self, entry: Field) -> Word:
        text = "".join(piece.text for piece in entry)
        at = next((piece.at for piece in entry if piece.text or piece.doubt), entry[0].at if entry else 0)
        doubt = next((piece.doubt for piece in entry if piece.doubt), None)
        usual = any(piece.usual for piece in entry)
        return Word(text, self.lines.place(at, width=len(text)), doubt, usual)

    def line(self, at: int) -> int:
        return self.lines.place(at).line

    def nodes(self, nodes: Sequence[Node], doubt: Doubt | None) -> bool | None:
        """Whether the last of these commands succeeds; None if it is unknown."""
        outcome: bool | None = True
        for node in nodes:
            outcome = self.node(node, doubt)
        return outcome

    def node(self, node: Node, doubt: Doubt | None) -> bool | None:
        """Goes through one command or compound; whether it succeeds, None if unknown."""
        if isinstance(node, Simple):
            return self.simple(node, doubt)
        if isinstance(node, Chain):
            return self.chain(node, doubt)
        if isinstance(node, If):
            self.conditional(node, doubt)
        elif isinstance(node, CaseStatement):
            self.case(node, doubt)
        elif isinstance(node, Loop):
            self.loop(node, doubt)
        elif isinstance(node, Function):
            self.functions[node.name] = node.body
        else:
            self.group(node, doubt)
        return True

    def group(self, node: CommandGroup, doubt: Doubt | None) -> None:
        before = dict(self.variables.held)
        self.nodes(node.body, doubt)
        if node.own:
            self.variables.held = before

    def chain(self, node: Chain, doubt: Doubt | None) -> bool | None:
        """Goes through commands joined by && and ||; whether the last one succeeds, None if unknown."""
        outcome: bool | None = True
        for sign, link in node.links:
            if outcome is {"&&": False, "||": True}.get(sign, ...):
                continue
            unsure = doubt if outcome is not None else doubt or self.undecided(node.at)
            outcome = self.node(link, unsure)
            if node.turned and not sign:
                outcome = None if outcome is None else not outcome
        return outcome

    def undecided(self, at: int) -> Doubt:
        return Doubt("branch", f"a condition on line {self.line(at)}, which the text does not decide")

    def conditional(self, node: If, doubt: Doubt | None) -> None:
        """Evaluates every branch of an `if` that may run, up to the first one that certainly runs."""
        for condition, body in node.branches:
            outcome = self.nodes(condition, doubt)
            if outcome is None:
                doubt = doubt or self.undecided(node.at)
            if outcome is not False:
                self.nodes(body, doubt)
            if outcome:
                return

    def case(self, node: CaseStatement, doubt: Doubt | None) -> None:
        """Goes through the arm of a case statement that matches, or through all that may match."""
        subject = self.joined(node.word)
        for patterns, body in node.arms:
            words = [self.joined(pattern) for pattern in patterns]
            if subject.doubt or any(word.doubt for word in words):
                self.nodes(body, doubt or self.undecided(node.at))
            elif any(fnmatch.fnmatchcase(subject.text, word.text) for word in words):
                self.nodes(body, doubt)
                return

    def joined(self, token: Token) -> Word:
        """A word that is not split at blanks."""
        return self.word(tuple(piece for entry in self.variables.expanded(token.parts, split=False) for piece in entry))

    def loop(self, node: Loop, doubt: Doubt | None) -> None:
        """Goes through the body of a loop once, with values that are in doubt."""
        if node.condition and self.nodes(node.condition, doubt) is False:
            return
        doubt = doubt or Doubt("branch", f"a loop on line {self.line(node.at)}")
        if node.name:
            self.variables.assign(node.name, [(WordPiece("", node.at, True, doubt),)], False, False, None)
        self.nodes(node.body, doubt)

    # --- simple commands

    def simple(self, node: Simple, doubt: Doubt | None) -> bool | None:
        """Goes through a simple command: assignments, functions, or a program; whether it succeeds."""
        words = list(node.words)
        if words[0].plain in _DECLARING:
            if words[0].plain == "export":
                named = (_NAMED.match(word.parts[0].text) for word in words[1:] if isinstance(word.parts[0], Literal))
                for name in (found.group() for found in named if found is not None):
                    self.export(name)
            words = [word for word in words[1:] if self.assigns(word)]
        assigned = 0
        while assigned < len(words) and self.assigns(words[assigned]):
            assigned += 1
        if assigned == len(words):
            for word in words:
                self.assign(word, doubt)
            return True
        if words[assigned].plain in _TESTS:
            return test_holds([self.plain_word(word) for word in words[assigned + 1 :]])
        if words[assigned].plain in (":", "true", "false"):
            self.variables.expanded(tuple(part for word in words[assigned:] for part in word.parts))
            return words[assigned].plain != "false"
        ahead = {name: self.valued(fields) for name, _, fields in map(self.assigned, words[:assigned])}
        fields = [entry for word in words[assigned:] for entry in self.variables.expanded(word.parts)]
        self.called(fields, doubt, ahead)
        return True

    def valued(self, fields: Sequence[Field]) -> Word:
        """The value of a variable, joined to one word."""
        return self.word(tuple(piece for each in fields for piece in each))

    def export(self, name: str) -> None:
        """Exports a variable to programs, with its current or a later value."""
        if len(self.exported) < MOST_EXPORTED:
            held = name in self.variables.held
            self.exported[name] = self.valued(self.variables.words(name)) if held else None

    @staticmethod
    def assigns(word: Token) -> bool:
        first = word.parts[0] if word.parts else None
        return isinstance(first, Literal) and not first.quoted and _ASSIGNED.match(first.text) is not None

    def plain_word(self, token: Token) -> Word:
        """A word of a test; unset variables and script arguments count as empty."""
        if token.sign:
            return Word(token.sign, self.lines.place(token.at))
        word = self.joined(token)
        kind = word.doubt.kind if word.doubt is not None else ""
        self.without_arguments |= kind == "argument"
        return word._replace(doubt=None) if kind in ("unset", "argument") else word

    def assign(self, word: Token, doubt: Doubt | None) -> None:
        name, add, fields = self.assigned(word)
        self.variables.assign(name, fields, add, word.items is not None, doubt)
        if name in self.exported:
            self.export(name)

    def assigned(self, word: Token) -> tuple[str, bool, list[Field]]:
        """The variable of an assignment, whether the value is appended, and the value."""
        first = word.parts[0]
        assert isinstance(first, Literal)
        found = _ASSIGNED.match(first.text)
        assert found is not None
        name, add = found.group(1), bool(found.group(2))
        if word.items is not None:
            fields = [entry for item in word.items for entry in self.variables.expanded(item)]
        else:
            rest = first._replace(text=first.text[found.end() :], at=first.at + found.end())
            value = self.variables.expanded((rest, *word.parts[1:]), split=False)
            fields = [tuple(piece for entry in value for piece in entry if piece.text or piece.doubt)]
        return name, add, fields

    def called(self, fields: list[Field], doubt: Doubt | None, ahead: Mapping[str, Word]) -> None:
        """Records a command, or evaluates the body of a shell function."""
        words = tuple(map(self.word, fields))
        body = self.functions.get(words[0].text) if words else None
        if body is None:
            if len(self.commands) == MOST_COMMANDS:
                raise fail("X010", f"over {MOST_COMMANDS:,} commands", words[0].place)
            seen = {**{name: value for name, value in self.exported.items() if value is not None}, **ahead}
            self.commands.append(ShellCommand(words, doubt, tuple(seen.items())))
            return
        if self.depth == DEEPEST:
            raise fail("X008", f"{words[0].text} calls itself; only a shell can evaluate it", words[0].place)
        self.depth += 1
        held = self.variables.held
        before = {name: held.pop(name) for name in _ARGUMENTS if name in held}
        held["@"] = fields[1:]
        held |= {str(index): [entry] for index, entry in enumerate(fields[1:10], 1)}
        self.node(body, doubt)
        self.variables.held = {name: value for name, value in self.variables.held.items() if name not in _ARGUMENTS}
        self.variables.held |= before
        self.depth -= 1
