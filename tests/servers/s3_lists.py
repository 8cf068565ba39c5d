"""Lists of an S3 store that lie: each function returns a fault for `S3Store.on_list`.

Not here: stores that are odd in each of their lists (attributes of `S3Store`), errors (`failing`).
"""

from __future__ import annotations

from collections.abc import Callable

from servers.fault_server import Exchange, Fault
from servers.s3_store import XML, Page, S3Store, key_of, token_behind


def changed(change: Callable[[Page], None]) -> Fault:
    """The right page, changed before it is written as XML."""

    async def fault(exchange: Exchange) -> None:
        assert isinstance(exchange.server, S3Store)
        page = exchange.server.page_of(exchange.request)
        change(page)
        await exchange.answer(200, page.xml(), XML)

    return fault


def spoiled(spoil: Callable[[bytes], bytes]) -> Fault:
    """The right page, with XML that is then spoiled."""

    async def fault(exchange: Exchange) -> None:
        assert isinstance(exchange.server, S3Store)
        await exchange.answer(200, spoil(exchange.server.page_of(exchange.request).xml()), XML)

    return fault


def with_token(token: str | None) -> Fault:
    """A page that says that there are more behind this token, even if there are none; or that does not say where."""

    def change(page: Page) -> None:
        page.truncated, page.token = True, token

    return changed(change)


def empty_once() -> Fault:
    """A page without keys. Its token, a good one, leads to what should have stood on it."""

    def change(page: Page) -> None:
        page.truncated, page.keys = True, []
        page.token = token_behind(key_of(page.asked.token) if page.asked.token else "")

    return changed(change)


def with_keys(*keys: str) -> Fault:
    """A page with further keys, which are described as the first one is."""

    def change(page: Page) -> None:
        about, known = page.about, page.about(page.keys[0])
        page.keys = [*page.keys, *keys]
        page.about = lambda key: known if key in keys else about(key)

    return changed(change)
