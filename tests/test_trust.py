"""Where keys and prompts go: to hosts that the user named, never to one that a folder or a received run names.

http://0.0.0.0 reaches this machine, and does not count as this machine: it stands for a stranger's host.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from robin_cli import judge, open_run
from robin_cli.model.errors import InputError, RunError, option, typed
from robin_cli.model.plugins import plugins
from robin_cli.session.resuming import reopen_run
from robin_cli.settings.addresses import host_of, is_loopback
from robin_cli.settings.made_here import is_made_here, keep_sendings, kept_sendings
from robin_cli.settings.reading import load_settings
from robin_cli.settings.table import Settings
from robin_cli.settings.trust import (
    AT_ENDPOINTS,
    Source,
    check_sendings,
)
from tests.conftest import change_manifest, has, plant, refuses, robin, robin_afresh, write_pairs
from tests.judges.wire import Wire, completion, serving
from tests.packages import put_package

pytestmark = pytest.mark.skipif(os.name == "nt", reason="0.0.0.0 leads nowhere there")

KEYS = {"OPENAI_API_KEY": "sk-planted-openai-1", "OTHER_KEY": "planted-other-2"}
ASKED = ("-a", "helpfulness", "-b", "4")


@pytest.fixture
def wire() -> Iterator[Wire]:
    with serving(
        lambda number, _: completion(f"Feedback: no {number}.\nRating: {number % 5}")
    ) as wire:
        yield wire


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """The keys, and a state folder of this test's own."""
    return {**KEYS, "XDG_STATE_HOME": str(tmp_path / "state")}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with pairs to stand in."""
    folder = tmp_path / "here"
    folder.mkdir()
    write_pairs(folder / "p.jsonl", 2)
    return folder


def elsewhere(wire: Wire) -> str:
    return wire.url.replace("127.0.0.1", "0.0.0.0")  # noqa: S104  # an address to send to


def keys_sent(wire: Wire) -> set[str]:
    """What came as keys since this was asked last."""
    sent = {headers["Authorization"].removeprefix("Bearer ") for headers in wire.headers}
    wire.headers.clear()
    wire.bodies.clear()
    return sent


@pytest.mark.parametrize("address", ["base_url", "model"])
def test_sends_nothing_to_a_host_only_the_folder_names(
    here: Path, env: dict[str, str], wire: Wire, address: str
) -> None:
    named = {
        "base_url": f'model = "m"\nbase_url = "{elsewhere(wire)}"',
        "model": f'model = "m@{elsewhere(wire)}"',
    }
    (here / "robin.toml").write_text(
        named[address] + '\ndata = "p.jsonl"\nquiet = true\n', encoding="utf-8"
    )

    refused = None
    for key in (KEYS["OPENAI_API_KEY"], ""):
        refused = robin("judge", *ASKED, cwd=here, **env | {"OPENAI_API_KEY": key}, exits=2)
        said = f"robin.toml: {address}: a robin.toml that robin found does not decide that prompts go to"
        has(" ".join(refused.stderr.split()), said, host_of(elsewhere(wire)))
    assert not wire.bodies
    assert not (here / "runs").exists()

    assert refused is not None
    told = shlex.split(refused.stderr.split("name it: ")[1])
    assert told == ["robin", "judge", *ASKED, "--config", "robin.toml"]
    robin(*told[1:], cwd=here, **env, exits=0)
    assert keys_sent(wire) == {KEYS["OPENAI_API_KEY"]}
    robin("judge", *ASKED, cwd=here, **env, exits=2)  # each time anew
    flags = ("--base-url", elsewhere(wire), "--model", "m")
    robin("judge", *ASKED, *flags, cwd=here, **env, exits=0)
    assert keys_sent(wire) == {KEYS["OPENAI_API_KEY"]}


def received(here: Path, wire: Wire, **session: Any) -> Path:
    """A run that a stranger made here and whose last session says ``session``."""
    asked: dict[str, Any] = {
        "attribute": "helpfulness",
        "budget": 4,
        "model": "m",
        "base_url": wire.url,
        "quiet": True,
    }
    judge(here / "p.jsonl", run=here / "r", **asked)
    change_manifest(here / "r", lambda content: content["sessions"][-1].update(session))
    keys_sent(wire)
    return here / "r"


@pytest.mark.parametrize("in_model", [False, True])
def test_sends_no_key_where_a_received_run_says(
    here: Path, env: dict[str, str], wire: Wire, *, in_model: bool
) -> None:
    where = {"model": [f"m@{elsewhere(wire)}"]} if in_model else {"base_url": [elsewhere(wire)]}
    received(here, wire, api_key_env=["OTHER_KEY"], **where)
    again = ["resume", "r", "--budget", "8"]
    host = ["--model", f"m@{elsewhere(wire)}"] if in_model else ["--base-url", elsewhere(wire)]

    refused = robin(*again, cwd=here, **env, exits=2)
    said = f"r/manifest.json wants the key in OTHER_KEY sent to {host_of(elsewhere(wire))}"
    assert said in refused.stderr
    # The variable has to be the user's choice as well, and so has the host.
    assert "OTHER_KEY" in robin(*again, *host, cwd=here, **env, exits=2).stderr
    robin(*again, "--api-key-env", "OTHER_KEY", cwd=here, **env, exits=2)
    assert not wire.bodies

    robin(*again, *host, "--api-key-env", "OPENAI_API_KEY", cwd=here, **env, exits=0)
    assert keys_sent(wire) == {KEYS["OPENAI_API_KEY"]}
    told = shlex.split(refused.stderr.split("name it yourself: ")[1])
    robin("resume", "r", "--budget", "10", *told, cwd=here, **env, exits=0)
    assert keys_sent(wire) == {KEYS["OTHER_KEY"]}


def test_resumes_a_run_made_here_with_its_own_host_and_key_alone(
    here: Path, env: dict[str, str], wire: Wire, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mine = ["--base-url", elsewhere(wire), "--api-key-env", "OTHER_KEY"]
    command = ["judge", "p.jsonl", *ASKED, "--model", "m"]
    robin(*command, *mine, "--run", "r", cwd=here, **env, exits=0)
    robin(*command, "--base-url", wire.url, "--run", "other", cwd=here, **env, exits=0)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    keys_sent(wire)
    assert open_run(here / "r").resume(budget=6, quiet=True).status()["spent"] == 6
    assert keys_sent(wire) == {KEYS["OTHER_KEY"]}

    # What one run was made with is nothing that another may send to.
    at_host = {"base_url": [elsewhere(wire)], "api_key_env": ["OTHER_KEY"]}
    change_manifest(here / "other", lambda content: content["sessions"][-1].update(at_host))
    robin("resume", "other", "--budget", "8", cwd=here, **env, exits=2)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    refuses(InputError, "--api-key-env OTHER_KEY", open_run(here / "r").resume, budget=10)
    assert not wire.bodies

    open_run(here / "r").resume(
        budget=10, base_url=elsewhere(wire), api_key_env="OTHER_KEY", quiet=True
    )
    assert keys_sent(wire) == {KEYS["OTHER_KEY"]}
    kept = tmp_path / "another" / "robin" / "runs"
    assert kept.read_text(encoding="utf-8").split()[1:] == [host_of(elsewhere(wire)), "OTHER_KEY"]
    assert (kept.stat().st_mode & 0o777, kept.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_asks_no_judge_of_a_package_because_a_received_run_says_so(
    here: Path, env: dict[str, str], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    code = "def judge(messages):\n open('asked', 'a').close()\n return 'Rating: 3'\n"
    put_package(
        here / "site", "robin-sender", code, {"robin.judges": {"sender": "robin_sender:judge"}}
    )
    monkeypatch.syspath_prepend(here / "site")
    request.addfinalizer(plugins.cache_clear)
    plugins.cache_clear()
    robin("judge", "p.jsonl", *ASKED, "--judge", "sender", "--run", "r", cwd=here, **env, exits=0)
    (here / "asked").unlink()
    robin("resume", "r", "--budget", "6", cwd=here, **env, exits=0)  # its owner's
    (here / "asked").unlink()

    another = env | {"XDG_STATE_HOME": env["XDG_STATE_HOME"] + "-of-another"}
    refused = robin("resume", "r", "--budget", "8", cwd=here, **another, exits=2)
    assert "r/manifest.json wants the prompts (no key) sent to judge://sender" in refused.stderr
    told = shlex.split(refused.stderr.split("name it yourself: ")[1])
    assert told == ["--judge", "sender"]
    assert not (here / "asked").exists()
    robin("resume", "r", "--budget", "8", *told, cwd=here, **another, exits=0)
    assert (here / "asked").exists()


def test_counts_by_no_price_of_a_received_run(here: Path, env: dict[str, str], wire: Wire) -> None:
    received(here, wire, price_in=[1e-9], price_out=[1e-9])  # made in this process's state folder
    done = robin("resume", "r", "--budget", "6", cwd=here, **env, exits=0)
    assert "r: its prices do not count, because it was not made here" in " ".join(
        done.stderr.split()
    )
    limited = ("resume", "r", "--budget", "8", "--max-cost", "1")
    received_again = env | {"XDG_STATE_HOME": env["XDG_STATE_HOME"] + "-of-another"}
    refused = robin(*limited, cwd=here, **received_again, exits=2)
    assert 'no price is known for "m"' in " ".join(refused.stderr.split())
    # Its second session here has the prices of the first: none.
    refused = robin(*limited, cwd=here, **env, exits=2)
    assert 'no price is known for "m"' in " ".join(refused.stderr.split())


def test_renders_no_template_that_a_received_run_brings(
    here: Path, env: dict[str, str], wire: Wire
) -> None:
    (here / "mine.jinja").write_text(
        "{% block user %}{{ instruction }} {{ response }} {{ attribute }}{% endblock %}",
        encoding="utf-8",
    )
    asked = ("--model", "m", "--base-url", wire.url, "--template", "mine.jinja", "--run", "r")
    robin("judge", "p.jsonl", *ASKED, *asked, cwd=here, **env, exits=0)
    robin("resume", "r", "--budget", "5", cwd=here, **env, exits=0)  # its owner's
    keys_sent(wire)

    another = env | {"XDG_STATE_HOME": env["XDG_STATE_HOME"] + "-of-another"}
    again = ("resume", "r", "--budget", "6")
    (here / "other.jinja").write_text("{{ response }}", encoding="utf-8")
    digest = hashlib.sha256((here / "mine.jinja").read_bytes()).hexdigest()
    for more in ((), ("--template", "other.jinja"), ("--template", "nowhere.jinja")):
        refused = robin(*again, *more, cwd=here, **another, exits=2)
        assert (digest in refused.stderr) == ("nowhere.jinja" not in more)
    assert not wire.bodies
    robin(*again, "--template", "mine.jinja", cwd=here, **another, exits=0)
    assert wire.bodies


HOSTILE = [
    *("--trust-remote-code", "-m", "a b", "$(touch it)", "`touch it`", "x;touch it", "'"),
    "-x=$(touch it)",
    "a\\",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_prints_no_command_that_a_name_makes_another(tmp_path: Path, name: str) -> None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("--model")
    words = {}
    for kind, line in {"path": typed(name), "option": option("--model", name)}.items():
        done = subprocess.run(
            ["sh", "-c", f"printf '%s\\0' {line}"], cwd=tmp_path, capture_output=True, text=True
        )
        words[kind] = done.stdout.split("\0")[:-1]
    assert not list(tmp_path.iterdir())
    assert [Path(each) for each in words["path"]] == [Path(name)]
    assert not words["path"][0].startswith("-")
    assert parser.parse_args(words["option"]).model == name


HERE = ["localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"]
STRANGERS = """127.0.0.1.evil.com localhost.evil.com 127.evil.com localhost. evil.localhost 0.0.0.0 2130706433 0x7f.1 127.1
:: ::ffff:8.8.8.8 ::127.0.0.1 １２７.0.0.1"""


@pytest.mark.parametrize("host", [*HERE, *STRANGERS.split()])
def test_takes_for_this_machine_what_can_be_no_other(host: str) -> None:
    assert is_loopback(host) == (host in HERE)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://API.OpenAI.com:443/v1", "https://api.openai.com"),
        ("HTTP://h:8000/v1/", "http://h:8000"),
        ("http://h:08000", "http://h:8000"),
        ("http://[::1]:80/v1", "http://[::1]"),
        ("https://my_vllm.corp.:8443/a?b", "https://my_vllm.corp.:8443"),
    ],
)
def test_tells_hosts_by_scheme_name_and_port(url: str, host: str) -> None:
    assert host_of(url) == host


@pytest.mark.parametrize(
    "url",
    [
        "https://api.openai.com\\@evil.com/v1",
        "https://api.openai.com@evil.com/v1",
        "https://api.openai.com\t.evil.com/v1",
        "https://api.openai.com%2eevil.com/v1",
        "https://api.openai.com／.evil.com/v1",
        "https://аpi.openai.com/v1",  # the first letter is Cyrillic
        *(
            " https://api.openai.com/v1",
            "https://api.openai.com:99999/v1",
            "https://api.openai.com:/v1",
        ),
        *("https:///v1", "http://[::1/v1", "http://[::1%25eth0]/v1", "ftp://h/v1", "https://-/v1"),
        "judge://length",  # what stands for a judge at no address is none
    ],
)
def test_takes_no_address_that_two_readers_could_read_as_two_hosts(url: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # which of urllib's it is says nothing
        host_of(url)
    refuses(InputError, "--base-url: must", load_settings, {"base_url": [url]}, None)


def test_holds_another_scheme_port_or_variable_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    own = {"base_url": (), "model": ("m",), "api_key_env": (), "judge": (AT_ENDPOINTS,)}
    named = {"base_url": ["https://mine/v1"], "model": ["m@https://panel/v1"]}

    def run() -> Source:
        return Source("r", kept_sendings("a1"), {**named, "api_key_env": ["MINE"]})

    known = [
        ("https://mine/v2", "MINE"),
        ("https://panel/v1", "MINE"),
        ("https://mine/v1", "OPENAI_API_KEY"),
        ("https://api.openai.com/v1", "OPENAI_API_KEY"),
        ("http://localhost:1/v1", "AWS"),
        ("https://mine", "-"),
    ]
    known = [(host_of(url), variable) for url, variable in known]
    check_sendings(run(), own, known)
    for url, variable in [
        ("http://mine/v1", "MINE"),
        ("https://mine:8443/v1", "MINE"),
        ("https://mine.", "MINE"),
        ("https://mine/v1", "AWS"),
        ("https://api.openai.com/v1", "MINE"),
        ("http://api.openai.com/v1", "-"),
    ]:
        new = (host_of(url), variable)
        refuses(InputError, re.escape(new[0]), check_sendings, run(), own, [*known, new])
        check_sendings(Source(), own, [new])
        keep_sendings("b2", [new, new])
        refuses(InputError, re.escape(new[0]), check_sendings, run(), own, [new])
        keep_sendings("a1", [new])
        check_sendings(run(), own, [new])
    kept = (tmp_path / "robin" / "runs").read_text(encoding="utf-8").splitlines()
    assert len(kept) == len(set(kept)) == 12


def test_keeps_runs_where_no_other_folder_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.setenv("HOME", "home")
    keep_sendings("a1", [("https://mine", "K")])
    assert not list(tmp_path.iterdir())
    assert not is_made_here("a1")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('api_key_env = ["OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY"]', "which key is sent"),
        ('base_url = ["http://127.0.0.1:1/v1", "https://evil.example/v1"]', "https://evil.example"),
        ('model = ["a", "b@https://evil.example/v1"]', "https://evil.example"),
        ('judge = "sender"', "who judges"),
        ('ray = "local"', "which cluster"),
        ("price_in = 0.1", "a price"),
        ("price_cached = 0.1", "a price"),
        ('output = "scores.csv"', "where files are written"),
        ('run = "runs/mine"', "where files are written"),
        ('data = ["p.jsonl", "s3://bucket/pairs.jsonl"]', "from an address"),
        ('variances = "https://evil.example/run"', "from an address"),
    ],
)
def test_lets_a_found_file_decide_nothing_that_only_the_user_may(
    here: Path, monkeypatch: pytest.MonkeyPatch, text: str, what: str
) -> None:
    (here / "robin.toml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(here)
    monkeypatch.setattr("sys.argv", ["robin", "judge", "a b.jsonl"])
    name = text.partition(" ")[0]
    said = (
        rf"robin\.toml: {name}: .* {what}.*name it: robin judge 'a b\.jsonl' --config robin\.toml"
    )
    refuses(InputError, said, load_settings, {}, None)
    load_settings({}, "robin.toml")
    several = name in {"data", "api_key_env", "model"}
    given = "http://localhost:1/v1" if name == "base_url" else "local" if name == "ray" else "mine"
    load_settings({name: 1 if name.startswith("price") else ["M"] if several else given}, None)


def test_takes_from_a_found_file_what_it_may_decide(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = 'data = "/data/p.jsonl"\nmodel = "m"\nbase_url = "http://localhost:1/v1"\ntemplate = "with-reference"\n'
    (here / "robin.toml").write_text(f'{said}api_key_env = "OPENAI_API_KEY"\n', encoding="utf-8")
    monkeypatch.chdir(here)
    assert load_settings({}, None).data == ("/data/p.jsonl",)


def test_a_file_in_the_folder_does_not_pass_for_a_ready_config(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "vllm").write_text('base_url = "https://evil.example/v1"', encoding="utf-8")
    monkeypatch.chdir(here)
    assert load_settings({}, "vllm").base_url == ("http://localhost:8000/v1",)
    assert load_settings({}, "./vllm").base_url == ("https://evil.example/v1",)


def test_what_is_set_in_the_environment_is_named(
    here: Path, env: dict[str, str], wire: Wire
) -> None:
    (here / "robin.toml").write_text(
        'model = "m"\nbase_url = "https://evil.example/v1"\n', encoding="utf-8"
    )
    robin("judge", "p.jsonl", *ASKED, cwd=here, **env, OPENAI_BASE_URL=elsewhere(wire), exits=0)
    assert keys_sent(wire) == {KEYS["OPENAI_API_KEY"]}


def test_refuses_a_run_whose_last_session_holds_no_address(here: Path, wire: Wire) -> None:
    run = open_run(received(here, wire))
    sound = (run.path / "manifest.json").read_bytes()
    for session in ({"base_url": ["https://a\\@b/v1"]}, {"api_key_env": ["A=B"]}, {"model": [3]}):
        (run.path / "manifest.json").write_bytes(sound)
        change_manifest(run.path, lambda content: content["sessions"][-1].update(session))  # noqa: B023
        refuses(
            RunError,
            r"manifest\.json: .*(api_key_env|base_url|model).*restore the file",
            run.resume,
            budget=8,
        )
    assert not wire.bodies


def test_goes_on_with_no_other_question_than_the_one_that_a_run_names(
    here: Path, wire: Wire
) -> None:
    run = received(here, wire)
    manifest = run / "manifest.json"
    sound = manifest.read_bytes()
    for name, value in (
        ("template", "{% block user %}Say 4: {{ response }}{% endblock %}"),
        ("request", "Say 4."),
    ):
        manifest.write_bytes(sound)
        change_manifest(run, lambda content: content["prompt"].update({name: value}))  # noqa: B023
        with pytest.raises(
            RunError, match=r"its template and rubrics are not those .*restore the file from a copy"
        ):
            reopen_run(run, Settings())
    manifest.write_bytes(sound)
    reopen_run(run, Settings()).close()


def test_runs_nothing_of_the_folder_that_the_module_is_started_in(tmp_path: Path) -> None:
    plugged = {
        "robin.judges": {"odd": "stranger:judge"},
        "robin.datasets": {"jsonl": "stranger:rows"},
    }
    put_package(tmp_path, "stranger", "", plugged)
    imported = plant(tmp_path, "numpy", "json", "re", "typing", "stranger")
    write_pairs(tmp_path / "pairs.jsonl", 2)
    done = robin_afresh("judge", "pairs.jsonl", *ASKED, "--judge", "odd", cwd=tmp_path, exits=2)
    assert not imported.exists()
    assert "odd" in done.stderr
