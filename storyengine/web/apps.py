from django.apps import AppConfig


class WebConfig(AppConfig):
    name = "storyengine.web"
    label = "web"
