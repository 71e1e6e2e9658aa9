"""robin label: people label the pairs of a run at a page of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from robin_cli.cli.options import Invocation, command

if TYPE_CHECKING:
    from robin_cli.show.label.work import Labelling


@command(
    "label runs/20261120T101500Z-helpfulness --labeller ann --n 100",
    "run labeller n port no_browser",
    words={
        "run": "A run directory. (default: the newest run)",
        "n": "How many pairs each person labels; they are drawn at random. (default: 50)",
        "port": "Port of the page on 127.0.0.1. (default: a free one)",
    },
)
def label(call: Invocation) -> None:
    """Rate pairs of a run yourself, in the browser.

    The page does not show what the judge said. Press a number to rate, u to undo, s to skip, c to comment. Labels are saved
    at once, in labels.csv of the run: report, status, export and compare use them from there.
    """
    from robin_cli.model.records import number_of
    from robin_cli.run.layout import LABELS
    from robin_cli.run.manifest import newest_run
    from robin_cli.run.reader import read_run
    from robin_cli.show.label.work import Labelling, changes
    from robin_cli.show.messages import messages_for

    flags, note = call.flags, messages_for().note
    path = Path(flags.run) if flags.run else newest_run()
    if not flags.run:
        note(f"run: {path}, the newest one")
    data = read_run(path)
    labelling = Labelling(data, flags.n or 50)
    if labelling.caution:
        note(f"note: {labelling.caution}")
    _serve(labelling, flags.labeller, flags.port or 0, opens_browser=not flags.no_browser)
    for name, labels in labelling.given_labels.items():
        note(f"{number_of(len(labels), 'label')} by {name} saved in {path / LABELS}")
    if agreement := labelling.agreement():  # not before: labels are to be independent
        note(f"note: {agreement}")
    for line in changes(data):
        note(line)


def _serve(labelling: Labelling, labeller: str, port: int, *, opens_browser: bool) -> None:
    """Serve the page until the user is done or presses Ctrl-C."""
    import asyncio
    import webbrowser
    from contextlib import suppress
    from tempfile import TemporaryDirectory

    from robin_cli.show.label.server import LabelPage

    def ready(address: str) -> None:
        typer.echo(address)
        typer.echo("Press Ctrl-C or Done to stop; labels are saved as you go", err=True)
        if (
            opens_browser
        ):  # by a file: a command line, with the token in it, is for all users to see
            page = Path(folder) / "open.html"
            page.write_text(f'<meta http-equiv="refresh" content="0;url={address}">')
            webbrowser.open(page.as_uri())

    async def serve() -> None:
        await LabelPage(labelling, labeller).serve(port, ready)

    with suppress(KeyboardInterrupt), TemporaryDirectory() as folder:
        asyncio.run(serve())
