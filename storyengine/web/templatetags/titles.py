"""Filters for refusals, whose messages may repeat their titles."""

from django import template

from storyengine.web import titles

register = template.Library()
register.filter("repeats_title", titles.repeats_title)
register.filter("beyond_title", titles.beyond_title)
