from django.apps import AppConfig


class BackupsConfig(AppConfig):
    name = "storyengine.backups"
    label = "backups"
