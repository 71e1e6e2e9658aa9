# docker build -t robin . && docker run --rm -u "$(id -u)" -v "$PWD:/work" -e OPENAI_API_KEY robin judge pairs.jsonl …
FROM python:3.11-slim AS built
WORKDIR /robin
COPY pyproject.toml README.md LICENSE ./
COPY configs configs
COPY docs/robin.1 docs/robin.1
COPY plugins plugins
COPY prompts prompts
COPY robin_cli robin_cli
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /dist .

FROM python:3.11-slim
RUN --mount=type=bind,from=built,source=/dist,target=/dist \
    pip install --no-cache-dir /dist/*.whl && useradd --uid 1000 --create-home robin
ENV MPLCONFIGDIR=/tmp
USER 1000:1000
WORKDIR /work
ENTRYPOINT ["robin"]
CMD ["--help"]
