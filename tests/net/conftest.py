"""Federations of real processes, cleaned up after every test."""

import pytest

from tests.helpers.processes import Federation, Nursery


@pytest.fixture(scope="session")
def nursery():
    made = Nursery()
    yield made
    made.close()


@pytest.fixture
def federate(nursery, tmp_path):
    """Make a federation in a folder of its own: `federate(parties=3, epochs=5)`."""
    made = []

    def make(**settings):
        made.append(Federation(tmp_path / f"federation{len(made)}", nursery, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()
