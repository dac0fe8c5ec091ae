"""Values for a JSON schema: most of them as it says, some of them not."""

from hypothesis import strategies as st

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
TEXTS = st.text(max_size=12) | st.sampled_from(
    ["a", "chat", "x" * 64, "https://api.example.com", "80Gi", "{{ .Name }}", "\u0000"]
)
_MAX_DEPTH = 6


def values(schema, components, depth=0):
    """A strategy of values for a schema, which may refer to components by name."""
    schema = _resolved(schema, components)
    if depth > _MAX_DEPTH:
        return ANY
    found = _of_type(schema, components, depth)
    return st.one_of(found, found, found, ANY) if depth else found


def _resolved(schema, components):
    while "$ref" in schema or len(schema.get("allOf", ())) == 1:
        schema = schema["allOf"][0] if "$ref" not in schema else components[schema["$ref"].rpartition("/")[2]]
    return schema


def _of_type(schema, components, depth):
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "object":
            return _objects(schema, components, depth)
        case "array":
            return st.lists(values(schema.get("items", {}), components, depth + 1), max_size=3)
        case "integer" | "number":
            return st.integers(schema.get("minimum", -5), schema.get("maximum", 2**31)) | st.integers()
        case "boolean":
            return st.booleans()
        case "string":
            return TEXTS
    return ANY


def _objects(schema, components, depth):
    named = {name: values(each, components, depth + 1) for name, each in schema.get("properties", {}).items()}
    required = {name: named[name] for name in schema.get("required", ()) if name in named}
    optional = {name: each for name, each in named.items() if name not in required}
    fixed = st.fixed_dictionaries(required, optional=optional)
    more = schema.get("additionalProperties")
    if not isinstance(more, dict):
        return fixed
    return st.dictionaries(TEXTS, values(more, components, depth + 1), max_size=3)
