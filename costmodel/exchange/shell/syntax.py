"""Parses a shell script: text to tokens, and tokens to commands."""

from __future__ import annotations

import re
from typing import NamedTuple

from costmodel.exchange.values import Lines
from costmodel.ground.errors import CostModelError, Place, fail

# --- text of a shell script to words, each of its parts as it is written: letters, variables, sums, code


LONGEST = 4 * 2**20  # letters
MOST_LINES = 50_000
MOST_TOKENS = 50_000
DEEPEST = 64
_BLANK = re.compile(r"(?:[ \t\r]|\\\r?\n)+")
_PLAIN = re.compile(r"[^\s\\'\"$`;&|<>()]+")
_IN_BRACES = re.compile(r"[^}\\'\"$`]+")
_IN_QUOTES = re.compile(r"[^\"\\$`]+")
_SIGN = re.compile(r"&&|\|\||;;|[;&|()\n]")
_REDIRECTION = re.compile(r"&?[0-9]*(<<<|<<-?|<>|>>|>\||[<>])(&[0-9-]?|)")
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*|[0-9@*#?$!-]))")
_BRACED = re.compile(r"\$\{([A-Za-z_]\w*|[0-9]+|[@*])(?:\[([@*]|[0-9]{1,4})\])?(:?[-=+?]|\})")
_ASSIGNED_LIST = re.compile(r"[A-Za-z_]\w*\+?=")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


class Literal(NamedTuple):
    """Characters that stand for themselves."""

    text: str
    at: int
    quoted: bool


class Variable(NamedTuple):
    """A variable reference: $NAME, ${NAME[@]} or ${NAME:-other}."""

    name: str
    entry: str
    operator: str
    other: tuple[Part, ...]
    at: int
    quoted: bool


class Sum(NamedTuple):
    """An arithmetic expansion: $((…))."""

    text: str
    at: int
    quoted: bool


class Code(NamedTuple):
    """A value that is known only when the script runs."""

    sentence: str
    at: int
    quoted: bool


Part = Literal | Variable | Sum | Code


class Token(NamedTuple):
    """A word, an operator between commands, or an assigned list; an empty operator marks the end."""

    at: int
    parts: tuple[Part, ...] = ()
    sign: str = ""
    items: tuple[tuple[Part, ...], ...] | None = None

    @property
    def is_word(self) -> bool:
        """Whether this is a word, or a list that is assigned."""
        return bool(self.parts)

    @property
    def plain(self) -> str:
        """The characters of a word without quotes or variables; empty for any other word."""
        only = self.parts[0] if len(self.parts) == 1 and self.items is None else None
        return only.text if isinstance(only, Literal) and not only.quoted else ""


class ScriptReader:
    """A tokenizer for shell scripts."""

    def __init__(self, text: str, file: str) -> None:
        if len(text) > LONGEST or text.count("\n") > MOST_LINES:
            raise fail("X010", f"the text has over {LONGEST:,} letters or {MOST_LINES:,} lines", Place(file))
        self.text, self.lines = text, Lines(text, file)
        self.at, self.depth, self.tokens = 0, 0, 0
        self.pending: list[str] = []  # ends of here-documents whose text begins on the next line
        found = _CONTROL.search(text)
        if found:
            raise fail("D006", "control characters are not used here", self.lines.place(found.start()))

    def broken(self, sentence: str, at: int) -> CostModelError:
        """A fault for a syntax error in the script."""
        return fail("D002", f"this is not a shell script: {sentence}", self.lines.place(at))

    def token(self) -> Token:
        """The next token; skips comments, blanks and redirections."""
        self.tokens += 1
        if self.tokens > MOST_TOKENS:
            raise fail("X010", f"the script has over {MOST_TOKENS:,} words", self.lines.place(self.at))
        while True:
            self._blanks()
            redirection = _REDIRECTION.match(self.text, self.at)
            if redirection is None:
                break
            self._redirected(redirection)
        start = self.at
        if start >= len(self.text):
            return Token(start)
        sign = _SIGN.match(self.text, start)
        if sign:
            self.at = sign.end()
            if sign.group() == "\n":
                self._here_documents()
            return Token(start, sign=sign.group())
        return self._word()

    def _blanks(self) -> None:
        blank = _BLANK.match(self.text, self.at)
        self.at = blank.end() if blank else self.at
        if self.text[self.at : self.at + 1] == "#":
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end

    def _redirected(self, found: re.Match[str]) -> None:
        """Skips a redirection and its target."""
        self.at = found.end()
        if found.group(2):
            return
        blank = _BLANK.match(self.text, self.at)
        self.at = blank.end() if blank else self.at
        start = self.at
        inner = start - (self.text.startswith("(", start) and start == found.end())
        if self.text.startswith(("<(", ">("), inner):  # the output of code
            self.at = self._past_code(inner + 1, ")")
        elif start < len(self.text) and not _SIGN.match(self.text, self.at):
            self._word()
        if found.group(1) in ("<<", "<<-"):
            self.pending.append(self.text[start : self.at].strip("'\"\\"))

    def _here_documents(self) -> None:
        """Skips the bodies of the here documents that the last line opened."""
        for end in self.pending:
            while self.at < len(self.text):
                stop = self.text.find("\n", self.at)
                stop = len(self.text) if stop < 0 else stop
                line = self.text[self.at : stop].strip()
                self.at = stop + 1
                if line == end:
                    break
        self.pending = []

    def _word(self) -> Token:
        """The next word, as its literal, quoted and variable parts."""
        start, parts = self.at, list[Part]()
        while self.at < len(self.text):
            plain = _PLAIN.match(self.text, self.at)
            letter = self.text[self.at]
            if plain:
                parts.append(Literal(plain.group(), self.at, False))
                self.at = plain.end()
            elif letter == "(" and len(parts) == 1 and self._names_list(parts[0]):
                return Token(start, tuple(parts), items=self._listed())
            elif letter in "'\"$`\\":
                self._marked(letter, parts)
            else:
                break
        if not parts:  # a sign that ends no command here
            raise self.broken(f"{self.text[start]!r} is in the place of a word", start)
        return Token(start, tuple(parts))

    @staticmethod
    def _names_list(part: Part) -> bool:
        return isinstance(part, Literal) and _ASSIGNED_LIST.fullmatch(part.text) is not None

    def _marked(self, letter: str, parts: list[Part]) -> None:
        """Adds the part that starts with a special character: a quote, a dollar sign or a backslash."""
        start = self.at
        if letter == "\\":
            after = self.text[start + 1 : start + 2]
            self.at = start + 2
            if after not in ("\n", "\r"):
                parts.append(Literal(after, start + 1, True))
        elif letter == "'":
            end = self.text.find("'", start + 1)
            if end < 0:
                raise self.broken("a quote that nothing closes", start)
            parts.append(Literal(self.text[start + 1 : end], start + 1, True))
            self.at = end + 1
        elif letter == '"':
            self.at += 1
            self._double_quoted(start, parts)
        elif letter == "`":
            self.at = self._past_code(start, "`")
            parts.append(Code("what `…` prints", start, False))
        else:
            parts.append(self._dollar(quoted=False))

    def _double_quoted(self, start: int, parts: list[Part]) -> None:
        """Adds the parts of a text in double quotes."""
        parts.append(Literal("", self.at, True))
        while self.at < len(self.text):
            letter = self.text[self.at]
            plain = _IN_QUOTES.match(self.text, self.at)
            if letter == '"':
                self.at += 1
                return
            if plain:
                parts.append(Literal(plain.group(), self.at, True))
                self.at = plain.end()
            elif letter == "\\":
                self._escaped(parts)
            elif letter == "`":
                parts.append(Code("what `…` prints", self.at, True))
                self.at = self._past_code(self.at, "`")
            else:
                parts.append(self._dollar(quoted=True))
        raise self.broken("a double quote that nothing closes", start)

    def _escaped(self, parts: list[Part]) -> None:
        """Adds the character after a backslash in double quotes."""
        after = self.text[self.at + 1 : self.at + 2]
        if after in ('"', "\\", "$", "`"):
            parts.append(Literal(after, self.at + 1, True))
        elif after not in ("\n", "\r"):
            parts.append(Literal("\\" + after, self.at, True))
        self.at += 2

    def _dollar(self, quoted: bool) -> Part:
        """What a dollar sign begins: arithmetic, a command substitution or a variable."""
        start = self.at
        if self.text.startswith("$((", start):
            end = self._past_code(start + 2, ")")
            if self.text.startswith(")", end):
                self.at = end + 1
                return Sum(self.text[start + 3 : end - 1], start, quoted)
        if self.text.startswith("$(", start):
            self.at = self._past_code(start + 1, ")")
            return Code("what $(…) prints", start, quoted)
        if self.text.startswith("${", start):
            return self._braced(quoted)
        if self.text.startswith("$'", start) or (self.text.startswith('$"', start) and not quoted):
            self.at += 1
            return Literal("", self.at, True)
        variable = _VARIABLE.match(self.text, start)
        if variable is None:
            self.at += 1
            return Literal("$", start, quoted)
        self.at = variable.end()
        return Variable(variable.group(1), "", "", (), start, quoted)

    def _braced(self, quoted: bool) -> Part:
        """The variable in ${…} with its operator."""
        start = self.at
        found = _BRACED.match(self.text, start)
        if found is None:
            self.at = self._past_code(start + 1, "}")
            return Code("an expansion that only a shell does", start, quoted)
        self.at = found.end()
        name, entry, operator = found.group(1), found.group(2) or "", found.group(3)
        if operator == "}":
            return Variable(name, entry, "", (), start, quoted)
        return Variable(name, entry, operator, self._other(start), start, quoted)

    def _other(self, start: int) -> tuple[Part, ...]:
        """The parts after the operator in ${NAME:-other}."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise fail("X010", f"nested more than {DEEPEST} deep", self.lines.place(start))
        parts = list[Part]()
        while self.at < len(self.text) and self.text[self.at] != "}":
            letter = self.text[self.at]
            plain = _IN_BRACES.match(self.text, self.at)
            if plain:
                parts.append(Literal(plain.group(), self.at, False))
                self.at = plain.end()
            else:
                self._marked(letter, parts)
        if self.at >= len(self.text):
            raise self.broken("a brace that nothing closes", start)
        self.at += 1
        self.depth -= 1
        return tuple(parts)

    def _past_code(self, start: int, end: str) -> int:
        """The position after command substitution or other skipped code, whose text is not evaluated."""
        opening = {")": "(", "}": "{"}.get(end, "")
        depth, at = 0, start + 1
        while at < len(self.text):
            letter = self.text[at]
            if letter == "\\":
                at += 1
            elif letter == "'" and end != "}":
                close = self.text.find("'", at + 1)
                at = close if close > 0 else at
            elif letter == opening:
                depth += 1
            elif letter == end:
                if depth == 0:
                    return at + 1
                depth -= 1
            at += 1
        raise self.broken(f"code that no {end!r} closes", start)

    def _listed(self) -> tuple[tuple[Part, ...], ...]:
        """The words of a list in parentheses."""
        start = self.at
        self.at += 1
        items = []
        while True:
            token = self.token()
            if token.is_word and token.items is None:
                items.append(token.parts)
            elif token.sign == ")":
                return tuple(items)
            elif token.sign != "\n":
                raise self.broken("a list of words that no bracket closes", start)


# --- words of a shell script to its commands


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


def parse_script(reader: ScriptReader) -> tuple[Node, ...]:
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
