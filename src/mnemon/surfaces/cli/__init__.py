"""The command line: parse, call one engine method, print."""

from __future__ import annotations

import sys

import click

from mnemon.contracts.errors import MnemonError, StorageFailed
from mnemon.surfaces.cli import (
    bench,
    chats,
    claims,
    commit,
    demo,
    doctor,
    entries,
    graph,
    ingest,
    jobs,
    messages,
    moving,
    nodes,
    profiles,
    recall,
    retrieve,
    serve,
    skill,
    token,
    tools,
    upkeep,
)
from mnemon.surfaces.cli.options import wants_json
from mnemon.surfaces.cli.output import print_error


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="mnemon")
def cli() -> None:
    """Long-term memory for chat agents that can always prove itself."""


for command in (
    demo.demo,
    ingest.ingest,
    commit.commit,
    retrieve.retrieve,
    recall.recall,
    entries.write,
    entries.search,
    entries.history,
    messages.messages,
    chats.end,
    chats.context,
    chats.events,
    profiles.profile,
    tools.tools,
    skill.skill,
    claims.claims,
    claims.pending,
    nodes.nodes,
    graph.graph,
    claims.forget,
    claims.sweep,
    upkeep.status,
    upkeep.verify,
    upkeep.repair,
    upkeep.rebuild,
    moving.export,
    moving.import_,
    jobs.jobs,
    jobs.worker,
    serve.serve,
    token.token,
    bench.bench,
    doctor.doctor,
):
    cli.add_command(command)


def main() -> None:
    """Run; an error of ours becomes one clear line (or one JSON object) and its exit code."""
    try:
        cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (MnemonError, OSError) as error:
        told = error if isinstance(error, MnemonError) else StorageFailed.of(error)
        print_error(told, as_json=wants_json(sys.argv))
        sys.exit(told.exit_code)
