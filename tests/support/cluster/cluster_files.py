"""The files of the tests' SLURM cluster, as text. Pure: where a cluster lives and what kind of site
it is, decides all of it.

Not here: the programs that read them (cluster_here.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

NODES = 4
GPUS = 8  # per node
USER, OTHER_USER = "taouser", "otheruser"
UIDS = {USER: 61001, OTHER_USER: 61002}
LOGIN_HOSTS = {
    "login1": "127.0.0.1",
    "login2": "127.0.0.2",
    "deadlogin": "127.0.0.3",  # nothing listens there
    "farlogin": "127.0.0.4",  # login1 behind a line of 50 ms there and back
    "hunglogin": "127.0.0.5",  # takes the connection and says nothing
}


@dataclass(frozen=True)
class Site:
    """What differs between sites. The default has everything."""

    accounting: bool = True  # slurmdbd runs
    pyxis: bool = True  # srun has its flags
    enroot: bool = True
    requeue: bool = True  # JobRequeue, SLURM's default
    enforce_limits: bool = False  # EnforcePartLimits=ALL
    min_job_age: int = 10  # seconds that squeue and scontrol still know a finished job


@dataclass(frozen=True)
class Place:
    """Where a cluster lives: its number sets ports, names and addresses, so that some can be on one
    computer.
    """

    folder: Path
    number: int = 0

    @property
    def nodes(self) -> list[str]:
        return [f"{'nmk'[self.number]}{i}" for i in range(1, NODES + 1)]

    def address(self, node: str) -> str:
        return f"127.0.{self.number + 1}.{node[1:]}"

    def port(self, offset: int) -> int:
        return 16800 + 100 * self.number + offset

    @property
    def munge_socket(self) -> Path:
        return self.folder / "munge" / "socket"

    @property
    def slurm_conf(self) -> Path:
        return self.folder / "etc" / "slurm.conf"

    @property
    def ssh_config(self) -> Path:
        return self.folder / "ssh" / "config"


SQL, CTLD, DBD, SSH, REGISTRY, PRIVATE_REGISTRY, NODE = (
    6,
    17,
    19,
    22,
    30,
    31,
    50,
)  # offsets of ports


def slurm_conf(place: Place, site: Site) -> str:
    """cred_expire: a requeued job may start again only after that many seconds, 120 of them by
    default.
    """
    folder, first, last = place.folder, place.nodes[0], place.nodes[-1]
    half = NODES // 2
    nodes = f"{first[0]}[1-{NODES}]"
    number = place.number + 1
    return f"""\
ClusterName=taotest{place.number}
SlurmctldHost=control(127.0.0.1)
SlurmctldPort={place.port(CTLD)}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={place.munge_socket},cred_expire=5
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
PlugStackConfig={folder}/etc/plugstack.conf
MailProg=/bin/true
MpiDefault=none
CommunicationParameters=NoCtldInAddrAny
DebugFlags=NO_CONF_HASH
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
JobAcctGatherType=jobacct_gather/cgroup
JobAcctGatherFrequency=task=2
{accounting(place) if site.accounting else "AccountingStorageType=accounting_storage/none"}
ReturnToService=2
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=64
GresTypes=gpu
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue={int(site.requeue)}
{"EnforcePartLimits=ALL" if site.enforce_limits else ""}
SlurmctldTimeout=30
MessageTimeout=4
SlurmdTimeout=10
KillWait=2
MinJobAge={site.min_job_age}
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0,batch_sched_delay=0
NodeName={nodes} NodeAddr=127.0.{number}.[1-{NODES}] Port=[{place.port(NODE + 1)}-{place.port(NODE + NODES)}] CPUs=128 Boards=1 \
SocketsPerBoard=1 CoresPerSocket=128 ThreadsPerCore=1 RealMemory=512000 Gres=gpu:{GPUS} State=UNKNOWN
PartitionName=DEFAULT Nodes=ALL DefaultTime=00:30:00 MaxTime=04:00:00 PriorityTier=10 State=UP
PartitionName=polar   Nodes={first[0]}[1-{half}] Default=YES
PartitionName=polar3  Nodes={first[0]}[{half + 1}-{last[1:]}]
PartitionName=polar4
PartitionName=grizzly
PartitionName=long    MaxTime=2-00:00:00
PartitionName=cpu     MaxTime=01:00:00 MaxNodes=1
PartitionName=tiny    MaxTime=00:01:00 DefaultTime=00:01:00
PartitionName=scav    PriorityTier=1 PreemptMode=REQUEUE
PartitionName=scavc   PriorityTier=1 PreemptMode=CANCEL
"""


def accounting(place: Place) -> str:
    """AccountingStoragePass is where the connection to slurmdbd learns which munge
    socket to use.
    """
    return f"""\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={place.port(DBD)}
AccountingStoragePass={place.munge_socket}
AccountingStorageEnforce=associations,limits,qos
AccountingStorageTRES=gres/gpu"""


def slurmdbd_conf(place: Place) -> str:
    return f"""\
AuthType=auth/munge
AuthInfo=socket={place.munge_socket}
DbdHost=control
DbdAddr=127.0.0.1
DbdPort={place.port(DBD)}
SlurmUser=root
LogFile={place.folder}/log/slurmdbd.log
PidFile={place.folder}/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={place.port(SQL)}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct
"""


def accounts(place: Place) -> str:
    """What sacctmgr is told, before the controller starts: it then knows it from
    its first second.
    """
    return f"""\
add cluster taotest{place.number}
add account taoacct,otheracct
add user {USER} account=taoacct
add user {OTHER_USER} account=otheracct
add qos short set MaxWall=00:10:00
modify user {USER} set qos=normal,short
"""


def gres_conf(place: Place) -> str:
    """A GPU has to be a character device: links to /dev/null pass for them."""
    return (
        f"AutoDetect=off\nNodeName={place.nodes[0][0]}[1-{NODES}] Name=gpu "
        f"File={place.folder}/dev/nvidia[0-{GPUS - 1}]\n"
    )


def cgroup_conf() -> str:
    return (
        "CgroupAutomount=no\nCgroupMountpoint=/sys/fs/cgroup\nConstrainRAMSpace=yes\nConstrainSwapSpace=no\n"
        "ConstrainCores=no\nConstrainDevices=no\n"
    )


def plugstack_conf(place: Place, site: Site) -> str:
    return f"required {place.folder}/etc/pyxis_flags.so\n" if site.pyxis else "\n"


def sshd_config(place: Place) -> str:
    """sshd reads no profile: SetEnv hands SLURM_CONF to every session. MaxSessions is OpenSSH's
    default.

    Both login nodes use it; where each listens is told to it when it starts.
    """
    folder = place.folder
    return f"""\
HostKey {folder}/ssh/host_key
AuthorizedKeysFile {folder}/ssh/authorized_keys
StrictModes no
UsePAM no
UseDNS no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin no
AllowUsers {USER} {OTHER_USER}
SetEnv SLURM_CONF={place.slurm_conf}
Subsystem sftp internal-sftp
LogLevel VERBOSE
MaxStartups 30
MaxSessions 10
PrintMotd no
"""


def client_ssh_config(place: Place) -> str:
    hosts = "".join(
        (
            f"Host {name}\n  HostName {address}\n  HostKeyAlias "
            f"{'login1' if name == 'farlogin' else name}\n"
        )
        for name, address in LOGIN_HOSTS.items()
    )
    return f"""\
{hosts}Host {" ".join(LOGIN_HOSTS)}
  Port {place.port(SSH)}
  User {USER}
  IdentityFile {place.folder}/ssh/id_{USER}
  IdentitiesOnly yes
  UserKnownHostsFile {place.folder}/ssh/known_hosts
"""


def known_hosts(place: Place, host_key: str) -> str:
    kind_and_key = " ".join(host_key.split()[:2])
    names = [name for name in LOGIN_HOSTS if name not in ("deadlogin", "hunglogin")]
    plain = [f"[{LOGIN_HOSTS[name]}]:{place.port(SSH)}" for name in names]
    return "".join(f"{name} {kind_and_key}\n" for name in [*names, *plain])


def passwd(place: Place, computers: str) -> str:
    """The password is '*': sshd takes '!' for a locked account, and then refuses the key."""
    own = [
        f"{name}:*:{uid}:{uid}::{place.folder}/home/{name}:/bin/bash\n"
        for name, uid in UIDS.items()
    ]
    return "".join(own) + computers


def group(computers: str) -> str:
    return "".join(f"{name}:x:{uid}:\n" for name, uid in UIDS.items()) + computers


def hosts(place: Place, computers: str) -> str:
    return (
        computers
        + "".join(f"{place.address(node)} {node}\n" for node in place.nodes)
        + "127.0.0.1 control login\n"
    )
