"""Configurations of programs that start a training: each file a layer of facts, several of them one scenario."""
