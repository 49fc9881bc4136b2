from django.apps import AppConfig


class OperationsConfig(AppConfig):
    name = "storyengine.operations"
    label = "operations"
