"""The Memory Service: the same memory for programs that are somewhere else."""
