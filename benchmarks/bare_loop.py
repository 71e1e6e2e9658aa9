"""The bare SDK, for comparison: python bare_loop.py URL CALLS AT_A_TIME PROMPTS. Its default client, and nothing else."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI


async def main(url: str, calls: int, at_a_time: int, prompts: list[Any]) -> None:
    """Make the calls, by so many workers."""
    client = AsyncOpenAI(base_url=url, api_key="none")
    numbers = itertools.count()

    async def work() -> None:
        while (number := next(numbers)) < calls:
            messages = prompts[number % len(prompts)]
            await client.chat.completions.create(
                model="stub", messages=messages, temperature=1.0, top_p=1.0, max_tokens=1024
            )

    await asyncio.gather(*(work() for _ in range(at_a_time)))


asyncio.run(
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), json.loads(Path(sys.argv[4]).read_text()))
)
