"""Names the chapter before of each chapter that was begun by 'Next chapter': the chapter of the
people whom its people name as their origins."""

from django.db import migrations


def name_chapters_before(apps, schema_editor):
    database = schema_editor.connection.alias
    Session, CastMember = (
        apps.get_model("story_sessions", name)._base_manager.using(database)
        for name in ("Session", "CastMember")
    )
    copied = CastMember.exclude(origin=None).order_by("pk")
    for chapter, before in copied.values_list("session", "origin__session").distinct():
        Session.filter(pk=chapter, follows=None).update(follows=before)


class Migration(migrations.Migration):
    """Apart from 0023, because PostgreSQL makes no index of a table whose rows were changed in the
    same transaction."""

    dependencies = [("story_sessions", "0023_chapter_before")]

    operations = [migrations.RunPython(name_chapters_before, migrations.RunPython.noop)]
