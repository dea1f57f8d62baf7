"""Sides take turns, the first turn does not count, and the fastest of the others does."""

from cutlayer.bench.parts.timing import core_seconds, fastest


def test_the_fastest_turn_after_the_first_counts():
    clock, calls = iter([0, 0, 0, 5, 0, 4, 0, 3, 0, 8]), []
    sides = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    progress = []
    best = fastest(sides, 2, lambda *step: progress.append(step), lambda: next(clock))
    assert best == {"a": 3, "b": 4} and calls == ["a", "b"] * 3
    assert progress == [(1, 3, ""), (2, 3, ""), (3, 3, "")]


def test_time_on_cores_grows():
    start = core_seconds()
    sum(number * number for number in range(10**6))
    assert core_seconds() > start
