"""Experiment 13: serving from a client's view. A whole answer and a stream; one long and two short streams at once; one prompt with
every adapter at once. It needs only python3.

    13_serving.py [SERVER] [--model DIR] [--csv FILE]        (default: build/tenon-serve with its default model)
"""
import argparse
import json
import pathlib
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[1]


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


def measure(base, csv):
    adapters = [None] + [each["id"] for each in json.load(urllib.request.urlopen(base + "/v1/models"))["data"] if each["parent"]]
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


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("server", nargs="?", default=ROOT / "build" / "tenon-serve")
parser.add_argument("--model", default=ROOT / "examples" / "models" / "tales")
parser.add_argument("--csv")
wanted = parser.parse_args()
command = [wanted.server, "--port=0", "--model", wanted.model, "--no-log-requests"]
with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
    try:
        base = next((line.split()[-1] for line in server.stderr if "listening on" in line), None)
        good = base and measure(base, wanted.csv)
    finally:
        server.terminate()
sys.exit(0 if good and server.returncode == 0 else 1)
