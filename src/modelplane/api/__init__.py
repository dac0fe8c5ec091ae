"""The API: generated models, names, labels, conditions, reasons and errors."""
