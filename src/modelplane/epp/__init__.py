"""The endpoint picker: which serving pod answers a request, as an external processor of Envoy."""
