"""The only account, which is the Game Master's. Everybody who may use the program has it."""

import functools
from typing import Any

from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.http import HttpRequest

USERNAME = "gm"


def game_master() -> User:
    """Return the account, which is created when it is first needed.

    It has every permission, even in the admin.
    """
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

    Each login is bound to the stored hash of the password. So a new password ends every login.
    """
    account = game_master()
    if not account.check_password(settings.PASSWORD):
        account.set_password(settings.PASSWORD)
        account.save(update_fields=["password"])


class PasswordBackend(ModelBackend):
    """Django's backend for passwords. It first stores the present STORYENGINE_PASSWORD in the
    account."""

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
    """Call `store_password`, but only once in each process, because hashing is slow on purpose."""
    store_password()
