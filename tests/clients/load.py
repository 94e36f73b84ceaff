"""Many clients at once against a running server (LILY_URL), some of which hang up in the middle.

    LILY_URL=http://127.0.0.1:8080 python tests/clients/load.py --clients 64 --seconds 600 [--pid SERVER]

A warm-up of a tenth of the time comes first. Prints latencies, the answers by outcome and, with --pid, the server's memory
before, after the warm-up and at the end; and the longest that the engine let running streams wait, with its parts: at most
one chunk of prompts lies between two tokens of a stream. Gaps are those of streams that ask for log-probabilities, where
every token is a chunk of its own; elsewhere the reader of the answer may hold tokens back. Fails if an answer was wrong in
any other way than a full queue (503), if a stream stood still for longer than --stall seconds after its first token, if the
server is not idle again at the end or has lost a generation, or if its memory has grown since the warm-up by more than
--growth MiB.
"""

import argparse
import asyncio
import collections
import json
import os
import random
import statistics
import sys
import time

try:
    import httpx
except ImportError:
    print("skipped: no httpx package")
    sys.exit(0)

parser = argparse.ArgumentParser()
parser.add_argument("--clients", type=int, default=64)
parser.add_argument("--seconds", type=float, default=60)
parser.add_argument("--hang-up", type=float, default=0.1, help="share of requests whose client goes away")
parser.add_argument("--stall", type=float, default=30, help="seconds that a begun stream may stand still")
parser.add_argument("--prompt", type=int, default=600, help="most words of a prompt")
parser.add_argument("--tokens", type=int, default=64, help="most tokens of an answer")
parser.add_argument("--growth", type=float, default=96, help="MiB that the server may grow after the warm-up")
parser.add_argument("--pid", type=int)
options = parser.parse_args()

url = os.environ["LILY_URL"]
outcomes, first_tokens, gaps, totals, faults = collections.Counter(), [], [], [], []


def memory():
    """Resident bytes of the server."""
    if options.pid:
        with open(f"/proc/{options.pid}/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))
    return 0


def request(dice):
    words = " ".join(dice.choice(["sea", "stone", "tree", "light", "river"]) for _ in range(dice.randint(1, options.prompt)))
    form = {"response_format": {"type": "json_object"}} if dice.random() < 0.1 else {}
    body = {
        **form,
        "messages": [{"role": "user", "content": words}],
        "max_tokens": dice.randint(1, options.tokens),
        "stream": dice.random() < 0.7,
        "enable_thinking": dice.random() < 0.5,
        "logprobs": dice.random() < 0.5,
    }
    if body["stream"]:
        body["stream_options"] = {"include_usage": True}
    return body


async def read_stream(response, started, hang_up_after, every_token):
    """Reads a stream, or a part of it; returns how it ended."""
    last, tokens, done = None, 0, False
    async for line in response.aiter_lines():
        if not line.startswith("data: "):
            continue
        now = time.monotonic()
        if last is None:
            first_tokens.append(now - started)
        elif every_token:
            gaps.append(now - last)
        last, tokens = now, tokens + 1
        done = line == "data: [DONE]"
        if not done and "error" in json.loads(line[6:]):
            faults.append(line)
            return "error event"
        if hang_up_after and tokens >= hang_up_after:
            return "hung up"
    if not done:
        faults.append("a stream ended without [DONE]")
    return "streamed"


async def client(http, number, end):
    dice = random.Random(number)
    while time.monotonic() < end:
        body, started = request(dice), time.monotonic()
        hang_up = dice.random() < options.hang_up
        try:
            if hang_up and not body["stream"]:
                await asyncio.wait_for(http.post(f"{url}/v1/chat/completions", json=body), dice.random() / 2)
                outcomes["too fast to hang up"] += 1
                continue
            async with http.stream("POST", f"{url}/v1/chat/completions", json=body) as response:
                if response.status_code == 503:
                    outcomes["503"] += 1
                    await response.aread()
                    await asyncio.sleep(float(response.headers["retry-after"]) * dice.random())
                elif response.status_code != 200:
                    faults.append(f"{response.status_code}: {await response.aread()}")
                elif body["stream"]:
                    after = dice.randint(1, 10) if hang_up else 0
                    outcomes[await read_stream(response, started, after, body["logprobs"])] += 1
                    totals.append(time.monotonic() - started)
                else:
                    answer = json.loads(await response.aread())
                    assert answer["usage"]["completion_tokens"] <= body["max_tokens"]
                    outcomes["whole"] += 1
                    totals.append(time.monotonic() - started)
        except (asyncio.TimeoutError, TimeoutError):
            outcomes["hung up"] += 1
        except httpx.HTTPError as error:
            faults.append(repr(error))


def figures(name, values):
    if values:
        cuts = statistics.quantiles(values, n=100) if len(values) > 1 else values * 99
        print(f"{name}: median {cuts[49]:.3f} s, 95 % {cuts[94]:.3f} s, 99 % {cuts[98]:.3f} s, most {max(values):.3f} s ({len(values)})")


async def counters(http):
    """What the server has counted."""
    lines = [line.split() for line in (await http.get(f"{url}/metrics")).text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


async def idle(http):
    """Waits until nothing runs, and checks that every generation that was taken has come to some end."""
    for _ in range(100):
        health = (await http.get(f"{url}/health")).json()
        if health["running"] == health["waiting"] == 0:
            break
        await asyncio.sleep(0.1)
    else:
        faults.append(f"not idle: {health}")
    count = await counters(http)
    ended = sum(count[f"lily_{end}_total"] for end in ("finished", "failed", "cancelled"))
    if count["lily_accepted_total"] != ended:
        faults.append(f"{count['lily_accepted_total']:.0f} generations were taken and {ended:.0f} ended")
    return memory() / 2**20


async def run(http, seconds, first):
    end = time.monotonic() + seconds
    await asyncio.gather(*(client(http, first + number, end) for number in range(options.clients)))
    return await idle(http)


async def main():
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=options.clients)
    async with httpx.AsyncClient(timeout=httpx.Timeout(600), limits=limits) as http:
        before = memory() / 2**20
        warm = await run(http, options.seconds * 0.1, 1_000_000)
        for kept in (outcomes, first_tokens, gaps, totals):
            kept.clear()
        after = await run(http, options.seconds * 0.9, 0)
        count = await counters(http)
    print(dict(outcomes))
    figures("to the first token", first_tokens)
    figures("between tokens", gaps)
    figures("whole answers", totals)
    parts = {part: count[f"lily_longest_round_{part}seconds"] for part in ("", "prefill_", "decode_", "sampling_")}
    print("longest round of the engine: " + ", ".join(f"{part.strip('_') or 'all'} {value:.3f} s" for part, value in parts.items()))
    waits = {name[len("lily_inter_token_latency_seconds_bucket") :]: value for name, value in count.items() if "inter_token_latency_seconds_bucket" in name}
    print("tokens of the engine within seconds:", waits)
    if options.pid:
        print(f"memory: {before:.0f} MiB before, {warm:.0f} MiB after the warm-up, {after:.0f} MiB at the end")
    if gaps and max(gaps) > options.stall:
        faults.append(f"a stream stood still for {max(gaps):.1f} s")
    if options.pid and after > warm + options.growth:
        faults.append(f"the server has grown by {after - warm:.0f} MiB")
    for fault in faults[:10]:
        print("FAULT", fault)
    sys.exit(1 if faults else 0)


asyncio.run(main())
