"""SelfSubjectReviews and access reviews. The token allows everything."""

from typing import Final

from modelplane.api.objects import Json
from modelplane.apiserver.discovery import REVIEWS
from modelplane.apiserver.failures import bad_request

_USER: Final[Json] = {"username": "modelplane-admin", "groups": ["system:masters", "system:authenticated"]}


def find_review(path: str) -> str | None:
    """The review kind of a path."""
    match path.strip("/").split("/"):
        case ["apis", group, version, plural]:
            return REVIEWS.get((group, version, plural))
        case _:
            return None


def answer(kind: str, api_version: str, question: object) -> Json:
    if not isinstance(question, dict) or question.get("kind", kind) != kind:
        raise bad_request(f"a {kind} is expected")
    status: Json = {"allowed": True}
    if kind == "SelfSubjectRulesReview":
        everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        anywhere = {"verbs": ["*"], "nonResourceURLs": ["*"]}
        status = {"resourceRules": [everything], "nonResourceRules": [anywhere], "incomplete": False}
    if kind == "SelfSubjectReview":
        status = {"userInfo": _USER}
    return {"kind": kind, "apiVersion": api_version, "metadata": {}, "spec": question.get("spec", {}), "status": status}
