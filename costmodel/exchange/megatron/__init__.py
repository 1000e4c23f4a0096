"""Options of Megatron-LM, in a shell script, in YAML, or among the arguments that the program prints in its log."""
