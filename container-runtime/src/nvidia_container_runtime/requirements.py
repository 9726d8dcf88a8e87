"""NVIDIA_REQUIRE_*: conditions on the driver, as an expression language, and whether they hold.

Between values AND; in a value a blank is OR and a comma AND, so that `a,b c` is (a and b) or c.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OPERATORS = ("!=", "<=", ">=", "=", "<", ">")
VERSIONS = ("cuda", "arch", "driver")
TEXTS = ("brand",)


class RequirementFault(ValueError):
    """A condition that does not hold, or that cannot be read."""


class Condition:
    """property operator value."""

    __slots__ = ("name", "operator", "text", "value")

    def __init__(self, text: str) -> None:
        self.text = text
        self.name, self.operator, self.value = split_condition(text)

    @property
    def known(self) -> bool:
        return self.name in VERSIONS or self.name in TEXTS

    def holds(self, properties: "Mapping[str, str]") -> bool:
        actual = properties.get(self.name, "")
        if self.name in TEXTS:
            return compare(actual, self.operator, self.value)
        try:
            return compare(version_key(actual), self.operator, version_key(self.value))
        except ValueError:
            raise RequirementFault(
                f"invalid value for {self.name}: invalid semantic version"
            ) from None


def split_condition(text: str) -> "tuple[str, str, str]":
    starts = [text.find(sign) for sign in OPERATORS if sign in text]
    if not starts:
        raise RequirementFault(f"invalid constraint: {text}")
    start = min(starts)
    operator = next(sign for sign in OPERATORS if text.startswith(sign, start))
    return text[:start], operator, text[start + len(operator) :]


def compare(
    left: "tuple[object, ...] | str", operator: str, right: "tuple[object, ...] | str"
) -> bool:
    if operator == "=":
        return left == right
    if operator == "!=":
        return left != right
    if operator == "<":
        return left < right  # type: ignore[operator]
    if operator == "<=":
        return left <= right  # type: ignore[operator]
    if operator == ">":
        return left > right  # type: ignore[operator]
    return left >= right  # type: ignore[operator]


def version_key(text: str) -> "tuple[object, ...]":
    """A sort key for lenient semantic versions: 11, 11.6, v11.6.1, 450.80.02, 1.2-rc.1. ValueError
    for others.
    """
    numbers, plus, build = text.removeprefix("v").partition("+")
    numbers, dash, release = numbers.partition("-")
    parts = numbers.split(".")
    if len(parts) > 3 or not all(map(is_number, parts)):
        raise ValueError(text)
    if plus and not has_identifiers(build):
        raise ValueError(text)
    if dash and not has_identifiers(release):
        raise ValueError(text)
    core = tuple(int(part) for part in (*parts, "0", "0")[:3])
    if not dash:
        return (*core, 1, ())
    return (*core, 0, tuple(map(release_key, release.split("."))))


def is_number(part: str) -> bool:
    return part.isascii() and part.isdigit()


def has_identifiers(suffix: str) -> bool:
    """True for what may stand after a dash or a plus: identifiers with dots between them."""
    return all(map(is_identifier, suffix.split(".")))


def is_identifier(part: str) -> bool:
    return bool(part) and part.isascii() and all(c.isalnum() or c == "-" for c in part)


def release_key(part: str) -> "tuple[int, int, str]":
    """Numbers sort before words in a pre-release, and as numbers."""
    return (0, int(part), "") if part.isdigit() else (1, 0, part)


def parse(value: str) -> "list[list[Condition]]":
    """The terms of one value, each with its conditions; those on unknown properties
    are left out.
    """
    terms: list[list[Condition]] = []
    for term in value.split(" "):
        if not term:
            continue
        known = [condition for condition in map(Condition, term.split(",")) if condition.known]
        if known:
            terms.append(known)
    for condition in (one for term in terms for one in term):
        check_version(condition)
    return terms


def check_version(condition: Condition) -> None:
    if condition.name in VERSIONS:
        try:
            version_key(condition.value)
        except ValueError:
            raise RequirementFault("invalid version string: invalid semantic version") from None


def verify(values: "Sequence[str]", properties: "Mapping[str, str]") -> None:
    """All values must hold. What cannot be read is refused before anything is decided."""
    for terms in [parse(value) for value in values]:
        if terms and not any(all(one.holds(properties) for one in term) for term in terms):
            raise RequirementFault(describe_unmet(terms, properties))


def describe_unmet(terms: "list[list[Condition]]", properties: "Mapping[str, str]") -> str:
    if len(terms) > 1:
        return "||".join("&&".join(one.text for one in term) for term in terms) + " not met"
    failed = next(one for one in terms[0] if not one.holds(properties))
    return f"unsatisfied condition: {failed.text} ({failed.name}={properties.get(failed.name, '')})"
