"""The workflow is deployed by snakedeploy, used as a hosted module, and run on its test folder."""

import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml
from processes import output_of
from stand_in_conda import install_stand_in_conda
from workspace import ROOT, SETTINGS, run_in, succeed_in, without_kernels

SNAKEMAKE = [sys.executable, "-m", "snakemake", "--cores", "2"]
SNAKEDEPLOY = [sys.executable, "-c", "from snakedeploy.client import main; main()"]
HOSTED = ("LICENSE", "config.yaml", "config", "profiles", "scripts", "workflow")
TINY = {**SETTINGS, "fields": {"siren": without_kernels()}}
TINY.pop("images")

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")


def test_the_list_of_hosted_files_is_current():
    (command,) = re.findall(
        r"\t(git ls-files .*) > workflow/files.txt", (ROOT / "Makefile").read_text()
    )
    if run_in(ROOT, ["git", "rev-parse"]).returncode:
        pytest.skip("not a git repository")
    listed = (ROOT / "workflow/files.txt").read_text()
    assert listed == output_of(["sh", "-c", command], cwd=ROOT), "run `make reference`"


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=tests", "-c", "user.email=tests@localhost"]
    return output_of(["git", *who, *arguments], cwd=folder).strip()


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """Return a repository with the files of this checkout, and the tag v9.9.9."""
    folder = tmp_path_factory.mktemp("hosts") / "owner/neuralfield"
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet")
    for name in HOSTED:
        place, copy = ROOT / name, shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(place, folder / name)
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--message", "Everything")
    git(folder, "tag", "v9.9.9")
    return folder


@pytest.fixture(scope="module")
def deployed(repository, tmp_path_factory):
    """Return a folder that snakedeploy has made from GitHub, for which `repository` stands in."""
    pytest.importorskip("snakedeploy", reason="snakedeploy is not installed")
    folder = tmp_path_factory.mktemp("deployed") / "work"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_COUNT", "1")
        patch.setenv("GIT_CONFIG_KEY_0", f"url.file://{repository.parents[1]}/.insteadOf")
        patch.setenv("GIT_CONFIG_VALUE_0", "https://github.com/")
        patch.setenv("XDG_CACHE_HOME", str(folder.parent / "cache"))
        url = "https://github.com/owner/neuralfield"
        command = [*SNAKEDEPLOY, "deploy-workflow", url, str(folder), "--tag", "v9.9.9"]
        succeed_in(folder.parent, command)
        yield folder


@pytest.mark.slow
def test_the_sample_of_a_deployed_workflow_is_planned(deployed):
    planned = succeed_in(deployed, [*SNAKEMAKE, "--dry-run"])
    assert "sample" in planned and "report" in planned
    unpacked = [*deployed.glob(".snakemake/neuralfield/*")]
    assert len(unpacked) == 1
    environment = "workflow/envs/networks.yaml"
    assert (unpacked[0] / environment).read_bytes() == (ROOT / environment).read_bytes()
    succeed_in(deployed, [*SNAKEMAKE, "--dry-run"])
    assert [*deployed.glob(".snakemake/neuralfield/*")] == unpacked


@pytest.mark.slow
@pytest.mark.parametrize("with_conda", [False, True])
def test_a_deployed_workflow_makes_the_report(
    deployed, with_conda, bare_python, tmp_path, monkeypatch
):
    settings = yaml.safe_load((deployed / "config/config.yaml").read_text()) | TINY
    settings["images"]["sample"]["size"] = 24
    command = SNAKEMAKE
    if with_conda:
        monkeypatch.setenv("PATH", install_stand_in_conda(tmp_path / "conda"))
        settings["fields"] = {"siren": SETTINGS["fields"]["siren"]}  # with kernels, by Numba
        command = [bare_python, *SNAKEMAKE[1:], "--sdm", "conda"]
    (deployed / "config/config.yaml").write_text(yaml.safe_dump(settings))
    shutil.rmtree(deployed / "results", ignore_errors=True)
    succeed_in(deployed, command)
    assert "sample" in (deployed / "results/report.html").read_text()


@pytest.mark.slow
def test_a_module_of_a_git_repository_has_a_prefix_and_other_names(repository, tmp_path):
    shutil.copy2(ROOT / "config/sample.png", tmp_path)
    settings = TINY | {"images": {"sample": {"path": "sample.png", "size": 24}}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"pictures": settings}))
    (tmp_path / "Snakefile").write_text(f"""
configfile: "config.yaml"

rule count:
    input: "pictures/results/summary.csv"
    output: "count.txt"
    shell: "wc -l < {{input}} > {{output}}"

module neuralfield:
    snakefile: gitfile("{repository}", path="workflow/Snakefile", tag="v9.9.9")
    config: config["pictures"]
    prefix: "pictures"

use rule * from neuralfield as nf_*
""")
    succeed_in(tmp_path, SNAKEMAKE)
    assert (tmp_path / "count.txt").read_text().strip() == "2"
    succeed_in(tmp_path, [*SNAKEMAKE, "nf_all"])
    assert (tmp_path / "pictures/results/report.html").exists()
    assert not (tmp_path / "results").exists() and not (tmp_path / "logs").exists()


@pytest.mark.slow
@pytest.mark.parametrize("snakefile", ["Snakefile", "workflow/Snakefile"])
def test_the_test_folder_is_run(snakefile, tmp_path):
    shutil.copytree(ROOT / ".test/config", tmp_path / "config")
    succeed_in(ROOT, [*SNAKEMAKE, "--snakefile", snakefile, "--directory", str(tmp_path)])
    assert "sample" in (tmp_path / "results/report.html").read_text()
