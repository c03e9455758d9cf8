"""``tilewright farm``: a device farm's processes, certificates and requests."""

from __future__ import annotations

import click

from tilewright.cli.lazy import LazyGroup

COMMANDS = {
    "init": ("certs", "Make a farm's certificate authority and first certificates."),
    "issue": ("certs", "Make or renew a certificate."),
    "revoke": ("certs", "Revoke certificates, and sign the list of all revoked."),
    "certs": ("certs", "List certificates and the days that they end."),
    "up": ("up", "Run a whole farm on this machine: server, runners and builder."),
    "server": ("serve", "Run the server, to which all other processes connect."),
    "scheduler": ("serve", "Earlier name of farm server."),
    "keeper": ("serve", "Run the keeper alone, for nats-servers that somebody else runs."),
    "users": ("serve", "Print the accounts that a nats-server of yours needs."),
    "runner": ("serve", "Measure kernels for a farm on a device of this machine."),
    "builder": ("serve", "Compile kernels for a farm on this machine."),
    "status": ("ask", "Show runners, builders and queues, and what is wrong."),
    "drain": ("ask", "Have a runner or builder finish its work and leave."),
    "quarantine": ("ask", "Give a runner no more work."),
    "release": ("ask", "End a runner's quarantine."),
    "ping": ("ask", "Liveness check: does the server answer?"),
    "ready": ("ask", "Readiness check: do enough runners take work?"),
    "doctor": ("doctor", "List what a farm needs and this machine lacks."),
}
"""The group's commands: the module of this package that defines the command, and its help."""


@click.group(
    "farm",
    cls=LazyGroup,
    lazy={name: (f"commands.farm.{module}", name, text) for name, (module, text) in COMMANDS.items()},
)
def command() -> None:
    """Tune on a farm of devices: one server, runners that measure, builders that compile, and tuning clients.

    \b
    Examples:
      tilewright farm up
      tilewright farm init certs --host farm.example.org
      tilewright farm server --certs certs --host 0.0.0.0
      tilewright farm runner --certs certs --device cuda:0 tls://farm.example.org:8786
      tilewright farm builder --certs certs tls://farm.example.org:8786
      tilewright tune matmul m=512 n=512 k=512 --farm tls://farm.example.org:8786 --certs certs
    """
