import pytest

from pegboard.gateway import RpcError
from pegboard.gateway.request import parts_in


def test_an_answer_in_too_many_parts_is_refused() -> None:
    assert parts_in([{}] * 10_000) is not None
    assert parts_in({"a": 1}) is None
    with pytest.raises(RpcError, match="10001 parts"):
        parts_in([{}] * 10_001)
