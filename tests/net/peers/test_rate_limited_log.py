"""A log that a stranger cannot flood."""

from cutlayer.net.peers import rate_limited_log
from cutlayer.net.peers.rate_limited_log import MINUTE, RateLimitedLog


def test_there_is_one_line_a_minute_about_each_peer():
    lines, now = [], [0.0]
    log = RateLimitedLog(lines.append, lambda: now[0])
    for moment in (0.0, 1.0, MINUTE - 1, MINUTE, MINUTE + 1):
        now[0] = moment
        log("shop", f"shop at {moment:.0f}")
    log("cafe", "cafe")
    assert lines == ["shop at 0", "shop at 60", "cafe"]


def test_when_too_many_are_remembered_new_ones_wait_until_old_ones_are_forgotten(monkeypatch):
    monkeypatch.setattr(rate_limited_log, "PEER_LIMIT", 2)
    lines, now = [], [0.0]
    log = RateLimitedLog(lines.append, lambda: now[0])
    for peer in ("a", "b", "c"):
        log(peer, peer)
    assert lines == ["a", "b"]
    now[0] = MINUTE + 1
    log("c", "c")
    assert lines == ["a", "b", "c"]
