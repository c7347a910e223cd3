from hypothesis import given
from hypothesis import strategies as st

from pegboard.policies.fair_share import FairShare, LimitUse

HOLDERS = st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"))


def filled(shares: FairShare, holder: tuple[str, ...]) -> int:
    """Take as much as a holder gets."""
    count = 0
    while shares.admits(holder):
        shares.add(holder)
        count += 1
    return count


def test_one_key_gets_half_one_tenant_two_thirds_and_others_find_room() -> None:
    shares = FairShare("things", 300)
    assert filled(shares, ("team", "first")) == 150
    others = sum(filled(shares, ("team", f"key-{it}")) for it in range(100))
    assert 40 <= others <= 51
    assert filled(shares, ("neighbour", "key")) >= 40
    assert shares.admits(("a third", "key"))


def test_where_there_is_one_tenant_a_key_gets_two_thirds() -> None:
    assert filled(FairShare("things", 300), ("key",)) == 200


def test_the_last_place_is_for_a_holder_of_nothing() -> None:
    shares = FairShare("things", 1)
    assert filled(shares, ("team", "key")) == 1
    shares = FairShare("things", 2)
    assert filled(shares, ("team", "key")) == 1
    assert filled(shares, ("neighbour", "key")) == 1
    assert not shares.admits(("a third", "key"))


def test_what_is_larger_than_the_rest_is_not_admitted() -> None:
    shares = FairShare("bytes", 100)
    shares.add(("team",), 40)
    assert shares.admits(("neighbour",), 60)
    assert not shares.admits(("neighbour",), 61)


def test_the_largest_key_of_the_largest_tenant_gives_way() -> None:
    shares = FairShare("things", 10)
    for holder, amount in {("a", "x"): 3, ("a", "y"): 2, ("b", "x"): 4}.items():
        shares.add(holder, amount)
    assert shares.largest() == ("a", "x")
    assert shares.largest(("b", "x")) == ("b", "x")
    assert shares.largest(("c", "x")) == ("a", "x")
    assert shares.use() == LimitUse(
        name="things", used=9, limit=10, largest=("a", "x"), largest_used=3
    )


def test_without_holders_none_is_the_largest() -> None:
    assert FairShare("things", 1).largest(("a", "x")) is None


@given(st.lists(st.tuples(HOLDERS, st.integers(1, 5))))
def test_what_was_taken_and_given_back_leaves_nothing(
    taken: list[tuple[tuple[str, str], int]],
) -> None:
    shares = FairShare("things", 1000)
    for holder, amount in taken:
        shares.add(holder, amount)
    assert shares.used == sum(amount for _, amount in taken)
    for holder, amount in taken:
        shares.remove(holder, amount)
    assert (shares.used, shares.holders, shares.largest()) == (0, 0, None)
