"""Programs that bring up the nodes of one engine, where a flag alone cannot.

Each is a constant that the image's own Python runs. What users wrote reaches it as arguments, never as program text,
and no shell is involved. They wait for the leader for a bounded time; the pod is restarted when that was not enough.
"""

PYTHON = ("python3", "-c")

_LEADER = """\
import os, socket, subprocess, sys, time

def wait_for(reached):
    for _ in range(900):
        try:
            return reached()
        except OSError:
            time.sleep(2)
    sys.exit("modelplane: the leader did not answer within 30 minutes")

leader = os.environ["MODELPLANE_LEADER_ADDRESS"]
rank = int(os.environ["MODELPLANE_RANK"])
"""

VLLM_DATA_PARALLEL = (
    _LEADER
    + """\
local = int(sys.argv[1])
address = wait_for(lambda: socket.gethostbyname(leader))
own = [] if rank == 0 else ["--headless", "--data-parallel-start-rank", str(rank * local)]
os.execvp("vllm", ["vllm", "serve", *sys.argv[2:], "--data-parallel-address", address, *own])
"""
)
"""Every node must know the first rank that it holds, and the leader by its IP: neither is a constant of the pod."""

RAY_PORT = 6379

VLLM_RAY_LEADER = (
    _LEADER
    + f"""\
subprocess.run(["ray", "start", "--head", "--port={RAY_PORT}", "--disable-usage-stats"], check=True)
import ray
ray.init(address="auto")
size = int(os.environ["MODELPLANE_GROUP_SIZE"])

def joined():
    if sum(node["Alive"] for node in ray.nodes()) < size:
        raise OSError
wait_for(joined)
ray.shutdown()
os.execvp("vllm", ["vllm", "serve", *sys.argv[1:], "--distributed-executor-backend", "ray"])
"""
)

RAY_WORKER = (
    _LEADER
    + f"""\
wait_for(lambda: socket.create_connection((leader, {RAY_PORT}), timeout=5).close())
os.execvp("ray", ["ray", "start", f"--address={{leader}}:{RAY_PORT}", "--disable-usage-stats", "--block"])
"""
)
"""A worker that started before its leader would fail and take the whole gang with it: it waits instead."""
