"""The admin of a program that has one account: records, and no user management."""

from django.contrib import admin
from django.contrib.auth.models import Group, User

admin.site.site_header = "Story Engine: records"
admin.site.site_title = "Story Engine"
admin.site.index_title = "Everything that is stored"
admin.site.unregister([User, Group])
