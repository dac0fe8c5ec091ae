"""The exception tree, drawn once.

    ModelplaneError            anything a user can cause; str() is one sentence that names the field or the place
    ├── InputError             a document, flag or value is wrong; nothing was changed
    │   ├── DocumentError      text that is not acceptable YAML or JSON, with its place
    │   └── InvalidObject      a manifest that breaks its schema or its rules
    ├── ConflictError          the object changed since it was read; read again and retry
    ├── NotFoundError          the named thing does not exist
    └── UnavailableError       something outside did not answer in time; retrying may help

"Does not fit" is never an exception: it is a value with a reason. Anything outside this tree is a defect of ours.
"""


class ModelplaneError(Exception):
    """A failure with a cause the user can see and mend."""


class InputError(ModelplaneError):
    """A document, flag or value is wrong; nothing was changed."""


class DocumentError(InputError):
    """Text that is not acceptable YAML or JSON."""


class InvalidObject(InputError):  # noqa: N818  the tree reads as Kubernetes' own reason, Invalid
    """A manifest that breaks its schema or its rules."""


class ConflictError(ModelplaneError):
    """The object changed since it was read."""


class NotFoundError(ModelplaneError):
    """The named thing does not exist."""


class UnavailableError(ModelplaneError):
    """Something outside did not answer in time."""
