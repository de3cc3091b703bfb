"""A SLURM of one machine with two simulated GPUs, all of it in a folder of its own."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from processes import PATIENCE_S, output_of, run, wait_until

COMMANDS = ("sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo")
PROGRAMS = ("munged", "slurmctld", "slurmd", *COMMANDS)
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
MARK = "NEURALFIELD_TEST_CLUSTER"
"""Environment variable that all processes of a cluster, and of the jobs on it, inherit."""

WRAPPER = """\
#!/bin/sh
# jobs' steps are started without any of SLURM's variables
SLURM_CONF={settings} exec {program} "$@"
"""

SLURM_CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# the second is also how long a job waits that was put back into the queue
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/controller
SlurmdSpoolDir={folder}/node
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/node.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
# more cores and memory than there may be: this is about order, not about speed
SlurmdParameters=config_overrides
MinJobAge=3600
KillWait=5
ReturnToService=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=16 RealMemory=100000 Gres=gpu:fake:2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""

GRES_CONF = """\
NodeName={host} Name=gpu Type=fake File=/dev/null
NodeName={host} Name=gpu Type=fake File=/dev/zero
"""


class Cluster:
    """A cluster and its SLURM commands.

    Parameters
    ----------
    folder : Path
        Folder with the cluster's settings.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.variables = {
            "SLURM_CONF": str(folder / "slurm.conf"),
            "PATH": f"{folder / 'bin'}{os.pathsep}{PATH}",
            MARK: str(folder),
        }

    def command(self, *words: str) -> str:
        """Run a command that must succeed, and return its output."""
        return output_of([*words], env=os.environ | self.variables)

    def queue(self, columns: str, *options: str) -> list[list[str]]:
        """Return the rows of ``squeue``, with columns like ``%i %T``."""
        lines = self.command("squeue", "--noheader", "--format", columns, *options).splitlines()
        return [line.split() for line in lines]

    def logs(self) -> str:
        """Return the last part of each program's log."""
        paths = sorted(self.folder.glob("*.log"))
        return "\n".join(f"{path.name}:\n{path.read_text()[-3000:]}" for path in paths)


def why_not() -> str:
    """Return what is missing to run a cluster here, or an empty string if nothing is."""
    if os.geteuid() != 0:
        return "SLURM's programs need root here"
    missing = [name for name in PROGRAMS if not shutil.which(name, path=PATH)]
    if missing:
        return f"no {', '.join(missing)}: packages slurm-wlm and munge"
    return ""


@contextlib.contextmanager
def running_cluster() -> Iterator[Cluster]:
    """Yield a cluster that accepts jobs; afterwards remove all of it, even after errors."""
    folder = Path(tempfile.mkdtemp(prefix="slurm_"))  # short, as sockets' paths must be
    folder.chmod(0o755)
    cluster = Cluster(folder)
    programs: list[subprocess.Popen] = []

    def start(*words: str) -> None:
        with (folder / f"{words[0]}.log").open("w") as log:
            programs.append(
                subprocess.Popen(
                    words,
                    env=os.environ | cluster.variables,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    try:
        _write_settings(folder)
        munge_files = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid", "seed")]
        socket_file = f"--socket={folder}/munge.socket"
        log_file = f"--log-file={folder}/munge.log"
        start("munged", "--foreground", "--force", socket_file, log_file, *munge_files)
        wait_until((folder / "munge.socket").exists, programs[-1])
        start("slurmctld", "-D")
        start("slurmd", "-D")
        wait_until(lambda: _is_idle(cluster) or any(p.poll() is not None for p in programs))
        assert _is_idle(cluster), cluster.logs()
        yield cluster
    finally:
        _stop(cluster, programs)
        shutil.rmtree(folder, ignore_errors=True)


def _write_settings(folder: Path) -> None:
    values = {
        "host": socket.gethostname().partition(".")[0],
        "folder": folder,
        "controller_port": _free_port(),
        "node_port": _free_port(),
    }
    (folder / "slurm.conf").write_text(SLURM_CONF.format(**values))
    (folder / "gres.conf").write_text(GRES_CONF.format(**values))
    key = folder / "munge.key"
    key.touch(0o600)
    key.write_bytes(os.urandom(128))
    for name in ("controller", "node", "bin"):
        (folder / name).mkdir()
    for name in COMMANDS:
        wrapper, program = folder / "bin" / name, shutil.which(name, path=PATH)
        wrapper.write_text(WRAPPER.format(settings=folder / "slurm.conf", program=program))
        wrapper.chmod(0o755)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def _is_idle(cluster: Cluster) -> bool:
    words = ["sinfo", "--noheader", "--partition=main", "--format=%T"]
    return run(words, env=os.environ | cluster.variables).stdout.split() == ["idle"]


def _stop(cluster: Cluster, programs: list[subprocess.Popen]) -> None:
    """End the jobs, then the programs that run them; then kill what is left of both."""
    with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
        jobs = [job for (job,) in cluster.queue("%A")]
        if jobs:
            cluster.command("scancel", "--full", "--signal=KILL", *jobs)
            cluster.command("scancel", *jobs)
            wait_until(lambda: not cluster.queue("%A"))
    for program in reversed(programs):
        program.terminate()
    for program in programs:
        with contextlib.suppress(subprocess.TimeoutExpired):
            program.wait(PATIENCE_S)
    for pid in processes_of(cluster):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for program in programs:
        program.wait()


def processes_of(cluster: Cluster) -> list[int]:
    """Return the processes that were started for this cluster or on it."""
    mark = f"{MARK}={cluster.folder}".encode()
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in environment.read_bytes().split(b"\0"):
                found.append(int(environment.parent.name))
    return found
