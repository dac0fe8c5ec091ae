"""Admission as in an API server: documents, schema, defaults, rules, references."""
