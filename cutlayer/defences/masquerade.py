"""Masquerade: send a random bit in place of one direction of the columns, so that equations find the bit."""

import torch
from torch import Tensor, nn

from cutlayer._validate import at_least
from cutlayer.blocks.sparse import SparseRows
from cutlayer.defence import Defence, Role, Setting, Subject
from cutlayer.draws import Draws
from cutlayer.errors import ConfigError
from cutlayer.rng import uniform_like

DEPENDENT = 1e-10  # of the largest eigenvalue of X'X, columns at equal length: float32 tables keep 1e-7 squared


class Masquerade(Defence):
    """Replace a linear bottom of d columns by P Q x + u a: rank d - 1, and a fabricated bit a beside it.

    With the rank one short, a 0/1 column is in general no longer in the span of the messages, but the
    fabricated bit is, so the attack by equations finds that bit and nothing else. P, Q and u are all
    trained. The bit is drawn once per record: if it were drawn for every message (`redraw`), two messages of one record
    would differ by u and give it away. `fabricated` bits take the place of as many directions. `rank` is
    that of P Q, by default the number of columns less `fabricated`.

    Protects: features; each feature party with a linear bottom without bias applies it.
    Guarantee: none (heuristic). Algorithm 1 finds the fabricated bits and, unless training happens to
    put a column into the span, none of the real ones.
    Does not hide: a column that lies close to the span that is left, as most do; attack binary-unmask
    takes the fabricated bit out and reads them. One-hot groups stay in the span exactly, up to a constant.
    Nor does a lower rank make different records of a table of categories alike.
    Specification: binary-reconstruction, section 4.
    Paper: Ye et al., Feature Reconstruction Attacks and Countermeasures of DNN training in Vertical
    Federated Learning (arXiv:2210.06771), Algorithm 4.
    """

    def __init__(self, *, rank: int | None = None, fabricated: int = 1, redraw: bool = False) -> None:
        at_least("rank", 1 if rank is None else rank, 1)
        at_least("fabricated", fabricated, 1)
        self.rank = rank
        self.fabricated = fabricated
        self.redraw = redraw

    def features(self, values: Tensor | SparseRows, setting: Setting) -> Tensor | SparseRows:
        """Append the fabricated bits as columns; refuse columns so dependent that the rank hides nothing."""
        if setting.role is not Role.FEATURE_PARTY:
            return values
        if isinstance(values, SparseRows):
            raise ConfigError(
                f"Expected dense columns for masquerade, got sparse ones at {setting.party}; leave it out."
            )
        flat = values.flatten(1)
        rank = _rank(flat)
        most = rank - self.fabricated
        if not 1 <= self._rank(flat.shape[1]) <= most:
            advice = f"set rank={most}" if most >= 1 else "fabricate fewer bits"
            raise ConfigError(
                f"Expected a rank below that of the columns by fabricated={self.fabricated}, got "
                f"{self._rank(flat.shape[1])} where the {flat.shape[1]} columns of {setting.party} have rank {rank}; "
                f"drop dependent columns or {advice}."
            )
        if self.redraw:
            return values
        bits = setting.rng.integers(2, (len(flat), self.fabricated))
        return torch.cat([flat, bits.to(flat)], dim=1)

    def model(self, model: nn.Module, setting: Setting) -> nn.Module:
        """Put P, Q and u in the place of a feature party's linear layer."""
        if setting.role is not Role.FEATURE_PARTY or setting.subject is not Subject.BOTTOM:
            return model
        layer = _linear(model)
        if layer is None:
            raise ConfigError(
                f"Expected one linear layer without bias for masquerade, got {type(model).__name__} at "
                f"{setting.party}; use --bottom linear."
            )
        columns = layer.in_features - (0 if self.redraw else self.fabricated)
        return Disguised(columns, self._rank(columns), layer.out_features, self.fabricated, self.redraw)

    def _rank(self, columns: int) -> int:
        return columns - self.fabricated if self.rank is None else self.rank


class Disguised(nn.Module):
    """z = P Q x + u a, where x comes with its bits a, or, to redraw them, without.

    An attacker who probes the module has no bits; then they are drawn as well, but the same in every call,
    so that a probe is repeatable and advances no stream.
    """

    def __init__(self, columns: int, rank: int, width: int, fabricated: int, redraw: bool) -> None:
        super().__init__()
        self.redraw = redraw
        self.inner = nn.Linear(columns, rank, bias=False)  # Q
        self.outer = nn.Linear(rank, width, bias=False)  # P
        self.mask = nn.Parameter(torch.empty(width, fabricated).uniform_(-(rank**-0.5), rank**-0.5))  # u, as P

    def forward(self, rows: Tensor) -> Tensor:
        """Embed rows of the columns, with the fabricated bits last or without any."""
        rows = rows.flatten(1)
        columns, fabricated = self.inner.in_features, self.mask.shape[1]
        bits = rows[:, columns:]
        if not bits.shape[1]:
            drawn = uniform_like(rows.new_empty(len(rows), fabricated), None if self.redraw else Draws(0, "masquerade"))
            bits = drawn.round()
        embedding: Tensor = self.outer(self.inner(rows[:, :columns])) + bits @ self.mask.T
        return embedding


def _linear(model: nn.Module) -> nn.Linear | None:
    """The only layer of a model, if it is linear without bias."""
    layers = [m for m in model.modules() if not list(m.children()) and not isinstance(m, nn.Flatten | nn.Identity)]
    layer = layers[0] if len(layers) == 1 else None
    return layer if isinstance(layer, nn.Linear) and layer.bias is None else None


def _rank(columns: Tensor) -> int:
    """How many columns are independent."""
    table = columns.double()
    table = table / table.norm(dim=0).clamp(min=torch.finfo(torch.float64).tiny)
    values = torch.linalg.eigvalsh(table.T @ table)
    return int((values > DEPENDENT * values.max()).sum())
