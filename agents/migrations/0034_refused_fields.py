
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('agents', '0033_server_said'),
    ]

    operations = [
        migrations.CreateModel(
            name='RefusedField',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('server', models.CharField(help_text='Its address', max_length=200)),
                ('model', models.CharField(max_length=200)),
                ('field', models.CharField(max_length=40)),
                ('refused_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('server', 'model', 'field'), name='one_refusal_each')],
            },
        ),
    ]
