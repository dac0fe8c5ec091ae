"""Loads an `EndpointPickerConfig`: fields, defaults, and plugin instances."""
