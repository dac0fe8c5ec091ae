"""The catalogue: GPUs as their drivers publish them, and the nodes that clouds rent, as InferenceClasses.

products.yaml    GPUs: attributes and memory, with their source
machines.yaml    nodes: product, count, CPU and memory, network, price with its date
machines.py      both, read and checked
classes.py       the InferenceClass of a node
"""

from modelplane.catalog.classes import inference_class
from modelplane.catalog.machines import Catalog, GpuProduct, Machine, load_catalog

__all__ = ["Catalog", "GpuProduct", "Machine", "inference_class", "load_catalog"]
