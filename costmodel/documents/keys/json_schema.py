"""JSON Schemas of the documents, for editors: one file for hardware, one for scenarios.

They are generated, never edited; a test keeps them fresh; `costmodel schema KIND` prints one kind. To write them again:

    python -m costmodel.documents.keys.json_schema
"""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from costmodel.documents.reader.folders import FOLDER_OF
from costmodel.documents.reader.library import document_class
from costmodel.documents.schemas.rl import RL
from costmodel.documents.schemas.serving import SERVING

_DRAFT = "http://json-schema.org/draft-07/schema#"  # the newest that editors' YAML servers know whole
_CHECKOUT = Path(__file__).resolve().parents[3]


def schemas() -> dict[str, str]:
    """The text of every schema file, by its path from the root of a checkout."""
    tops = dict.fromkeys(folder.split("/")[0] for folder in FOLDER_OF.values())
    return {f"{top}/schema.json": _schema_text(top) for top in tops}


def models_of(kind: str) -> list[type[BaseModel]]:
    """The possible schema classes of a kind of document: scenarios and stacks exist for training, serving and rl."""
    return [document_class(kind), *(wing[kind] for wing in (SERVING, RL) if kind in wing)]


def schema_of(kind: str) -> dict[str, object]:
    """The JSON Schema of one kind of document, with all parts."""
    models = models_of(kind)
    title = {"$schema": _DRAFT, "title": f"costmodel: {kind}"}
    if len(models) == 1:
        return {"$schema": _DRAFT, **models[0].model_json_schema(by_alias=True, mode="validation"), **title}
    return {**title, **_one_of({kind: models})}


def _schema_text(top: str) -> str:
    kinds = {kind: models_of(kind) for kind, folder in FOLDER_OF.items() if folder.split("/")[0] == top}
    schema = {"$schema": _DRAFT, "title": f"costmodel: {', '.join(kinds)}", **_one_of(kinds)}
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _one_of(kinds: dict[str, list[type[BaseModel]]]) -> dict[str, object]:
    """A JSON Schema that accepts any of these kinds of documents; their key `schema` selects the kind."""
    models = [model for alike in kinds.values() for model in alike]
    wanted = [(model, "validation") for model in models]
    references, definitions = models_json_schema(wanted, by_alias=True)  # type: ignore[arg-type]
    links = {model: references[model, "validation"]["$ref"] for model in models}
    alone = {f"costmodel/{kind}/v1": links[alike[0]] for kind, alike in kinds.items() if len(alike) == 1}
    return {
        "type": "object",
        "required": ["schema"],
        "oneOf": [{"$ref": reference} for reference in links.values()],
        **({"discriminator": {"propertyName": "schema", "mapping": alone}} if len(alone) == len(kinds) else {}),
        "$defs": definitions["$defs"],
    }


def write(folder: Path = _CHECKOUT) -> None:
    """Write every schema file beneath a folder."""
    for name, text in schemas().items():
        (folder / name).write_text(text, "utf-8")


if __name__ == "__main__":
    write()
