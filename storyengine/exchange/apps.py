from django.apps import AppConfig


class ExchangeConfig(AppConfig):
    """It has no tables; its commands are found as an app's."""

    name = "storyengine.exchange"
    label = "exchange"
