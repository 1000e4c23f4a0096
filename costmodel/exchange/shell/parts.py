"""Text of a shell script to words, each of its parts as it is written: letters, variables, sums, code."""

from __future__ import annotations

import re
from typing import NamedTuple

from costmodel.exchange.values.foreign_values import Lines
from costmodel.ground.errors import CostModelError, Place, fail

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
