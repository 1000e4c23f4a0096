"""What a plan makes of a model: layers of a stage, cuts of a layer, work of a step."""
