"""GradPerturb: blur a gradient along what it would have been for each label."""

from typing import ClassVar

import torch
from torch import Tensor

from cutlayer._validate import positive
from cutlayer.blocks.sign import laplace_like
from cutlayer.defence import Course, Defence, Local, Place, Role, Setting
from cutlayer.errors import ConfigError
from cutlayer.privacy import Guarded, Observer, Privacy


class GradPerturb(Defence):
    """Send g_y + sum over classes c of u_c g_c, with g_c the gradient had the label been c, and u_c ~ Lap(2 / epsilon).

    The draws u are fresh for each row, class, message and feature party; `epsilon` is that of one message. For
    cross-entropy g_c is J^T (p - e_c) / B, with p the top's probabilities and J its derivative, so the sum is J^T
    ((sum of u) p - u) / B: one more backward pass, not one per class. All that is sent of a label y is then e_y + u,
    a one-hot vector with Laplace noise. With batch norm in the top, rows depend on each other: all rows' noise then
    flows back together, and what a row sends holds some of that of the others; the guarantee is the same. Soft labels
    (a row of weights per class) stand in place of e_y. The label party's own update stays clean, as in VFLAIR; the
    paper covers weights too.

    Protects: labels; the label party applies it.
    Guarantee: none for a run. One message, given the top as it is, is epsilon-private of each label of its batch; but
    the top is trained on the true labels without noise and shapes all messages, other rows' too.
    Does not hide: what is left when noise is averaged over epochs; a term that another defence adds to the label
    party's loss; features.
    Specification: baselines, section 10.
    Paper: Yang et al., Differentially Private Label Protection in Split Learning (arXiv:2203.02073), TPSL; as
    compared in VFLAIR (arXiv:2310.09827) and FedAdOb (arXiv:2406.01085).
    """

    strengths: ClassVar[tuple[str, ...]] = ("epsilon=5.0", "epsilon=2.0", "epsilon=1.0")

    def __init__(self, *, epsilon: float = 1.0) -> None:
        positive("epsilon", epsilon)
        self.epsilon = epsilon

    def labels(self, labels: Tensor, setting: Setting) -> Tensor:
        """Refuse a task without classes, before it is trained."""
        if setting.role is Role.LABEL_PARTY and setting.classes == 0:
            raise ConfigError("Expected classes to hide, got a regression task; leave grad-perturb out.")
        return labels

    def protect(self, payload: Tensor, local: Local) -> Tensor:
        """Blur gradients; leave everything else alone."""
        if local.place is not Place.GRADIENT:
            return payload
        if local.retrace is None or local.outputs is None:
            return torch.zeros_like(payload)  # never the clean gradient
        noise = laplace_like(local.outputs, 2 / self.epsilon, local.rng)
        mixed = noise.sum(dim=1, keepdim=True) * local.outputs.softmax(dim=1) - noise
        return payload + local.retrace(mixed / len(mixed))

    def privacy(self, course: Course) -> Privacy:
        """None is stated: the top, trained on clean labels, shapes all messages."""
        reason = "the top is trained on clean labels"
        return Privacy("grad-perturb", Guarded.LABEL, Observer.FEATURE_PARTIES, None, reason=reason)
