"""Shared by the tests of CEL: running an expression without data, and writing random ones.

Random expressions are made by type from the libraries' own signatures, so that most of them compile.
"""

import math
import random
from dataclasses import dataclass, field

import pytest

from modelplane.k8s.cel import CompileError
from modelplane.k8s.cel import types as t
from modelplane.k8s.cel.attributes import Activation
from modelplane.k8s.cel.compiler import checked_tree, planned
from modelplane.k8s.cel.declarations import Overload
from modelplane.k8s.cel.environment import Environment
from modelplane.k8s.cel.errors import EvaluationAborted, EvaluationError
from modelplane.k8s.cel.evaluator import Planner
from modelplane.k8s.cel.library.catalogue import base_functions
from modelplane.k8s.cel.library.conversion import plain, shortest
from modelplane.k8s.cel.library.network import CIDR
from modelplane.k8s.cel.library.texts import quoted
from modelplane.k8s.cel.library.timestamps import duration_text, timestamp_text
from modelplane.k8s.cel.types import CelType, TypeKind
from modelplane.k8s.cel.values import NONE, CelDuration, Optional, Timestamp, Uint, is_list, is_map, map_items

DOMAIN = "dra.example.com"
SCALARS = (t.BOOL, t.INT, t.UINT, t.DOUBLE, t.STRING, t.BYTES, t.DURATION, t.TIMESTAMP)
OTHERS = (t.QUANTITY, t.SEMVER, t.URL, t.IP, t.CIDR, t.FORMAT)
_BINARY = {"_==_": "==", "_!=_": "!=", "_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">=", "@in": "in"} | {
    "_+_": "+",
    "_-_": "-",
    "_*_": "*",
    "_/_": "/",
    "_%_": "%",
    "_&&_": "&&",
    "_||_": "||",
}
_SPELLINGS = {name: f"({{0}} {sign} {{1}})" for name, sign in _BINARY.items()} | {
    "_?_:_": "({0} ? {1} : {2})",
    "!_": "!({0})",
    "-_": "-({0})",
    "_[_]": "{0}[{1}]",
    "_[?_]": "{0}[?{1}]",
    "_?._": "{0}.?{field}",
}
_ATTRIBUTES = ("b", "f", "i", "n", "s", "e", "v", "num", "missing")
_CAPACITIES = ("q", "z", "big", "m", "missing")
_LITERALS: dict[CelType, tuple[str, ...]] = {
    t.BOOL: ("true", "false"),
    t.INT: ("0", "1", "-1", "2", "3", "7", "-7", "42", "9223372036854775807", "-9223372036854775808", "0x10"),
    t.UINT: ("0u", "1u", "3u", "18446744073709551615u"),
    t.DOUBLE: ("0.0", "1.0", "-1.5", "3.0", "2.5e3", "1e300", "-0.0", "0.1"),
    t.STRING: (
        *('""', '"a"', '"abc"', "'b'", '"é日本"', 'r"a\\d"', '"42"', '"-1.5"', '"true"', '"a,b,c"', '"  x\\t"'),
        *('"1.2.3"', '"4Gi"', '"1h30m"', '"2020-02-29T12:00:00Z"', '"http://user@h.com:80/p%20a?q=1&q=2#f"'),
        *('"10.0.0.1"', '"10.0.0.0/8"', '"::1"', '"fe80::/10"', '"(a|b)+c?"', '"dns1123Label"', '"%s-%d"'),
    ),
    t.BYTES: ('b""', 'b"abc"', 'b"\\xff"', "b'é'"),
    t.DURATION: ('duration("1s")', 'duration("-2h3m")', 'duration("0.001s")', 'duration("2562047h")'),
    t.TIMESTAMP: (
        'timestamp("2020-02-29T12:34:56.789Z")',
        'timestamp("1969-12-31T23:59:59+02:00")',
        'timestamp("9999-12-31T23:59:59Z")',
        "timestamp(0)",
    ),
    t.QUANTITY: ('quantity("4Gi")', 'quantity("1500m")', 'quantity("100Pi")', 'quantity("0")', 'quantity("-1k")'),
    t.SEMVER: (
        'semver("1.2.3")',
        'semver("1.2.3-rc.1+b")',
        'semver("v1.2", true)',
        'semver("0.0.18446744073709551615")',
    ),
    t.URL: ('url("https://example.com:8080/a/b?x=1&y=a%20b#frag")', 'url("http://[::1]:1/")', 'url("/p?")'),
    t.IP: ('ip("10.0.0.1")', 'ip("::1")', 'ip("fe80::1")', 'ip("224.0.0.1")', 'ip("0.0.0.0")'),
    t.CIDR: ('cidr("10.0.0.0/8")', 'cidr("10.1.2.3/16")', 'cidr("fe80::/10")', 'cidr("::/0")'),
    t.FORMAT: ("format.dns1123Label()", "format.uri()", "format.date()", 'format.named("uuid").value()'),
}


@dataclass
class Writer:
    """Writes expressions of a wanted type; `wildness` is how often it forgets about types."""

    source: random.Random
    wildness: float = 0.03
    domains: tuple[str, ...] = (DOMAIN, "other.com", "nope.com")
    templates: dict[CelType, list[Overload]] = field(default_factory=dict)
    _names: int = 0

    def __post_init__(self) -> None:
        for function in base_functions().values():
            for overload in function.overloads:
                if not overload.id.startswith(("authorizer", "groupcheck", "resourcecheck", "pathcheck", "decision")):
                    self.templates.setdefault(_head(overload.result), []).append(overload)

    def expression(self, wanted: CelType, depth: int, scope: dict[str, CelType] | None = None) -> str:
        """Text of the wanted type, most of the time."""
        scope = scope or {}
        if self.source.random() < self.wildness:
            wanted = self.some_type(1)
        if self.source.random() < self.wildness:
            return f"dyn({self.expression(self.some_type(1), depth - 1, scope)})"
        if depth <= 0 or self.source.random() < 0.15:
            return self.leaf(wanted, scope)
        choice = self.source.random()
        if choice < 0.25:
            return self.special(wanted, depth, scope)
        return self.call(wanted, depth, scope)

    def some_type(self, depth: int) -> CelType:
        """A type to compute with."""
        choice = self.source.random()
        if choice < 0.7 or depth <= 0:
            return self.source.choice(SCALARS)
        if choice < 0.8:
            return self.source.choice(OTHERS)
        inner = self.some_type(depth - 1)
        if choice < 0.9:
            return t.list_of(inner)
        if choice < 0.95:
            return t.map_of(self.source.choice((t.STRING, t.INT, t.BOOL)), inner)
        return t.optional_of(inner)

    def leaf(self, wanted: CelType, scope: dict[str, CelType]) -> str:
        names = [name for name, found in scope.items() if found is wanted or found.is_dynamic]
        if names and self.source.random() < 0.6:
            return self.source.choice(names)
        if self.source.random() < 0.25:
            return self.device_path(wanted)
        if wanted.kind is TypeKind.LIST:
            items = [self.leaf(wanted.params[0], scope) for _ in range(self.source.randrange(4))]
            return f"[{', '.join(items)}]"
        if wanted.kind is TypeKind.MAP:
            count = self.source.randrange(3)
            pairs = [f"{self.leaf(wanted.params[0], {})}: {self.leaf(wanted.params[1], scope)}" for _ in range(count)]
            return f"{{{', '.join(pairs)}}}"
        if wanted.kind is TypeKind.OPAQUE and wanted.name == "optional_type":
            return self.source.choice((f"optional.of({self.leaf(wanted.params[0], scope)})", "optional.none()"))
        if wanted.is_dynamic or wanted.kind in (TypeKind.PARAM, TypeKind.TYPE):
            return self.source.choice(("dyn(1)", 'dyn("a")', "int", "string", "dyn([1, 2])", "type(1)"))
        return self.source.choice(_LITERALS.get(wanted, ("null",)))

    def device_path(self, wanted: CelType) -> str:
        domain = self.source.choice(self.domains)
        if wanted is t.QUANTITY:
            return f'device.capacity["{domain}"].{self.source.choice(_CAPACITIES)}'
        if wanted is t.STRING and self.source.random() < 0.3:
            return "device.driver"
        if wanted is t.BOOL and self.source.random() < 0.3:
            return "device.allowMultipleAllocations"
        if wanted.kind is TypeKind.MAP and self.source.random() < 0.5:
            return f"device.{self.source.choice(('attributes', 'capacity'))}"
        if wanted.kind is TypeKind.OPAQUE and wanted.name == "optional_type":
            return f'device.attributes["{domain}"].?{self.source.choice(_ATTRIBUTES)}'
        return f'device.attributes["{domain}"].{self.source.choice(_ATTRIBUTES)}'

    def name(self) -> str:
        self._names = (self._names + 1) % 5
        return f"v{self._names}"

    def special(self, wanted: CelType, depth: int, scope: dict[str, CelType]) -> str:
        """Conditionals, bindings, indices, and the macros that yield the wanted kind of type."""
        options = [self.conditional, self.binding, self.indexed, self.optional_chain]
        if wanted is t.BOOL:
            options += [self.quantified] * 3 + [self.presence] * 2 + [self.negated]
        if wanted.kind is TypeKind.LIST:
            options += [self.mapped] * 4
        if wanted.kind is TypeKind.MAP:
            options += [self.transformed] * 3
        return self.source.choice(options)(wanted, depth, scope)

    def conditional(self, wanted: CelType, depth: int, scope: dict[str, CelType]) -> str:
        test = self.expression(t.BOOL, depth - 1, scope)
        return f"({test} ? {self.expression(wanted, depth - 1, scope)} : {self.expression(wanted, depth - 1, scope)})"

    def binding(self, wanted: CelType, depth: int, scope: dict[str, CelType]) -> str:
        name, bound = self.name(), self.some_type(1)
        value = self.expression(bound, depth - 1, scope)
        return f"cel.bind({name}, {value}, {self.expression(wanted, depth - 1, {**scope, name: bound})})"

    def indexed(self, wanted: CelType, depth: int, scope: dict[str, CelType]) -> str:
        if self.source.random() < 0.5:
            index = self.source.choice(("0", "1", self.expression(t.INT, depth - 2, scope)))
            return f"{self.expression(t.list_of(wanted), depth - 1, scope)}[{index}]"
        key = self.source.choice((t.STRING, t.INT))
        container = self.expression(t.map_of(key, wanted), depth - 1, scope)
        return f"{container}[{self.expression(key, depth - 2, scope)}]"

    def optional_chain(self, wanted: CelType, depth: int, scope: dict[str, CelType]) -> str:
        optional = self.expression(t.optional_of(wanted), depth - 1, scope)
        suffix = self.source.choice((".value()", f".orValue({self.expression(wanted, depth - 2, scope)})"))
        if wanted.kind is TypeKind.OPAQUE and wanted.name == "optional_type":
            name = self.name()
            inner = self.expression(wanted.params[0], depth - 2, {**scope, name: wanted.params[0]})
            return f"{self.expression(wanted, depth - 1, scope)}.optMap({name}, {inner})"
        return optional + suffix

    def negated(self, _wanted: CelType, depth: int, scope: dict[str, CelType]) -> str:
        return f"!({self.expression(t.BOOL, depth - 1, scope)})"

    def presence(self, _wanted: CelType, _depth: int, _scope: dict[str, CelType]) -> str:
        domain = self.source.choice(self.domains)
        return self.source.choice(
            (
                f'has(device.attributes["{domain}"].{self.source.choice(_ATTRIBUTES)})',
                f'"{domain}" in device.attributes',
                f'"{self.source.choice(_ATTRIBUTES)}" in device.attributes["{domain}"]',
                f'has(device.capacity["{domain}"].{self.source.choice(_CAPACITIES)})',
            )
        )

    def quantified(self, _wanted: CelType, depth: int, scope: dict[str, CelType]) -> str:
        macro, name = self.source.choice(("all", "exists", "exists_one")), self.name()
        source, loop = self.loop(depth, scope, name)
        variables = ", ".join(loop)
        return f"{source}.{macro}({variables}, {self.expression(t.BOOL, depth - 1, {**scope, **loop})})"

    def loop(self, depth: int, scope: dict[str, CelType], name: str) -> tuple[str, dict[str, CelType]]:
        """Something to loop over, and its loop variables."""
        element, two = self.some_type(0), self.source.random() < 0.3
        if self.source.random() < 0.7:
            source = self.expression(t.list_of(element), depth - 1, scope)
            return source, ({name: t.INT, f"{name}w": element} if two else {name: element})
        if self.source.random() < 0.4:
            source = self.source.choice(("device.attributes", f'device.attributes["{DOMAIN}"]', "device.capacity"))
            return source, ({name: t.STRING, f"{name}w": t.ANY} if two else {name: t.STRING})
        source = self.expression(t.map_of(t.STRING, element), depth - 1, scope)
        return source, ({name: t.STRING, f"{name}w": element} if two else {name: t.STRING})

    def mapped(self, wanted: CelType, depth: int, scope: dict[str, CelType]) -> str:
        name = self.name()
        source, loop = self.loop(depth, scope, name)
        inner = {**scope, **loop}
        body = self.expression(wanted.params[0], depth - 1, inner)
        test = self.expression(t.BOOL, depth - 2, inner)
        if len(loop) == 2:
            filtered = f"{test}, " if self.source.random() < 0.4 else ""
            return f"{source}.transformList({', '.join(loop)}, {filtered}{body})"
        choice = self.source.random()
        if choice < 0.3:
            items = self.expression(wanted, depth - 1, scope)
            kept = self.expression(t.BOOL, depth - 2, {**scope, name: wanted.params[0]})
            return f"{items}.filter({name}, {kept})"
        if choice < 0.4:
            items = self.expression(wanted, depth - 1, scope)
            key = self.expression(t.INT, depth - 2, {**scope, name: wanted.params[0]})
            return f"{items}.sortBy({name}, {key})"
        return f"{source}.map({name}, {f'{test}, ' if choice < 0.6 else ''}{body})"

    def transformed(self, wanted: CelType, depth: int, scope: dict[str, CelType]) -> str:
        name = self.name()
        source, loop = self.loop(depth, scope, name)
        if len(loop) == 1:
            loop = {name: next(iter(loop.values())), f"{name}w": t.ANY}
        body = self.expression(wanted.params[1], depth - 1, {**scope, **loop})
        if self.source.random() < 0.3:
            key = self.expression(wanted.params[0], depth - 2, {**scope, **loop})
            return f"{source}.transformMapEntry({', '.join(loop)}, {{{key}: {body}}})"
        return f"{source}.transformMap({', '.join(loop)}, {body})"

    def call(self, wanted: CelType, depth: int, scope: dict[str, CelType]) -> str:
        candidates = self.templates.get(_head(wanted), []) + self.templates.get(None, [])
        if not candidates:
            return self.leaf(wanted, scope)
        overload = self.source.choice(candidates)
        bound: dict[CelType, CelType] = {}
        _match(overload.result, wanted, bound)
        params = [self.instantiate(param, bound) for param in overload.params]
        args = [self.expression(param, depth - 1, scope) for param in params]
        return self.spelled(overload, args)

    def instantiate(self, pattern: CelType, bound: dict[CelType, CelType]) -> CelType:
        if pattern.kind is TypeKind.PARAM:
            return bound.setdefault(pattern, self.some_type(0))
        if not pattern.generic:
            return pattern
        return t.rebuilt(pattern, tuple(self.instantiate(param, bound) for param in pattern.params))

    def spelled(self, overload: Overload, args: list[str]) -> str:
        if overload.function in _SPELLINGS:
            return _SPELLINGS[overload.function].format(*args, field=self.source.choice(_ATTRIBUTES))
        if overload.function.startswith(("@", "cel.@")):
            return args[0]
        if overload.function == "lists.range":
            return f"lists.range({args[0]} % 20)"
        if overload.member:
            return f"{args[0]}.{overload.function}({', '.join(args[1:])})"
        return f"{overload.function}({', '.join(args)})"


def _head(result: CelType) -> CelType | TypeKind | None:
    """What overloads are filed under: the type itself, the kind of a compound one, nothing for a variable."""
    if result.kind is TypeKind.PARAM:
        return None
    return result.kind if result.params else result


def _match(pattern: CelType, wanted: CelType, bound: dict[CelType, CelType]) -> None:
    if pattern.kind is TypeKind.PARAM:
        bound.setdefault(pattern, wanted)
    elif pattern.kind is wanted.kind and len(pattern.params) == len(wanted.params):
        for inner, other in zip(pattern.params, wanted.params, strict=True):
            _match(inner, other, bound)


def literal_of(value: object) -> str:
    """A value as upstream writes it down."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Uint):
        return f"{int(value)}u"
    if isinstance(value, float):
        return _double_literal(value)
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bytes):
        return 'b"' + "".join([f"\\{byte:03o}" for byte in value]) + '"'
    if is_list(value):
        return f"[{', '.join([literal_of(item) for item in value])}]"
    if is_map(value):
        pairs = sorted([(literal_of(key), literal_of(item)) for key, item in map_items(value)])
        return f"{{{', '.join([f'{key}: {item}' for key, item in pairs])}}}"
    return _other_literal(value)


def _double_literal(value: float) -> str:
    if math.isnan(value):
        return 'double("NaN")'
    if math.isinf(value):
        return f'double("{"-" if value < 0 else ""}Infinity")'
    digits, exponent, sign = shortest(value)
    text = sign + plain(digits, exponent)
    return text if "." in text else text + ".0"


def _other_literal(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, CelDuration):
        return f'duration("{duration_text(value)}")'
    if isinstance(value, Timestamp):
        return f'timestamp("{timestamp_text(Timestamp(value.nanos))}")'
    if isinstance(value, Optional):
        return "optional.none()" if value is NONE else f"optional.of({literal_of(value.value)})"
    if isinstance(value, CIDR):
        return f"{value.address}/{value.bits}"
    return value.name if isinstance(value, CelType) else str(value)


@dataclass(frozen=True)
class Answer:
    """What became of an expression without variables."""

    outcome: str
    value: str = ""
    cost: int | None = None


_ENVIRONMENT = Environment({}, {}, base_functions())


def answer(text: str) -> Answer:
    """Compiles and runs an expression that needs no data."""
    try:
        node = checked_tree(text, _ENVIRONMENT).node
        planner = Planner(base_functions(), ())
        step = planned(text, planner, node)
    except CompileError:
        return Answer("compile_error")
    state = Activation([None] * planner.slot_count, 1_000_000)
    try:
        return Answer("value", literal_of(step(state)), state.spent)
    except (EvaluationError, EvaluationAborted):
        return Answer("runtime_error", "", state.spent)


@pytest.fixture(name="answer")
def answer_fixture():
    """The function that compiles and runs an expression without data."""
    return answer


@pytest.fixture
def writer_of():
    """A maker of writers, each with its own seed."""
    return lambda seed, **options: Writer(random.Random(seed), **options)  # noqa: S311  reproducible, not secret
