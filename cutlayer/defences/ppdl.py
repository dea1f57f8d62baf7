"""PPDL: choose the gradient entries to send by a noisy threshold, and blur those (privacy-preserving deep learning)."""

from math import ceil
from typing import ClassVar

import torch
from torch import Tensor

from cutlayer._validate import non_negative, positive, probability
from cutlayer.blocks.laplace_mechanism import laplace_on_grid
from cutlayer.defence import Course, Defence, Local, Place
from cutlayer.draws import STEPS
from cutlayer.privacy import Guarded, Observer, Privacy


class PPDL(Defence):
    """Send at most a `share` of a gradient's entries, chosen and blurred by the sparse vector technique.

    Of n entries c = share * n may be sent (rounded down, at least 1). Entries are clipped to [-bound, bound] and
    visited in random order. One whose size plus Lap(2 s1) reaches `threshold` plus Lap(s1) is sent: plus Lap(s2),
    and clipped again. The threshold's noise is fresh after each entry that is sent. The others are sent as 0.
    Here s1 = 2 c D / (8/9 epsilon), s2 = 2 c D / (2/9 epsilon), and D = 2 * bound is how far an entry can move.
    The parts of epsilon add up to 10/9 in writing but not in privacy: Lap(s2) costs half of its 2/9.

    `epsilon` is that of a whole message, all c entries together, so the noise grows with c: it is 18 c / epsilon
    times `bound`. With epsilon=1.8 and c = 100 that is a thousand times, and what is sent is signs drawn at random;
    noise and bound are of one size at epsilon = 18 c. `bound` and `threshold` are in units of the message as sent,
    whose entries carry a factor 1/B.

    Protects: labels; the label party applies it.
    Guarantee: epsilon-differential privacy of one message, whatever changes in the labels of its batch or in the top.
    Messages add up: through the top, which is trained without noise, a label touches all messages of a run, so a run
    spends epsilon times their number, to all feature parties. run.json states that sum. Noise is discrete: sizes move
    by half of D only, which leaves room for rounding.
    Does not hide: what that many messages tell together; features.
    Specification: baselines, section 8.
    Paper: Shokri and Shmatikov, Privacy-Preserving Deep Learning (CCS 2015), as a baseline of Fu et al., Label
    Inference Attacks Against Vertical Federated Learning (USENIX Security 2022). Theirs clip a value after noise only,
    so that nothing bounds how far it moves; here before as well. Fu et al.'s code takes D = 1, which is this with
    2 * bound times the epsilon, and where fewer than c entries reach the threshold it sends the others clean.
    """

    strengths: ClassVar[tuple[str, ...]] = ("epsilon=180000.0", "epsilon=1800.0", "epsilon=1.8")

    def __init__(
        self, *, epsilon: float = 1.8, bound: float = 1e-3, threshold: float = 1e-4, share: float = 0.1
    ) -> None:
        positive("epsilon", epsilon)
        positive("bound", bound)
        non_negative("threshold", threshold)
        positive("share", share)
        probability("share", share)
        self.epsilon = epsilon
        self.bound = bound
        self.threshold = threshold
        self.share = share

    def protect(self, payload: Tensor, local: Local) -> Tensor:
        """Choose and blur entries of gradients; leave everything else alone."""
        if local.place is not Place.GRADIENT or payload.numel() == 0:
            return payload
        entries = payload.flatten().clamp(-self.bound, self.bound)
        most = max(1, int(self.share * len(entries) + 1e-9))
        unit = 2 * most * (2 * self.bound) / self.epsilon
        choosing, blurring = unit * 9 / 8, unit * 9 / 2
        grid = min(choosing / STEPS, self.bound / 2)
        order = local.rng.permutation(len(entries)).to(entries.device)
        sizes = laplace_on_grid(entries.abs(), 2 * choosing, grid, local.rng)
        bars = laplace_on_grid(torch.full_like(entries[:most], self.threshold), choosing, grid, local.rng)
        sent = order[_reach(sizes[order], bars)]
        values = laplace_on_grid(entries[sent], blurring, 4 * grid, local.rng)
        out = torch.zeros_like(entries)
        out[sent] = values.clamp(-self.bound, self.bound).to(out)
        return out.view_as(payload)

    def privacy(self, course: Course) -> Privacy:
        """How much the run spends: all its messages, for the top carries a label into every one of them."""
        at = next((place for place, defence in enumerate(course.defences) if defence is self), 0)
        after = [defence.describe() for defence in course.defences[at + 1 :] if defence.label_path]
        reason = f"{after[0]} gives labels another way" if after else ""
        if not course.plain_cut:
            reason = "the cut sends more than gradients"
        messages = course.epochs * ceil(course.rows / course.batch_size) * course.feature_parties
        epsilon = None if reason else messages * self.epsilon
        return Privacy("ppdl", Guarded.LABEL, Observer.FEATURE_PARTIES, epsilon, reason=reason)


def _reach(sizes: Tensor, bars: Tensor) -> list[int]:
    """The places, in order, that reach the bar; after each the next bar is used, until there are none left."""
    places: list[int] = []
    left = iter(bars.tolist())
    bar = next(left)
    for place, size in enumerate(sizes.tolist()):
        if size >= bar:
            places.append(place)
            following = next(left, None)
            if following is None:
                break
            bar = following
    return places
