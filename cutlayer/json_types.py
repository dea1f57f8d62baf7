"""Json: what a JSON file can hold. Values that are written have this type; values that are read are checked first."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
