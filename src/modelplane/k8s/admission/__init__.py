"""What an API server does with a manifest: documents, schema, defaults, rules, references."""
