from django.apps import AppConfig


class ExchangeConfig(AppConfig):
    """The app of chapter files. It has no tables; being an app lets Django find its commands."""

    name = "storyengine.exchange"
    label = "exchange"
