"""Useless features: pad a table with columns that say nothing, so that a curious party's share of all columns falls."""

from math import ceil
from typing import ClassVar, Literal, cast, get_args

import torch
from torch import Tensor, nn

from cutlayer._validate import one_of, positive
from cutlayer.blocks.sparse import SparseRows
from cutlayer.defence import Defence, Role, Setting, Subject
from cutlayer.errors import ConfigError
from cutlayer.rng import normal_like

Draw = Literal["shuffle", "normal"]
At = Literal["all", "features", "label"]

KEPT = 0.9  # of the running mean of useless columns, per training batch


class UselessFeatures(Defence):
    """Append `times` as many columns as a party has, drawn once per record from its private stream.

    The paper found that its label attack fails where the attacker holds a small share of all columns, and closes
    with the idea that victims pad theirs with useless ones. It says neither how many nor how they are
    drawn. `draw=shuffle` repeats the party's own columns in turn, each with its rows in another order: every
    useless column looks like a real one, and is independent of the label and of the rest. `draw=normal` draws
    normal numbers of each own column's mean and spread. `at` says who pads.

    Columns stay with their record: training, evaluation and serving see the same ones, and only records of
    training can be served. The bottom knows them by place; a copy of it that is given rows
    without them, as an attacker has, puts their running mean there.

    Protects: labels and features; the label party with `at=label`, each feature party with `at=features`.
    Guarantee: none (heuristic). Training is free to learn to ignore useless columns.
    Does not hide: labels or features. No real column leaves the messages, and the attacker's own columns and
    gradients are what they were. With `draw=shuffle`, the values that a column takes.
    Specification: none; ours, as the paper defines nothing.
    Paper: Zhu et al., Vulnerabilities of Data Protection in Vertical Federated Learning Training and
    Countermeasures, section VIII-B.
    """

    strengths: ClassVar[tuple[str, ...]] = ("times=1.0", "times=2.0", "times=5.0")

    def __init__(
        self,
        *,
        times: float = 1.0,
        draw: Draw = "shuffle",
        at: At = "all",
    ) -> None:
        positive("times", times)
        one_of("draw", draw, get_args(Draw))
        one_of("at", at, get_args(At))
        self.times = times
        self.draw = draw
        self.at = at

    def features(self, values: Tensor | SparseRows, setting: Setting) -> Tensor | SparseRows:
        """Append useless columns."""
        if not self._pads(setting.role):
            return values
        if isinstance(values, SparseRows) or values.ndim != 2 or not values.is_floating_point():
            raise ConfigError(
                f"Expected a dense table of numbers for useless-features, got something else at {setting.party}; "
                "leave it out."
            )
        columns = values.shape[1]
        source = values[:, torch.arange(self.added(columns), device=values.device) % columns]
        if self.draw == "normal":
            noise = normal_like(source, setting.rng)
            useless = source.mean(dim=0) + source.std(dim=0, correction=0) * noise
        else:
            keys = setting.rng.uniform(source.shape)
            useless = source.gather(0, keys.argsort(dim=0).to(values.device))
        return torch.cat([values, useless], dim=1)

    def model(self, model: nn.Module, setting: Setting) -> nn.Module:
        """Let a padded bottom take rows without useless columns as well."""
        if setting.subject is not Subject.BOTTOM or not self._pads(setting.role):
            return model
        first = next(
            (layer for layer in model.modules() if not list(layer.children()) and list(layer.parameters())), None
        )
        if not isinstance(first, nn.Linear):
            raise ConfigError(
                f"Expected a bottom that begins with a linear layer for useless-features, got "
                f"{type(first).__name__} at {setting.party}; use --bottom mlp."
            )
        return Padded(model, self._own(first.in_features), first.in_features)

    def added(self, columns: int) -> int:
        """How many useless columns are added to `columns` real ones."""
        return ceil(self.times * columns)

    def _own(self, total: int) -> int:
        """How many of `total` columns are real."""
        own = max(1, round(total / (1 + self.times)))
        return next((n for n in (own, own - 1, own + 1) if n > 0 and n + self.added(n) == total), own)

    def _pads(self, role: Role) -> bool:
        return self.at in ("all", "label" if role is Role.LABEL_PARTY else "features")


class Padded(nn.Module):
    """A bottom for rows with useless columns last, or without them."""

    usual: Tensor

    def __init__(self, inner: nn.Module, own: int, total: int) -> None:
        super().__init__()
        self.inner = inner
        self.own = own
        self.register_buffer("usual", torch.zeros(total - own))

    def forward(self, rows: Tensor) -> Tensor:
        """Embed rows; where useless columns are missing, their running mean takes their place."""
        if rows.shape[1] == self.own:
            rows = torch.cat([rows, self.usual.to(rows).expand(len(rows), -1)], dim=1)
        elif self.training:
            with torch.no_grad():
                self.usual.lerp_(rows[:, self.own :].mean(dim=0).to(self.usual), 1 - KEPT)
        return cast(Tensor, self.inner(rows))
