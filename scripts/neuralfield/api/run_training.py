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
from neuralfield.rendering.compiling import compile_ahead
from neuralfield.rendering.publishing import publishing
from neuralfield.system.copies import FOLDER_NAME
from neuralfield.system.device import available_cores, select_device
from neuralfield.system.errors import DivergenceError, StorageError
from neuralfield.system.files import storage_errors
from neuralfield.system.heat import guard_gpu
from neuralfield.system.interruption import Interrupted
from neuralfield.tasks.task import Measure, Task
from neuralfield.tasks.training_settings import BUDGETS, ImageExecution
from neuralfield.training.budget import within_budget
from neuralfield.training.fit import fit
from neuralfield.training.history import History, read_history
from neuralfield.training.loop import SNAPSHOT_IS, Execution
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
    threads = how.threads or available_cores()
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
        training = {**budget, "engine": how.engine}
        task, found, line = within_budget(task, training, device, threads, folder)
        bar = tqdm(total=task.training.steps, unit="step", disable=not progress, leave=False)
        report = partial(_report, stack.enter_context(bar), task.measure, callback)
        run = Execution(
            device,
            folder / ".state",
            how.engine,
            threads,
            how.checkpoint_interval_s,
            report,
            log.info,
            heat=guard_gpu(how.max_temperature_celsius, device, log.info),
            say_loudly=log.warning,  # which Python prints unless a program has set up its logs
            kept_folder=None if given_folder is None else folder / FOLDER_NAME,
        )
        if found:
            run.note(line)
            run.found_settings = found.training
        outputs = outputs_in(folder)
        try:
            fit(task, run, publishing(outputs, run), outputs=outputs)
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
        return type(task.model).load(outputs["model"]), read_history(
            outputs["history"], task.measure.name
        )


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
