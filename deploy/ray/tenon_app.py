"""Replicas of tenon-serve as a Ray Serve application, multiplexed by adapter. docs/deploy.md explains it.

    PYTHONPATH=deploy/ray serve run deploy/ray/serve.yaml

Serve routes, queues, cancels and replaces: what is here reads the name of a request's adapter, and passes bytes on.
"""
import asyncio
import collections
import contextlib
import json
import os
import re
import sys

import aiohttp
import pydantic
import yarl
from ray import serve
from ray.exceptions import RayActorError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError
from starlette.applications import Starlette
from starlette.routing import Mount

GENERATES = {"/", "/generate", "/generate_stream", "/v1/completions", "/v1/chat/completions"}
PASSES = GENERATES | {"/tokenize", "/detokenize", "/info", "/v1/models", "/health", "/ready", "/ping", "/v1/health", "/startup"}
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")  # an adapter's name: docs/server.md
# Headers of one connection. x-request-id is the same on both sides, and Serve's proxy adds it.
HOPS = {b"connection", b"keep-alive", b"transfer-encoding", b"te", b"trailer", b"upgrade", b"expect", b"host"}
ASKED = HOPS | {b"content-length"}
ANSWERED = HOPS | {b"x-request-id"}
TRIES = 3  # limited, because the request itself may kill replicas


class Settings(pydantic.BaseModel, extra="forbid", strict=True, frozen=True):
    """The arguments of the application."""

    server: str = "tenon-serve"                                  # the program
    flags: list[str] = []                                        # additional flags: docs/server.md
    served_model_name: str = pydantic.Field("tales", min_length=1)
    replicas: int = pydantic.Field(2, ge=1)
    threads: int = pydantic.Field(1, ge=1)                       # per replica; Ray reserves as many CPUs
    adapter_slots: int = pydantic.Field(128, ge=0)               # per replica; 0: no limit
    max_concurrent_requests: int = pydantic.Field(64, ge=1)      # per replica; more requests wait in Serve
    max_queued_requests: int = pydantic.Field(256, ge=1)         # limit on waiting requests; others are refused
    payload_limit: int = pydantic.Field(2_000_000, ge=1024)      # bytes of a body

    def command(self):
        """The command line. The kernel kills the server when the thread that starts it ends."""
        return ["setpriv", "--pdeathsig", "KILL", self.server, "--host", "127.0.0.1", "--port", "0",
                "--served-model-name", self.served_model_name, "--threads", str(self.threads),
                "--adapter-slots", str(self.adapter_slots), "--payload-limit", str(self.payload_limit),
                "--max-concurrent-requests", str(self.max_concurrent_requests), *self.flags]


def without(headers, names):
    return [(name, value) for name, value in headers if name.lower() not in names]


@serve.deployment(health_check_period_s=1, health_check_timeout_s=10, graceful_shutdown_timeout_s=30)
class Server:
    """A replica: a tenon-serve on its own port. If one of the two ends, so does the other."""

    async def __init__(self, settings: Settings):
        self.process = await asyncio.create_subprocess_exec(
            *settings.command(), stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE)
        # Connections are not reused, so none has just been closed by the server. No timeout, because whole answers come late.
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True), auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None),
            skip_auto_headers={"User-Agent", "Accept", "Accept-Encoding", "Content-Type"})
        self.address = None
        ended, ready = asyncio.create_task(self.watch()), asyncio.create_task(self.ready())
        await asyncio.wait({ended, ready}, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            raise RuntimeError(ended.result())
        # If the process ends, Serve retries its waiting requests on other replicas and starts a new one.
        ended.add_done_callback(lambda _: os._exit(1))
        # The server itself loads adapters and evicts the least recently used one. Serve keeps names in the same order and up to
        # the same number, so its view is nearly always right. If it is not, the server loads the adapter.
        self.known = set()
        self.slot = serve.multiplexed(max_num_models_per_replica=settings.adapter_slots or -1)(self.loaded)

    @staticmethod
    async def loaded(name: str) -> str:
        return name

    async def watch(self):
        """Copies the server's log to that of the replica until the server ends. Returns the last lines."""
        said = collections.deque(maxlen=10)
        async for line in self.process.stderr:
            sys.stderr.buffer.write(line)
            sys.stderr.buffer.flush()
            said.append(line.decode(errors="replace"))
            if found := re.match("tenon: listening on (http://.*)\n", said[-1]):
                self.address = found[1]
        return "the server ended with status %d:\n%s" % (await self.process.wait(), "".join(said))

    async def ready(self):
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                if self.address and await self.status("/ready") == 200:
                    return
            await asyncio.sleep(0.05)

    async def status(self, path, headers=()):
        async with self.session.get(yarl.URL(self.address + path, encoded=True), headers=headers) as answer:
            return answer.status

    async def check_health(self):
        """Fails for a server that is alive but hangs."""
        status = await self.status("/health")
        if status != 200:
            raise RuntimeError("/health of the server is %d" % status)

    async def hold(self, name, headers):
        """Tells Serve that this replica has an adapter, or will soon load it. Unknown names take no adapter's place."""
        keys = [(key, value) for key, value in headers if key.lower() in ("authorization", "x-api-key")]
        if name not in self.known and await self.status("/v1/models/" + name, keys) == 200:
            self.known.add(name)
        if name in self.known:
            await self.slot(name)

    async def answer(self, method, target, headers, body):
        """Yields (status, headers, body). A stream has body None, and its pieces follow as they come.

        If the caller leaves, the connection is closed, which cancels the request.
        """
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
        try:
            if name := serve.get_multiplexed_model_id():
                await self.hold(name, headers)
            async with self.session.request(method, yarl.URL(self.address + target, encoded=True), headers=headers,
                                            data=body or None, allow_redirects=False) as answer:
                streams = answer.content_length is None
                yield answer.status, without(answer.raw_headers, ANSWERED), None if streams else await answer.read()
                async for piece in answer.content.iter_any():
                    yield piece
        except aiohttp.ClientError as error:
            raise ConnectionError(str(error)) from None  # not all of aiohttp's exceptions survive serialisation


@serve.deployment(max_ongoing_requests=10_000, graceful_shutdown_timeout_s=30, ray_actor_options={"num_cpus": 0})
@serve.ingress()
class Ingress:
    """Reads the adapter's name, by which Serve chooses a replica, and passes the request on unchanged."""

    def __init__(self, servers, settings: Settings):
        self.servers = servers.options(method_name="answer", stream=True)
        self.settings = settings

    def __serve_build_asgi_app__(self):
        return Starlette(routes=[Mount("/", app=self.http)])

    async def http(self, scope, receive, send):
        # The target as it was sent, without normalisation. Only these routes: the others concern a single replica.
        target = scope["raw_path"].decode("latin-1")[len(scope.get("root_path", "").rstrip("/")):]
        if target not in PASSES and not target.startswith("/v1/models/"):
            return await refuse(send, target, 404, "no such route")
        if (body := await self.read(receive)) is None:
            return await refuse(send, target, 413, "the body is larger than this server takes")
        name = self.adapter(scope, target, body)
        if scope["query_string"]:
            target += "?" + scope["query_string"].decode("latin-1")
        for _ in range(TRIES):
            answer = self.servers.options(multiplexed_model_id=name).remote(
                scope["method"], target, without(scope["headers"], ASKED), body)
            try:
                return await self.passed_on(answer, send)
            except Gone:
                continue
            except BackPressureError:
                return await refuse(send, target, 429, "too many requests wait")
            except DeploymentUnavailableError:
                break
            finally:
                answer.cancel()
        await refuse(send, target, 503, "no replica answers")

    async def passed_on(self, answer, send):
        # Generation has no side effects: if the replica is gone before its answer begins, another one may answer.
        try:
            status, headers, whole = await anext(answer)
        except (ConnectionError, RayActorError) as error:
            raise Gone from error
        await send({"type": "http.response.start", "status": status, "headers": headers})
        if whole is None:
            async for piece in answer:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": whole or b""})

    async def read(self, receive):
        """The whole body; None if it is too large."""
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ConnectionError("the client left")
            body += message.get("body", b"")
            if len(body) > self.settings.payload_limit:
                return None
            if not message.get("more_body"):
                return bytes(body)

    def adapter(self, scope, target, body):
        """The adapter's name: the first of these that is a name. Empty for the base model, and for routes without a model."""
        if scope["method"] != "POST" or target not in GENERATES:
            return ""
        asked = {}
        with contextlib.suppress(ValueError, RecursionError):
            asked = json.loads(body)
        asked = asked if isinstance(asked, dict) else {}
        parameters = asked.get("parameters")
        header = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"x-adapter-id"), None)
        inner = parameters.get("adapter_id") if isinstance(parameters, dict) else None
        name = next((name for name in (header, inner, asked.get("adapter_id"), asked.get("model"))
                     if isinstance(name, str) and 1 <= len(name) <= 255), "")
        return name if name != self.settings.served_model_name and NAME.fullmatch(name) else ""


class Gone(Exception):
    """The replica ended before it answered."""


async def refuse(send, target, status, message):
    """Sends an error in the form of the route: docs/server.md."""
    lorax = {404: "not_found", 413: "validation"}.get(status, "overloaded")
    openai = {404: "not_found_error", 413: "invalid_request_error", 429: "rate_limit_error"}.get(status, "server_error")
    error = {"error": message, "error_type": lorax}
    if target.startswith("/v1"):
        error = {"error": {"message": message, "type": openai, "param": None, "code": "overloaded" if status == 429 else None}}
    headers = [(b"content-type", b"application/json")] + ([(b"retry-after", b"1")] if status in (429, 503) else [])
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(error).encode()})


def app(settings: Settings) -> serve.Application:
    servers = Server.options(
        num_replicas=settings.replicas, ray_actor_options={"num_cpus": settings.threads},
        max_ongoing_requests=settings.max_concurrent_requests, max_queued_requests=settings.max_queued_requests).bind(settings)
    return Ingress.bind(servers, settings)
