"""Schemathesis with tenon-serve: requests made of /openapi.json, valid and invalid, and what its answers must be.

    check_openapi.py [--seconds N]        (30 for each of two servers; TENON_SERVE names the program)

Checks: no 5xx, and the statuses, content types, headers and schemas that are described; unknown methods are refused.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "server"))
import serving  # noqa: E402

CHECKS = ["not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
          "response_schema_conformance", "unsupported_method"]
KEY = "the-key"


def check(server, seconds, *flags):
    """Exit status of one run against a server."""
    url = "http://127.0.0.1:%d" % server.port
    # These are always 501.
    never = ["post_lora_adapters", *("post_api_" + what for what in ("pull", "push", "create", "copy")), "delete_api_delete"]
    command = [str(pathlib.Path(sys.executable).with_name("schemathesis")), "run", url + "/openapi.json", "--phases", "coverage,fuzzing",
               "--checks", ",".join(CHECKS), "--max-time", str(seconds), "--request-timeout", str(serving.PATIENCE), "--seed", "7",
               *(word for each in never for word in ("--exclude-operation-id", each)), "--suppress-health-check", "all", "--no-color", *flags]
    with tempfile.TemporaryDirectory() as folder:  # it keeps what it found
        return subprocess.run(command, cwd=folder).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=30)
    seconds = parser.parse_args().seconds
    worst = 0
    for flags, more in [([], []),
                        (["--enable-adapter-admin", "--api-key", KEY, "--chat-template", "plain"],
                         ["--header", "X-Api-Key: " + KEY])]:
        with serving.Server("--max-total-tokens", 64, "--default-max-new-tokens", 4, *flags) as server:
            worst = max(worst, check(server, seconds, *more))
            if server.get("/health").status != 200 or server.stop() != 0:
                sys.exit("the server is not well:\n" + server.text()[-2000:])
    return worst


if __name__ == "__main__":
    sys.exit(main())
