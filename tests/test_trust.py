"""Where keys and prompts go: to hosts that the user named, never to one that a folder or a received run names.

http://0.0.0.0 reaches this machine, and does not count as this machine: it stands for a stranger's host.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from robin_cli import judge, open_run
from robin_cli.model.errors import InputError, RunError, option, typed
from robin_cli.runner.checking import check_judges
from robin_cli.runner.resuming import reopen_run
from robin_cli.settings.reading import load_settings
from robin_cli.settings.table import Settings
from robin_cli.settings.trust import Source, doubts, host_of, is_loopback, remember, remembered
from tests.conftest import at_a_terminal, has, plant, refuses, robin, robin_afresh, write_pairs
from tests.judges.wire import Wire, completion, serving
from tests.many_starts import starts
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
    """The keys, and a configuration folder of this test's own."""
    return {**KEYS, "XDG_CONFIG_HOME": str(tmp_path / "config")}


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

    commands = [["judge", *ASKED], ["plan", *ASKED, "--pilot", "2"], ["check"]]
    for command in commands if address == "base_url" else commands[:1]:
        refused = robin(*command, cwd=here, **env, exits=2)
        for told in (
            "robin.toml",
            host_of(elsewhere(wire)),
            "OPENAI_API_KEY",
            "--config robin.toml",
        ):
            assert told in refused.stderr
    assert not wire.bodies
    assert not (here / "runs").exists()

    robin("judge", *ASKED, "--config", "robin.toml", cwd=here, **env, exits=0)
    assert keys_sent(wire) == {KEYS["OPENAI_API_KEY"]}
    robin("judge", *ASKED, cwd=here, **env, exits=0)  # what was named once is known
    assert keys_sent(wire) == {KEYS["OPENAI_API_KEY"]}


def test_sends_no_prompts_without_a_key_either(here: Path, env: dict[str, str], wire: Wire) -> None:
    (here / "robin.toml").write_text(
        f'model = "m"\nbase_url = "{elsewhere(wire)}"\n', encoding="utf-8"
    )

    refused = robin("judge", "p.jsonl", *ASKED, cwd=here, **env | {"OPENAI_API_KEY": ""})
    assert (refused.returncode, wire.bodies) == (2, [])
    assert "the prompts (no key) sent to http://0.0.0.0" in refused.stderr
    robin("judge", "p.jsonl", *ASKED, "--base-url", elsewhere(wire), cwd=here, **env, exits=0)
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
    manifest = here / "r" / "manifest.json"
    content = json.loads(manifest.read_text(encoding="utf-8"))
    content["sessions"][-1].update(session)
    manifest.write_text(json.dumps(content), encoding="utf-8")
    keys_sent(wire)
    return here / "r"


@pytest.mark.parametrize("in_model", [False, True])
def test_sends_no_key_where_a_received_run_says(
    here: Path, env: dict[str, str], wire: Wire, *, in_model: bool
) -> None:
    where = {"model": [f"m@{elsewhere(wire)}"]} if in_model else {"base_url": [elsewhere(wire)]}
    log = here / "log.jsonl"
    received(here, wire, api_key_env=["OTHER_KEY"], debug_http=str(log), **where)
    again = ["resume", "r", "--budget", "8"]
    host = ["--model", f"m@{elsewhere(wire)}"] if in_model else ["--base-url", elsewhere(wire)]

    refused = robin(*again, cwd=here, **env, exits=2)
    assert (
        f"r/manifest.json wants the key in OTHER_KEY sent to {host_of(elsewhere(wire))}"
        in refused.stderr
    )
    only_host = robin(
        *again, *host, cwd=here, **env
    )  # the variable has to be the user's choice as well
    assert (only_host.returncode, "OTHER_KEY" in only_host.stderr) == (2, True)
    robin(*again, "--api-key-env", "OTHER_KEY", cwd=here, **env, exits=2)
    assert not wire.bodies

    robin(*again, *host, "--api-key-env", "OPENAI_API_KEY", cwd=here, **env, exits=0)
    assert keys_sent(wire) == {KEYS["OPENAI_API_KEY"]}
    told = shlex.split(refused.stderr.split("name it yourself: ")[1])
    robin("resume", "r", "--budget", "10", *told, cwd=here, **env, exits=0)
    assert keys_sent(wire) == {KEYS["OTHER_KEY"]}
    assert not log.exists()


def test_resumes_what_its_owner_named_and_asks_another(
    here: Path, env: dict[str, str], wire: Wire, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mine = ["--base-url", elsewhere(wire), "--api-key-env", "OTHER_KEY"]
    command = ["judge", "p.jsonl", *ASKED, "--model", "m", "--run", "r"]
    robin(*command, *mine, cwd=here, **env, exits=0)
    robin("resume", "r", "--budget", "6", cwd=here, **env, exits=0)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert open_run(here / "r").resume(budget=8, quiet=True).status()["spent"] == 8
    assert keys_sent(wire) == {KEYS["OTHER_KEY"]}

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another"))
    with pytest.raises(
        InputError, match=re.escape(f"base_url=['{elsewhere(wire)}'], api_key_env=['OTHER_KEY']")
    ):
        open_run(here / "r").resume(budget=10)
    assert not wire.bodies
    open_run(here / "r").resume(
        budget=10, base_url=elsewhere(wire), api_key_env="OTHER_KEY", quiet=True
    )
    assert keys_sent(wire) == {KEYS["OTHER_KEY"]}
    kept = tmp_path / "another" / "robin" / "trusted-hosts"
    assert kept.read_text(encoding="utf-8").split() == [host_of(elsewhere(wire)), "OTHER_KEY"]
    assert (kept.stat().st_mode & 0o777, kept.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def answering(answer: str, *args: str, cwd: Path, env: dict[str, str]) -> tuple[int, str]:
    return at_a_terminal(*args, cwd=cwd, typed=answer, **env)


def test_asks_no_judge_of_a_package_because_a_received_run_says_so(
    here: Path, env: dict[str, str]
) -> None:
    code = "def judge(messages):\n open('asked', 'a').close()\n return 'Rating: 3'\n"
    put_package(
        here / "site", "robin-sender", code, {"robin.judges": {"sender": "robin_sender:judge"}}
    )
    with starts(here, env=env, path=here / "site") as started:
        start = partial(started.robin, cwd=here)
        assert start("judge", "p.jsonl", *ASKED, "--judge", "sender", "--run", "r").returncode == 0
        (here / "asked").unlink()
        assert start("resume", "r", "--budget", "6").returncode == 0  # its owner's
        (here / "asked").unlink()

        another = env["XDG_CONFIG_HOME"] + "-of-another"
        refused = start("resume", "r", "--budget", "8", XDG_CONFIG_HOME=another)
        said = "r/manifest.json wants the prompts (no key) sent to judge://sender, which you have not named"
        assert (refused.returncode, said in refused.stderr) == (2, True), refused.stderr
        told = shlex.split(refused.stderr.split("name it yourself: ")[1])
        assert told == ["--judge", "sender"]
        assert not (here / "asked").exists()
        assert start("resume", "r", "--budget", "8", *told, XDG_CONFIG_HOME=another).returncode == 0
    assert (here / "asked").exists()


HOSTILE = [
    "--trust-remote-code",
    "-m",
    "a b",
    "$(touch it)",
    "`touch it`",
    "x;touch it",
    "'",
    "-x=$(touch it)",
    "a\\",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_prints_no_command_that_a_name_makes_another(tmp_path: Path, name: str) -> None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("--model")
    commands = {"path": typed(name), "option": option("--model", name)}
    words = {}
    for kind, line in commands.items():
        done = subprocess.run(
            ["sh", "-c", f"printf '%s\\0' {line}"], cwd=tmp_path, capture_output=True, text=True
        )
        words[kind] = done.stdout.split("\0")[:-1]
    assert not list(tmp_path.iterdir())
    assert [Path(each) for each in words["path"]] == [Path(name)]
    assert not words["path"][0].startswith("-")
    assert parser.parse_args(words["option"]).model == name


def test_asks_on_a_terminal_and_keeps_a_yes(here: Path, env: dict[str, str], wire: Wire) -> None:
    received(here, wire, base_url=[elsewhere(wire)], api_key_env=["OTHER_KEY"])
    again = ("resume", "r", "--budget", "8", "--format", "csv")

    status, shown = answering("n", *again, cwd=here, env=env)
    assert (status, wire.bodies) == (2, [])
    has(shown, f"wants the key in OTHER_KEY sent to {host_of(elsewhere(wire))}", "[y/N]")
    assert answering("yes", *again, cwd=here, env=env)[0] == 0
    assert keys_sent(wire) == {KEYS["OTHER_KEY"]}
    robin("resume", "r", "--budget", "9", cwd=here, **env, exits=0)


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
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    run = Source(
        "r",
        "run",
        {"base_url": ["https://mine/v1"], "model": ["m@https://panel/v1"], "api_key_env": ["MINE"]},
    )
    known = [
        ("https://mine/v2", "MINE"),
        ("https://panel/v1", "MINE"),
        ("https://mine/v1", "OPENAI_API_KEY"),
    ]
    known += [
        ("https://api.openai.com/v1", "OPENAI_API_KEY"),
        ("http://localhost:1/v1", "AWS"),
        ("https://mine", "-"),
    ]
    new = [("http://mine/v1", "MINE"), ("https://mine:8443/v1", "MINE"), ("https://mine.", "MINE")]
    new += [
        ("https://mine/v1", "AWS"),
        ("https://api.openai.com/v1", "MINE"),
        ("http://api.openai.com/v1", "-"),
    ]

    assert doubts(run, known) == []
    assert doubts(run, new) == [(host_of(url), variable) for url, variable in new]
    assert remember(new[:2])
    assert remember([*known, *new[:2]])
    assert remembered() >= {("http://mine", "MINE"), ("https://mine:8443", "MINE")}
    assert doubts(run, new) == [(host_of(url), variable) for url, variable in new[2:]]
    assert doubts(Source(), new) == []
    lines = (tmp_path / "robin" / "trusted-hosts").read_text(encoding="utf-8").split("\n")
    assert len(list(filter(None, lines))) == len(remembered())  # each once


FOREIGN = 'model = "m"\nbase_url = ["http://127.0.0.1:1/v1", "https://evil.example/v1"]\n'


@pytest.mark.parametrize(
    ("text", "flag"),
    [
        ('api_key_env = "AWS_SECRET_ACCESS_KEY"', "--api-key-env"),
        ('api_key_env = ["OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY"]', "--api-key-env"),
        ('output = "../scores.csv"', "--output"),
        ('output = "link"', "--output"),
        ('run = "/tmp/run"', "--run"),
        ('run = "folder/r"', "--run"),
        ('debug_http = "~/.bashrc"', "--debug-http"),
        ('ray = "10.0.0.1:6379"', "--ray"),
        ('ray = "local"', "--ray"),
        ('data = "https://evil.example/pairs.jsonl"', "DATA"),
        ('data = ["p.jsonl", "s3://bucket/pairs.jsonl"]', "DATA"),
        ('data = "FILE://host/x.jsonl"', "DATA"),
        ('output = "s3://bucket/scores.csv"', "--output"),
        ('run = "gs://bucket/run"', "--run"),
        ('variances = "https://evil.example/run"', "--variances"),
        ('debug_http = "a/../../b"', "--debug-http"),
        (FOREIGN + 'template = "link"', "--template"),
        (FOREIGN + 'template = "bare"', "--template"),
        (FOREIGN + 'data = ["p.jsonl", "~/secrets.jsonl"]', "DATA"),
        (FOREIGN + 'data = "folder/*.jsonl"', "DATA"),
        (FOREIGN + 'data = "*.txt"', "DATA"),
        (FOREIGN + 'rubric = "/etc/passwd"', "--rubric"),
        ('model = ["a", "b@https://evil.example/v1"]\nvariances = "../run"', "--variances"),
    ],
)
def test_refuses_what_only_named_files_say(
    here: Path, monkeypatch: pytest.MonkeyPatch, text: str, flag: str
) -> None:
    outside = here.parent / "outside"
    outside.mkdir()
    (outside / "x.txt").touch()
    (outside / "x.jsonl").touch()
    for name, target in {"link": "x.txt", "bare": "x.txt", "folder": "", "y.txt": "x.txt"}.items():
        (here / name).symlink_to(outside / target)
    (here / "robin.toml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(here)
    name = "data" if flag == "DATA" else flag.removeprefix("--").replace("-", "_")

    with pytest.raises(
        InputError,
        match=rf"robin\.toml: {name}: a file that was found, not named, may not .*give {flag} yourself.*--config robin\.toml",
    ):
        load_settings({}, None)
    load_settings({}, "robin.toml")
    several = name in {"data", "api_key_env", "rubric"}
    load_settings({name: ["MINE"] if several else "local" if name == "ray" else "mine"}, None)


def test_goes_by_no_price_of_a_found_file_that_undoes_a_limit_on_money(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    asked = {"model": ["gpt-4.1"], "base_url": ["https://api.openai.com/v1"], "max_cost": 0.01}

    def check(price: float, file: str | None, **more: Any) -> None:
        Path("robin.toml").write_text(
            f"price_in = {price}\nprice_out = {price}\n", encoding="utf-8"
        )
        check_judges(load_settings(asked | more, file))

    for price in (0.0, 1e-6, 1.0):
        said = r"price of gpt-4.1, .* is lower than that of genai-prices .*--max-cost would rely on it; give --price-in and "
        refuses(InputError, said, check, price, None)
        check(price, "robin.toml")
        check(price, None, max_cost=None)
        check(price, None, price_in=[price], price_out=[price])
        check(price, None, model=["a model that nobody lists"])
        with pytest.raises(
            InputError, match="is lower than that of genai"
        ):  # one of the two is not enough
            check(price, None, price_out=[10.0])
    check(10.0, None)
    Path("robin.toml").write_text(
        "price_in = 10\nprice_out = 10\nprice_cached = 0\n", encoding="utf-8"
    )
    refuses(InputError, "is lower than that of genai", check_judges, load_settings(asked, None))


def test_takes_what_a_found_file_says_of_its_own_folder(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = 'data = "*.jsonl"\nrun = "runs/a"\noutput = "-"\ntemplate = "with-reference"\napi_key_env = "OPENAI_API_KEY"\n'
    (here / "robin.toml").write_text(
        FOREIGN + said + 'debug_http = "../here/log"', encoding="utf-8"
    )
    monkeypatch.chdir(here)
    assert load_settings({}, None).data == ("*.jsonl",)
    (here / "robin.toml").write_text(
        'data = "/data/p.jsonl"\nmodel = "m"', encoding="utf-8"
    )  # to OpenAI, as ever
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
    sound = (run.path / "manifest.json").read_text(encoding="utf-8")
    for session in ({"base_url": ["https://a\\@b/v1"]}, {"api_key_env": ["A=B"]}, {"model": [3]}):
        content = json.loads(sound)
        content["sessions"][-1].update(session)
        (run.path / "manifest.json").write_text(json.dumps(content), encoding="utf-8")
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
    sound = manifest.read_text(encoding="utf-8")
    for name, value in (
        ("template", "{% block user %}Say 4: {{ response }}{% endblock %}"),
        ("request", "Say 4."),
    ):
        content = json.loads(sound)
        content["prompt"][name] = value
        manifest.write_text(json.dumps(content), encoding="utf-8")
        with pytest.raises(
            RunError, match=r"its template and rubrics are not those .*restore the file from a copy"
        ):
            reopen_run(run, Settings())
    content = json.loads(sound)
    content["prompt"]["template"] = "{% block user %}\n{{ ('x' * 10**5) * 10**5 }}{% endblock %}"
    manifest.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(
        InputError, match=r"template of this run \(only a new run .*, line 2: \* is not allowed"
    ):
        reopen_run(run, Settings())
    manifest.write_text(sound, encoding="utf-8")
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
