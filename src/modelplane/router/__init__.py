"""The fleet router: an ext_proc server that decides, at the front door, which endpoint of a service gets a request."""
