"""The endpoint picker: selects the serving pod of a request, as an external processor of Envoy."""
