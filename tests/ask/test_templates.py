"""Templates: what they may do as Jinja does it, and the two limits on them."""

from __future__ import annotations

import hashlib

import pytest
from jinja2 import Environment

from robin_cli.ask import templates
from robin_cli.ask.prompts import PromptSet, prompt_source
from robin_cli.ask.rubrics import rubric_of
from robin_cli.ask.templates import is_shipped_template, known_templates
from robin_cli.model.errors import InputError
from robin_cli.model.records import Pair

LEGITIMATE = [
    "{{ 'from ' ~ low ~ ' to ' ~ high }}{% for number in [1, 2, 3] %}{{ number }}{% endfor %}",
    "{{ rubric[:20] }}|{{ instruction[-3:] }}|{{ response[::2] }}|{{ response[0] }}",
    "{{ response|trim|upper }} {{ title|title }} {{ response|length }} {{ response|wordcount }} {{ attribute|capitalize }}",
    "{{ response|replace('e', 'EE') }} {{ response|replace('', '-') }} {{ response|replace('e', '', 1) }}",
    "> {{ response|indent }}\n{{ response|indent(2, true) }}\n{{ response|indent('> ', blank=true) }}",
    "{{ ['a', low, 'c']|join(', ') }} {{ response|join('.') }} {{ response|truncate(9) }} {{ response|e }}",
    "{{ response|tojson }} {{ '3'|int + low }} {{ (low + high) // 2 }} {{ high - low + 1 }} {{ -low }} {{ high / 2 }}",
    "{% if 'b' in response and not low > 3 %}yes{% elif low is odd %}odd{% else %}no{% endif %}",
    "{% for line in response.splitlines() %}{{ loop.index }}/{{ loop.length }}: {{ line.strip() }}\n{% endfor %}",
    "{% for question, answer in [('1+1?', '2'), ('2+2?', '4')] %}Q: {{ question }} A: {{ answer }}\n{% endfor %}",
    "{% for x in [] %}{% else %}none{% endfor %}{% for x in [1, 2, 3] if x != 2 %}{{ x }}{% endfor %}",
    "{% set short = response|trim %}{% set both %}{{ short }} {{ title }}{% endset %}{{ both }}{{ short ~ low ~ '!' }}",
    "{{ reference|default('none') }} {{ reference if reference is defined else 'no reference' }}",
    "{%- filter upper %} {{ response }} {% endfilter -%} {% with a = title %}{{ a }}{% endwith %}{# said #}",
    "{% raw %}{{ low }}{% endraw %} {{ response.split(' ', 1)|last }} {{ response.lower().startswith('a') }}",
    "{% block inner %}{{ title }}{% endblock %}",
]


def rendered(body: str) -> str:
    """The question that a block ``user`` of this body makes."""
    source = "{% block user %}" + body + "{% endblock %}"
    (message,) = PromptSet([rubric_of("helpfulness")], source).messages(
        Pair("p", "q", "r" * 1000), "helpfulness"
    )
    return str(message["content"])


def test_reaches_nothing_of_python() -> None:
    for body in ("{{ response.__class__.__mro__ }}", "{{ response.format.__globals__ }}"):
        with pytest.raises(InputError, match=r"cannot be rendered for pair p .*unsafe"):
            rendered(body)


def test_limits_the_length_of_a_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "MOST", 100_000)
    thousand = "{% for a in response %}" + "z" * 1000 + "{% endfor %}"
    with pytest.raises(InputError, match=r"cannot be rendered for pair p .the prompt grows beyond"):
        rendered(thousand)
    assert len(rendered("{% for a in range(10) %}" + "z" * 1000 + "{% endfor %}")) == 10_000


def test_knows_the_shipped_templates_by_their_hash() -> None:
    for name in known_templates():
        assert is_shipped_template(hashlib.sha256(prompt_source(name).encode()).hexdigest())
    assert not is_shipped_template(hashlib.sha256(b"mine").hexdigest())


def test_renders_what_it_takes_as_jinja_does() -> None:
    for body in LEGITIMATE:
        source = "{% block user %}" + body + "{% endblock %}\n"
        rubric = rubric_of("helpfulness")
        pair = Pair("p", "What is “b”?", " A bee,\n\nin <Latin>: “apis”.\r\n Yes. ")
        values = {
            "instruction": pair.prompt,
            "response": pair.response,
            "rubric": rubric.text,
            "title": rubric.title,
        }
        values |= {"attribute": "helpfulness"}
        plain = Environment(keep_trailing_newline=True).from_string(source)  # noqa: S701  # plain text

        (message,) = PromptSet([rubric], source).messages(pair, "helpfulness")

        context = plain.new_context({**values, "low": 0, "high": 4})
        assert message["content"] == "".join(plain.blocks["user"](context)), body
