"""What `make run` shows: servers connected and called, then the registry they hang in."""

import anyio

from examples import hub_demo, registry_demo


async def main() -> None:
    """Run both demos."""
    await hub_demo.main()
    print("\n---\n")
    await registry_demo.main()


if __name__ == "__main__":
    anyio.run(main)
