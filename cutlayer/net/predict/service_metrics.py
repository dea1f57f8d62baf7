"""Service metrics: counts and times of the online service, in the text format that Prometheus reads."""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
OUTCOMES = ("predicted", "missing", "flagged")


class ServiceMetrics:
    """Counts since the process began. Any thread may add to them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[int] = Counter()  # by status code
        self._rows: Counter[str] = Counter()
        self._buckets = [0] * (len(BOUNDS) + 1)
        self._seconds = 0.0

    def count_request(self, code: int, seconds: float) -> None:
        """Count an answered request."""
        with self._lock:
            self._requests[code] += 1
            self._buckets[bisect_left(BOUNDS, seconds)] += 1
            self._seconds += seconds

    def count_rows(self, predicted: int, missing: int, flagged: int) -> None:
        """Count the rows of a request."""
        with self._lock:
            self._rows.update({"predicted": predicted, "missing": missing, "flagged": flagged})

    def text(self, connected: Mapping[str, bool]) -> str:
        """All metrics, and which parties are connected now."""
        with self._lock:
            requests, rows = dict(self._requests), dict(self._rows)
            buckets, seconds = list(self._buckets), self._seconds
        lines = _head("cutlayer_requests_total", "counter", "Requests for predictions, by status code.")
        lines += [f'cutlayer_requests_total{{code="{code}"}} {count}' for code, count in sorted(requests.items())]
        lines += _head("cutlayer_errors_total", "counter", "Requests that were answered with an error.")
        lines += [f"cutlayer_errors_total {sum(count for code, count in requests.items() if code >= 400)}"]
        lines += _head("cutlayer_rows_total", "counter", "Rows predicted, missing at a party, flagged as odd.")
        lines += [f'cutlayer_rows_total{{outcome="{outcome}"}} {rows.get(outcome, 0)}' for outcome in OUTCOMES]
        lines += _histogram(buckets, seconds)
        lines += _head("cutlayer_party_connected", "gauge", "1 for a party that is connected, else 0.")
        lines += [f'cutlayer_party_connected{{party="{party}"}} {int(here)}' for party, here in connected.items()]
        return "\n".join(lines) + "\n"


def _histogram(buckets: list[int], seconds: float) -> list[str]:
    lines, total = _head("cutlayer_request_seconds", "histogram", "From a request to its answer."), 0
    for bound, count in zip([*map(str, BOUNDS), "+Inf"], buckets, strict=True):
        total += count
        lines.append(f'cutlayer_request_seconds_bucket{{le="{bound}"}} {total}')
    return [*lines, f"cutlayer_request_seconds_sum {seconds:.6f}", f"cutlayer_request_seconds_count {total}"]


def _head(name: str, kind: str, description: str) -> list[str]:
    return [f"# HELP {name} {description}", f"# TYPE {name} {kind}"]
