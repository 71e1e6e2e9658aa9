"""Resuming of a run: its settings, its budget, and the checks that it is still the same run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from robin_cli.ask import prompts, templates
from robin_cli.goals.checks import check_target
from robin_cli.goals.registry import goal_of_run
from robin_cli.goals.watch import repeats_of
from robin_cli.judges.metering import batch_share
from robin_cli.model.decision import is_of_systems
from robin_cli.model.errors import InputError, RunError, StorageError, typed
from robin_cli.run.manifest import FILE, Manifest, differences, read_manifest, sources_of
from robin_cli.run.writer import RunWriter
from robin_cli.session.inputs import recorded_prompts
from robin_cli.settings.addresses import judge_name
from robin_cli.settings.made_here import is_made_here, kept_sendings
from robin_cli.settings.table import IN_PYTHON, SESSION, TABLE, Settings, recorded
from robin_cli.settings.trust import NAMING, PRICES, Source, as_sequence

# ── the settings of the next session ──────────────────────────────────────────────────────────────────────────────────


def resumed(run: Path, wanted: Mapping[str, Any]) -> Settings:
    """Return the settings of the next session of the run at ``run``: its own, the ``wanted`` ones, else the last session's.

    A ``model`` in ``wanted`` moves a judge to the address after its name; a judge without one stays where it was. Variables and
    prices for each judge belong to the judges in the order of ``wanted``.

    Raises:
        InputError: the judges are not the run's; variables or prices do not match the judges; or as :func:`check_target`.
        RunError: there is no run, or it is damaged.
    """
    manifest = read_manifest(run)
    of_run, before = manifest.own_settings, manifest.last_session
    _check_goal_and_judge(run, of_run, wanted)
    settings = {"max_cost": manifest.budget_usd, **of_run, **before, **wanted}
    settings |= _of_judges(tuple(before["model"]), wanted)
    notes = []
    prices = [name for name in PRICES if settings.get(name) and name not in wanted]
    if prices and not is_made_here(manifest.run_id):
        settings |= dict.fromkeys(prices, ())
        notes.append(
            f"{run}: its prices do not count, because it was not made here; --price-in and --price-out set them"
        )
    if not wanted.get("price_in"):
        # Recorded prices are for calls as they were made then; prices given now are for those of now.
        was_batch, is_batch = before.get("batch", False), settings.get("batch", False)
        share = batch_share(was_batch=was_batch, batch=is_batch)
        settings |= {
            name: tuple(share * price for price in settings.get(name, ())) for name in PRICES
        }
    named = {name: as_sequence(wanted[name]) for name in NAMING if name in wanted}
    source = Source(str(run), kept_sendings(manifest.run_id), named, notes)
    if "price_in" not in wanted:
        source = replace(source, prices=f"recorded in {run}, which was made here")
    next_settings = Settings(**settings, source=source)
    check_target(next_settings, manifest.scales)
    return next_settings


def _check_goal_and_judge(run: Path, of_run: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raise InputError for a target that the run's goal has not, or for another judge."""
    if wanted.get("target_error") is not None and (decide := of_run["decide"]) is not None:
        does, step = (
            f"decides {decide}, and ends when few decisions are likely wrong",
            "give --target-wrong X",
        )
        if is_of_systems(decide):
            does, step = "compares systems, and ends with its budget", "leave it out"
        raise InputError(
            f"--target-error: this run {does}, not at an error; {step}, or start a new run"
        )
    if (judge := wanted.get("judge", of_run["judge"])) != of_run["judge"]:
        raise InputError(
            f"--judge: this run's judge is {of_run['judge']}, not {judge}; for another judge start a new run"
        )
    if judge.startswith(IN_PYTHON) and "judge" not in wanted:
        function = judge.removeprefix(IN_PYTHON)
        last = function.rpartition(".")[2]
        raise InputError(
            f"{run}: its judge is {function}, a Python function; pass it again: "
            f"open_run({str(run)!r}).resume(judge={last if last.isidentifier() else '…'})"
        )


def _of_judges(before: tuple[str, ...], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the models, and the variables and prices of several judges, in the order of the run's judges."""
    names = tuple(map(judge_name, before))
    models = wanted.get("model", ())
    order = [judge_name(model) for model in models] or list(names)
    if twice := next((name for name in order if order.count(name) > 1), None):
        raise InputError(
            f'--model: "{twice}" is named twice; name it once, and each of its addresses with --base-url'
        )
    if not set(order) <= set(names):
        raise InputError(
            f"--model: this run's judges are {', '.join(names)}, not {', '.join(order)}; only their addresses may change "
            "(NAME@https://…). For other judges start a new run"
        )
    moved = {name: model for name, model in zip(order, models, strict=False) if model != name}
    of_judges = {"model": tuple(moved.get(judge_name(model), model) for model in before)}
    for name in ("api_key_env", *PRICES):
        values = wanted.get(name, ())
        if len(values) > 1:
            if len(values) != len(order) or set(order) != set(names):
                raise InputError(
                    f"{TABLE[name].flag}: {len(values)} for {len(names)} judges; give one for each, and each judge's --model "
                    "in the same order"
                )
            of_judges[name] = tuple(dict(zip(order, values, strict=True))[judge] for judge in names)
    return of_judges


# ── an existing run is opened ─────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _opened(path: Path) -> Iterator[RunWriter]:
    """Open the run at ``path``; after an error, close it again."""
    store = RunWriter.open(path)
    try:
        yield store
    except BaseException:
        with suppress(StorageError):  # the first error says more
            store.close()
        raise


def reopen_run(path: Path, settings: Settings) -> RunWriter:
    """Open the run at ``path`` to go on with it, with a larger budget if ``settings`` name one.

    Raises:
        InputError: the budget is smaller, or in calls for a run with a budget of money, or the other way round.
        RunError, StorageError: data or prompts have changed, or the directory cannot be used.
    """
    with _opened(path) as store:
        _check_template(path, store.manifest, settings.template)
        _check_unchanged(store.manifest)
        budget_usd = None if store.manifest.budget_usd is None else settings.max_cost
        if settings.budget is not None or budget_usd is not None:
            _set_budget(store, settings.budget, budget_usd, recorded(settings, SESSION))
        return store


def continued(path: Path, wanted: Manifest, session: Mapping[str, Any]) -> RunWriter | None:
    """Open the run at ``path`` to go on with it; None if there is none. A run of other settings without answers is removed.

    Args:
        session: the settings of the session that spends a larger budget.

    Raises:
        InputError: the run has answers and other settings.
    """
    if not (path / FILE).exists():
        return None
    budget = wanted.budget if wanted.budget_usd is None else None
    with _opened(path) as store:
        differing = differences(store.manifest, wanted)
        if differing and not store.has_answers:
            store.make_way()
            return None
        _check_unit(store.manifest, budget, wanted.budget_usd)
        if differing:
            raise InputError(
                f"{path}: holds a run made with other settings ({'; '.join(differing)}). "
                f"Go on with its own settings, robin resume {typed(path)}, or name another --run"
            )
        _set_budget(store, budget, wanted.budget_usd, session)
        return store


def _check_unit(manifest: Manifest, budget: int | None, budget_usd: float | None) -> None:
    """Raise InputError for a budget of calls if the run has one of money, or the other way round."""
    recorded_usd = manifest.budget_usd
    if recorded_usd is not None and budget is not None:
        raise InputError(
            f"--budget {budget}: this run has a budget of money, ${recorded_usd:g}; raise that: --max-cost {2 * recorded_usd:g}"
        )
    if recorded_usd is None and budget_usd is not None:
        raise InputError(
            f"--max-cost {budget_usd:g}: this run has a budget of {manifest.budget:,} calls; give that too, or raise it: "
            f"--budget {manifest.budget}"
        )


def _set_budget(
    store: RunWriter, budget: int | None, budget_usd: float | None, session: Mapping[str, Any]
) -> None:
    """Raise the budget of the run, if it is larger. InputError if it is smaller, or would go to judges that repeat."""
    _check_unit(store.manifest, budget, budget_usd)
    calls, usd = store.manifest.budget, store.manifest.budget_usd
    if budget is not None and budget < calls:
        raise InputError(
            f"--budget {budget}: the run {store.path} has a budget of {calls}; it can be raised, not lowered: give "
            f"--budget {calls} or more, or begin another run with --run DIR"
        )
    if budget_usd is not None and usd is not None and budget_usd < usd:
        raise InputError(
            f"--max-cost {budget_usd:g}: the run {store.path} has a budget of ${usd:g}; it can be raised, not lowered"
        )
    if (budget, budget_usd) in {(calls, None), (None, usd)}:
        return
    if not session.get("repeat_anyway") and not store.manifest.repeat_anyway:
        goal = goal_of_run(store)
        repeats = repeats_of(store.manifest, goal)
        if repeats is not None and repeats.end_the_run(store.fold().arms):
            raise InputError(
                f"{store.path}: the judge repeats itself, so more calls would bring the same {goal.noun}s. Add "
                "--repeat-anyway to make them nevertheless; or ask another judge, or people"
            )
    if budget_usd is not None and usd is not None:
        budget = min(10**9, round(calls * budget_usd / usd))
    store.announce(session, budget=budget, budget_usd=budget_usd)


# ── checks that data and prompts are the same ─────────────────────────────────────────────────────────────────────────


def _check_template(run: Path, manifest: Manifest, named: str | None) -> None:
    """Check that the template of a run is robin's, or of a run made here, or the one in the file that the user ``named``.

    Raises:
        InputError: it is none of these, or the file cannot be read or holds another.
    """
    template = str(manifest.prompt.get("template", ""))
    digest = hashlib.sha256(template.encode()).hexdigest()
    if named is not None:
        try:
            is_same = hashlib.sha256(Path(named).read_bytes()).hexdigest() == digest
        except OSError as error:
            raise InputError(f"--template {named}: cannot be read ({error.strerror})") from error
        if not is_same:
            raise InputError(
                f"--template {named}: is not the template of {run}, whose SHA-256 is {digest}; name that one"
            )
    elif (
        template and not templates.is_shipped_template(digest) and not is_made_here(manifest.run_id)
    ):
        raise InputError(
            f"{run / FILE}: its template is not one of robin's, and this run was not made here. Read the template, and name "
            f"its file, whose SHA-256 is {digest}: --template FILE"
        )


def _check_unchanged(manifest: Manifest) -> None:
    if recorded_prompts(manifest).sha256 != manifest.prompt["sha256"]:
        raise RunError(
            f"{FILE}: its template and rubrics are not those that the run was made with (their SHA-256 differs); restore the "
            "file from a copy, or start a new run"
        )
    if is_made_here(manifest.run_id) and _prompts_now(manifest) != manifest.prompt["sha256"]:
        raise RunError(
            f"the prompts changed since this run was made (by robin {manifest.versions.get('robin')}): going on would mix two "
            "experiments; restore the rubric and template files, use that version of robin, or start a new run"
        )
    for name, digest in sources_of(manifest):
        _check_file(Path(name), digest)


def _check_file(source: Path, recorded: str) -> None:
    """Raise RunError if a file changed since it was read; a missing or special file is ignored."""
    if not source.is_file():
        return
    way_on = "To go on with the run's own copy of the pairs, move that file away"
    try:
        with source.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise RunError(
            f"{source}: cannot be read ({error.strerror}), and may have changed since this run was made; make it readable. "
            f"{way_on}"
        ) from error
    if digest != recorded:
        raise RunError(
            f"{source}: changed since this run was made; restore it, or start a new run with another --run. {way_on}"
        )


def _prompts_now(manifest: Manifest) -> str:
    """Return the hash of a run's prompts as its files are today; if a file is missing, that of the run's own copy."""
    files, template = manifest.prompt.get("rubric_files", ()), manifest.prompt.get("template_file")
    is_file = template and template not in templates.known_templates()
    if not all(Path(file).is_file() for file in (*files, *([template] if is_file else []))):
        return recorded_prompts(manifest).sha256
    try:
        return prompts.load_prompts(
            manifest.criteria if len(manifest.kind.variants) > 1 else manifest.attributes,
            files,
            template,
            manifest.answers,
            pairwise=manifest.is_pairwise,
            ties=not manifest.own_settings["no_ties"],
        ).sha256
    except InputError as error:
        raise RunError(
            f"{error}. To go on with the run's own copy of its prompts, move that file away"
        ) from error
