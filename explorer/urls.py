from django.urls import path

from explorer import pages

app_name = "explorer"
_PLACE, _PERSON = "<uuid:session_id>/places/<int:place>", "<uuid:session_id>/people/<int:person>"

urlpatterns = [
    path("begin/<slug:name>", pages.begin, name="begin"),
    path("<uuid:session_id>/ready/<slug:name>", pages.use_ready, name="use-ready"),
    path("<uuid:session_id>/scenario/import", pages.import_scenario, name="import-scenario"),
    path("<uuid:session_id>/scenario", pages.export_scenario, name="export-scenario"),
    path("<uuid:session_id>/places", pages.add_place, name="add-place"),
    path(f"{_PLACE}/remove", pages.remove_place, name="remove-place"),
    path("<uuid:session_id>/people", pages.add_person, name="add-person"),
    path("<uuid:session_id>/oneself", pages.be_oneself, name="be-oneself"),
    path(f"{_PERSON}/remove", pages.remove_person, name="remove-person"),
    path(f"{_PERSON}/be", pages.be_person, name="be-person"),
    path("<uuid:session_id>/talk", pages.add_talk, name="add-talk"),
    path("<uuid:session_id>/talk/<int:example>/remove", pages.remove_talk, name="remove-talk"),
    path("<uuid:session_id>/rules", pages.add_rule, name="add-rule"),
    path("<uuid:session_id>/rules/<int:rule>/remove", pages.remove_rule, name="remove-rule"),
    path("<uuid:session_id>/lore", pages.add_lore, name="add-lore"),
    path("<uuid:session_id>/lore/<int:entry>/remove", pages.remove_lore, name="remove-lore"),
    path(f"{_PERSON}/ties", pages.add_tie, name="add-tie"),
    path(f"{_PERSON}/ties/<int:tie>/remove", pages.remove_tie, name="remove-tie"),
    path(f"{_PERSON}/facts", pages.add_fact, name="add-fact"),
    path(f"{_PERSON}/facts/<int:fact>/remove", pages.remove_fact, name="remove-fact"),
]
