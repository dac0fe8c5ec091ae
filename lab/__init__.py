"""Genuine components as plain processes on one machine: what the product is proved against.

Top to bottom; each may import what is below it:

    __main__                                          the commands
    e2e | oracles, sessions | scenario                steps and comparisons inside a lab that is up, their report
    daemon | launch                                   the process that is the lab; starting, asking and ending it
    install, control, workload | gateway, engines     what runs on which cluster; what the lab plays itself
    cluster, fleet, hardware, registry, manifests     the parts of those
    supervisor, namespace, client, certificates       processes, isolation, an API, keys
    build, components, pins, places                   the programs, from published modules
"""
