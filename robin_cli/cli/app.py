"""The robin command: one Typer app, one place where errors become messages and exit codes."""

from __future__ import annotations

import os
import sys
from importlib.abc import MetaPathFinder
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from robin_cli import __version__
from robin_cli.cli import check, inspect, judge, plan, report, simulate, tools
from robin_cli.errors import RobinError

INTERRUPTED = 130


class _Group(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        """Run a command; a reader that leaves (robin export … | head) ends it quietly."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # Python would meet the closed pipe again when it flushes stdout at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return None
        return result


app = typer.Typer(
    cls=_Group,
    name="robin",
    help="Spends a fixed budget of LLM-judge calls where the ratings vary most.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
judge.register(app)
plan.register(app)
inspect.register(app)
report.register(app)
simulate.register(app)
tools.register(app)
check.register(app)


def _print_version(wanted: bool) -> None:  # Typer's callbacks take the value
    if wanted:
        typer.echo(f"robin {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


class _WithoutPandas(MetaPathFinder):
    """pyarrow imports pandas, where there is one, at its first array: a third of a second for what no command uses
    but to read from the Hugging Face hub, whose library does need it.
    """

    def find_spec(self, fullname: str, _path: object, _target: object = None) -> None:
        """Say that there is no pandas; leave all else to others."""
        if fullname == "pandas" and "datasets" not in sys.modules:
            raise ModuleNotFoundError("pandas is left out of the command line", name=fullname)


def main() -> None:
    """Run the command line; every error a user can cause or meet ends here, as one message and an exit code."""
    sys.meta_path.insert(0, _WithoutPandas())
    try:
        app()
    except RobinError as error:
        _complain(str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        _complain("interrupted")
        sys.exit(INTERRUPTED)


def _complain(message: str) -> None:
    from robin_cli.output.text import plain

    print(f"robin: {plain(message)}", file=sys.stderr)
