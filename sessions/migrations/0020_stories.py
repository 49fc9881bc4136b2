"""Every chapter belongs to a story. Those of older programs become stories of one, and a fork comes
to the place of its origin."""

import uuid

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

from sessions.limits import TITLE_CHAR_LIMIT


def make_stories(apps, schema_editor):
    database = schema_editor.connection.alias
    Session, Story = (
        apps.get_model("story_sessions", name)._base_manager.using(database)
        for name in ("Session", "Story")
    )
    rows = {pk: rest for pk, *rest in Session.values_list("pk", "origin", "created_at", "story")}
    stories = {pk: story for pk, (_, _, story) in rows.items()}

    def story_of(pk):
        # A chain of forks is as long as somebody has made it, so it is followed without recursion.
        chain = [pk]
        while stories[chain[-1]] is None and rows[chain[-1]][0] in rows:
            chain.append(rows[chain[-1]][0])
        first = chain[-1]
        story = stories[first]
        if story is None:
            story = Story.create(created_at=rows[first][1]).pk
            Session.filter(pk=first).update(story=story)
            stories[first] = story
        for fork in chain[:-1]:
            Session.filter(pk=fork).update(story=story, is_chosen=False)
            stories[fork] = story

    for pk in rows:
        story_of(pk)


class Migration(migrations.Migration):
    dependencies = [("story_sessions", "0019_reply_length")]

    operations = [
        migrations.CreateModel(
            name="Story",
            fields=[
                (
                    "story_id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("title", models.CharField(blank=True, max_length=TITLE_CHAR_LIMIT)),
                (
                    "created_at",
                    models.DateTimeField(default=django.utils.timezone.now, editable=False),
                ),
                ("archived_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={"verbose_name_plural": "stories"},
        ),
        migrations.AddField(
            model_name="session",
            name="place",
            field=models.PositiveIntegerField(default=1),
        ),
        migrations.AddField(
            model_name="session",
            name="is_chosen",
            field=models.BooleanField(default=True),
        ),
        migrations.AddField(
            model_name="session",
            name="deleted_at",
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="session",
            name="story",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="chapters",
                to="story_sessions.story",
            ),
        ),
        migrations.RunPython(make_stories, migrations.RunPython.noop),
    ]
