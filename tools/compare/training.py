"""Steps of AdamW beside PyTorch's, and how fast texts become tokens beside the package `tokenizers`."""
import json
import os
import resource
import time

import families
import numpy
import torch
import transformers

CONTEXT, STEPS, RATE = 64, 3, 1e-3
RUN = f"""[run]
steps = {STEPS}
[model]
context = {CONTEXT}
[inner]
learning_rate = {RATE}
min_learning_rate = {RATE}
warmup_steps = 0
clip_norm = 0.0
epsilon = 1e-6
[outer]
inner_steps = 1
overlap_steps = 0
[pipeline]
microbatches_per_step = 2
sequences_per_microbatch = 1
skip_ratio = 0.0
"""
# The one window of training that there is, so that its order says nothing.
WINDOW = [(7 * i * i + 3 * i + 5) % 251 for i in range(CONTEXT + 1)]


def steps_of_torch(model):
    """As RUN says, decay of matrices only. Epsilon is large: what has a gradient of almost nothing would move by
    its rounding."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}],
        lr=RATE, betas=(0.9, 0.95), eps=1e-6)
    tokens = torch.tensor([WINDOW])
    for _ in range(STEPS):
        logits = model(tokens[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), tokens[0, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def compare_steps(build, work, family, run):
    """Of each tensor: how far both are apart, beside how far it moved; the worst."""
    source, directory, out = work / "hf", work / "run", work / "out"
    work.mkdir()
    model = families.model_of(family, vocab_size=256)
    model.save_pretrained(source)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for name in ("train", "val"):
        numpy.array(WINDOW, dtype=numpy.uint16).tofile(work / f"{name}.bin")
    (work / "run.toml").write_text(RUN)
    coordinator, node = build / "bin/skerry-coordinator", build / "bin/skerry-node"
    run(coordinator, "data", "prepare", work / "train.bin", work / "val.bin", "--out", work / "shards")
    run(coordinator, "init", directory, "--from", source, "--config", work / "run.toml", "--shards",
        work / "shards")
    run(node, "reference", "--config", directory / "run.toml", "--data", directory / "data", "--from", source,
        "--out", out)
    steps_of_torch(model)
    again = dict(transformers.AutoModelForCausalLM.from_pretrained(out).named_parameters())
    return max(float((again[name] - p).norm() / (p - before[name]).norm())
               for name, p in model.named_parameters())


def processor_seconds(who):
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def speeds(build, work, run, text, tokens=32000):
    """MB per processor second of `data prepare`, and of `tokenizers` on the same pieces and vocabulary."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import tokenizers
    path, vocabulary = work / "text.txt", work / "tokenizer.json"
    path.write_text(text, encoding="utf-8")
    coordinator = build / "bin/skerry-coordinator"
    (work / "part.txt").write_text(text[:5_000_000], encoding="utf-8")
    run(coordinator, "data", "tokenizer", work / "part.txt", "--out", vocabulary, "--tokens", tokens)
    begun = processor_seconds(resource.RUSAGE_CHILDREN)
    run(coordinator, "data", "prepare", path, "--out", work / "data", "--tokenizer", vocabulary)
    ours = processor_seconds(resource.RUSAGE_CHILDREN) - begun
    theirs = tokenizers.Tokenizer.from_file(str(vocabulary))
    pieces = [text[at:at + 65536] for at in range(0, len(text), 65536)]
    begun = time.process_time()
    count = sum(len(encoded.ids) for encoded in theirs.encode_batch(pieces, add_special_tokens=False))
    other = time.process_time() - begun
    index = json.loads((work / "data/index.json").read_text())
    megabytes = len(text.encode()) / 1e6
    return megabytes / ours, megabytes / other, sum(s["tokens"] for s in index["shards"]), count
