"""A run that is there already: whether these settings go on with it, and with what budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from robin_cli.datasets.lines import MAX_FILE_BYTES
from robin_cli.files.local import sha256_of
from robin_cli.goals.checks import check_settle, check_target
from robin_cli.model.errors import InputError, RunError, StorageError, typed
from robin_cli.model.records import COMPARE
from robin_cli.questions.rubrics import known_templates, load_prompts
from robin_cli.runner.inputs import recorded_prompts, sources_of
from robin_cli.runner.money import with_prices_of
from robin_cli.settings.addresses import judge_name
from robin_cli.settings.reading import checked
from robin_cli.settings.setting import Scope
from robin_cli.settings.table import IN_PYTHON, TABLE, Settings, recorded
from robin_cli.settings.trust import Source, named_in
from robin_cli.storage.manifest import FILE, Manifest, differences, read_manifest
from robin_cli.storage.store import RunStore


def reopen_run(path: Path, settings: Settings) -> RunStore:
    """Open the run at ``path`` to go on with it as it was made, with a larger budget if ``settings`` name one.

    Raises:
        InputError: a smaller budget, or one of calls for a run by money, or the other way round.
        RunError, StorageError: data or prompts that changed since, or a directory that cannot be used.
    """
    store = RunStore.open(path)
    try:
        _check_unchanged(store.manifest)
        if settings.budget is not None or settings.budget_usd is not None:
            _set_budget(store, settings.budget, settings.budget_usd, recorded(settings, Scope.SESSION))
    except BaseException:
        with suppress(StorageError):  # what went wrong first says more
            store.close()
        raise
    return store


def resumed(run: Path, given: Mapping[str, Any], *, in_python: bool = False) -> Settings:
    """The settings of a further session of the run at ``run``: its own, and the last session's but for what is ``given``.

    A ``model`` in ``given`` moves a judge to the address behind its name; a judge that is named without one, or not at all,
    stays where it was. Variables and prices for each judge go by the order in which ``given`` names them, never by chance.

    Raises:
        InputError: other judges than the run's; variables or prices that cannot be told apart; as :func:`check_target`.
        RunError: no run, or one whose last session recorded what is no address and no variable.
    """
    manifest = read_manifest(run)
    try:  # it may be another's, and decides where keys go
        before = checked(manifest.last_session, "its last session")
    except InputError as error:
        raise RunError(f"{run / FILE}: damaged ({error}); restore the file from a copy") from None
    own = manifest.own_settings
    check_unit(manifest, given.get("budget"), given.get("budget_usd"))
    if given.get("target_error") is not None:
        _check_ends_at_error(own)
    if (judge := given.get("judge", own["judge"])) != own["judge"]:
        raise InputError(
            f"--judge: this run is judged by {own['judge']}, now {judge}; for another judge start a new run"
        )
    if judge.startswith(IN_PYTHON) and "judge" not in given:
        function = judge.removeprefix(IN_PYTHON)
        last = function.rpartition(".")[2]
        raise InputError(
            f"{run}: its judge is {function}, a function in Python, which has to be handed over again: "
            f"open_run({str(run)!r}).resume(judge={last if last.isidentifier() else '…'})"
        )
    names = tuple(map(judge_name, before["model"]))
    order = [judge_name(model) for model in given.get("model", ())] or list(names)
    if twice := next((name for name in order if order.count(name) > 1), None):
        raise InputError(f'--model: "{twice}" is named twice; name it once, and each of its addresses with --base-url')
    if not set(order) <= set(names):
        raise InputError(
            f"--model: this run is judged by {', '.join(names)}, now {', '.join(order)}; only their addresses may change "
            "(NAME@https://…). For other judges start a new run"
        )
    moved = {name: model for name, model in zip(order, given.get("model", ()), strict=False) if model != name}
    settings = {"budget_usd": manifest.budget_usd, **own, **before, **_without_the_other_way(given)}
    settings["model"] = tuple(moved.get(judge_name(model), model) for model in before["model"])
    for name in ("api_key_env", "price_in", "price_out", "price_cached"):
        values = given.get(name, ())
        if len(values) > 1:
            if len(values) != len(order) or set(order) != set(names):
                raise InputError(
                    f"{TABLE[name].flag}: {len(values)} for {len(names)} judges; give one for each, and each judge's --model "
                    "in the same order"
                )
            settings[name] = tuple(dict(zip(order, values, strict=True))[judge] for judge in names)
    found = Settings(**settings, source=Source(str(run), "run", named_in(given), in_python=in_python))
    check_target(found, manifest.scales)
    check_settle(found)
    # Prices that were given before were for the tier of then; those given now are for that of now.
    return found if given.get("price_in") else with_prices_of(found, Settings(**{**own, **before}).tier)


def _without_the_other_way(given: Mapping[str, Any]) -> dict[str, Any]:
    """``given``, and what it rules out of how the last session asked: by a batch service, by files, or one call at a time."""
    ruled_out: dict[str, Any] = {}
    if given.get("batch") is not None:
        ruled_out["batch_files"] = None
    if given.get("batch_files") is not None:
        ruled_out["batch"] = False
    if given.get("batch") or given.get("batch_files") is not None:
        ruled_out |= {"service_tier": None, "tier_fallback": False}
    return {**ruled_out, **given}


def _check_ends_at_error(own: Mapping[str, Any]) -> None:
    """InputError where a run with these settings of its own is for something else than small errors of scores."""
    if own["decide"] is not None:
        raise InputError(
            f"--target-error: this run ends when it has decided {own['decide']}, not at an error; leave it out, or start a new "
            "run"
        )
    if own["objective"] == COMPARE:
        raise InputError(
            "--target-error: this run compares systems, and asks where a difference is least certain, not a score; leave it "
            "out, or start a new run"
        )


def continued(path: Path, wanted: Manifest, among: Sequence[str], session: Mapping[str, Any]) -> RunStore | None:
    """The run at ``path``, open to go on with; None if there is none, or one of other settings without answers, which made way.

    ``among``: schedulers of which any will do, where the choice was left to robin: it keeps to the one that the run has.
    ``session``: the settings of the session that is to spend a larger budget.
    """
    if not (path / FILE).exists():
        return None
    store = RunStore.open(path)
    try:
        if (scheduler := store.manifest.settings["scheduler"]) in among:
            wanted = replace(wanted, settings={**wanted.settings, "scheduler": scheduler})
        if store.has_answers:
            check_unit(store.manifest, wanted.budget if wanted.budget_usd is None else None, wanted.budget_usd)
        differing = differences(store.manifest, wanted)
        if differing and not store.has_answers:
            store.make_way()
            return None
        if differing:
            raise InputError(
                f"{path}: holds a run made with other settings ({'; '.join(differing)}). "
                f"Go on with its own settings, robin resume {typed(path)}, or name another --run"
            )
        _set_budget(store, wanted.budget if wanted.budget_usd is None else None, wanted.budget_usd, session)
    except BaseException:
        with suppress(StorageError):  # what went wrong first says more
            store.close()
        raise
    return store


def check_unit(manifest: Manifest, budget: int | None, budget_usd: float | None) -> None:
    """InputError for a budget of calls where the run has one of money, or the other way round."""
    own = manifest.budget_usd
    if own is not None and budget is not None:
        raise InputError(f"--budget {budget}: this run has a budget of money, ${own:g}; raise that: --budget-usd MORE")
    if own is None and budget_usd is not None:
        raise InputError(
            f"--budget-usd {budget_usd:g}: this run has a budget of {manifest.budget:,} calls; raise that: --budget MORE. "
            "(What it may cost at most is --max-cost)"
        )


def _set_budget(store: RunStore, budget: int | None, budget_usd: float | None, session: Mapping[str, Any]) -> None:
    recorded, recorded_usd = store.manifest.budget, store.manifest.budget_usd
    check_unit(store.manifest, budget, budget_usd)
    if budget_usd is not None and recorded_usd is not None:
        if budget_usd < recorded_usd:
            raise InputError(
                f"--budget-usd {budget_usd:g}: the run {store.path} has a budget of ${recorded_usd:g}; it can be raised, not "
                "lowered"
            )
        if budget_usd > recorded_usd:
            calls = min(10**9, round(recorded * budget_usd / recorded_usd))
            store.announce(session, budget=calls, budget_usd=budget_usd)
        return
    assert budget is not None  # noqa: S101  # it is one of the two
    if budget < recorded:
        raise InputError(
            f"--budget {budget}: the run {store.path} has a budget of {recorded}; it can be raised, not lowered: give "
            f"--budget {recorded} or more, or begin another run with --run DIR"
        )
    if budget > recorded:
        store.announce(session, budget=budget)


def _check_unchanged(manifest: Manifest) -> None:
    if recorded_prompts(manifest).sha256 != manifest.prompt["sha256"]:  # another question would be asked under its name
        raise RunError(
            f"{FILE}: its template and rubrics are not those that the run was made with (their SHA-256 differs); restore the "
            "file from a copy, or start a new run"
        )
    if _prompts_now(manifest) != manifest.prompt["sha256"]:
        raise RunError(
            f"the prompts changed since this run was made (by robin {manifest.versions.get('robin')}): going on would mix two "
            "experiments; restore the rubric and template files, use the robin that made it, or start a new run"
        )
    for name, digest in sources_of(manifest):
        _check_file(Path(name), digest)


def _check_file(source: Path, recorded: str) -> None:
    """RunError where a file that is there is not the one that was read; what is no regular file counts as not there."""
    if not source.is_file():
        return
    way_on = "To go on with the run's own copy of the pairs, move that file away"
    try:
        digest = sha256_of(source, MAX_FILE_BYTES)
    except OSError as error:
        raise RunError(
            f"{source}: cannot be read ({error.strerror}), so it is not known whether it changed since this run was made; "
            f"make it readable. {way_on}"
        ) from error
    if digest != recorded:
        raise RunError(
            f"{source}: changed since this run was made; restore it, or start a new run with another --run. {way_on}"
        )


def _prompts_now(manifest: Manifest) -> str:
    """What the prompts that a run was made with hash to today; its own copy's hash where a file of them is not there."""
    files, template = manifest.prompt.get("rubric_files", ()), manifest.prompt.get("template_file")
    own = [*files, *([template] if template and template not in known_templates() else [])]
    if not all(Path(file).is_file() for file in own):
        return recorded_prompts(manifest).sha256
    try:
        return load_prompts(
            manifest.criteria if len(manifest.kind.variants) > 1 else manifest.attributes,
            files,
            template,
            manifest.answer_format,
            pairwise=manifest.is_pairwise,
            ties=not manifest.own_settings["no_ties"],
        ).sha256
    except InputError as error:
        raise RunError(f"{error}. To go on with the run's own copy of its prompts, move that file away") from error
