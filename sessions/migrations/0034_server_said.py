
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('story_sessions', '0033_terms_without_marks'),
    ]

    operations = [
        migrations.AddField(
            model_name='attempt',
            name='server_said',
            field=models.TextField(blank=True, default=''),
        ),
    ]
