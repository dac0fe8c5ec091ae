"""The plane's API on loopback, on the paths and in the words of Kubernetes.

Where things are: `app` lets requests in, `handlers` says what a method on a path means, `reads`, `writes` and `watches`
do it on the store, and `lifecycle` follows up on deletions. All else is pure: `paths`, `media`, `options` and `bodies`
read a request; `objects` admits what is written; `patches`, `typed`, `field_sets` and `managed_fields` work out changes
and who owns them; `selectors`, `tables`, `discovery`, `openapi` and `failures` shape answers.

Measured against kube-apiserver 1.36.3 with kubectl 1.36 and the Python clients kubernetes, kr8s and lightkube. What is
different, and why:

    sentences           what admission finds wrong is said in its own words, under the same reasons and fields; each
                        thing once, where the real server may say it twice
    400 instead of 500  for requests that are wrong: a resourceVersion in a create, an applied field that is not in the
                        schema, a resourceVersion that is no number
    JSON only           answers are JSON; bodies may be JSON, YAML, or binary for the kinds that kubectl writes so
    authorization       whoever has the token may do everything; reviews say so
    kinds               Namespaces, Secrets, ConfigMaps and Events besides ours; what the plane composes for its gateway
                        can be read only. `kubectl cluster-info` asks for Services, and fails
    watches             a revision from before a restart is expired; one from the future is as well
    ownership           what the plane's own controllers write has no owner until somebody applies
    namespaces          objects that the plane itself writes need no Namespace object
    Events              keep the fields that their writer gave; absent ones are not filled in
"""
