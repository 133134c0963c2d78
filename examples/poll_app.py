"""A poll as a web application of your own: views inside of a Starlette app, and its page.

Votes come in over HTTP, a view counts them, and every browser hears of each change by server-sent
events: first the view as it is, then what changed, without a gap. The same handlers serve in
FastAPI, whose applications are Starlette's. Ctrl-C ends the streams, then the server.

    pip install 'viewlet[serve]'
    python examples/poll_app.py [--port 8000]
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import uvicorn
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

import viewlet

SQL = """
CREATE TABLE votes (voter VARCHAR PRIMARY KEY, choice VARCHAR NOT NULL);
CREATE VIEW result AS SELECT choice, COUNT(*) AS votes FROM votes GROUP BY choice;
"""
CHOICES = ("tea", "coffee", "water")

PAGE = """<!doctype html>
<meta charset="utf-8"><title>A poll</title><link rel="icon" href="data:,">
<style>
  body { font: 16px/1.5 system-ui; max-width: 28rem; margin: 3rem auto; color-scheme: light dark; }
  button { font: inherit; margin-right: .4rem; }
  .bar { background: #2f6f9f; color: white; margin: .3rem 0; padding: .2rem .5rem;
         border-radius: 4px; white-space: nowrap; transition: width .2s; }
</style>
<h1>What do you drink?</h1>
<p>BUTTONS</p><div id="bars"></div>
<script>
  const voter = crypto.randomUUID(), votes = new Map();
  const vote = (choice) =>
    fetch("/vote", { method: "POST", body: JSON.stringify({ voter, choice }) });
  document.querySelectorAll("button").forEach((b) => { b.onclick = () => vote(b.textContent); });
  new EventSource("/changes").onmessage = (event) => {
    const batch = JSON.parse(event.data);
    if (batch.snapshot) votes.clear();
    for (const row of batch.deleted) votes.delete(row.choice);
    for (const row of batch.inserted) votes.set(row.choice, row.votes);
    const most = Math.max(1, ...votes.values());
    document.getElementById("bars").replaceChildren(...[...votes].sort().map(([choice, count]) => {
      const bar = document.createElement("div");
      bar.className = "bar";
      bar.textContent = `${choice} ${count}`;
      bar.style.width = `${40 + 60 * count / most}%`;
      return bar;
    }));
  };
</script>
"""


def poll_app(db: viewlet.Database) -> Starlette:
    """The application over a database that has the poll's table and view."""
    ending = asyncio.Event()

    async def page(request: Request) -> Response:
        buttons = " ".join(f"<button>{choice}</button>" for choice in CHOICES)
        return HTMLResponse(PAGE.replace("BUTTONS", buttons))

    async def vote(request: Request) -> Response:
        try:
            ballot = await request.json()
            row = (str(ballot["voter"]), str(ballot["choice"]))
        except (ValueError, KeyError, TypeError):
            return JSONResponse({"error": "a ballot has a voter and a choice"}, 400)
        if row[1] not in CHOICES:
            return JSONResponse({"error": f"nobody offers {row[1]}"}, 400)
        await asyncio.to_thread(db.upsert, "votes", [row])  # who votes again changes the vote
        return JSONResponse({"status": "ok"})

    async def changes(request: Request) -> Response:
        async def batches() -> AsyncIterator[str]:
            # A slow browser gets the net change, holds no vote up, and takes no memory.
            async with db.watch("result", snapshot=True, capacity=100, full="coalesce") as watch:
                waiting = asyncio.create_task(ending.wait())
                waiting.add_done_callback(lambda _: watch.close())
                try:
                    async for batch in watch:
                        yield batch.to_json()
                finally:
                    waiting.cancel()

        return EventSourceResponse(batches())

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.ending = ending
        yield
        db.close()

    routes = [Route("/", page), Route("/vote", vote, methods=["POST"]), Route("/changes", changes)]
    return Starlette(routes=routes, lifespan=lifespan)


class PollServer(uvicorn.Server):
    """Ends change streams when it is told to end; it would wait for their clients."""

    def handle_exit(self, sig: int, frame: object) -> None:
        """On Ctrl-C and SIGTERM."""
        app = self.config.app
        assert isinstance(app, Starlette)
        app.state.ending.set()
        super().handle_exit(sig, frame)  # type: ignore[arg-type]


def main(port: int = 8000) -> None:
    """Serve until Ctrl-C."""
    db = viewlet.connect()
    db.execute(SQL)
    config = uvicorn.Config(
        poll_app(db), port=port, log_level="warning", timeout_graceful_shutdown=5
    )
    server = PollServer(config)
    print(f"http://127.0.0.1:{port}/", flush=True)
    with suppress(KeyboardInterrupt):  # uvicorn raises it again once everything has ended
        server.run()
    print("ended", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8000)
    main(parser.parse_args().port)
