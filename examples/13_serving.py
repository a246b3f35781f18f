"""Experiment 13: serving from a client's view. A whole answer and a stream; one long and two short streams at once; one prompt with
every adapter at once. Then the cells of a LoRAX notebook: adapters of the hub by name, streamed alone and three at once, and a schema.
It needs only python3; the cells use lorax-client where it is installed.

    13_serving.py [SERVER] [--model DIR] [--csv FILE]        (default: build/tenon-serve with its default model)
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import types
import urllib.request
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[1]
PERSON = {"type": "object", "required": ["name", "age"], "properties": {"name": {"type": "string", "maxLength": 10},
                                                                       "age": {"type": "integer", "minimum": 0, "maximum": 120}}}


def ask(base, prompt, new_tokens, adapter=None, path="/generate_stream", begin=0):
    """The text, and the times of its events in ms since `begin`. An answer of /generate is one event."""
    parameters = {"max_new_tokens": new_tokens, "adapter_id": adapter, "ignore_eos_token": True}
    body, times = json.dumps({"inputs": prompt, "parameters": parameters}).encode(), []
    for line in urllib.request.urlopen(base + path, body, timeout=60):
        if line.startswith((b"data: ", b"{")):
            times.append(1000 * (time.perf_counter() - begin))
            text = json.loads(line.removeprefix(b"data: "))["generated_text"]
    return text, times


def run(base, asked, threads):
    begin = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda each: ask(base, *each, begin=begin), asked))


def compare(base, what, asked, names):
    """Runs the requests one after another and at once. Prints the times of both, and returns the answers of both."""
    both = [run(base, asked, 1), run(base, asked, len(asked))]
    print(f"\n{what:20}  one after another              at once\n{'':20} first, ms  last, ms   first, ms  last, ms")
    for name, (_, apart), (_, together) in zip(names, *both):
        print(f"  {name:18} {apart[0]:9.1f} {apart[-1]:9.1f}   {together[0]:9.1f} {together[-1]:9.1f}")
    rates = [1000 * sum(len(times) for _, times in answers) / max(times[-1] for _, times in answers) for answers in both]
    print(f"  tokens a second {rates[0]:22.0f} {rates[1]:21.0f}")
    return both


def measure(base, adapters, csv):
    adapters = [None, *adapters]
    three = [("Once upon a time", 100), ("The rain in Spain falls", 10), ("There was a king who", 10)]
    tasks = [("The king", 20, adapter) for adapter in adapters]
    run(base, [*three, *tasks], 1)  # the first request with an adapter loads it
    (whole, at), = run(base, [(*three[0], None, "/generate")], 1)
    (streamed, times), = run(base, three[:1], 1)
    print(f"100 tokens           first, ms  last, ms\n  /generate          {at[0]:19.1f}")
    print(f"  /generate_stream   {times[0]:9.1f} {times[-1]:9.1f}")
    streams = compare(base, "three streams", three, [f"{each[1]} tokens" for each in three])
    answers = compare(base, "adapters, 20 tokens", tasks, [each or "none" for each in adapters])
    print("".join(f"\n  {adapter or 'none':12} {'The king' + text!r}" for adapter, (text, _) in zip(adapters, answers[1])))
    same = whole == streamed and all(a[0] == b[0] for both in (streams, answers) for a, b in zip(*both))
    print("\nwhole and streamed, alone and together, the same texts:", "yes" if same else "NO")
    if csv:
        rows = sorted((ms, s, count) for s, (_, times) in enumerate(streams[1]) for count, ms in enumerate(times, 1))
        cells = [f"{ms:.2f},{','.join(str(count) if s == i else '' for i in range(3))}\n" for ms, s, count in rows]
        pathlib.Path(csv).write_text("ms,first,second,third\n" + "".join(cells), encoding="ascii")
    return same


class PlainClient:
    """The part of lorax.Client that the cells use, for machines without lorax-client."""

    def __init__(self, base):
        self.base = base

    def post(self, path, prompt, parameters):
        body = json.dumps({"inputs": prompt, "parameters": {"details": True, **parameters}}).encode()
        return urllib.request.urlopen(self.base + path, body, timeout=60)

    def generate(self, prompt, **parameters):
        return read(self.post("/generate", prompt, parameters).read())

    def generate_stream(self, prompt, **parameters):
        for line in self.post("/generate_stream", prompt, parameters):
            if line.startswith(b"data: "):
                yield read(line[6:])


def read(text):
    return json.loads(text, object_hook=lambda members: types.SimpleNamespace(**members))


def hub_cache(folder, adapters):
    """Lays the adapters into a hub cache, as `hf download` does. Returns their names there."""
    names = []
    for adapter in adapters:
        repository = pathlib.Path(folder, "models--tales--" + adapter.name + "-lora")
        for each in ["blobs", "refs", "snapshots/0a1b2c3d"]:
            (repository / each).mkdir(parents=True)
        (repository / "refs" / "main").write_text("0a1b2c3d")
        for file in ["adapter_config.json", "adapter_model.safetensors"]:
            (repository / "blobs" / file).write_bytes((adapter / file).read_bytes())
            (repository / "snapshots" / "0a1b2c3d" / file).symlink_to("../../blobs/" + file)
        names.append("tales/" + adapter.name + "-lora")
    return names


def notebook(client, adapters, local):
    """The cells, with three adapters of the hub. True if each answers as the adapter of the folder `local` does."""
    prompt, good = "The king", True
    print("\n" + type(client).__module__.split(".")[0] + ", " + type(client).__name__)
    print("  generate        ", repr(client.generate(prompt, max_new_tokens=20).generated_text))

    def stream(adapter, source):
        of = {"adapter_id": adapter, "adapter_source": source, "max_new_tokens": 20}
        return "".join(event.token.text for event in client.generate_stream(prompt, **of) if not event.token.special)

    alone = [stream(adapter, "hub") for adapter in adapters]
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(lambda adapter: stream(adapter, "hub"), adapters))
    for adapter, theirs, text in zip(adapters, local, together):
        print(f"  {adapter:22}", repr(text))
        good = good and text == stream(theirs, "local")
    schema = {"type": "json_object", "schema": PERSON}
    answer = client.generate("A person:", adapter_id=adapters[0], adapter_source="hub", response_format=schema, max_new_tokens=60)
    person = json.loads(answer.generated_text)
    print("  schema          ", person)
    return good and alone == together and len(set(alone)) == 3 and set(person) == {"name", "age"}


def client_of(base):
    try:
        from lorax import Client
        return Client(base)
    except ImportError:
        return PlainClient(base)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server", nargs="?", default=ROOT / "build" / "tenon-serve")
    parser.add_argument("--model", default=ROOT / "examples" / "models" / "tales")
    parser.add_argument("--csv")
    wanted = parser.parse_args()
    folders = sorted(each for each in pathlib.Path(wanted.model, "adapters").iterdir() if (each / "adapter_config.json").exists())[:3]
    local = [each.name for each in folders]
    with tempfile.TemporaryDirectory() as folder:
        names = hub_cache(folder, folders)
        command = [wanted.server, "--port=0", "--model", wanted.model, "--hub-cache", folder, "--no-log-requests"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
            try:
                base = next((line.split()[-1] for line in server.stderr if "listening on" in line), None)
                good = base and measure(base, local, wanted.csv) and notebook(client_of(base), names, local)
            finally:
                server.terminate()
    return 0 if good and server.returncode == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
