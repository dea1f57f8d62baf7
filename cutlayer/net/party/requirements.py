"""Requirements: what a party insists on, whatever all agreed on; checked before it dials or listens.

A rule names a defence (`max-norm`), or compares a setting of a defence or cut (`hash.bits <= 16`) or of the run
(`epochs <= 50`, `cut = secure-sum`).
"""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cutlayer._validate import one_of
from cutlayer.errors import ConfigError
from cutlayer.net.party.manifest import RunManifest
from cutlayer.spec import name_of, plain

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
}
RULE = re.compile(r"(?P<subject>[a-z0-9-]+)(\.(?P<setting>[a-z_]+))?(\s*(?P<sign><=|>=|<|>|=)\s*(?P<value>\S+))?")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement, parsed."""

    text: str
    subject: str  # a defence, a cut, or a setting of the run
    setting: str | None  # of that defence or cut
    sign: str | None
    value: str

    @classmethod
    def parse(cls, text: str) -> "Requirement":
        """Read a rule as a user writes it."""
        match = RULE.fullmatch(text.strip())
        if not match or (match["setting"] and not match["sign"]):
            raise ConfigError(
                f"Expected a rule such as 'max-norm', 'hash.bits <= 16' or 'cut = secure-sum', got {text!r}."
            )
        return cls(text, match["subject"], match["setting"], match["sign"], match["value"] or "")

    def holds(self, manifest: RunManifest) -> bool:
        """Whether a manifest fulfils this rule."""
        plan = manifest.plan()
        if self.sign is None:
            return any(name_of(type(defence)) == self.subject for defence in plan.defences)
        if self.setting is None:
            key, facts = self.subject.replace("-", "_"), manifest.to_json()
            one_of("setting of [run] in a rule", key, facts)
            return self._compares(name_of(type(plan.cut)) if key == "cut" else facts[key])
        parts = [vars(part) for part in (plan.cut, *plan.defences) if name_of(type(part)) == self.subject]
        if self.setting.startswith("_") or any(self.setting not in settings for settings in parts):
            raise ConfigError(f"Expected a setting of {self.subject} in the rule {self.text!r}, got {self.setting!r}.")
        return bool(parts) and all(self._compares(settings[self.setting]) for settings in parts)

    def _compares(self, actual: object) -> bool:
        assert self.sign is not None
        text = plain(actual)
        try:
            return COMPARISONS[self.sign](float(text), float(self.value))
        except ValueError:
            if self.sign != "=":
                raise ConfigError(f"Expected numbers to compare in the rule {self.text!r}.") from None
            return text == self.value


def require(rules: Sequence[str], manifest: RunManifest) -> None:
    """Raise unless a manifest fulfils every rule."""
    for text in rules:
        if not Requirement.parse(text).holds(manifest):
            raise ConfigError(
                f"This party requires {text!r}, and the manifest does not say so: change [run] in agreement with the "
                "others, or [require]."
            )
