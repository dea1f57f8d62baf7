"""Memory: what a cut remembers between batches, saved and restored with the party's models."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from cutlayer.crypto import Residues


class Memory(nn.Module):
    """Matrices of residues by name. They are buffers, so no optimiser touches them.

    A cut learns names and sizes only when the parties meet, after this module was handed out;
    so it starts empty, and loading a state takes over whatever matrices it holds.
    """

    def find(self, name: str) -> Residues | None:
        """The matrix of this name, if there is one."""
        matrix = self._buffers.get(name)
        return None if matrix is None else matrix.numpy()

    def put(self, name: str, residues: Residues) -> None:
        """Keep a matrix, in place of the one of this name."""
        self._buffers.pop(name, None)
        self.register_buffer(name, torch.from_numpy(residues.copy()))

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Tensor],
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        self._buffers.clear()
        for key, tensor in state_dict.items():
            if tensor.dtype is not torch.int64 or tensor.ndim != 2:
                error_msgs.append(f"expected {key} to be a matrix of int64, got {tensor.ndim}-d {tensor.dtype}")
            else:
                self.put(key.removeprefix(prefix), tensor.cpu().numpy())
