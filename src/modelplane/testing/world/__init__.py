"""A whole fleet in one thread, one seed and virtual time, with faults; see `run`."""
