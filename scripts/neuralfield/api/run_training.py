"""A complete training, in a folder from which it can be resumed or in a temporary folder."""

import contextlib
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from neuralfield.api.arguments import require_path
from neuralfield.rendering.finishing import compile_ahead, finished_model
from neuralfield.system.device import available_cores, select_device
from neuralfield.system.errors import DivergenceError, StorageError
from neuralfield.system.files import storage_errors
from neuralfield.system.heat import guard_gpu
from neuralfield.system.interruption import Interrupted
from neuralfield.tasks.task import Measure, Task
from neuralfield.tasks.training_settings import BUDGETS, ImageExecution
from neuralfield.training.budget import apply_budget
from neuralfield.training.fit import fit
from neuralfield.training.history import History, read_history
from neuralfield.training.loop import SNAPSHOT_IS, Training
from neuralfield.training.results import outputs_in

log = logging.getLogger("neuralfield")

Callback = Callable[[dict[str, float]], object]


def run_training(
    task: Task,
    given_folder: str | os.PathLike | None,
    how: ImageExecution,
    *,
    callback: Callback | None = None,
    progress: bool = False,
) -> tuple[Any, History]:
    """Train to the end, and return the model and the history.

    `given_folder` is for results and state; None: a temporary folder. `callback` is called with
    each row of the history, and `progress` is whether a progress bar is shown.

    Ctrl-C raises KeyboardInterrupt; if there is a folder, the state is saved to it first.
    """
    device = select_device(how.device)
    budget = {name: getattr(how, name) for name in BUDGETS if getattr(how, name) is not None}
    with contextlib.ExitStack() as stack:
        if given_folder is None:
            temporary = tempfile.TemporaryDirectory(prefix="neuralfield_")
            folder = Path(stack.enter_context(temporary))
        else:
            folder = require_path("folder", given_folder)
            with storage_errors(folder, "cannot be made"):
                folder.mkdir(parents=True, exist_ok=True)
        stack.enter_context(_naming_removed(folder))
        stack.enter_context(compile_ahead(task, device))
        run = Training(
            task=task,
            folder=folder,
            device=device,
            engine=how.engine,
            threads=how.threads or available_cores(),
            checkpoint_interval_s=how.checkpoint_interval_s,
            heat=guard_gpu(how.max_temperature_celsius, device, log.info),
            finish=finished_model,
            stores_copies=given_folder is not None,
            say=log.info,
            say_loudly=log.warning,  # which Python prints unless a program has set up its logs
        )
        apply_budget(run, budget)
        bar = tqdm(total=run.last_step, unit="step", disable=not progress, leave=False)
        run.progress = partial(_report, stack.enter_context(bar), task.measure, callback)
        try:
            fit([run])
        except Interrupted as error:
            if not str(error).startswith("SIGINT"):
                raise
            raise KeyboardInterrupt(str(error) if given_folder else "") from error
        except DivergenceError as error:
            if given_folder is not None:
                raise
            # the last good snapshot is removed with the temporary folder
            remedy = error.remedy.partition(SNAPSHOT_IS)[0]
            raise DivergenceError(error.where, error.found, error.expected, remedy) from error
        outputs = outputs_in(folder)
        history = read_history(outputs["history"], task.measure.name)
        return type(task.model).load(outputs["model"]), history


@contextlib.contextmanager
def _naming_removed(folder: Path) -> Iterator[None]:
    """Raise `StorageError` if another process has removed a file in the folder of a training."""
    try:
        yield
    except FileNotFoundError as error:
        if not error.filename or folder not in Path(error.filename).parents:
            raise
        found = f"another process has removed {Path(error.filename).relative_to(folder)}"
        expected, remedy = "a folder that nothing else changes", "run the training again"
        raise StorageError(str(folder), found, expected, remedy) from error


def _report(bar: tqdm, measure: Measure, callback: Callback | None, row: dict[str, float]) -> None:
    """Show a row of the history in the progress bar, and pass it to the callback."""
    bar.set_postfix_str(measure.format.format(row[measure.name]), refresh=False)
    bar.update(int(row["step"]) - bar.n)
    if callback is not None:
        callback(row)
