"""Context parallelism: constraints and traffic."""
