"""What several models answer to the prompts of a file, as a file that robin judges.

python3 answer.py prompts.jsonl gpt-6-luna gpt-5.4-mini > answers.jsonl

The models are asked where OPENAI_BASE_URL says (else at OpenAI), with the key in OPENAI_API_KEY. A prompt that cannot be
answered is said and left out, for all models: who is compared has answered the same prompts.
"""

import asyncio
import json
import sys
from pathlib import Path

from openai import AsyncOpenAI, OpenAIError

AT_A_TIME = 8


async def answered(client: AsyncOpenAI, model: str, prompt: str, free: asyncio.Semaphore) -> str:
    """What ``model`` says to ``prompt``."""
    async with free:
        reply = await client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": prompt}]
        )
    return reply.choices[0].message.content or ""


async def answer(prompts: list[str], models: list[str]) -> None:
    """Print a line for each prompt and model."""
    free = asyncio.Semaphore(AT_A_TIME)
    async with AsyncOpenAI(max_retries=5) as client:

        async def by_all(prompt: str) -> None:
            try:
                said = await asyncio.gather(
                    *(answered(client, model, prompt, free) for model in models)
                )
            except OpenAIError as error:
                print(f"left out ({error}): {prompt[:60]}", file=sys.stderr)
                return
            for model, response in zip(models, said, strict=True):
                print(json.dumps({"prompt": prompt, "response": response, "model": model}))

        await asyncio.gather(*map(by_all, prompts))


if __name__ == "__main__":
    _, file, *models = sys.argv
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    asyncio.run(answer(list(dict.fromkeys(json.loads(line)["prompt"] for line in lines)), models))
