"""Submitter: a feature party that sends, in prediction, what an attack prepared."""

from collections.abc import Mapping

import torch
from torch import Tensor

from cutlayer.defence import Place
from cutlayer.message import Batch, Talk
from cutlayer.party import FeatureParty


class Submitter(FeatureParty):
    """Send prepared rows in prediction, in place of what the bottom computes."""

    def __init__(self, honest: FeatureParty, submissions: Mapping[int, Tensor]) -> None:
        vars(self).update(vars(honest))
        self.submissions = submissions

    def talk(self, batch: Batch) -> Talk[None]:
        """Send the prepared rows."""
        payload = torch.stack([self.submissions[row] for row in batch.rows.tolist()]).to(batch.rows.device)
        encoding = self.encodings[Place.EMBEDDING]
        yield from self.cut.offer(self.name, self.roster, batch, payload, encoding)
