"""Judges by others: a Python function, or a Judge of a package. What goes wrong in them becomes a failure with a next step.

A package adds a judge by an entry point of the group ``robin.judges``, which leads to a :class:`~robin_cli.judges.judge.Judge`
that is made from :class:`~robin_cli.judges.judge.Options`, or to a function from messages to text.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from threading import Thread
from types import ModuleType
from typing import Any

from robin_cli.data.images import with_parts
from robin_cli.judges.bodies import MOST_REPLY_BYTES, amount_of, clean_text, tokens_of
from robin_cli.judges.judge import Judge, Options
from robin_cli.judges.metering import Meter
from robin_cli.judges.redaction import Redactor, without_secrets
from robin_cli.judges.replies import MOST_IN_TEXT
from robin_cli.model.errors import EndpointError, InputError, RobinError, did_you_mean
from robin_cli.model.exchange import Answer, Failure, Message, Question, Reply
from robin_cli.model.plugins import plugins
from robin_cli.model.records import Usage
from robin_cli.settings.trust import AT_ENDPOINTS

GROUP = "robin.judges"

Function = Callable[[list[Message]], str | Reply | Awaitable[str | Reply]]
"""A judge in Python, ``async`` or not, from chat messages to the text of an answer."""

_LONGEST_NAME, _EXCERPT, _MOST_OF_AN_ERROR = 120, 300, 2000


def check_known(name: str) -> None:
    """Raise InputError unless there is exactly one judge of this name."""
    if name not in (names := [AT_ENDPOINTS, *plugins(GROUP)]):
        raise InputError(
            f'--judge: no "{name}"; there are: {", ".join(names)} (others come with packages){did_you_mean(name, names)}'
        )
    if name != AT_ENDPOINTS:
        plugins(GROUP)[name].package(f"--judge {name}")


def judge_named(name: str, options: Options) -> Judge:
    """Make the judge that a package adds as ``name``. InputError, which names the package, if it cannot be made."""
    check_known(name)
    with plugins(GROUP)[name].loaded(f"--judge {name}") as entry:
        return judge_of(entry, options)


def judge_of(entry: Any, options: Options) -> Judge:
    """Make a judge of ``entry``, a subclass of Judge or a function. TypeError if it is neither."""
    if isinstance(entry, type) and issubclass(entry, Judge):
        make: Callable[[Options], Judge] = entry
        return make(options)
    if not callable(entry):
        raise TypeError(f"it is {type(entry).__name__}: neither a Judge nor a function")
    return FunctionJudge(entry, options)


def naming(function: Any) -> tuple[str, bool]:
    """Return a function's name in a run, and whether the name identifies it.

    The name is the attribute ``name`` of the function, or of the object whose method it is; else its module, its name there and
    a hash of bound arguments. The name of a lambda, a closure or an object does not identify it.
    """
    owner = getattr(function, "__self__", None)
    owner = None if isinstance(owner, type | ModuleType) else owner
    chosen = getattr(function if owner is None else owner, "name", None)
    if isinstance(chosen, str) and chosen:
        fit = _fit(chosen)
        name = chosen if chosen == fit else f"{fit or 'judge'}-{_hash(chosen)}"
        return name if owner is None else f"{name}.{function.__name__}", True
    if isinstance(function, partial):
        name, is_certain = naming(function.func)
        bound = [*function.args, *sorted(function.keywords.items())]
        is_plain = _is_plain(bound)
        suffix = f"-{_hash(repr(bound))}" if bound and is_plain else ""
        return name + suffix, is_certain and is_plain
    owns_name = hasattr(function, "__qualname__")
    source = function if owns_name else type(function)
    place = source.__qualname__
    is_closure = "<locals>" in place and bool(getattr(function, "__closure__", None))
    is_certain = owns_name and owner is None and not is_closure and "<lambda>" not in place
    return _fit(f"{source.__module__}.{place}"), is_certain


def _fit(name: str) -> str:
    return re.sub(r"[^\w.-]+", "", name, flags=re.ASCII)[:_LONGEST_NAME]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]


def _is_plain(value: Any) -> bool:
    """Return whether a value's repr is the same in every process."""
    if isinstance(value, dict):
        return all(map(_is_plain, (*value, *value.values())))
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or type(value) in {bool, int, float, str, bytes}


class FunctionJudge(Judge):
    """Asks a function; one that is not ``async`` is called in threads."""

    def __init__(self, function: Function, options: Options) -> None:
        self._function, self._model = function, options.model
        method = getattr(function, "__call__", None)  # noqa: B004  # an object's own method
        self._is_async = any(map(inspect.iscoroutinefunction, (function, method)))
        self._room = asyncio.Semaphore(options.at_a_time)

    async def ask(self, question: Question) -> Reply | Failure:
        """Call the function with a copy of the messages. Raises what it raises."""
        started = time.monotonic()
        messages: list[Message] = [dict(message) for message in question.messages]
        result: Any = (self._function if self._is_async else self._in_thread)(messages)
        while inspect.isawaitable(result):
            result = await result
        if isinstance(result, str):
            return Reply((Answer(result),), self._model, Usage(), None, time.monotonic() - started)
        if isinstance(result, Reply | Failure):
            return result
        raise EndpointError(
            f"{self._model}: gave {type(result).__name__}, not text; return the answer as a str"
        )

    async def _in_thread(self, messages: list[Message]) -> Any:
        """Call the function in a daemon thread, because no process should wait for one that never returns."""
        await self._room.acquire()  # until the thread ends, also after a timeout
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

        def end(result: Any, error: BaseException | None) -> None:
            self._room.release()
            if not ended.done():
                ended.set_result((result, error))

        def call() -> None:
            outcome: tuple[Any, BaseException | None]
            try:
                outcome = self._function(messages), None
            except BaseException as error:  # noqa: BLE001  # the caller gets it
                outcome = None, error
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(end, *outcome)

        Thread(target=call, name="robin-judge", daemon=True).start()
        result, error = await ended
        if error is not None:
            raise error
        return result


class Checked(Judge):
    """Wraps a judge by others: its exceptions become failures that may pass, and its answers are made fit to be stored.

    Args:
        meter: completes the usage of replies.
    """

    def __init__(self, judge: Judge, options: Options, meter: Meter) -> None:
        self._judge, self._options, self._meter = judge, options, meter
        self._redactor = Redactor("none")

    @property
    def most_samples(self) -> int:
        return self._judge.most_samples

    def tokens(self, question: Question) -> int:
        prompt = self._meter.prompt_tokens(question.messages)
        return prompt + self._options.max_tokens * question.samples

    def most_cost(self, question: Question) -> float:
        """Return the most that asking may cost, in US dollars, by the user's price or by the judge's own report."""
        priced = self._meter.most(question.messages, self._options.max_tokens, question.samples)
        return max(priced, self._judge.most_cost(question))

    async def ask(self, question: Question) -> Reply | Failure:
        """Ask within the time limit. EndpointError if the judge raises one, or tries to end the process."""
        started = time.monotonic()
        sent = replace(question, messages=with_parts(question.messages))
        try:
            async with asyncio.timeout(self._options.timeout_s):
                outcome = await self._judge.ask(sent)
            if isinstance(outcome, Failure):
                return replace(outcome, detail=self._shown(outcome.detail), adapted=False)
            return self._reply(question, outcome)
        except RobinError as error:
            ours = next(
                kind for kind in type(error).__mro__ if kind.__module__ == RobinError.__module__
            )
            # Its causes may hold keys too.
            raise ours(self._shown(error, _MOST_OF_AN_ERROR)) from None
        except TimeoutError:
            why = f"no answer within {self._options.timeout_s:g} s (--timeout)"
            return Failure("timeout", why, time.monotonic() - started)
        except Exception as error:  # noqa: BLE001  # code by others may raise anything
            why = self._shown(f"{type(error).__name__}: {error}")
            return Failure("judge_error", why, time.monotonic() - started)
        except asyncio.CancelledError:
            raise
        except (
            BaseException
        ) as error:  # such as SystemExit: loose in the loop, it would hang the run
            raise EndpointError(
                f"{self._options.model}: ended with {type(error).__name__}; mend the judge"
            ) from error

    async def aclose(self) -> None:
        """Close the judge. EndpointError, which names it, if that fails."""
        try:
            await self._judge.aclose()
        except (Exception, SystemExit) as error:  # noqa: BLE001  # as in ask()
            why = self._shown(f"{type(error).__name__}: {error}")
            raise EndpointError(
                f"{self._options.model}: could not be closed ({why}); mend the judge"
            ) from None

    def _reply(self, question: Question, reply: Reply) -> Reply | Failure:
        """Return ``reply`` with texts that can be stored, and sound numbers: others would spoil the budget."""
        answers = tuple(
            replace(
                answer, text=clean_text(answer.text), refusal=clean_text(answer.refusal) or None
            )
            for answer in reply.answers
        )
        if not answers:
            return Failure("judge_error", "a reply without answers", reply.latency_s)
        characters = sum(len(answer.text) for answer in answers)
        if characters > MOST_REPLY_BYTES * MOST_IN_TEXT:
            return Failure("reply_too_long", f"answers of {characters:,} characters", tries=2)
        usage = reply.usage
        names = ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens")
        counts: dict[str, Any] = {name: tokens_of(getattr(usage, name)) for name in names}
        sound = replace(usage, cost_usd=amount_of(usage.cost_usd), **counts)
        usage = self._meter.measured(question.messages, answers, sound)
        return replace(reply, answers=answers[: question.samples], usage=usage)

    def _shown(self, error: object, most: int = _EXCERPT) -> str:
        text = self._redactor.error(without_secrets(clean_text(str(error))))
        return " ".join(text.split())[:most]
