from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView

from agents.modes.registry import modules_of_modes
from storyengine.access import views
from storyengine.api.app import api
from storyengine.operations import views as operations

handler500 = "storyengine.stack.storage_refusals.answer_error"
urlpatterns: list[URLPattern | URLResolver] = [
    path("api/", api.urls),
    path("healthz", views.healthz, name="healthz"),
    path("readyz", operations.readyz, name="readyz"),
    path("metrics", operations.metrics, name="metrics"),
    path("login", views.log_in, name="log-in"),
    path("logout", views.log_out, name="log-out"),
    path("admin", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/", admin.site.urls),
    path("", include("storyengine.tabs.urls")),
    *(path(f"modes/{name}/", include(urls)) for name, urls in modules_of_modes("urls").items()),
]
