"""A judge that counts words: a toy, which says so in every answer. What it shows is how little a judge has to be."""

import random

from robin_cli.judges.judge import Judge, Options
from robin_cli.model.exchange import Answer, Failure, Question, Reply
from robin_cli.model.records import Usage

WORDS_A_RATING = 60


class LengthJudge(Judge):
    """Rates by the number of words in the messages, from 0 to 4, give or take one."""

    def __init__(self, options: Options) -> None:
        self._model = options.model

    async def ask(self, question: Question) -> Reply | Failure:
        """Answer at once; what cannot be answered is a Failure, and what raises is tried again."""
        words = sum(len(message["content"].split()) for message in question.messages)
        noise = random.Random(question.seed).choice([-1, 0, 0, 1])  # noqa: S311  # nothing to keep secret
        rating = min(4, max(0, words // WORDS_A_RATING + noise))
        text = f"Feedback: {words} words, counted and not read.\nRating: {rating}"
        return Reply((Answer(text),), self._model, Usage(), request_id=None, latency_s=0.0)
