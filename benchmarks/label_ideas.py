"""Ways to hide labels that failed, and yardsticks: what benchmarks/label_defences.py measures beside the library."""

import torch
from torch import Generator, Tensor
from torch.nn.functional import one_hot

from cutlayer.attack import Form, Guess
from cutlayer.attacks.gradient_clusters import Epoch, GradientClusters, directions, fit
from cutlayer.defence import Defence, Local, Place, Role, Setting
from cutlayer.message import Kind
from cutlayer.rng import generator
from cutlayer.view import View


class OnGradients(Defence):
    """What failed: change gradients before they are sent."""

    def protect(self, payload: Tensor, local: Local) -> Tensor:
        """Change gradients; leave everything else alone."""
        return self.change(payload, local) if local.place is Place.GRADIENT else payload

    def change(self, payload: Tensor, local: Local) -> Tensor:
        """What to send instead."""
        raise NotImplementedError


class Groups(OnGradients):
    """Every row gets the mean gradient of a random group of its batch."""

    def __init__(self, *, size: int = 4) -> None:
        self.size = size

    def change(self, payload: Tensor, local: Local) -> Tensor:
        """Average within groups that are drawn anew."""
        order = local.rng.permutation(len(payload))
        sent = torch.empty_like(payload)
        for group in order.split(self.size):
            sent[group] = payload[group].mean(dim=0)
        return sent


class OneLine(OnGradients):
    """All gradients are projected to one line, drawn once."""

    def change(self, payload: Tensor, local: Local) -> Tensor:
        """Keep the part along the line."""
        line = torch.randn(payload.shape[1], generator=generator(local.private_seed, "line"))
        line = line / line.norm()
        return torch.outer(payload @ line, line)


class FewRows(OnGradients):
    """A tenth of the rows, always the same, get their gradient; the others get zeros."""

    def change(self, payload: Tensor, local: Local) -> Tensor:
        """Silence most rows."""
        drawn = torch.rand(10**6, generator=generator(local.private_seed, "few"))[local.rows]
        return payload * (drawn < 0.1)[:, None]


class Smooth(Defence):
    """Labels are smoothed: a tenth of the weight is on the true class, the rest is spread over all."""

    def labels(self, labels: Tensor, setting: Setting) -> Tensor:
        """Weights per class."""
        if setting.role is not Role.LABEL_PARTY:
            return labels
        return 0.1 * one_hot(labels, setting.classes).float() + 0.9 / setting.classes


class Alone(Defence):
    """A yardstick: embeddings of zero, so that the label party is left with its own columns."""

    def protect(self, payload: Tensor, local: Local) -> Tensor:
        """Send nothing."""
        return payload * 0 if local.place is Place.EMBEDDING else payload


class Pooled(GradientClusters):
    """Gradient clusters with the same components in all epochs: fewer to learn, which helps where there is noise."""

    def run(self, view: View, rng: Generator) -> Guess:
        """Take all epochs for one."""
        rows, gradients, _ = view.channel(Kind.GRADIENT, peer=view.attacker).read()
        kept, place = torch.unique(rows, return_inverse=True)
        seed = int(torch.randint(2**31, (), generator=rng))
        epoch = Epoch(directions(gradients.flatten(1).double().numpy()), place.numpy())
        best = fit([epoch], self._prior(view, kept, seed), seed)
        return Guess(kept, torch.from_numpy(best.argmax(axis=1)), Form.CLASSES)
