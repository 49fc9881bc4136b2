from django.db import migrations, models


def tell_readers_apart(apps, schema_editor):
    attempts = apps.get_model("story_sessions", "Attempt").objects.filter(witnesses__isnull=False)
    chapters = apps.get_model("story_sessions", "Session").objects
    chapters.filter(pk__in=attempts.values("session")).update(differs_by_reader=True)


class Migration(migrations.Migration):
    dependencies = [("story_sessions", "0006_cast")]

    operations = [
        migrations.AddField(
            "session", "differs_by_reader", models.BooleanField(default=False)
        ),
        migrations.RunPython(tell_readers_apart, migrations.RunPython.noop),
    ]
