from django.apps import AppConfig


class ExchangeConfig(AppConfig):
    """The app of chapter files. It has no tables. It is an app so that Django finds its
    commands."""

    name = "storyengine.exchange"
    label = "exchange"
