"""Passport: a layer of the bottom or of the top is scaled and shifted by secrets that change with every batch."""

from typing import ClassVar, Literal, get_args

from torch import nn

from cutlayer._validate import non_negative, one_of, positive
from cutlayer.blocks.passport import PassportLayer
from cutlayer.defence import Defence, Role, Setting, Subject
from cutlayer.errors import ConfigError

Where = Literal["bottom", "top", "both"]

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)


class Passport(Defence):
    """Obfuscate a layer's outputs by a scale and a shift that private passports decide (FedAdOb, FedPass).

    In `where=bottom` each feature party puts passports into the last convolution or linear layer of its bottom, in
    `where=top` the label party into the first linear layer of its top; both, by default, each with its own secrets.
    Another layer is chosen by its name (`bottom_layer`, `top_layer`, as in `named_modules`). Passports have secret
    means per channel, uniform in [-`mean_range`, 0] and drawn once per party, and `variance`; they are drawn anew for
    every batch, in prediction as in training. A batch norm that follows the layer is taken out: it would undo them.
    `bounded=false` is the paper's linear layer, without tanh; convolutions are not bounded in either. All of the
    paper's means are negative, so any two guesses are alike (their correlation around zero is 3/4); `centred`, ours,
    draws them from [-mean_range, mean_range] instead.

    Protects: labels and features; the label party with `where=top`, each feature party with `where=bottom`.
    Guarantee: none (heuristic). The paper's theorem bounds the chance that a randomly guessed passport is close to the
    true one. It says nothing about an attacker who learns how messages and inputs go together from examples.
    Does not hide: inputs, from a decoder that was taught some pairs of input and message; labels, from a feature
    party that reads gradients, or that knows some labels and its own bottom.
    Specification: fedadob, sections 2 and 7.
    Paper: Gu et al., FedAdOb: Privacy-Preserving Federated Deep Learning with Adaptive Obfuscation (arXiv:2406.01085),
    Eq. 5 and 6, Algorithm 3.
    """

    strengths: ClassVar[tuple[str, ...]] = (
        "mean_range=10.0,variance=1.0",
        "mean_range=50.0,variance=5.0",
        "mean_range=100.0,variance=5.0",
    )

    def __init__(
        self,
        *,
        mean_range: float = 100.0,
        variance: float = 5.0,
        where: Where = "both",
        bottom_layer: str = "",
        top_layer: str = "",
        bounded: bool = True,
        centred: bool = False,
    ) -> None:
        positive("mean_range", mean_range)
        non_negative("variance", variance)
        one_of("where", where, get_args(Where))
        self.mean_range = mean_range
        self.variance = variance
        self.where = where
        self.bottom_layer = bottom_layer
        self.top_layer = top_layer
        self.bounded = bounded
        self.centred = centred

    @property
    def clients(self) -> bool:
        """In bottoms alone, also with `where=both`: tops are shared."""
        return self.where != "top"

    def model(self, model: nn.Module, setting: Setting) -> nn.Module:
        """Put passports into a feature party's bottom, or into the top."""
        part = setting.subject
        own = part is Subject.BOTTOM and setting.role is Role.LABEL_PARTY  # is not sent
        if own or part not in (Subject.BOTTOM, Subject.TOP) or self.where not in (part.value, "both"):
            return model
        name, layer = self._chosen(model, setting)
        held = PassportLayer(
            layer,
            setting.rng,
            mean_range=self.mean_range,
            variance=self.variance,
            bounded=self.bounded,
            centred=self.centred,
        )
        if not name:
            return held
        _drop_norm(model, name)
        _put(model, name, held)
        return model

    def _chosen(self, model: nn.Module, setting: Setting) -> tuple[str, nn.Conv2d | nn.Linear]:
        """The layer that gets passports: the one that was named, else the bottom's last or the top's first."""
        in_bottom = setting.subject is Subject.BOTTOM
        place = f"{setting.party}'s {setting.subject.value}"
        wanted = self.bottom_layer if in_bottom else self.top_layer
        kinds = (nn.Conv2d, nn.Linear) if in_bottom else (nn.Linear,)
        layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, kinds)}
        if wanted and wanted not in layers:
            names = ", ".join(layers) or "none"
            raise ConfigError(f"Expected a layer of {place} to hold passports, one of {names}.")
        if not layers:
            raise ConfigError(
                f"Expected a convolution or linear layer in {place} to hold passports, got "
                f"none; choose another model, or where={'top' if in_bottom else 'bottom'}."
            )
        name = wanted or (list(layers)[-1] if in_bottom else next(iter(layers)))
        return name, layers[name]


def _drop_norm(model: nn.Module, name: str) -> None:
    """Take out a batch norm that comes right after a layer."""
    leaves = [path for path, layer in model.named_modules() if not list(layer.children())]
    after = leaves[leaves.index(name) + 1 : leaves.index(name) + 2]
    if after and isinstance(model.get_submodule(after[0]), NORMS):
        _put(model, after[0], nn.Identity())


def _put(model: nn.Module, name: str, layer: nn.Module) -> None:
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, layer)
