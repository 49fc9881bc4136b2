"""The key that the embedded server asks for.

It keeps other programs out, above all web pages: a browser lets any page send requests to loopback.
Each process derives it from SECRET_KEY, so it is stored nowhere.
"""

from django.utils.crypto import salted_hmac


def access_key() -> str:
    return salted_hmac("agents.embedded", "access key", algorithm="sha256").hexdigest()
