"""Foundations without domain knowledge: units, errors, the trace of equations, shared columns, solvers."""
