"""Expert parallelism: constraints, time and traffic."""
