"""Logs of training programs: steps as they were measured."""
