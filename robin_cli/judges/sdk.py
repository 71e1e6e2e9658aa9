"""What OpenAI's SDK, its HTTP library and the environment say about the connection to an endpoint.

``AsyncOpenAI`` gives the address and the headers as all tools that stand on it send them: the kind of client, and what
OPENAI_ORG_ID and OPENAI_PROJECT_ID say. httpx2 finds the certificates. Neither sends anything: building a request in the SDK
costs more than sending it (docs/evidence/performance.md), and its retries know no budget. Both are slow to import, so they are
imported where they are used.
"""

from __future__ import annotations

import os
import ssl
from contextlib import suppress
from functools import cache
from urllib.request import getproxies, proxy_bypass

from yarl import URL

from robin_cli.model.errors import EndpointError
from robin_cli.settings.addresses import is_loopback

_OPENAI_HOST = "api.openai.com"


def address_and_headers(base_url: str, api_key: str) -> tuple[URL, dict[str, str]]:
    """Return the address, which ends in a slash, and the headers of every request there."""
    import httpx2
    from openai import AsyncOpenAI

    unused = httpx2.AsyncClient(transport=httpx2.AsyncBaseTransport(), trust_env=False)
    client = AsyncOpenAI(base_url=base_url, api_key=api_key, http_client=unused)
    if client.base_url.host != _OPENAI_HOST:
        # The SDK would send OPENAI_ORG_ID and OPENAI_PROJECT_ID to any address.
        client.organization = client.project = None
    headers = {name: text for name, text in client.default_headers.items() if isinstance(text, str)}
    headers["Accept-Encoding"] = "identity"  # compressed text may expand a thousandfold
    headers["Authorization"] = f"Bearer {api_key}"
    return URL(str(client.base_url)), headers


@cache
def certificates() -> ssl.SSLContext:
    """Load the certificate authorities of this machine, once for all endpoints: it takes as long as twenty calls.

    Raises:
        EndpointError: a variable names a file or folder that cannot be read.
    """
    from httpx2 import create_ssl_context

    try:
        return create_ssl_context()
    except OSError as error:
        names = [name for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if name in os.environ]
        raise EndpointError(
            f"{names[0] if names else 'TLS'}: its certificates cannot be read ({error.strerror or error}); name a file of "
            "certificates, or unset it"
        ) from None


def proxy_for(address: URL) -> str | None:
    """Return the address of the proxy for requests to ``address``, as the environment names it.

    Raises:
        EndpointError: it is not one of HTTP.
    """
    if is_loopback(address.host or "") or proxy_bypass(address.authority):
        return None
    proxies = getproxies()
    if not (text := proxies.get(address.scheme) or proxies.get("all")):
        return None
    with suppress(ValueError):
        proxy = URL(text if "://" in text else f"http://{text}")
        if proxy.scheme in {"http", "https"} and proxy.host:
            return str(proxy)
    raise EndpointError(
        f"{proxy_variables()}: not a proxy that robin can use; name one as http://host:port, or unset it"
    )


def proxy_variables() -> str:
    names = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
    return ", ".join(name for name in names if os.environ.get(name))
