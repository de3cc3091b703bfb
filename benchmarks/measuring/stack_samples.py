"""Stack samples of the threads of a workflow's jobs, by a module that Python imports at start."""

import atexit
import os
import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

_INTERVAL_S = 0.01
_MOST_ROWS = 30
_SCRIPTS = ".snakemake/scripts/"
"""The folder in which Snakemake puts the scripts of its jobs."""

_WAITING = ("threading.py", "queue.py", "thread.py")
"""Files in which a thread of a pool waits for work."""


def sample_jobs(folder: Path) -> None:
    """Make all jobs that start from now on write their samples into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    own = Path(__file__).resolve().parents[1]
    (folder / "sitecustomize.py").write_text(
        f"import sys\nsys.path.append({str(own)!r})\n"
        f"from measuring.stack_samples import begin\nbegin({str(folder.resolve())!r})\n"
        f"sys.path.remove({str(own)!r})\n"
    )
    earlier = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder.resolve()), *filter(None, [earlier])])


def begin(folder: str) -> None:
    """Sample this process until it ends, if it runs a job."""
    scripts = [argument for argument in sys.orig_argv if _SCRIPTS in argument]
    if scripts:
        name = scripts[0].rsplit("/", 1)[1].split(".")[1]
        samples = _Samples(Path(folder, f"{name}.{os.getpid()}.txt"))
        threading.Thread(target=samples.take, daemon=True).start()
        atexit.register(samples.write)


class _Samples:
    """Counts of the sampled functions, for the main thread and for all other threads."""

    def __init__(self, path: Path) -> None:
        self._path, self._started_s = path, time.perf_counter()
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def take(self) -> None:
        """Sample all threads except this one periodically."""
        own, main = threading.get_ident(), threading.main_thread().ident
        while True:
            time.sleep(_INTERVAL_S)
            for thread, frame in sys._current_frames().items():
                names = []
                while frame is not None:
                    file = os.path.basename(frame.f_code.co_filename)  # noqa: PTH119
                    names.append(f"{file}:{frame.f_code.co_name}")
                    frame = frame.f_back
                if thread != own and (thread == main or not names[0].startswith(_WAITING)):
                    kind = "main" if thread == main else "others"
                    self._counts[f"{kind}, with what it calls"].update(set(names))
                    self._counts[f"{kind}, innermost"][" < ".join(names[:3])] += 1

    def write(self) -> None:
        """Write the most frequent functions, with their seconds."""
        lines = [f"{self._path.stem}: {time.perf_counter() - self._started_s:.2f} s"]
        for kind, found in sorted(self._counts.items()):
            lines.append(f"{kind}:")
            lines += [
                f"{count * _INTERVAL_S:8.2f} s  {name}"
                for name, count in found.most_common(_MOST_ROWS)
            ]
        self._path.write_text("\n".join(lines) + "\n")


def print_samples(folder: Path) -> None:
    """Print the samples of an arbitrary job of each script."""
    for path in {path.name.split(".")[0]: path for path in sorted(folder.glob("*.txt"))}.values():
        print(f"\n{path.read_text()}", flush=True)
