"""Random expressions against Google's own C++ implementation, within the language the two share.

Known differences, kept out of the grammar or mended here: that implementation has no cross-type ordering and no
Kubernetes libraries, lets literals mix types, does not convert constants while compiling, computes `x` in `x in []`,
reads a missing domain as an error, and mistakes a variable of `cel.bind` for a loop variable unless the unused one is
renamed. Attributes are `dyn` there, so they are here.
"""

import os
import random
from collections import Counter

import pytest

from modelplane.k8s.cel import CompileError, Gates, SelectorOutcome, compile_selector
from modelplane.k8s.device import Device

cel = pytest.importorskip("cel_expr_python.cel")

# A larger count is for the command line: the default has to fit into the time of a unit test.
_COUNT = int(os.environ.get("MODELPLANE_CEL_ORACLE_COUNT", "400"))
_DOMAIN = "dra.example.com"
_WRITTEN = {
    "attributes": {
        "on": {"bool": True},
        "off": {"bool": False},
        "count": {"int": 3},
        "below": {"int": -7},
        "name": {"string": "abc"},
        "empty": {"string": ""},
        "other.com/size": {"int": 42},
    }
}
_ATTRIBUTES = {
    _DOMAIN: {"on": True, "off": False, "count": 3, "below": -7, "name": "abc", "empty": ""},
    "other.com": {"size": 42},
}
_TEXTS = ('""', '"a"', '"abc"', '"é日"', '"a,b"', "'x'", '"ABC"')


class _Grammar:
    """Writes expressions by type; one in thirty parts is of a type that does not belong there."""

    def __init__(self, seed):
        self.source = random.Random(seed)  # noqa: S311  reproducible, not secret
        self.names = 0

    def write(self, kind, depth, scope=()):
        if self.source.random() < 1 / 30:
            kind = self.source.choice(("bool", "int", "text", "texts", "ints"))
        names = [name for name, found in scope if found == kind]
        if names and self.source.random() < 0.3:
            return self.source.choice(names)
        options = self.leaves(kind) if depth <= 0 else self.leaves(kind) + self.compounds(kind) * 3
        return self.filled(self.source.choice(options), depth, scope)

    def filled(self, template, depth, scope):
        """The template with its holes filled: a kind, or a kind and a variable that the part may use."""
        while "<§" in template:
            start = template.index("<§")
            end = template.index("§>", start)
            kind, _, variable = template[start + 2 : end].partition(":")
            inner = (*scope, tuple(variable.split("="))) if variable else scope
            template = template[:start] + self.write(kind, depth - 1, inner) + template[end + 2 :]
        return template

    def attribute(self):
        return self.source.choice(
            (
                f'device.attributes["{_DOMAIN}"].{self.source.choice(list(_ATTRIBUTES[_DOMAIN]))}',
                'device.attributes["other.com"].size',
                f'device.attributes["{_DOMAIN}"].missing',
            )
        )

    def leaves(self, kind):
        literals = {
            "bool": ["true", "false", f'has(device.attributes["{_DOMAIN}"].name)', f'"{_DOMAIN}" in device.attributes'],
            "int": ["0", "1", "-3", "7", "9223372036854775807"],
            "text": [*_TEXTS, "device.driver"],
            "texts": ['["a", "b"]', '["abc"]', '["a"].filter(e, false)'],
            "ints": ["[1, 2, 3]", "[0]", "[1].filter(e, false)"],
        }[kind]
        return literals if kind in {"texts", "ints"} else [*literals, self.attribute()]

    def compounds(self, kind):
        self.names += 1
        name = f"v{self.names}"
        common = [
            f"(<§bool§> ? <§{kind}§> : <§{kind}§>)",
            f"cel.bind({name}, <§text§>, <§{kind}:{name}=text§>)",
            f"cel.bind({name}, <§int§>, <§{kind}:{name}=int§>)",
        ]
        return (
            common
            + {
                "bool": [
                    *("(<§bool§> && <§bool§>)", "(<§bool§> || <§bool§>)", "!(<§bool§>)"),
                    *("(<§int§> == <§int§>)", "(<§int§> < <§int§>)", "(<§int§> >= <§int§>)", "(<§int§> != <§int§>)"),
                    *("(<§text§> == <§text§>)", "(<§text§> < <§text§>)", "(<§text§> != <§text§>)"),
                    *("<§text§>.contains(<§text§>)", "<§text§>.startsWith(<§text§>)", "<§text§>.endsWith(<§text§>)"),
                    *("<§text§>.matches('^[a-c]+$')", "(<§text§> in <§texts§>)", "(<§int§> in <§ints§>)"),
                    *("(<§ints§> == <§ints§>)", "(dyn(<§int§>) == dyn(<§text§>))", "(dyn(<§bool§>) == dyn(<§int§>))"),
                    f"<§ints§>.all({name}, <§bool:{name}=int§>)",
                    f"<§ints§>.exists({name}, <§bool:{name}=int§>)",
                    f"<§texts§>.exists_one({name}, <§bool:{name}=text§>)",
                    f'device.attributes["{_DOMAIN}"].?name.hasValue()',
                ],
                "int": [
                    *("(<§int§> + <§int§>)", "(<§int§> - <§int§>)", "(<§int§> * <§int§>)", "(<§int§> / <§int§>)"),
                    *("(<§int§> % <§int§>)", "-(<§int§>)", "size(<§text§>)", "<§texts§>.size()", "<§ints§>[<§int§>]"),
                    *("(<§text§> + '').indexOf(<§text§>)", f'device.attributes["{_DOMAIN}"].?count.orValue(<§int§>)'),
                ],
                "text": [
                    *("(<§text§> + <§text§>)", "<§text§>.lowerAscii()", "<§text§>.upperAscii()", "<§text§>.trim()"),
                    *(
                        "<§text§>.replace(<§text§>, <§text§>)",
                        "<§text§>.substring(<§int§>)",
                        "<§text§>.charAt(<§int§>)",
                    ),
                    *("<§texts§>[<§int§>]", "<§texts§>.join(<§text§>)"),
                ],
                "texts": [
                    *("<§text§>.split(<§text§>)", "(<§texts§> + <§texts§>)"),
                    *(
                        f"<§texts§>.map({name}, <§text:{name}=text§>)",
                        f"<§texts§>.filter({name}, <§bool:{name}=text§>)",
                    ),
                ],
                "ints": [
                    f"<§ints§>.map({name}, <§int:{name}=int§>)",
                    f"<§ints§>.filter({name}, <§bool:{name}=int§>)",
                    "(<§ints§> + <§ints§>)",
                ],
            }[kind]
        )


def _environment():
    from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

    kinds = cel.Type
    variables = {
        "device.driver": kinds.STRING,
        "device.attributes": kinds.Map(kinds.STRING, kinds.Map(kinds.STRING, kinds.DYN)),
    }
    extensions = [ext_bindings.ExtBindings(), ext_optional.ExtOptional(), ext_strings.ExtStrings()]
    return cel.NewEnv(variables=variables, extensions=extensions)


def _theirs(environment, text):
    try:
        expression = environment.compile(text)
    except RuntimeError:
        return "compile_error"
    expression = environment.deserialize(expression.serialize().replace(b"#unused", b"@unused"))
    result = expression.eval(data={"device.driver": _DOMAIN, "device.attributes": _ATTRIBUTES})
    value = result.value()
    return str(value).lower() if isinstance(value, bool) else "error"


def _ours(device, text):
    try:
        evaluation = compile_selector(text, stored=True, gates=Gates(list_attributes=True)).trace(device)[0]
    except CompileError:
        return "compile_error"
    return {SelectorOutcome.TRUE: "true", SelectorOutcome.FALSE: "false", SelectorOutcome.ERROR: "error"}[
        evaluation.outcome
    ]


def test_random_expressions_agree():
    grammar, environment = _Grammar(20_260_727), _environment()
    device = Device.from_dict(_DOMAIN, _WRITTEN)
    outcomes, disagreements = Counter(), []
    for _ in range(_COUNT):
        text = f"({grammar.write('bool', grammar.source.randrange(1, 5))}) == true"
        ours, theirs = _ours(device, text), _theirs(environment, text)
        outcomes[ours] += 1
        if ours != theirs:
            disagreements.append((text, ours, theirs))
    assert disagreements == []
    assert min(outcomes.values()) > _COUNT // 20
