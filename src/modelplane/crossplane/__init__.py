"""The composition function server that Crossplane calls: the same core as the embedded plane, in production."""
