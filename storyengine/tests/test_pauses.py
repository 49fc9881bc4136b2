import asyncio
from collections.abc import AsyncGenerator

from asgiref.sync import async_to_sync

from storyengine.pauses import with_pauses


def test_what_comes_is_handed_on_and_silence_is_filled() -> None:
    gate = asyncio.Event()

    async def source() -> AsyncGenerator[str]:
        yield "one"
        await gate.wait()
        yield "two"

    async def scenario() -> list[str | None]:
        parts = []
        async with asyncio.timeout(20):
            async for part in with_pauses(source(), 0.01):
                parts.append(part)
                if part is None:
                    gate.set()
        return parts

    first, *silence, last = async_to_sync(scenario)()
    assert (first, last) == ("one", "two")
    assert silence
    assert not any(silence)


def test_leaving_in_the_silence_closes_the_source() -> None:
    ended = []

    async def source() -> AsyncGenerator[str]:
        try:
            await asyncio.Event().wait()
            yield "never"
        finally:
            ended.append(True)

    async def scenario() -> None:
        parts = with_pauses(source(), 0.01)
        assert await anext(parts) is None
        await parts.aclose()

    async_to_sync(scenario)()
    assert ended == [True]
