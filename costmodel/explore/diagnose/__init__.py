"""Why a step is slow: single causes that would explain a measured time, and how to tell them apart."""
