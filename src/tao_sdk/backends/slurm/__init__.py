"""The SLURM backend: jobs of a cluster, reached over SSH."""
