#!/usr/bin/env python3
"""Writes what tests compare with, so that they need no Python.

  fixtures.py DIRECTORY          (tests/model/data)

families.json: config.json of each family as transformers writes it, and some of its logits.
tokenizers.json: small tokenizers trained here, texts, and their tokens by the package `tokenizers`.
Needs torch, transformers and tokenizers.
"""
import json
import pathlib
import sys
import tempfile

import families
import texts
import vocabularies


def compact(value):
    return json.dumps(value, separators=(",", ":"))


def main():
    out = pathlib.Path(sys.argv[1])
    written = []
    for family in families.FAMILIES:
        model = families.model_of(family)
        logits = families.logits_of(model, families.TOKENS)
        with tempfile.TemporaryDirectory() as directory:
            model.config.save_pretrained(directory)
            config = json.loads((pathlib.Path(directory) / "config.json").read_text())
        rows = [0, 1, 20, 39]
        written.append({"family": family, "config": config, "tokens": families.TOKENS, "rows": rows,
                        "logits": [[float(f"{v:.7g}") for v in logits[r][:16]] for r in rows]})
    (out / "families.json").write_text("[\n" + ",\n".join(map(compact, written)) + "\n]\n")

    written = []
    for name, tokenizer in vocabularies.small().items():
        cases = [[text, tokenizer.encode(text, add_special_tokens=False).ids]
                 for text in texts.HARD + texts.random_texts(seed=name, count=20)]
        written.append({"name": name, "file": json.loads(tokenizer.to_str()), "cases": cases})
    (out / "tokenizers.json").write_text("[\n" + ",\n".join(map(compact, written)) + "\n]\n")


main()
