"""Commands, and their options from the tables of settings and flags.

Each setting of robin judge has a ``ROBIN_*`` variable of its name; the help says so once, not at every flag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, make_dataclass, replace
from functools import cached_property
from glob import has_magic
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from robin_cli.cli.flags import FLAGS, PANEL, Flags

if TYPE_CHECKING:
    from robin_cli.settings.setting import Setting
    from robin_cli.settings.table import Settings

_KNOWN = {
    "attribute": "ask.rubrics:known_attributes",
    "template": "ask.templates:known_templates",
    "scheduler": "policies.registry:known_policies",
    "config": "settings.reading:ready_configs",
}
"""What knows the values of an option, imported only once they are asked for."""

_DAILY = (
    *("data", "attribute", "rubric", "base_url", "model", "api_key_env", "columns", "pairwise"),
    *("limit", "budget", "max_cost", "decide", "target_error", "concurrency", "temperature"),
    *("max_tokens", "run", "output"),
)
"""What the help of a command with many settings shows: those of an afternoon. --help-all shows all."""

_MANY = 30
HELP_ALL = "robin.help_all"
OF_SCORES = frozenset(("columns", "scale", "skip_bad_rows"))
OF_ROWS = frozenset(("format", "output", "raw"))
OF_VIEWS = frozenset(("with_text", "wide", "show", "guaranteed"))

app = typer.Typer(
    name="robin",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich would take half the time of a help
)
"""All commands; each module adds its own."""


@dataclass(frozen=True)
class Invocation:
    """What a user typed after the name of a command.

    Attributes:
        flags: the command's own; ``settings``: those of settings that were typed, by name.
        takes: all settings that the command takes.
    """

    flags: Flags
    settings: Mapping[str, Any]
    takes: Sequence[Setting]
    context: typer.Context

    def with_variables(self) -> dict[str, Any]:
        """Return the settings that were typed, else those in variables. InputError for a wrong one."""
        from robin_cli.settings.reading import variables

        others = variables(each for each in self.takes if each.name not in self.settings)
        return {**others, **self.settings}

    def load_settings(self) -> Settings:
        """Return the settings from flags, variables and a TOML file. InputError for a wrong one."""
        from robin_cli.settings.reading import load_settings

        return load_settings(self.with_variables(), self.flags.config)

    def scored_runs(self) -> list[Path]:
        """Return the runs, with a temporary one in place of each file of scores; without any, the newest run here.

        Raises:
            InputError: a file cannot be used, or there is no run.
        """
        from robin_cli.run.manifest import newest_run
        from robin_cli.show.messages import messages_for

        note = messages_for().note
        runs = [Path(run) for run in (self.flags.run, *self.flags.runs) if run]
        if not runs:
            runs = [newest_run()]
            note(f"run: {runs[0]}, the newest one")
        if all(run.is_dir() for run in runs):
            return runs
        from robin_cli.model.errors import READ_WITH
        from robin_cli.run.recorded import as_runs  # brings all formats of files
        from robin_cli.show.parsing import read_scale

        flags = {name: value for name, value in self.settings.items() if name in OF_SCORES}
        words = " ".join(_words_of(name, value) for name, value in flags.items() if value)
        READ_WITH.update({str(run): words for run in runs if not run.is_dir()})
        if "scale" in flags:
            flags["scale"] = read_scale(flags["scale"])
        return self.context.with_resource(as_runs(runs, note, by=self.flags.by, **flags))


def _words_of(name: str, value: Any) -> str:
    """Return a flag and its value as words of a command to copy."""
    from robin_cli.model.errors import option

    flag = f"--{name.replace('_', '-')}"
    if isinstance(value, Mapping):
        value = ",".join(f"{ours}={theirs}" for ours, theirs in value.items())
    return flag if value is True else option(flag, value)


def command(
    example: str,
    flags: str = "",
    settings: Callable[[Setting], bool] | Iterable[str] = (),
    *,
    name: str | None = None,
    words: Mapping[str, str] | None = None,
    simulation: bool = False,
) -> Callable[[Callable[[Invocation], None]], Callable[[Invocation], None]]:
    """Make a function the command of its name.

    Args:
        example: what its help shows, without robin.
        flags: its own, by name, with blanks between.
        settings: chooses or names the settings that it takes.
        name: that of the command, if it is no name of a function.
        words: the help of options that mean something else here.
        simulation: it also takes all settings of a simulation.
    """

    def registered(work: Callable[[Invocation], None]) -> Callable[[Invocation], None]:
        class Command(_Command):
            is_chosen = staticmethod(settings if callable(settings) else _named(settings))
            is_simulation = simulation
            own_flags = tuple(FLAGS[flag] for flag in flags.split())
            other_words = words or {}

        def call(ctx: typer.Context) -> None:
            work(ctx.obj)

        epilog = f"Example: robin {example}"
        app.command(name or work.__name__, cls=Command, help=work.__doc__, epilog=epilog)(call)
        return work

    return registered


def _named(names: Iterable[str]) -> Callable[[Setting], bool]:
    return lambda setting: setting.name in names


class _Command(TyperCommand):
    is_chosen: Callable[[Setting], bool]
    is_simulation: bool
    own_flags: Sequence[Setting]
    other_words: Mapping[str, str]

    @cached_property
    def settings(self) -> list[Setting]:
        """Return the settings, found only on demand, because robin --version needs none."""
        from robin_cli.settings.table import TABLE
        from robin_cli.simulate.settings import SCALE, SIMULATION

        scale = filter(self.is_chosen, [SCALE])
        own = SIMULATION.values() if self.is_simulation else scale
        return [*own, *filter(self.is_chosen, TABLE.values())]

    @cached_property
    def options(self) -> list[Any]:
        """Return settings and flags in Typer's form, and --help-all if there are many."""
        fields = [
            (each.name, _declaration(self._with_words(each)), None)
            for each in (*self.settings, *self.own_flags)
        ]
        if len(self.settings) > _MANY:
            option = help_all(f"Show all {len(self.settings)} settings.")
            fields.append(("help_all", Annotated[bool, option], False))  # type: ignore[arg-type]
        app = typer.Typer(add_completion=False)
        app.command()(make_dataclass("Declared", fields))
        return list(typer.main.get_command(app).params)

    def _with_words(self, setting: Setting) -> Setting:
        if setting.name not in self.other_words:
            return setting
        return replace(setting, help=self.other_words[setting.name], default=None, default_said="")

    def is_shown(self, name: str) -> bool:
        """Return whether the short help has an option."""
        names = {setting.name for setting in self.settings}
        return len(names) <= _MANY or name not in names or name in {*_DAILY, *self.other_words}

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, in the order of the help."""
        return [*self.options, *super().get_params(ctx)]

    def invoke(self, ctx: Any) -> Any:
        """Pass what was typed in one object. InputError, or RunError, before the libraries of the work are imported."""
        from robin_cli.settings.reading import parsed

        values = [(each, ctx.params.pop(each.name)) for each in (*self.own_flags, *self.settings)]
        typed = {
            each.name: parsed(each, ",".join(value) if each.by_commas else value, each.flag)
            for each, value in values
            if value is not None and value != ()
        }
        names = typed.keys() & {flag.name for flag in self.own_flags}
        flags = Flags(**{name: typed.pop(name) for name in names})
        for run in (flags.run, *flags.runs):
            if run and not Path(run).is_file() and not has_magic(run):
                from robin_cli.run.manifest import read_manifest

                read_manifest(Path(run))
        ctx.obj = Invocation(flags, typed, self.settings, ctx)
        return super().invoke(ctx)


def help_all(words: str) -> Any:
    """Return an option that prints the help with everything."""

    def print_all(ctx: typer.Context, wanted: bool) -> None:  # Typer's callbacks take the value
        if wanted:
            ctx.meta[HELP_ALL] = True
            typer.echo(ctx.get_help(), nl=False)
            raise typer.Exit

    return typer.Option(
        "--help-all", help=words, callback=print_all, is_eager=True, expose_value=False
    )


def _declaration(setting: Setting) -> Any:
    """Return a setting as Typer takes it; its value is a text, several texts, or a switch."""
    is_switch = setting.kind is bool
    kind: Any = bool if is_switch else list[str] if setting.several else str
    metavar = setting.metavar or {int: "N", float: "X"}.get(setting.kind, "TEXT")
    about: dict[str, Any] = {
        "help": help_of_flag(setting),
        "metavar": None if is_switch else metavar,
        "autocompletion": _completing(setting.name, setting.choices),
    }
    if setting.argument:
        return Annotated[kind | None, typer.Argument(show_default=False, **about)]
    # what a file says, a flag may take back
    may_be_off = is_switch and setting.panel != PANEL and not setting.name.startswith("no_")
    name = f"{setting.flag}/--no-{setting.flag[2:]}" if may_be_off else setting.flag
    short = [setting.short] if setting.short else []
    return Annotated[
        kind | None, typer.Option(name, *short, rich_help_panel=setting.panel, **about)
    ]


def _completing(name: str, choices: Iterable[str] = ()) -> Callable[[str], list[str]]:
    """Complete the last of several names with commas between."""

    def complete(incomplete: str) -> list[str]:
        *before, last = incomplete.split(",")
        values = choices or known_values(name)
        return [",".join([*before, value]) for value in values if value.startswith(last)]

    return complete


def known_values(name: str) -> Iterable[str]:
    """Return the possible values of an option in ``_KNOWN``; none for another."""
    if name not in _KNOWN:
        return ()
    module, _, function = _KNOWN[name].partition(":")
    values: Iterable[str] = getattr(import_module(f"robin_cli.{module}"), function)()
    return values


def help_of_flag(setting: Setting) -> str:
    """Return the help of a setting's flag, with the default."""
    default = setting.default[0] if setting.default and setting.several else setting.default
    if isinstance(default, bool) or not isinstance(default, int | float | str):
        default = ""
    default = setting.default_said or (f"{default:g}" if isinstance(default, float) else default)
    words = with_known(setting.help.replace("{again}", "given again"), setting.name)
    return f"{words} (default: {default})" if default != "" else words


def with_known(words: str, name: str) -> str:
    """Return a help text with the known values of an option in place of ``{known}``."""
    return words.replace("{known}", ", ".join(known_values(name))) if "{known}" in words else words


def is_of_judging(setting: Setting) -> bool:
    """Return whether robin judge has this setting: the scale of its ratings stands in the rubric."""
    return setting.name != "scale"
