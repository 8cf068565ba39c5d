"""Where the keys and settings of an object store come from: botocore where it is installed, else variables and files.

botocore defines the chain of AWS: profiles with roles, SSO, web identity, containers, machines. Without it, only what
needs no requests is looked at. Not here: when a run asks for keys again (the engine), signatures (`shoal-s3`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shoal._errors import ConfigError, CredentialsError

if TYPE_CHECKING:
    from datetime import datetime, timedelta  # `import shoal` must be fast: modules are imported where they are used

Keys = dict[str, str]
Credentials = Mapping[str, Any] | Callable[[], Any]
EXTRA = "pip install 'shoal[s3]'"
# Minutes before the expiry of keys at which botocore is asked again: it renews those that expire within ten minutes.
AHEAD = 9
# The names of a key's parts: ours; those of STS and of programs that print credentials; those of files.
PARTS = {
    "access_key": ("AccessKeyId", "aws_access_key_id"),
    "secret_key": ("SecretAccessKey", "aws_secret_access_key"),
    "token": ("SessionToken", "aws_session_token"),
}
EXPIRY = ("expiry_time", "Expiration")
# What a profile may have that takes requests or programs.
DYNAMIC = ("role_arn", "sso_session", "sso_start_url", "credential_process", "login_session", "web_identity_token_file")
HOW = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a `profile`; a public bucket needs `anonymous=True`"


class Fixed:
    """Keys that stay as they are."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        """Takes the keys."""
        self.keys = _parts(given)

    def __call__(self) -> Any:
        """Returns them."""
        return self.keys


class _Function:
    """The user's function. Its keys are checked."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function

    def __call__(self) -> Any:
        return _parts(self.function())


def keys_function(credentials: object) -> Callable[[], Any]:
    """Returns a function that gives keys.

    Args:
        credentials: Keys, a function that returns them, or a session of botocore or boto3.

    Raises:
        ConfigError: It is something else.
    """
    if isinstance(credentials, Mapping):
        return Fixed(credentials)
    if hasattr(credentials, "get_credentials"):
        return Chain(getattr(credentials, "_session", credentials), "the session")  # that of botocore in boto3's
    if callable(credentials):
        return _Function(credentials)
    raise ConfigError("`credentials` must be keys, a function that returns them, or a session of botocore")


def _parts(given: Any) -> Keys | tuple[Keys, datetime | timedelta]:
    """Returns the parts of keys, with their expiry if they have one. Nothing of them is shown."""
    from datetime import datetime

    expiry = None
    if isinstance(given, tuple) and len(given) == 2:
        given, expiry = given
    wrong = 'credentials must be a dict with "access_key", "secret_key" and, if they are temporary, "token"'
    if not isinstance(given, Mapping):
        raise ConfigError(f"{wrong}, got {type(given).__name__}")
    keys = {
        name: next((given[one] for one in (name, *others) if given.get(one)), None) for name, others in PARTS.items()
    }
    if (
        not keys["access_key"]
        or not keys["secret_key"]
        or not all(isinstance(key, str | None) for key in keys.values())
    ):
        raise ConfigError(wrong)
    expiry = expiry or given.get(EXPIRY[0]) or given.get(EXPIRY[1])
    if isinstance(expiry, str):
        try:
            expiry = datetime.fromisoformat(expiry)
        except ValueError:
            raise ConfigError("the expiry of credentials is not a time as ISO 8601 has it") from None
    found = {name: key.strip() for name, key in keys.items() if key}
    if not all(key.isascii() and key.isprintable() for key in found.values()):
        raise ConfigError("credentials have characters that no key has")
    return (found, expiry) if expiry else found


def _errors() -> tuple[type[Exception], ...]:
    """What botocore raises, also for the programs and services that it asks."""
    from botocore.exceptions import BotoCoreError, ClientError

    return BotoCoreError, ClientError, OSError, ValueError


class Chain:
    """Gives the keys that a session of botocore finds."""

    def __init__(self, session: Any, where: str) -> None:
        """Looks for keys.

        Raises:
            CredentialsError: botocore finds no keys, or fails.
        """
        self.session, self._where = session, where
        try:
            self._found = session.get_credentials()
        except _errors() as error:
            raise _failed(f"botocore found no credentials for {where}: {error}", HOW) from None
        if self._found is None:
            raise _failed(f"botocore found no credentials for {where}", HOW)

    def fixed(self) -> Fixed | None:
        """Returns the keys, unless they are renewed, or are temporary ones in a file that another program may write."""
        keys = None if hasattr(self._found, "refresh_needed") else self._found.get_frozen_credentials()
        return Fixed(_named(keys)) if keys and (not keys.token or self._found.method == "env") else None

    def __call__(self) -> Any:
        """Returns the keys, and how long they can be used. Those that botocore does not renew are looked for again."""
        from datetime import UTC, datetime, timedelta

        try:
            if not hasattr(self._found, "refresh_needed"):
                self._found = type(self.session)(profile=self.session.profile).get_credentials() or self._found
            keys = self._found.get_frozen_credentials()
        except _errors() as error:
            raise _failed(f"botocore could not renew the credentials for {self._where}: {error}", HOW) from None
        expiry = getattr(self._found, "_expiry_time", None)
        if not isinstance(expiry, datetime):
            return _parts(_named(keys))
        left, ahead = expiry.astimezone(UTC) - datetime.now(UTC), timedelta(minutes=AHEAD)
        return _parts((_named(keys), left - ahead if left > 2 * ahead else left))


def _named(keys: Any) -> dict[str, Any]:
    return {"access_key": keys.access_key, "secret_key": keys.secret_key, "token": keys.token}


def configure(options: Mapping[str, Any]) -> tuple[dict[str, Any], Callable[[], Any] | None]:
    """Returns the settings of the user's configuration that `options` leave open, and a function that gives keys.

    Args:
        options: Those of `shoal.s3`, where `credentials` is what `keys_function` returns.

    Raises:
        CredentialsError: Nothing gives keys, and the bucket was not said to be public.
        ConfigError: The profile does not exist, or the configuration cannot be read.
    """
    given, anonymous, profile = options.get("credentials"), bool(options.get("anonymous")), options.get("profile")
    if given and anonymous:
        raise ConfigError("`anonymous` and `credentials` cannot be used together")
    needed = not (given or anonymous)
    try:
        import botocore.session  # imported here: only stores need it, and it is an extra
    except ImportError:
        settings, keys = _plain(profile, needed=needed)
        return settings, given or keys
    session = given.session if isinstance(given, Chain) else botocore.session.Session(profile=profile)
    settings = _settings(session)
    where = f'the profile "{profile}"' if profile else "the default profile"
    keys = given or (Chain(session, where) if needed else None)
    # Keys that nothing renews need no function, which only the caller's thread may call.
    return settings, (keys.fixed() or keys) if isinstance(keys, Chain) else keys


def _settings(session: Any) -> dict[str, Any]:
    """Returns what a session of botocore knows of its store."""
    from botocore import UNSIGNED
    from botocore.config import Config

    try:
        # botocore itself knows only AWS_DEFAULT_REGION.
        region = os.environ.get("AWS_REGION") or session.get_config_variable("region")
        client = session.create_client("s3", region_name=region, config=Config(signature_version=UNSIGNED))
        style = (client.meta.config.s3 or {}).get("addressing_style")
        bundle = session.get_config_variable("ca_bundle")
    except _errors() as error:
        raise ConfigError(f"botocore cannot use the configuration: {error}") from None
    return {"endpoint": client.meta.endpoint_url, "usual_region": region, "addressing": style, "ca_file": bundle}


def _plain(profile: str | None, *, needed: bool) -> tuple[dict[str, Any], Callable[[], Any] | None]:
    """Reads the environment, and what the files of profiles have as it is."""
    import configparser
    from pathlib import Path

    of = os.environ.get
    named = profile or of("AWS_PROFILE")
    name = named or "default"
    files = [of("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"), of("AWS_CONFIG_FILE", "~/.aws/config")]
    found: dict[str, str] = {}
    for path, section in zip(map(Path, files), (name, name if name == "default" else f"profile {name}"), strict=True):
        parser = configparser.RawConfigParser()
        try:
            parser.read(path.expanduser())
        except (configparser.Error, UnicodeDecodeError, OSError):
            raise ConfigError(f'cannot read "{path}"') from None
        if parser.has_section(section):
            found = dict(parser[section]) | found
    if named and not found:
        raise ConfigError(f'there is no profile "{named}"')
    settings = {
        "endpoint": of("AWS_ENDPOINT_URL_S3") or of("AWS_ENDPOINT_URL") or found.get("endpoint_url"),
        "usual_region": of("AWS_REGION") or of("AWS_DEFAULT_REGION") or found.get("region"),
        "ca_file": of("AWS_CA_BUNDLE"),
    }
    if not needed:
        return settings, None

    def keys(get: Callable[[str], str | None], names: Sequence[str]) -> Keys | None:
        parts = {part: get(name) or "" for part, name in zip(PARTS, names, strict=True)}
        return parts if parts["access_key"] and parts["secret_key"] else None

    names = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
    variables = None if profile else keys(of, [name.upper() for name in names])
    if own := variables or keys(found.get, names):
        return settings, Fixed(own)
    dynamic = next((key for key in DYNAMIC if key in found), None)
    why = f'the profile "{name}" has `{dynamic}`' if dynamic else "the environment and the profile files have no keys"
    raise _failed(
        f"no credentials for the store: {why}",
        f"`{EXTRA}` finds those of roles, SSO and machines; a public bucket needs `anonymous=True`",
    )


def _failed(why: str, hint: str) -> CredentialsError:
    return CredentialsError(why, kind="credentials", hint=hint)
