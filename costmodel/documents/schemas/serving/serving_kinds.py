"""What documents of serving are checked against, by the kind that they share with those of training."""

from pydantic import BaseModel

from costmodel.documents.schemas.serving.engine import Engine
from costmodel.documents.schemas.serving.serving_schema import ServingScenario

SERVING: dict[str, type[BaseModel]] = {"scenario": ServingScenario, "stack": Engine}
