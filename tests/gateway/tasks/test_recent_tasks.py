"""Tasks that ended lately, in memory."""

from pegboard.gateway.tasks.recent_tasks import RecentTasks
from pegboard.gateway.tasks.record import TaskRecord, new_task_id
from pegboard.model.task import TaskStatus


def task(size: int = 10) -> TaskRecord:
    return TaskRecord(
        id=new_task_id(),
        tenant="default",
        subject="a",
        tool="t",
        created=0.0,
        updated=0.0,
        ttl=10.0,
        size=size,
        status=TaskStatus.COMPLETED,
    )


def test_a_few_small_ones_are_kept_and_the_oldest_goes_first() -> None:
    recent = RecentTasks()
    made = [task() for _ in range(257)]
    for it in made:
        recent.keep(it, {"content": []})
    assert len(recent) == 256
    assert recent.record(made[0].id) is None
    assert recent.record(made[1].id) is made[1]
    assert recent.result(made[1].id) == {"content": []}
    large = task(size=100_000)
    recent.keep(large, {})
    assert recent.record(large.id) is None
    recent.forget([made[1].id, "unknown"])
    assert recent.record(made[1].id) is None
    assert recent.result(made[1].id) is None
