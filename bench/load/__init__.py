"""What benchmarks behind a real Envoy are made of: proxies, endpoints, pickers, clients, and the kernel's accounts."""
