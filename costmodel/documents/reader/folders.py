"""The folders of documents and the names in them; fast, because completion calls it at every key press.

A name is looked for in the working folder, then in the folders of COSTMODEL_PATH, then among the shipped documents.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from costmodel.ground.errors import Place, fail

_PACKAGE = Path(__file__).resolve().parents[2]
_SHIPPED = (_PACKAGE / "_shipped" if (_PACKAGE / "_shipped").is_dir() else _PACKAGE.parent).resolve()

_PROJECT = 'name = "llm-costmodel"'  # a line of its pyproject.toml

_SHOWN = 60  # letters of a folder in a sentence
NO_FILES = ("<stdin>", "<mapping>", "-", "command line")
SUFFIXES = (".yaml", ".yml", ".json")  # of files that a document can be read from

_LOGS, _COMMANDS = (".log", ".out"), (".sh", ".bash", ".sbatch", ".slurm", ".job", ".toml", ".ini", ".py")


def import_hint(file: str) -> str:
    """The command that reads a log or a launch script, by its suffix; empty for other files.

    >>> import_hint("train.sh"), import_hint("mine.yaml")
    ('costmodel import train.sh --gpu NAME -o mine.yaml makes a scenario of it', '')
    """
    if file.endswith(_LOGS):
        reading = f"costmodel diagnose SCENARIO --from {file} compares its steps"
        return f"{reading}, costmodel import {file} --as runs -o runs.csv makes a table of them"
    return f"costmodel import {file} --gpu NAME -o mine.yaml makes a scenario of it" if file.endswith(_COMMANDS) else ""


FOLDER_OF = {
    "accelerator": "hardware/accelerators",
    "fabric": "hardware/fabrics",
    "node": "hardware/nodes",
    "efficiency": "hardware/efficiencies",
    "prior": "hardware/priors",
    "reliability": "hardware/reliability",
    "practice": "hardware/practices",
    "grid": "hardware/grids",
    "model": "scenarios/models",
    "stack": "scenarios/stacks",
    "optimizer": "scenarios/optimizers",
    "release": "scenarios/releases",
    "scenario": "scenarios",
    "measured": "scenarios/measured",
}

_TOPS = {(folder.partition("/")[0],) for folder in FOLDER_OF.values()}


def shipped(folder: str) -> Path:
    """A folder of shipped files, in the checkout or in the installed package."""
    return _SHIPPED / folder


def plural(kind: str) -> str:
    """The plural of a kind of document, as in `costmodel list`."""
    if kind in ("measured", "reliability"):
        return kind
    return f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"


def roots() -> Iterator[Path]:
    """The folders in which documents are searched, in order."""
    with contextlib.suppress(OSError):  # the working folder may be gone
        if os.access(here := Path.cwd(), os.R_OK | os.X_OK):
            yield here
    yield from (_entry(part) for part in os.environ.get("COSTMODEL_PATH", "").split(os.pathsep) if part)
    yield _SHIPPED


def _entry(part: str) -> Path:
    """A folder of COSTMODEL_PATH; a missing folder counts as empty, and an unreadable folder is a fault, because the
    answer would silently use other documents.
    """
    try:
        os.scandir(part).close()
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        name, reason = f"{part[:_SHOWN]}{'…' * (len(part) > _SHOWN)}", getattr(error, "strerror", None) or error
        hint = "take it out of COSTMODEL_PATH, or let it be read"
        raise fail("C022", f"COSTMODEL_PATH names '{name}', which cannot be read: {reason}", None, hint) from None
    return Path(part)


def is_file(path: Path) -> bool:
    """Whether a file exists; a fault if its folder cannot be read."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except PermissionError as error:
        raise fail("C022", f"{path} cannot be read: {error.strerror}", None, "let the folder be read") from None
    except (OSError, ValueError):
        return False


def shipped_file(name: str) -> Path:
    """A shipped file by its path from the root of a checkout, such as hardware/left_out.json."""
    return _SHIPPED / name


def is_shipped(path: Path) -> bool:
    """Whether a file comes with the program."""
    with contextlib.suppress(OSError):
        return path.resolve().is_relative_to(_SHIPPED)
    return False


def is_near(file: str) -> bool:
    """Whether messages may show the text of a file: it is in a document folder (links resolved) or it is a pipe."""
    if file in NO_FILES:
        return True
    try:
        path = Path(file)
        return path.is_fifo() or any(path.resolve().is_relative_to(root.resolve()) for root in roots())
    except (OSError, RuntimeError, ValueError):  # a loop of links, or no path at all
        return False


def place_in(file: str, line: int = 0, column: int = 0, text: str = "", width: int = 1) -> Place:
    """A place in a file, marked private if messages may not show its text."""
    return Place(file, line, column, "", text, width, private=not is_near(file))


def is_checkout(folder: Path) -> bool:
    """Whether a folder is a checkout of the project."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return _PROJECT in (folder / "pyproject.toml").read_text("utf-8")
    return False


def as_named(path: Path) -> str:
    """A file name for messages: relative to the checkout or the working folder, else in full."""
    if name := _path_within(path, _SHIPPED):
        return name
    with contextlib.suppress(OSError):
        if path.is_relative_to(Path.cwd()):
            return str(path.relative_to(Path.cwd()))
    return str(path)


@functools.lru_cache(maxsize=1024)
def _path_within(path: Path, root: Path) -> str:
    """The path of a file relative to a root, if it is in a document folder; else empty."""
    if not path.is_relative_to(root):
        return ""
    inside = path.relative_to(root)
    return str(inside) if inside.parts[:1] in _TOPS else ""


def result_name(shown: str) -> str:
    """The name of a file in a result: the same on every machine and in every working folder.

    It is the document folder and the file name; for other files only the file name.

    >>> result_name("/srv/own/hardware/nodes/rack.yaml"), result_name("../jobs/mine.yaml")
    ('hardware/nodes/rack.yaml', 'mine.yaml')
    """
    path = Path(shown)
    folder = next((folder for folder in FOLDER_OF.values() if path.match(f"{folder}/*")), "")
    return f"{folder}/{path.name}" if folder else path.name or shown


def shown_file(named: str) -> Path:
    """The path of a file that `as_named` has shortened."""
    path = Path(named)
    shipped = _SHIPPED / path
    return shipped if os.path.isfile(shipped) and not os.path.isfile(path) else path


def instead_of_shipped(kind: str, path: Path, text: str) -> bool:
    """Whether a file of your own with this text replaces a shipped file of the same name."""
    shipped = _SHIPPED / FOLDER_OF[kind] / path.name
    if path == shipped or not os.path.isfile(shipped) or is_shipped(path):
        return False
    return shipped.read_text("utf-8") != text


def places(kind: str, name: str) -> Iterator[Path]:
    """The possible files of a document, in search order."""
    return (root / FOLDER_OF[kind] / f"{name}.yaml" for root in roots())


def names(kind: str) -> list[str]:
    """The names of all documents of a kind that can be found."""
    folder = FOLDER_OF[kind]
    return sorted({name for root in dict.fromkeys(roots()) for name in _names_in(root / folder)})


def _names_in(folder: Path) -> tuple[str, ...]:
    """The names of all documents in a folder."""
    try:
        changed = folder.stat().st_mtime_ns
    except (OSError, ValueError):
        return ()
    return _shipped_names(folder, changed) if folder.is_relative_to(_SHIPPED) else _documents_in(folder)


@functools.lru_cache(maxsize=64)
def _shipped_names(folder: Path, changed: int) -> tuple[str, ...]:
    """The names of all documents in a shipped folder, cached until the folder changes."""
    return _documents_in(folder)


def _documents_in(folder: Path) -> tuple[str, ...]:
    return tuple(path.stem for path in folder.glob("*.yaml") if is_file(path))


def has(kind: str, name: str) -> bool:
    """Whether a document of that kind and name can be found."""
    return any(is_file(path) for path in places(kind, name))
