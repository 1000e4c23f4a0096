"""Times the kernels of a GPU with PyTorch."""
