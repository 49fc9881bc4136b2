from django.apps import AppConfig


class PagesConfig(AppConfig):
    name = "storyengine.pages"
    label = "pages"
