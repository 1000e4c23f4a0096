"""The pydantic models of the documents: hardware, models, stacks, scenarios, results."""
