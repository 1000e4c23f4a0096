"""Answers of questions as documents, and as plain values for programs."""
