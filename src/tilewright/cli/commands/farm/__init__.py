"""``tilewright farm``: a device farm's processes, certificates and questions."""

from __future__ import annotations

import click

from tilewright.cli.lazy import LazyGroup

COMMANDS = {
    "init": ("certs", "Make a farm's certificates."),
    "issue": ("certs", "Make another certificate, or renew one."),
    "revoke": ("certs", "Turn a certificate down from now on."),
    "certs": ("certs", "List the certificates and when they end."),
    "up": ("up", "Run a whole farm on this machine: server, runners, builder."),
    "server": ("serve", "Run the server, to which everyone else connects."),
    "scheduler": ("serve", "The server's earlier name."),
    "keeper": ("serve", "Keep a farm whose nats-servers somebody else runs."),
    "users": ("serve", "Print the accounts for a nats-server that somebody else runs."),
    "runner": ("serve", "Offer a device of this machine to a farm."),
    "builder": ("serve", "Offer this machine's compilers to a farm."),
    "status": ("ask", "Show runners, device classes, queue, utilisation and quarantine."),
    "drain": ("ask", "Let a runner or builder finish what it does, and leave."),
    "quarantine": ("ask", "Give a runner nothing more."),
    "release": ("ask", "End a quarantine."),
    "ping": ("ask", "Whether the server answers (liveness)."),
    "ready": ("ask", "Whether enough runners are there (readiness)."),
    "doctor": ("doctor", "What this machine and a farm's server have, and what is missing."),
}
"""Every command of the group: the module of this package that defines a command of that name, and its help."""


@click.group(
    "farm",
    cls=LazyGroup,
    lazy={name: (f"commands.farm.{module}", name, text) for name, (module, text) in COMMANDS.items()},
)
def command() -> None:
    """Tune on a farm of devices: one server, runners, builders, and any number of tuning clients.

    \b
    Examples:
      tilewright farm up
      tilewright farm init certs --host farm.example.org
      tilewright farm server --certs certs --host 0.0.0.0
      tilewright farm runner --certs certs --device cuda:0 tls://farm.example.org:8786
      tilewright farm builder --certs certs tls://farm.example.org:8786
      tilewright tune matmul m=512 n=512 k=512 --farm tls://farm.example.org:8786 --certs certs
    """
