#!/usr/bin/env python3
"""A stand-in for conda that answers Snakemake's calls while it plans environments."""

import json
import os
import sys
from pathlib import Path

ANSWERS = {
    "--version": "conda 25.1.1",
    "info": json.dumps(
        dict.fromkeys(
            ("conda_prefix", "root_prefix"), os.fspath(Path(__file__).resolve().parents[1])
        )
        | {"platform": "linux-64"}
    ),
    "config": json.dumps({"get": {"channel_priority": "strict"}}),
}

if __name__ == "__main__":
    print(ANSWERS[sys.argv[1]])
