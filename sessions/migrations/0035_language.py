from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [('story_sessions', '0034_server_said')]

    operations = [
        migrations.AddField(
            model_name='session',
            name='language',
            field=models.CharField(blank=True, default='', max_length=35),
        ),
        migrations.AddField(
            model_name='session',
            name='found_language',
            field=models.CharField(blank=True, default='', max_length=35),
        ),
    ]
