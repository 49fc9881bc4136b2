from django.apps import AppConfig


class SessionsConfig(AppConfig):
    name = "sessions"
    # Django's own session app owns the label "sessions".
    label = "story_sessions"
    verbose_name = "Chapters"
