import pytest

from pegboard.errors import CircuitOpenError, ServerAuthenticationError
from pegboard.upstream.backoff import LONGEST_PAUSE
from pegboard.upstream.circuit_breaker import FAILURES_TO_OPEN, CircuitBreaker
from tests.upstream.test_backoff import Clock


def test_callers_are_refused_only_after_several_failures_and_only_for_a_while() -> None:
    clock = Clock()
    breaker = CircuitBreaker(clock=clock)
    for _ in range(FAILURES_TO_OPEN - 1):
        breaker.failed()
        assert not breaker.is_open
    breaker.failed()
    assert breaker.is_open
    clock.now += LONGEST_PAUSE
    assert not breaker.is_open
    breaker.failed()
    assert breaker.is_open


def test_one_success_forgives_everything() -> None:
    breaker = CircuitBreaker(clock=Clock())
    for _ in range(FAILURES_TO_OPEN):
        breaker.failed()
    breaker.succeeded()
    assert (breaker.failures, breaker.pause, breaker.is_open) == (0, 0, False)


def test_an_open_circuit_says_when_the_server_is_tried_again() -> None:
    breaker = CircuitBreaker(clock=Clock())
    breaker.check("mail", tool="send", failure=None, last_error=None)
    for _ in range(FAILURES_TO_OPEN):
        breaker.failed()
    with pytest.raises(CircuitOpenError) as refused:
        breaker.check("mail", tool="send", failure=None, last_error="It is gone.")
    assert refused.value.retry_in == breaker.pause
    login = ServerAuthenticationError("Log in.", server="mail")
    with pytest.raises(ServerAuthenticationError):
        breaker.check("mail", tool="send", failure=login, last_error="Log in.")
