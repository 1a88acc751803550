#!/usr/bin/env python3
"""What skerry makes of other programs' models and tokenizers, and they of skerry's: a table.

  compare.py BUILD [--texts N]       BUILD: build/release, with skerry-coordinator and skerry-node

Models: of each family a small one with given weights is saved by transformers (bf16, f16 or f32, one
file or several), begun with by `init --from`, exported, and read back by transformers; logits of
skerry-node on both directories and of transformers on the export must agree within 1e-4 of the
largest. GGUF: each type is opened by the package `gguf`, and its values held against the export's.
Training: parameters after three steps of AdamW on one window, beside PyTorch's, within 1e-3 of how far
each tensor moved. Speed: `data prepare` beside `tokenizers`, MB per processor second, with one vocabulary.
Tokenizers: N texts of each kind through `data prepare`, token by token against `tokenizers`, and against
`sentencepiece` for its two kinds of models, of the version that skerry's library has (0.1.97 on Debian
12): of two cuts with the same score later versions take the other one.
Needs torch, transformers, tokenizers, sentencepiece, gguf in a scratch environment; exit status 1:
something differs.
"""
import argparse
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile

import families
import gguf
import numpy
import texts
import torch
import training
import transformers
import vocabularies

RESULTS = []


def report(what, measure, good):
    RESULTS.append(good)
    print(f"{what:44} {measure:>34}  {'ok' if good else 'DIFFERS'}", flush=True)


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


def error_of(got, want):
    return float(numpy.abs(numpy.asarray(got) - want).max() / numpy.abs(want).max())


def compare_model(build, work, family, dtype, file_size):
    source, directory, out = work / "hf", work / "run", work / "out"
    model = families.model_of(family)
    for parameter in model.parameters():  # not the buffers: positions are float32 in any file
        parameter.data = parameter.data.to(dtype)
    model.save_pretrained(source, max_shard_size=file_size)
    want = families.logits_of(model.float(), families.TOKENS)
    run(build / "bin/skerry-coordinator", "init", directory, "--from", source)
    run(build / "bin/skerry-coordinator", "export", directory, "--out", out)
    worst = 0.0
    for where in (source, out):
        told = run(build / "bin/skerry-node", "logits", "--model", where, "--tokens",
                   ",".join(map(str, families.TOKENS)))
        worst = max(worst, error_of(json.loads(told), want))
    again = transformers.AutoModelForCausalLM.from_pretrained(out, torch_dtype=torch.float32).eval()
    worst = max(worst, error_of(families.logits_of(again, families.TOKENS), want))
    files = len(list(source.glob("*.safetensors")))
    name = f"{family}, {str(dtype)[6:]}, {files} file{'s'[:files > 1]}"
    report(f"model {name}", f"largest difference {worst:.1e}", worst < 1e-4)
    return directory, again


def halves_for_neighbours(matrix, heads):
    rows, columns = matrix.shape
    return matrix.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


GGUF_NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
              "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
              "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
              "post_attention_layernorm": "ffn_norm"}


def gguf_name(name):
    known = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
             "lm_head.weight": "output.weight"}
    if name in known:
        return known[name]
    _, _, layer, part = name.split(".", 3)
    stem, suffix = part.rsplit(".", 1)
    return f"blk.{layer}.{GGUF_NAMES[stem]}.{suffix}"


def compare_gguf(build, directory, family, model):
    limits = {"f32": 0.0, "f16": 2**-11, "bf16": 2**-8, "q8_0": 1 / 127}
    for kind, limit in limits.items():
        path = directory / f"{kind}.gguf"
        run(build / "bin/skerry-coordinator", "export", directory, "--format", "gguf", "--type", kind,
            "--out", path)
        reader = gguf.GGUFReader(path)
        found = {tensor.name: tensor for tensor in reader.tensors}
        worst = 0.0
        count = 0
        for name, parameter in model.named_parameters():
            want = parameter.detach().numpy()
            heads = {"q": model.config.num_attention_heads, "k": model.config.num_key_value_heads}
            for letter, number in heads.items():
                if model.config.model_type == "llama" and name.endswith(f"{letter}_proj.weight"):
                    want = halves_for_neighbours(want, number)
            tensor = found[gguf_name(name)]
            got = gguf.dequantize(tensor.data, tensor.tensor_type).reshape(want.shape)
            worst = max(worst, error_of(got, want))
            count += 1
        extra = len(found) - count
        report(f"gguf {family}, {kind}", f"{count}+{extra} tensors, {worst:.1e}", worst <= limit * 1.01)


def tokens_of_data(directory):
    index = json.loads((directory / "index.json").read_text())
    kind = {1: numpy.uint8, 2: numpy.uint16, 4: numpy.uint32}[index["token_bytes"]]
    shards = [s["file"] for s in index["shards"] if s["split"] == "train"]
    return numpy.concatenate([numpy.fromfile(directory / s, dtype=kind, offset=64) for s in shards])


def compare_tokens(build, work, name, path, made, theirs):
    """One JSON line a text; the end-of-text token tells where each ends. `theirs`: tokens of each."""
    lines = work / "texts.jsonl"
    with open(lines, "w") as file:
        for text in made:
            file.write(json.dumps({"text": text}) + "\n")
    run(build / "bin/skerry-coordinator", "data", "prepare", lines, "--out", work / "data", "--tokenizer", path,
        "--validation", "0")
    want = [token for tokens in theirs for token in tokens]
    got = tokens_of_data(work / "data")
    same = len(got) == len(want) and bool((got == numpy.array(want)).all())
    report(f"tokenizer {name}", f"{len(made)} texts, {len(want)} tokens", same)


def compare_tokenizer(build, work, name, tokenizer, count):
    path = work / "tokenizer.json"
    tokenizer.save(str(path))
    made = texts.HARD + texts.random_texts(f"compare {name}", count)
    separator = tokenizer.token_to_id("<|endoftext|>")
    separator = tokenizer.token_to_id("</s>") if separator is None else separator
    theirs = [encoded.ids + [separator] for encoded in tokenizer.encode_batch(made, add_special_tokens=False)]
    compare_tokens(build, work, name, path, made, theirs)


def compare_sentence_piece(build, work, kind, count):
    tokenizer = vocabularies.sentence_piece(kind, work / "trained")
    made = texts.HARD + texts.random_texts(f"compare {kind}", count)
    theirs = [tokens + [tokenizer.eos_id()] for tokens in tokenizer.encode(made)]
    compare_tokens(build, work, f"sentencepiece, {kind}", work / "trained.model", made, theirs)


def compare_speed(build):
    with tempfile.TemporaryDirectory() as work:
        ours, theirs, our_tokens, their_tokens = training.speeds(build, pathlib.Path(work), run, english())
    report("data prepare, BPE of 32,000", f"{ours:.1f} MB/s, tokenizers {theirs:.1f}: {ours / theirs:.1f} times",
           abs(our_tokens / their_tokens - 1) < 1e-3)


def english():
    """20 MB of Debian's dict-gcide."""
    with gzip.open("/usr/share/dictd/gcide.dict.dz") as file:
        return file.read(20_000_000).decode("utf-8", errors="ignore")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--texts", type=int, default=100000)
    options = parser.parse_args()
    kinds = [(torch.float32, "5GB"), (torch.bfloat16, "5GB"), (torch.float16, "20KB")]
    for i, family in enumerate(families.FAMILIES):
        dtype, size = kinds[i % 3]
        with tempfile.TemporaryDirectory() as work:
            directory, model = compare_model(options.build, pathlib.Path(work), family, dtype, size)
            compare_gguf(options.build, directory, family, model)
            worst = training.compare_steps(options.build, pathlib.Path(work) / "steps", family, run)
            report(f"training {family}, {training.STEPS} steps of AdamW", f"largest difference {worst:.1e}",
                   worst < 1e-3)
    compare_speed(options.build)
    for name, tokenizer in vocabularies.all_of(2000).items():
        with tempfile.TemporaryDirectory() as work:
            compare_tokenizer(options.build, pathlib.Path(work), name, tokenizer, options.texts)
    for kind in ("bpe", "unigram"):
        with tempfile.TemporaryDirectory() as work:
            compare_sentence_piece(options.build, pathlib.Path(work), kind, options.texts)
    print(f"{sum(RESULTS)} of {len(RESULTS)} agree")
    sys.exit(0 if all(RESULTS) else 1)


main()
