"""Staging a ModelCache on a cluster: its source, its volume, the Job that fills it, and how far that is.

source      where the artifact comes from, in any of the accepted forms
storage     the volume that it is staged on
job         the Job that runs the loader
copies      the Secret and the ConfigMap that it reads
progress    what the loader said, by the Job and its pods
inputs      what staging reads beside the cache
site        one cluster, with what was observed there
relay       the cluster that fetches for the others
attempts    attempts that failed, and the next one
staging     one cluster: what is desired there, and its entry in the status
targets     which clusters
sharing     caches of one namespace with the same source
"""
