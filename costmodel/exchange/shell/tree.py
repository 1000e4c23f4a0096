"""Words of a shell script to its commands: simple ones, and those that hold others, such as if, for and case."""

from __future__ import annotations

from typing import NamedTuple

from costmodel.exchange.shell.parts import DEEPEST, ScriptReader, Token
from costmodel.ground.errors import CostModelError, fail

_ENDS = frozenset({"then", "elif", "else", "fi", "do", "done", "esac", "}"})


class Simple(NamedTuple):
    """A simple command: assignments, a command and its arguments."""

    words: tuple[Token, ...]
    at: int


class Chain(NamedTuple):
    """Commands joined by && and ||, each with its operator; `turned` if a ! negates the first one."""

    links: tuple[tuple[str, Node], ...]
    turned: bool
    at: int


class If(NamedTuple):
    """The branches of an `if`, each with its condition; an `else` branch has an empty condition."""

    branches: tuple[tuple[tuple[Node, ...], tuple[Node, ...]], ...]
    at: int


class Loop(NamedTuple):
    """A for, while or until loop; `name` is the variable of a for loop, `condition` belongs to while and until."""

    name: str
    condition: tuple[Node, ...]
    body: tuple[Node, ...]
    at: int


class CaseStatement(NamedTuple):
    """A case statement: its word and its arms, each with patterns."""

    word: Token
    arms: tuple[tuple[tuple[Token, ...], tuple[Node, ...]], ...]
    at: int


class CommandGroup(NamedTuple):
    """Commands in parentheses or braces; `own` marks a subshell, whose variables are lost afterwards."""

    body: tuple[Node, ...]
    own: bool
    at: int


class Function(NamedTuple):
    """A function definition; its commands run where it is called."""

    name: str
    body: Node
    at: int


Node = Simple | Chain | If | Loop | CaseStatement | CommandGroup | Function


def parsed(reader: ScriptReader) -> tuple[Node, ...]:
    """The commands of a script."""
    parser = _Parser(reader)
    nodes = parser.nodes()
    if parser.now.is_word or parser.now.sign:
        raise parser.broken("no command begins like this")
    return nodes


class _Parser:
    """A parser for shell scripts with one token of lookahead, in `now`."""

    def __init__(self, reader: ScriptReader) -> None:
        self.reader, self.depth = reader, 0
        self.now = reader.token()

    def step(self) -> Token:
        """Returns the current token and moves to the next one."""
        token, self.now = self.now, self.reader.token()
        return token

    def broken(self, sentence: str) -> CostModelError:
        return self.reader.broken(sentence, self.now.at)

    def wanted(self, word: str) -> None:
        self.past_lines()
        if word not in (self.now.plain, self.now.sign):
            raise self.broken(f"{word!r} is expected here")
        self.step()

    def past_lines(self) -> None:
        while self.now.sign in ("\n", ";"):
            self.step()

    def nodes(self, *ends: str) -> tuple[Node, ...]:
        """Commands up to a word or operator that ends them."""
        found = list[Node]()
        while True:
            while self.now.sign in ("\n", ";", "&", "|"):
                self.step()
            ended = self.now.plain in _ENDS or self.now.sign in (*ends, ")")
            if ended or not (self.now.is_word or self.now.sign):
                return tuple(found)
            found.append(self.chain())

    def chain(self) -> Node:
        """Parses commands joined by && and ||."""
        start, links, sign = self.now.at, list[tuple[str, Node]](), ""
        turned = self.now.plain == "!"
        if turned:
            self.step()
        while True:
            links.append((sign, self.command()))
            if self.now.sign not in ("&&", "||"):
                break
            sign = self.step().sign
            while self.now.sign == "\n":
                self.step()
        return links[0][1] if len(links) == 1 and not turned else Chain(tuple(links), turned, start)

    def command(self) -> Node:
        """Parses one command, simple or compound."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise fail("X010", f"nested more than {DEEPEST} deep", self.reader.lines.place(self.now.at))
        word = self.now.plain
        if word == "if":
            node: Node = self.conditional()
        elif word in ("for", "select", "while", "until"):
            node = self.loop(word)
        elif word == "case":
            node = self.case()
        elif word in ("{", "function") or self.now.sign == "(":
            node = self.group() if word != "function" else self.named_function()
        else:
            node = self.test() if word == "[[" else self.simple()
        self.depth -= 1
        return node

    def conditional(self) -> If:
        """Parses an if statement."""
        start, branches = self.step().at, []
        while True:
            condition = self.nodes()
            self.wanted("then")
            branches.append((condition, self.nodes()))
            if self.now.plain != "elif":
                break
            self.step()
        if self.now.plain == "else":
            self.step()
            branches.append(((), self.nodes()))
        self.wanted("fi")
        return If(tuple(branches), start)

    def loop(self, kind: str) -> Loop:
        """Parses a for, select, while or until loop."""
        start, name, condition = self.step().at, "", tuple[Node, ...]()
        if kind in ("for", "select"):
            name = self.now.plain
            while self.now.plain != "do" and (self.now.is_word or self.now.sign):
                self.step()
        else:
            condition = self.nodes()
        self.wanted("do")
        body = self.nodes()
        self.wanted("done")
        return Loop(name, condition if kind == "while" else (), body, start)

    def case(self) -> CaseStatement:
        """Parses a case statement."""
        start, word = self.step().at, self.step()
        arms: list[tuple[tuple[Token, ...], tuple[Node, ...]]] = []
        self.wanted("in")
        while True:
            self.past_lines()
            if self.now.plain == "esac":
                self.step()
                return CaseStatement(word, tuple(arms), start)
            arms.append(self.arm())

    def arm(self) -> tuple[tuple[Token, ...], tuple[Node, ...]]:
        """Parses one arm of a case statement: its patterns and its body."""
        if self.now.sign == "(":
            self.step()
        patterns = []
        while self.now.is_word:
            patterns.append(self.step())
            if self.now.sign == "|":
                self.step()
        self.wanted(")")
        body = self.nodes(";;")
        if self.now.sign == ";;":
            self.step()
        return tuple(patterns), body

    def group(self) -> CommandGroup:
        opening = self.step()
        body = self.nodes()
        self.wanted(")" if opening.sign else "}")
        return CommandGroup(body, bool(opening.sign), opening.at)

    def named_function(self) -> Function:
        start = self.step().at
        name = self.step().plain
        return self.function(name, start)

    def function(self, name: str, start: int) -> Function:
        if self.now.sign == "(":
            self.step()
            self.wanted(")")
        self.past_lines()
        return Function(name, self.command(), start)

    def test(self) -> Simple:
        """A test in [[ … ]], where operators count as words."""
        words = [self.step()]
        while words[-1].plain != "]]":
            if not (self.now.is_word or self.now.sign):
                raise self.broken("']]' is expected here")
            words.append(self.step())
        return Simple(tuple(words), words[0].at)

    def simple(self) -> Node:
        """Parses a simple command, or the definition of a function."""
        start, words = self.now.at, list[Token]()
        while self.now.is_word:
            words.append(self.step())
            if len(words) == 1 and self.now.sign == "(" and words[0].plain:
                return self.function(words[0].plain, start)
        if not words:
            raise self.broken("no command begins like this")
        return Simple(tuple(words), start)
