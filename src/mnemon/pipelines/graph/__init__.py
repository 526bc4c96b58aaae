"""The temporal graph: told by the archive, asked by everybody else."""
