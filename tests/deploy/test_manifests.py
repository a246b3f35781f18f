"""deploy/ as far as it can be tested without Docker, Kubernetes or a running systemd: schemas, names, commands, and the server with
the settings in these files.

    test_manifests.py PROGRAM [TEST ...]            (or TENON_SERVE=PROGRAM; PROMTOOL=PROGRAM)
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "server"))
import serving  # noqa: E402

try:
    import kubernetes_validate
    import yaml
except ImportError:
    kubernetes_validate = None

DEPLOY = ROOT / "deploy"
PROMTOOL = os.environ.get("PROMTOOL") or shutil.which("promtool")
VERSIONS = ["1.30", "1.33", "1.37"]  # 1.30: preStop.sleep
SHUTDOWN = 30  # seconds, the server's default


def documents():
    return [each for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")) for each in yaml.safe_load_all(path.read_text())]


def one(kind):
    found, = [each for each in documents() if each["kind"] == kind]
    return found


def flags():
    """The server's flags, without the dashes."""
    return set(re.findall(r"--([a-z][a-z0-9-]*)", serving.run("--help").stdout))


def is_setting(variable):
    return variable.removeprefix("TENON_").lower().replace("_", "-") in flags()


def steps(text):
    """Lines without comments, joined with their continuations, as words."""
    text = re.sub(r"\\\n", " ", "".join(line for line in text.splitlines(keepends=True) if not line.lstrip().startswith("#")))
    return [shlex.split(line) for line in text.splitlines() if line.strip()]


@unittest.skipUnless(kubernetes_validate, "no kubernetes-validate")
class Kubernetes(unittest.TestCase):
    def test_schemas(self):
        for version in VERSIONS:
            for each in documents():
                with self.subTest(version=version, kind=each["kind"]):
                    kubernetes_validate.validate(each, version, strict=True)

    def test_schemas_can_refuse(self):
        wrong = one("Deployment")
        wrong["spec"]["template"]["spec"]["containers"][0]["lifecycle"]["preStop"]["sleeps"] = {"seconds": 5}
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)

    def test_names_agree(self):
        pod = one("Deployment")["spec"]["template"]
        container, = pod["spec"]["containers"]
        labels = pod["metadata"]["labels"]
        self.assertEqual(one("Deployment")["spec"]["selector"]["matchLabels"], labels)
        self.assertEqual(one("Service")["spec"]["selector"], labels)
        self.assertEqual(one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"], labels)
        self.assertEqual(one("HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]["name"], one("Deployment")["metadata"]["name"])
        self.assertIn(one("Service")["spec"]["ports"][0]["targetPort"], [each["name"] for each in container["ports"]])
        self.assertEqual(pod["spec"]["volumes"][0]["secret"]["secretName"], one("Secret")["metadata"]["name"])
        mount, = container["volumeMounts"]
        key, = one("Secret")["stringData"]
        environment = {each["name"]: each["value"] for each in container["env"]}
        self.assertEqual(environment["TENON_API_KEY_FILE"], mount["mountPath"] + "/" + key)
        self.assertEqual(environment["TENON_THREADS"], container["resources"]["limits"]["cpu"])
        self.assertTrue(all(map(is_setting, environment)), environment)

    def test_time_to_end(self):
        pod = one("Deployment")["spec"]["template"]["spec"]
        container, = pod["containers"]
        shutdown = next(int(each["value"]) for each in container["env"] if each["name"] == "TENON_SHUTDOWN_TIMEOUT")
        self.assertGreater(pod["terminationGracePeriodSeconds"],
                           container["lifecycle"]["preStop"]["sleep"]["seconds"] + shutdown)

    def test_the_server_with_these_settings_passes_its_probes(self):
        container, = one("Deployment")["spec"]["template"]["spec"]["containers"]
        environment = {each["name"]: each["value"] for each in container["env"]}
        with tempfile.NamedTemporaryFile("w") as keys:
            keys.write(one("Secret")["stringData"]["api-keys"])
            keys.flush()
            environment |= {"TENON_API_KEY_FILE": keys.name, "TENON_HOST": "127.0.0.1"}
            with serving.Server(env=serving.environment(**environment)) as server:
                for probe in ["startupProbe", "readinessProbe", "livenessProbe"]:
                    path = container[probe]["httpGet"]["path"]
                    serving.eventually(lambda: server.get(path).status == 200, path)
                annotations = one("Deployment")["spec"]["template"]["metadata"]["annotations"]
                self.assertEqual(server.get(annotations["prometheus.io/path"]).status, 401)
                clients, prometheus = [line.split()[0] for line in one("Secret")["stringData"]["api-keys"].splitlines()]
                for server.key, allowed in [(clients, "/v1/models"), (prometheus, annotations["prometheus.io/path"])]:
                    self.assertEqual(server.get(allowed).status, 200)


class Docker(unittest.TestCase):
    STEPS = steps((DEPLOY / "docker" / "Dockerfile").read_text())

    def runs(self):
        return [step[1:] for step in self.STEPS if step[0] == "RUN"]

    def test_it_builds_as_the_script_does(self):
        script = [[word for word in step if not re.match(r"[0-9]*>", word)] for step in steps((ROOT / "scripts" / "serve").read_text())]
        built = [step for step in script if step[0] in ["scripts/deps", "cmake"]]
        self.assertEqual(len(built), 3)
        self.assertEqual(self.runs()[:3], built)

    def test_what_it_copies_is_there(self):
        for step in self.STEPS:
            if step[0] == "COPY" and not step[1].startswith("--from"):
                self.assertTrue((ROOT / step[1]).exists(), step)
        copied = [step for step in self.STEPS if step[:2] == ["COPY", "--from=build"]]
        self.assertEqual([step[2] for step in copied], ["/src/build-demo/tenon-serve"])

    def test_nothing_that_is_built_from_is_ignored(self):
        ignored = [line for line in (DEPLOY / "docker" / "Dockerfile.dockerignore").read_text().splitlines() if line[:1] not in "#"]
        for pattern in ignored:
            for path in ROOT.glob(pattern):
                listed = subprocess.run(["git", "-C", ROOT, "ls-files", "--", path], capture_output=True, text=True)
                self.assertEqual(listed.stdout, "", pattern)

    def test_it_has_what_the_program_is_linked_with(self):
        if not shutil.which("ldd"):
            self.skipTest("no ldd")
        linked = subprocess.run(["ldd", serving.PROGRAM], capture_output=True, text=True).stdout
        packages = {"ssl": "libssl3", "utf8proc": "libutf8proc2", "stdc++": "libstdc++6"}
        installed = " ".join(self.runs()[3])
        for library, package in packages.items():
            self.assertIn("lib" + library, linked)
            self.assertIn(package, installed)

    def test_its_end(self):
        users = [step[1] for step in self.STEPS if step[0] == "USER"]
        self.assertEqual(users, ["65532:65532"])
        check, = [step for step in self.STEPS if step[0] == "HEALTHCHECK"]
        self.assertIn("http://127.0.0.1:8080/ready", " ".join(check))
        self.assertIn(["EXPOSE", "8080"], self.STEPS)
        for step in self.STEPS:
            if step[0] == "ENV":
                self.assertTrue(all(is_setting(each.split("=")[0]) for each in step[1:]), step)


class Systemd(unittest.TestCase):
    UNIT = DEPLOY / "systemd" / "tenon-serve.service"

    def value(self, name):
        return re.search("^%s=(.*)$" % name, self.UNIT.read_text(), re.MULTILINE).group(1)

    def test_settings(self):
        self.assertTrue(is_setting(self.value("Environment").split("=")[0]))
        self.assertGreater(int(self.value("TimeoutStopSec").rstrip("s")), SHUTDOWN)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
    def test_verify(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder, self.UNIT.name)
            copy.write_text(self.UNIT.read_text().replace(self.value("ExecStart"), serving.PROGRAM))
            done = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))
            done = subprocess.run(["systemd-analyze", "security", "--offline=true", copy], capture_output=True, text=True)
            exposure = float(re.search(r"exposure level for \S+ ([0-9.]+)", done.stdout).group(1))
            print("systemd-analyze security: %.1f" % exposure, file=sys.stderr)
            self.assertLessEqual(exposure, 1.5)


@unittest.skipUnless(PROMTOOL, "no promtool")
class Metrics(unittest.TestCase):
    # Names of LoRAX and vLLM, which promtool's linter complains about.
    KNOWN = re.compile(r'^(lorax_|vllm:)')

    def test_promtool(self):
        with serving.Server() as server:
            server.post("/generate", {"inputs": "x", "parameters": {"max_new_tokens": 2, "adapter_id": "weather"}})
            text = server.get("/metrics").text()
        done = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True)
        said = (done.stdout + done.stderr).splitlines()
        print("promtool: status %d, %d lines" % (done.returncode, len(said)), *said, sep="\n  ", file=sys.stderr)
        self.assertIn(done.returncode, [0, 3], said)  # 1: wrong format; 3: style only
        self.assertEqual([line for line in said if not self.KNOWN.match(line)], [])


class Paths(unittest.TestCase):
    def test_files_that_the_documentation_names(self):
        text = (ROOT / "docs" / "deploy.md").read_text()
        for path in set(re.findall(r"\b(?:deploy|scripts|tests)/[\w./-]*\w", text)):
            self.assertTrue((ROOT / path).exists(), path)


if __name__ == "__main__":
    serving.main()
