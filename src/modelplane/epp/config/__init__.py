"""`EndpointPickerConfig`: what it says, what it leaves to defaults, and the plugin instances that it comes to."""
