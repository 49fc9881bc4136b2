from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('agents', '0002_llmartifact_turn_and_job'),
    ]

    operations = [
        migrations.AddField(
            model_name='job',
            name='result_text',
            field=models.TextField(blank=True, default=''),
            preserve_default=False,
        ),
        migrations.AlterField(
            model_name='job',
            name='kind',
            field=models.CharField(choices=[('lock', 'Lock'), ('summarize', 'Summarize'), ('narrate', 'Narrate'), ('trial', 'Trial')], max_length=10),
        ),
    ]
