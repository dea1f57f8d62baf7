"""Aligning: only the alignment, as `cutlayer align` runs it. Every party keeps its result, and training takes it up."""

import os
from typing import Any

from cutlayer.errors import ConfigError, RunError
from cutlayer.net.party.member import Member
from cutlayer.net.peers.carrier import Regroup
from cutlayer.net.peers.meeting import Finished


class Aligning(Member):
    """One party's process. It meets the others, aligns ids with them, and stops when everybody has the result."""

    purpose = "align"

    def run(self) -> dict[str, Any]:
        """Align; how many rows are common, and what became of this party's ids."""
        try:
            if self.store.json("run") is not None:
                raise ConfigError(f"The run in {self.store.folder} is finished; choose another folder for a new one.")
            if self.source.ids is None:
                raise ConfigError(
                    f"Expected tables to align, got {self.run_.dataset}, whose rows are in order already."
                )
        except ConfigError:
            self.ledger.close()
            os.close(self._lock)
            raise
        return super().run()

    def _until_done(self) -> dict[str, Any]:
        while True:
            try:
                self.meeting.align()
                self._all_have_it()
                return self._aligned()
            except Regroup as anew:
                self.log(f"{anew.peer} started again: meeting once more.")
            except Finished:  # all had stored it before this process began
                self._leave()
                return self._aligned()

    def _all_have_it(self) -> None:
        """Nobody leaves before all have stored it."""
        if self.file.is_label_party:
            self.carrier.note("saved", self.post.peers)
            try:
                self.carrier.part(self.post.peers)
            except RunError as error:
                self.log(f"All have the alignment, though not all have heard so ({error})")
        else:
            self.post.tell(self.run_.label_party, "saved")
            self.carrier.note("done", [self.run_.label_party])
            self._leave()

    def _aligned(self) -> dict[str, Any]:
        ids = self.source.ids
        assert ids is not None
        if not self.meeting.is_aligned:
            raise RunError(f"{self.run_.label_party} has aligned, but {self.store.folder} holds no part of it.")
        return {
            "party": self.file.party.name,
            "run": self.run_.digest.hex(),
            "rows": len(self.store.rows()),
            "ids": {"usable": len(ids), "empty": ids.empty, "repeated": ids.repeated},
        }
