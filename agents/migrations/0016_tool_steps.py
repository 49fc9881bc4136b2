from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('agents', '0015_prompts_stored_once'),
    ]

    operations = [
        migrations.AddField(
            model_name='llmartifact',
            name='step',
            field=models.PositiveSmallIntegerField(default=1),
        ),
        migrations.AddField(
            model_name='llmartifact',
            name='tool_calls',
            field=models.JSONField(blank=True, default=list, help_text="The server's own tool calls in the reply"),
        ),
    ]
