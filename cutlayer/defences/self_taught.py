"""Self-taught: the label party sends no gradient; feature parties teach their bottoms without labels."""

from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from cutlayer._validate import one_of
from cutlayer.blocks.sparse import SparseRows
from cutlayer.defence import Course, Defence, Local, Place
from cutlayer.errors import ConfigError
from cutlayer.privacy import Guarded, Observer, Privacy

Teach = Literal["spread", "alike", "nothing"]


class SelfTaught(Defence):
    """Send gradients of zero, and let each feature party train its bottom to spread its own embeddings.

    A gradient is made of its row's label, and noise, mixing or fewer directions leave enough of it to read, or too
    little to learn from. But labels are needed on one side of the cut only: the top can learn them from embeddings
    that were made without. So that these keep what the top may need, a feature party minimises
    |C - I|^2 / width, where C is the covariance of its embeddings in the batch and I the identity: every number of an
    embedding varies, and no two say the same (`teach=spread`). Batches should be larger than embeddings are wide.
    `teach=alike` adds 1 - CKA of embeddings and inputs, so that rows that are alike stay alike: better for
    pictures. `teach=nothing` leaves bottoms as they began, which loses more, the narrower embeddings are.
    Top and the label party's own bottom are trained as usual, with the true labels.

    Protects: labels; the label party sends zeros, each feature party teaches its own bottom.
    Guarantee: 0-differential privacy of all labels together, against feature parties: what they receive in training,
    their bottoms and what they send are the same, bit for bit, whatever the labels are. It holds for cuts that send
    one gradient back; a cut that trains layers between the parties (encrypted-layer) tells what that tells.
    Does not hide: what a party's own columns tell about a label; the number of epochs, if early stopping chose it;
    predictions, to those who are shown them; features: embeddings that keep everything hold more of them than
    embeddings that were made for one task.
    Specification: vflrecon, section 8; ours.
    Paper: ours, against gradient-clusters; the loss is after Zbontar et al., Barlow Twins (arXiv:2103.03230), and
    Bardes et al., VICReg (arXiv:2105.04906), of whose terms it keeps the one that needs no second view; CKA is
    that of Kornblith et al. (arXiv:1905.00414).
    """

    strengths: ClassVar[tuple[str, ...]] = ("teach=alike", "teach=spread")  # equally private

    def __init__(self, *, teach: Teach = "spread") -> None:
        one_of("teach", teach, get_args(Teach))
        self.teach = teach

    @property
    def label_path(self) -> bool:
        """Its penalty is the feature party's, without labels."""
        return False

    def protect(self, payload: Tensor, local: Local) -> Tensor:
        """Send zeros in place of gradients; leave everything else alone."""
        return torch.zeros_like(payload) if local.place is Place.GRADIENT else payload

    def penalty(self, embedding: Tensor, local: Local) -> Tensor | None:
        """At a feature party: how far its embeddings are from being spread, and from being alike where inputs are."""
        if self.teach == "nothing" or local.labels is not None or len(embedding) < 2:
            return None
        loss = unevenness(embedding.flatten(1))
        if self.teach == "spread":
            return loss
        if local.inputs is None or isinstance(local.inputs, SparseRows) or not local.inputs.is_floating_point():
            raise ConfigError("Expected dense columns of numbers for self-taught:teach=alike; set teach=spread.")
        return loss + 1 - likeness(embedding.flatten(1), local.inputs.flatten(1).to(embedding.dtype))

    def privacy(self, course: Course) -> Privacy:
        """How much privacy of labels the run spends: none, unless another defence or the cut sends something else."""
        at = next((place for place, defence in enumerate(course.defences) if defence is self), 0)
        after = [defence.describe() for defence in course.defences[at + 1 :] if defence.label_path]
        reason = f"{after[0]} gives labels another way" if after else ""
        if not course.plain_cut:
            reason = "the cut sends more than gradients"
        epsilon = None if reason else 0.0
        return Privacy("self-taught", Guarded.LABEL, Observer.FEATURE_PARTIES, epsilon, reason=reason)


def unevenness(embedding: Tensor) -> Tensor:
    """|C - I|^2 / width, with C the covariance of the embedding's numbers over the rows."""
    centred = embedding - embedding.mean(dim=0)
    covariance = centred.T @ centred / (len(embedding) - 1)
    return (covariance - torch.eye(len(covariance)).to(covariance)).square().sum() / len(covariance)


def likeness(embedding: Tensor, inputs: Tensor) -> Tensor:
    """Linear CKA: the cosine between the rows' centred inner products here and there, from 0 to 1."""
    here, there = (part - part.mean(dim=0) for part in (embedding, inputs))
    here, there = here @ here.T, there @ there.T
    cosine: Tensor = (here * there).sum() / (here.norm() * there.norm() + 1e-9)
    return cosine
