"""Which keys the LiteLLM proxy of the tests takes, with limits that need no database.

`sk-ok` has none; `sk-rpm-2` may ask twice a minute, `sk-tpm-200` for 200 tokens a minute, `sk-par-2` two things at once.
Every other key is refused.
"""

# mypy: disable-error-code="import-not-found,import-untyped"

from fastapi import Request
from litellm.proxy._types import ProxyException, UserAPIKeyAuth

LIMITS = {"rpm": "rpm_limit", "tpm": "tpm_limit", "par": "max_parallel_requests"}


async def auth(request: Request, api_key: str) -> UserAPIKeyAuth:
    """What the holder of ``api_key`` may do."""
    match api_key.split("-"):
        case ["sk", "ok"]:
            return UserAPIKeyAuth(api_key=api_key)
        case ["sk", kind, number] if kind in LIMITS and number.isdecimal():
            return UserAPIKeyAuth(api_key=api_key, **{LIMITS[kind]: int(number)})
    raise ProxyException(
        message="Incorrect API key provided", type="invalid_request_error", param=None, code=401
    )
