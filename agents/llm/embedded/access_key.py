"""The key that the embedded server requires.

The key keeps out other programs, above all web pages, because a browser lets any page send requests
to loopback. Each process derives the key from SECRET_KEY, so the key is stored nowhere.
"""

from django.utils.crypto import salted_hmac


def access_key() -> str:
    return salted_hmac("agents.embedded", "access key", algorithm="sha256").hexdigest()
