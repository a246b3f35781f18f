"""Virtual environments for the client checks, and the checks in them.

    run.py prepare FOLDER ENVIRONMENT ...             makes FOLDER/ENVIRONMENT from requirements/ENVIRONMENT.txt
    run.py check FOLDER ENVIRONMENT CLIENT SERVER     runs check_CLIENT.py there, against the program SERVER

Exit status 77, with a line `skipped: REASON`, if Python has no venv or PyPI cannot be reached. An environment is made again if its
requirements or the interpreter have changed. Requirements list every package with its version, so pip resolves nothing.
"""
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77
UNREACHABLE = re.compile("connection broken|Max retries exceeded|NewConnectionError|NameResolutionError|ConnectTimeout|ReadTimeout|"
                         "Network is unreachable|ProxyError|Connection refused")


class Skipped(Exception):
    pass


def requirements(name):
    return HERE / "requirements" / (name + ".txt")


def python_of(folder, name):
    return pathlib.Path(folder, name, "bin", "python")


def stamp_of(name):
    return hashlib.sha256(requirements(name).read_bytes() + sys.version.encode()).hexdigest()


def is_ready(folder, name):
    stamp = pathlib.Path(folder, name, "stamp")
    return stamp.exists() and stamp.read_text() == stamp_of(name)


def run(*command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
                          errors="replace", stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout


def make(folder, name):
    """Makes the environment unless it exists. Raises Skipped, or RuntimeError with pip's last lines."""
    place = pathlib.Path(folder, name)
    place.parent.mkdir(parents=True, exist_ok=True)
    with open(str(place) + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_ready(folder, name):
            return
        shutil.rmtree(place, ignore_errors=True)
        status, output = run(sys.executable, "-m", "venv", place)
        if status:
            raise Skipped("python3 makes no virtual environment (Debian: python3-venv): " + output.strip()[-200:])
        status, output = run(python_of(folder, name), "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check",
                             "--no-deps", "--retries", "2", "--timeout", "60", "-r", requirements(name))
        if status and UNREACHABLE.search(output):
            raise Skipped("PyPI is not reachable, which %s comes from" % requirements(name).name)
        if status:
            raise RuntimeError("pip could not install %s:\n%s" % (requirements(name), output[-2000:]))
        (place / "stamp").write_text(stamp_of(name))


def prepare(folder, *names):
    for name in names:
        make(folder, name)
        print("%s: %s" % (name, python_of(folder, name)))
    return 0


def check(folder, name, client, server, *pattern):
    if not is_ready(folder, name):
        raise Skipped("no environment %s in %s: see the test clients.environment, or run `run.py prepare`" % (name, folder))
    environment = dict(os.environ, TENON_SERVE=os.path.abspath(server), PYTHONDONTWRITEBYTECODE="1")
    return subprocess.run([str(python_of(folder, name)), str(HERE / ("check_%s.py" % client)), *pattern], env=environment).returncode


def main():
    commands = {"prepare": prepare, "check": check}
    if len(sys.argv) < 4 or sys.argv[1] not in commands:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        return commands[sys.argv[1]](*sys.argv[2:])
    except Skipped as reason:
        print("skipped: %s" % reason)
        return SKIPPED
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
