"""A scenario from the flags of the command line: the flags of each workload, and defaults for those left out."""
