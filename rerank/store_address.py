"""The address of a store, and the keys below it: what may be written where, before anything is.

    s3://BUCKET/PREFIX?region=...&endpoint_override=HOST:PORT&scheme=http     gs://BUCKET/PREFIX

An address is printed, logged and sent to workers, so it may hold no secret: credentials come from
the environment of each process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from rerank.errors import ConfigError, unknown_name

URL = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+)://")
HALF_URL = re.compile(r"(s3a?|gs|gcs|abfss?|az|memory):/?[^/]")
SECRET = re.compile(r"key|secret|token|passw|credential|connection_string|sas|signature")


@dataclass(frozen=True)
class Address:
    """A URL of a store: scheme://place?options, without a secret in it."""

    scheme: str
    place: str  # bucket and prefix
    options: Mapping[str, str]

    def where(self, key: str) -> str:
        return f"{self.scheme}://{self.place}/{key}"


def is_url(root: str) -> bool:
    """Is a store's root a URL, not a path? ConfigError for a URL that lost a slash."""
    if HALF_URL.match(root):
        raise ConfigError(f"store '{root}': a URL has two slashes, as in s3://BUCKET/PREFIX")
    return URL.match(root) is not None


def parse_address(url: str) -> Address:
    """The parts of a store's URL; ConfigError for a secret in it, and for what is no place."""
    parts = urlsplit(url)
    scheme, host = parts.scheme.lower(), parts.netloc
    if "@" in host and (":" in host.partition("@")[0] or scheme in OPTIONS):
        raise ConfigError(
            f"the store's address {scheme}://… holds credentials; leave them out and set them in "
            f"the environment ({CREDENTIALS.get(scheme, 'as its library takes them')})"
        )
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    secret = next((name for name in options if SECRET.search(name.lower())), None)
    if secret:
        raise ConfigError(
            f"the store's address {scheme}://{host}… holds the secret '{secret}'; leave it out and "
            f"set it in the environment ({CREDENTIALS.get(scheme, 'as its library takes them')})"
        )
    prefix = parts.path.strip("/")
    place = f"{host}/{prefix}".strip("/")
    if not place or parts.fragment or (scheme in OPTIONS and not host):
        raise ConfigError(f"store '{url}' is no place; write it as {scheme}://BUCKET/PREFIX")
    check_key(place, f"{scheme}://{host}", remote=True)
    for name in options:
        if name not in OPTIONS.get(scheme, options):
            raise unknown_name(f"option of store {scheme}://{place}", name, OPTIONS[scheme])
    return Address(scheme, place, options)


def check_key(key: str, root: str, *, remote: bool) -> None:
    """ConfigError where a key would leave the store, or mean another key on another system.

    Keys are made of names that come from files: of tasks, models, suites.
    """
    strange = "\0" in key or (remote and ("\\" in key or any(ord(char) < 32 for char in key)))
    if strange or any(part in ("", ".", "..") for part in key.split("/")):
        raise ConfigError(f"{key!r} is not a path inside the store {root}; correct the name")


S3_OPTIONS = (
    "endpoint_override",
    "region",
    "scheme",
    "anonymous",
    "force_virtual_addressing",
    "tls_ca_file_path",
)
GS_OPTIONS = ("endpoint_override", "scheme", "anonymous", "project_id")
OPTIONS = {"s3": S3_OPTIONS, "gs": GS_OPTIONS}  # of other schemes: what their library takes
CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
}
