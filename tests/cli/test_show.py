"""Progress without a terminal: a line a minute, with what is done and how long the rest will take."""

import time

import pytest

from cutlayer.cli import show


def test_a_line_says_what_is_done_and_how_long_the_rest_takes():
    now = [0.0]
    pace = show.Pace("auditing", clock=lambda: now[0])
    now[0] = 60
    assert pace.line() == "auditing: under way for 1 min"
    pace.update(10, 50, "")  # of an earlier call
    assert pace.line() == "auditing: 10 of 50 done after 1 min"
    pace.update(14, 50, "best so far: hash")
    now[0] = 120
    assert pace.line() == "auditing: 14 of 50 done after 2 min, about 18 min to go; best so far: hash"
    pace.update(50, 50, "")
    assert pace.line().endswith("50 of 50 done after 2 min, about 0 s to go")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59, "59 s"), (59.7, "1 min"), (3540, "59 min"), (12000, "3 h 20 min")]
)
def test_durations(seconds, text):
    assert show.duration(seconds) == text


def test_without_a_terminal_lines_come_even_while_nothing_is_reported(monkeypatch, capsys):
    monkeypatch.setattr(show, "LINE_SECONDS", 0.01)
    with show.progress_bar("auditing") as progress:
        progress(1, 3, "")
        deadline, text = time.monotonic() + 30, ""
        while text.count("auditing: 1 of 3 done") < 2 and time.monotonic() < deadline:
            text += capsys.readouterr().err
            time.sleep(0.01)
    assert text.count("auditing: 1 of 3 done") >= 2
    capsys.readouterr()
    time.sleep(0.05)
    assert capsys.readouterr().err == ""  # silent when the work is over


def test_a_short_command_prints_no_line(capsys):
    with show.progress_bar("auditing") as progress:
        progress(1, 1, "")
    assert capsys.readouterr().err == ""
