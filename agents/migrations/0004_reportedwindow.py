import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('agents', '0003_trials'),
    ]

    operations = [
        migrations.CreateModel(
            name='ReportedWindow',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('server', models.CharField(help_text='Its address', max_length=200)),
                ('model', models.CharField(max_length=200)),
                ('tokens', models.PositiveIntegerField(blank=True, null=True)),
                ('is_ceiling', models.BooleanField(default=False, help_text='The most the model can take; the server may run it with less')),
                ('asked_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('server', 'model'), name='one_window_per_model')],
            },
        ),
    ]
