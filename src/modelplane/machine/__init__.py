"""The machine that the plane runs on, as a cluster: its GPUs, and processes in the place of containers."""
