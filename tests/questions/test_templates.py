"""Templates of strangers: what robin refuses or bounds, and what every template may do as Jinja does it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from jinja2 import Environment

from robin_cli.model.records import Pair
from robin_cli.questions.rubrics import PromptSet, rubric_of

DOUBLED = "{% set x = response %}" + "{% set x = x ~ x %}" * 40 + "{{ x }}"
BOUNDED = "the prompt grows beyond .* characters; loop over fewer items, or repeat less text"
BOMBS = {
    "{{ ('x' * 10**5) * 10**5 }}": r"line 1: \* is not allowed in a template; write the text or the number out",
    "{{ '%1000000000d' % 1 }}": r"% is not allowed in a template; put texts and values together with ~, as in",
    "{% for a in range(10**9) %}{% for b in range(10**9) %}{% endfor %}{% endfor %}": (
        r"the call range\(\) is not .* write the numbers out, as in \{% for number in \[1, 2, 3\] %\}"
    ),
    "{{ 9**9**9**9 }}": r"\*\* is not allowed in a template; write the number out",
    "{% for a in response %}{% for b in response %}{% for c in response %}{% endfor %}{% endfor %}{% endfor %}": BOUNDED,
    "{% for a in response %}{% for b in response %}"
    + "z" * 50_000
    + "{% endfor %}{% endfor %}": BOUNDED,
    "{% set x %}{% for a in response %}" + "z" * 900_000 + "{% endfor %}{% endset %}": BOUNDED,
    "{% for a in response %}{% if '"
    + "a" * 9_000
    + "b' in '"
    + "a" * 900_000
    + "' %}{% endif %}{% endfor %}": BOUNDED,
    DOUBLED: BOUNDED,
    "{% set x = [response] %}" + "{% set x = [x, x] %}" * 60 + "{{ x }}": BOUNDED,
    "{% set x = [1] %}" + "{% set x = x + x %}" * 60: BOUNDED,
    "{% set x %}{{ response }}{% endset %}" + "{% set x %}{{ x }}{{ x }}{% endset %}" * 60: BOUNDED,
    "{% set x = response %}" + "{% set x = x|replace('', x) %}" * 9: BOUNDED,
    "{% set x = response %}" + "{% set x = x|join(x) %}" * 9: BOUNDED,
    "{% filter replace('a', '" + "b" * 9_000 + "') %}" + "a" * 900_000 + "{% endfilter %}": BOUNDED,
    "{{ response|indent(1000000000, true) }}": BOUNDED,
    "{% set x = '" + "x" * 900_000 + "'.split('x') %}": BOUNDED,
    "{% set y = response|indent(-1000000000, true) %}" + DOUBLED: BOUNDED,
    "{{ response|center(1000000000) }}": "the filter center is not allowed in a template; there are capitalize, ",
    "{{ response|batch(1000000000, 'x')|list }}": "the filter batch is not",
    "{{ '%1000000000d'|format(1) }}": "the filter format is not",
    "{{ 1|round(-1000000000) }}": "the filter round is not",
    "{{ response|tojson(indent=1000000000) }}": "the filter tojson with such arguments is not allowed",
    "{{ '{:1000000000}'.format(1) }}": r"the call format\(\) is not .* put texts and values together with ~",
    "{{ response.ljust(1000000000) }}": r"the call ljust\(\) is not .* of a text you can call \.capitalize\(\), ",
    "{{ response.strip(response) }}": "give it a text of at most 100 characters",
    "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}": "macro is not .* write the text out, or loop over a list",
    "{{ self.user() }}{{ self.user() }}": r"the call user\(\) is not",
    "{% for a in [1] recursive %}{{ loop([1, 1]) }}{% endfor %}": "a recursive loop is not .* write a loop in a loop",
    "{{ lipsum(n=100000) }}": r"the call lipsum\(\) is not",
    "{% set n = namespace(x=1) %}": r"the call namespace\(\) is not .* give a name of its own with set",
    "{{ response['upper'] }}": "use texts, numbers and lists only",
    "{{ 0x" + "f" * 100_000 + " // 3 }}": "a number in it is too long; write a shorter one",
    "{{ 0xfffffffffffffffffffff // 3 }}": "a number in it is too large; write a smaller one",
    "{{ 1e999 }}": "cannot be rendered for pair p",
    "{{ low }}" * 2_000: "has more than 5,000 names, signs and texts; write it shorter",
    "{{ " + ("(" * 60 + "low" + "~low)" * 60 + "~") * 40 + "1 }}": "has more than 5,000",
}
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


def test_no_template_takes_memory_or_time() -> None:
    child = """if True:
        import json, resource, sys
        resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
        from robin_cli.model.errors import InputError
        from robin_cli.model.records import Pair
        from robin_cli.questions.rubrics import PromptSet, rubric_of
        for bomb in json.load(sys.stdin):
            try:
                text = PromptSet([rubric_of("helpfulness")], "{% block user %}" + bomb + "{% endblock %}")
                text.messages(Pair("p", "q", "r" * 1000), "helpfulness")
                print("rendered", flush=True)
            except InputError as error:
                print(" ".join(str(error).split()), flush=True)
    """
    done = subprocess.run(
        [sys.executable, "-c", child],
        input=json.dumps(list(BOMBS)),
        capture_output=True,
        text=True,
        timeout=100,
    )

    said = done.stdout.splitlines()
    assert len(said) == len(BOMBS), (list(BOMBS)[len(said)][:100], done.stderr[-500:])
    for (bomb, expected), line in zip(BOMBS.items(), said, strict=True):
        with pytest.raises(ValueError, match=expected):
            raise ValueError(f"{line} of {bomb[:100]}")


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
