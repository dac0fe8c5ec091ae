"""Profile handlers: which profiles run for a request, and what their results mean. None imports another."""
