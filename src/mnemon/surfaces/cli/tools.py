"""`mnemon tools`: what a bot's model is given."""

from __future__ import annotations

from typing import get_args

import click

from mnemon.surfaces.cli.options import Place, shared
from mnemon.surfaces.cli.output import print_json
from mnemon.surfaces.tools import Form, Language, prompt_text, tool_definitions


@click.command()
@click.option("--form", type=click.Choice(get_args(Form)), default="openai", show_default=True, help="Whose form.")
@click.option(
    "--language", type=click.Choice(get_args(Language)), default="zh", show_default=True, help="Chinese or English."
)
@click.option("--prompt", is_flag=True, help="The text for the bot's system prompt instead.")
@shared
def tools(form: Form, language: Language, prompt: bool, place: Place) -> None:
    """The chat tools as JSON, for the tools of a request to a model."""
    if not prompt:
        print_json(tool_definitions(form, language))
    elif place.as_json:
        print_json({"prompt": prompt_text(language)})
    else:
        print(prompt_text(language), end="")
