"""Another workflow uses this one as a module, with its own settings and from its own folder."""

import sys
from pathlib import Path

import pytest
import yaml
from snippets import snippets
from workspace import ROOT, SETTINGS, Workspace, succeed_in, without_kernels

(FROM_THE_PAGE,) = snippets("docs/snakemake.md", "python")
FOREIGN = """
rule count_networks:
    input: "results/summary.csv"
    output: "networks.txt"
    shell: "tail -n +2 {input} | wc -l > {output}"

""" + FROM_THE_PAGE.text.replace("path/to/neuralfield", str(ROOT))


@pytest.fixture
def run(tmp_path: Path):
    """Return a folder, and a function that runs the other workflow in it from another folder."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other/Snakefile").write_text(FOREIGN)
    folder = tmp_path / "work"
    folder.mkdir()
    Workspace(folder)  # writes an image
    pictures = {**SETTINGS, "fields": {"siren": without_kernels()}}
    settings = {"title": "of the other workflow", "pictures": pictures}
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))

    def snakemake(*arguments: str) -> str:
        snakefile = str(tmp_path / "other/Snakefile")
        command = [sys.executable, "-m", "snakemake", "-s", snakefile]
        command += ["--configfile", "config.yaml", "--cores", "2"]
        return succeed_in(folder, [*command, *arguments])

    return folder, snakemake


def test_its_jobs_are_planned_and_the_first_rule_stays_the_other_one_s(run):
    folder, snakemake = run
    planned = snakemake("--dry-run")
    assert "count_networks" in planned and "nf_train" in planned and "nf_all" not in planned
    assert not (folder / "results").exists()


@pytest.mark.slow
def test_its_jobs_run_and_all_that_it_makes_is_a_target(run):
    folder, snakemake = run
    snakemake()
    assert (folder / "networks.txt").read_text().strip() == "1"
    sweep = "{sweeps: {seeds: {fields: [siren], vary: {random_seed: [0, 1]}, batch: 2}}}"
    snakemake("nf_all", "--config", f"pictures={sweep}")
    assert (folder / "results/tiny/siren+random_seed=1/metrics.json").exists()
    assert (folder / "results/tiny/siren/render_8.png").exists()
    assert "Nothing to be done" in snakemake("nf_all", "--config", f"pictures={sweep}")


@pytest.mark.slow
def test_a_prefix_moves_its_results_and_not_its_sources(run):
    """With ``prefix:``, everything is made in that folder, from files where the user wrote them."""
    folder, snakemake = run
    snakefile = folder.parent / "other/Snakefile"
    nested = 'prefix: "nested"\n    config: config'
    snakefile.write_text(snakefile.read_text().replace("config: config", nested))
    large = "images: {large: {path: tiny.png, tiles: {size: 16, overlap: 4}}}"
    snakemake("nf_all", "--config", f"pictures={{{large}}}")
    assert (folder / "nested/results/tiny/siren/view.html").exists()
    page = (folder / "nested/results/report.html").read_text()
    for file in ("tiny/siren/render_8.png", "large/siren/pyramid/index.html"):
        assert f'href="{file}"' in page and (folder / "nested/results" / file).exists()
    assert not (folder / "results").exists() and not (folder / "logs").exists()
    assert "Nothing to be done" in snakemake("nf_all", "--config", f"pictures={{{large}}}")
