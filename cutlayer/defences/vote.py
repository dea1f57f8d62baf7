"""Vote: send one letter per row, as many letters as there are classes, and nothing else."""

from collections.abc import Mapping
from math import log2
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from cutlayer._validate import non_negative
from cutlayer.blocks.codebook import check_codes
from cutlayer.blocks.sign import Normalised
from cutlayer.defence import Course, Defence, Local, Place, Setting, Subject
from cutlayer.errors import ConfigError, ProtocolError
from cutlayer.wire import Encoding


class Vote(Defence):
    """Send for each row the place of its largest number, one of as many as there are classes.

    The message is +1 at that place and -1 elsewhere.
    Bottoms end in batch norm and are as wide as there are classes. Backward, a message counts as 2 softmax - 1, so a
    bottom is taught by the gradients as sent. The label party adds `pull` times the share of wrong votes to its
    loss, which makes the letter the party's own vote for the class; with `pull=0` the letter is what serves the top
    best, and says more of the columns. Predicting a row again repeats its letter: there is no noise to average.

    Protects: features; each feature party votes, the label party charges for wrong votes.
    Guarantee: a message takes one of as many values as there are classes, so it tells at most log2(classes) bits about
    its row, to any attack; all predictions of the row under one model together tell no more. Every epoch of training
    adds a message of as many bits about each training row. The models are taken as given.
    Does not hide: the class, as far as the party's columns tell it, and with few bits whatever column goes with the
    class; labels: a party that sees its own votes and gradients reads them.
    Specification: none; ours.
    Paper: ours, after Qiu et al., HashVFL (arXiv:2212.00325): one letter in place of a code of bits, without target
    codes that all know.
    """

    strengths: ClassVar[tuple[str, ...]] = ("pull=0.0", "pull=0.3", "pull=1.0")

    def __init__(self, *, pull: float = 0.3) -> None:
        non_negative("pull", pull)
        self.pull = pull

    def width(self, width: int, classes: int) -> int:
        """A number per class."""
        if not classes:
            raise ConfigError("Expected classes to vote for, got a regression task; leave vote out.")
        return classes

    def model(self, model: nn.Module, setting: Setting) -> nn.Module:
        """End each bottom in batch norm, so that no letter is out of reach from the start."""
        if setting.subject is not Subject.BOTTOM:
            return model
        return nn.Sequential(model, Normalised(self.width(0, setting.classes)))

    def protect(self, payload: Tensor, local: Local) -> Tensor:
        """Send the vote; leave gradients alone."""
        return vote(payload) if local.place is Place.EMBEDDING else payload

    def penalty(self, embedding: Tensor, local: Local) -> Tensor | None:
        """At the label party: `pull` times the share of rows whose vote is not their class."""
        if local.labels is None or not self.pull or embedding.shape[1:] != (local.classes,):
            return None
        labels = local.labels if local.labels.is_floating_point() else one_hot(local.labels, local.classes)
        return self.pull * (1 - ((embedding + 1) / 2 * labels).sum(dim=1)).mean()

    def inspect(self, arrived: Mapping[str, Tensor], own: Tensor | None, local: Local) -> Tensor | None:
        """Refuse what is not one vote per row."""
        check_codes(arrived, self.width(0, local.classes))
        for name, sent in arrived.items():
            if not bool(((sent > 0).sum(dim=1) == 1).all()):
                raise ProtocolError(f"Expected one vote per row from {name}, got none or several.")
        return None

    def encoding(self, place: Place) -> Encoding | None:
        """Votes cross as bits."""
        return Encoding.BITS if place is Place.EMBEDDING else None

    def notes(self, course: Course) -> tuple[str, ...]:
        """Say how many bits about a row were sent at most."""
        bits = log2(max(course.classes, 1))
        return (
            f"vote: at most {bits:.2f} bits about a row in all its predictions, and for a training row "
            f"{course.epochs * bits:.1f} more, in {course.epochs} epochs",
        )


def vote(values: Tensor) -> Tensor:
    """+1 at each row's largest number (the first of them), else -1; NaN if a row has one. Backward: 2 softmax - 1."""
    rows = values.flatten(1)
    letters = 2 * one_hot(rows.argmax(dim=1), rows.shape[1]).to(rows) - 1
    letters = torch.where(rows.isnan().any(dim=1, keepdim=True), torch.nan, letters)
    soft = 2 * rows.softmax(dim=1)
    sent: Tensor = (letters + (soft - soft.detach())).view_as(values)
    return sent
