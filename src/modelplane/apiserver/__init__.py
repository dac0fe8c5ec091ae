"""The embedded Kubernetes API, on loopback.

`app` authenticates requests, `handlers` dispatches on method and path, `reads`, `writes` and `watches` work on the
store, and `lifecycle` is the garbage collector. The other modules are pure: `paths`, `media`, `options` and `bodies`
parse a request; `objects` admits objects; `patches`, `typed`, `field_sets` and `managed_fields` compute changes and
field ownership; `selectors`, `tables`, `discovery`, `openapi` and `failures` make responses.

Compared with kube-apiserver 1.36.3 by kubectl 1.36 and the Python clients kubernetes, kr8s and lightkube. Differences:

    messages            problems that admission finds have its own messages, with the same reasons and fields; each
                        problem is reported once, where the real server may report it twice
    400 instead of 500  for invalid requests: a resourceVersion in a create, an applied field that is not in the schema,
                        a resourceVersion that is not a number
    JSON only           responses are JSON; bodies are JSON, YAML, or protobuf for the kinds that kubectl writes so
    authorization       the token allows everything, and SelfSubjectAccessReviews return allowed
    kinds               Namespaces, Secrets, ConfigMaps and Events besides Modelplane's; objects that the plane composes
                        for its gateway are read-only. `kubectl cluster-info` lists Services, and fails
    watches             a resourceVersion from before a restart is expired; one from the future too
    managedFields       writes of the plane's own controllers have no manager until a client applies
    namespaces          objects that the plane itself writes need no Namespace object
    Events              keep the fields that their writer gave; absent ones are not defaulted
"""
