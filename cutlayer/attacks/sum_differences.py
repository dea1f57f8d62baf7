"""Sum differences: what a fixed mask hides in one sum, the change between two sums shows."""

import copy
from math import prod
from typing import ClassVar, Literal, get_args

import torch
from torch import Generator, Tensor, nn

from cutlayer._validate import at_least, one_of
from cutlayer.attack import Asks, Attack, Form, Guess, Target
from cutlayer.attacks.tools.reading import latest
from cutlayer.attacks.tools.ridge import best_ridge
from cutlayer.blocks.sparse import SparseRows
from cutlayer.defence import Role
from cutlayer.errors import ConfigError, Inapplicable
from cutlayer.message import Kind, Phase
from cutlayer.rng import Stream
from cutlayer.transcript import Channel
from cutlayer.view import View

Knows = Literal["rows", "weights"]
Reads = Literal["both", "differences"]
STEPS = 10_000  # of the first epoch, at most: what is asked for of the victim's course
SMALL = 1e-4  # of the largest singular value: below it a direction is rounding
ODD = 0.05  # of the differences' length: what the weights leave over where they are not all that was opened


class SumDifferences(Attack):
    """Read the victim's rows off sums that were opened in several epochs: their differences hold no mask.

    Under secure-sum the label party opens z + x_a W_mask, where W_mask never changes. So two sums of one row differ by
    the change of the embedding, x_p (W' - W) if the bottom is linear, and nothing else. It applies to everything
    that is opened for the same row again: sums, products of an encrypted layer, embeddings of an open cut.

    `knows=rows`: the attacker is told `pairs` of the victim's rows and learns a linear map (ridge regression) from
    the differences of consecutive epochs beside its own columns to the victim's. `reads=both` also tries the sums
    themselves beside its own columns, which undo the mask, as it is linear in them. What does best on a fifth of the
    known rows is used, its own columns alone among it, so it is hardly ever worse than these.

    `knows=weights`: it is told no row, but the weights of every bottom in the first epoch and at the end. Least
    squares on the difference between the first epoch and a prediction then give the rows exactly, if bottoms are
    linear and the sum is at least as wide as all columns behind it.

    Sees: opened sums (or the victim's embeddings) of every kept training epoch (--keep ends or all), and the
    attacker's own columns.
    Needs: some of the victim's rows; or all feature parties' weights. Dense inputs.
    Cost: a second on digits with 200 rows.
    Specification: sfa, section 9.
    Paper: none; ours, from a review of the secure sum.
    """

    target: ClassVar[Target] = Target.FEATURES
    by: ClassVar[Role] = Role.LABEL_PARTY
    settings: ClassVar[tuple[str, ...]] = ("", "knows=weights")

    def __init__(self, *, pairs: int = 200, knows: Knows = "rows", reads: Reads = "both") -> None:
        at_least("pairs", pairs, 5)
        one_of("knows", knows, get_args(Knows))
        one_of("reads", reads, get_args(Reads))
        self.pairs = pairs
        self.knows = knows
        self.reads = reads

    @property
    def asks(self) -> Asks:
        """Some rows; or the weights of the first epoch and at the end, and sums under these."""
        if self.knows == "rows":
            return Asks(features=self.pairs)
        return Asks(course=STEPS, bottom=True, frozen_train=True)

    def run(self, view: View, rng: Generator) -> Guess:
        """Put the epochs side by side, learn or solve."""
        if view.victim not in view.hints.shapes:
            raise Inapplicable("dense-only")
        shape = view.hints.shapes[view.victim]
        rows, values = self._learned(view, rng) if self.knows == "rows" else self._solved(view)
        return Guess(rows, values.float().view(len(rows), *shape), Form.VALUES)

    def _learned(self, view: View, rng: Generator) -> tuple[Tensor, Tensor]:
        """A map from differences and own columns to the victim's, from known rows."""
        known = view.hints.features.get(view.victim)
        if known is None or len(known.rows) < 5:
            raise ConfigError(f"Expected at least five known rows of {view.victim!r} for sum-differences.")
        if not known.values.is_floating_point():
            raise Inapplicable("dense-only")
        rows, sums = epochs_of(seen_in(view, Phase.TRAIN), view.manifest.train.cpu())
        own = own_columns(view, rows)
        told = known.rows[torch.isin(known.rows.cpu(), rows)].cpu()
        if len(told) < 5:
            raise Inapplicable("known rows are not among those of all epochs")
        place = torch.searchsorted(rows, told)
        _, truth = latest(known.rows.cpu(), known.values.flatten(1).double().cpu(), told)
        read = [sums.diff(dim=0)] if len(sums) > 1 else []
        if self.reads == "both":
            read.append(sums)
        if not read:
            raise Inapplicable("needs two epochs: train longer, with --keep ends or all")
        choices = [own, *(torch.cat([own, part.movedim(0, 1).flatten(1)], dim=1) for part in read)]
        order = torch.randperm(len(told), generator=rng)
        best, learned = best_ridge([choice[place] for choice in choices], truth, order)
        return rows, learned(choices[best])

    def _solved(self, view: View) -> tuple[Tensor, Tensor]:
        """Least squares: what was opened at the end, less what was in the first epoch, by the change of weights."""
        course = view.hints.course.get(view.victim)
        if not course:
            raise ConfigError(f"Expected the training steps of {view.victim!r} as a hint; this attack needs them.")
        channel = seen_in(view, Phase.TRAIN)
        behind = [view.victim] if channel.kind is Kind.EMBEDDING else list(view.manifest.roster.feature_parties)
        last = {name: affine(view.hints.bottoms[name], view.hints.shapes[name]) for name in behind}
        ended = seen_in(view, Phase.PREDICT).read()
        found, over, size = list[tuple[Tensor, Tensor]](), 0.0, 0.0
        for number, (message, moment) in enumerate(zip(channel.messages(), course, strict=False)):
            rows, after = latest(ended[0], ended[1].flatten(1).double(), message.batch.rows)
            if not torch.equal(rows, moment.rows.cpu()):
                raise Inapplicable("needs the first epoch's messages: train with --keep ends or all")
            first = {name: affine(view.hints.course[name][number].bottom, view.hints.shapes[name]) for name in behind}
            weights = torch.cat([last[name][0] - first[name][0] for name in behind])
            bias = sum((last[name][1] - first[name][1] for name in behind), torch.zeros(()))
            change = after - message.payload.flatten(1).double() - bias
            if change.shape[1] != weights.shape[1]:
                raise Inapplicable("what is opened is not the sum of the bottoms")
            solved = change @ torch.linalg.pinv(weights, rtol=SMALL)
            found.append((rows, solved))
            over, size = over + float((solved @ weights - change).pow(2).sum()), size + float(change.pow(2).sum())
        if over > ODD**2 * size:
            raise Inapplicable("what is opened does not follow from the bottoms' weights alone")
        start = sum(prod(view.hints.shapes[name]) for name in behind[: behind.index(view.victim)])
        held = torch.cat([values for _, values in found])[:, start : start + prod(view.hints.shapes[view.victim])]
        return torch.cat([rows for rows, _ in found]), held


def seen_in(view: View, phase: Phase) -> Channel:
    """What was opened to the attacker in a phase: sums, else the victim's embeddings."""
    for channel in view.channels:
        if channel.kind is Kind.SUM and channel.phase is phase and len(channel):
            return channel
    if any(channel.kind is Kind.CIPHER for channel in view.channels):
        raise Inapplicable("embeddings cross encrypted, and nothing is opened")
    channel = view.channel(Kind.EMBEDDING, phase, peer=view.victim)
    if not channel.read()[1].is_floating_point():
        raise Inapplicable("embeddings cross under masks")
    return channel


def epochs_of(channel: Channel, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """The rows that were opened in every kept epoch, sorted, and the numbers: (epochs, rows, width)."""
    epochs = sorted(set(channel.entries["epoch"].tolist()))
    parts = [channel.read(epoch)[:2] for epoch in epochs]
    rows = wanted.sort().values
    for seen, _ in parts:
        rows = rows[torch.isin(rows, seen)]
    return rows, torch.stack([latest(seen, values.flatten(1).double(), rows)[1] for seen, values in parts])


def own_columns(view: View, rows: Tensor) -> Tensor:
    """The attacker's columns of some rows, flat; none if it holds none."""
    features = view.own[view.attacker].features
    if features is None:
        return torch.empty(len(rows), 0, dtype=torch.float64)
    if isinstance(features, SparseRows):
        raise Inapplicable("dense-only")
    return features.index_select(0, rows.to(features.device)).flatten(1).double().cpu()


@torch.no_grad()
def affine(bottom: nn.Module, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """W and b of a bottom that says x W + b."""
    device = next((p.device for p in bottom.parameters()), torch.device("cpu"))
    unit = torch.cat([torch.zeros(1, prod(shape)), torch.eye(prod(shape)), torch.ones(1, prod(shape))])
    try:
        with Stream(0, "affine", device=device).scope():  # it may draw numbers of its own
            out = copy.deepcopy(bottom).eval()(unit.view(-1, *shape).to(device)).flatten(1).double().cpu()
    except (AttributeError, IndexError, RuntimeError, TypeError) as error:
        raise Inapplicable("linear bottoms only") from error
    bias, weights = out[0], out[1:-1] - out[0]
    if float((weights.sum(dim=0) + bias - out[-1]).abs().max()) > 1e-4 * float(1 + out.abs().max()):
        raise Inapplicable("linear bottoms only")
    return weights, bias
