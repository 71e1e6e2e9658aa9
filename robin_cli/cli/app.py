"""The robin command: one Typer app, one place where errors become messages and exit codes."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Annotated, Any, NoReturn, TextIO

import typer
from typer.core import TyperGroup

from robin_cli import __version__
from robin_cli.cli.options import HELP_ALL, app, help_all
from robin_cli.cli.streams import discard_output, finish_output, settle_streams
from robin_cli.model.errors import ClusterLost, ReadAs, RobinError, StorageError, shown

__all__ = ["INTERRUPTED", "app", "main"]

INTERRUPTED = 130
_NAME_SHOWN = 120
_show_warning = warnings.showwarning
_DOCS = "Documentation: the folder docs/ of robin's source."
"""Its address, once it has one."""
_SUMMARY = "robin spends a fixed budget of LLM-judge calls where they help."

_GROUPS = {
    "Start": ("demo", "init", "check", "rubrics", "try"),
    "Judge": ("plan", "judge", "resume"),
    "Look": ("status", "runs", "report", "results", "export"),
    "Decide": ("compare", "gate", "label"),
}
"""The commands in the help of robin itself, in their order."""

for _module in (
    *("check", "compare", "demo", "export", "gate", "init", "judge", "label", "plan", "render"),
    *("report", "resume", "serve", "simulate", "status", "trial"),
):
    import_module(f"robin_cli.cli.{_module}")  # it adds its commands to the app

_TOOLS = {"Tools": ("render", "parse", "simulate", "serve")}
"""Commands that only ``robin --help-all`` lists."""


class _Group(TyperGroup):
    def list_commands(self, _ctx: Any) -> list[str]:
        """Return the names of the commands, in the order of their groups."""
        return [name for names in (_GROUPS | _TOOLS).values() for name in names]

    def resolve_command(self, ctx: Any, args: Any) -> Any:
        """Return the command, which writes its parameters by group."""
        command: Any
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            command.format_options = partial(_write_parameters, command)
            for param in command.get_params(ctx):
                if param.param_type_name == "argument":  # the help says what it takes, not its type
                    param.display_type_rich = lambda **_: None
        return name, command, rest

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write a help that fits on a screen: a line for each command."""
        formatter.write(f"{_SUMMARY}\n\n")
        has_all = ctx.meta.get(HELP_ALL, False)
        for title, names in (_GROUPS | (_TOOLS if has_all else {})).items():
            for number, name in enumerate(names):
                about = (self.commands[name].help or "").split("\n\n")[0].removesuffix(".")
                formatter.write(f"{'' if number else title:<8}{name:<10}{about}\n")
        if has_all:
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


def _write_parameters(command: Any, ctx: Any, formatter: Any) -> None:
    """Write the help of each parameter, without a flag's --no-… form, which would make it half as long again."""
    is_shown = getattr(command, "is_shown", lambda _name: True)
    groups: dict[str, list[tuple[str, str]]] = {"Arguments": []}
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if record and (ctx.meta.get(HELP_ALL) or is_shown(param.name)):
            group = "Arguments" if param.param_type_name == "argument" else "Options"
            line = (record[0].split(" / --no-")[0], record[1])
            groups.setdefault(param.rich_help_panel or group, []).append(line)
    for title, records in groups.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def _print_version(wanted: bool) -> None:  # Typer's callbacks take the value
    if wanted:
        typer.echo(f"robin {__version__}")
        raise typer.Exit


@app.callback(
    cls=_Group,
    help=_SUMMARY,
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
)
def _root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
    _all: Annotated[bool, help_all("List all commands and options.")] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; every error from a user's input or surroundings ends here, as a message and an exit code."""
    warnings.showwarning = _note
    # numpy reads it when it is imported: on a busy machine, threads that share a small matrix wait for one another.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    settle_streams()
    try:
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
    except OSError as error:
        # of the machine, not of robin: a folder that went away, too many open files
        place = f"{shown(error.filename, _NAME_SHOWN)}: " if error.filename else ""
        _leave(f"{place}{error.strerror or error}", 2 if error.errno == errno.ENAMETOOLONG else 1)


def _note(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print readers' warnings like a command's messages; other warnings come from libraries."""
    if issubclass(category, ReadAs):
        _say(f"note: {message}")
    else:
        _show_warning(message, category, filename, lineno, file, line)


def _leave(message: str, code: int) -> NoReturn:
    _say(f"robin: {message}")
    sys.exit(code)


def _say(line: str) -> None:
    from robin_cli.show.text import fitted, plain

    print(fitted(plain(line), sys.stderr), file=sys.stderr)
