"""`rerank leaderboard STORE`: look at what a store holds: systems, slices, queries, runs.

A Streamlit app on this machine alone, or, with --export, the same tables and figures as files.
"""

from __future__ import annotations

import argparse
import importlib.util
import socket
from pathlib import Path

from jobs.app.export import export
from jobs.app.reading import evaluated_suites, latest, store_at
from jobs.app.views.overview import overview
from jobs.app.views.scope import Scope
from jobs.app.wording import LANGUAGES, Words
from jobs.console import say
from rerank.errors import ConfigError, unknown_name
from rerank.store import Store

ADDRESS = "127.0.0.1"  # never another: the app asks nobody who they are
PORT = 8501
NEEDED = ("streamlit", "duckdb")
# what Streamlit is told; nothing is sent anywhere, no file is watched
OPTIONS: dict[str, object] = {
    "server_address": ADDRESS,
    "server_headless": True,
    "server_fileWatcherType": "none",
    "server_runOnSave": False,
    "browser_gatherUsageStats": False,
    "client_toolbarMode": "minimal",
    "client_showErrorLinks": False,
    "global_developmentMode": False,
    "theme_base": "light",  # as the app's own style is
    "theme_primaryColor": "#1f5f99",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", help="folder or URL of a store, e.g. store or s3://BUCKET/PREFIX")
    parser.add_argument("--port", type=int, default=PORT, help=f"of {ADDRESS} (default: {PORT})")
    parser.add_argument(
        "--language", choices=list(LANGUAGES), default="en", help="that the app starts in"
    )
    parser.add_argument(
        "--export",
        metavar="FOLDER",
        help="write the leaderboard as static files instead: FOLDER/index.html and its tables",
    )
    parser.add_argument("--suite", default="", help="that --export is about, if there are several")


def run(arguments: argparse.Namespace) -> int:
    store = Store(arguments.store)
    if isinstance(store.root, Path) and not store.root.is_dir():
        raise ConfigError(f"there is no store at {store.root}; name the folder or the URL of one")
    if arguments.export:
        suite = exported_suite(store, arguments.suite)
        say(f"leaderboard: {export(store, suite, Path(arguments.export), arguments.language)}")
        return 0
    if arguments.suite:
        raise ConfigError("--suite is for --export; in the app the suite is chosen on the page")
    check_installed()
    check_port(arguments.port)
    serve(str(store.root), arguments.language, arguments.port)
    return 0


def exported_suite(store: Store, name: str) -> str:
    """The suite to export; ConfigError where none is evaluated, or several and none is named."""
    names = evaluated_suites(store)
    if not names:
        raise ConfigError(
            f"{store.root} holds no evaluation for the leaderboard; run `rerank evaluate SUITE` "
            "with this store first"
        )
    if name and name not in names:
        raise unknown_name("suite", name, names)
    if not name and len(names) > 1:
        raise ConfigError(
            f"{store.root} holds several suites ({', '.join(names)}); choose one with --suite"
        )
    return name or names[0]


def check_installed() -> None:
    """ConfigError where the app's own packages are absent."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"the app needs {' and '.join(missing)}; install them with "
            "`pip install 'rerank-replay[app]'`, or write static files with --export FOLDER"
        )


def check_port(port: int) -> None:
    """ConfigError where nothing can listen there."""
    if not 1 <= port <= 65535:
        raise ConfigError(f"--port {port} is no port; choose one from 1 to 65535")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ADDRESS, port))
        except OSError as error:
            raise ConfigError(
                f"port {port} of {ADDRESS} cannot be used ({error.strerror}); choose another with "
                "--port"
            ) from error


def serve(root: str, language: str, port: int) -> None:
    """Run the app until it is interrupted."""
    import duckdb  # noqa: F401  (now, so that no page waits for them)
    import pandas  # noqa: F401
    import scipy.stats  # noqa: F401
    from streamlit.web import bootstrap

    from jobs import app
    from jobs.app.screens import candidates, compare, queries, runs  # noqa: F401
    from jobs.app.screens import overview as _  # noqa: F401

    warm(root)
    options = {**OPTIONS, "server_port": port}
    bootstrap.load_config_options(options)
    say(f"leaderboard of {root}: http://{ADDRESS}:{port} (Ctrl-C ends it)")
    script = str(Path(str(app.__file__)).with_name("main.py"))
    bootstrap.run(script, False, [root, language], options)


def warm(root: str) -> None:
    """Read what the first page shows, so that it need not: of the suite that it begins with."""
    for suite in evaluated_suites(store_at(root))[:1]:
        data = latest(root, suite)
        overview(data, Scope(tuple(data.tasks), tuple(data.systems), data.primary), Words())
