"""Plain words in docstrings, comments, messages, docs and YAML; one meaning for each class and module name."""

from __future__ import annotations

import ast
import collections
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

from .catalogue import PACKAGE, ROOT, nodes, python_files, relative

# A banned word, as a regular expression, and the words to use instead.
BANNED = {
    r"told|heard|tells?": "shown, fitted, identified; shows, distinguishes, identifies",
    r"said|says?|saying|unsaid|spoken": "stated, written, printed; states, gives; not stated",
    r"believed?|believes|beliefs?|opinions?": "prior, assumption; assumes",
    r"(?:il)?legal(?:ly|ity)?": "valid, invalid, constraint",
    r"ours": "predicted, costmodel's",
    r"nobody|somebody|anybody|whoever": "the user; not stated; a passive sentence",
    r"begun": "started; default",
    r"nothing\s+but": "only",
    r"(?:of\s+)?one's\s+own": "your own",
    r"ha(?:s|ve)\s+not(?!\s+(?:yet\s+)?been\b)": "does not have, lacks",
    r"married|heeded|slip of the pen": "combined; respected; typo",
    r"(?:is|are)\s+wanted": "is expected, is needed",
    r"go(?:es|ing)?\s+on|went\s+on": "continues",
    r"slow-downs?|worked\s+out": "slowdown; computed",
    r"held\s+against|sound\s+ones": "compared with; healthy ones",
    r"(?:keeps?|holds?)\s+(?:the|all|every|its)\s+limits?": "meets the limits",
    r"work\s+done\s+again|how\s+sure\s+the\s+money": "lost work; cost range",
}
_WORD = re.compile(rf"\b(?:{'|'.join(BANNED)})\b", re.IGNORECASE)
_NAMES = re.compile(r"`[^`\n]*`|https?://\S+")  # in backticks, and addresses: not words

CODE = python_files(PACKAGE)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DOCUMENTS = [path for name in ("costmodel", "hardware", "scenarios") for path in sorted((ROOT / name).rglob("*.yaml"))]


def banned_words(text: str) -> list[tuple[int, str]]:
    """The banned words of a text, each with its line from 0; names in backticks and addresses are not words."""
    found = _WORD.finditer(_NAMES.sub(lambda name: "_" * len(name[0]), text))
    return [(text.count("\n", 0, word.start()), " ".join(word[0].split())) for word in found]


def strings(found: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """The docstrings and other strings with a blank in them, by line; a string without one is a name."""
    for node in found:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.search(r"\w \w", node.value):
            yield node.lineno, node.value


def comments(code: str) -> Iterator[tuple[int, str]]:
    """The comments, by line, if any of them may have a banned word: only then is the code worth its tokens."""
    if any(_WORD.search(line[line.find("#") :]) for line in code.split("\n") if "#" in line):
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def faults(place: str, texts: Iterable[tuple[int, str]]) -> list[str]:
    """Each banned word with its place."""
    return [f"{place}:{start + line}: {word}" for start, text in texts for line, word in banned_words(text)]


def repeated_names(names: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Names that stand in several places."""
    places = collections.defaultdict(list)
    for name, place in names:
        places[name].append(place)
    return {name: found for name, found in places.items() if len(found) > 1}


def classes(path: Path) -> Iterator[tuple[str, str]]:
    """The classes of a module, each with the module's path."""
    for node in nodes(path):
        if isinstance(node, ast.ClassDef):
            yield node.name, relative(path)


def _remedy() -> str:
    return "\n".join(f"  {word}: {plain}" for word, plain in BANNED.items())


def test_code_uses_plain_words() -> None:
    texts = ((path, (*strings(nodes(path)), *comments(path.read_text("utf-8")))) for path in CODE)
    found = [fault for path, text in texts for fault in faults(relative(path), text)]
    assert not found, "\n".join([*found, "write instead", _remedy()])


def test_pages_and_documents_use_plain_words() -> None:
    found = [fault for path in (*PAGES, *DOCUMENTS) for fault in faults(relative(path), [(1, path.read_text("utf-8"))])]
    assert not found, "\n".join([*found, "write instead", _remedy()])


def test_class_names_are_unique_in_a_folder() -> None:
    named = (item for path in CODE for item in classes(path))
    assert repeated_names((f"{Path(path).parent}: {name}", path) for name, path in named) == {}


def test_module_names_are_unique_on_a_floor() -> None:
    modules = (path.relative_to(PACKAGE) for path in CODE if path.name != "__init__.py")
    assert repeated_names((f"{path.parts[0]}: {path.stem}", path.as_posix()) for path in modules) == {}


def test_planted_faults_are_caught() -> None:
    code = '"""A model has not one."""\nx = "said"\ny = f"{x} is what was told"  # nobody\n'
    texts = (*strings(ast.walk(ast.parse(code))), *comments(code))
    assert faults("a.py", texts) == ["a.py:1: has not", "a.py:3: told", "a.py:3: nobody"]
    assert banned_words("An illegal plan\nof one's own, which has\nnot, Ours") == [
        (0, "illegal"),
        (1, "of one's own"),
        (1, "has not"),
        (2, "Ours"),
    ]
    assert banned_words("`said` has not been measured; hourly, colours, essay") == []
    assert repeated_names([("A", "x.py"), ("B", "x.py"), ("A", "y.py")]) == {"A": ["x.py", "y.py"]}
