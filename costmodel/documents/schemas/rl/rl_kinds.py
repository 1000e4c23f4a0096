"""What documents of reinforcement learning are checked against, by the kind that they share with the others."""

from pydantic import BaseModel

from costmodel.documents.schemas.rl.rl_schema import RlScenario, RlStack

RL: dict[str, type[BaseModel]] = {"scenario": RlScenario, "stack": RlStack}
