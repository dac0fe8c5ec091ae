"""A gateway whose callers have keys, for tests of what is counted for each of them."""

CALLER_KEYS = """
apiVersion: v1
kind: Secret
metadata: {name: keys, namespace: modelplane-system, labels: {keys: all}}
stringData: {ada: key-a}
---
apiVersion: modelplane.ai/v1alpha1
kind: InferenceGateway
metadata: {name: default}
spec:
  auth: {method: APIKey, apiKey: {secretSelector: {matchLabels: {keys: all}}}}
"""
