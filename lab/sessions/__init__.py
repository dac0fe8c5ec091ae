"""Scripted sessions of the clients that people use, run against a real API server and against the embedded one.

Each module is a program: `python -m lab.sessions.NAME KUBECONFIG` prints one line of JSON for each step, its name and
what came of it, with everything that differs between two runs on one server taken out.
"""
