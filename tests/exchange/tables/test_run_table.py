"""Tables of measured runs: what is read, and what is said of a table that is not one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costmodel.documents.text.files import file_text
from costmodel.exchange.tables.kernel_table import is_run_table
from costmodel.exchange.tables.run_table import ALIASES, COLUMNS, MEMORIES, REQUIRED, TIMES, read_table
from costmodel.ground.errors import CostModelError

pytestmark = pytest.mark.usefixtures("in_its_folder")

HEADER = "id,layers,hidden,heads,seq_len,gpus,global_batch,gpu,glu,tp,step_time_s,notes"
# Korthikanti et al. 2022 (arXiv 2205.05198), table 5: 22B on 8 A100, full recompute, 1.42 s a step.
ROW = "22b,48,6144,64,2048,8,4,A100-80GB,false,8,1.42,full"
TEXT = f"{HEADER}\n{ROW}\n"


def written(folder: Path, text: str | bytes) -> str:
    path = folder / "runs.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_cells_are_what_they_mean(tmp_path: Path) -> None:
    (row,) = read_table(written(tmp_path, TEXT)).rows
    assert (row.id, row.number("layers"), row.number("step_time_s"), row.flag("glu")) == ("22b", 48.0, 1.42, False)
    assert (row.text("gpu"), row.text("notes"), row.text("nowhere")) == ("A100-80GB", "full", "")
    assert (row.number("vp"), row.flag("fsdp")) == (None, None)


@pytest.mark.parametrize(
    ("old", "new", "name", "value"),
    [
        (",48,", ",48.0,", "layers", 48.0),
        (",48,", ", 48 ,", "layers", 48.0),
        (",48,", ",,", "layers", None),
        (",false,", ",0,", "glu", False),
        (",false,", ",TRUE,", "glu", True),
        (",1.42,", ",142e-2,", "step_time_s", 1.42),
        (",1.42,", ',"1.42",', "step_time_s", 1.42),
    ],
)
def test_ways_to_write_a_cell(tmp_path: Path, old: str, new: str, name: str, value: float | bool | None) -> None:
    (row,) = read_table(written(tmp_path, TEXT.replace(old, new))).rows
    assert row.cells.get(name) == value


def test_names_of_memory_tables_are_understood(tmp_path: Path) -> None:
    header = "model,layers,hidden,heads,seq,gpu,gpus,sp,mbs,gbs,fits"
    (row,) = read_table(written(tmp_path, f"{header}\n\n22B,48,6144,64,2048,A100-80GB,8,true,4,4,1\n")).rows
    assert [row.number(name) for name in ("seq_len", "micro_batch", "global_batch")] == [2048.0, 4.0, 4.0]
    assert (row.flag("seq_parallel"), row.flag("fits"), row.text("model_name")) == (True, True, "22B")
    assert row.id == "runs:3"
    assert set(ALIASES.values()) <= set(COLUMNS)


def test_a_table_may_be_large(tmp_path: Path) -> None:
    """Larger than any YAML text may be, which takes its reader longer."""
    path = written(tmp_path, f"{HEADER}\n" + f"{ROW}{' ' * 100_000}\n" * 50)
    assert len(read_table(path).rows) == 50
    with pytest.raises(CostModelError, match="over 4 MB"):
        file_text(path)
    with pytest.raises(CostModelError, match="over 1 MB"):
        file_text(path, largest=1_000_000)


def test_headers_are_known_whatever_their_capitals(tmp_path: Path) -> None:
    header = (
        HEADER.replace("layers", " Layers ").replace("step_time_s", "STEP_TIME_S").replace("notes", "Notes,MBS,Tier")
    )
    path = written(tmp_path, f"{header}\n{ROW},4,core\n")
    (row,) = read_table(path).rows
    assert (row.number("layers"), row.number("step_time_s"), row.text("notes")) == (48.0, 1.42, "full")
    assert (row.number("micro_batch"), row.text("Tier")) == (4.0, "core")
    assert is_run_table(path)


@pytest.mark.parametrize("header", [HEADER, ",".join(f'"{name}"' for name in HEADER.split(",")), f"\n\n{HEADER}"])
def test_a_table_of_runs_is_known_however_it_is_quoted(tmp_path: Path, header: str) -> None:
    assert is_run_table(written(tmp_path, f"{header}\n{ROW}\n"))


def test_every_column_is_told() -> None:
    assert all(column.meaning for column in COLUMNS.values())
    assert {*REQUIRED, *TIMES, *MEMORIES} <= set(COLUMNS)


def test_a_record_may_go_on_behind_its_line(tmp_path: Path) -> None:
    text = TEXT.replace(",full\n", ',"full,\nof all layers"\n') + ROW.replace("22b", "again") + "\r\n"
    first, second = read_table(written(tmp_path, text)).rows
    assert (first.text("notes"), second.id, second.place.line) == ("full,\nof all layers", "again", 4)


# name: text, code, words of the sentence, place behind the file's name, what the caret marks
HOSTILE: dict[str, tuple[str | bytes, str, str, str, str]] = {
    "empty": ("", "D014", "names no column", ":1:1", ""),
    "words": ("to whom it may concern\n", "D014", "names no column", ":1:1", "t"),
    "yaml": ("schema: costmodel/measured/v1\nname: x\n", "D014", "names no column", ":1:1", "s"),
    "semicolons": (TEXT.replace(",", ";"), "D014", "names no column", ":1:1", "i"),
    "not text": (b"id,\xff\xfe\n", "D001", "not UTF-8", "", ""),
    "no rows": (HEADER + "\n", "D014", "no rows", ":1:1", ""),
    "a quote that never ends": (TEXT.replace("22b", '"22b'), "D014", "unexpected end of data", ":2:1", ""),
    "a column twice": (TEXT.replace("notes", "tp"), "D005", "'tp' occurs twice", ":1:73", "tp"),
    "a column in two ways": (TEXT.replace("notes", "TP"), "D005", "'tp' occurs twice", ":1:73", "TP"),
    "no hidden": (TEXT.replace("hidden", "width"), "D004", "'hidden' is missing", ":1:1", "i"),
    "no gpu": (TEXT.replace(",gpu,", ",chip,"), "D004", "accelerator, gpu is needed", ":1:1", "i"),
    "nothing measured": (TEXT.replace("step_time_s", "time"), "D004", "step_time_s, tokens", ":1:1", "i"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_one_fault(name: str, run: Any, faults: Any, tmp_path: Path) -> None:
    text, code, sentence, place, marked = HOSTILE[name]
    written(tmp_path, text)
    (found,) = faults(run("validate", "runs.csv", cwd=tmp_path))
    assert found.code == code
    assert sentence in found.sentence
    assert found.place.startswith(f"runs.csv{place}")
    assert found.marked.rstrip("…") == marked


# The same of a row, which is then not used.
UNREADABLE: dict[str, tuple[str, str, str, str, str]] = {
    "a short row": (TEXT + "1,2\n", "D014", "2 cells and the header 12", ":3:1", "1"),
    "a long row": (TEXT + ROW + ",\n", "D014", "13 cells and the header 12", ":3:1", "2"),
    "words for a count": (
        TEXT.replace(",48,", ",many,"),
        "D006",
        "from 1 is expected here, not 'many'",
        ":2:5",
        "many",
    ),
    "nan": (TEXT.replace(",48,", ",NaN,"), "D006", "not 'NaN'", ":2:5", "NaN"),
    "inf": (TEXT.replace("1.42", "inf"), "D006", "not 'inf'", ":2:43", "inf"),
    "a unit": (TEXT.replace("1.42", "1.42 s"), "D006", "not '1.42 s'", ":2:43", "1.42 s"),
    "half a layer": (TEXT.replace(",48,", ",48.5,"), "D008", "'48.5' is out of range", ":2:5", "48.5"),
    "no layer": (TEXT.replace(",48,", ",0,"), "D008", "'0' is out of range", ":2:5", "0"),
    "back in time": (TEXT.replace("1.42", "-1.42"), "D008", "above 0", ":2:43", "-1.42"),
    "huge": (TEXT.replace("1.42", "1e999"), "D008", "'1e999' is out of range: at most 1e18", ":2:43", "1e999"),
    "huge and whole": (TEXT.replace(",48,", ",1e30,"), "D008", "'1e30' is out of range: at most", ":2:5", "1e30"),
    "neither true nor false": (TEXT.replace("false", "maybe"), "D006", "true or false", ":2:35", "maybe"),
    "behind a quoted comma": (TEXT.replace("22b", '"22b, full"').replace("1.42", "x"), "D006", "'x'", ":2:51", "x"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_one_fault_of_a_row(name: str, tmp_path: Path) -> None:
    text, code, sentence, place, marked = UNREADABLE[name]
    *_, row = read_table(written(tmp_path, text)).rows
    (found,) = row.faults
    assert (found.code, sentence in found.sentence) == (code, True)
    assert found.place is not None
    assert str(found.place).removeprefix(str(tmp_path / "runs.csv")).startswith(place)
    start = found.place.column - 1
    assert found.place.text[start : start + found.place.width] == marked


def test_a_row_of_another_length_is_told_what_it_lacks(tmp_path: Path) -> None:
    _, short, longer = read_table(written(tmp_path, f"{TEXT}1,2\n{ROW},\n")).rows
    hints = [row.faults[0].hint.split()[0:3] for row in (short, longer)]
    assert hints == [["an", "empty", "cell"], ["put", "a", "cell"]]


def test_every_fault_is_told_at_once(tmp_path: Path) -> None:
    wrong = ROW.replace(",48,", ",x,").replace("false", "maybe")
    rows = read_table(written(tmp_path, f"{TEXT}{wrong}\n{wrong}\n")).rows
    assert [[fault.code for fault in row.faults] for row in rows] == [[], ["D006", "D006"], ["D006", "D006"]]
    renamed = TEXT.replace("hidden", "width").replace("heads", "tops")
    with pytest.raises(CostModelError) as caught:
        read_table(written(tmp_path, renamed))
    assert [fault.code for fault in caught.value.faults] == ["D004", "D004"]


@pytest.mark.parametrize("path", ["nowhere.csv", "."])
def test_a_table_that_is_not_there(path: str, run: Any, faults: Any, tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    (found,) = faults(run("validate", path if path != "." else "folder.csv", cwd=tmp_path))
    assert found.code == "D001"
