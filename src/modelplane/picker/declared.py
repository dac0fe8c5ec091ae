"""Plugin types that take no part in decisions: their parameters are checked, and whoever does the work reads them."""

from modelplane.picker.catalogue import declared_type

TYPES = (
    declared_type("openai-parser", "parser"),
    declared_type("anthropic-parser", "parser"),
    declared_type("vllmhttp-parser", "parser"),
    declared_type("sglanghttp-parser", "parser"),
    declared_type("passthrough-parser", "parser"),
)
