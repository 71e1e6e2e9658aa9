"""Start a session's workers on a cluster: collect the run's details and its judges for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import orjson

from robin_cli.model.space import ArmSpace
from robin_cli.run.writer import RunWriter
from robin_cli.session.carriers import Carrying
from robin_cli.session.connection import endpoints_of
from robin_cli.session.inputs import recorded_prompts
from robin_cli.settings.resolve import Resolved
from robin_ray import on_ray
from robin_ray.groups import Groups
from robin_ray.on_ray import OnRay
from robin_ray.remote import Targets
from robin_ray.texts import MOST_AT_ONCE, bytes_of_texts, table_of
from robin_ray.wire import RemoteRun, Texts


def check(resolved: Resolved) -> None:
    """Check that workers can be reached, see :class:`~robin_cli.session.elsewhere.Carries`."""
    on_ray.check(resolved.ray or "", resolved.secrets)


def carrying(resolved: Resolved, store: RunWriter, notify: Callable[[str], None]) -> Carrying:
    """Return each judge of a session for use by workers on the run of ``store``."""
    targets = Targets()
    judges, prices = endpoints_of(resolved, store.manifest, notify, reach=targets.add)
    manifest, space, path = store.manifest, store.space, store.path.resolve()
    texts_bytes = bytes_of_texts(path)
    is_small = texts_bytes <= MOST_AT_ONCE
    run = RemoteRun(
        orjson.dumps(recorded_prompts(manifest).record).decode(),
        tuple(space.attributes),
        tuple(space.judges),
        tuple(space.scales),
        pairwise=manifest.is_pairwise,
        answers=manifest.answers,
        seed=manifest.seed,
    )
    cluster = OnRay(
        resolved.ray or "",
        texts=(lambda: table_of(path)) if is_small else None,
        texts_bytes=texts_bytes if is_small else 0,
        secret=resolved.secrets,
    )
    begin = partial(
        Groups,
        judges=judges,
        targets=targets,
        cluster=cluster,
        run=run,
        place=partial(_place, space),
        texts=None if is_small else partial(_texts, store),
        notify=notify,
    )
    return Carrying(begin, judges, prices)


def _place(space: ArmSpace, arm: int) -> tuple[int, int]:
    return space.pair.item(arm), space.within_pair(arm)


def _texts(store: RunWriter, pair: int) -> Texts:
    of_pair = store.pairs[pair]
    return of_pair.pair_id, of_pair.prompt, of_pair.response, of_pair.reference, of_pair.other
