from django.db import models


class Berth(models.Model):
    name = models.CharField(max_length=40)

    class Meta:
        # The label is the name of the folder into which the mode is copied.
        app_label = "harbour"

    def __str__(self) -> str:
        return self.name
