"""The endpoint picker as a program: Envoy's external processing protocol in front of room `picker`."""
