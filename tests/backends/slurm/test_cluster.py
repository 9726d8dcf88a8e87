"""The tests' own cluster: what the other tests take for granted of it."""

from __future__ import annotations

from pathlib import Path

from support.cluster.cluster_here import Cluster, until


def test_a_job_over_ssh_runs_on_a_node_and_its_exit_code_is_kept(cluster: Cluster) -> None:
    before = cluster.connections(), cluster.round_trips()
    submitted = cluster.login(
        "sbatch --parsable -o /lustre/fsw/taouser/out --wrap 'hostname; exit 3'"
    )
    slurm_id = submitted.stdout.strip()
    until(
        lambda: "FAILED" in cluster.ask("sacct", "-XnPj", slurm_id, "-o", "State,ExitCode").stdout
    )
    assert "FAILED|3:0" in cluster.ask("sacct", "-XnPj", slurm_id, "-o", "State,ExitCode").stdout
    assert cluster.path("/lustre/fsw/taouser/out").read_text().strip() == cluster.place.nodes[0]
    assert (cluster.connections(), cluster.round_trips()) == (before[0] + 1, before[1] + 1)


def test_gpus_are_given_out_and_a_node_that_fails_comes_back(cluster: Cluster) -> None:
    node = cluster.place.nodes[3]
    assert (
        cluster.login(
            f"srun -p polar3 -w {node} --gpus-per-node=2 printenv CUDA_VISIBLE_DEVICES"
        ).stdout
        == "0,1\n"
    )
    slurm_id = cluster.login(
        f"sbatch --parsable --no-requeue -p polar3 -w {node} -o /dev/null --wrap 'sleep 99'"
    ).stdout
    until(
        lambda: (
            "R" in cluster.ask("squeue", "-h", "-o", "%t", "-j", slurm_id.strip()).stdout.split()
        )
    )
    cluster.fail_node(node)
    until(
        lambda: "NODE_FAIL" in cluster.ask("sacct", "-XnPj", slurm_id.strip(), "-o", "State").stdout
    )
    until(lambda: cluster.count_idle() == len(cluster.place.nodes))


def test_the_machines_have_an_etc_of_their_own_with_the_users_of_the_cluster(
    cluster: Cluster,
) -> None:
    """Installing a package with a user replaces /etc/passwd, and with it every mount that lies on
    the old file.
    """
    said = cluster.login(
        "stat -c %d:%i /etc; stat -c %d:%i /etc/passwd; id -un"
    ).stdout.splitlines()
    here = [
        f"{found.st_dev}:{found.st_ino}"
        for found in (Path("/etc").stat(), Path("/etc/passwd").stat())
    ]
    assert said[0] != here[0] and said[1] != here[1]
    assert said[2] == "taouser"


def test_a_far_login_host_takes_its_time_and_a_hung_one_says_nothing(cluster: Cluster) -> None:
    assert cluster.login("true", cluster.open_far()).returncode == 0
    cluster.open_hung()
    waited = cluster.login("true", "hunglogin", options=("-o", "ConnectTimeout=1"))
    assert "banner exchange" in waited.stderr
    assert "Connection refused" in cluster.login("true", "deadlogin").stderr
