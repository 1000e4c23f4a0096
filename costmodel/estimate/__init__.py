"""Documents and equations married, for one block of plans."""
