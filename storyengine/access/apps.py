from django.apps import AppConfig


class AccessConfig(AppConfig):
    name = "storyengine.access"
    label = "access"
