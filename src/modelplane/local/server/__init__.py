"""The plane's API on loopback, on the paths and in the words of Kubernetes."""
