"""The product at the size of a fleet on a genuine control cluster: what it does, how often, and what it costs.

    fleet      the clusters and deployments of a stage
    provider   plays provider-kubernetes: a machine of two processors cannot run hundreds of workload clusters
    calls      the function server's own account of its calls, and which of them nothing but the clock asked for
    stages     grows the fleet step by step and measures each
    report     the page and the limits

Everything on the control cluster is genuine: etcd, API server, controllers, Crossplane with its package manager and
usages, and our function server in live mode. What is played is the far side of the Objects.
"""
