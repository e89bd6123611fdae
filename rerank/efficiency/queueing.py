"""The waiting line with Poisson arrivals and one server of constant service time (M/D/1).

What the latency harness is checked with: a service of known time has percentiles that are known.
"""

from __future__ import annotations

import math


def waiting_time_cdf(seconds: float, rate: float, service: float) -> float:
    """P(wait <= seconds) of an M/D/1 line in its steady state (Erlang 1909, Crommelin 1932).

    (1 - rho) * sum over k <= t/D of (-x_k)^k / k! * e^(x_k), x_k = rate (t - k D); its terms
    alternate, so it is exact to about e^(rate t) times 1e-16.
    """
    if seconds < 0:
        return 0.0
    terms = []
    for k in range(int(seconds / service) + 1):
        x = rate * (seconds - k * service)
        # a power of 0 to the 0 is 1: the server is idle
        terms.append(
            (-1.0) ** k * math.exp(x + k * math.log(x) - math.lgamma(k + 1))
            if x > 0
            else float(k == 0)
        )
    return (1 - rate * service) * math.fsum(terms)


def latency_quantile(level: float, rate: float, service: float) -> float:
    """The latency (wait and service) that a share `level` of the requests does not exceed."""
    low, high = 0.0, service
    if waiting_time_cdf(0.0, rate, service) >= level:
        return service
    while waiting_time_cdf(high, rate, service) < level:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if waiting_time_cdf(middle, rate, service) < level else (low, middle)
        )
    return high + service
