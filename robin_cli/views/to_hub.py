"""Push results to the Hugging Face hub as a data set, with the library ``datasets``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from robin_cli.datasets.formats import hub
from robin_cli.files.local import temporary_folder
from robin_cli.model.errors import InputError, RobinError, StorageError
from robin_cli.model.records import number_of
from robin_cli.render.files import write_parquet
from robin_cli.results.tables import Table

_LOGIN = "hf auth login, or set HF_TOKEN, with a token that may write"


def check_hub(name: str) -> None:
    """Refuse, before a run is read, a push to the data set ``name`` that would fail.

    Raises:
        InputError: the name is none of a data set, the library is not installed, or nobody is logged in.
    """
    if not hub.NAME.fullmatch(name) or name.startswith("buckets/"):
        # Not shown: what stands here by mistake may hold a token.
        raise InputError("--to-hub: names no data set. Write OWNER/NAME, as me/scores.")
    with _heard(name):
        import datasets  # noqa: F401
        from huggingface_hub import get_token

        if not get_token():
            raise InputError(f"--to-hub {name}: there is no token to write with. {_LOGIN}.")


def push(
    results: Table,
    *,
    name: str,
    config: str,
    public: bool,
    notify: Callable[[str], None],
) -> None:
    """Push ``results`` to the data set ``name`` as its configuration ``config``, replacing an earlier one.

    A data set that is not there is made, private unless ``public``. The token is that of the library's own settings.

    Raises:
        InputError: the data set is public, and is not said to be, or the other way round.
        StorageError: the hub refuses it, or cannot be reached.
    """
    with temporary_folder() as folder:
        path = folder / "results.parquet"
        try:
            write_parquet(results.rows(), path)
        except OSError as error:
            raise StorageError(
                f"--to-hub {name}: no copy of the results could be made ({error.strerror}); set TMPDIR to a larger disk"
            ) from error
        with _heard(name):
            import datasets

            hub.hush()
            rows = datasets.Dataset.from_parquet(str(path), cache_dir=str(folder))
            _check_visibility(name, public=public)
            rows.push_to_hub(
                name,
                config_name=config,
                split="train",
                commit_message=f"robin export --what {config}",
            )
    seen = "public" if public else "private"
    notify(f"pushed {number_of(len(rows), 'row')}: hf://{name}?config={config} ({seen})")


def _check_visibility(name: str, *, public: bool) -> None:
    """Create the data set if it is missing. InputError if it is public or private against the user's choice."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import RepositoryNotFoundError

    hub_api = HfApi()
    try:
        found = hub_api.repo_info(name, repo_type="dataset")
    except RepositoryNotFoundError:
        hub_api.create_repo(name, repo_type="dataset", private=not public, exist_ok=True)
        found = hub_api.repo_info(name, repo_type="dataset")
    if bool(found.private) == public:
        fact, step = (
            ("is private there", "leave --public out, or make it public on the hub first")
            if public
            else (
                "is public there, so that all could read the results",
                "say --public, or name another data set",
            )
        )
        raise InputError(f"--to-hub {name}: {fact}; {step}")


@contextmanager
def _heard(name: str) -> Iterator[None]:
    """Return an error of the libraries or the network in a line or two, never with a token."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name in {"datasets", "huggingface_hub"}:
            raise hub.no_library(
                "--to-hub", "the library that writes to the Hugging Face hub is not installed"
            ) from None
        raise
    except RobinError:
        raise
    except Exception as error:  # noqa: BLE001  # those of the libraries and of the network have no class in common
        raise StorageError(f"--to-hub {name}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    kinds = {each.__name__ for each in type(error).__mro__}
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status == 401:
        return f"the token is refused. {_LOGIN}"
    if status == 403 or "RepositoryNotFoundError" in kinds:
        return "this token may not write there. Check the owner, or take a token that may write"
    if isinstance(status, int):
        return f"the hub answers with HTTP {status}. Try again later; the run is as it was"
    if "OfflineModeIsEnabled" in kinds:
        return "the hub may not be asked here: HF_HUB_OFFLINE is set. Unset it, or write a file with -o"
    if kinds & {"ConnectionError", "TimeoutError", "TransportError"}:
        return f"the hub cannot be reached ({type(error).__name__}). Check the network, or write a file with -o"
    return f"could not be pushed: {type(error).__name__}: {hub.first_line(error)}. Write a file with -o instead"
