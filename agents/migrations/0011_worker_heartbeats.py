from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("agents", "0010_impossible_token_counts")]

    operations = [migrations.RenameModel("WorkerPulse", "WorkerHeartbeat")]
