"""CSV tables of measurements: training runs, serving runs, kernels, and the output of nccl-tests."""
