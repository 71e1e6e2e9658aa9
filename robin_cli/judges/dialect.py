"""What one endpoint accepts, as its refusals and answers teach: parameters, their names, and the limit on answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from robin_cli.ask.expectation import TOP_LOGPROBS
from robin_cli.ask.kinds import RESPONSE_FORMAT
from robin_cli.ask.reasoning import without_reasoning
from robin_cli.judges.judge import Notices
from robin_cli.judges.metering import most_tokens
from robin_cli.judges.problems import EITHER, IMAGES, SYSTEM
from robin_cli.judges.replies import Completion
from robin_cli.judges.transport import Endpoint
from robin_cli.model.errors import EndpointError
from robin_cli.model.exchange import Failure, Message, Question

RAISED = 4
"""The factor by which the limit on answers is raised, once one was cut off before its text."""

_FEW_LOGPROBS = 5
"""Some endpoints return no more per token."""

_AT_LIMIT = ("length", "max_tokens", "model_length")
"""The finish reasons of an answer that a limit on tokens cut."""


class Dialect:
    """Makes the bodies of requests to an endpoint, and learns from what became of them: each lesson is learnt, and said, once.

    Several requests may be under way: each lesson compares the body that was sent with what is known by now.

    Attributes:
        limit: on the tokens of an answer, in new requests; ``usual``: as the user set it.
        most_samples: the most answers to one request; ``gives_several``: a request for several brought as many.
        accepted: the features that the endpoint accepted, or that are not why it refuses, see :meth:`features_of`.
    """

    def __init__(self, endpoint: Endpoint, notices: Notices) -> None:
        self._endpoint, self._notices = endpoint, notices
        self.limit = self.usual = endpoint.max_tokens
        self._sets_limit = most_tokens(endpoint.extra_body, 0) == 0
        self._may_raise = endpoint.raises and self._sets_limit
        self.most_samples, self.gives_several = 2**31, False
        self._top_logprobs = TOP_LOGPROBS
        self.accepted: set[str] = set()
        self._without: set[str] = set()
        self._renamed: dict[str, str] = {}

    @property
    def takes_system(self) -> bool:
        """Whether the endpoint accepts a system message, as far as is known yet."""
        return "system" not in self._without

    @property
    def limit_name(self) -> str:
        """The parameter that limits the tokens of an answer."""
        return self._renamed.get("max_tokens", "max_tokens")

    def limit_of(self, body: Mapping[str, Any]) -> int:
        """Return the limit on answers in a request; 0 if it has none."""
        return int(body.get(self.limit_name, 0))

    def body(self, question: Question, limit: int) -> dict[str, Any]:
        """Return the body of a request for ``question``, after all that was learnt."""
        endpoint, samples = self._endpoint, min(question.samples, self.most_samples)
        wanted: dict[str, Any] = {
            "max_tokens": limit,
            "temperature": endpoint.temperature,
            "top_p": endpoint.top_p,
            "reasoning_effort": endpoint.reasoning_effort,
            "seed": question.seed,
            "n": samples if samples > 1 else None,
            **question.structure,
        }
        if endpoint.logprobs and "logprobs" not in self._without:
            wanted |= {"logprobs": True, "top_logprobs": self._top_logprobs}
        parameters = {
            self._renamed.get(name, name): value
            for name, value in wanted.items()
            if value is not None and name not in self._without
        }
        messages = question.messages if self.takes_system else without_system(question.messages)
        return {"model": endpoint.model, "messages": messages, **parameters, **endpoint.extra_body}

    # ── refusals ──────────────────────────────────────────────────────────────────────────────────

    def adapt(self, refusal: Failure, body: Mapping[str, Any]) -> bool:
        """Change later requests so that the endpoint does not refuse them as this one; return False if nothing was learnt.

        Raises:
            EndpointError: the run cannot do without what it refuses.
        """
        # Another call may have learnt the same meanwhile: this body is then just old, and the next one will do.
        endpoint, usual, sent = self._endpoint, self.usual, self.limit_of(body)
        name, detail = refusal.parameter, refusal.detail
        features = self.features_of(body)
        if "longer" in features - self.accepted:
            if self.limit > usual:
                self.limit = usual
                self._notices.once(
                    f"refuses answers of {sent:,} tokens ({detail}): --max-tokens is {usual:,} again"
                )
            return True
        if name == SYSTEM:
            if name in features:
                self.never_send(name)
            return name in features
        if name == IMAGES and any("images" in message for message in body.get("messages", ())):
            raise EndpointError(
                f"{endpoint.base_url}: the model {endpoint.model} does not accept images ({detail}); "
                "name one that does with --model, or leave the rows with images out"
            )
        if name == EITHER:  # the one at its default was not the user's choice
            name = "temperature" if endpoint.temperature == 1 != endpoint.top_p else "top_p"
        sent_as = name if name in body else self._renamed.get(name, name)
        if sent_as not in body or {name, sent_as} & endpoint.extra_body.keys():
            return False
        if name == "n":
            self.most_samples = min(self.most_samples, max(1, body["n"] // 2))
        elif refusal.most:
            if refusal.most >= sent:
                return False
            self.limit, self._may_raise = min(self.limit, refusal.most), False
            self._notices.once(f"{detail}: --max-tokens is {self.limit:,} from now on")
        elif name == sent_as == "max_tokens":
            self._renamed[name] = "max_completion_tokens"
            self._notices.once("wants max_completion_tokens instead of max_tokens; sending that")
        elif name == "top_logprobs" and body[name] > _FEW_LOGPROBS:
            self._top_logprobs = _FEW_LOGPROBS
            self._notices.once(
                f"gives fewer log probabilities per token than {TOP_LOGPROBS}; asking for {_FEW_LOGPROBS}"
            )
        else:
            self._leave_out("logprobs" if name == "top_logprobs" else name, detail)
        return True

    def _leave_out(self, name: str, detail: str) -> None:
        effort, needed = self._endpoint.reasoning_effort, ""
        if name == RESPONSE_FORMAT:
            needed = f"does not take --answers json ({detail}); start a new run with --answers text, which works everywhere"
        elif name == "reasoning_effort" and effort is not None:
            needed = f"does not take --reasoning-effort {effort} ({detail}); name one that it takes, or leave it out"
        elif name == "max_tokens" and self._endpoint.bounded:
            needed = f"accepts no limit on the length of answers ({detail}), so no limit on money holds; leave --max-cost out"
        if needed:
            raise EndpointError(f"{self._endpoint.base_url}: {needed}")
        self._without.add(name)
        instead = ", rating by the text alone" if name == "logprobs" else ""
        self._notices.once(f'refuses "{name}" ({detail}); going on without it{instead}', key=name)

    def features_of(self, body: Mapping[str, Any]) -> set[str]:
        """Return which of the features that some endpoints refuse, in words of their own, are in a request.

        "logprobs" that are only tried, "n" for several answers, "system" for the role, "longer" for a raised limit on answers.
        """
        endpoint = self._endpoint
        is_wanted = endpoint.logprobs or "logprobs" in endpoint.extra_body
        has = {
            "logprobs": "logprobs" in body and not is_wanted,
            "n": body.get("n", 1) > 1,
            "system": any(message["role"] == "system" for message in body.get("messages", ())),
            "longer": self._sets_limit and self.limit_of(body) > self.usual,
        }
        return {feature for feature, is_in in has.items() if is_in}

    def lacking(self, body: dict[str, Any], refusal: Failure) -> tuple[str, dict[str, Any]] | None:
        """Return what may be answered in place of a refused request, and the feature that it lacks; None if nothing may.

        A prompt that is too long may leave room for an answer of half the length. Unknown words may refuse a feature that was
        never accepted.
        """
        limit, features = self.limit_of(body), self.features_of(body) - self.accepted
        if refusal.permanent:
            is_halved = limit < min(self.limit, self.usual)
            if refusal.reason != "context_length" or limit <= 1 or is_halved:
                return None
            if self.limit_name in self._endpoint.extra_body:
                return None
            return "length", {**body, self.limit_name: limit // 2}
        if "logprobs" in features:
            names = {"logprobs", "top_logprobs"}
            return "logprobs", {name: body[name] for name in body if name not in names}
        if "n" in features:
            return "n", {name: body[name] for name in body if name != "n"}
        if "system" in features:
            return "system", {**body, "messages": without_system(body["messages"])}
        return None

    def never_send(self, feature: str) -> None:
        """Never send ``feature`` again, without which a refused request was answered."""
        if feature == "n":
            self.most_samples = 1
        elif feature == "system":
            self._without.add("system")
            self._notices.once(
                "accepts no system message; its text goes to the front of the user's"
            )

    # ── answers ───────────────────────────────────────────────────────────────────────────────────

    def learn(self, body: Mapping[str, Any], completion: Completion) -> bool:
        """Learn from an answer what the endpoint accepts.

        Returns:
            whether it was cut off before its text by a limit that is higher now. The first such answer raises the limit.
        """
        count, wanted = len(completion.answers), body.get("n", 1)
        usual, sent = self.usual, self.limit_of(body)
        self.accepted |= self.features_of(body)
        self.gives_several |= count == wanted > 1
        if count < wanted and not self.gives_several:
            self.most_samples = min(self.most_samples, count)
        if not all(
            (answer.finish_reason or "").lower() in _AT_LIMIT
            and not without_reasoning(answer.text).strip()
            for answer in completion.answers
        ):
            return False
        if self._may_raise and "max_tokens" not in self._without:
            self._may_raise, self.limit = False, usual * RAISED
            self._notices.once(
                "an answer was cut off before its text; the judge may reason first. --max-tokens is "
                f"{self.limit:,} from now on, not {usual:,}, and such answers are asked for again"
            )
        return usual <= sent < self.limit


def without_system(messages: Sequence[Message]) -> Sequence[Message]:
    """Return messages with the text of system messages at the front of the first other one."""
    system = "\n\n".join(message["content"] for message in messages if message["role"] == "system")
    others = [dict(message) for message in messages if message["role"] != "system"]
    if system and others:
        others[0]["content"] = f"{system}\n\n{others[0]['content']}"
    return others
