"""The admin, which shows records. It has no user management, because there is only one account."""

from django.contrib import admin
from django.contrib.auth.models import Group, User

admin.site.site_header = "Story Engine: records"
admin.site.site_title = "Story Engine"
admin.site.index_title = "Everything that is stored"
admin.site.unregister([User, Group])
