"""The robin command: one Typer app, one place where errors become messages and exit codes."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, NoReturn, TextIO

import typer
from typer.core import TyperGroup

from robin_cli import __version__
from robin_cli.cli import (
    check,
    compare,
    demo,
    export,
    gate,
    inspect,
    judge,
    label,
    plan,
    report,
    simulate,
    status,
    tools,
    trial,
)
from robin_cli.cli.streams import discard_output, finish_output, settle_streams
from robin_cli.model.errors import (
    ClusterLost,
    InputError,
    ReadAs,
    RobinError,
    StorageError,
)

INTERRUPTED = 130
_NAME_SHOWN = 120
_show_warning = warnings.showwarning
_DOCS = "Documentation: the folder docs/ of robin's source."
"""Its address, once it has one."""
_SUMMARY = "robin spends a fixed budget of LLM-judge calls where they help."
_HELP_ALL = "robin.help_all"
_TAKES = {str: "TEXT", int: "N", float: "X"}
"""The help's words for the values of flags, by type, for flags without their own."""


_GROUPS = {
    "Start": ("demo", "init", "check", "rubrics", "try"),
    "Judge": ("plan", "judge", "resume"),
    "Look": ("status", "runs", "report", "results", "export"),
    "Decide": ("compare", "gate", "label"),
}
"""The commands in the help of robin itself, in their order."""

_TOOLS = ("render", "parse", "simulate", "serve")
"""Commands that only ``robin --help-all`` lists."""


class _Group(TyperGroup):
    def list_commands(self, _ctx: Any) -> list[str]:
        """Return the names of the commands, in the order of their groups."""
        return [*(name for names in _GROUPS.values() for name in names), *_TOOLS]

    def resolve_command(self, ctx: Any, args: Any) -> Any:
        """Return the command, with its help tidied."""
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            _tidy_help(command, ctx)
        return name, command, rest

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write a help that fits on a screen: a line for each command."""
        formatter.write(f"{_SUMMARY}\n\n")
        is_whole = ctx.meta.get(_HELP_ALL, False)
        for title, names in (_GROUPS | ({"Tools": _TOOLS} if is_whole else {})).items():
            for number, name in enumerate(names):
                about = (self.commands[name].help or "").split("\n\n")[0].removesuffix(".")
                formatter.write(f"{'' if number else title:<8}{name:<10}{about}\n")
        if is_whole:
            _write_parameters(self, ctx, formatter)
            formatter.write(f"\n{_DOCS}\n")
        else:
            formatter.write(
                "\nrobin COMMAND --help explains a command, robin --help-all lists all of them.\n"
            )

    def invoke(self, ctx: Any) -> Any:
        """Run a command; if its output's reader leaves (robin export … | head), it ends quietly."""
        try:
            result = super().invoke(ctx)
            finish_output()
        except BrokenPipeError:
            discard_output()
            return None
        except KeyboardInterrupt as error:  # Typer would end without a word
            _leave(f"interrupted{error}", INTERRUPTED)
        return result


def _tidy_help(command: Any, ctx: Any) -> None:
    """Name in a word what a flag takes, and write the parameters by group."""
    command.format_options = partial(_write_parameters, command)
    for param in command.get_params(ctx):
        if param.param_type_name == "argument":
            param.display_type_rich = lambda **_: None
        elif param.metavar is None and not param.is_flag:
            param.metavar = _TAKES.get(getattr(param.type_descriptor, "annotation", object))


def _write_parameters(command: Any, ctx: Any, formatter: Any) -> None:
    groups: dict[str, list[tuple[str, str]]] = {"Arguments": []}
    for param in command.get_params(ctx):
        if record := param.get_help_record(ctx):
            group = "Arguments" if param.param_type_name == "argument" else "Options"
            groups.setdefault(param.rich_help_panel or group, []).append(record)
    for title, records in groups.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


app = typer.Typer(
    cls=_Group,
    name="robin",
    help=_SUMMARY,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich would take half the time of a help
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
)
for each in (
    judge,
    plan,
    status,
    export,
    inspect,
    report,
    compare,
    gate,
    label,
    simulate,
    tools,
    check,
    demo,
    trial,
):
    app.add_typer(each.app)


def _print_version(wanted: bool) -> None:  # Typer's callbacks take the value
    if wanted:
        typer.echo(f"robin {__version__}")
        raise typer.Exit


def _print_all(ctx: typer.Context, wanted: bool) -> None:
    if wanted:
        ctx.meta[_HELP_ALL] = True
        typer.echo(ctx.get_help(), nl=False)
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
    _all: Annotated[
        bool,
        typer.Option(
            "--help-all",
            help="List all commands and options.",
            callback=_print_all,
            is_eager=True,
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; every error from a user's input or surroundings ends here, as a message and an exit code."""
    warnings.showwarning = _note
    # numpy reads it when it is imported: on a busy machine, threads that share a small matrix wait for one another.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    settle_streams()
    try:
        _check_arguments(sys.argv[1:])
        try:
            app()
        except RobinError:
            with suppress(StorageError, BrokenPipeError):  # what went wrong first says more
                finish_output()
            raise
        finally:
            finish_output()  # what --help and --version print
    except ClusterLost as error:
        try:
            _leave(str(error), error.exit_code)
        finally:
            os._exit(error.exit_code)
    except RobinError as error:
        _leave(str(error), error.exit_code)
    except KeyboardInterrupt:
        _leave("interrupted", INTERRUPTED)
    except BrokenPipeError:
        sys.exit(1)
    except (
        OSError
    ) as error:  # of the machine, not of robin: a folder that went away, too many open files
        named = str(error.filename or "")
        place = f"{named[:_NAME_SHOWN]}{'…' * (len(named) > _NAME_SHOWN)}: " if named else ""
        _leave(f"{place}{error.strerror or error}", 2 if error.errno == errno.ENAMETOOLONG else 1)


def _check_arguments(given: Sequence[str]) -> None:
    for argument in given:
        if not argument.isascii() and any("\ud800" <= char <= "\udfff" for char in argument):
            raise InputError(
                f'"{argument}": holds bytes that are not UTF-8, which no file of a run could name; rename the file'
            )


def _note(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print readers' warnings like a command's messages; other warnings come from libraries."""
    if not issubclass(category, ReadAs):
        _show_warning(message, category, filename, lineno, file, line)
        return
    _say(f"note: {message}")


def _leave(message: str, code: int) -> NoReturn:
    _say(f"robin: {message}")
    sys.exit(code)


def _say(line: str) -> None:
    from robin_cli.show.text import fitted, plain

    print(fitted(plain(line), sys.stderr), file=sys.stderr)
