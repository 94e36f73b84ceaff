"""Train lily-nano for a fixed wall-clock time on one GPU (or, to try it, on the CPU).

Chats are generated on the fly by worker processes, so none is seen twice; the text corpora repeat. The last part trains
through MLX-style 4-bit fake quantisation.
"""

import argparse
import json
import math
import multiprocessing
import os
import time
from dataclasses import dataclass

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

import model as M
from batches import Mixture, Packer, text_rows, work
from chats.sampler import load_json
from optimiser import FLOAT32, Optimiser, Weights

SHARD = 15_500_000  # most bytes of one shard


@dataclass
class Schedule:
    """Shares of the run: when quantised training and the decay of the rate start; and the rate's peak."""

    quantised_from: float = 0.72
    decay_from: float = 0.40
    peak: float = 1.0

    def rate(self, done, step):
        warmed = self.peak * min(1.0, (step + 1) / 60)
        if done < self.decay_from:
            return warmed
        return warmed * (max(0.0, (1 - done) / (1 - self.decay_from)) * 0.98 + 0.02)


class Trainer:
    def __init__(self, options):
        self.options, self.device = options, torch.device(options.device)
        self.compiled = self.device.type == "cuda"
        self.c = M.Cfg()
        tokenizer = Tokenizer.from_file(f"{options.data}/tokenizer.json")
        self.end = tokenizer.token_to_id("<|endoftext|>")

        def encode(documents):
            return [np.array(e.ids + [self.end], np.uint16) for e in tokenizer.encode_batch(documents)]

        self.texts = encode(load_json(f"{options.data}/text_train.json"))
        held = load_json(f"{options.data}/text_eval_by_source.json")
        self.held_out = {name: encode(documents) for name, documents in held.items()}
        self.mixture, self.schedule = Mixture(), Schedule()
        if options.initial:  # go on from trained weights: lower rate, quantised from the start, short rows
            self.mixture = Mixture(text=0.035, long_rows=0.0)
            self.schedule = Schedule(quantised_from=-1.0, decay_from=0.15, peak=0.5)
        torch.manual_seed(0)
        self.initial = M.init_params(self.c, "cpu", 0)
        self.load_initial(options.initial)
        self.weights = Weights(self.initial, self.device)
        self.optimiser = Optimiser(self.weights, self.compiled)

    def load_initial(self, folder):
        with torch.no_grad():
            for name in sorted(os.listdir(folder)) if folder else []:
                if name.endswith(".safetensors"):
                    for key, value in load_file(f"{folder}/{name}").items():
                        self.initial[key].copy_(value.float())

    def packer(self, seed, text_seed):
        return Packer(self.options.data, self.texts, seed, self.mixture, text_seed)

    def on_device(self, batch):
        """(inputs, targets, weights, positions, document starts, longest document) as tensors."""
        ids, weights, positions, bounds, longest = batch

        def move(array, kind):
            tensor = torch.from_numpy(array.astype(kind))
            return tensor.pin_memory().to(self.device, non_blocking=True) if self.compiled else tensor

        ids = move(ids, np.int64)
        return (
            ids[:, :-1].contiguous(),
            ids[:, 1:].contiguous(),
            move(weights[:, 1:], np.float32) / 100,
            move(positions, np.int64),
            move(bounds, np.int32),
            longest,
        )

    def losses(self, weights, batch):
        """Cross-entropy, log-partition and balance losses, expert loads, and the loss of every token."""
        inputs, targets, token_weights, positions, bounds, longest = batch
        hidden, balance, loads = M.forward(weights, self.c, inputs, positions, bounds, longest)
        head = weights["model.norm.weight"], weights["lm_head.weight"]
        ce, partition, nll = M.fns["head_loss"](hidden, *head, targets, token_weights, self.c)
        return ce, partition, balance, loads, nll

    def backward(self, batch, quantised):
        ce, partition, balance, loads, _ = self.losses(self.weights.working(quantised), batch)
        (ce + 1e-4 * partition + 0.01 * balance).backward()
        return ce, balance, loads

    @torch.no_grad()
    def check(self):
        """The bf16 pass on the device against the float32 pass on the CPU."""
        batch = self.on_device(self.packer(5, 5).rows(2, 1024))
        on_cpu = [t.cpu() if torch.is_tensor(t) else t for t in batch]
        expected = self.losses({name: value.detach() for name, value in self.initial.items()}, on_cpu)
        got = self.losses(self.weights.working(False), batch)
        error = ((got[4].cpu() - expected[4]).norm() / expected[4].norm()).item()
        print(
            f"check: f32 loss {expected[0].item():.5f}, bf16 loss {got[0].item():.5f}, token losses differ by {error:.1e}"
        )

    def use_fused_scan(self):
        """The Triton scan, if it agrees with the plain one on this machine."""
        try:
            import scan_triton

            error = scan_triton.check(M.Scan, self.device, 32, 128)
        except Exception as fault:  # no Triton, or no GPU that it knows: the plain scan is right, only slower
            print(f"fused scan not used: {fault!r}"[:300], flush=True)
            return
        print(f"fused scan: relative error {error:.1e}", flush=True)
        if error < 5e-3:
            M.Scan = scan_triton.ScanTriton

    def warm_up(self):
        """Compiles every shape, then puts all state back."""
        before = {name: value.clone() for name, value in self.weights.masters().items()}
        packer = self.packer(5, 6)
        for length in (2048, 4096) if self.mixture.long_rows else (2048,):
            batch = self.on_device(packer.rows(max(1, self.options.batch_tokens // length), length))
            for quantised in (False, True):
                self.backward(batch, quantised)
            self.optimiser.step(1, 1.0, 0.85)
        self.evaluate(False)
        for name, value in self.weights.masters().items():
            value.copy_(before[name])
        self.optimiser.forget()
        if self.compiled:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()

    @torch.no_grad()
    def evaluate(self, quantised):
        """Nats per token of held-out text by source, and of held-out chats (completions only)."""
        weights, out = self.weights.working(quantised), {}
        for name, texts in self.held_out.items():
            out[name] = self.losses(weights, self.on_device(text_rows(texts, self.end)))[0].item()
        everything = [text for texts in self.held_out.values() for text in texts]
        packer = Packer(self.options.data, everything, 77, self.mixture, 9, evaluation=True)
        ids, token_weights, *rest = packer.rows(8, 2048)
        token_weights = np.where(token_weights == 100, 100, 0).astype(np.uint8)
        out["chat"] = self.losses(weights, self.on_device((ids, token_weights, *rest)))[0].item()
        return out

    def save(self):
        """bf16 shards; what the model keeps in float32 stays so."""
        os.makedirs(self.options.out, exist_ok=True)
        shards, size = [{}], 0
        for name, value in self.weights.masters().items():
            kind = torch.float32 if name.endswith(FLOAT32) else torch.bfloat16
            tensor = value.to(kind).cpu().contiguous()
            if size + tensor.nbytes > SHARD:
                shards.append({})
                size = 0
            shards[-1][name] = tensor
            size += tensor.nbytes
        for i, shard in enumerate(shards):
            save_file(shard, f"{self.options.out}/shard{i}.safetensors")

    def run(self, queue):
        """Trains for the given time; gives the log and what a step saw last."""
        schedule, seconds = self.schedule, self.options.seconds
        log, step, saved, start, last, waited = [], 0, False, time.time(), time.time(), 0.0
        while (done := (time.time() - start) / seconds) < 1:
            asked = time.time()
            batch = self.on_device(queue.get())
            waited += time.time() - asked
            rate = schedule.rate(done, step)
            ce, balance, loads = self.backward(batch, done > schedule.quantised_from)
            step += 1
            norm = self.optimiser.step(step, rate, 0.85 + 0.1 * min(1.0, step / 200))
            if step % 25 == 0:
                loads = torch.stack(loads)
                row = {
                    "step": step,
                    "s": time.time() - start,
                    "loss": ce.item(),
                    "balance": balance.item(),
                    "rate": rate,
                }
                row |= {"load_min": loads.min().item(), "load_max": loads.max().item(), "gradient": norm.item()}
                log.append({name: round(value, 4) for name, value in row.items()})
                if step % 100 == 0 or step < 200:
                    speed = 25 * self.options.batch_tokens / (time.time() - last)
                    print(log[-1], f"{speed:.0f} tokens/s, waited {waited:.2f} s", flush=True)
                last, waited = time.time(), 0.0
                if not math.isfinite(row["loss"]):
                    raise SystemExit("the loss is not finite, stopping")
            if step % 500 == 0 and done < 0.97 and not self.options.initial:
                log.append({"step": step, "eval": self.evaluate(done > schedule.quantised_from)})
                print(log[-1], flush=True)
            if done > 0.6 and not saved:
                self.save()
                saved = True
        return log, step, time.time() - start


def main(options):
    start = time.time()
    torch.backends.cuda.matmul.allow_tf32 = True
    trainer = Trainer(options)
    tokens = sum(map(len, trainer.texts))
    print(
        f"{tokens / 1e6:.2f} M tokens of text in {len(trainer.texts)} documents, {time.time() - start:.0f} s",
        flush=True,
    )
    context = multiprocessing.get_context("spawn")
    queue = context.Queue(64)
    workers = [
        context.Process(
            target=work,
            args=(queue, options.data, trainer.texts, 1000 + i, trainer.mixture, options.batch_tokens),
            daemon=True,
        )
        for i in range(options.workers)
    ]
    for worker in workers:
        worker.start()
    trainer.check()
    if trainer.compiled:
        M.compile_all()
        trainer.use_fused_scan()
        trainer.warm_up()
        print(f"compiled after {time.time() - start:.0f} s", flush=True)
    log, steps, seconds = trainer.run(queue)
    final = {"bf16": trainer.evaluate(False), "q4": trainer.evaluate(True), "steps": steps, "seconds": seconds}
    if trainer.compiled:
        final["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
    print("final", json.dumps(final), flush=True)
    trainer.save()
    with open(f"{options.out}/train_log.json", "w", encoding="utf8") as file:
        json.dump({"final": final, "log": log}, file)
    for worker in workers:
        worker.terminate()
    print(f"done after {time.time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="the DATA folder, with tokenizer.json")
    parser.add_argument("out", help="folder to write shards and train_log.json into")
    parser.add_argument("seconds", type=float, help="training time (440 for the published weights)")
    parser.add_argument("--device", default="cuda", help="cuda (default) or cpu")
    parser.add_argument("--workers", type=int, default=13, help="processes that make chats")
    parser.add_argument("--batch-tokens", type=int, default=65536)
    parser.add_argument("--initial", help="folder of shards to go on from, quantised from the start")
    main(parser.parse_args())
