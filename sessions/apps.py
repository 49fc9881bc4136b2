from django.apps import AppConfig


class SessionsConfig(AppConfig):
    name = "sessions"
    # The label cannot be "sessions", because Django's own session app has this label.
    label = "story_sessions"
    verbose_name = "Chapters"
