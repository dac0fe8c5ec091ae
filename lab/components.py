"""What the lab is made of: one row a program, pinned by version and by checksum.

Two checksums guard a build. ``checksum`` is the module's own, as the Go checksum database knows it; the download is
refused when it differs. `pins` holds digests of the list of every module with its checksum that the linker wrote into
the finished program, so a dependency that moved shows even where the module's own files did not.

A program is built in one of two ways. A module whose archive carries a usable ``go.sum`` is built in place
(``Recipe.IN_PLACE``): it is the main module then, and its own ``replace`` lines hold. Modules whose ``replace`` lines
point at folders that the archive lacks need a wrapper module around them (``Recipe.WRAPPER``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path


class Recipe(Enum):
    """How Go is told what the main module is."""

    IN_PLACE = "in place"
    WRAPPER = "wrapper"


class Set(Enum):
    """Which components a lab needs: the core set always, the others by option."""

    CORE = "core"
    PICKER = "picker"
    KAI = "kai"
    KUEUE = "kueue"
    VOLCANO = "volcano"
    GATEWAY = "gateway"
    CHARTS = "charts"
    KSERVE = "kserve"
    HELM = "helm"
    AI_GATEWAY = "ai-gateway"


@dataclass(frozen=True, slots=True)
class Module:
    """A published module, and what a wrapper around it has to say.

    ``replaces`` are (module, version) pairs; ``staging`` is the version that stands for every ``k8s.io`` module that
    the module's own ``go.mod`` requires at v0.0.0.
    """

    path: str
    version: str
    checksum: str
    recipe: Recipe = Recipe.IN_PLACE
    replaces: tuple[tuple[str, str], ...] = ()
    staging: str = ""


@dataclass(frozen=True, slots=True)
class Component:
    """One program. ``package`` is relative to the module; ``main`` is a source for modules without a main package."""

    name: str
    module: Module
    package: str
    set: Set = Set.CORE
    flags: tuple[str, ...] = ()
    main: str = ""


ETCD = Module("go.etcd.io/etcd/server/v3", "v3.6.16", "h1:sLkpvz3RFtiNd/yPrZBKz5kT+XO1ZJkhmuUJeqc7OmA=", Recipe.WRAPPER)
KUBERNETES = Module(
    "k8s.io/kubernetes", "v1.36.3", "h1:qDQdoMiluAE2Eab6Fa52YV+WjiGz9mZFFoagEA6cI+o=", Recipe.WRAPPER, staging="v0.36.3"
)
KWOK = Module("sigs.k8s.io/kwok", "v0.8.0", "h1:OTIOTwgROqPMovcTwxICx2eYQ4AwLpSx5EpjbDKF4SQ=")
LWS = Module("sigs.k8s.io/lws", "v0.9.0", "h1:DcJCgxjjoGOx//QHZkeKpyiblxYq70aCRZNYSfykWyI=")
CROSSPLANE = Module(
    "github.com/crossplane/crossplane/v2",
    "v2.4.0",
    "h1:atHTxD+8jOOiM1Xf6UMlyZqPYMedRVDSGU10Znt4KR8=",
    Recipe.WRAPPER,
    replaces=(("github.com/crossplane/crossplane/apis/v2", "v2.4.0"),),
)
PROVIDER_KUBERNETES = Module(
    "github.com/crossplane-contrib/provider-kubernetes", "v1.2.1", "h1:f9kHENnT2uhCbQl4Y0YzqPJX0ap9++9k5E1LMNp3Y6g="
)
PROVIDER_HELM = Module(
    "github.com/crossplane-contrib/provider-helm", "v1.3.0", "h1:kPiTSthiWamDABkWYi/BxGQ4mY3Fp6xGG24UL0jLTk4="
)
INFERENCE_EXTENSION = Module(
    "sigs.k8s.io/gateway-api-inference-extension", "v1.5.0", "h1:w9Awt60cmI1vM7Y6N81h8wDCBP0WkmxpdI7GKY0v070="
)
GATEWAY_API = Module("sigs.k8s.io/gateway-api", "v1.6.0", "h1:735YBRj5NXFrOGX0GoSjwzUIzbz8kiEOfADsqHFmHgE=")
KAI = Module("github.com/NVIDIA/KAI-scheduler", "v0.12.0", "h1:3rhB0TdbJYNgOiZ6E0cAa+VJnr4srhoigJI/PkY85vI=")
KUEUE = Module("sigs.k8s.io/kueue", "v0.19.0", "h1:5yCu85qsJhvUVVxE0Csw546DDBcRwUXpBEOmEFlws34=")
VOLCANO = Module(
    "volcano.sh/volcano",
    "v1.14.1",
    "h1:9eLs47iZeLgey6EcA1rHwVkU7HoBNm3UVpJZ4uhFJ7c=",
    Recipe.WRAPPER,
    replaces=(("volcano.sh/apis", "v1.14.0"),),
)
ENVOY_GATEWAY = Module("github.com/envoyproxy/gateway", "v1.9.1", "h1:vAVp6/AlBXJ1aOhp1mxL7fNEzVEfjADUguUhm2wzxQY=")
AI_GATEWAY = Module("github.com/envoyproxy/ai-gateway", "v1.0.0", "h1:cTdSnQmtQQ2Ea5T/LLK50pIthG2SJAOxU9XPXZbtDkU=")
CERT_MANAGER = Module(
    "github.com/cert-manager/cert-manager",
    "v1.20.2",
    "h1:CimnY00nLqB2lmxhoSuEC4GDMFDK7JCXqyjwMM9ndIQ=",
    Recipe.WRAPPER,
)
HELM = Module("helm.sh/helm/v4", "v4.3.1", "h1:UndCoLe9UPmNoL7IvWzaUXveL7T5t/ijoorEmgJdI9g=")
KSERVE = Module("github.com/kserve/kserve", "v0.20.0", "h1:Bs7HxmGV4KFqqptDcWseKv+mwD4YOYHJWcuVgPG2Gug=")
# Its definitions; the module of its operator is refused in every version.
GROVE = Module(
    "github.com/ai-dynamo/grove/operator/api", "v0.1.0-alpha.6", "h1:6xspRy93dVsGzwiRebNUhrEnamXUtAGvt5tP50uxkOA="
)

_ETCD_MAIN = """package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
"""
_CERT_MANAGER_MAIN = (Path(__file__).parent / "programs" / "cert_manager.go").read_text()
_CHARTS_MAIN = (Path(__file__).parent / "programs" / "charts.go").read_text()
_KUBERNETES_FLAGS = (
    "-X k8s.io/component-base/version.gitVersion=v1.36.3",
    "-X k8s.io/component-base/version.gitMajor=1",
    "-X k8s.io/component-base/version.gitMinor=36",
)
_NO_METRICS = "-X sigs.k8s.io/controller-runtime/pkg/metrics/server.DefaultBindAddress=0"


def _kubernetes(name: str) -> Component:
    return Component(name, KUBERNETES, f"cmd/{name}", flags=_KUBERNETES_FLAGS)


COMPONENTS = (
    Component("etcd", ETCD, "", main=_ETCD_MAIN),
    _kubernetes("kube-apiserver"),
    _kubernetes("kube-controller-manager"),
    _kubernetes("kube-scheduler"),
    _kubernetes("kubectl"),
    Component("kwok", KWOK, "cmd/kwok"),
    Component("lws", LWS, "cmd"),
    Component(
        "crossplane",
        CROSSPLANE,
        "cmd/crossplane",
        # Without its version Crossplane refuses every package that asks for a range of versions.
        flags=("-X github.com/crossplane/crossplane-runtime/v2/pkg/version.version=v2.4.0",),
    ),
    Component("provider-kubernetes", PROVIDER_KUBERNETES, "cmd/provider"),
    Component("epp", INFERENCE_EXTENSION, "cmd/epp", Set.PICKER),
    Component("kai-scheduler", KAI, "cmd/scheduler", Set.KAI),
    Component("kai-binder", KAI, "cmd/binder", Set.KAI),
    Component("kai-podgrouper", KAI, "cmd/podgrouper", Set.KAI),
    # It has a flag for the port of its metrics and ignores it; the default is another program's here.
    Component("kai-podgroupcontroller", KAI, "cmd/podgroupcontroller", Set.KAI, flags=(_NO_METRICS,)),
    Component("kai-queuecontroller", KAI, "cmd/queuecontroller", Set.KAI),
    Component("kueue", KUEUE, "cmd/kueue", Set.KUEUE),
    Component("vc-scheduler", VOLCANO, "cmd/scheduler", Set.VOLCANO),
    Component("vc-controller-manager", VOLCANO, "cmd/controller-manager", Set.VOLCANO),
    Component("envoy-gateway", ENVOY_GATEWAY, "cmd/envoy-gateway", Set.GATEWAY),
    Component("cert-manager", CERT_MANAGER, "", Set.GATEWAY, main=_CERT_MANAGER_MAIN),
    # It has no flag for its metrics port, which is that of provider-kubernetes.
    Component("provider-helm", PROVIDER_HELM, "cmd/provider", Set.CHARTS, flags=(_NO_METRICS,)),
    # Helm's library as the provider has it.
    Component("charts", replace(PROVIDER_HELM, recipe=Recipe.WRAPPER), "", Set.CHARTS, main=_CHARTS_MAIN),
    Component("llmisvc", KSERVE, "cmd/llmisvc", Set.KSERVE),
    Component("helm", HELM, "cmd/helm", Set.HELM),
    Component("ai-gateway", AI_GATEWAY, "cmd/controller", Set.AI_GATEWAY),
)
# Modules that are read for their manifests alone.
SOURCES = (
    GATEWAY_API,
    INFERENCE_EXTENSION,
    ENVOY_GATEWAY,
    AI_GATEWAY,
    CERT_MANAGER,
    KAI,
    KUEUE,
    VOLCANO,
    KSERVE,
    GROVE,
)
