"""Which objects of a Kubernetes API are meant, and where they are."""

from urllib.parse import quote

import msgspec

from modelplane.api.definitions import definitions


class GroupVersionResource(msgspec.Struct, frozen=True):
    """Objects of one resource, in the terms of its path."""

    group: str
    """Empty for Kubernetes' oldest kinds."""
    version: str
    plural: str

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """Without a namespace: of the whole cluster."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        parts += ["namespaces", namespace] if namespace is not None else []
        parts += [self.plural] if name is None else [self.plural, name]
        return "/" + "/".join(quote(part, safe="") for part in parts)

    @property
    def kind(self) -> str:
        """As manifests spell it, where the kind is ours; else the plural."""
        own = (each.names for each in definitions().values() if each.group == self.group)
        return next((names.kind for names in own if names.plural == self.plural), self.plural)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural
