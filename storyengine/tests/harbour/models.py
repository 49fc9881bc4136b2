from django.db import models


class Berth(models.Model):
    name = models.CharField(max_length=40)

    class Meta:
        # The app's label is the name that the folder has where it is installed.
        app_label = "harbour"

    def __str__(self) -> str:
        return self.name
