"""The names of layers in the words of the pages."""

from django import template

from sessions import layer_words

register = template.Library()
register.filter("layer_in_words", layer_words.layer_in_words)
