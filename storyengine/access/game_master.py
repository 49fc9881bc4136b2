"""The program's only account, the Game Master's. Everybody who may use the program uses this
account."""

import functools
from typing import Any

from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.http import HttpRequest

USERNAME = "gm"


def game_master() -> User:
    """Return the account. The first call creates it, with every permission."""
    account, _ = User.objects.get_or_create(
        username=USERNAME,
        defaults={"is_staff": True, "is_superuser": True, "password": make_password(None)},
    )
    return account


async def agame_master() -> User:
    account, _ = await User.objects.aget_or_create(
        username=USERNAME,
        defaults={"is_staff": True, "is_superuser": True, "password": make_password(None)},
    )
    return account


def store_password() -> None:
    """Set the password of the account to STORYENGINE_PASSWORD.

    A login is valid only as long as the stored hash of the password is not changed. So a new
    password ends every login.
    """
    account = game_master()
    if not account.check_password(settings.PASSWORD):
        account.set_password(settings.PASSWORD)
        account.save(update_fields=["password"])


class PasswordBackend(ModelBackend):
    """Django's backend for passwords. Before it checks a password, it sets the account's password
    to STORYENGINE_PASSWORD."""

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **kwargs: Any,
    ) -> User | None:
        store_password()
        return super().authenticate(request, username, password, **kwargs)


@functools.cache
def store_password_once() -> None:
    """Call `store_password`, but only once in each process, because hashing a password is slow on
    purpose."""
    store_password()
