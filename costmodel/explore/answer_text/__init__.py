"""Text of answers: what their labels mean, a plan in a line, and the choices of a plan in words."""
