"""Named string formats: `format.dns1123Label().validate(s)` is none where the text is right, else what is wrong.

Which texts are right is Kubernetes' rule; the sentences are ours.
"""

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from modelplane.k8s.cel import types as t
from modelplane.k8s.cel.declarations import Overload, overload
from modelplane.k8s.cel.library.urls import is_url
from modelplane.k8s.cel.values import NONE, Optional, register

_LABEL = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_DNS_LABEL = re.compile(_LABEL)
_DNS_SUBDOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_DNS_1035 = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")
_QUALIFIED = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})", re.ASCII)
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})", re.ASCII)
_MAX_LABEL, _MAX_SUBDOMAIN = 63, 253


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A format: what is wrong with a text under it, and how long its pattern counts as for the cost."""

    cel_unhashable: ClassVar[bool] = True

    name: str
    problems: Callable[[str], list[object]] = field(compare=False)
    regex_size: int = field(compare=False)


register(NamedFormat, t.FORMAT)


def _length(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _rule(pattern: re.Pattern[str], longest: int, description: str) -> Callable[[str], list[object]]:
    def problems(text: str) -> list[object]:
        found: list[object] = []
        if _length(text) > longest:
            found.append(f"must be no more than {longest} bytes")
        if not pattern.fullmatch(text):
            found.append(f"must be {description}")
        return found

    return problems


def _prefix(rule: Callable[[str], list[object]]) -> Callable[[str], list[object]]:
    """The rule for a text that something else will be appended to: it may end in a dash."""

    def problems(text: str) -> list[object]:
        return rule(text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text)

    return problems


_dns_label = _rule(_DNS_LABEL, _MAX_LABEL, "a lower case DNS label (RFC 1123)")
_dns_subdomain = _rule(_DNS_SUBDOMAIN, _MAX_SUBDOMAIN, "a lower case DNS subdomain (RFC 1123)")
_dns_1035_label = _rule(_DNS_1035, _MAX_LABEL, "a DNS label that starts with a letter (RFC 1035)")
_name_part = _rule(_QUALIFIED, _MAX_LABEL, "letters, digits, '-', '_' or '.', with a letter or digit at both ends")


def _qualified_name(text: str) -> list[object]:
    parts = text.split("/")
    if len(parts) > 2:  # noqa: PLR2004  a prefix and a name
        return ["must be a name with at most one prefix before a slash"]
    if len(parts) == 1:
        return _name_part(text)
    return [*_dns_subdomain(parts[0]), *_name_part(parts[1])]


def _label_value(text: str) -> list[object]:
    return _name_part(text) if text else []


def _check(test: Callable[[str], bool], problem: str) -> Callable[[str], list[object]]:
    def problems(text: str) -> list[object]:
        return [] if test(text) else [problem]

    return problems


def is_date(text: str) -> bool:
    """Whether the text is a day such as 2024-02-29."""
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    year, month, day = (int(part) for part in match.groups())
    try:
        dt.date(year or 4, month, day)
    except ValueError:
        return False
    return True


def is_datetime(text: str) -> bool:
    """Whether the text is a moment in RFC 3339, case aside."""
    date, separator, rest = text.lower().partition("t")
    match = _TIME.fullmatch(rest.partition("t")[0])
    if not separator or not is_date(date) or match is None:
        return False
    hour, minute, second = match.groups()
    return bool(hour <= "23" and minute <= "59" and second <= "59")


def is_uuid(text: str) -> bool:
    """Whether the text is a UUID, with or without dashes."""
    return _UUID.fullmatch(text) is not None


def is_base64(text: str) -> bool:
    """Whether the text is base64 with padding; nothing at all is not."""
    return _BASE64.fullmatch(text) is not None


FORMATS: dict[str, NamedFormat] = {
    "dns1123Label": NamedFormat("DNS1123Label", _dns_label, 30),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", _dns_subdomain, 60),
    "dns1035Label": NamedFormat("DNS1035Label", _dns_1035_label, 30),
    "qualifiedName": NamedFormat("QualifiedName", _qualified_name, 60),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", _prefix(_dns_label), 30),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", _prefix(_dns_subdomain), 60),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", _prefix(_dns_1035_label), 30),
    "labelValue": NamedFormat("LabelValue", _label_value, 40),
    "uri": NamedFormat("URI", _check(is_url, "must be an absolute URL"), 1103),
    "uuid": NamedFormat("uuid", _check(is_uuid, "does not match the UUID format"), 70),
    "byte": NamedFormat("byte", _check(is_base64, "invalid base64"), 84),
    "date": NamedFormat("date", _check(is_date, "invalid date"), 71),
    "datetime": NamedFormat("datetime", _check(is_datetime, "invalid datetime"), 71),
}


def _named(name: str) -> Optional:
    found = FORMATS.get(name)
    return NONE if found is None else Optional(found)


def _validate(named: NamedFormat, text: str) -> Optional:
    problems = named.problems(text)
    return Optional(problems) if problems else NONE


def _constant(named: NamedFormat) -> Callable[[], NamedFormat]:
    return lambda: named


FUNCTIONS: tuple[Overload, ...] = (
    overload("format-validate", "Format.validate(string) -> optional(list(string))", _validate),
    overload("format-named", "format.named(string) -> optional(Format)", _named),
    *[overload(f"format.{name}", f"format.{name}() -> Format", _constant(found)) for name, found in FORMATS.items()],
)
