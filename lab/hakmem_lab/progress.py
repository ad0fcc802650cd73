"""How far long work is: a bar on a terminal, a line every half minute in a log."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TaskID, TextColumn

LOG_SECONDS = 30.0


class Bar(Progress):
    """Goes away when the work is done. columns follow the bar."""

    def __init__(self, console: Console, *columns: ProgressColumn, **options: Any) -> None:
        super().__init__(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            *columns,
            console=console,
            transient=True,
            **options,
        )
        self._logged = self.get_time()

    def update(self, task_id: TaskID, **changes: Any) -> None:
        super().update(task_id, **changes)
        self._log(task_id)

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        super().advance(task_id, advance)
        self._log(task_id)

    def _log(self, task_id: TaskID) -> None:
        now = self.get_time()
        if self.console.is_terminal or now - self._logged < LOG_SECONDS:
            return
        self._logged = now
        task = next(each for each in self.tasks if each.id == task_id)
        figures = task.fields.get("figures", "")
        line = f"{task.percentage:3.0f} % after {task.elapsed or 0:.0f} s: {task.description}"
        self.console.print(f"{line}; {figures}" if figures else line, markup=False, soft_wrap=True)
