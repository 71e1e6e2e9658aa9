"""A run's cost, judges and data: a part of its status, as facts and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import pyarrow.compute as pc

from robin_cli.goals.found import judged_by
from robin_cli.model.records import number_of
from robin_cli.run.manifest import Manifest
from robin_cli.run.reader import RunData
from robin_cli.settings.resolve import judges_of
from robin_cli.settings.table import Settings
from robin_cli.show.words import cost, dollars, tokens_text


@dataclass(frozen=True, slots=True)
class Spent:
    """A run's cost, judges and data; its fields are those of ``robin status --json``.

    Attributes:
        ratings_per_prompt: answers over prompts; None if no tokens are counted. ``prompt_tokens_saved``: those that one prompt
            for each answer would take besides.
        cached_share: of the tokens sent; None if no endpoint reports it.
        cost_usd: None if an answer's cost is unknown; ``cost_usd_at_least``: the sum of known ones.
        variances_from: the run or pool whose variances the scheduler knows; None for none.
        sessions: how many there were.
    """

    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int
    ratings_per_prompt: float | None
    prompt_tokens_saved: int
    cached_share: float | None
    cost_usd: float | None
    cost_usd_at_least: float | None
    max_cost_usd: float | None
    usage_estimated: int
    scheduler: str
    variances_from: str | None
    judge: str
    model: str
    base_url: Sequence[str]
    data: str
    created_at: str
    sessions: int

    @classmethod
    def of(cls, run: RunData) -> Self:
        """Return the facts of ``run``."""
        manifest, spent = run.manifest, run.fold.spending()
        last = manifest.sessions[-1] if manifest.sessions else {}
        per_prompt = run.fold.arms.spent / spent.prompts if spent.prompts else None
        return cls(
            prompt_tokens=spent.prompt_tokens,
            completion_tokens=spent.completion_tokens,
            reasoning_tokens=spent.reasoning_tokens,
            ratings_per_prompt=per_prompt,
            prompt_tokens_saved=round(spent.prompt_tokens * ((per_prompt or 1) - 1)),
            cached_share=spent.cached_share,
            cost_usd=spent.exact_usd,
            cost_usd_at_least=spent.cost_usd,
            max_cost_usd=last.get("max_cost"),
            usage_estimated=pc.sum(run.judgments["usage_estimated"]).as_py() or 0,
            scheduler=manifest.settings["scheduler"],
            variances_from=manifest.settings.get("variances"),
            judge=judged_by(manifest),
            model=", ".join(manifest.judges),
            base_url=_addresses(manifest),
            data=manifest.data["source"],
            created_at=manifest.created_at,
            sessions=len(manifest.sessions),
        )

    @property
    def cost(self) -> str:
        """Return the money in words."""
        return cost(self.cost_usd_at_least, complete=self.cost_usd is not None)

    def lines(self, *, is_begun: bool) -> dict[str, str]:
        """Return the facts in words, by name; ``is_begun``: there is an answer."""
        estimated = (
            f" (of {number_of(self.usage_estimated, 'request')} estimated)"
            if self.usage_estimated
            else ""
        )
        places = f"{', at ' if self.base_url else ''}{', '.join(self.base_url)}"
        return {
            "cost": f"{self._cost_line(is_begun=is_begun)}; {self.tokens}{estimated}",
            **(
                {}
                if self.variances_from is None
                else {"variances": f"those of {self.variances_from}, taken for the true ones"}
            ),
            "judge": f"{self.judge}{places}",
            "data": f"{self.data}; made {self.created_at}, {number_of(self.sessions, 'session')}",
        }

    @property
    def tokens(self) -> str:
        """Return the tokens in words."""
        tokens = tokens_text(
            self.prompt_tokens,
            self.completion_tokens,
            self.cached_share,
            reasoning=self.reasoning_tokens,
        )
        if not self.prompt_tokens_saved:
            return tokens
        saved = f"which saved {self.prompt_tokens_saved:,} tokens"
        return f"{tokens}; {self.ratings_per_prompt:.1f} ratings per prompt, {saved}"

    def _cost_line(self, *, is_begun: bool) -> str:
        of = f" of {dollars(self.max_cost_usd)} (--max-cost)" if self.max_cost_usd else ""
        if self.cost_usd_at_least is None:
            return (
                "unknown: no price (--price-in, --price-out)" if is_begun else f"no answer yet{of}"
            )
        return (
            self.cost
            + of
            + ("" if self.cost_usd is not None else "; of some answers no price is known")
        )


def _addresses(manifest: Manifest) -> list[str]:
    """Return the last addresses of its judges; none for functions and judges of packages."""
    settings = Settings(**manifest.last_session, judge=manifest.own_settings["judge"])
    addresses = (
        [url for judge in judges_of(settings) for url in judge.base_urls]
        if settings.at_endpoints
        else []
    )
    return list(dict.fromkeys(addresses))
