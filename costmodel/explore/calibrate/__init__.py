"""Constants fitted to measured kernels and runs."""
