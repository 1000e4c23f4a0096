"""Documents of serving: the workload, engines as stacks, plans, limits, and a scenario with all that it names."""
