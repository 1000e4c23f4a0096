"""Pipeline parallelism: layer split, schedules, ranks and traffic."""
