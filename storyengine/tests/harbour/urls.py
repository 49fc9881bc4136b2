from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path

app_name = "harbour"


def quay(request: HttpRequest) -> HttpResponse:
    return render(request, "harbour/quay.html")


urlpatterns = [path("quay", quay, name="quay")]
