"""gRPC for external processing: HTTP/2, TLS, and the one interface that servers share."""
