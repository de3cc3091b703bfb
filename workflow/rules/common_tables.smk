# What the rules of tables are written with.


def table_networks(table):
    """Folders of a table's networks: its own, and one for each further size."""
    sizes = config["tables"][table]["sizes"]
    return [table, *(f"{table}/sizes/{table_settings.size_name(widths)}" for widths in sizes)]


TABLE_NETWORKS = {network: table for table in config["tables"] for network in table_networks(table)}
"""The table of each network, by its folder."""


def table_of(wildcards):
    """Settings of the table, with the size of this network."""
    name = TABLE_NETWORKS[wildcards.network]
    table = config["tables"][name]
    sizes = dict(zip(table_networks(name), [table["network"]["widths"], *table["sizes"]]))
    return table | {"network": table["network"] | {"widths": sizes[wildcards.network]}}


def table_path(wildcards):
    return table_of(wildcards)["path"]


def table_task_settings(wildcards):
    """What is learned, without how, and without what is only said or measured."""
    keys = ("inputs", "targets", "network", "scale_inputs", "scale_targets", "held_out_share")
    return {key: table_of(wildcards)[key] for key in keys}


def table_training(wildcards):
    """How it is trained, without what makes no difference to the result."""
    training = table_of(wildcards)["training"]
    return {
        key: value
        for key, value in training.items()
        if key not in configuration.MAKES_NO_DIFFERENCE
    }


def table_gpus(wildcards):
    device = table_of(wildcards)["training"]["device"]
    return int(device == "gpu" or (device == "auto" and gpu_is_present()))


def table_memory_mb(wildcards):
    return estimates.table_memory_mb(table_of(wildcards), table_gpus(wildcards))


def every_table(pattern):
    """Names of files, one for each table; there has to be one."""

    def names(wildcards):
        if not config["tables"]:
            raise startup.UserError(
                "config.yaml: tables: missing; expected at least one table; add one, as"
                " docs/tables.md shows"
            )
        return expand(pattern, network=config["tables"])

    return names


def every_table_network(wildcards):
    """Files of all networks of tables, of further sizes too, but for plots."""
    names = ("metrics.json", "predictions.csv")
    folders = [f"results/tables/{network}" for network in TABLE_NETWORKS]
    measured = [f"{folder}/{name}" for folder in folders for name in names]
    return measured + [file for folder in folders for file in training_products(folder)]


def table_sizes(pattern, table):
    """Names of files, one for each network of a table that has several."""
    return (
        expand(pattern, network=table_networks(table)) if config["tables"][table]["sizes"] else []
    )
